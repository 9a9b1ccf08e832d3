"""Rows put aside on local disk by partition, so that a write needs memory for one partition at a time, however many come."""

from __future__ import annotations

import shutil
import tempfile
from collections import OrderedDict, defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

import pyarrow as pa

from indextables.write.partitioning import PartitionKey

MOST_OPEN_FILES = 128


class Spill:
    """A folder of Arrow files, a few per partition; gone when it closes."""

    def __init__(self, schema: pa.Schema, *, folder: str | None = None) -> None:
        self._schema = schema
        self._folder = Path(tempfile.mkdtemp(prefix="indextables-spill-", dir=folder or None))
        self._files: defaultdict[PartitionKey, list[Path]] = defaultdict(list)
        self._open: OrderedDict[PartitionKey, pa.RecordBatchStreamWriter] = OrderedDict()
        self._count = 0

    def add(self, key: PartitionKey, batch: pa.RecordBatch) -> None:
        """Put rows of a partition aside."""
        writer = self._open.get(key)
        if writer is None:
            if len(self._open) >= MOST_OPEN_FILES:
                self._open.popitem(last=False)[1].close()
            writer = self._open[key] = self._new_file(key)
        self._open.move_to_end(key)
        writer.write_batch(batch)

    def partitions(self) -> Iterator[tuple[PartitionKey, Iterator[pa.RecordBatch]]]:
        """Each partition and its rows, in the order they came; the partitions sorted by their values."""
        while self._open:
            self._open.popitem()[1].close()
        for key in sorted(self._files, key=lambda k: tuple((v is not None, v or "") for v in k)):
            yield key, self._rows(self._files[key])

    def _new_file(self, key: PartitionKey) -> pa.RecordBatchStreamWriter:
        self._count += 1
        path = self._folder / f"{self._count}.arrow"
        self._files[key].append(path)
        return pa.ipc.new_stream(str(path), self._schema, options=pa.ipc.IpcWriteOptions(compression="lz4"))

    @staticmethod
    def _rows(files: list[Path]) -> Iterator[pa.RecordBatch]:
        for path in files:
            with pa.ipc.open_stream(str(path)) as reader:
                yield from reader
            path.unlink()

    def __enter__(self) -> Spill:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        while self._open:
            self._open.popitem()[1].close()
        shutil.rmtree(self._folder, ignore_errors=True)

"""Open splits of a companion: an index whose rows are in the files of a source, or a file of the
source that no split indexes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import pyarrow as pa
from msgspec import Struct

from indextables.config.splits import RangeSettings
from indextables.errors import BadFileError
from indextables.metrics import METRICS
from indextables.splits.format.source import open_source
from indextables.splits.index.mapping import DocMapping
from indextables.splits.index.table_schema import TableSchema
from indextables.splits.read.cache import SplitCache
from indextables.splits.read.directory import RowMask
from indextables.splits.read.reader import SplitReader
from indextables.splits.read.source_bytes import SourceBytes
from indextables.splits.read.source_rows import CompanionReader, SourceParquet
from indextables.splits.read.table_split import SplitEntry, TableSplit, row_mask
from indextables.storage.spec import StoreSpec, open_store
from indextables.storage.store import Store


class SourceFolder(Struct, frozen=True):
    """Where the rows of a companion are and how its table indexes them. Picklable."""

    spec: StoreSpec
    mapping_json: str
    """How the table indexes the columns, whatever a split has indexed."""

    @property
    def mapping(self) -> DocMapping:
        """How the table indexes the columns."""
        return DocMapping.from_json(self.mapping_json)

    def open(self) -> Store:
        """Open the store of the source."""
        return open_store(self.spec)


class CompanionOpener:
    """Opens the splits of one scan of a companion."""

    def __init__(
        self,
        folder: SourceFolder,
        store: Store,
        schema: pa.Schema,
        partition_columns: Sequence[str],
        *,
        cache: SplitCache,
        ranges: RangeSettings,
    ) -> None:
        """`store` is the store of the companion's own splits, `schema` are the columns of the
        table.
        """
        self._folder = folder
        self._store = store
        self._source = folder.open()
        self._schema = schema
        self._partition_columns = tuple(partition_columns)
        self._body = TableSchema(schema, self._partition_columns).stored
        self._cache = cache
        self._ranges = ranges

    def open(self, entry: SplitEntry) -> TableSplit:
        """Open a split, shared with other scans of the process that see the same rows."""
        key = f"companion {self._folder.spec.url} {self._store.url} {entry.path}"
        known = self._cache.opened.get(key)
        if isinstance(known, _OpenCompanionSplit) and known.serves(self, entry):
            return known.split
        split = self.open_alone(entry)
        size = 9 * split.stored_rows if split.mask is not None else 0
        reader = split.index_reader
        if reader is not None:
            size += len(reader.tail.data)
        opened = _OpenCompanionSplit(
            split, entry, self._schema, self._partition_columns, self._folder, self._store
        )
        self._cache.opened.put(key, opened, size + 1_000 * len(entry.sources))
        return split

    def find_open(self, entry: SplitEntry) -> TableSplit | None:
        """Return the split if this process has it open, or None."""
        key = f"companion {self._folder.spec.url} {self._store.url} {entry.path}"
        known = self._cache.opened.get(key)
        if isinstance(known, _OpenCompanionSplit) and known.serves(self, entry):
            return known.split
        return None

    def open_alone(self, entry: SplitEntry) -> TableSplit:
        """Open a split for one scan, so that its reads are counted from the opening on."""
        files = [
            (
                file,
                SourceParquet(
                    SourceBytes(self._source, file.path, file.size, file.stamp, self._ranges),
                    self._body,
                    self._cache,
                    file.rows,
                ),
            )
            for file in entry.sources
        ]
        index = None if entry.footer_start is None else self._open_index(entry)
        reader = CompanionReader(entry.path, files, self._body, self._folder.mapping, index)
        METRICS.count("splits_opened_total")
        constants = {name: entry.partition_values.get(name) for name in self._partition_columns}
        mask = row_mask(self._store, entry.path, entry.vector, entry.deleted, reader.num_rows)
        if mask is not None:
            # The vector of a snapshot of the source can be long; its name is only compared.
            digest = hashlib.sha256(mask.vector.encode()).hexdigest()[:32]
            mask = RowMask(digest, mask.alive)
        return TableSplit(reader, self._schema, constants, mask)

    def _open_index(self, entry: SplitEntry) -> SplitReader:
        source = open_source(self._store, entry.path, size=entry.size, ranges=self._ranges)
        index = SplitReader.open(source, footer_start=entry.footer_start, cache=self._cache)
        recorded = index.table.indexed_source
        if recorded is None or recorded.files != entry.sources:
            message = f"The split {entry.path} indexes other files than the log says."
            raise BadFileError(message, path=entry.path)
        return index


class _OpenCompanionSplit(Struct, frozen=True):
    """A split and the parameters it was opened with."""

    split: TableSplit
    entry: SplitEntry
    schema: pa.Schema
    partition_columns: tuple[str, ...]
    folder: SourceFolder
    store: Store

    def serves(self, opener: CompanionOpener, entry: SplitEntry) -> bool:
        """Return whether it would be opened in the same way."""
        same_rows = (entry.vector, entry.deleted, entry.sources, dict(entry.partition_values)) == (
            self.entry.vector,
            self.entry.deleted,
            self.entry.sources,
            dict(self.entry.partition_values),
        )
        if opener._store is not self.store and opener._store.local_path(entry.path) is None:
            return False  # a remote store has credentials
        reader = self.split.reader
        return (
            same_rows
            and isinstance(reader, CompanionReader)
            and reader.is_current
            and entry.size == self.entry.size
            and opener._folder == self.folder
            and opener._partition_columns == self.partition_columns
            and opener._schema.equals(self.schema, check_metadata=True)
        )

"""A write of rows as a value: planned where the table is open, executed in one or many processes,
finished by one commit.

    write = plan_row_write(spec, header, data, ...)    # schema and settings checked against the
        table
    added = write.run(batches)                         # in any process: rows become splits and log
        entries
    write.changes(added)                               # the one commit of everything

A `RowWrite` is picklable; store and writers are opened where it runs. Split names are random, so a
task that runs twice never overwrites the other run's files; files that no commit names are orphans.

Rows are divided by partition and spilled to local disk, so that memory is needed for one partition
at a time. Rows keep their order within a partition.
"""

from __future__ import annotations

import shutil
import time
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct
from msgspec.structs import replace

from indextables import config
from indextables.config import Settings
from indextables.config.indexing import SearchSettings
from indextables.config.splits import SplitWriterSettings, StatsSettings
from indextables.handle import ENGINE_INFO
from indextables.log.live_files import (
    every_file,
    files_of_partitions,
    files_within,
    no_file_of_a_new_table,
)
from indextables.log.transaction import Changes, LiveSelection
from indextables.model.actions import AddAction, MetadataAction
from indextables.model.arguments import transaction_id
from indextables.model.column_names import ColumnNames, column_names
from indextables.model.conflicts import PURGE_TXN, Operation
from indextables.model.predicate import Predicate, bound_predicate
from indextables.model.schema import schema_from_json
from indextables.model.schema_registry import without_registry
from indextables.model.snapshot import Header
from indextables.model.values import encode_value
from indextables.operations.incoming import conform, only, replaced_schema, widen_schema
from indextables.operations.write_request import WriteRequest
from indextables.pools import WRITES
from indextables.splits.format.container import SplitInfo
from indextables.splits.format.section_table import Origin
from indextables.splits.index.mapping import DocMapping, compatible_mapping, recorded_as
from indextables.splits.index.table_schema import TableSchema
from indextables.splits.index.tantivy_files import scratch_folder, writing_errors
from indextables.splits.write.writer import new_split_name, split_path, write_splits
from indextables.storage.spec import StoreSpec, open_store, open_table_store
from indextables.storage.store import Store

PartitionKey = tuple[str | None, ...]


def partitions(
    batch: pa.RecordBatch, columns: Sequence[str]
) -> Iterator[tuple[PartitionKey, pa.RecordBatch]]:
    """Yield each partition of the batch: its values as in the log, and its rows without the
    partition columns.
    """
    body = batch.drop_columns(list(columns)) if columns else batch
    if not columns:
        yield (), body
        return
    if batch.num_rows == 0:
        return
    codes, keys = _codes(batch, columns)
    order = np.argsort(codes, kind="stable")
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    for start, end in zip(starts, [*starts[1:], len(order)], strict=True):
        rows = order[start:end]
        yield keys[int(codes[rows[0]])], body if len(starts) == 1 else body.take(pa.array(rows))


def _codes(
    batch: pa.RecordBatch, columns: Sequence[str]
) -> tuple[np.ndarray, dict[int, PartitionKey]]:
    """Return a number for each row's combination of values, and the combinations."""
    total = np.zeros(batch.num_rows, dtype=np.int64)
    texts: list[list[str | None]] = []
    for name in columns:
        encoded = pc.dictionary_encode(batch.column(name), null_encoding="encode")
        texts.append([encode_value(value) for value in encoded.dictionary])
        total = total * len(encoded.dictionary) + encoded.indices.to_numpy()
    keys: dict[int, PartitionKey] = {}
    for code in np.unique(total):
        rest, values = int(code), []
        for choices in reversed(texts):
            rest, place = divmod(rest, len(choices))
            values.append(choices[place])
        keys[int(code)] = tuple(reversed(values))
    return total, keys


MOST_OPEN_FILES = 128


class Spill:
    """A folder of Arrow files, a few per partition; deleted on close."""

    def __init__(self, schema: pa.Schema, *, folder: str | None = None) -> None:
        self._schema = schema
        self._folder = scratch_folder("spill", folder)
        self._files: defaultdict[PartitionKey, list[Path]] = defaultdict(list)
        self._open: OrderedDict[PartitionKey, pa.RecordBatchStreamWriter] = OrderedDict()
        self._count = 0

    def add(self, key: PartitionKey, batch: pa.RecordBatch) -> None:
        """Add rows of a partition."""
        with self._errors():
            writer = self._open.get(key)
            if writer is None:
                if len(self._open) >= MOST_OPEN_FILES:
                    self._open.popitem(last=False)[1].close()
                writer = self._open[key] = self._new_file(key)
            self._open.move_to_end(key)
            writer.write_batch(batch)

    def partitions(self) -> Iterator[tuple[PartitionKey, Iterator[pa.RecordBatch]]]:
        """Yield each partition with its rows in order of arrival; partitions sorted by their
        values.
        """
        with self._errors():
            while self._open:
                self._open.popitem()[1].close()
        for key in sorted(self._files, key=lambda k: tuple((v is not None, v or "") for v in k)):
            yield key, self._rows(self._files[key])

    def _new_file(self, key: PartitionKey) -> pa.RecordBatchStreamWriter:
        self._count += 1
        path = self._folder / f"{self._count}.arrow"
        self._files[key].append(path)
        return pa.ipc.new_stream(
            str(path), self._schema, options=pa.ipc.IpcWriteOptions(compression="lz4")
        )

    def _rows(self, files: list[Path]) -> Iterator[pa.RecordBatch]:
        for path in files:
            with self._errors():
                reader = pa.ipc.open_stream(str(path))
            with reader:
                yield from reader
            path.unlink()

    def _errors(self) -> AbstractContextManager[None]:
        return writing_errors(str(self._folder), "Putting rows aside by their partition")

    def __enter__(self) -> Spill:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with suppress(OSError):  # what is not written out is not wanted any more
            while self._open:
                self._open.popitem()[1].close()
        shutil.rmtree(self._folder, ignore_errors=True)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


NOT_CREATED = Header().version
"""The version of a write's plan if the table does not exist yet."""


class RowWrite(Struct, frozen=True):
    """A planned write: what tasks need to write rows as splits, and what the commit needs to add
    them. Picklable.

    Options may hold credentials, so they are not in the repr.
    """

    spec: StoreSpec
    header: Header
    """The table at planning time, or as it will be created: the basis of the commit's checks (R18).
    """
    schema_json: str
    partition_columns: tuple[str, ...]
    mapping: DocMapping
    splits: SplitWriterSettings
    stats: StatsSettings
    new_metadata: MetadataAction | None = None
    """The metadata that the write sets; None if unchanged."""
    request: WriteRequest = WriteRequest()
    """The request, with its condition bound to the logical columns."""
    where: Predicate | None = None
    """Which rows are replaced, by physical column names."""
    options: Mapping[str, object] = {}
    """Options with which the table is opened or created for the commit."""

    def __repr__(self) -> str:
        return f"RowWrite({self.request.operation} to {self.spec.url!r}, planned on version {self.read_version})"

    def with_request(self, **changes: Any) -> RowWrite:
        """Return the write with other fields of its request."""
        return replace(self, request=replace(self.request, **changes))

    @property
    def condition(self) -> str | None:
        """Which rows are replaced, as text with logical column names."""
        if self.request.where is None:
            return None
        return str(self.request.where)

    @property
    def read_version(self) -> int:
        """The version of the table at planning time; `NOT_CREATED` if there was none."""
        return self.header.version

    @property
    def table(self) -> MetadataAction:
        """The metadata of the table at planning time, or of the table to be created."""
        assert self.header.metadata is not None
        return self.header.metadata

    @property
    def layout(self) -> tuple[str, tuple[str, ...], DocMapping]:
        """What splits depend on: columns, partitions, and the index of each column."""
        return self.schema_json, self.partition_columns, self.mapping

    @property
    def may_miss_text(self) -> bool:
        """Whether the write creates a table without a text column."""
        return self.read_version == NOT_CREATED and not self.mapping.of_kind("text")

    def run(
        self,
        batches: Iterable[pa.RecordBatch],
        *,
        store: Store | None = None,
        new_name: Callable[[], str] = new_split_name,
        now_ms: Callable[[], int] = _now_ms,
    ) -> list[AddAction]:
        """Write rows as splits that are not part of the table yet. On failure the uploaded splits
        are deleted.
        """
        # The first rows are written before there is a table.
        opener = open_store if self.read_version == NOT_CREATED else open_table_store
        task = _TaskRun(self, store or opener(self.spec), new_name, now_ms)
        names = column_names(self.schema_json)
        rows = (names.to_physical(conform(batch, names.logical)) for batch in batches)
        try:
            task.write(
                rows
                if self.where is None
                else only(self.where, rows, task.schema, shown=self.condition)
            )
        except BaseException:
            task.abandon()
            raise
        return task.added

    def changes(
        self,
        added: Sequence[AddAction],
        *,
        parameters: Mapping[str, Any] | None = None,
        candidates: Mapping[str, str | None] = {},
    ) -> Changes:
        """Return the commit that adds the splits to the table.

        `candidates` are live splits that may match `where` in part, with their deletion vectors;
        the caller adds their replacement.
        """
        if self.where is None:
            condition = {}
        else:
            condition = {"where": self.condition}
        request = self.request
        return Changes(
            request.operation,
            adds=tuple(added),
            selected=self._select_replaced(added, candidates),
            metadata=self.new_metadata,
            parameters={**condition, **(parameters or {})},
            txn=request.txn,
            shared=request.shared,
            marks=request.marks,
            user_metadata=request.user_metadata,
            engine_info=ENGINE_INFO,
        )

    def _select_replaced(
        self, added: Sequence[AddAction], candidates: Mapping[str, str | None]
    ) -> LiveSelection | None:
        if not self.request.exist_ok:
            return no_file_of_a_new_table
        if self.request.operation is Operation.APPEND:
            return None
        if self.request.dynamic_partitions:
            return files_of_partitions(a.partition_values or {} for a in added)
        if self.where is None:
            return every_file
        return files_within(self.where, self.partition_columns, inspected=candidates)


class _TaskRun:
    """One task's execution of a write: where its rows go, and what was uploaded so far."""

    def __init__(
        self, plan: RowWrite, store: Store, new_name: Callable[[], str], now_ms: Callable[[], int]
    ) -> None:
        self.schema = schema_from_json(plan.schema_json)
        self.added: list[AddAction] = []
        self._plan = plan
        self._store = store
        self._new_name = new_name
        self._now_ms = now_ms
        self._body = TableSchema(self.schema, plan.partition_columns).stored

    def write(self, batches: Iterable[pa.RecordBatch]) -> None:
        columns = self._plan.partition_columns
        if not columns:
            self._write_partition((), batches)
            return
        with Spill(self._body, folder=self._plan.splits.temp_directory) as spill:
            for batch in batches:
                for key, rows in partitions(batch, columns):
                    spill.add(key, rows)
            self._write_each(spill.partitions())

    def _write_each(self, parts: Iterator[tuple[PartitionKey, Iterator[pa.RecordBatch]]]) -> None:
        """Write several partitions concurrently. Results are in order of the partitions."""
        threads = self._plan.splits.threads
        if threads == 1:
            for part in parts:
                self._write_partition(*part)
            return
        written = list(
            WRITES.each(lambda part: self._write_partition(*part), parts, parallelism=threads)
        )
        self.added = [action for actions in written for action in actions]

    def _write_partition(
        self, key: PartitionKey, batches: Iterable[pa.RecordBatch]
    ) -> list[AddAction]:
        plan = self._plan
        values = dict(zip(plan.partition_columns, key, strict=True))
        origin = Origin(
            schema=plan.schema_json,
            partition_columns=plan.partition_columns,
            partition_values=values,
        )
        return [
            self._upload(values, split)
            for split in write_splits(
                batches,
                self._body,
                plan.mapping,
                settings=plan.splits,
                stats=plan.stats,
                origin=origin,
            )
        ]

    def abandon(self) -> None:
        self._store.delete([action.path for action in self.added])

    def _upload(self, values: dict[str, str | None], split: SplitInfo) -> AddAction:
        path = split_path(values, self._new_name())
        action = split.add_action(path, partition_values=values, modification_time=self._now_ms())
        # Noted before the upload, so that one that fails half-way is cleaned up too.
        self.added.append(action)
        self._store.put_file(path, split.path)
        return action


def plan_row_write(
    spec: StoreSpec,
    header: Header,
    data: pa.Schema,
    *,
    recorded: Settings,
    settings: Settings | Callable[[ColumnNames], Settings],
    request: WriteRequest,
    new_name: Callable[[str], str] = str,
    options: Mapping[str, object] | None = None,
) -> RowWrite:
    """Check the data's schema and the indexing settings against the table.

    `recorded` are the table's own settings, `settings` those of this write, once it is known what
    its columns are called. Columns keep the kind of index they have, unless everything is
    overwritten; how new ones are indexed becomes part of the table. `new_name` is what the splits
    call a new column.
    """
    metadata = without_registry(_metadata_of(header))
    before, partition_columns = (
        column_names(metadata.schema_string),
        tuple(metadata.partition_columns or ()),
    )
    names = _names_after(before, data, partition_columns, new_name, request)
    if isinstance(settings, Settings):
        settings = settings
    else:
        settings = settings(names)
    table, schema = before.physical, names.physical
    columns = TableSchema(schema, partition_columns)
    body, mapping = columns.stored, columns.mapping(settings)
    new = [f.name for f in body if _is_anew(request.operation, header) or f.name not in table.names]
    if len(new) < len(body):
        old = TableSchema(columns.without(new), partition_columns)
        mapping = compatible_mapping(old.mapping(recorded), mapping)
    bound = bound_predicate(
        request.where, names.logical, zone=settings.group(SearchSettings).time_zone
    )
    if schema.equals(table):
        schema_json = metadata.schema_string
    else:
        schema_json = names.schema_json
    new_metadata = replace(metadata, schema_string=schema_json)
    if new:
        left = config.without_columns(
            metadata.configuration or {}, {*table.names} - {*schema.names}
        )
        before_write = columns.mapping(config.resolve(table=left))
        new_metadata = replace(
            new_metadata, configuration=recorded_as(mapping, body, new, left, before_write)
        )
    return RowWrite(
        spec=spec,
        header=header_to_check(header),
        schema_json=schema_json,
        partition_columns=partition_columns,
        mapping=mapping,
        splits=settings.group(SplitWriterSettings),
        stats=settings.group(StatsSettings),
        new_metadata=None if new_metadata == metadata else new_metadata,
        request=replace(request, where=bound, txn=transaction_id(request.txn)),
        where=names.optional_predicate(bound),
        options=options or {},
    )


def _is_anew(operation: Operation, header: Header) -> bool:
    """Return whether every row is replaced, so that columns may get another index."""
    return operation is Operation.OVERWRITE and header.version != NOT_CREATED


def _metadata_of(header: Header) -> MetadataAction:
    assert header.metadata is not None
    return header.metadata


def _names_after(
    before: ColumnNames,
    data: pa.Schema,
    partition_columns: Sequence[str],
    new_name: Callable[[str], str],
    request: WriteRequest,
) -> ColumnNames:
    """Return the columns of the table after the write: its own plus new ones of the data, or those
    of the data.
    """
    if request.overwrite_schema:
        logical = replaced_schema(
            before.logical, data, [before.logical_name(name) for name in partition_columns]
        )
    else:
        logical = widen_schema(before.logical, data, merge_schema=request.merge_schema)
    return before.extend(logical, new_name)


def header_to_check(header: Header) -> Header:
    """Return the part of the table at planning time that detects later changes."""
    purges = {app_id: txn for app_id, txn in header.txns.items() if app_id == PURGE_TXN}
    return Header(
        version=header.version, protocol=header.protocol, metadata=header.metadata, txns=purges
    )

"""Rewrite splits: shared by merging several and deleting rows of one.

Live splits are taken by partition, the oldest first. A `SplitRewriter` is picklable and opens the
store where it runs.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing
from functools import cached_property
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace

from indextables.config import Settings
from indextables.config.splits import SplitWriterSettings, StatsSettings
from indextables.errors import BadFileError, InvalidInputError, StorageError
from indextables.model.actions import MAX_LONG, AddAction, MetadataAction
from indextables.model.schema import schema_from_json
from indextables.splits.format.container import SplitInfo
from indextables.splits.format.section_table import MAX_ROWS, Origin, path_mark
from indextables.splits.index.live_indexing import Disputes, decision_hint, richer, same_terms
from indextables.splits.index.mapping import ColumnMapping, DocMapping
from indextables.splits.index.table_schema import TableSchema
from indextables.splits.read.searchable import Searchable
from indextables.splits.read.table_split import SplitEntry
from indextables.splits.write.merge import MergeSource, RowOrder, merge_splits
from indextables.splits.write.writer import new_split_name, split_path, write_splits
from indextables.storage.spec import StoreSpec
from indextables.storage.store import Store

logger = logging.getLogger(__name__)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


class SourceSplit(Struct, frozen=True):
    """A split to be rewritten, from its log entry; picklable."""

    path: str
    size: int
    num_records: int | None
    footer_start: int | None
    num_merge_ops: int
    split_tags: tuple[str, ...]
    modification_time: int
    foreign: bool = False
    """Whether it is rewritten even alone: another engine wrote it, or its index contradicts the
    table's decision.
    """
    side: str = ""
    """The way in which it indexes disputed columns; only splits of one way are merged."""
    vector: str | None = None
    """Its deletion vector, whose rows are left out."""
    deleted: int | None = None

    def entry(self, partition_values: dict[str, str | None]) -> SplitEntry:
        """Return what opening it needs."""
        place = self.path, self.size, self.num_records, self.footer_start
        return SplitEntry(*place, partition_values, self.vector, self.deleted)

    @property
    def stored_records(self) -> int | None:
        """Number of rows in its file."""
        if self.num_records is None:
            return None
        return self.num_records + (self.deleted or 0)

    @property
    def deleted_share(self) -> float:
        """Share of deleted rows."""
        return (self.deleted or 0) / (self.stored_records or 1)


class Naming(Struct, frozen=True):
    """Source of names and times of new splits."""

    new_name: Callable[[], str] = new_split_name
    now_ms: Callable[[], int] = _now_ms


class SplitRewriter(Struct, frozen=True, dict=True):
    """How a table's splits are rewritten."""

    spec: StoreSpec
    schema_json: str
    partition_columns: tuple[str, ...]
    mapping: DocMapping
    """Index of columns that no source has; other columns keep the sources' index."""
    splits: SplitWriterSettings
    stats: StatsSettings
    decided: tuple[str, ...] = ()
    """Columns that live splits index in several ways and the table's configuration decides."""

    @classmethod
    def of(
        cls,
        metadata: MetadataAction,
        *,
        spec: StoreSpec,
        settings: Settings,
        decided: Sequence[str] = (),
    ) -> SplitRewriter:
        """Create the rewriter of a table."""
        columns = TableSchema.of(metadata)
        return cls(
            spec=spec,
            schema_json=metadata.schema_string,
            partition_columns=columns.partition_columns,
            mapping=columns.mapping(settings),
            splits=settings.group(SplitWriterSettings),
            stats=settings.group(StatsSettings),
            decided=tuple(decided),
        )

    @cached_property
    def schema(self) -> pa.Schema:
        """The table's columns."""
        return schema_from_json(self.schema_json)

    @cached_property
    def body(self) -> pa.Schema:
        """The columns stored in splits."""
        return TableSchema(self.schema, self.partition_columns).stored

    def rewrite(
        self,
        sources: Sequence[tuple[SourceSplit, MergeSource]],
        partition_values: dict[str, str | None],
        *,
        store: Store,
        naming: Naming,
        num_merge_ops: int,
        data_change: bool,
        reuse_index: bool = True,
    ) -> AddAction | None:
        """Write one new split with the living rows of the sources, or return None without rows. It
        is not committed yet.

        `reuse_index=False` builds its index from the rows instead of merging the sources' indexes.
        """
        mapping, tags, origin = self._new_split(sources, partition_values)
        merged = merge_splits(
            [source for _, source in sources],
            self.body,
            mapping,
            settings=self.splits,
            stats=self.stats,
            tags=tags,
            origin=origin,
            reuse_index=reuse_index,
        )
        with merged as info:
            if info is None:
                return None
            return _read_stored(
                info, origin.partition_values, store, naming, num_merge_ops, data_change=data_change
            )

    def rewrite_in_order(
        self,
        sources: Sequence[tuple[SourceSplit, MergeSource]],
        partition_values: dict[str, str | None],
        *,
        order: Sequence[str],
        target_bytes: int | None,
        store: Store,
        naming: Naming,
        num_merge_ops: int,
    ) -> tuple[AddAction, ...]:
        """Write new splits with the living rows of the sources, sorted, of about the given size
        (None: one split).

        Rows and index of a new split have the same order. They are not committed yet; if one fails,
        all are deleted.
        """
        rows = RowOrder([source for _, source in sources], self.body, order)
        if target_bytes is None and rows.is_given:
            added = self.rewrite(
                sources,
                partition_values,
                store=store,
                naming=naming,
                num_merge_ops=num_merge_ops,
                data_change=False,
            )
            if added is None:
                return ()
            return (added,)
        mapping, tags, origin = self._new_split(sources, partition_values)
        settings = replace(self.splits, target_bytes=target_bytes or MAX_LONG, max_rows=MAX_ROWS)
        body = self.body.remove_metadata()
        written: list[AddAction] = []
        splits = write_splits(
            rows.batches(),
            body,
            mapping,
            settings=settings,
            stats=self.stats,
            tags=tags,
            origin=origin,
        )
        try:
            with closing(splits):
                for info in splits:
                    values = origin.partition_values
                    written.append(
                        _read_stored(info, values, store, naming, num_merge_ops, data_change=False)
                    )
        except BaseException:
            discard(store, [action.path for action in written])
            raise
        return tuple(written)

    def _new_split(
        self,
        sources: Sequence[tuple[SourceSplit, MergeSource]],
        partition_values: dict[str, str | None],
    ) -> tuple[DocMapping, list[str], Origin]:
        """Return the index of the new split's columns, its tags, and its origin."""
        origin = Origin(
            schema=self.schema_json,
            partition_columns=self.partition_columns,
            partition_values={name: partition_values.get(name) for name in self.partition_columns},
            replaces=tuple(path_mark(source.path) for source, _ in sources),
        )
        tags = sorted({tag for source, _ in sources for tag in source.split_tags})
        return (
            source_mapping([source.reader for _, source in sources], self.mapping, self.decided),
            tags,
            origin,
        )


def _read_stored(
    info: SplitInfo,
    partition_values: Mapping[str, str | None],
    store: Store,
    naming: Naming,
    num_merge_ops: int,
    *,
    data_change: bool,
) -> AddAction:
    """Upload a finished split and return its log entry."""
    values = dict(partition_values)
    action = info.add_action(
        split_path(values, naming.new_name()),
        partition_values=values,
        modification_time=naming.now_ms(),
        data_change=data_change,
        num_merge_ops=num_merge_ops,
    )
    _upload(store, action.path, info.path)
    return action


def source_mapping(
    readers: Sequence[Searchable], mapping: DocMapping, decided: Collection[str] = ()
) -> DocMapping:
    """Return the mapping of the new split: columns keep the index of the sources that have them.

    The sources must agree, otherwise words would no longer find rows. Columns that the table's
    configuration decides are indexed accordingly.
    """
    columns = []
    for column in mapping.columns:
        if column.name in decided:
            source_column = column
        else:
            source_column = _source_column(readers, column)
        if source_column.kind == column.kind:
            exact = column.exact
        else:
            exact = ""
        columns.append(
            replace(source_column, field=column.field, substring=column.substring, exact=exact)
        )
    return DocMapping(tuple(columns))


def _source_column(readers: Sequence[Searchable], column: ColumnMapping) -> ColumnMapping:
    sources = [
        (reader.path, own)
        for reader in readers
        if (own := reader.mapping.find(column.name)) is not None
    ]
    if not sources:
        return column
    first, common = sources[0]
    for path, other in sources[1:]:
        if not same_terms(common, other):
            raise InvalidInputError(
                f"Column {column.name!r} is indexed as {common.terms} in {first} and as {other.terms} in {path}; "
                "they are not merged.",
                hint=decision_hint(column.name),
                column=column.name,
                splits=[first, path],
            )
        common = richer(common, other)
    return common


def discard(store: Store, paths: Sequence[str]) -> None:
    """Delete splits that were never offered to a commit (otherwise see `TransactionLog.discard`).

    A file that cannot be deleted is an orphan for the next purge.
    """
    try:
        store.delete(paths)
    except StorageError as error:
        logger.warning("unneeded splits stay in %s: %s", store.url, error.message)


def _upload(store: Store, path: str, file: Path) -> None:
    try:
        store.put_file(path, file)
    except BaseException:
        # It may have been stored all the same, and no version will name it.
        discard(store, [path])
        raise


T = TypeVar("T")
ListedSplit = tuple[tuple[tuple[str, str | None], ...], SourceSplit]
"""The partition of a split as sorted pairs of column and value, and the split."""
_COLUMNS = [
    *(
        "path",
        "size",
        "num_records",
        "footer_start_offset",
        "num_merge_ops",
        "split_tags",
        "modification_time",
    ),
    *("partition_values", "deletion_vector", "deleted_records"),
]


def source_splits(
    files: pa.Table, registry: Mapping[str, str], disputes: Disputes | None = None
) -> list[ListedSplit]:
    """Return the splits of a file list. `registry` holds the doc mappings that they may name."""
    splits: list[ListedSplit] = []
    columns = (files.column(name).to_pylist() for name in _COLUMNS)
    if disputes:
        sides = by_mapping(files, registry, disputes.side, "")
    else:
        sides = [""] * files.num_rows
    for (
        path,
        size,
        records,
        footer,
        merges,
        tags,
        modified,
        values,
        vector,
        deleted,
        rewrites,
        side,
    ) in zip(*columns, to_be_rewritten(files, registry, disputes), sides, strict=True):
        own = path, size, records, footer, merges or 0, tuple(tags or ()), modified or 0
        source = SourceSplit(*own, rewrites, side, vector, deleted)
        splits.append((tuple(sorted(values or [])), source))
    return sorted(splits, key=lambda f: (_order(f[0]), f[1].modification_time, f[1].path))


def are_foreign(files: pa.Table, registry: Mapping[str, str]) -> list[bool]:
    """Return which of the splits another engine wrote, by their doc mappings; a split without one
    is ours.
    """
    return by_mapping(files, registry, _is_foreign, False)


def to_be_rewritten(
    files: pa.Table, registry: Mapping[str, str], disputes: Disputes | None
) -> list[bool]:
    """Return which splits a merge rewrites even alone: another engine's, and wrongly indexed ones."""
    wrong = disputes.is_wrong if disputes is not None else lambda _: False
    return by_mapping(files, registry, lambda text: _is_foreign(text) or wrong(text), False)


def by_mapping(
    files: pa.Table, registry: Mapping[str, str], answer: Callable[[str], T], otherwise: T
) -> list[T]:
    """Evaluate a function of each split's doc mapping.

    Every mapping is evaluated once, because mappings are large and few.
    """
    named = {ref: answer(text) for ref, text in registry.items()}
    answers = [named.get(ref, otherwise) for ref in files.column("doc_mapping_ref").to_pylist()]
    at = 0
    for chunk in files.column("doc_mapping_json").chunks:
        inline = chunk.dictionary_encode()
        own = [answer(text) for text in inline.dictionary.to_pylist()]
        for row, mapping in enumerate(inline.indices.to_pylist(), start=at):
            answers[row] = answers[row] if mapping is None else own[mapping]
        at += len(chunk)
    return answers


def _is_foreign(mapping: str) -> bool:
    try:
        DocMapping.from_json(mapping)
    except BadFileError:
        return True
    return False


def _order(values: tuple[tuple[str, str | None], ...]) -> list[tuple[str, bool, str]]:
    return [(name, value is not None, value or "") for name, value in values]

"""Plan a scan from the log alone: the splits that can hold a match, and why the others cannot.

Search operators of SQL become a query: each is a query over its own column, and all of them must
match.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from functools import cached_property

import numpy as np
import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace

from indextables.companion.view import CompanionView
from indextables.config import Settings
from indextables.config.indexing import FilterSettings, SearchSettings
from indextables.config.registry import is_news
from indextables.config.splits import (
    PrewarmSettings,
    RangeSettings,
    ReadSettings,
    SplitCacheSettings,
)
from indextables.errors import InvalidInputError, RefusedError
from indextables.handle import TableHandle
from indextables.log.live_files import files_in_parts
from indextables.metrics import PROFILER, SKIPPED
from indextables.model.arguments import argument_error, text
from indextables.model.column_names import ColumnNames, column_names
from indextables.model.column_ranges import ColumnRange, FileRanges
from indextables.model.predicate import Predicate, Where, all_of, bind, bound_predicate
from indextables.model.predicate.tree import Column, without_index
from indextables.model.pruning import PRUNING_COLUMNS, all_match, may_match
from indextables.model.schema import find_column, schema_from_json
from indextables.model.snapshot import Snapshot
from indextables.splits.index.mapping import ColumnMapping, DocMapping, is_nested, is_text
from indextables.splits.index.table_schema import TableSchema
from indextables.splits.index.values import normal_key
from indextables.splits.query.fields import (
    QueryFields,
    check_fieldmatch,
    check_textsearch,
    columns_of_values,
)
from indextables.splits.query.parser import parse
from indextables.splits.query.to_predicate import implied_predicate
from indextables.splits.query.tree import Query, Target, with_targets
from indextables.splits.query.tree import all_of as all_queries
from indextables.splits.read.cache import RecentItems
from indextables.splits.read.companion_split import SourceFolder
from indextables.splits.read.table_split import SplitEntry
from indextables.splits.search.order import has_usable_bounds
from indextables.storage.spec import StoreSpec

logger = logging.getLogger(__name__)
ENTRY_COLUMNS = [
    *(
        "path",
        "size",
        "num_records",
        "footer_start_offset",
        "partition_values",
        "deletion_vector",
        "deleted_records",
    )
]


class ScanPlan(Struct, frozen=True):
    """A scan as plain values. Parts of it (`with_splits`) are sent to workers.

    Columns, condition and query have physical names; the results have logical names.
    """

    spec: StoreSpec
    version: int
    schema_json: str
    partition_columns: tuple[str, ...]
    columns: tuple[str, ...]
    query: Query | None
    where: Predicate | None
    splits: tuple[SplitEntry, ...]
    splits_considered: int
    pruned_by_partition: int
    skipped_by_statistics: int
    parallelism: int = 1
    remote_parallelism: int = 1
    cache: SplitCacheSettings = SplitCacheSettings()
    order_bounds: ColumnRange | None = None
    """The bounds of the sort column in each split; None if unknown."""
    ranges: RangeSettings = RangeSettings()
    warm_columns: tuple[str, ...] = ()
    """The columns whose indexes are fetched with splits to be warmed; all if none is named."""
    source: SourceFolder | None = None
    """Where the rows of a companion are; None for a table with rows of its own."""

    @property
    def schema(self) -> pa.Schema:
        """The table's schema."""
        return schema_from_json(self.schema_json)

    @property
    def names(self) -> ColumnNames:
        """Logical and physical column names."""
        return column_names(self.schema_json)

    @property
    def output_schema(self) -> pa.Schema:
        """The columns that the scan returns."""
        names = self.names
        return pa.schema([names.logical.field(names.logical_name(name)) for name in self.columns])

    def with_splits(self, splits: Sequence[SplitEntry]) -> ScanPlan:
        """Return the same scan over some of its splits."""
        return replace(self, splits=tuple(splits), order_bounds=None)

    def by_path(self) -> ScanPlan:
        """Return the same scan with splits in path order, which does not depend on how the log was
        read.
        """
        order = sorted(range(len(self.splits)), key=lambda number: self.splits[number].path)
        if self.order_bounds is None:
            bounds = None
        else:
            bounds = self.order_bounds.at(order)
        return replace(
            self, splits=tuple(self.splits[number] for number in order), order_bounds=bounds
        )


def plan_scan(
    table: TableHandle,
    *,
    query: str | Query | None = None,
    where: Where | None = None,
    columns: Sequence[str] | None = None,
    order_by: str | None = None,
    now_ms: int | None = None,
) -> ScanPlan:
    """Parse the query, bind the condition, and prune the splits by partition values and column
    bounds.

    Args:
        table: The table; the scan reads the version that it shows.
        query: Text of the query language, or a parsed query, by logical column names.
        where: A condition, by logical column names.
        columns: The columns to return; all if None.
        order_by: The column by which rows will be ordered. The plan then has its bounds in each
            split.
        now_ms: The clock for times such as `now-15m`; the clock of the log if None.

    Returns:
        The plan. `ScanTask(plan.with_splits(...))` carries out a part of it, in any process.
    """
    now_ms = table.log.now_ms() if now_ms is None else now_ms
    bound = None
    if where is not None:
        bound = bound_predicate(where, table.schema, now_ms=now_ms, zone=table.time_zone)
    with PROFILER.section("plan_scan"):
        plan = _plan(table, query, bound, columns, order_by, now_ms)
    SKIPPED.add(
        considered=plan.splits_considered,
        by_partition=plan.pruned_by_partition,
        by_statistics=plan.skipped_by_statistics,
        left=len(plan.splits),
    )
    return plan


def _plan(
    table: TableHandle,
    query: str | Query | None,
    where: Predicate | None,
    columns: Sequence[str] | None,
    order_by: str | None,
    now_ms: int | None,
) -> ScanPlan:
    snapshot = table.snapshot
    known = _PlanParts.of(snapshot, table.spec, table.search_settings)
    chosen = known.columns(columns)
    where = known.condition(where)
    if query is None or isinstance(query, Query):
        if query is None:
            parsed = None
        else:
            parsed = physical_query(query, known.names)
        implied = known.imply(parsed)
    else:
        parsed, implied = known.parse(query, now_ms)
    parts = [p for p in (where, implied) if p is not None]
    pruned = known.prune(snapshot, all_of(parts) if parts else None, where)
    splits, companion = known.with_warm(snapshot, pruned.splits, now_ms), table.companion
    if companion is not None:
        if parsed is not None or where is not None:
            _check_scannable(companion, splits)
        splits = tuple(replace(e, sources=companion.sources[e.path]) for e in splits)
    return ScanPlan(
        spec=table.spec,
        version=snapshot.version,
        schema_json=known.schema_json,
        partition_columns=known.partition_columns,
        columns=chosen,
        query=parsed,
        where=where,
        splits=splits,
        splits_considered=pruned.considered,
        pruned_by_partition=pruned.by_partition,
        skipped_by_statistics=pruned.by_statistics,
        parallelism=known.reading.parallelism,
        remote_parallelism=known.remote_parallelism,
        cache=known.cache,
        ranges=known.ranges,
        warm_columns=known.warm_columns,
        order_bounds=None
        if order_by is None
        else pruned.bounds(known.names.column(order_by), known),
        source=None if companion is None else companion.folder,
    )


def _check_scannable(companion: CompanionView, splits: Sequence[SplitEntry]) -> None:
    """Refuse a search that would have to scan more rows without an index than the setting allows."""
    rows = sum(companion.unindexed.get(entry.path, 0) for entry in splits)
    if rows > companion.max_scan_rows:
        count = sum(entry.path in companion.unindexed for entry in splits)
        raise RefusedError(
            f"{count} files with {rows} rows of {companion.definition.source} are not indexed yet, "
            f"and companion.maxScanRows allows to scan {companion.max_scan_rows}.",
            hint="Call sync(), open the companion with at='synced', or raise companion.maxScanRows.",
            path=companion.definition.source,
            rows=rows,
        )


def query_fields(table: TableHandle) -> QueryFields:
    """Return the columns as queries name them. They are computed once for a version."""
    return _PlanParts.of(table.snapshot, table.spec, table.search_settings).fields


def json_columns(table: TableHandle) -> tuple[str, ...]:
    """Return the logical names of the columns whose values are JSON documents."""
    return tuple(column.name for column in query_fields(table).mapping.of_kind("json"))


def bind_condition(
    table: TableHandle, *, where: Where | None, query: str | None
) -> tuple[Query | None, Predicate | None]:
    """Parse a query and bind a condition, by logical names and with one clock: `now` is the same
    for every split.
    """
    now_ms = table.log.now_ms()
    if query is None:
        tree = None
    else:
        tree = parse(text("query", query), query_fields(table), now_ms=now_ms)
    return tree, bound_predicate(where, table.schema, now_ms=now_ms, zone=table.time_zone)


class _Pruned(Struct, frozen=True, dict=True):
    """The remaining splits of a predicate, and the number of pruned ones by reason."""

    files: pa.Table
    splits: tuple[SplitEntry, ...]
    considered: int
    by_partition: int = 0
    by_statistics: int = 0

    @cached_property
    def _bounds(self) -> dict[str, ColumnRange]:
        return {}

    def bounds(self, column: str, known: _PlanParts) -> ColumnRange | None:
        """Return the bounds of a column in each split, if an order can use them."""
        kind = known.schema.field(column).type
        if not has_usable_bounds(kind):
            return None
        if column not in self._bounds:
            ranges = FileRanges(self.files, known.partition_columns)
            self._bounds[column] = ranges.range_of(Column((column,), kind), nulls=True)
        return self._bounds[column]


_PARSED_QUERIES = 1_000
_PRUNED_ENTRIES = 50_000
_SETTINGS_AT_ONCE = 8


class _PlanParts:
    """Shared parts of the plans of one snapshot and settings, cached with the snapshot.

    Another version is another snapshot, and other options are other settings, so nothing here
    becomes stale.
    """

    def __init__(self, snapshot: Snapshot, spec: StoreSpec, settings: Settings) -> None:
        self.spec = spec
        self.settings = settings
        self.schema_json = snapshot.metadata.schema_string
        self.names = column_names(self.schema_json)
        self.schema = self.names.physical
        self.partition_columns = tuple(snapshot.metadata.partition_columns or ())
        self.reading = settings.group(ReadSettings)
        self._given = settings.given()
        self.cache = settings.group(SplitCacheSettings)
        self.ranges = settings.group(RangeSettings)
        self.prewarm = settings.group(PrewarmSettings)
        spelt = {name.lower(): name for name in self.schema.names}
        self.warm_columns = tuple(spelt.get(name.lower(), name) for name in self.prewarm.fields)
        self._by_rows = settings.group(FilterSettings).by_rows
        self._columns: RecentItems[tuple[str, ...]] = RecentItems(_PARSED_QUERIES)
        self._parsed: RecentItems[tuple[Query, Predicate | None]] = RecentItems(_PARSED_QUERIES)
        self._pruned: RecentItems[_Pruned] = RecentItems(_PRUNED_ENTRIES)

    @classmethod
    def of(cls, snapshot: Snapshot, spec: StoreSpec, settings: Settings) -> _PlanParts:
        """Return the parts of a snapshot; each settings object has its own."""
        by_settings: RecentItems[_PlanParts] | None = snapshot.derived_values.get(cls)
        if by_settings is None:
            by_settings = snapshot.derived_values.setdefault(cls, RecentItems(_SETTINGS_AT_ONCE))
        known = by_settings.get(id(settings))
        if known is None or known.settings is not settings or known.spec != spec:
            known = cls(snapshot, spec, settings)
            by_settings.put(id(settings), known, 1)
        return known

    @property
    def remote_parallelism(self) -> int:
        """Return the parallelism of remote stores; a general setting applies to them too."""
        only_general = (
            "read.parallelism" in self._given and "read.remoteParallelism" not in self._given
        )
        if only_general:
            return self.reading.parallelism
        return self.reading.remote_parallelism

    @cached_property
    def fields(self) -> QueryFields:
        """Return the columns as queries name them."""
        names = self.names
        partition_columns = tuple(names.logical_name(name) for name in self.partition_columns)
        return QueryFields.of(
            TableSchema(names.logical, partition_columns), names.settings(self.settings)
        )

    def columns(self, columns: Sequence[str] | None) -> tuple[str, ...]:
        """Return the requested columns by their names in the table; all if none are named."""
        if columns is None:
            return tuple(self.schema.names)
        if not isinstance(columns, list | tuple) or not all(type(name) is str for name in columns):
            return self.names.columns(output_columns(self.names.logical, columns))
        names = self._columns.get(tuple(columns))
        if names is None:
            names = self.names.columns(output_columns(self.names.logical, columns))
            self._columns.put(tuple(columns), names, 1)
        return names

    def condition(self, where: Predicate | None) -> Predicate | None:
        """Return a condition in physical names, marking what the index must not answer."""
        if where is None:
            return None
        bound = self.names.predicate(where)
        if self._by_rows:
            return without_index(bound, self._by_rows)
        return bound

    def parse(self, query: str, now_ms: int | None) -> tuple[Query, Predicate | None]:
        """Return a parsed query and its implied predicate. A query with relative times is parsed
        each time.
        """
        known = self._parsed.get(query)
        if known is None:
            tree = physical_query(
                parse(text("query", query), self.fields, now_ms=now_ms), self.names
            )
            known = tree, self.imply(tree)
            if "now" not in query:
                self._parsed.put(query, known, 1)
        return known

    def imply(self, query: Query | None) -> Predicate | None:
        """Return what a query implies for partitions, numbers and times, bound to the table's
        columns.

        Text columns are left out: a split of another engine may index words where the settings
        declare values.
        """
        if query is None:
            return None
        texts = [
            f.name for f in TableSchema(self.schema, self.partition_columns).stored if _has_terms(f)
        ]
        words = DocMapping(tuple(ColumnMapping(name, "", "json") for name in texts))
        found = implied_predicate(query, words)
        if found is None:
            return None
        return bind(found, self.schema)

    def prune(
        self, snapshot: Snapshot, needed: Predicate | None, where: Predicate | None
    ) -> _Pruned:
        """Return the splits that may hold a match; `where` is certain if it holds for every row of
        a split.
        """
        known = self._pruned.get((needed, where))
        if known is None:
            files = files_in_parts(snapshot, needed)
            known = _prune(files, needed, where, self.partition_columns)
            self._pruned.put((needed, where), known, len(known.splits) + 1)
        return known

    def with_warm(
        self, snapshot: Snapshot, splits: tuple[SplitEntry, ...], now_ms: int | None
    ) -> tuple[SplitEntry, ...]:
        """Mark the splits to be warmed; none if the condition does not fit the table."""
        prewarming = self.prewarm
        if not prewarming.enabled or not splits:
            return splits
        if not prewarming.partition_filter:
            return tuple(replace(entry, warm=True) for entry in splits)
        zone = self.settings.group(SearchSettings).time_zone
        try:
            bound = bound_predicate(
                prewarming.partition_filter, self.names.logical, now_ms=now_ms, zone=zone
            )
        except InvalidInputError as error:
            if is_news("prewarm.partitionFilter", prewarming.partition_filter, self.spec.url):
                logger.warning(
                    "Nothing of %s is prewarmed by prewarm.partitionFilter: %s",
                    self.spec.url,
                    error.message,
                )
            return splits
        chosen = {
            entry.path
            for entry in self.prune(snapshot, self.names.optional_predicate(bound), None).splits
        }
        return tuple(replace(entry, warm=entry.path in chosen) for entry in splits)


def physical_query(query: Query, names: ColumnNames) -> Query:
    """Return a query with physical column names."""
    if names.same:
        return query

    def change(target: Target) -> Target:
        if target.path:
            path = names.document_path(target.column, target.path, normal_key)
        else:
            path = ()
        return replace(target, column=names.column(target.column), path=path)

    return with_targets(query, change)


def _has_terms(field: pa.Field) -> bool:
    """Return whether a query of a column may be about words or parts rather than whole values."""
    return is_text(field.type) or is_nested(field.type)


def output_columns(schema: pa.Schema, columns: Sequence[str]) -> list[str]:
    """Return the requested columns in the schema's spelling. A missing one is an error."""
    if isinstance(columns, str):
        raise InvalidInputError(
            f"columns is a list of names, not the text {columns!r}.", hint=f"Write [{columns!r}]."
        )
    if not isinstance(columns, Iterable):
        raise argument_error("columns", "a list of names", columns)
    found = [find_column(schema, text("The name of a column", name)) for name in columns]
    twice = next((name for name in found if found.count(name) > 1), None)
    if twice is not None:
        message = f"Column {twice!r} is asked for more than once."
        raise InvalidInputError(message, hint="Name each column once.", column=twice)
    return found


def _prune(
    files: pa.Table,
    needed: Predicate | None,
    where: Predicate | None,
    partition_columns: Sequence[str],
) -> _Pruned:
    if needed is None:
        return _Pruned(files.select(PRUNING_COLUMNS), entries(files), files.num_rows)
    in_partition = np.asarray(
        may_match(needed, files, partition_columns=partition_columns, statistics=False)
    )
    kept = np.asarray(may_match(needed, files, partition_columns=partition_columns))
    left = files.filter(pa.array(kept))
    if where is None:
        certain = None
    else:
        certain = np.asarray(all_match(where, left, partition_columns=partition_columns))
    by_partition, by_statistics = int((~in_partition).sum()), int((in_partition & ~kept).sum())
    rest = left.select(PRUNING_COLUMNS)
    return _Pruned(rest, entries(left, certain), files.num_rows, by_partition, by_statistics)


def entries(
    files: pa.Table, certain: Sequence[bool] | np.ndarray | None = None
) -> tuple[SplitEntry, ...]:
    """Return the files of a list as entries to open."""
    rows = zip(*(files.column(name).to_pylist() for name in ENTRY_COLUMNS), strict=True)
    if certain is None:
        sure = [False] * files.num_rows
    else:
        sure = [bool(c) for c in certain]
    return tuple(
        SplitEntry(path, size, records, footer, dict(values or []), vector, deleted, sure[n])
        for n, (path, size, records, footer, values, vector, deleted) in enumerate(rows)
    )


_CHECKS = {"textsearch": check_textsearch, "fieldmatch": check_fieldmatch}


class SearchOperator(Struct, frozen=True):
    """`column TEXTSEARCH 'text'` as its function; without a column the text is searched everywhere.

    `fieldmatchall` searches the columns of whole values, `indexqueryall` the default fields.
    """

    function: str
    column: str | None
    text: str


def searched(
    operators: Sequence[SearchOperator],
    query: str | None,
    fields: QueryFields,
    *,
    now_ms: int | None = None,
) -> Query | None:
    """Return the conjunction of all operators and a query, or None if there is neither."""
    if query is None:
        found = []
    else:
        found = [parse(query, fields, now_ms=now_ms)]
    found += [_query(operator, fields, now_ms) for operator in operators]
    if found:
        return all_queries(tuple(found))
    return None


def _query(operator: SearchOperator, fields: QueryFields, now_ms: int | None) -> Query:
    if operator.function == "fieldmatchall":
        return parse(operator.text, fields.within(*columns_of_values(fields)), now_ms=now_ms)
    if operator.column is None:
        return parse(operator.text, fields, now_ms=now_ms)
    column = find_column(fields.schema, operator.column)
    check = _CHECKS.get(operator.function)
    if check is not None:
        check(fields, column)
    return parse(operator.text, fields.within(column), now_ms=now_ms)

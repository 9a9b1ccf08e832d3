"""What a scan will read: the splits that can hold a match, and why the others cannot; from the log alone.

Search operators of SQL as a query: each is a query over its own column, and all of them must match.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace

from indextables.config import Settings
from indextables.config.indexing import IndexingSettings, SearchSettings
from indextables.config.splits import ReadSettings, SplitCacheSettings
from indextables.errors import InvalidInputError
from indextables.log.checkpoint.state_files import files_in_parts
from indextables.model.arguments import text, unexpected
from indextables.model.predicate import Predicate, all_of, bind
from indextables.model.pruning import all_match, may_match
from indextables.model.schema import find_column, schema_from_json
from indextables.model.snapshot import Snapshot
from indextables.splits.index.mapping import ColumnMapping, DocMapping, is_text
from indextables.splits.query.fields import QueryFields, check_fieldmatch, check_textsearch
from indextables.splits.query.parser import parse
from indextables.splits.query.to_predicate import implied_predicate
from indextables.splits.query.tree import Query
from indextables.splits.query.tree import all_of as all_queries
from indextables.splits.read.table_split import SplitEntry
from indextables.storage.spec import StoreSpec

ENTRY_COLUMNS = ["path", "size", "num_records", "footer_start_offset", "partition_values"]


class ScanPlan(Struct, frozen=True):
    """A scan as plain values. Parts of it (`with_splits`) travel to workers."""

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
    cache: SplitCacheSettings = SplitCacheSettings()

    @property
    def schema(self) -> pa.Schema:
        """The table's schema."""
        return schema_from_json(self.schema_json)

    @property
    def output_schema(self) -> pa.Schema:
        """The columns the scan returns."""
        schema = self.schema
        return pa.schema([schema.field(name) for name in self.columns])

    def with_splits(self, splits: Sequence[SplitEntry]) -> ScanPlan:
        """The same scan over some of its splits."""
        return replace(self, splits=tuple(splits))


def plan_scan(
    snapshot: Snapshot,
    spec: StoreSpec,
    settings: Settings,
    *,
    query: str | Query | None = None,
    where: Predicate | None = None,
    columns: Sequence[str] | None = None,
) -> ScanPlan:
    """Prune the table's splits by partition values and column bounds; understand the query, or say why it cannot be."""
    metadata = snapshot.metadata
    schema = schema_from_json(metadata.schema_string)
    partition_columns = tuple(metadata.partition_columns or ())
    wanted = tuple(schema.names if columns is None else output_columns(schema, columns))
    parsed = query
    if parsed is not None and not isinstance(parsed, Query):
        parsed = parse_query(parsed, schema, partition_columns, settings)
    needed = _needed(parsed, where, schema, partition_columns)
    files = files_in_parts(snapshot, needed)
    splits, by_partition, by_statistics = _pruned(files, needed, where, partition_columns)
    return ScanPlan(
        spec=spec,
        version=snapshot.version,
        schema_json=metadata.schema_string,
        partition_columns=partition_columns,
        columns=wanted,
        query=parsed,
        where=where,
        splits=splits,
        splits_considered=files.num_rows,
        pruned_by_partition=by_partition,
        skipped_by_statistics=by_statistics,
        parallelism=settings.group(ReadSettings).parallelism,
        cache=settings.group(SplitCacheSettings),
    )


def parse_query(query: str, schema: pa.Schema, partition_columns: Sequence[str], settings: Settings) -> Query:
    """The query as a tree; unknown columns and bad syntax are errors with their place."""
    return parse(text("query", query), query_fields(schema, partition_columns, settings))


def query_fields(schema: pa.Schema, partition_columns: Sequence[str], settings: Settings) -> QueryFields:
    """The columns of a table as queries name them."""
    body = pa.schema([f for f in schema if f.name not in partition_columns])
    mapping = DocMapping.from_settings(body, settings.group(IndexingSettings))
    return QueryFields.from_settings(schema, mapping, settings.group(SearchSettings))


def output_columns(schema: pa.Schema, columns: Sequence[str]) -> list[str]:
    """The columns that are asked for, as the schema spells them; one that is not there is an error."""
    if isinstance(columns, str):
        raise InvalidInputError(f"columns is a list of names, not the text {columns!r}.", hint=f"Write [{columns!r}].")
    if not isinstance(columns, Iterable):
        raise unexpected("columns", "a list of names", columns)
    found = [find_column(schema, text("The name of a column", name)) for name in columns]
    twice = next((name for name in found if found.count(name) > 1), None)
    if twice is not None:
        message = f"Column {twice!r} is asked for more than once."
        raise InvalidInputError(message, hint="Name each column once.", column=twice)
    return found


def _needed(
    query: Query | None, where: Predicate | None, schema: pa.Schema, partition_columns: Sequence[str]
) -> Predicate | None:
    """What every row of the result fulfils: the predicate, and what the query says of partitions, numbers and times.

    Stored text is left out: a split of another engine may hold it as words where the table's settings say values.
    """
    texts = [f.name for f in schema if is_text(f.type) and f.name not in partition_columns]
    words = DocMapping(tuple(ColumnMapping(name, "", "json") for name in texts))
    implied = None if query is None else implied_predicate(query, words)
    found = [p for p in (where, None if implied is None else bind(implied, schema)) if p is not None]
    return all_of(found) if found else None


def _pruned(
    files: pa.Table, needed: Predicate | None, where: Predicate | None, partition_columns: Sequence[str]
) -> tuple[tuple[SplitEntry, ...], int, int]:
    """The splits that may hold what is needed; `where` is certain where it holds for every row of a split."""
    if needed is None:
        return entries(files), 0, 0
    in_partition = np.asarray(may_match(needed, files, partition_columns=partition_columns, statistics=False))
    kept = np.asarray(may_match(needed, files, partition_columns=partition_columns))
    left = files.filter(pa.array(kept))
    certain = None if where is None else np.asarray(all_match(where, left, partition_columns=partition_columns))
    by_partition = int((~in_partition).sum())
    return entries(left, certain), by_partition, int((in_partition & ~kept).sum())


def entries(files: pa.Table, certain: Sequence[bool] | np.ndarray | None = None) -> tuple[SplitEntry, ...]:
    """The files of a list as entries to open."""
    rows = zip(*(files.column(name).to_pylist() for name in ENTRY_COLUMNS), strict=True)
    sure = [False] * files.num_rows if certain is None else [bool(c) for c in certain]
    return tuple(
        SplitEntry(path, size, records, footer, dict(values or []), sure[n])
        for n, (path, size, records, footer, values) in enumerate(rows)
    )


_CHECKS = {"textsearch": check_textsearch, "fieldmatch": check_fieldmatch}


class SearchOperator(Struct, frozen=True):
    """`column TEXTSEARCH 'text'`, by the function it stands for; without a column the text is searched everywhere."""

    function: str
    column: str | None
    text: str


def searched(operators: Sequence[SearchOperator], query: str | None, fields: QueryFields) -> Query | None:
    """The query that rows must match for all operators, and for a query beside them; None if there is neither."""
    found = [] if query is None else [parse(query, fields)]
    found += [_query(operator, fields) for operator in operators]
    return all_queries(tuple(found)) if found else None


def _query(operator: SearchOperator, fields: QueryFields) -> Query:
    if operator.column is None:
        return parse(operator.text, fields)
    column = find_column(fields.schema, operator.column)
    check = _CHECKS.get(operator.function)
    if check is not None:
        check(fields, column)
    return parse(operator.text, fields.within(column))

"""Filters that Spark pushes into a scan: as table predicates, and over match columns.

A supported filter means exactly what it means in Spark, which need not apply it again. Others are
left out: the scan returns more rows, and Spark filters them (`java/FilterJson.java` writes the
JSON).

A match column holds for every row whether a search finds it, for searches below OR, in CASE and
similar. The scan finds the rows of each search by the index and returns the columns. Filters over
match columns and table columns together (`_match_0 OR level = 'ERROR'`) are evaluated here too, so
that no other rows are read: each part by the index or by its columns, with NOT pushed down to the
parts, where SQL's null is still known.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from urllib.parse import quote

import numpy as np
import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace

from indextables.errors import ConflictError, InvalidInputError, UnsupportedError
from indextables.model.column_names import ColumnNames
from indextables.model.predicate import (
    And,
    Column,
    Comparison,
    Constant,
    In,
    IsNotNull,
    IsNull,
    Literal,
    Not,
    Or,
    Predicate,
    TextMatch,
    bind,
)
from indextables.model.predicate.tree import without_index
from indextables.query.plan import ScanPlan, SearchOperator, physical_query, searched
from indextables.query.task import ScanTask
from indextables.splits.query.fields import QueryFields
from indextables.splits.query.tree import AllRows, Query
from indextables.splits.read.searchable import Mask, Rows
from indextables.splits.read.table_split import SplitEntry, TableSplit
from indextables.splits.search.match import find_rows
from indextables.storage.location import join, parse_location

_COMPARISONS = {"=": "=", "<=>": "<=>", "<>": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_MATCHES = {"STARTS_WITH": "starts_with", "ENDS_WITH": "ends_with", "CONTAINS": "contains"}
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_VALUES: Mapping[str, Callable[[str], Any]] = {
    "bool": lambda text: text == "true",
    "int": int,
    # Spark compares floats as floats: 2.1 is then the nearest float, which as a double is
    # 2.0999999046325684.
    "float": lambda text: float(np.float32(text)),
    "double": float,
    "decimal": Decimal,
    "text": str,
    "hex": bytes.fromhex,
    "days": lambda text: _EPOCH.date() + dt.timedelta(days=int(text)),
    "microseconds": lambda text: _EPOCH + dt.timedelta(microseconds=int(text)),
    "local microseconds": lambda text: (
        _EPOCH.replace(tzinfo=None) + dt.timedelta(microseconds=int(text))
    ),
}


class _NotSayableError(Exception):
    """A filter without an equivalent table predicate."""


def parse_filters(
    text: str | None, schema: pa.Schema, exact: str | None = None, *, exactly: bool = False
) -> list[Predicate]:
    """Convert filters from JSON to predicates over a table's columns; with `exactly` all must be
    convertible.

    `exact` marks with `y` each filter that Spark does not apply again, because
    `ReadRequest.exact_filters` reported it as applied.
    """
    predicates = []
    for number, node in enumerate(json.loads(text) if text else []):
        try:
            predicate = _predicate(node)
            bind(predicate, schema)
        except (_NotSayableError, InvalidInputError, ValueError, OverflowError) as error:
            if exact is not None and exact[number] == "y":
                message = "The table's columns have changed since the query was planned."
                raise ConflictError(message, hint="Run the query again.") from error
            if exactly:
                raise UnsupportedError(
                    f"This condition cannot say which rows are replaced: {json.dumps(node)}."
                ) from error
            continue
        predicates.append(predicate)
    return predicates


def _predicate(node: Any) -> Predicate:
    if not isinstance(node, list):
        raise _NotSayableError
    name, children = node[0], node[1:]
    if name in ("AND", "OR"):
        both = tuple(_predicate(child) for child in children)
        if name == "AND":
            return And(both)
        return Or(both)
    if name == "NOT":
        return Not(_predicate(children[0]))
    if name in ("ALWAYS_TRUE", "ALWAYS_FALSE"):
        return Constant(name == "ALWAYS_TRUE")
    if name in ("IS_NULL", "IS_NOT_NULL"):
        return (IsNull if name == "IS_NULL" else IsNotNull)(_column(children[0]))
    if name in _COMPARISONS:
        return _comparison(_COMPARISONS[name], *children)
    if name == "IN":
        return In(_column(children[0]), tuple(_literal(child) for child in children[1:]))
    if name in _MATCHES:
        return _match(_MATCHES[name], *children)
    if name == "BOOLEAN_EXPRESSION" and children:
        return _predicate(children[0])
    raise _NotSayableError


def _comparison(operator: str, left: Any, right: Any) -> Predicate:
    if _is_column(left):
        return Comparison(operator, _column(left), _literal(right))
    return Comparison(_MIRRORED.get(operator, operator), _column(right), _literal(left))


def _match(kind: str, column: Any, text: Any) -> Predicate:
    value = _literal(text).value
    if not isinstance(value, str):
        raise _NotSayableError
    return TextMatch(kind, _column(column), value)


def _is_column(node: Any) -> bool:
    return isinstance(node, dict) and "column" in node


def _column(node: Any) -> Column:
    if not _is_column(node):
        raise _NotSayableError
    names: Sequence[str] = node["column"]
    return Column(tuple(names))


def _literal(node: Any) -> Literal:
    if not isinstance(node, dict) or "kind" not in node:
        raise _NotSayableError
    return Literal(None if node["kind"] == "null" else _VALUES[node["kind"]](node["value"]))


_PLAIN = "/=:@!$&'()*+,;~"
"""Characters that a path keeps in a URL, as Spark writes it."""
PLACE = "_metadata"
"""The column with the locations of rows."""


class Condition(Struct, frozen=True):
    """A filter as a tree: `kind` is and, or, match (`name`) or rows (`predicate`); `negated` if NOT
    was pushed down to it.
    """

    kind: str
    parts: tuple[Condition, ...] = ()
    name: str = ""
    predicate: Predicate | None = None
    negated: bool = False


class MatchColumns(Struct, frozen=True):
    """The match columns of a read by name, and the filters over them that the read applies itself."""

    queries: Mapping[str, Query]
    conditions: tuple[Condition, ...] = ()
    places: tuple[str, ...] = ()
    """Requested fields of each row's location, as in the column `_metadata` of Spark's own scan."""
    folder: str = ""
    """The table's location."""
    times: Mapping[str, int] = {}
    """When each split was written, in milliseconds since 1970."""

    @classmethod
    def parse(cls, text: str, fields: QueryFields, *, now_ms: int) -> MatchColumns:
        """Parse the extension's form (`java/MatchRule.java`): name, function, column or null,
        query.
        """
        queries = {}
        for name, *operator in json.loads(text):
            query = searched([SearchOperator(*operator)], None, fields, now_ms=now_ms)
            assert query is not None
            queries[name] = query
        return cls(queries)

    def condition(self, node: Any, schema: pa.Schema, *, negated: bool = False) -> Condition | None:
        """Convert a filter that mentions match columns to a tree, or return None if Spark must
        evaluate it.
        """
        if not isinstance(node, list) or not self.mentioned(node):
            if isinstance(node, list):
                found = parse_filters(json.dumps([node]), schema)
            else:
                found = []
            if not found:
                return None
            predicate = bind(Not(found[0]) if negated else found[0], schema)
            return Condition("rows", predicate=predicate)
        kind, children = node[0], node[1:]
        if kind == "NOT":
            return self.condition(children[0], schema, negated=not negated)
        if kind in ("AND", "OR"):
            parts = [self.condition(child, schema, negated=negated) for child in children]
            complete = tuple(part for part in parts if part is not None)
            both = (kind == "AND") != negated
            if len(complete) == len(parts):
                return Condition("and" if both else "or", complete)
            return None
        if kind == "BOOLEAN_EXPRESSION" and isinstance(children[0], list):
            return self.condition(children[0], schema, negated=negated)
        if kind in ("=", "<=>") and not (
            isinstance(children[1], dict) and children[1].get("kind") == "bool"
        ):
            return None  # compared with something that only the row tells
        if kind in ("=", "<=>"):
            truth = children[1]["value"] == "true"
        else:
            truth = True
        name = next(iter(_names(node)))
        if kind not in ("=", "<=>", "BOOLEAN_EXPRESSION") or children[0] != {"column": [name]}:
            return None
        return Condition("match", name=name, negated=negated == truth)

    def mentioned(self, node: Any) -> bool:
        """Return whether a filter mentions a match column."""
        return bool(_names(node) & set(self.queries))

    def with_filters(
        self,
        text: str | None,
        exact: str | None,
        schema: pa.Schema,
        *,
        by_rows: Collection[str] = (),
    ) -> MatchColumns:
        """Return the same with the filters over match columns that can be evaluated here.

        `by_rows` are the kinds of text conditions that the index must not answer.
        """
        conditions = []
        for number, node in enumerate(json.loads(text or "[]")):
            if self.mentioned(node):
                condition = self.condition(node, schema)
            else:
                condition = None
            if condition is not None:
                conditions.append(_without_index(condition, by_rows) if by_rows else condition)
            elif self.mentioned(node) and exact is not None and exact[number] == "y":
                message = "The table's columns have changed since the query was planned."
                raise ConflictError(message, hint="Run the query again.")
        return replace(self, conditions=tuple(conditions))

    def under(self, names: ColumnNames) -> MatchColumns:
        """Return the same with physical column names."""
        if names.same:
            return self
        queries = {name: physical_query(query, names) for name, query in self.queries.items()}
        return replace(
            self, queries=queries, conditions=tuple(_under(each, names) for each in self.conditions)
        )

    def batches(self, task: ScanTask, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a task with some columns, including match columns."""
        yield from self.under(task.plan.names)._batches(task, columns)

    def _batches(self, task: ScanTask, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        for entry in task.plan.splits:
            split = task.open(entry)
            where = None if entry.certain else task.plan.where
            rows = find_rows(split, task.plan.query or AllRows(), where=where)
            masks: dict[str, Mask] = {}
            for condition in self.conditions:
                rows = rows[self._mask(condition, split, masks)[rows]]
            yield from self._rows(split, entry, rows, columns, masks, task.plan)

    def _rows(
        self,
        split: TableSplit,
        entry: SplitEntry,
        rows: Rows,
        columns: Sequence[str],
        masks: dict[str, Mask],
        plan: ScanPlan,
    ) -> Iterator[pa.RecordBatch]:
        start = 0
        stored = list(plan.columns)
        for batch in map(plan.names.to_logical, split.iter_rows(rows, columns=stored)):
            here = rows[start : start + batch.num_rows]
            start += batch.num_rows
            arrays = [
                pa.array(self._matches(name, split, masks)[here])
                if name in self.queries
                else self._places(entry, split.places(here))
                if name == PLACE and self.places
                else batch.column(name)
                for name in columns
            ]
            yield pa.record_batch(arrays, names=list(columns))

    def _places(self, entry: SplitEntry, rows: Rows) -> pa.Array:
        """Return the locations of rows as Spark's own scan reports them."""
        url = join(self.folder, entry.path)
        local = parse_location(self.folder).kind == "local"
        known: dict[str, Any] = {
            "file_path": f"file:{quote(url, safe=_PLAIN)}" if local else url,
            "file_name": entry.path.rsplit("/", 1)[-1],
            "file_size": entry.size,
            "file_block_start": 0,
            "file_block_length": entry.size,
            "file_modification_time": datetime.fromtimestamp(
                self.times.get(entry.path, 0) / 1000, UTC
            ),
        }
        columns = {name: pa.repeat(pa.scalar(value), len(rows)) for name, value in known.items()}
        columns["row_index"] = pa.array(rows, pa.int64())
        return pa.StructArray.from_arrays(
            [columns[name] for name in self.places], list(self.places)
        )

    def _mask(self, condition: Condition, split: TableSplit, masks: dict[str, Mask]) -> Mask:
        if condition.kind == "match":
            found = self._matches(condition.name, split, masks)
            if condition.negated:
                return ~found
            return found
        if condition.kind == "rows":
            return _mask_of(split, find_rows(split, AllRows(), where=condition.predicate))
        masks_of_parts = [self._mask(part, split, masks) for part in condition.parts]
        if condition.kind == "and":
            together = np.logical_and.reduce
        else:
            together = np.logical_or.reduce
        mask: Mask = together(masks_of_parts)
        return mask

    def _matches(self, name: str, split: TableSplit, masks: dict[str, Mask]) -> Mask:
        if name not in masks:
            masks[name] = _mask_of(split, find_rows(split, self.queries[name]))
        return masks[name]


def _under(condition: Condition, names: ColumnNames) -> Condition:
    parts = tuple(_under(part, names) for part in condition.parts)
    return replace(condition, parts=parts, predicate=names.optional_predicate(condition.predicate))


def _without_index(condition: Condition, kinds: Collection[str]) -> Condition:
    parts = tuple(_without_index(part, kinds) for part in condition.parts)
    told = condition.predicate
    return replace(
        condition, parts=parts, predicate=None if told is None else without_index(told, kinds)
    )


def _mask_of(split: TableSplit, rows: Rows) -> Mask:
    mask = np.zeros(split.stored_rows, np.bool_)
    mask[rows] = True
    return mask


def _names(node: Any) -> set[str]:
    """Return the top-level columns in a filter."""
    if isinstance(node, dict):
        if "column" in node:
            return {node["column"][0]}
        return set()
    if isinstance(node, list):
        return set().union(*(_names(child) for child in node[1:]))
    return set()

"""Filters that Spark hands over with a scan, as conditions of the table's own kind.

What is understood here means exactly what it means in Spark, which then need not apply it again where it is told so. The
rest is left out: the scan then returns more rows than it must, and Spark filters them. (`java/FilterJson.java` writes the
JSON.)
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

from indextables.errors import ConflictError, InvalidInputError, UnsupportedError
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

_COMPARISONS = {"=": "=", "<=>": "<=>", "<>": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_MATCHES = {"STARTS_WITH": "starts_with", "ENDS_WITH": "ends_with", "CONTAINS": "contains"}
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_VALUES: Mapping[str, Callable[[str], Any]] = {
    "bool": lambda text: text == "true",
    "int": int,
    "float": float,
    "double": float,
    "decimal": Decimal,
    "text": str,
    "hex": bytes.fromhex,
    "days": lambda text: _EPOCH.date() + dt.timedelta(days=int(text)),
    "microseconds": lambda text: _EPOCH + dt.timedelta(microseconds=int(text)),
    "local microseconds": lambda text: _EPOCH.replace(tzinfo=None) + dt.timedelta(microseconds=int(text)),
}


class _NotSayableError(Exception):
    """A filter that has no form as a predicate of the table."""


def parse_filters(
    text: str | None, schema: pa.Schema, exact: str | None = None, *, exactly: bool = False
) -> list[Predicate]:
    """Those of some filters, given as JSON, that can be said of a table's columns; `exactly` refuses to leave one out.

    `exact` marks with a `y` each that Spark does not apply again: `ReadRequest.exact_filters` has told it that the scan does.
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
        return And(both) if name == "AND" else Or(both)
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

"""Binding: a tree meets a schema. Columns get the schema's spelling and type, literals become values of that type.

A bound tree needs fewer forms than a free one: comparisons are =, <, <=, > and >= with a literal of exactly the
column's type, IN has at least two values of that type, and what cannot hold (or cannot fail) for any value of the type
is written with IS NULL and constants. It still prints as SQL.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from indextables.errors import InvalidInputError, QuerySyntaxError, nearest, shown
from indextables.model.predicate.domain import Place, place
from indextables.model.predicate.tree import (
    And,
    Column,
    Comparison,
    Constant,
    In,
    IsNotNull,
    IsNull,
    Like,
    Literal,
    Not,
    Or,
    Predicate,
    TextMatch,
)
from indextables.model.schema import is_atomic
from indextables.model.spark_types import TYPE_KEY, spark_metadata, type_name


def bind(predicate: Predicate, schema: pa.Schema) -> Predicate:
    """The predicate over the columns and types of a schema.

    `QuerySyntaxError` for a column that does not exist, with the nearest one; `InvalidInputError` for a literal that
    the column's type cannot be compared with, naming column, type and literal.
    """
    if isinstance(predicate, And):
        return And(tuple(bind(c, schema) for c in predicate.children))
    if isinstance(predicate, Or):
        return Or(tuple(bind(c, schema) for c in predicate.children))
    if isinstance(predicate, Not):
        return Not(bind(predicate.child, schema))
    if isinstance(predicate, IsNull):
        return IsNull(resolve(predicate.column, schema))
    if isinstance(predicate, IsNotNull):
        return IsNotNull(resolve(predicate.column, schema))
    if isinstance(predicate, Comparison):
        return _bind_comparison(predicate, _comparable(predicate.column, schema))
    if isinstance(predicate, In):
        return _bind_in(predicate, _comparable(predicate.column, schema))
    if isinstance(predicate, TextMatch):
        return TextMatch(predicate.kind, _text(predicate.column, schema), predicate.text)
    if isinstance(predicate, Like):
        return Like(_text(predicate.column, schema), predicate.pattern)
    return predicate


def resolve(column: Column, schema: pa.Schema) -> Column:
    """The column in the schema's spelling and with its type; names match without regard to case."""
    field = _find(schema, column.name, (), column)
    spelled = [field.name]
    for name in column.path[1:]:
        if not pa.types.is_struct(field.type):
            raise QuerySyntaxError(
                f"Column {'.'.join(spelled)!r} is {type_name(field.type)} and has no field {name!r}.",
                hint="Only struct columns have fields; put a name that holds a dot in backquotes.",
                column=column.dotted,
            )
        field = _find(field.type, name, tuple(spelled), column)
        spelled.append(field.name)
    return Column(tuple(spelled), field.type)


def _find(fields: Sequence[pa.Field], name: str, parents: tuple[str, ...], column: Column) -> pa.Field:
    known = [f.name for f in fields]
    same = [f for f in fields if f.name == name] or [f for f in fields if f.name.lower() == name.lower()]
    if len(same) == 1:
        return same[0]
    where = f" in {'.'.join(parents)!r}" if parents else ""
    if same:
        raise QuerySyntaxError(f"Column {name!r}{where} is ambiguous: {[f.name for f in same]}.", column=column.dotted)
    lowered = {k.lower(): k for k in known}
    near = [lowered[n] for n in nearest(name.lower(), lowered, cutoff=0.5)]
    listed = ", ".join(repr(k) for k in known)
    hint = (f"Did you mean {near[0]!r}? " if near else "") + f"The columns are {listed}."
    raise QuerySyntaxError(
        f"There is no column {shown(name)}{where}.", hint=hint, column=column.dotted, columns=known, nearest=near
    )


def _comparable(column: Column, schema: pa.Schema) -> Column:
    found = resolve(column, schema)
    kind = type_name(found.type)
    if not is_atomic(found.type):
        raise InvalidInputError(
            f"Column {found.dotted!r} is {kind}, whose values cannot be compared.",
            hint="Use IS NULL or IS NOT NULL, or a field inside it.",
            column=found.dotted,
            type=kind,
        )
    if pa.types.is_string(found.type) and _is_collated(schema.field(found.name)):
        raise InvalidInputError(
            f"Column {found.dotted!r} has a collation, which predicates do not know.",
            hint="Filter it in Spark, or store it without a collation.",
            column=found.dotted,
        )
    return found


def _is_collated(field: pa.Field) -> bool:
    spelled = (field.metadata or {}).get(TYPE_KEY, b"")
    return b"collate" in spelled.lower() or "__COLLATIONS" in spark_metadata(field)


def _text(column: Column, schema: pa.Schema) -> Column:
    found = _comparable(column, schema)
    if not pa.types.is_string(found.type):
        kind = type_name(found.type)
        raise InvalidInputError(
            f"Column {found.dotted!r} is {kind}; LIKE, startswith, endswith and contains need a string column.",
            column=found.dotted,
            type=kind,
        )
    return found


def _place(literal: Literal, column: Column) -> Place:
    try:
        return place(literal.value, column.type)
    except (TypeError, ValueError, KeyError):
        kind = type_name(column.type)
        quote = pa.types.is_string(column.type) and not isinstance(literal.value, bytes)
        raise InvalidInputError(
            f"Column {column.dotted!r} is {kind} and cannot be compared with {literal}.",
            hint="Put the value in quotes." if quote else f"Compare it with a {kind}.",
            column=column.dotted,
            type=kind,
            literal=str(literal),
        ) from None


def _bind_comparison(predicate: Comparison, column: Column) -> Predicate:
    literal, operator = predicate.literal, predicate.operator
    if literal.value is None:
        return IsNull(column) if operator == "<=>" else Constant(None)
    found = _place(literal, column)
    if operator == "!=":
        return Not(_compare("=", column, found))
    if operator == "<=>":
        return And((IsNotNull(column), _compare("=", column, found)))
    return _compare(operator, column, found)


def _compare(operator: str, column: Column, found: Place) -> Predicate:
    if found.exact:
        return Comparison(operator, column, Literal(found.floor))
    if operator == "=":
        return never(column)
    if found.floor is None:
        return never(column) if operator in ("<", "<=") else always(column)
    return Comparison("<=" if operator in ("<", "<=") else ">", column, Literal(found.floor))


def _bind_in(predicate: In, column: Column) -> Predicate:
    given = [v for v in predicate.literals if v.value is not None]
    places = [_place(v, column) for v in given]
    values = list(dict.fromkeys(Literal(p.floor) for p in places if p.exact))
    if len(given) < len(predicate.literals):
        # A NULL in the list: no value is ever outside the list, only unknown to be in it.
        return Or((In(column, tuple(values)), Constant(None))) if len(values) > 1 else _one_or_null(column, values)
    if len(values) > 1:
        return In(column, tuple(values))
    return Comparison("=", column, values[0]) if values else never(column)


def _one_or_null(column: Column, values: list[Literal]) -> Predicate:
    return Or((Comparison("=", column, values[0]), Constant(None))) if values else Constant(None)


def never(column: Column) -> Predicate:
    """FALSE for every value, NULL for NULL."""
    return And((IsNull(column), Constant(None)))


def always(column: Column) -> Predicate:
    """TRUE for every value, NULL for NULL."""
    return Or((IsNotNull(column), Constant(None)))

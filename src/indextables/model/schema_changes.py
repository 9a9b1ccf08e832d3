"""Two schemas side by side: every difference between them, and the schema that holds the columns of both."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa
from msgspec import Struct

from indextables.errors import SchemaMismatchError
from indextables.model.spark_types import type_name


class SchemaDifference(Struct, frozen=True):
    """One column at which data and table differ. `kind` is missing, extra, type or nullability, seen from the data."""

    kind: str
    column: str
    table: str | None
    data: str | None

    def __str__(self) -> str:
        if self.kind == "missing":
            return f"column {self.column!r} ({self.table}) is missing"
        if self.kind == "extra":
            return f"column {self.column!r} ({self.data}) is not in the table"
        if self.kind == "nullability":
            return f"column {self.column!r} may hold nulls, the table's may not"
        return f"column {self.column!r} is {self.data}, the table has {self.table}"


def schema_differences(table: pa.Schema, data: pa.Schema) -> tuple[SchemaDifference, ...]:
    """Every difference of the data's schema from the table's, at any depth; order and case of names do not count."""
    return tuple(_struct_differences(list(table), list(data), ()))


def mismatch(differences: Iterable[SchemaDifference], *, what: str = "The data does") -> SchemaMismatchError:
    """The error that names all differences at once."""
    found = list(differences)
    return SchemaMismatchError(
        f"{what} not fit the table's schema: {'; '.join(str(d) for d in found)}.",
        hint=" ".join(dict.fromkeys(_way_out(d) for d in found)),
        differences=[{"kind": d.kind, "column": d.column, "table": d.table, "data": d.data} for d in found],
    )


def _way_out(difference: SchemaDifference) -> str:
    if difference.kind == "missing":
        return "Give a value for every column that may not be null."
    if difference.kind == "extra" and "." in difference.column:
        return "Leave out fields that the table's structs do not have."
    if difference.kind == "extra":
        return "Write with merge_schema=True to add new columns, or leave them out."
    return "Cast columns to the table's types, or write them as new columns under other names."


def merge_schemas(table: pa.Schema, data: pa.Schema) -> pa.Schema:
    """The table's schema with the data's new columns after its own, nullable because existing rows lack them.

    New fields inside structs are added too. A column whose type differs is not additive: `SchemaMismatchError`.
    """
    clashing = [d for d in schema_differences(table, data) if d.kind == "type"]
    if clashing:
        raise mismatch(clashing)
    return pa.schema(_merge_fields(list(table), list(data)))


def _by_name(fields: Iterable[pa.Field]) -> dict[str, pa.Field]:
    return {f.name.lower(): f for f in fields}


def _struct_differences(
    table: Sequence[pa.Field], data: Sequence[pa.Field], parents: tuple[str, ...]
) -> list[SchemaDifference]:
    theirs = _by_name(data)
    known = _by_name(table)
    found: list[SchemaDifference] = []
    for field in table:
        path = ".".join((*parents, field.name))
        other = theirs.get(field.name.lower())
        if other is None:
            found.append(SchemaDifference("missing", path, type_name(field.type), None))
        else:
            found += _field_differences(field, other, (*parents, field.name))
    for field in data:
        if field.name.lower() not in known:
            path = ".".join((*parents, field.name))
            found.append(SchemaDifference("extra", path, None, type_name(field.type)))
    return found


def _field_differences(table: pa.Field, data: pa.Field, path: tuple[str, ...]) -> list[SchemaDifference]:
    found: list[SchemaDifference] = []
    if data.nullable and not table.nullable:
        found.append(SchemaDifference("nullability", ".".join(path), type_name(table.type), type_name(data.type)))
    pairs = _nested(table.type, data.type)
    if pa.types.is_struct(table.type) and pa.types.is_struct(data.type):
        return found + _struct_differences(list(table.type), list(data.type), path)
    if pairs:
        return found + [d for name, a, b in pairs for d in _field_differences(a, b, (*path, name))]
    if table.type != data.type:
        found.append(SchemaDifference("type", ".".join(path), type_name(table.type), type_name(data.type)))
    return found


def _nested(table: pa.DataType, data: pa.DataType) -> list[tuple[str, pa.Field, pa.Field]]:
    """The element, or key and value, of two collections of the same kind."""
    if pa.types.is_map(table) and pa.types.is_map(data):
        return [("key", table.key_field, data.key_field), ("value", table.item_field, data.item_field)]
    if pa.types.is_list(table) and pa.types.is_list(data):
        return [("element", table.value_field, data.value_field)]
    return []


def _merge_fields(table: Sequence[pa.Field], data: Sequence[pa.Field]) -> list[pa.Field]:
    theirs = _by_name(data)
    known = _by_name(table)
    merged = [_merge_field(f, theirs[f.name.lower()]) if f.name.lower() in theirs else f for f in table]
    return merged + [f.with_nullable(True) for f in data if f.name.lower() not in known]


def _merge_field(table: pa.Field, data: pa.Field) -> pa.Field:
    if pa.types.is_struct(table.type):
        return table.with_type(pa.struct(_merge_fields(list(table.type), list(data.type))))
    if pa.types.is_map(table.type):
        key = _merge_field(table.type.key_field, data.type.key_field)
        return table.with_type(pa.map_(key, _merge_field(table.type.item_field, data.type.item_field)))
    if pa.types.is_list(table.type):
        return table.with_type(pa.list_(_merge_field(table.type.value_field, data.type.value_field)))
    return table

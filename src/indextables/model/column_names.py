"""Column mapping: logical and physical names of columns, and column defaults.

A `schemaString` uses physical names. A field with another logical name has it in its metadata
(`indextables.name`), at any depth. A column is therefore renamed without changing splits, and a
dropped name can be used for a new column, which gets a new physical name, so old values are never
read. The log, statistics, doc mappings, partition values and splits use physical names; schemas,
conditions, queries and results of users have logical names. `ColumnNames` translates between the
two.

A default is the value of a column in rows that are older than the column. It is stored in the
metadata of its field: as text (`indextables.default`), and as SQL under the keys by which Spark's
Parquet reader fills missing columns. Written rows without the column get it too.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any, TypeVar

import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace

from indextables import config
from indextables.config import Settings
from indextables.errors import InvalidInputError
from indextables.model.actions import MetadataAction
from indextables.model.predicate.tree import And, Column, Constant, Literal, Not, Or, Predicate
from indextables.model.schema import (
    METADATA_KEY,
    check_names,
    is_atomic,
    schema_from_json,
    schema_to_json,
    type_name,
)
from indextables.model.values import decode_value, encode_value

NAME_KEY = "indextables.name"
"""Field metadata key of the logical name of a column, if it differs from the physical one."""
_NOWHERE = "\x00"
"""A key that no document contains."""

Rows = TypeVar("Rows", pa.RecordBatch, pa.Table)
SparkJson = Any


class ColumnNames(Struct, frozen=True, dict=True):
    """Logical and physical names of a table's columns."""

    schema_json: str
    """The schema as in the log, with physical names."""

    @cached_property
    def logical_json(self) -> str:
        """The schema with logical names."""
        if NAME_KEY not in self.schema_json:
            return self.schema_json
        return dump_schema(_logical(json.loads(self.schema_json)))

    @cached_property
    def physical_json(self) -> str:
        """The schema with physical names and without logical ones."""
        if self.same:
            return self.schema_json
        return dump_schema(_nameless(json.loads(self.schema_json)))

    @property
    def physical(self) -> pa.Schema:
        """The physical column names."""
        return schema_from_json(self.schema_json)

    @cached_property
    def logical(self) -> pa.Schema:
        """The logical column names."""
        return schema_from_json(self.logical_json)

    @property
    def same(self) -> bool:
        """Whether all logical and physical names are equal."""
        return NAME_KEY not in self.schema_json

    @cached_property
    def _to_physical(self) -> dict[str, str]:
        return dict(zip(self.logical.names, self.physical.names, strict=True))

    @cached_property
    def _to_logical(self) -> dict[str, str]:
        return {physical: logical for logical, physical in self._to_physical.items()}

    def column(self, logical: str) -> str:
        """Return the physical name of a column. An unknown name is returned unchanged, unless it is
        another column's physical name.
        """
        name = self._to_physical.get(logical, logical)
        if logical in self._to_physical or name not in self._to_logical:
            return name
        return f"{name}{_NOWHERE}"

    def logical_name(self, physical: str) -> str:
        """Return the logical name of a physical column. A column that the table no longer has is
        returned unchanged.
        """
        return self._to_logical.get(physical, physical)

    def columns(self, logical: Iterable[str]) -> tuple[str, ...]:
        """Return the physical names of several columns."""
        return tuple(self.column(name) for name in logical)

    def predicate(self, bound: Predicate) -> Predicate:
        """Translate a predicate to physical names."""
        if self.same:
            return bound
        if isinstance(bound, And | Or):
            return type(bound)(tuple(self.predicate(child) for child in bound.children))
        if isinstance(bound, Not):
            return Not(self.predicate(bound.child))
        if isinstance(bound, Constant):
            return bound
        column: Column = bound.column  # type: ignore[attr-defined]  # every other kind has one
        path, kind = self._path(column.path)
        return replace(bound, column=Column(path, column.type if kind is None else kind))

    def optional_predicate(self, bound: Predicate | None) -> Predicate | None:
        """Translate an optional predicate to physical names."""
        if bound is None:
            return None
        return self.predicate(bound)

    def path(self, logical: tuple[str, ...]) -> tuple[str, ...]:
        """Return the physical names of a field inside a column."""
        return self._path(logical)[0]

    def _path(self, path: tuple[str, ...]) -> tuple[tuple[str, ...], pa.DataType | None]:
        fields, others = list(self.logical), list(self.physical)
        translated: list[str] = []
        for name in path:
            place = next((n for n, f in enumerate(fields) if f.name == name), None)
            if place is None:
                return path, None
            other = others[place]
            translated.append(other.name)
            kind, own = other.type, fields[place].type
            fields, others = (list(own), list(kind)) if pa.types.is_struct(kind) else ([], [])
        return tuple(translated), kind

    def document_path(
        self, logical: str, path: Sequence[str], key: Callable[[str], str]
    ) -> tuple[str, ...]:
        """Return a path inside a JSON column in physical names; `key` escapes a name for a path."""
        own, other = (
            self.logical.field(logical).type,
            self.physical.field(self.column(logical)).type,
        )
        translated: list[str] = []
        for name in path:
            while pa.types.is_list(other):
                own, other = own.value_type, other.value_type
            if pa.types.is_map(other):
                own, other = own.item_type, other.item_type
                translated.append(name)
                continue
            if not pa.types.is_struct(other):
                return (*translated, *path[len(translated) :])
            place = next((n for n, field in enumerate(own) if key(field.name) == name), None)
            if place is None:
                return (*translated, _NOWHERE)
            translated.append(key(other.field(place).name))
            own, other = own.field(place).type, other.field(place).type
        return tuple(translated)

    def to_logical(self, rows: Rows) -> Rows:
        """Rename columns to logical names. Other columns, such as a score, keep their names."""
        if self.same:
            return rows
        return _relabel_columns(rows, self.physical, self.logical, self._to_logical)

    def to_physical(self, rows: Rows) -> Rows:
        """Rename columns to physical names."""
        if self.same:
            return rows
        return _relabel_columns(rows, self.logical, self.physical, self._to_physical)

    def settings(self, physical: Settings) -> Settings:
        """Return settings with logical column names in place of physical ones."""
        if self.same:
            return physical
        return physical.with_columns(self.logical_name)

    def options(self, logical: Mapping[str, object]) -> Mapping[str, object]:
        """Return user-provided settings with physical column names."""
        if self.same:
            return logical
        return config.with_columns(logical, self.column)

    def metadata(self, recorded: MetadataAction) -> MetadataAction:
        """Return the metadata of the table with logical names."""
        if self.same:
            return recorded
        configuration = config.with_columns(recorded.configuration or {}, self.logical_name)
        return replace(
            recorded,
            schema_string=self.logical_json,
            partition_columns=tuple(
                self.logical_name(name) for name in recorded.partition_columns or ()
            ),
            configuration={key: str(value) for key, value in configuration.items()},
        )

    def extend(self, schema: pa.Schema, new_name: Callable[[str], str]) -> ColumnNames:
        """Return the names for a changed schema: existing columns keep their physical names, others
        get `new_name`.
        """
        if schema.equals(self.logical):
            return self
        check_names(schema)
        old, new = json.loads(self.schema_json), json.loads(schema_to_json(schema))
        return column_names(dump_schema(_extend_type(old, new, new_name)))


@lru_cache(maxsize=256)
def column_names(schema_json: str) -> ColumnNames:
    """Parse the names of a `schemaString`."""
    return ColumnNames(schema_json)


def dump_schema(schema: SparkJson) -> str:
    """Return a Spark schema as JSON, as the log writes it."""
    return json.dumps(schema, ensure_ascii=False, separators=(",", ":"))


def logical_name(field: SparkJson) -> str:
    """Return the logical name of a field of a Spark schema."""
    return str((field.get("metadata") or {}).get(NAME_KEY, field["name"]))


def with_name(field: SparkJson, logical: str) -> SparkJson:
    """Return the field with another logical name."""
    metadata = {
        key: value for key, value in (field.get("metadata") or {}).items() if key != NAME_KEY
    }
    if logical != field["name"]:
        metadata[NAME_KEY] = logical
    return {**field, "metadata": metadata}


def _logical(spark: SparkJson) -> SparkJson:
    if isinstance(spark, list):
        return [_logical(part) for part in spark]
    if not isinstance(spark, dict):
        return spark
    inner = {key: value if key == "metadata" else _logical(value) for key, value in spark.items()}
    if "name" not in spark or NAME_KEY not in (spark.get("metadata") or {}):
        return inner
    metadata = {key: value for key, value in spark["metadata"].items() if key != NAME_KEY}
    return {**inner, "name": spark["metadata"][NAME_KEY], "metadata": metadata}


def _nameless(spark: SparkJson) -> SparkJson:
    if isinstance(spark, list):
        return [_nameless(part) for part in spark]
    if not isinstance(spark, dict):
        return spark
    inner = {key: _nameless(value) for key, value in spark.items() if key != "metadata"}
    metadata = {
        key: value for key, value in (spark.get("metadata") or {}).items() if key != NAME_KEY
    }
    if "metadata" in spark:
        return {**inner, "metadata": metadata}
    return inner


def _extend_type(old: SparkJson, new: SparkJson, new_name: Callable[[str], str]) -> SparkJson:
    """Return the new type with the physical names of the old one for fields with equal logical
    names.
    """
    if not isinstance(new, dict):
        return new
    same_kind = isinstance(old, dict) and old.get("type") == new.get("type")
    if new.get("type") == "struct":
        if same_kind:
            known = {logical_name(field): field for field in old["fields"]}
        else:
            known = {}
        return {
            **new,
            "fields": [_extended_field(known.get(f["name"]), f, new_name) for f in new["fields"]],
        }
    inner = {
        key: _extend_type(old.get(key) if same_kind else None, new[key], new_name)
        for key in ("elementType", "keyType", "valueType")
        if key in new
    }
    return {**new, **inner}


def _extended_field(
    old: SparkJson | None, new: SparkJson, new_name: Callable[[str], str]
) -> SparkJson:
    kind = _extend_type(old["type"] if old else None, new["type"], new_name)
    physical = old["name"] if old else new_name(new["name"])
    return with_name({**new, "name": physical, "type": kind}, new["name"])


class _Relabelled:
    """A batch under another schema of the same layout, without copying, through Arrow's C
    interface.
    """

    def __init__(self, batch: pa.RecordBatch, schema: pa.Schema) -> None:
        self._batch = batch
        self._schema = schema

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        return self._schema.__arrow_c_schema__(), self._batch.__arrow_c_array__()[1]


def _relabel_columns(
    rows: Rows, source: pa.Schema, target: pa.Schema, names: Mapping[str, str]
) -> Rows:
    fields = []
    for field in rows.schema:
        # Only a column that is wholly of the source's type has the layout of the target's.
        known = field.name in names and field.type.equals(source.field(field.name).type)
        other = target.field(names[field.name]) if known else None
        fields.append(
            field
            if other is None
            else pa.field(other.name, other.type, field.nullable, other.metadata)
        )
    schema = pa.schema(fields)
    if isinstance(rows, pa.RecordBatch):
        return pa.record_batch(_Relabelled(rows, schema))
    batches = [pa.record_batch(_Relabelled(batch, schema)) for batch in rows.to_batches()]
    return pa.Table.from_batches(batches, schema)


DEFAULT_KEY = "indextables.default"
_MARK = DEFAULT_KEY.encode()
SPARK_KEYS = ("CURRENT_DEFAULT", "EXISTS_DEFAULT")


def default_metadata(name: str, kind: pa.DataType, default: Any) -> dict[str, str]:
    """Return the entries of a field's metadata for its default."""
    if not is_atomic(kind) or pa.types.is_binary(kind):
        hint = "Numbers, text, booleans, dates and times can have one."
        raise InvalidInputError(
            f"Column {name!r} is {type_name(kind)}, which has no default.", hint=hint, column=name
        )
    try:
        value = pa.scalar(default, kind)
        literal = str(Literal(value.as_py()))
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        message = f"The default {default!r} of column {name!r} is no {type_name(kind)}: {error}."
        raise InvalidInputError(message, column=name) from None
    text = encode_value(value)
    if text is None:
        raise InvalidInputError(
            f"A default of NULL for {name!r} says nothing.", hint="Leave it out.", column=name
        )
    sql = f"CAST({literal} AS {type_name(kind)})"
    return {DEFAULT_KEY: text, **dict.fromkeys(SPARK_KEYS, sql)}


def default_of(field: pa.Field) -> pa.Scalar | None:
    """Return the default of a column; None for null."""
    recorded = (field.metadata or {}).get(METADATA_KEY)
    if recorded is None or _MARK not in recorded:
        return None
    text = json.loads(recorded).get(DEFAULT_KEY)
    if text is None:
        return None
    return pa.scalar(decode_value(str(text), field.type), field.type)


def absent_values(field: pa.Field, count: int) -> pa.Array:
    """Return the values of a column for rows that lack it."""
    default = default_of(field)
    if default is None:
        return pa.nulls(count, field.type)
    return pa.repeat(default, count)

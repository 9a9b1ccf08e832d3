"""The schema of a table: Spark's JSON on disk, an Arrow schema in memory, validation, and
comparison of schemas.

Column names are compared case-insensitively, as in Spark, and keep the spelling they were created
with. What an Arrow type cannot express is kept in the metadata of the Arrow field:

- `SPARK::metadata::json` holds the field's Spark metadata (the key that PySpark uses);
- `SPARK::type` holds the spelling of a type that Arrow widens (`varchar(5)`, `interval day to
hour`, `variant`, ...);
- other Arrow metadata is kept in the Spark metadata under `ARROW::metadata`.
"""

from __future__ import annotations

import base64
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import pyarrow as pa
from msgspec import Struct

from indextables.errors import (
    CorruptTableError,
    InvalidInputError,
    SchemaMismatchError,
    UnsupportedError,
    show_value,
)

MAX_DECIMAL_PRECISION = 38
METADATA_KEY = b"SPARK::metadata::json"
TYPE_KEY = b"SPARK::type"
FOREIGN_KEY = "ARROW::metadata"
FOREIGN_BINARY_KEY = "ARROW::metadata::base64"

TIMESTAMP = pa.timestamp("us", tz="UTC")
TIMESTAMP_NTZ = pa.timestamp("us")
_VARIANT = pa.struct(
    [
        pa.field("value", pa.binary(), nullable=False),
        pa.field("metadata", pa.binary(), nullable=False, metadata={b"variant": b"true"}),
    ]
)

_BY_NAME: dict[str, pa.DataType] = {
    "byte": pa.int8(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": TIMESTAMP,
    "timestamp_ntz": TIMESTAMP_NTZ,
    "void": pa.null(),
    "interval day to second": pa.duration("us"),
    "interval": pa.month_day_nano_interval(),
    "time(6)": pa.time64("ns"),
}
_NAMES: dict[pa.DataType, str] = {arrow: name for name, arrow in _BY_NAME.items()}
_ALIASES = {
    "null": "void",
    "timestamp_ltz": "timestamp",
    "decimal": "decimal(10,0)",
    "tinyint": "byte",
} | {
    "smallint": "short",
    "int": "integer",
    "bigint": "long",
}
_SQL_NAMES = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint"}

_DECIMAL = re.compile(r"decimal\(\s*(\d+)\s*,\s*(-?\d+)\s*\)")
_WIDENED = (
    (re.compile(r"(?:var)?char\(\s*\d+\s*\)"), pa.string()),
    (re.compile(r"string\s+collate\s+\w+"), pa.string()),
    (
        re.compile(r"interval (?:day|hour|minute|second)(?: to (?:hour|minute|second))?"),
        pa.duration("us"),
    ),
    (re.compile(r"time\(\s*\d\s*\)"), pa.time64("ns")),
    (re.compile(r"variant"), _VARIANT),
)


MAX_DEPTH = 100
"""Maximum nesting depth of types, below the stack limit of every library."""


def field_from_json(spark: Any, depth: int = 0) -> pa.Field:
    """Return one field of a Spark struct as an Arrow field."""
    if not isinstance(spark, dict) or not isinstance(spark.get("name"), str) or "type" not in spark:
        raise CorruptTableError(f"Not a field of a Spark schema: {show_value(spark)}.")
    metadata = _arrow_metadata(spark.get("metadata") or {})
    return _typed_field(
        spark["name"], spark["type"], spark.get("nullable", True), metadata, depth=depth
    )


def field_to_json(field: pa.Field) -> dict[str, Any]:
    """Return an Arrow field as one field of a Spark struct."""
    return {
        "name": field.name,
        "type": _type_to_json(field),
        "nullable": field.nullable,
        "metadata": _spark_metadata(field.metadata or {}),
    }


def spark_metadata(field: pa.Field) -> dict[str, Any]:
    """Return the Spark metadata of a field."""
    return _spark_metadata(field.metadata or {})


def type_name(arrow: pa.DataType) -> str:
    """Return the type as Spark SQL spells it (`bigint`, `array<string>`); Arrow's name if Spark has
    none.
    """
    if pa.types.is_decimal(arrow):
        return f"decimal({arrow.precision},{arrow.scale})"
    if pa.types.is_map(arrow):
        return f"map<{type_name(arrow.key_type)},{type_name(arrow.item_type)}>"
    if pa.types.is_list(arrow):
        return f"array<{type_name(arrow.value_type)}>"
    if arrow == _VARIANT:
        return "variant"
    if pa.types.is_struct(arrow):
        return f"struct<{','.join(f'{f.name}:{type_name(f.type)}' for f in arrow)}>"
    name = _NAMES.get(arrow)
    if name is None:
        return str(arrow)
    return _SQL_NAMES.get(name, name)


def _typed_field(
    name: str, spark: Any, nullable: bool, metadata: dict[bytes, bytes] | None = None, *, depth: int
) -> pa.Field:
    if not isinstance(nullable, bool):
        raise CorruptTableError(
            f"Column {show_value(name)} is nullable or not; {show_value(nullable)} is neither."
        )
    if not _is_text(name):
        raise CorruptTableError(f"A column has a name that is no text: {show_value(name)}.")
    arrow, widened = _type_from_json(spark, name, depth)
    entries = dict(metadata or {})
    if widened:
        entries[TYPE_KEY] = json.dumps(spark, ensure_ascii=False, separators=(",", ":")).encode()
    return pa.field(name, arrow, nullable=nullable, metadata=entries or None)


def _is_text(name: str) -> bool:
    """Return whether a name can be encoded, which half of a surrogate pair cannot."""
    return name.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in name)


def _type_from_json(spark: Any, name: str, depth: int) -> tuple[pa.DataType, bool]:
    """Return the Arrow type, and whether the Spark spelling must be stored because Arrow's type is
    less precise.
    """
    if depth > MAX_DEPTH:
        raise CorruptTableError(
            f"Column {show_value(name)} is nested deeper than {MAX_DEPTH} levels.", column=name
        )
    depth += 1
    if isinstance(spark, str):
        return _atomic_from_name(spark, name)
    kind = spark.get("type") if isinstance(spark, dict) else None
    if kind == "struct" and isinstance(spark.get("fields"), list):
        return pa.struct([field_from_json(f, depth) for f in spark["fields"]]), False
    if kind == "array" and "elementType" in spark:
        return pa.list_(
            _typed_field(
                "element", spark["elementType"], spark.get("containsNull", True), depth=depth
            )
        ), False
    if kind == "map" and "keyType" in spark and "valueType" in spark:
        key = _typed_field("key", spark["keyType"], False, depth=depth)
        return pa.map_(
            key,
            _typed_field(
                "value", spark["valueType"], spark.get("valueContainsNull", True), depth=depth
            ),
        ), False
    if kind == "udt" and "sqlType" in spark:
        return _type_from_json(spark["sqlType"], name, depth)[0], True
    raise CorruptTableError(
        f"Column {show_value(name)} has a type that is not a Spark type: {show_value(spark)}."
    )


def _atomic_from_name(spark: str, name: str) -> tuple[pa.DataType, bool]:
    word = spark.strip().lower()
    atomic = _BY_NAME.get(_ALIASES.get(word, word))
    if atomic is not None:
        return atomic, False
    if match := _DECIMAL.fullmatch(_ALIASES.get(word, word)):
        digits, scale = match[1].lstrip("0") or "0", match[2]
        if (
            len(digits) > 2
            or len(scale) > 3
            or not 0 <= int(scale) <= int(digits) <= MAX_DECIMAL_PRECISION
        ):
            raise CorruptTableError(
                f"Column {show_value(name)} has the type {show_value(spark)}; decimals end at 38 digits."
            )
        return pa.decimal128(int(digits), int(scale)), False
    for pattern, arrow in _WIDENED:
        if pattern.fullmatch(word):
            return arrow, True
    raise UnsupportedError(
        f"Column {show_value(name)} has the type {show_value(spark)}, which this release cannot read.",
        column=name,
        type=spark,
    )


def _type_to_json(field: pa.Field) -> Any:
    recorded = (field.metadata or {}).get(TYPE_KEY)
    if recorded is not None:
        spark = json.loads(recorded)
        if _type_from_json(spark, field.name, 0)[0].equals(field.type):
            return spark
    arrow = field.type
    if pa.types.is_decimal128(arrow):
        return f"decimal({arrow.precision},{arrow.scale})"
    if pa.types.is_list(arrow):
        element = arrow.value_field
        return {
            "type": "array",
            "elementType": _type_to_json(element),
            "containsNull": element.nullable,
        }
    if pa.types.is_map(arrow):
        key, value = _type_to_json(arrow.key_field), _type_to_json(arrow.item_field)
        return {
            "type": "map",
            "keyType": key,
            "valueType": value,
            "valueContainsNull": arrow.item_field.nullable,
        }
    if arrow.equals(_VARIANT, check_metadata=True):
        return "variant"
    if pa.types.is_struct(arrow):
        return {"type": "struct", "fields": [field_to_json(f) for f in arrow]}
    name = _NAMES.get(arrow)
    if name is None:
        raise UnsupportedError(
            f"Column {field.name!r} has the Arrow type {arrow}, which Spark does not have."
        )
    return name


def _arrow_metadata(spark: dict[str, Any]) -> dict[bytes, bytes]:
    rest = dict(spark)
    arrow = {k.encode(): v.encode() for k, v in rest.pop(FOREIGN_KEY, {}).items()}
    for key, value in rest.pop(FOREIGN_BINARY_KEY, {}).items():
        arrow[base64.b64decode(key)] = base64.b64decode(value)
    if rest:
        arrow[METADATA_KEY] = json.dumps(rest, ensure_ascii=False, separators=(",", ":")).encode()
    return arrow


def _spark_metadata(arrow: dict[bytes, bytes]) -> dict[str, Any]:
    if METADATA_KEY in arrow:
        spark: dict[str, Any] = json.loads(arrow[METADATA_KEY])
    else:
        spark = {}
    text: dict[str, str] = {}
    binary: dict[str, str] = {}
    for key, value in arrow.items():
        if key in (METADATA_KEY, TYPE_KEY):
            continue
        try:
            text[key.decode()] = value.decode()
        except UnicodeDecodeError:
            binary[base64.b64encode(key).decode()] = base64.b64encode(value).decode()
    foreign = {FOREIGN_KEY: text, FOREIGN_BINARY_KEY: binary}
    return spark | {key: pairs for key, pairs in foreign.items() if pairs}


SCORE, SNIPPET, HIGHLIGHT, DISTANCE = "_score", "_snippet", "_highlight", "_distance"
"""Columns of search results. New columns cannot have these names."""


@lru_cache(maxsize=256)
def schema_from_json(text: str) -> pa.Schema:
    """Return the Arrow form of a `schemaString`."""
    try:
        spark = json.loads(text)
        if (
            not isinstance(spark, dict)
            or spark.get("type") != "struct"
            or not isinstance(spark.get("fields"), list)
        ):
            raise CorruptTableError(
                f"The schemaString of the table is not a Spark struct: {text[:200]!r}."
            )
        schema = pa.schema([field_from_json(f) for f in spark["fields"]])
    except (
        ValueError,
        TypeError,
        AttributeError,
        OverflowError,
        RecursionError,
        pa.ArrowException,
    ) as error:
        raise CorruptTableError(f"The schemaString of the table cannot be read: {error}.") from None
    duplicates = [name for name, number in Counter(schema.names).items() if number > 1]
    if duplicates:
        raise CorruptTableError(
            f"The schemaString of the table has two columns {show_value(duplicates[0])}.",
            column=duplicates[0],
        )
    return schema


def schema_to_json(schema: pa.Schema) -> str:
    """Return the `schemaString` of a normalized Arrow schema."""
    spark = {"type": "struct", "fields": [field_to_json(f) for f in schema]}
    return json.dumps(spark, ensure_ascii=False, separators=(",", ":"))


def check_schema(schema: pa.Schema) -> None:
    """Refuse a schema without columns, with a reserved name, or with names that differ at most by
    case at any depth.
    """
    if len(schema) == 0:
        raise InvalidInputError(
            "A table needs at least one column.", hint="Give a schema with columns."
        )
    check_reserved(schema.names)
    _check_names(list(schema), ())


_CHAR = re.compile(r"char\(\s*\d+\s*\)")
_VARCHAR = re.compile(r"varchar\(\s*(\d+)\s*\)")


def check_storable(new: Iterable[pa.Field]) -> None:
    """Refuse new columns of types that can be declared but not written, at any depth."""
    for column in new:
        for field in _with_parts(column):
            reason = _why_not_storable(field)
            if reason:
                raise UnsupportedError(
                    f"Column {column.name!r} cannot be stored: {reason[0]}.",
                    hint=reason[1],
                    column=column.name,
                )


def check_without_collation(schema: pa.Schema, partition_columns: Iterable[str]) -> None:
    """Refuse a new partition column with a collation: partitions are distinguished by the bytes of
    their values.
    """
    for name in partition_columns:
        field = schema.field(name)
        if "__COLLATIONS" in spark_metadata(field) or _recorded_type(field).startswith(
            "string collate"
        ):
            raise UnsupportedError(
                f"Column {name!r} cannot be a partition column: its type has a collation.",
                hint="Declare it STRING, or partition by another column.",
                column=name,
            )


def max_length(field: pa.Field) -> int | None:
    """Return the maximum length of a VARCHAR field in characters, or None."""
    match = _VARCHAR.fullmatch(_recorded_type(field))
    if match is None:
        return None
    return int(match[1])


def _recorded_type(field: pa.Field) -> str:
    recorded = json.loads((field.metadata or {}).get(TYPE_KEY, b'""'))
    if isinstance(recorded, str):
        return recorded.strip().lower()
    return ""


def _with_parts(field: pa.Field) -> Iterator[pa.Field]:
    yield field
    kind = field.type
    if pa.types.is_map(kind):
        parts = [kind.key_field, kind.item_field]
    elif pa.types.is_list(kind):
        parts = [kind.value_field]
    elif pa.types.is_struct(kind):
        parts = list(kind)
    else:
        parts = []
    for part in parts:
        yield from _with_parts(part)


def _why_not_storable(field: pa.Field) -> tuple[str, str] | None:
    if pa.types.is_struct(field.type) and not field.type.num_fields:
        return "it has a struct without fields", "Give the struct a field, or leave the column out."
    if pa.types.is_map(field.type) and pa.types.is_nested(field.type.key_type):
        hint = "Use keys of a simple type, or an array of structs with the fields key and value."
        return f"the keys of its map are {type_name(field.type.key_type)}", hint
    if _CHAR.fullmatch(_recorded_type(field)):
        hint = "Declare it VARCHAR(n), whose length is enforced, or STRING."
        return f"a table does not pad values as {_recorded_type(field).upper()} asks for", hint
    return None


def check_reserved(new: Iterable[str]) -> None:
    """Refuse new columns with names of search result columns. Existing tables with such a column
    stay readable.
    """
    taken = next((name for name in new if name.lower() in (SCORE, SNIPPET)), None)
    if taken is not None:
        raise InvalidInputError(
            f"A column cannot be called {taken!r}: {SCORE} and {SNIPPET} are reserved for the results of searches.",
            hint="Rename the column.",
            column=taken,
        )


def check_recorded(schema_json: str, partition_columns: Sequence[str]) -> None:
    """Refuse unreadable metadata of a table. Types of a newer release are detected when rows are
    read.
    """
    try:
        columns = schema_from_json(schema_json).names
    except UnsupportedError:
        return
    unknown = [name for name in partition_columns if name not in columns]
    if unknown or len(set(partition_columns)) < len(partition_columns):
        if unknown:
            what = f"the partition column {show_value(unknown[0])}, which is no column"
        else:
            what = "a partition column twice"
        raise CorruptTableError(
            f"The metadata of the table names {what}.", columns=list(partition_columns)
        )


def check_partition_columns(schema: pa.Schema, columns: Sequence[str]) -> tuple[str, ...]:
    """Return the partition columns in the schema's spelling. They must exist, be atomic, distinct,
    and not all columns.
    """
    names = [find_column(schema, name, role="partition column") for name in columns]
    duplicates = sorted({name for name in names if names.count(name) > 1})
    if duplicates:
        raise InvalidInputError(
            f"Partition columns are named twice: {_quote_names(duplicates)}.", columns=duplicates
        )
    for name in names:
        kind = schema.field(name).type
        if not is_partitionable(kind):
            raise InvalidInputError(
                f"Column {name!r} cannot be a partition column: its type is {type_name(kind)}.",
                hint="Partition by numbers, text, booleans, dates or timestamps.",
                column=name,
            )
    if names and len(names) == len(schema):
        raise InvalidInputError(
            f"Every column is a partition column: {_quote_names(names)}.",
            hint="Leave at least one column for the data.",
        )
    return tuple(names)


def find_column(schema: pa.Schema, name: str, *, role: str = "column") -> str:
    """Return the schema's spelling of a column name: exact first, then case-insensitive."""
    if name in schema.names:
        return name
    for candidate in schema.names:
        if candidate.lower() == name.lower():
            return str(candidate)
    raise InvalidInputError(
        f"There is no {role} {name!r}.",
        hint=f"The columns are {_quote_names(schema.names)}.",
        column=name,
    )


def is_atomic(arrow: pa.DataType) -> bool:
    """Return whether values of the type can be compared with a literal."""
    return is_partitionable(arrow) or bool(pa.types.is_binary(arrow))


def is_partitionable(arrow: pa.DataType) -> bool:
    """Return whether values of the type have an exact text form for paths and the log."""
    kinds = pa.types
    tests = (
        kinds.is_boolean,
        kinds.is_signed_integer,
        kinds.is_floating,
        kinds.is_decimal,
        kinds.is_string,
        kinds.is_date,
        kinds.is_timestamp,
    )
    return any(test(arrow) for test in tests)


def normalize(schema: pa.Schema) -> pa.Schema:
    """Convert a schema to Spark's types. A type without a counterpart is refused by column and
    name.

    Other encodings of a type become that type, unsigned integers the next wider signed ones, and
    nanoseconds microseconds. The writer refuses data that would lose digits.
    """
    return pa.schema([_normal_field(f, ()) for f in schema])


def _normal_field(field: pa.Field, parents: tuple[str, ...], name: str | None = None) -> pa.Field:
    arrow = _normal_type(field.type, (*parents, field.name))
    return pa.field(name or field.name, arrow, nullable=field.nullable, metadata=field.metadata)


def _normal_type(arrow: pa.DataType, path: tuple[str, ...]) -> pa.DataType:
    kinds = pa.types
    if isinstance(arrow, pa.BaseExtensionType):
        return _normal_type(arrow.storage_type, path)
    if kinds.is_dictionary(arrow) or kinds.is_run_end_encoded(arrow):
        return _normal_type(arrow.value_type, path)
    if kinds.is_map(arrow):
        return pa.map_(
            _normal_field(arrow.key_field, path, "key"),
            _normal_field(arrow.item_field, path, "value"),
        )
    if hasattr(arrow, "value_field"):
        return pa.list_(_normal_field(arrow.value_field, path, "element"))
    if kinds.is_struct(arrow):
        return pa.struct([_normal_field(f, path) for f in arrow])
    if kinds.is_timestamp(arrow):
        if arrow.tz is None:
            return TIMESTAMP_NTZ
        return TIMESTAMP
    if kinds.is_decimal(arrow) and 0 <= arrow.scale <= arrow.precision <= MAX_DECIMAL_PRECISION:
        return pa.decimal128(arrow.precision, arrow.scale)
    if kinds.is_fixed_size_binary(arrow) and not kinds.is_decimal(arrow):
        return pa.binary()
    if arrow in _NORMAL:
        return _NORMAL[arrow]
    raise InvalidInputError(
        f"Column {'.'.join(path)!r} has the Arrow type {arrow}, which Spark does not have.",
        hint="Cast the column to a type that Spark has before writing.",
        column=".".join(path),
        type=str(arrow),
    )


_NORMAL: dict[pa.DataType, pa.DataType] = {
    **{
        same: same
        for same in (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64())
    },
    **{same: same for same in (pa.bool_(), pa.null(), pa.month_day_nano_interval())},
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
    **dict.fromkeys((pa.string(), pa.large_string(), pa.string_view()), pa.string()),
    **dict.fromkeys((pa.binary(), pa.large_binary(), pa.binary_view()), pa.binary()),
    **dict.fromkeys((pa.date32(), pa.date64()), pa.date32()),
    **dict.fromkeys(
        (pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")), pa.time64("ns")
    ),
    **dict.fromkeys((pa.duration(unit) for unit in ("s", "ms", "us", "ns")), pa.duration("us")),
}


def check_names(fields: Iterable[pa.Field]) -> None:
    """Refuse columns without a name, and duplicate names, ignoring case."""
    _check_names(list(fields), ())


def _check_names(fields: Sequence[pa.Field], parents: tuple[str, ...]) -> None:
    by_key: dict[str, str] = {}
    for field in fields:
        if not field.name:
            raise InvalidInputError(
                f"A column{_inside(parents)} has no name.", hint="Give every column a name."
            )
        key = field.name.lower()
        if key in by_key:
            names = [by_key[key], field.name]
            raise InvalidInputError(
                f"Two columns{_inside(parents)} have the same name: {_quote_names(names)}.",
                hint="Names that differ only by case count as the same; rename one.",
                columns=names,
            )
        by_key[key] = field.name
        for child in _children(field.type):
            _check_names(child, (*parents, field.name))


def _children(arrow: pa.DataType) -> list[list[pa.Field]]:
    """Return the structs directly inside a type, each as its list of fields."""
    if pa.types.is_struct(arrow):
        return [list(arrow)]
    if pa.types.is_map(arrow):
        return _children(arrow.key_type) + _children(arrow.item_type)
    if pa.types.is_list(arrow):
        return _children(arrow.value_type)
    return []


def _inside(parents: tuple[str, ...]) -> str:
    if parents:
        return f" of {'.'.join(parents)!r}"
    return ""


def _quote_names(names: Iterable[str]) -> str:
    return ", ".join(repr(n) for n in names)


class SchemaDifference(Struct, frozen=True):
    """One column at which data and table differ. `kind` is missing, extra, type or nullability,
    seen from the data.
    """

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
    """Return every difference of the data's schema from the table's at any depth, ignoring order
    and case of names.
    """
    return tuple(_struct_differences(list(table), list(data), ()))


def mismatch(
    differences: Iterable[SchemaDifference], *, what: str = "The data does"
) -> SchemaMismatchError:
    """Return the error that lists all differences."""
    faults = list(differences)
    return SchemaMismatchError(
        f"{what} not fit the table's schema: {'; '.join(str(d) for d in faults)}.",
        hint=" ".join(dict.fromkeys(_way_out(d) for d in faults)),
        differences=[
            {"kind": d.kind, "column": d.column, "table": d.table, "data": d.data} for d in faults
        ],
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
    """Return the table's schema followed by the data's new columns, nullable because existing rows
    lack them.

    New fields inside structs are added too. A column with another type raises
    `SchemaMismatchError`.
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
    fields = _by_name(table)
    differences: list[SchemaDifference] = []
    for field in table:
        path = ".".join((*parents, field.name))
        other = theirs.get(field.name.lower())
        if other is None:
            differences.append(SchemaDifference("missing", path, type_name(field.type), None))
        else:
            differences += _field_differences(field, other, (*parents, field.name))
    for field in data:
        if field.name.lower() not in fields:
            path = ".".join((*parents, field.name))
            differences.append(SchemaDifference("extra", path, None, type_name(field.type)))
    return differences


def _field_differences(
    table: pa.Field, data: pa.Field, path: tuple[str, ...]
) -> list[SchemaDifference]:
    differences: list[SchemaDifference] = []
    if data.nullable and not table.nullable:
        differences.append(
            SchemaDifference(
                "nullability", ".".join(path), type_name(table.type), type_name(data.type)
            )
        )
    pairs = _nested_fields(table.type, data.type)
    if pa.types.is_struct(table.type) and pa.types.is_struct(data.type):
        return differences + _struct_differences(list(table.type), list(data.type), path)
    if pairs:
        return differences + [
            d for name, a, b in pairs for d in _field_differences(a, b, (*path, name))
        ]
    if table.type != data.type:
        differences.append(
            SchemaDifference("type", ".".join(path), type_name(table.type), type_name(data.type))
        )
    return differences


def _nested_fields(table: pa.DataType, data: pa.DataType) -> list[tuple[str, pa.Field, pa.Field]]:
    """Return the element, or key and value, of two collections of the same kind."""
    if pa.types.is_map(table) and pa.types.is_map(data):
        return [
            ("key", table.key_field, data.key_field),
            ("value", table.item_field, data.item_field),
        ]
    if pa.types.is_list(table) and pa.types.is_list(data):
        return [("element", table.value_field, data.value_field)]
    return []


def _merge_fields(table: Sequence[pa.Field], data: Sequence[pa.Field]) -> list[pa.Field]:
    theirs = _by_name(data)
    fields = _by_name(table)
    merged = [
        _merge_field(f, theirs[f.name.lower()]) if f.name.lower() in theirs else f for f in table
    ]
    return merged + [f.with_nullable(True) for f in data if f.name.lower() not in fields]


def _merge_field(table: pa.Field, data: pa.Field) -> pa.Field:
    if pa.types.is_struct(table.type):
        return table.with_type(pa.struct(_merge_fields(list(table.type), list(data.type))))
    if pa.types.is_map(table.type):
        key = _merge_field(table.type.key_field, data.type.key_field)
        return table.with_type(
            pa.map_(key, _merge_field(table.type.item_field, data.type.item_field))
        )
    if pa.types.is_list(table.type):
        return table.with_type(
            pa.list_(_merge_field(table.type.value_field, data.type.value_field))
        )
    return table


def is_readable_as(old: pa.DataType, new: pa.DataType) -> bool:
    """Return whether values stored as one type are valid values of a column with another type."""
    kinds = pa.types
    if old.equals(new) or is_wider(old, new):
        return True
    if kinds.is_struct(old) and kinds.is_struct(new):
        both = {field.name for field in old} & {field.name for field in new}
        return bool(both) and all(
            is_readable_as(old.field(name).type, new.field(name).type) for name in both
        )
    if kinds.is_map(old) and kinds.is_map(new):
        return is_readable_as(old.key_type, new.key_type) and is_readable_as(
            old.item_type, new.item_type
        )
    if kinds.is_list(old) and kinds.is_list(new):
        return is_readable_as(old.value_type, new.value_type)
    return False


def is_wider(old: pa.DataType, new: pa.DataType) -> bool:
    """Return whether a type contains every value of another, and readers of old splits can convert
    them.
    """
    kinds = pa.types
    if kinds.is_integer(old) and kinds.is_integer(new):
        return bool(old.bit_width < new.bit_width)
    if kinds.is_integer(old) and kinds.is_float64(new):
        return bool(old.bit_width <= 32)
    if kinds.is_integer(old) and kinds.is_decimal(new):
        digits = {8: 3, 16: 5, 32: 10, 64: 20}[old.bit_width]
        return bool(new.precision - new.scale >= digits)
    if kinds.is_decimal(old) and kinds.is_decimal(new):
        more = new.scale >= old.scale and new.precision - new.scale >= old.precision - old.scale
        return bool(more and old != new)
    if kinds.is_float32(old) and kinds.is_float64(new):
        return True
    return bool(kinds.is_date(old) and kinds.is_timestamp(new) and new.tz is None)

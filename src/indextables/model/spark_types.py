"""Spark's types and Arrow's: the JSON of a Spark schema on one side, Arrow fields on the other.

What Arrow cannot say by its type alone travels in the metadata of the Arrow field and comes back unchanged:

- `SPARK::metadata::json` holds the field's Spark metadata (the key that PySpark uses itself);
- `SPARK::type` holds the spelling of a type that Arrow widens (`varchar(5)`, `interval day to hour`, `variant`, ...);
- Arrow metadata of others is kept in the Spark metadata under `ARROW::metadata`.
"""

from __future__ import annotations

import base64
import json
import re
from typing import Any

import pyarrow as pa

from indextables.errors import CorruptTableError, UnsupportedError, shown

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
_ALIASES = {"null": "void", "timestamp_ltz": "timestamp", "decimal": "decimal(10,0)", "tinyint": "byte"} | {
    "smallint": "short",
    "int": "integer",
    "bigint": "long",
}
_SQL_NAMES = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint"}

_DECIMAL = re.compile(r"decimal\(\s*(\d+)\s*,\s*(-?\d+)\s*\)")
_WIDENED = (
    (re.compile(r"(?:var)?char\(\s*\d+\s*\)"), pa.string()),
    (re.compile(r"string\s+collate\s+\w+"), pa.string()),
    (re.compile(r"interval (?:day|hour|minute|second)(?: to (?:hour|minute|second))?"), pa.duration("us")),
    (re.compile(r"time\(\s*\d\s*\)"), pa.time64("ns")),
    (re.compile(r"variant"), _VARIANT),
)


MAX_DEPTH = 100
"""How deep types may be nested: more than any data has, and less than any library's stack."""


def field_from_json(spark: Any, depth: int = 0) -> pa.Field:
    """One field of a Spark struct as an Arrow field."""
    if not isinstance(spark, dict) or not isinstance(spark.get("name"), str) or "type" not in spark:
        raise CorruptTableError(f"Not a field of a Spark schema: {shown(spark)}.")
    metadata = _arrow_metadata(spark.get("metadata") or {})
    return _typed_field(spark["name"], spark["type"], spark.get("nullable", True), metadata, depth=depth)


def field_to_json(field: pa.Field) -> dict[str, Any]:
    """An Arrow field as one field of a Spark struct."""
    return {
        "name": field.name,
        "type": _type_to_json(field),
        "nullable": field.nullable,
        "metadata": _spark_metadata(field.metadata or {}),
    }


def spark_metadata(field: pa.Field) -> dict[str, Any]:
    """The Spark metadata of a field."""
    return _spark_metadata(field.metadata or {})


def type_name(arrow: pa.DataType) -> str:
    """The type as Spark SQL spells it (`bigint`, `array<string>`); Arrow's own name where Spark has none."""
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
    return str(arrow) if name is None else _SQL_NAMES.get(name, name)


def _typed_field(
    name: str, spark: Any, nullable: bool, metadata: dict[bytes, bytes] | None = None, *, depth: int
) -> pa.Field:
    if not isinstance(nullable, bool):
        raise CorruptTableError(f"Column {shown(name)} is nullable or not; {shown(nullable)} is neither.")
    if not _is_text(name):
        raise CorruptTableError(f"A column has a name that is no text: {shown(name)}.")
    arrow, widened = _type_from_json(spark, name, depth)
    entries = dict(metadata or {})
    if widened:
        entries[TYPE_KEY] = json.dumps(spark, ensure_ascii=False, separators=(",", ":")).encode()
    return pa.field(name, arrow, nullable=nullable, metadata=entries or None)


def _is_text(name: str) -> bool:
    """Whether a name can be written at all: half of a surrogate pair cannot."""
    return name.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in name)


def _type_from_json(spark: Any, name: str, depth: int) -> tuple[pa.DataType, bool]:
    """The Arrow type, and whether the Spark spelling must be remembered because Arrow's type says less."""
    if depth > MAX_DEPTH:
        raise CorruptTableError(f"Column {shown(name)} is nested deeper than {MAX_DEPTH} levels.", column=name)
    depth += 1
    if isinstance(spark, str):
        return _atomic_from_name(spark, name)
    kind = spark.get("type") if isinstance(spark, dict) else None
    if kind == "struct" and isinstance(spark.get("fields"), list):
        return pa.struct([field_from_json(f, depth) for f in spark["fields"]]), False
    if kind == "array" and "elementType" in spark:
        return pa.list_(
            _typed_field("element", spark["elementType"], spark.get("containsNull", True), depth=depth)
        ), False
    if kind == "map" and "keyType" in spark and "valueType" in spark:
        key = _typed_field("key", spark["keyType"], False, depth=depth)
        return pa.map_(
            key, _typed_field("value", spark["valueType"], spark.get("valueContainsNull", True), depth=depth)
        ), False
    if kind == "udt" and "sqlType" in spark:
        return _type_from_json(spark["sqlType"], name, depth)[0], True
    raise CorruptTableError(f"Column {shown(name)} has a type that is not a Spark type: {shown(spark)}.")


def _atomic_from_name(spark: str, name: str) -> tuple[pa.DataType, bool]:
    word = spark.strip().lower()
    atomic = _BY_NAME.get(_ALIASES.get(word, word))
    if atomic is not None:
        return atomic, False
    if match := _DECIMAL.fullmatch(_ALIASES.get(word, word)):
        digits, scale = match[1].lstrip("0") or "0", match[2]
        if len(digits) > 2 or len(scale) > 3 or not 0 <= int(scale) <= int(digits) <= MAX_DECIMAL_PRECISION:
            raise CorruptTableError(f"Column {shown(name)} has the type {shown(spark)}; decimals end at 38 digits.")
        return pa.decimal128(int(digits), int(scale)), False
    for pattern, arrow in _WIDENED:
        if pattern.fullmatch(word):
            return arrow, True
    raise UnsupportedError(
        f"Column {shown(name)} has the type {shown(spark)}, which this release cannot read.", column=name, type=spark
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
        return {"type": "array", "elementType": _type_to_json(element), "containsNull": element.nullable}
    if pa.types.is_map(arrow):
        key, value = _type_to_json(arrow.key_field), _type_to_json(arrow.item_field)
        return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": arrow.item_field.nullable}
    if arrow.equals(_VARIANT, check_metadata=True):
        return "variant"
    if pa.types.is_struct(arrow):
        return {"type": "struct", "fields": [field_to_json(f) for f in arrow]}
    name = _NAMES.get(arrow)
    if name is None:
        raise UnsupportedError(f"Column {field.name!r} has the Arrow type {arrow}, which Spark does not have.")
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
    spark: dict[str, Any] = json.loads(arrow[METADATA_KEY]) if METADATA_KEY in arrow else {}
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

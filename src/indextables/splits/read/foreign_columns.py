"""The fields of another engine's splits, what the columns of a table are in them, and their values as Arrow arrays.

Nearly all splits of a table have the same fields. What follows from them alone is worked out once, and found again by the
bytes that name them in `meta.json`: splits whose fields differ in anything share nothing.
"""

from __future__ import annotations

import base64
import datetime
import ipaddress
import json
from collections.abc import Mapping, Sequence
from decimal import Decimal
from enum import Enum
from functools import cached_property, lru_cache
from typing import Any

import msgspec
import pyarrow as pa

from indextables.errors import BadFileError
from indextables.splits.index.mapping import TOKENIZERS, WHOLE_TOKENIZERS, ColumnMapping, DocMapping, is_nested

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_ARRAY_KEY = "_values"
"""An array is stored as an object under this key, since tantivy's json fields hold objects only."""


def to_array(values: Sequence[Any], field: pa.Field, path: str) -> pa.Array:
    """A column of document values in the column's type."""
    try:
        return pa.array([_convert(v, field.type, nested=False) for v in values], field.type)
    except (pa.ArrowException, ValueError, TypeError, LookupError, AttributeError, ArithmeticError) as e:
        message = f"Column {field.name!r} of the split {path} does not fit the table's {field.type}: {e}."
        raise BadFileError(message, path=path, column=field.name) from e


def plain_address(value: Any) -> Any:
    """An address as people write it: the other engine stores `10.0.0.1` as `::ffff:10.0.0.1`."""
    if not isinstance(value, str):
        return value
    try:
        address = ipaddress.ip_address(value)
    except ValueError:
        return value
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return value if mapped is None else str(mapped)


def _convert(value: Any, kind: pa.DataType, *, nested: bool) -> Any:
    if value is None:
        return None
    if pa.types.is_nested(kind):
        return _convert_nested(value, kind)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return value if isinstance(value, str) else json.dumps(_plain(value), ensure_ascii=False, separators=(",", ":"))
    if pa.types.is_timestamp(kind):
        return _moment(value, kind, nested)
    if pa.types.is_date(kind):
        moment = _moment(value, None, nested)
        return moment.date()
    if pa.types.is_decimal(kind):
        return Decimal(str(value)).quantize(Decimal(1).scaleb(-kind.scale))
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return base64.b64decode(value, validate=True) if isinstance(value, str) else bytes(value)
    if pa.types.is_floating(kind):
        return float(value)
    return value


def _convert_nested(value: Any, kind: pa.DataType) -> Any:
    if pa.types.is_struct(kind):
        fields = [kind.field(i) for i in range(kind.num_fields)]
        return {f.name: _convert(value.get(f.name), f.type, nested=True) for f in fields}
    if pa.types.is_map(kind):
        return [
            (_convert(_key(k, kind.key_type), kind.key_type, nested=True), _convert(v, kind.item_type, nested=True))
            for k, v in value.items()
        ]
    items = value[_ARRAY_KEY] if isinstance(value, dict) else value
    return [_convert(item, kind.value_type, nested=True) for item in items]


def _key(text: str, kind: pa.DataType) -> Any:
    """A map's key, which JSON can only hold as text."""
    if pa.types.is_integer(kind):
        return int(text)
    return text == "true" if pa.types.is_boolean(kind) else text


def _moment(value: Any, kind: pa.DataType | None, nested: bool) -> datetime.datetime:
    """A moment: tantivy's own date at the top, milliseconds since 1970 inside of a document."""
    if isinstance(value, int) and nested:
        value = _EPOCH + datetime.timedelta(milliseconds=value)
    if isinstance(value, str):
        value = datetime.datetime.fromisoformat(value)
    moment: datetime.datetime = value if value.tzinfo else value.replace(tzinfo=datetime.UTC)
    return moment if kind is None or kind.tz else moment.astimezone(datetime.UTC).replace(tzinfo=None)


def _plain(value: Any) -> Any:
    """A document's value as JSON can write it; tantivy reads texts that look like moments as moments."""
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_plain(v) for v in value]
    if isinstance(value, datetime.datetime):
        return value.isoformat().replace("+00:00", "Z")
    return value


_DAY_NANOSECONDS = 86_400_000_000_000
_PLAIN_CHECKS = (pa.types.is_string, pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean)


class PlainForm(Enum):
    """How a value of a document, which is of a tantivy type, becomes one of its column's type."""

    MICROSECONDS = "us"
    DAYS = "days"
    MOMENT = "moment"
    SAME = "same"
    OTHER = "other"


def plain_form(kind: pa.DataType, stored: str) -> PlainForm:
    """How values of a tantivy type become those of a column."""
    if stored == "date":
        if pa.types.is_timestamp(kind) and kind.unit == "us":
            return PlainForm.MICROSECONDS
        return PlainForm.DAYS if pa.types.is_date32(kind) else PlainForm.MOMENT
    return PlainForm.SAME if any(check(kind) for check in _PLAIN_CHECKS) else PlainForm.OTHER


def plain_array(values: list[Any], field: pa.Field, form: PlainForm, path: str) -> pa.Array:
    """Values of documents in the type of their column."""
    if form is PlainForm.SAME:
        try:
            return pa.array(values, field.type)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            pass  # said by `to_array` in words
    elif form is PlainForm.MICROSECONDS:
        return pa.array([None if v is None else v // 1000 for v in values], field.type)
    elif form is PlainForm.DAYS:
        return pa.array([None if v is None else v // _DAY_NANOSECONDS for v in values], field.type)
    elif form is PlainForm.MOMENT:
        values = [None if v is None else _EPOCH + datetime.timedelta(microseconds=v // 1000) for v in values]
    return to_array(values, field, path)


ADDRESS = "ip_addr"
_FAST_TYPES = ("i64", "u64", "f64", "bool")
"""What can be read back from its column where the documents do not store it."""
_PLAIN_TYPES = ("text", "i64", "u64", "f64", "bool", "date")
_KNOWN_SCHEMAS = 64
_KNOWN_TABLES = 8


class BundleSegment(msgspec.Struct, frozen=True, gc=False):
    """A segment, as `meta.json` names it."""

    segment_id: str
    max_doc: int
    deletes: Any

    @property
    def stem(self) -> str:
        """How the names of its files begin."""
        return self.segment_id.replace("-", "")


class BundleMeta(msgspec.Struct, frozen=True):
    """What is read of a `meta.json`."""

    segments: tuple[BundleSegment, ...]
    schema: msgspec.Raw


# Made once, at import: msgspec crashes if two threads are the first to look into a type.
_META = msgspec.json.Decoder(BundleMeta)


def decode_meta(data: bytes) -> BundleMeta:
    """The `meta.json` of a bundle; `msgspec.DecodeError` where it is garbled."""
    return _META.decode(data)


class BundleFields:
    """The fields of a bundle in the order of their numbers."""

    def __init__(self, entries: Sequence[dict[str, Any]]) -> None:
        self.entries: Mapping[str, dict[str, Any]] = {str(entry["name"]): entry for entry in entries}
        self.numbers = {name: number for number, name in enumerate(self.entries)}
        self.records = [_record(entry) for entry in self.entries.values()]
        self._tables: list[ForeignColumns] = []

    @staticmethod
    def of(meta: BundleMeta) -> BundleFields:
        """Those that a `meta.json` names."""
        return _fields_of(bytes(meta.schema))

    def under(self, schema: pa.Schema) -> ForeignColumns:
        """The columns of a table in splits with these fields."""
        for known in self._tables:
            if known.table is schema:
                return known
        for known in self._tables:
            if known.table.equals(schema, check_metadata=True):
                return known
        columns = ForeignColumns(self, schema)
        self._tables = [columns, *self._tables[: _KNOWN_TABLES - 1]]
        return columns

    def option(self, name: str, option: str) -> bool:
        """Whether a field has an option."""
        return bool(self.entries[name].get("options", {}).get(option, False))


@lru_cache(maxsize=_KNOWN_SCHEMAS)
def _fields_of(data: bytes) -> BundleFields:
    return BundleFields(msgspec.json.decode(data))


class ForeignColumns:
    """The columns of a table in splits that have certain fields. Nothing here is of one split alone."""

    def __init__(self, fields: BundleFields, table: pa.Schema) -> None:
        self.table = table
        self.fields = fields
        has_all = fields.entries.keys() >= set(table.names)
        self.schema = table if has_all else pa.schema([f for f in table if f.name in fields.entries])
        self.columns: Mapping[str, pa.Field] = {field.name: field for field in self.schema}
        self.kinds = {name: self._term_kind(field) for name, field in self.columns.items()}
        """What the terms of each column are, if each of them is a whole value."""
        self.plain = {name: self._plain_form(field) for name, field in self.columns.items() if self._is_plain(name)}
        """Columns that are read from documents without tantivy, and how their values become those of the table."""
        self.readable = frozenset(name for name in self.columns if self._is_readable(name))
        """Columns whose values can be read back."""
        self._parts: dict[tuple[str, ...], pa.Schema] = {}

    @cached_property
    def mapping(self) -> DocMapping:
        """How the other engine indexed the columns, in our terms."""
        entries = self.fields.entries
        return DocMapping(tuple(_column(f, number, entries[f.name]) for number, f in enumerate(self.schema)))

    def part(self, names: Sequence[str]) -> pa.Schema:
        """The schema of some columns."""
        key = tuple(names)
        known = self._parts.get(key)
        if known is None:
            if len(self._parts) >= _KNOWN_SCHEMAS:
                self._parts.clear()
            known = self._parts[key] = pa.schema([self.columns[name] for name in names])
        return known

    def _term_kind(self, field: pa.Field) -> str | None:
        entry = self.fields.entries[field.name]
        kind, options = str(entry["type"]), entry.get("options", {})
        if kind == "text":
            whole = (options.get("indexing") or {}).get("tokenizer") == "raw"
            return kind if whole and pa.types.is_string(field.type) else None
        fits = {"i64": pa.types.is_signed_integer, "u64": pa.types.is_integer, "f64": pa.types.is_floating}
        fits |= {"bool": pa.types.is_boolean, "date": _is_moment}
        return kind if options.get("indexed") and kind in fits and fits[kind](field.type) else None

    def _plain_form(self, field: pa.Field) -> PlainForm:
        return plain_form(field.type, str(self.fields.entries[field.name]["type"]))

    def _is_plain(self, name: str) -> bool:
        return self.fields.entries[name]["type"] in _PLAIN_TYPES and self.fields.option(name, "stored")

    def _is_readable(self, name: str) -> bool:
        fast = self.fields.entries[name]["type"] in _FAST_TYPES and self.fields.option(name, "fast")
        return fast or self.fields.option(name, "stored")


def _record(entry: dict[str, Any]) -> str:
    """What the postings of a field hold besides documents."""
    indexing = entry.get("options", {}).get("indexing")
    return str(indexing.get("record", "basic")) if isinstance(indexing, dict) else "basic"


def _is_moment(kind: pa.DataType) -> bool:
    return bool(pa.types.is_date32(kind) or (pa.types.is_timestamp(kind) and kind.unit == "us"))


def _column(field: pa.Field, number: int, entry: dict[str, Any]) -> ColumnMapping:
    """A tantivy field of another engine as a column of ours; what we cannot index alike is `none`."""
    options = entry.get("options", {})
    indexing = options.get("indexing") or {}
    known = indexing.get("tokenizer") in TOKENIZERS
    tokenizer = indexing["tokenizer"] if known else "default"
    name = f"c{number}"
    if entry["type"] == ADDRESS and options.get("indexed"):
        return ColumnMapping(field.name, name, "ip")
    if entry["type"] == "json_object" and indexing:
        return ColumnMapping(field.name, name, "json", "default", indexing.get("record", "position"))
    if entry["type"] != "text" or not indexing or is_nested(field.type):
        return ColumnMapping(field.name, name, "none")
    if tokenizer in WHOLE_TOKENIZERS:
        return ColumnMapping(field.name, name, "string", tokenizer, "basic")
    return ColumnMapping(field.name, name, "text", tokenizer, indexing.get("record", "position"))

"""Fields of another engine's splits: their meaning as table columns, and their documents as rows.

The document store is compressed blocks of documents, a format of tantivy (`store` of its sources).

Nearly all splits of a table have the same fields. What depends on the fields alone is computed once
and cached by the bytes of `meta.json` that define them. Splits with any difference share nothing.
"""

from __future__ import annotations

import base64
import datetime
import ipaddress
import json
import struct
import sys
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import cached_property, lru_cache
from typing import Any

import msgspec
import pyarrow as pa
from msgspec import Struct

from indextables.config.indexing import TOKENIZERS
from indextables.errors import BadFileError
from indextables.splits.index.mapping import WHOLE_TOKENIZERS, ColumnMapping, DocMapping, is_nested
from indextables.splits.index.tantivy_files import footer_length
from indextables.splits.read.bundle_files import Data, UnknownFormError, stop_number

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_ARRAY_KEY = "_values"
"""Key of the object in which an array is stored, because tantivy's JSON fields hold objects only.
"""


def to_array(values: Sequence[Any], field: pa.Field, path: str) -> pa.Array:
    """Convert a column of document values to the column's type."""
    try:
        return pa.array([_convert(v, field.type, nested=False) for v in values], field.type)
    except (
        pa.ArrowException,
        ValueError,
        TypeError,
        LookupError,
        AttributeError,
        ArithmeticError,
    ) as e:
        message = (
            f"Column {field.name!r} of the split {path} does not fit the table's {field.type}: {e}."
        )
        raise BadFileError(message, path=path, column=field.name) from e


def plain_address(value: Any) -> Any:
    """Return an address in its usual form: the other engine stores `10.0.0.1` as `::ffff:10.0.0.1`."""
    if not isinstance(value, str):
        return value
    try:
        address = ipaddress.ip_address(value)
    except ValueError:
        return value
    if isinstance(address, ipaddress.IPv6Address):
        mapped = address.ipv4_mapped
    else:
        mapped = None
    if mapped is None:
        return value
    return str(mapped)


def _convert(value: Any, kind: pa.DataType, *, nested: bool) -> Any:
    if value is None:
        return None
    if pa.types.is_nested(kind):
        return _convert_nested(value, kind)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        if isinstance(value, str):
            return value
        return json.dumps(_plain(value), ensure_ascii=False, separators=(",", ":"))
    if pa.types.is_timestamp(kind):
        return _moment(value, kind, nested)
    if pa.types.is_date(kind):
        moment = _moment(value, None, nested)
        return moment.date()
    if pa.types.is_decimal(kind):
        return Decimal(str(value)).quantize(Decimal(1).scaleb(-kind.scale))
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        if isinstance(value, str):
            return base64.b64decode(value, validate=True)
        return bytes(value)
    if pa.types.is_floating(kind):
        return float(value)
    return value


def _convert_nested(value: Any, kind: pa.DataType) -> Any:
    if pa.types.is_struct(kind):
        fields = [kind.field(i) for i in range(kind.num_fields)]
        return {f.name: _convert(value.get(f.name), f.type, nested=True) for f in fields}
    if pa.types.is_map(kind):
        return [
            (
                _convert(_key(k, kind.key_type), kind.key_type, nested=True),
                _convert(v, kind.item_type, nested=True),
            )
            for k, v in value.items()
        ]
    items = value[_ARRAY_KEY] if isinstance(value, dict) else value
    return [_convert(item, kind.value_type, nested=True) for item in items]


def _key(text: str, kind: pa.DataType) -> Any:
    """Return a map's key, which is text in JSON."""
    if pa.types.is_integer(kind):
        return int(text)
    if pa.types.is_boolean(kind):
        return text == "true"
    return text


def _moment(value: Any, kind: pa.DataType | None, nested: bool) -> datetime.datetime:
    """Return a timestamp: tantivy's date at top level, milliseconds since 1970 inside of a
    document.
    """
    if isinstance(value, int) and nested:
        value = _EPOCH + datetime.timedelta(milliseconds=value)
    if isinstance(value, str):
        value = datetime.datetime.fromisoformat(value)
    moment: datetime.datetime = value if value.tzinfo else value.replace(tzinfo=datetime.UTC)
    if kind is None or kind.tz:
        return moment
    return moment.astimezone(datetime.UTC).replace(tzinfo=None)


def _plain(value: Any) -> Any:
    """Return a document value as JSON. Tantivy converts texts that look like timestamps to
    timestamps.
    """
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_plain(v) for v in value]
    if isinstance(value, datetime.datetime):
        return value.isoformat().replace("+00:00", "Z")
    return value


_DAY_NANOSECONDS = 86_400_000_000_000
_PLAIN_CHECKS = (pa.types.is_string, pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean)
_SIGN = 1 << 63
_WORD = struct.Struct("<Q")
_FLOAT = struct.Struct("<d")

Change = Callable[[Any], Any]
"""Conversion of a document value."""


class PlainForm(Struct, frozen=True):
    """Conversion of a document value of a tantivy type to its column's type."""

    change: Change | None
    """The conversion, or None."""
    fits: bool
    """Whether Arrow accepts the converted value; otherwise `to_array` converts the column."""


def plain_form(kind: pa.DataType, stored: str) -> PlainForm:
    """Return how values of a tantivy type become values of a column."""
    if stored == "date":
        if pa.types.is_timestamp(kind) and kind.unit == "us":
            return PlainForm(lambda nanoseconds: nanoseconds // 1000, True)
        if pa.types.is_date32(kind):
            return PlainForm(lambda nanoseconds: nanoseconds // _DAY_NANOSECONDS, True)
        return PlainForm(
            lambda nanoseconds: _EPOCH + datetime.timedelta(microseconds=nanoseconds // 1000), False
        )
    return PlainForm(None, any(check(kind) for check in _PLAIN_CHECKS))


def _to_float(word: float) -> float:
    """Decode a float from the order-preserving integer encoding.

    The sign bit of positive numbers is flipped; of negative ones every bit.
    """
    if word < 0:
        return -word
    (number,) = _WORD.unpack(_FLOAT.pack(word))
    value: float = _FLOAT.unpack(_WORD.pack(number ^ (_SIGN if number & _SIGN else 2 * _SIGN - 1)))[
        0
    ]
    return value


_STORE_VERSION = 2
_STORE_FOOTER = struct.Struct("<IQB15x")
_PLAIN, _LZ4, _ZSTD = 0, 1, 4
_TEXT, _U64, _I64, _DATE, _F64, _BOOL = 0, 1, 2, 5, 6, 9
_OTHER_KINDS = frozenset({3, 4, 7, 8, 10, 11, 12, 13})
"""Facets, bytes, extensions, JSON, addresses, nulls, arrays and objects."""
_HEAD_BYTES = 5
_KNOWN_VALUES = 10_000
_FIXED = {
    code: struct.Struct(form)
    for code, form in ((_U64, "<Q"), (_I64, "<q"), (_DATE, "<q"), (_F64, "<d"), (_BOOL, "<?"))
}
"""Kinds of values with a fixed length."""


class DocumentStore:
    """The stored documents of one segment."""

    def __init__(self, data: Data) -> None:
        stop = len(data) - footer_length(data, ".store")
        try:
            version, index, self._codec = _STORE_FOOTER.unpack(
                data[stop - _STORE_FOOTER.size : stop]
            )
            if version != _STORE_VERSION or self._codec not in (_PLAIN, _LZ4, _ZSTD):
                raise ValueError(f"version {version}, compression {self._codec}")
            self._blocks = list(_checkpoints(bytes(data[index : stop - _STORE_FOOTER.size])))
        except (struct.error, IndexError, ValueError) as e:
            raise UnknownFormError(f"A document store cannot be read: {e}.") from e
        self._data = data
        self._starts = [block[0] for block in self._blocks]

    def read(
        self, numbers: Sequence[int], form: DocumentForm, columns: Sequence[list[Any]], row: int
    ) -> None:
        """Read documents, by ascending number, into columns starting at a row."""
        done = 0
        try:
            while done < len(numbers):
                texts, offsets, first = self._block(bisect_right(self._starts, numbers[done]) - 1)
                if numbers[done] < first:
                    raise IndexError("a document before the first block")
                last = bisect_left(numbers, first + len(offsets), done + 1)
                form.read(
                    texts,
                    [offsets[number - first] for number in numbers[done:last]],
                    columns,
                    row + done,
                )
                done = last
        except _OtherKindError as e:
            raise UnknownFormError(f"A document cannot be read: {e}.") from e
        except (
            struct.error,
            IndexError,
            ValueError,
            TypeError,
            OSError,  # of Arrow, for damaged LZ4
            zstd.ZstdError,
            pa.ArrowException,
        ) as e:
            # Not left to tantivy: a length that lies makes it end the process.
            raise BadFileError(f"A document is damaged: {e}.") from e

    def _block(self, number: int) -> tuple[bytes, list[int], int]:
        """Return a block, the offsets of its documents, and the number of the first. Not cached,
        because there are many splits.
        """
        first, start, end = self._blocks[number]
        data = bytes(self._data[start:end])
        if self._codec != _PLAIN:
            (size,) = struct.unpack("<I", data[:4])
            packed = data[4:]
            # What a block may unpack to is bounded: a size that lies does not take the machine's
            # memory.
            if size > 1 << 30:
                raise ValueError("a block claims more than a gigabyte")
            if self._codec == _ZSTD:
                data = zstd.ZstdDecompressor().decompress(packed, max_length=size + 1)
            else:
                data = pa.decompress(packed, size, codec="lz4_raw", asbytes=True)
            if len(data) != size:
                raise ValueError("a block is not as large as it claims")
        (count,) = struct.unpack("<I", data[-4:])
        end = len(data) - 4 - 4 * count
        return data[:end], list(struct.unpack_from(f"<{count}I", data, end)), first


def _checkpoints(index: bytes) -> Iterator[tuple[int, int, int]]:
    """Return first document, start and end of every block from the lowest layer of the block list."""
    layers, at = stop_number(index, 0)
    end = start = 0
    for _ in range(layers):
        start = end
        end, at = stop_number(index, at)
    data, at = index[at + start : at + end], 0
    while at < len(data):
        count, at = stop_number(data, at)
        if not count:
            break
        document, at = stop_number(data, at)
        place, at = stop_number(data, at)
        for _ in range(count):
            documents, at = stop_number(data, at)
            length, at = stop_number(data, at)
            yield document, place, place + length
            document, place = document + documents, place + length


_Value = tuple[Callable[[bytes, int], tuple[Any, ...]] | None, int, int, Change | None]
"""How to read values of a field and kind: unpacker (None for length-prefixed text), length, column
in the row (-1 to skip), and conversion.
"""


class _OtherKindError(Exception):
    """A value is of a kind that tantivy reads and `DocumentForm` does not."""


class DocumentForm:
    """Documents as rows: the first value of each requested field, in the order and types of the
    columns.

    A document is the number of its values followed by field number, kind and value of each. How to
    read a value follows from the bytes of its field and kind and is computed once.
    """

    def __init__(self, numbers: Sequence[int], changes: Sequence[Change | None]) -> None:
        self._places = {number: (place, changes[place]) for place, number in enumerate(numbers)}
        self._values: dict[bytes, _Value] = {}

    def columns(self, rows: int) -> list[list[Any]]:
        """Return empty columns for a number of rows, plus one list for skipped values."""
        return [[None] * rows for _ in range(len(self._places) + 1)]

    def read(
        self, data: bytes, starts: Sequence[int], columns: Sequence[list[Any]], row: int
    ) -> None:
        """Read the documents at some offsets of a block into columns, starting at a row."""
        values = self._values
        for row, start in enumerate(starts, row):  # noqa: B020 - from that row on
            count, at = (
                (data[start] - 128, start + 1) if data[start] >= 128 else stop_number(data, start)
            )
            for _ in range(count):
                head = data[at : at + _HEAD_BYTES]
                at += _HEAD_BYTES
                try:
                    unpack, length, place, change = values[head]
                except KeyError:
                    unpack, length, place, change = self._value(head)
                column = columns[place]
                if unpack is None:
                    length, at = (
                        (data[at] - 128, at + 1) if data[at] >= 128 else stop_number(data, at)
                    )
                    if column[row] is None:
                        column[row] = data[at : at + length].decode()
                elif column[row] is None:
                    column[row] = (
                        unpack(data, at)[0] if change is None else change(unpack(data, at)[0])
                    )
                at += length
            if at > len(data):
                raise ValueError("a value ends behind its block")

    def _value(self, head: bytes) -> _Value:
        """Return how to read values that begin with these bytes."""
        field, code = _VALUE_HEAD.unpack(head)
        place, change = self._places.get(field, (-1, None))
        form = _FIXED.get(code)
        if form is None and code in _OTHER_KINDS:
            raise _OtherKindError(f"a value of kind {code}")
        if form is None and code != _TEXT:
            raise ValueError(f"a value of kind {code}")
        if code == _F64:
            change = _after_float(change)
        known = (
            (None, 0, place, change)
            if form is None
            else (form.unpack_from, form.size, place, change)
        )
        if len(self._values) < _KNOWN_VALUES:
            self._values[head] = known
        return known


_VALUE_HEAD = struct.Struct("<IB")


def _after_float(change: Change | None) -> Change:
    if change is None:
        return _to_float
    return lambda number: change(_to_float(number))


ADDRESS = "ip_addr"
_FAST_TYPES = ("i64", "u64", "f64", "bool")
"""Types that can be read from their fast field if documents do not store them."""
_PLAIN_TYPES = ("text", "i64", "u64", "f64", "bool", "date")
_KNOWN_SCHEMAS = 64
_KNOWN_TABLES = 8


class BundleSegment(msgspec.Struct, frozen=True, gc=False):
    """A segment in `meta.json`."""

    segment_id: str
    max_doc: int
    deletes: Any

    @property
    def stem(self) -> str:
        """The prefix of its file names."""
        return self.segment_id.replace("-", "")


class BundleMeta(msgspec.Struct, frozen=True):
    """The parts of a `meta.json` that are read."""

    segments: tuple[BundleSegment, ...]
    schema: msgspec.Raw


# Made once, at import: msgspec crashes if two threads are the first to look into a type.
_META = msgspec.json.Decoder(BundleMeta)


def decode_meta(data: bytes) -> BundleMeta:
    """Parse the `meta.json` of a bundle. Garbled content raises `msgspec.DecodeError`."""
    return _META.decode(data)


class BundleFields:
    """The fields of a bundle by number."""

    def __init__(self, entries: Sequence[dict[str, Any]]) -> None:
        self.entries: Mapping[str, dict[str, Any]] = {
            str(entry["name"]): entry for entry in entries
        }
        self.numbers = {name: number for number, name in enumerate(self.entries)}
        self.records = [_record(entry) for entry in self.entries.values()]
        self._tables: list[ForeignColumns] = []

    @staticmethod
    def of(meta: BundleMeta) -> BundleFields:
        """Parse the fields of a `meta.json`."""
        return _fields_of(bytes(meta.schema))

    def under(self, schema: pa.Schema) -> ForeignColumns:
        """Return the columns of a table in splits with these fields."""
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
        """Return whether a field has an option."""
        return bool(self.entries[name].get("options", {}).get(option, False))


@lru_cache(maxsize=_KNOWN_SCHEMAS)
def _fields_of(data: bytes) -> BundleFields:
    return BundleFields(msgspec.json.decode(data))


class ForeignColumns:
    """The columns of a table in splits that have certain fields. Shared by all such splits."""

    def __init__(self, fields: BundleFields, table: pa.Schema) -> None:
        self.table = table
        self.fields = fields
        has_all = fields.entries.keys() >= set(table.names)
        self.schema = (
            table if has_all else pa.schema([f for f in table if f.name in fields.entries])
        )
        self.columns: Mapping[str, pa.Field] = {field.name: field for field in self.schema}
        self.kinds = {name: self._term_kind(field) for name, field in self.columns.items()}
        """Kind of each column's terms, for columns whose terms are whole values."""
        self.plain = {
            name: self._plain_form(field)
            for name, field in self.columns.items()
            if self._is_plain(name)
        }
        """Columns that are read from documents without tantivy, with their conversions."""
        self.readable = frozenset(name for name in self.columns if self._is_readable(name))
        """Columns whose values can be read."""
        self._parts: dict[tuple[str, ...], TablePart] = {}

    @cached_property
    def mapping(self) -> DocMapping:
        """How the other engine indexed the columns, as our mapping."""
        entries = self.fields.entries
        return DocMapping(
            tuple(_column(f, number, entries[f.name]) for number, f in enumerate(self.schema))
        )

    def part(self, names: Sequence[str]) -> TablePart:
        """Return a selection of columns."""
        key = tuple(names)
        known = self._parts.get(key)
        if known is None:
            if len(self._parts) >= _KNOWN_SCHEMAS:
                self._parts.clear()
            known = self._parts[key] = TablePart(self, names)
        return known

    def _term_kind(self, field: pa.Field) -> str | None:
        entry = self.fields.entries[field.name]
        kind, options = str(entry["type"]), entry.get("options", {})
        if kind == "text":
            whole = (options.get("indexing") or {}).get("tokenizer") == "raw"
            if whole and pa.types.is_string(field.type):
                return kind
            return None
        fits = {
            "i64": pa.types.is_signed_integer,
            "u64": pa.types.is_integer,
            "f64": pa.types.is_floating,
        }
        fits |= {"bool": pa.types.is_boolean, "date": _is_moment}
        if options.get("indexed") and kind in fits and fits[kind](field.type):
            return kind
        return None

    def _plain_form(self, field: pa.Field) -> PlainForm:
        return plain_form(field.type, str(self.fields.entries[field.name]["type"]))

    def _is_plain(self, name: str) -> bool:
        return self.fields.entries[name]["type"] in _PLAIN_TYPES and self.fields.option(
            name, "stored"
        )

    def _is_readable(self, name: str) -> bool:
        fast = self.fields.entries[name]["type"] in _FAST_TYPES and self.fields.option(name, "fast")
        return fast or self.fields.option(name, "stored")


class TablePart:
    """A selection of table columns, and how documents become their rows."""

    def __init__(self, columns: ForeignColumns, names: Sequence[str]) -> None:
        self.schema = pa.schema([columns.columns[name] for name in names])
        self._forms = [form for name in names if (form := columns.plain.get(name)) is not None]
        self.form: DocumentForm | None = None
        """How documents are read; None if tantivy must read some of the columns."""
        if len(self._forms) == len(names):
            numbers = [columns.fields.numbers[name] for name in names]
            self.form = DocumentForm(numbers, [form.change for form in self._forms])

    def batch(self, columns: Sequence[list[Any]], path: str) -> pa.RecordBatch:
        """Return columns of documents in the types of the table."""
        arrays = [
            _column_array(*column, path)
            for column in zip(columns, self.schema, self._forms, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def _column_array(values: Sequence[Any], field: pa.Field, form: PlainForm, path: str) -> pa.Array:
    if form.fits:
        try:
            return pa.array(values, field.type)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            pass  # said by `to_array` in words
    return to_array(values, field, path)


def _record(entry: dict[str, Any]) -> str:
    """Return what the postings of a field record in addition to documents."""
    indexing = entry.get("options", {}).get("indexing")
    if isinstance(indexing, dict):
        return str(indexing.get("record", "basic"))
    return "basic"


def _is_moment(kind: pa.DataType) -> bool:
    return bool(pa.types.is_date32(kind) or (pa.types.is_timestamp(kind) and kind.unit == "us"))


def _column(field: pa.Field, number: int, entry: dict[str, Any]) -> ColumnMapping:
    """Convert a tantivy field of another engine to one of our columns. What we cannot index in the
    same way is `none`.
    """
    options = entry.get("options", {})
    indexing = options.get("indexing") or {}
    known = indexing.get("tokenizer") in TOKENIZERS
    tokenizer = indexing["tokenizer"] if known else "default"
    name = f"c{number}"
    if entry["type"] == ADDRESS and options.get("indexed"):
        return ColumnMapping(field.name, name, "ip")
    if entry["type"] == "json_object" and indexing:
        return ColumnMapping(
            field.name, name, "json", "default", indexing.get("record", "position")
        )
    if entry["type"] != "text" or not indexing or is_nested(field.type):
        return ColumnMapping(field.name, name, "none")
    if tokenizer in WHOLE_TOKENIZERS:
        return ColumnMapping(field.name, name, "string", tokenizer, "basic")
    return ColumnMapping(field.name, name, "text", tokenizer, indexing.get("record", "position"))

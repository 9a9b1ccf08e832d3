"""Values of another engine's documents as Arrow arrays of the table's types."""

from __future__ import annotations

import base64
import datetime
import ipaddress
import json
from collections.abc import Sequence
from decimal import Decimal
from enum import Enum
from typing import Any

import pyarrow as pa

from indextables.errors import BadFileError

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

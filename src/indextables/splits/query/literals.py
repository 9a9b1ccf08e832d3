"""The text of a value in a query as a value of its column's type. ValueError says what is expected instead."""

from __future__ import annotations

import datetime
import decimal
import ipaddress
import math
from typing import Any

import pyarrow as pa

from indextables.model.values import is_relative, parse_moment
from indextables.splits.index.mapping import is_text
from indextables.splits.index.values import parse_address

FULL_MASK = (1 << 128) - 1
_IPV4_BITS = (1 << 32) - 1


def typed_value(text: str, kind: pa.DataType, now: datetime.datetime | None = None) -> Any:
    """A value of a column without an index. Times without an offset are UTC; `now` is the clock of relative ones."""
    if pa.types.is_dictionary(kind):
        return typed_value(text, kind.value_type, now)
    if is_text(kind):
        return text
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return _moment(text, kind, now)
    for check, parse, expected in _PARSERS:
        if check(kind):
            try:
                return parse(text)
            except (ValueError, ArithmeticError):
                raise ValueError(f"{text!r} is not {expected}") from None
    raise ValueError(f"a column of type {kind} cannot be compared in a query")


def address_mask(text: str) -> tuple[int, int]:
    """An address, a network (`10.0.0.0/8`, `fe80::/10`) or octets (`10.0.*.*`, `10.0.*`) as value and mask."""
    if "*" in text:
        return _octets(text)
    if "/" in text:
        return _network(text)
    address = parse_address(text)
    if address is None:
        raise ValueError(f"{text!r} is no IP address, network (10.0.0.0/8) or octet wildcard (10.0.*.*)")
    return int(address), FULL_MASK


def json_number(text: str) -> bool | int | float | None:
    """The number or truth value that a bare word can also mean in a json column."""
    if text in ("true", "false"):
        return text == "true"
    if not text or not (text[0].isdecimal() or text[0] in "+-.") or not text.isascii() or "_" in text:
        return None
    try:
        return int(text)
    except ValueError:
        pass
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _octets(text: str) -> tuple[int, int]:
    parts = text.split(".")
    while len(parts) < 4 and parts[-1] == "*":
        parts.append("*")
    value = mask = 0
    for part in parts:
        number = 0 if part == "*" else int(part) if part.isascii() and part.isdecimal() else 256
        if number > 255 or len(parts) != 4:
            raise ValueError(f"{text!r} is no octet wildcard such as 10.0.*.*")
        value, mask = value << 8 | number, mask << 8 | (0 if part == "*" else 255)
    return 0xFFFF << 32 | value, FULL_MASK ^ _IPV4_BITS | mask


def _network(text: str) -> tuple[int, int]:
    try:
        network = ipaddress.ip_network(text, strict=False)
    except ValueError:
        raise ValueError(f"{text!r} is no network such as 10.0.0.0/8") from None
    value, mask = int(network.network_address), int(network.netmask)
    if network.version == 4:
        return 0xFFFF << 32 | value, FULL_MASK ^ _IPV4_BITS | mask
    return value, mask


def _number(text: str) -> int | decimal.Decimal:
    value = decimal.Decimal(text)
    if not value.is_finite() or "_" in text or abs(value.adjusted()) > _MAX_DIGITS:
        raise ValueError(text)
    return int(value) if value == value.to_integral_value() else value


def _float(text: str) -> float:
    value = float(text)
    if "_" in text or math.isnan(value):
        raise ValueError(text)
    return value


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(text)
    return text.lower() == "true"


def _moment(text: str, kind: pa.DataType, now: datetime.datetime | None) -> datetime.date:
    try:
        value = parse_moment(text, now)
    except ValueError:
        expected = "2024-01-31" if pa.types.is_date(kind) else "2024-01-31T12:00:00Z"
        if is_relative(text) and now is None:
            raise
        message = f"{text!r} is not a date or time such as {expected}, 1706702400 (seconds since 1970) or now-15m"
        raise ValueError(message) from None
    whole_day = value.time() == datetime.time() and value.tzinfo is None
    return value.date() if whole_day and pa.types.is_date(kind) else value


_MAX_DIGITS = 400
_PARSERS = (
    (pa.types.is_boolean, _boolean, "true or false"),
    (pa.types.is_integer, _number, "a number"),
    (pa.types.is_floating, _float, "a number"),
    (pa.types.is_decimal, _number, "a number"),
)

"""Convert values of Python, JSON and Arrow to arrays of a column's type: without loss, or not at
all.

| function | takes | refuses |
|---|---|---|
| `array_of` | a list of Python values | a value that the type cannot hold exactly |
| `exact_cast` | an Arrow array of any type | a cast that would change a value |

Arrow alone would cut 2.9 to 2 for an integer column, turn 1e300 into infinity for a `float` column,
split the text `red` into letters for a list column, drop the zone of a time, and read a number as
microseconds since 1970.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from functools import partial
from math import isinf
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from indextables.model.relative_times import epoch_moment
from indextables.model.values import parse_float

Convert = Callable[[Any], Any]
LOST = "a part of it would be lost"
_FINER = "times end at microseconds, and it has more digits"
_EXACT_FLOATS = 2**53
_EXACT_DIGITS = 15
_FLOAT32_END = 2.0**128 - 2.0**103
"""From this value on a number becomes infinite as a 32-bit float."""
_FRACTION = re.compile(r"[.,](\d{7,})")
_WHOLE = re.compile(r"\s*[+-]?\d{8,}\s*", re.ASCII)
_TIME = re.compile(r"(\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,9}))?)?", re.ASCII)


class UnfitError(ValueError):
    """A value does not fit a type. The message is the reason, worded as the end of a sentence about
    the value.
    """


UNFIT = (ValueError, TypeError, ArithmeticError, pa.ArrowException)
"""Exceptions of a value that does not fit."""


# Python values.


def array_of(values: Sequence[Any], kind: pa.DataType, *, json: bool = False) -> pa.Array:
    """Convert values to an array of a table type. Raises one of `UNFIT` if a value does not fit.

    `json` values come from JSON, where bytes are base64 text.
    """
    if not _is_plain(values, kind):
        values = list(map(_or_none(_converter(kind, json)), values))
    elif pa.types.is_float32(kind):
        for value in values:
            _check_float32(value)
    return pa.array(values, kind)


def first_unfit(values: Sequence[Any], kind: pa.DataType, *, json: bool = False) -> int | None:
    """Return the position of the first value that `array_of` refuses."""
    for position, value in enumerate(values):
        try:
            array_of([value], kind, json=json)
        except UNFIT:
            return position
    return None


def exact_float(text: str, kind: pa.DataType) -> float:
    """Parse a text as a floating-point number. Raises ValueError if it would become infinite, or a
    rounded integer.
    """
    number = parse_float(text)
    if isinf(number) and any(map(str.isdigit, text)):
        raise UnfitError(f"it is too large for a {kind}")
    number = float(array_of([number], kind)[0].as_py())
    if _WHOLE.fullmatch(text) and number != int(text):
        raise UnfitError(f"it is a whole number with more digits than a {kind} keeps")
    return number


def moment_of(text: str) -> datetime:
    """Parse ISO text as a timestamp, in UTC without a zone. Raises ValueError for digits below a
    microsecond.
    """
    parsed = _parse_time(text)
    if parsed.tzinfo:
        return parsed
    return parsed.replace(tzinfo=UTC)


def is_finer_than_micros(text: str) -> bool:
    """Return whether a time has digits below a microsecond, which time columns cannot hold."""
    fraction = _FRACTION.search(text)
    return fraction is not None and bool(fraction[1][6:].strip("0"))


def _parse_time(text: str) -> datetime:
    if is_finer_than_micros(text):
        raise UnfitError(_FINER)
    return datetime.fromisoformat(text)


def _is_plain(values: Sequence[Any], kind: pa.DataType) -> bool:
    """Return whether Arrow converts all values without changes, apart from the precision of 32-bit
    floats.
    """
    plain = next((types for test, types in _PLAIN if test(kind)), None)
    if plain is None or not plain.issuperset(map(type, values)):
        return False
    return (
        not pa.types.is_timestamp(kind)
        or kind.tz is not None
        or not any(v and v.tzinfo for v in values)
    )


def _or_none(convert: Convert) -> Convert:
    def convert_value(value: Any) -> Any:
        if value is None:
            return None
        is_numpy = isinstance(value, np.number | np.bool_ | np.str_) and not isinstance(
            value, np.timedelta64
        )
        return convert(value.item() if is_numpy else value)

    return convert_value


def _converter(kind: pa.DataType, json: bool) -> Convert:
    """Return the conversion of a non-null value to one that Arrow accepts for the type."""
    if pa.types.is_timestamp(kind):
        return partial(_moment, zoned=kind.tz is not None)
    if pa.types.is_binary(kind):
        if json:
            return _base64
        return _bytes
    nested = next((make for test, make in _NESTED if test(kind)), None)
    if nested is not None:
        return nested(kind, json)
    return next((convert for test, convert in _CONVERTERS if test(kind)), _same)


def _same(value: Any) -> Any:
    return value


def _unfit(value: Any) -> TypeError:
    return TypeError(f"it is a {type(value).__name__}")


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise _unfit(value)
    if not isinstance(value, int) and (
        value % 1 or (isinstance(value, float) and abs(value) > _EXACT_FLOATS)
    ):
        raise UnfitError(LOST)
    return int(value)


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _unfit(value)
    return value


def _float32(value: Any) -> float:
    _check_float32(_number(value))
    return _number(value)


def _check_float32(value: Any) -> None:
    if isinstance(value, float) and abs(value) >= _FLOAT32_END and not isinf(value):
        raise UnfitError("it is too large for a float; a double holds it")


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise _unfit(value)
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise _unfit(value)
    return value


def _bytes(value: Any) -> bytes:
    if not isinstance(value, bytes | bytearray | memoryview):
        raise _unfit(value)
    return bytes(value)


def _base64(value: Any) -> bytes:
    return b64decode(_text(value), validate=True)


def _decimal(value: Any) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, int | float | str | Decimal):
        raise _unfit(value)
    if isinstance(value, Decimal):
        number = value
    else:
        number = Decimal(str(value))
    if isinstance(value, float) and len(number.as_tuple().digits) > _EXACT_DIGITS:
        raise UnfitError(
            "it has more digits than a float keeps; as a Decimal or as text they are kept"
        )
    return number


def _day(value: Any) -> date:
    if isinstance(value, str):
        return date.fromisoformat(value)
    if isinstance(value, datetime):
        nanoseconds = getattr(value, "nanosecond", 0)
        if value != value or value.time() != time() or nanoseconds:
            raise UnfitError(LOST)
        return value.date()
    if not isinstance(value, date):
        raise _unfit(value)
    return value


def _moment(value: Any, *, zoned: bool) -> datetime | None:
    if isinstance(value, np.datetime64):
        found: datetime | None = exact_cast(pa.array([value]), pa.timestamp("us"))[0].as_py()
        return found
    if isinstance(value, int | float) and not isinstance(value, bool):
        if not zoned:
            raise UnfitError(
                "a number counts from 1970 in UTC, and the times of this column have no zone"
            )
        return _since_1970(value)
    if isinstance(value, str):
        value = _parse_time(value)
    if not isinstance(value, datetime):
        raise _unfit(value)
    if value != value:
        raise UnfitError("it is no time")
    if getattr(value, "nanosecond", 0):
        raise UnfitError(LOST)
    if value.tzinfo is not None and not zoned:
        raise UnfitError(
            "it has a time zone, which would be lost: the times of this column have none"
        )
    return value


def _since_1970(value: float) -> datetime:
    """Return a number as a timestamp. Its size decides its unit, as in queries."""
    if isinstance(value, int) and abs(value) >= 10**17 and value % 1_000:
        raise UnfitError(_FINER)
    try:
        whole = epoch_moment(int(value))
    except (ValueError, OverflowError) as error:
        raise UnfitError(str(error)) from None
    # What a float of this size holds is no finer than the microsecond that it is rounded to.
    unit = next((unit for limit, unit in ((1e11, 1e6), (1e14, 1e3)) if abs(value) < limit), 1.0)
    return whole + timedelta(microseconds=round((value - int(value)) * unit))


def _time(value: Any) -> int:
    """Return a time of day in nanoseconds."""
    nanos = 0
    if isinstance(value, str):
        match = _TIME.fullmatch(value)
        if match is None:
            raise UnfitError("it is no time of day")
        nanos = int((match[4] or "").ljust(9, "0"))
        value = time(int(match[1]), int(match[2]), int(match[3] or 0))
    if not isinstance(value, time):
        raise _unfit(value)
    if value.tzinfo is not None:
        raise UnfitError("it has a time zone, which would be lost")
    seconds = value.hour * 3_600 + value.minute * 60 + value.second
    return seconds * 1_000_000_000 + value.microsecond * 1_000 + nanos


def _duration(value: Any) -> timedelta | None:
    if isinstance(value, np.timedelta64):
        found: timedelta | None = exact_cast(pa.array([value]), pa.duration("us"))[0].as_py()
        return found
    if not isinstance(value, timedelta):
        raise _unfit(value)
    if value != value:
        raise UnfitError("it is no duration")
    if getattr(value, "nanoseconds", 0):
        raise UnfitError(LOST)
    return value


def _list(kind: pa.DataType, json: bool) -> Convert:
    inner = _or_none(_converter(kind.value_type, json))

    def convert(value: Any) -> list[Any]:
        if not isinstance(value, list | tuple | set | frozenset | np.ndarray):
            raise _unfit(value)
        return [inner(item) for item in value]

    return convert


def _struct(kind: pa.DataType, json: bool) -> Convert:
    fields = {field.name: _or_none(_converter(field.type, json)) for field in kind}

    def convert(value: Any) -> dict[str, Any]:
        if isinstance(value, tuple) and len(value) == len(fields):
            value = dict(zip(fields, value, strict=True))
        if not isinstance(value, Mapping):
            raise _unfit(value)
        if value.keys() - fields.keys():
            raise UnfitError(LOST)
        return {name: fields[name](item) for name, item in value.items()}

    return convert


def _map(kind: pa.DataType, json: bool) -> Convert:
    keys, items = (
        _or_none(_converter(kind.key_type, json)),
        _or_none(_converter(kind.item_type, json)),
    )

    def convert(value: Any) -> list[tuple[Any, Any]]:
        if not isinstance(value, Mapping | list | tuple):
            raise _unfit(value)
        pairs = value.items() if isinstance(value, Mapping) else value
        return [(keys(key), items(item)) for key, item in pairs]

    return convert


_NONE = type(None)
_PLAIN: tuple[tuple[Callable[[pa.DataType], bool], frozenset[type]], ...] = (
    (pa.types.is_integer, frozenset({int, _NONE})),
    (pa.types.is_floating, frozenset({int, float, _NONE})),
    (pa.types.is_boolean, frozenset({bool, _NONE})),
    (pa.types.is_string, frozenset({str, _NONE})),
    (pa.types.is_date, frozenset({date, _NONE})),
    (pa.types.is_timestamp, frozenset({datetime, _NONE})),
    (pa.types.is_decimal, frozenset({int, Decimal, _NONE})),
    (pa.types.is_duration, frozenset({timedelta, _NONE})),
    (pa.types.is_null, frozenset({_NONE})),
)
_NESTED: tuple[
    tuple[Callable[[pa.DataType], bool], Callable[[pa.DataType, bool], Convert]], ...
] = (
    (pa.types.is_map, _map),
    (pa.types.is_list, _list),
    (pa.types.is_struct, _struct),
)
_CONVERTERS: tuple[tuple[Callable[[pa.DataType], bool], Convert], ...] = (
    (pa.types.is_integer, _whole),
    (pa.types.is_float32, _float32),
    (pa.types.is_floating, _number),
    (pa.types.is_boolean, _truth),
    (pa.types.is_string, _text),
    (pa.types.is_date, _day),
    (pa.types.is_time, _time),
    (pa.types.is_duration, _duration),
    (pa.types.is_decimal, _decimal),
)


# Arrow arrays.


def exact_cast(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Cast an array to a table type, decoding dictionaries at all levels. Raises ArrowException if
    a value would change.
    """
    source = array.type
    if source == kind:
        return array
    if isinstance(source, pa.BaseExtensionType):
        return exact_cast(array.storage, kind)
    if pa.types.is_dictionary(source):
        # The values first: Arrow cannot decode views.
        values = exact_cast(array.dictionary, kind)
        return pa.DictionaryArray.from_arrays(array.indices, values).dictionary_decode()
    if pa.types.is_run_end_encoded(source):
        numbered = pa.array(np.arange(len(array.values)))
        positions = pc.run_end_decode(pa.RunEndEncodedArray.from_arrays(array.run_ends, numbered))
        return exact_cast(array.values, kind).take(positions.slice(array.offset, len(array)))
    if pa.types.is_struct(source) and pa.types.is_struct(kind) and _names(source) == _names(kind):
        fields = [
            exact_cast(part, field.type) for part, field in zip(array.flatten(), kind, strict=True)
        ]
        return pa.StructArray.from_arrays(fields, fields=list(kind), mask=array.is_null())
    if pa.types.is_map(source) and pa.types.is_map(kind):
        return _cast_map(array, kind)
    if hasattr(source, "value_field") and pa.types.is_list(kind):
        values = exact_cast(array.flatten(), kind.value_type)
        return pa.ListArray.from_arrays(_offsets(array), values, type=kind, mask=array.is_null())
    return _cast_leaf(array, kind)


def exact_scalar(value: pa.Scalar, kind: pa.DataType) -> pa.Scalar:
    """Cast a scalar to a table type. Raises ArrowException if it would change."""
    return exact_cast(pa.repeat(value, 1), kind)[0]


def _names(kind: pa.DataType) -> list[str]:
    return [field.name for field in kind]


def _offsets(array: pa.Array) -> pa.Array:
    """Return where each list begins among the values that `flatten` returns."""
    lengths = pc.fill_null(pc.list_value_length(array), 0).cast(pa.int64())
    ends = np.concatenate([[0], np.cumsum(lengths.to_numpy(zero_copy_only=False))])
    return pa.array(ends.astype(np.int64)).cast(pa.int32())


def _cast_map(array: pa.Array, kind: pa.DataType) -> pa.Array:
    whole = pa.concat_arrays([array]) if array.offset else array
    first, last = (whole.offsets[0].as_py(), whole.offsets[-1].as_py()) if len(whole) else (0, 0)
    keys = exact_cast(whole.keys.slice(first, last - first), kind.key_type)
    items = exact_cast(whole.items.slice(first, last - first), kind.item_type)
    if len(whole):
        offsets = pc.subtract(whole.offsets, first)
    else:
        offsets = pa.array([0], pa.int32())
    maps = pa.MapArray.from_arrays(offsets, keys, items, type=kind)
    if whole.null_count:
        return pc.if_else(whole.is_valid(), maps, pa.scalar(None, kind))
    return maps


def _cast_leaf(array: pa.Array, kind: pa.DataType) -> pa.Array:
    found = pc.cast(array, kind, safe=True)
    if (
        pa.types.is_floating(kind)
        and pa.types.is_floating(array.type)
        and kind.bit_width < array.type.bit_width
    ):
        before, after = (pc.sum(pc.is_inf(part)).as_py() or 0 for part in (array, found))
        if after != before:
            raise pa.ArrowInvalid(f"a number is too large for {kind}")
    if pa.types.is_date64(array.type) and not pc.cast(found, array.type).equals(array):
        raise pa.ArrowInvalid("a date has a time of day")
    return found

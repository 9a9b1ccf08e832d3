"""The texts of a CSV column as values: of a type that is known, or of the type that all of them have."""

from __future__ import annotations

from bisect import bisect_left

import pyarrow as pa
import pyarrow.compute as pc

from indextables.cli.iso_text import DATE, TIME
from indextables.model.spark_types import TIMESTAMP

UNFIT = (pa.ArrowInvalid, pa.ArrowNotImplementedError)
"""What is raised for a text that does not fit."""
_WHOLE = r"-?(0|[1-9]\d*)"
_NUMBER = r"-?((0|[1-9]\d*)(\.\d*)?|\.\d+)([eE][+-]?\d+)?"
_CANDIDATES = (
    (_WHOLE, pa.int64()),
    (_NUMBER, pa.float64()),
    (r"(?i:true|false)", pa.bool_()),
    (DATE, pa.date32()),
    (TIME, TIMESTAMP),
)
"""How texts look that are taken for more than text. 007 is no number: its zeros would be lost."""
_WITH_ZONE = r":\d\d.*(Z|[+-]\d\d(:?\d\d)?)$"


def inferred(texts: pa.Array) -> pa.DataType:
    """The type that all texts have. Text that only looks like one, such as a 13th month, is text."""
    given = texts.drop_null()
    for pattern, kind in _CANDIDATES:
        if len(given) and pc.all(pc.match_substring_regex(given, f"^({pattern})$")).as_py():
            return pa.string() if _fails(given, kind) else kind
    return pa.string()


def values(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """The texts as values of a type; one of `UNFIT` is raised if any does not fit. A time without a zone is in UTC."""
    if pa.types.is_string(kind):
        return texts
    if pa.types.is_binary(kind):
        return pc.cast(texts, kind)
    trimmed = pc.utf8_trim_whitespace(texts)
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        zoned = pc.match_substring_regex(trimmed, _WITH_ZONE)
        whole = pc.if_else(pc.match_substring_regex(trimmed, f"^{DATE}$"), _with(trimmed, "T00:00:00"), trimmed)
        trimmed = pc.if_else(zoned, trimmed, _with(whole, "Z"))
    return pc.cast(trimmed, kind)


def first_unfit(texts: pa.Array, kind: pa.DataType) -> int:
    """The position of the first text that does not fit."""
    return bisect_left(range(1, len(texts)), True, key=lambda count: _fails(texts.slice(0, count), kind))


def _with(texts: pa.Array, end: str) -> pa.Array:
    return pc.binary_join_element_wise(texts, end, "")


def _fails(texts: pa.Array, kind: pa.DataType) -> bool:
    try:
        values(texts, kind)
    except UNFIT:
        return True
    return False

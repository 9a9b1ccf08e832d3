"""Rows of DataFrames compared without regard to their order."""

from __future__ import annotations

import math
from typing import Any

from pyspark.sql import DataFrame


def rows_of(frame: DataFrame) -> list[tuple[str, ...]]:
    """The rows, sorted, each value as text that tells null, NaN and -0.0 apart."""
    return sorted(tuple(_text(value) for value in row) for row in frame.collect())


def assert_same_rows(found: DataFrame, wanted: DataFrame) -> None:
    """Both hold the same rows, as often."""
    assert rows_of(found) == rows_of(wanted)


def _text(value: Any) -> str:
    if isinstance(value, float):
        if math.isnan(value):
            return "NaN"
        # Spark may or may not keep the sign of zero when it groups and joins; both are zero.
        return repr(value + 0.0)
    return repr(value)

"""Values as JSON has them, without losing which number is not finite."""

from __future__ import annotations

import math
from typing import Any


def float_value(value: float) -> float | str:
    """A floating point number; `"NaN"`, `"Infinity"` or `"-Infinity"` where JSON has no number for it."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def plain_json(value: Any) -> Any:
    """A value with its lists and objects, in which numbers that are not finite are texts."""
    if isinstance(value, float):
        return float_value(value)
    if isinstance(value, dict):
        return {key: plain_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain_json(item) for item in value]
    return value

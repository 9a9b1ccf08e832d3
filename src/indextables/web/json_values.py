"""Values as JSON, with non-finite numbers as distinct texts."""

from __future__ import annotations

import math
from typing import Any


def float_value(value: float) -> float | str:
    """Return a float, or `"NaN"`, `"Infinity"` or `"-Infinity"`, for which JSON has no number."""
    if math.isfinite(value):
        return value
    if math.isnan(value):
        return "NaN"
    if value > 0:
        return "Infinity"
    return "-Infinity"


def plain_json(value: Any) -> Any:
    """Return a value with the non-finite numbers in its lists and objects as texts."""
    if isinstance(value, float):
        return float_value(value)
    if isinstance(value, dict):
        return {key: plain_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain_json(item) for item in value]
    return value

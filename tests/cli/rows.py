"""The rows of the small table."""

from __future__ import annotations

import pyarrow as pa

SCHEMA = pa.schema(
    [("day", pa.string()), ("level", pa.string()), ("ms", pa.int64()), ("message", pa.string())]
)
ROWS = [
    {"day": "2026-11-01", "level": "INFO", "ms": 12, "message": "user 7 logged in"},
    {
        "day": "2026-11-01",
        "level": "ERROR",
        "ms": 1200,
        "message": "timeout while waiting for the gateway",
    },
    {"day": "2026-11-02", "level": "ERROR", "ms": None, "message": "disk full on data2"},
]

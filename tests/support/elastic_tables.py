"""Tables for requests of the Elasticsearch dialect."""

from __future__ import annotations

import pyarrow as pa

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("ts", pa.timestamp("us", tz="UTC")),
        ("day", pa.date32()),
        ("level", pa.string()),
        ("ms", pa.float64()),
        ("tags", pa.list_(pa.string())),
        ("message", pa.string()),
    ]
)

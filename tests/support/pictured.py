"""A table with everything that a picture can show: partitions, merges, deletions, a dropped
partition, awkward names.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from indextables import Table

LONG = "a_column_with_a_name_that_is_longer_than_any_label_has_room_for"
TAG = "note </svg><script>alert(1)</script>"
SCHEMA = pa.schema(
    [
        ("region", pa.string()),
        ("hour", pa.int32()),
        ("body", pa.string()),
        (LONG, pa.string()),
        (TAG, pa.string()),
    ]
)


def eventful_table(path: Path) -> Table:
    """Ten versions of all kinds."""
    table = Table.create(
        str(path),
        schema=SCHEMA,
        partition_columns=["region", "hour"],
        options={"indexing.typemap.body": "text"},
        name='<b>"eventful" & co</b>',
        description="with a \x1b control character",
    )
    for turn in range(3):
        table.append(rows(turn))
    table.merge(target_size="1G")
    table.delete(where="hour = 1 AND body = 'gateway timeout number 1'")
    table.drop_partitions("hour = 2")
    table.append(rows(4), user_metadata="<i>late</i>")
    return table


def rows(turn: int) -> pa.Table:
    """Some rows of one region and of none, in three hours."""
    count = 24
    return pa.table(
        {
            "region": [
                "region-with-a-name-that-is-<long>" if k % 8 else None for k in range(count)
            ],
            "hour": pa.array([k % 3 for k in range(count)], pa.int32()),
            "body": [f"gateway timeout number {k}" for k in range(count)],
            LONG: ["x"] * count,
            TAG: ["y"] * count,
        },
        schema=SCHEMA,
    )

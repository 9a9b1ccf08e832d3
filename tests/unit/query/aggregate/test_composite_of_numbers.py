"""Pages of a composite aggregation over numbers of every size and kind."""

from __future__ import annotations

import decimal
import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from indextables import Table

NUMBERS = pa.schema(
    [
        ("n", pa.int64()),
        ("u", pa.uint64()),
        ("f", pa.float64()),
        ("f4", pa.float32()),
        ("d", pa.decimal128(38, 2)),
    ]
)
NUMBER_ROWS: list[dict[str, Any]] = [
    {"n": 2**63 - 1, "u": 2**64 - 1, "f": math.nan, "f4": 0.1, "d": decimal.Decimal(10**35)},
    {"n": -(2**63), "u": 2**63, "f": math.inf, "f4": math.nan, "d": decimal.Decimal("-0.01")},
    {"n": 0, "u": 0, "f": -math.inf, "f4": -0.0, "d": decimal.Decimal(5)},
    {"n": 2**53 + 1, "u": 2**63 + 1, "f": -0.0, "f4": 16777216.0, "d": decimal.Decimal("5.01")},
]


@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize("field", NUMBERS.names)
def test_a_composite_pages_over_the_largest_numbers_and_nan(
    tmp_path: Path, field: str, as_json: bool
) -> None:
    table = Table.create(str(tmp_path / "t"), schema=NUMBERS)
    for part in (NUMBER_ROWS[:2], NUMBER_ROWS[2:]):
        table.append(pa.Table.from_pylist(part, NUMBERS))
    seen: list[Any] = []
    after = None
    while len(seen) < 9:
        sources = {"sources": [{"k": {"terms": {"field": field}}}], "size": 1}
        found = table.aggregate(
            {"c": {"composite": sources | ({"after": after} if after else {})}}
        ).to_pylist()
        if not found:
            break
        seen.append(found[0]["c"]["k"])
        after = {"k": str(seen[-1]) if as_json else seen[-1]}
    assert len(seen) == 4


@pytest.mark.parametrize(
    ("field", "after", "left"),
    [
        ("n", 2**63, 0),
        ("n", 2**64, 0),
        ("n", -(2**64), 4),
        ("n", 1.5, 2),
        ("u", 2**63, 2),
        ("u", 2**64, 0),
        ("f", 2**64, 2),
        ("f", "Infinity", 1),
        ("f", "NaN", 0),
        ("f4", 2**70, 1),
        ("f4", 0.1, 2),
        ("d", decimal.Decimal(10) ** 36, 0),
        ("d", 5.005, 2),
    ],
)
def test_a_composite_goes_on_behind_any_number(
    tmp_path: Path, field: str, after: Any, left: int
) -> None:
    table = Table.create(str(tmp_path / "t"), schema=NUMBERS)
    table.append(pa.Table.from_pylist(NUMBER_ROWS, NUMBERS))
    composite = {"sources": [{"k": {"terms": {"field": field}}}], "after": {"k": after}}
    assert table.aggregate({"c": {"composite": composite}}).num_rows == left


@pytest.mark.parametrize("field", ["n", "u", "d"])
def test_a_composite_of_intervals_goes_on_behind_any_number(tmp_path: Path, field: str) -> None:
    table = Table.create(str(tmp_path / "t"), schema=NUMBERS)
    table.append(pa.Table.from_pylist(NUMBER_ROWS, NUMBERS))
    source = {"sources": [{"k": {"histogram": {"field": field, "interval": 0.5}}}]}
    keys = [row["c"]["k"] for row in table.aggregate({"c": {"composite": source}}).to_pylist()]
    for after in (-(2**64), 2**53 + 1, 2**63 - 1, 2**63, 2**64):
        found = table.aggregate({"c": {"composite": {**source, "after": {"k": after}}}}).to_pylist()
        assert [row["c"]["k"] for row in found] == [key for key in keys if key > after]

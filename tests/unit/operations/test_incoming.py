"""Fields of null structs are filled so that Parquet takes them; nobody sees the filler."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from indextables.operations.incoming import fill_hidden_nulls, may_hide_nulls

PAIR = pa.struct(
    [pa.field("value", pa.binary(), nullable=False), pa.field("n", pa.int32(), nullable=False)]
)
ROWS = [{"value": b"x", "n": 1}, None, {"value": b"", "n": 2}]


@pytest.mark.parametrize(
    ("kind", "rows"),
    [
        (PAIR, ROWS),
        (pa.list_(PAIR), [ROWS, None, [], [None]]),
        (pa.map_(pa.string(), PAIR), [[("k", None), ("l", {"value": b"y", "n": 3})], None, []]),
        (pa.struct([("inner", PAIR)]), [{"inner": None}, None, {"inner": ROWS[0]}]),
    ],
    ids=str,
)
def test_hidden_nulls_are_filled_and_stay_hidden(
    tmp_path: Path, kind: pa.DataType, rows: list[object]
) -> None:
    column = pa.array(rows, kind)
    for part in (column, column.slice(1)):
        made = fill_hidden_nulls(part)
        assert made.to_pylist() == part.to_pylist()
        pq.write_table(pa.table({"c": made}), tmp_path / "f.parquet")
        assert pq.read_table(tmp_path / "f.parquet")["c"].to_pylist() == part.to_pylist()


def test_a_null_that_may_not_be_one_is_not_covered_up() -> None:
    values = pa.array([None, b"x"], pa.binary())
    broken = pa.StructArray.from_arrays([values, pa.array([1, 2], pa.int32())], fields=list(PAIR))
    assert fill_hidden_nulls(broken).field(0).null_count == 1


def test_types_that_hide_nothing_are_left_alone() -> None:
    assert not may_hide_nulls(pa.struct([("a", pa.int32())]))
    assert not may_hide_nulls(pa.list_(pa.string()))
    assert may_hide_nulls(pa.list_(pa.struct([("a", PAIR)])))

"""Rows by pages: the same rows as by row groups, of every type, and nothing read that is not
needed.
"""

from __future__ import annotations

import datetime as dt
import decimal
import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from indextables.config.splits import SplitWriterSettings
from indextables.model.predicate import bind, parse
from indextables.splits.query.to_predicate import predicate_mask
from indextables.splits.write.writer import write_splits
from tests.support.splits import (
    log_rows,
    mapping_of,
    old_splits,
    open_file,
    small_pages,
    write_file,
)

MOMENT = dt.datetime(2024, 5, 1, tzinfo=dt.UTC)


def every_type(rows: int, seed: int = 1) -> pa.Table:
    rng = random.Random(seed)

    def column(make: object, kind: pa.DataType) -> pa.Array:
        empty = range(rows // 3, rows // 3 + 40)  # whole pages of nulls
        assert callable(make)
        return pa.array(
            [None if i in empty or rng.random() < 0.1 else make(i) for i in range(rows)], kind
        )

    return pa.table(
        {
            "id": pa.array(range(rows), pa.int64()),
            "small": column(lambda _: rng.randrange(-100, 100), pa.int8()),
            "short": column(lambda _: rng.randrange(-9_000, 9_000), pa.int16()),
            "int": column(lambda _: rng.randrange(-(10**9), 10**9), pa.int32()),
            "unsigned": column(lambda _: rng.randrange(1 << 32), pa.uint32()),
            "flag": column(lambda _: rng.random() < 0.5, pa.bool_()),
            "double": column(lambda _: rng.choice([0.5, 1.5, float("nan"), -3.25]), pa.float64()),
            "float": column(lambda _: rng.random(), pa.float32()),
            "text": column(lambda i: f"line {i} {'x' * rng.randrange(60)}", pa.string()),
            "word": column(lambda _: rng.choice(["a", "bb", "ccc", ""]), pa.string()),
            "large": column(lambda i: f"{i}", pa.large_string()),
            "bytes": column(lambda i: bytes([i % 256]) * 3, pa.binary()),
            "price": column(lambda i: decimal.Decimal(i) / 100, pa.decimal128(20, 2)),
            "day": column(lambda i: MOMENT.date() + dt.timedelta(days=i), pa.date32()),
            "seconds": column(lambda i: MOMENT + dt.timedelta(seconds=i), pa.timestamp("s", "UTC")),
            "micros": column(lambda i: MOMENT + dt.timedelta(seconds=i), pa.timestamp("us", "UTC")),
            "nanos": column(lambda i: MOMENT + dt.timedelta(seconds=i), pa.timestamp("ns", "UTC")),
            "list": column(lambda i: [i] * (i % 4), pa.list_(pa.int32())),
            "struct": column(
                lambda i: {"a": i, "b": str(i)}, pa.struct([("a", pa.int64()), ("b", pa.string())])
            ),
            "a.dot": column(lambda i: i % 5, pa.int64()),
        }
    )


@pytest.mark.parametrize("seed", range(4))
def test_rows_of_every_type_by_pages(tmp_path: Path, seed: int) -> None:
    table = every_type(1_000, seed)
    rng = random.Random(seed)
    with small_pages(rng.choice([8, 20]), group_rows=rng.choice([1_000, 300])):
        path = write_file(table, tmp_path / "a.split")
    whole = open_file(path).read_rows()
    assert repr(whole["text"].to_pylist()) == repr(table["text"].to_pylist())
    reader = open_file(path)
    for _ in range(25):
        rows = [rng.randrange(1_000) for _ in range(rng.choice([1, 3, 10, 40, 200]))]
        names = rng.sample(table.column_names, rng.randrange(1, 6))
        found = reader.read_rows(np.array(rows), columns=names)
        expected = whole.select(names).take(pa.array(rows))
        assert found.schema == expected.schema
        assert repr(found.to_pylist()) == repr(expected.to_pylist()), (
            names,
            rows,
        )  # NaN equals nothing


def test_a_few_rows_read_a_few_pages(tmp_path: Path) -> None:
    table = log_rows(40_000)
    new, path = open_file(write_file(table, tmp_path / "a.split")), tmp_path / "old.split"
    with old_splits():
        old = open_file(write_file(table, path))
    rows = np.arange(5, 40_000, 9_000)
    read = []
    for reader in (new, old):
        before = reader.stats.bytes
        assert reader.read_rows(rows, columns=["message"]).num_rows == len(rows)
        read.append(reader.stats.bytes - before)
    assert read[0] * 3 < read[1]
    before = new.stats.bytes
    new.read_rows(rows, columns=["message"])
    assert new.stats.bytes == before, "pages that were decoded are kept"


def test_pages_that_are_in_memory_as_parts_of_their_row_groups_are_not_read_again(
    tmp_path: Path,
) -> None:
    table = log_rows(40_000)
    reader = open_file(write_file(table, tmp_path / "a.split"))
    reader.read_rows(np.arange(0, 40_000, 2), columns=["message", "ts"])
    before = reader.stats.bytes
    rows = np.array([39_999, 3, 17_000])
    assert reader.read_rows(rows, columns=["message", "ts"]).equals(
        table.select(["message", "ts"]).take(pa.array(rows)).combine_chunks()
    )
    assert reader.stats.bytes == before


@pytest.mark.parametrize(
    "text",
    [
        "id >= 990",
        "small = 7",
        "short < -8500",
        "int > 900000000",
        "word = 'ccc'",
        "text >= 'line 99'",
        "price > 9.95",
        "day > DATE '2026-12-01'",
        "seconds > TIMESTAMP '2024-05-01T00:16:00Z'",
        "micros < TIMESTAMP '2024-05-01T00:00:07Z'",
        "nanos > TIMESTAMP '2024-05-01T00:16:00Z'",
        "small IS NULL",
        "word IS NOT NULL AND id BETWEEN 330 AND 380",
        "NOT (id < 900)",
        "flag AND id < 50",
    ],
)
@pytest.mark.parametrize("old", [False, True])
def test_no_row_that_matches_is_ruled_out(tmp_path: Path, text: str, old: bool) -> None:
    table = every_type(1_000)
    with old_splits() if old else small_pages(8, group_rows=300):
        reader = open_file(write_file(table, tmp_path / "a.split"))
        bound = bind(parse(text), reader.schema)
        possible = reader.may_match(bound)
    assert possible is not None
    matching = predicate_mask(bound, table)
    assert matching.any()
    assert possible[matching].all()
    if not old and text.split()[0] in ("id", "micros", "nanos", "day"):
        assert possible.sum() <= matching.sum() + 2 * 8 + 40, "parts are pages"


def dictionaries(path: Path, column: int) -> list[bool]:
    metadata = pq.read_metadata(path)
    return [
        metadata.row_group(n).column(column).has_dictionary_page
        for n in range(metadata.num_row_groups)
    ]


def test_floating_point_columns_have_a_dictionary_unless_a_zero_is_among_them(
    tmp_path: Path,
) -> None:
    """Spark looks 0.0 up in a dictionary, and does not find the -0.0 that equals it."""
    ones = pa.array([1.5, 2.5] * 500)
    tables = {
        "none": ones,
        "at once": pa.concat_arrays([pa.array([0.0]), ones.slice(1)]),
        "late": pa.concat_arrays([ones.slice(1), pa.array([-0.0])]),
    }
    for name, values in tables.items():
        table = pa.table({"id": range(1_000), "v": values, "w": ones})
        with small_pages(50, group_rows=300):
            path = write_file(table, tmp_path / f"{name}.split")
        assert dictionaries(path, 1) == [name == "none"] * 4, name
        assert dictionaries(path, 2) == [True] * 4
        reader = open_file(path)
        assert reader.read_rows().equals(table)
        assert str(reader.read_rows(np.array([999]), columns=["v"])["v"][0].as_py()) == str(
            values[999].as_py()
        )
        assert [path.name for path in tmp_path.iterdir() if "before" in path.name] == []


def test_rows_that_wait_for_their_row_group_count_for_the_size_of_a_split() -> None:
    table = log_rows(60_000)
    settings = SplitWriterSettings(target_bytes=1 << 20)
    splits = write_splits(
        table.to_batches(), table.schema, mapping_of(table.schema), settings=settings
    )
    sizes = [split.size for split in splits]
    assert len(sizes) > 1
    assert max(sizes) < 3 << 20

"""Sorted merges: rows and index of a new split are in the same order, splits lie side by side, and
no row changes.
"""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest

from indextables import Table
from indextables.commands import sql
from indextables.errors import InvalidInputError
from indextables.splits.write import merge
from indextables.table.description import describe_table

SCHEMA = pa.schema(
    [("ts", pa.int64()), ("host", pa.string()), ("message", pa.string()), ("load", pa.float64())]
)
WORDS = ["timeout", "gateway", "disk", "login", "refused"]
TEXT = {"indexing.typemap.message": "text"}


def rows_of(dice: random.Random, numbers: list[int]) -> pa.Table:
    return pa.Table.from_pylist(
        [
            {
                "ts": None if n % 17 == 0 else n,
                "host": dice.choice([None, "a", "b", "ü"]),
                "message": f"{dice.choice(WORDS)} {dice.choice(WORDS)} {n}",
                "load": dice.choice([0.5, float("nan"), None, -0.0]),
            }
            for n in numbers
        ],
        schema=SCHEMA,
    )


def plain(table: Table) -> list[str]:
    return sorted(map(repr, table.scan().read_all().to_pylist()))


def check_same_order(table: Table) -> None:
    """Every word finds, by the index, the very rows that hold it."""
    everything = table.scan().read_all().to_pylist()
    for word in WORDS:
        hits = table.search(f"message:{word}").to_pylist()
        assert sorted(map(repr, hits)) == sorted(
            repr(r) for r in everything if word in r["message"].split()
        )


@pytest.mark.parametrize("seed", range(4))
def test_rows_are_sorted_and_found_as_before(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merge, "_FEWEST_ROWS", 37)
    monkeypatch.setattr(merge.RowOrder.__init__, "__kwdefaults__", {"pass_bytes": 1})
    dice = random.Random(seed)
    table = Table.create(str(tmp_path / "t"), schema=SCHEMA, options=TEXT)
    for _ in range(dice.randint(2, 6)):
        table.append(rows_of(dice, [dice.randrange(1_000) for _ in range(dice.randint(1, 120))]))
    table.delete(where="ts > 900")
    before = plain(table)
    order = dice.choice([["ts"], ["host", "ts"], ["load", "host"], ["message"]])
    report = table.merge(order_by=order)
    assert (report.status, table.files().num_rows) == ("success", 1)
    assert f"sorted by {', '.join(order)}" in report.message
    assert plain(table) == before
    check_same_order(table)
    merged = table.scan().read_all().to_pylist()
    assert merged == sorted(
        merged, key=lambda row: [key for c in order for key in sort_key(row[c])]
    )
    assert table.verify(full=True).healthy
    assert table.history(limit=1).column("operation_parameters")[0].as_py().count("orderBy") == 1


def sort_key(value: object) -> tuple[object, ...]:
    if value is None:
        return (True, False, 0)
    if isinstance(value, str):
        return (False, False, value.encode())
    return (False, True, 0) if value != value else (False, False, value)


def test_splits_that_overlap_are_cut_side_by_side(tmp_path: Path) -> None:
    dice = random.Random(7)
    table = Table.create(str(tmp_path / "t"), schema=SCHEMA, options=TEXT)
    for _ in range(3):
        noise = rows_of(dice, [dice.randrange(1, 100_000) * 17 + 1 for _ in range(12_000)])
        texts = [
            f"{text} {dice.getrandbits(900):x}" for text in noise.column("message").to_pylist()
        ]
        table.append(noise.set_column(2, "message", pa.array(texts)))
    before = plain(table)
    apart = table.inspect.clustering(["ts"]).to_pylist()[0]
    assert (apart["splits"], apart["alone"], apart["depth"], apart["max_depth"]) == (3, 0, 3.0, 3)
    size = max(table.files().column("size").to_pylist())
    assert table.merge(target_size=size, dry_run=True).status == "no_action"
    assert "sorted by ts" in table.merge(target_size=size, order_by="ts", dry_run=True).message
    assert table.merge(target_size=size, order_by="ts").merged_files == 3
    assert table.files().num_rows > 1
    together = table.inspect.clustering(["ts"]).to_pylist()[0]
    assert (together["alone"], together["max_depth"]) == (together["splits"], 1)
    assert table.merge(target_size=size, order_by="ts", dry_run=True).status == "no_action"
    assert plain(table) == before
    check_same_order(table)
    assert table.explain(where="ts < 17000").splits_opened < table.files().num_rows


def test_a_table_that_is_clustered_sorts_by_itself(tmp_path: Path) -> None:
    settings = {
        **TEXT,
        "merge.clusterBy": "ts",
        "mergeOnWrite.enabled": True,
        "mergeOnWrite.minSplits": 2,
    }
    options = {**settings, "mergeOnWrite.async.enabled": False}
    table = Table.create(str(tmp_path / "t"), schema=SCHEMA, options=options)
    dice = random.Random(1)
    table.append(rows_of(dice, [5, 3, 1]))
    table.append(rows_of(dice, [4, 2, 6]))
    assert table.files().num_rows == 1
    assert table.scan(columns=["ts"]).read_all().column("ts").to_pylist() == [1, 2, 3, 4, 5, 6]
    assert table.inspect.clustering().column("column").to_pylist() == ["ts"]


def test_splits_that_follow_each_other_keep_their_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Table.create(str(tmp_path / "t"), schema=SCHEMA, options=TEXT)
    dice = random.Random(3)
    for numbers in ([5, 6, 7], [1, 2, 3]):
        table.append(rows_of(dice, numbers))

    def written_anew(*_: object, **__: object) -> None:
        raise AssertionError("rows in order need no new index")

    monkeypatch.setattr("indextables.operations.rewrite.write_splits", written_anew)
    table.merge(order_by="ts")
    assert table.scan(columns=["ts"]).read_all().column("ts").to_pylist() == [1, 2, 3, 5, 6, 7]


def test_what_cannot_be_sorted_by_is_told(tmp_path: Path) -> None:
    schema = pa.schema([("day", pa.int64()), ("id", pa.int64()), ("tags", pa.list_(pa.string()))])
    table = Table.create(str(tmp_path / "t"), schema=schema, partition_columns=["day"])
    for n in range(2):
        table.append(pa.table({"day": [1], "id": [n], "tags": [["a"]]}, schema=schema))
    for order, words in [
        ("tags", "cannot be sorted"),
        ("nothing", "no column"),
        ("day", "no column"),
    ]:
        with pytest.raises(InvalidInputError, match=words):
            table.merge(order_by=order)
    with pytest.raises(InvalidInputError, match="upwards"):
        table.merge(order_by="id desc")
    with pytest.raises(InvalidInputError, match="twice"):
        table.merge(order_by=["id", "ID"])
    with pytest.raises(InvalidInputError, match="cannot be sorted"):
        table.update_metadata(options={"merge.clusterBy": "tags"})
    assert table.version == 2


def test_the_statement_sorts(tmp_path: Path) -> None:
    table = Table.create(str(tmp_path / "t"), schema=SCHEMA)
    for numbers in ([9, 1], [5, 3]):
        table.append(rows_of(random.Random(1), numbers))
    row = sql(f"MERGE SPLITS '{table.path}' ORDER BY `ts`, host").to_pylist()[0]
    assert row["merged_files"] == 2
    rows = table.refresh().scan(columns=["ts"]).read_all()
    assert rows.column("ts").to_pylist() == [1, 3, 5, 9]


def test_a_description_tells_how_well_splits_are_separated(tmp_path: Path) -> None:
    table = Table.create(
        str(tmp_path / "t"), schema=SCHEMA, options={**TEXT, "merge.clusterBy": "ts"}
    )
    dice = random.Random(1)
    table.append(rows_of(dice, [1, 2, 3]))
    assert describe_table(table).clustering == ()
    table.append(rows_of(dice, [7, 8, 9]))
    (apart,) = describe_table(table).clustering
    assert (apart["column"], apart["splits"], apart["alone"], apart["depth"]) == ("ts", 2, 2, 1.0)
    table.append(rows_of(dice, [2, 5, 8]))
    (mixed,) = describe_table(table).clustering
    assert (mixed["splits"], mixed["alone"], mixed["max_depth"]) == (3, 0, 3)
    assert mixed["depth"] > 1

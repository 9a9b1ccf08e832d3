"""Null and the text that stands for null in folder names are two values, whatever is done with
them.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from indextables import AddAction, Table, sql
from indextables.model.file_list import to_actions
from indextables.model.values import NULL_PARTITION
from indextables.wire import version_file

SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.string())])
VALUES: list[str | None] = [
    None,
    NULL_PARTITION,
    "",
    "a%2Fb",
    "a/b",
    "%5F_HIVE_DEFAULT_PARTITION__",
    "plain",
]
EACH = {
    None: "p IS NULL",
    NULL_PARTITION: f"p = '{NULL_PARTITION}'",
    "": "p = ''",
    "a%2Fb": "p = 'a%2Fb'",
    "a/b": "p = 'a/b'",
    "%5F_HIVE_DEFAULT_PARTITION__": "p = '%5F_HIVE_DEFAULT_PARTITION__'",
    "plain": "p = 'plain'",
}


def rows(first: int = 0) -> pa.Table:
    return pa.table({"id": range(first, first + len(VALUES)), "p": VALUES}, schema=SCHEMA)


def check(table: Table, times: int = 1) -> None:
    table = Table.open(table.path, options={"transaction.cache.enabled": False})
    assert table.count() == times * len(VALUES)
    for value, condition in EACH.items():
        expected = [value] * times
        assert (
            table.scan(where=condition, columns=["p"]).read_all().column("p").to_pylist()
            == expected
        ), condition
        assert table.count(where=condition) == times, condition
    assert table.count(where="p IS NOT NULL") == times * (len(VALUES) - 1)
    assert table.verify(full=True).findings == ()


@pytest.fixture
def table(tmp_path: Path) -> Table:
    made = Table.create(str(tmp_path / "t"), schema=SCHEMA, partition_columns=["p"])
    made.append(rows())
    return made


@pytest.mark.parametrize("form", ["avro", "json", "parquet"])
def test_both_survive_every_form_of_the_log(tmp_path: Path, form: str) -> None:
    options: dict[str, object] = {"state.format": form}
    table = Table.create(
        str(tmp_path / "t"), schema=SCHEMA, partition_columns=["p"], options=options
    )
    table.append(rows())
    check(table)
    table.checkpoint()
    check(table)
    table.append(rows(100))
    check(table, 2)
    table.merge(target_size="100M")
    check(table, 2)
    table.compact()
    check(table, 2)


def test_a_lost_log_is_rebuilt_with_both(table: Table) -> None:
    for file in sorted((Path(table.path) / "_transaction_log").rglob("*"), reverse=True):
        file.unlink() if file.is_file() else file.rmdir()
    Table.repair(table.path)
    check(table)


@pytest.mark.parametrize("value", VALUES)
def test_dropping_and_replacing_take_one_of_them(table: Table, value: str | None) -> None:
    table.overwrite(pa.table({"id": [900], "p": [value]}, schema=SCHEMA), dynamic_partitions=True)
    assert table.count() == len(VALUES)
    assert table.scan(where=EACH[value], columns=["id"]).read_all().column("id").to_pylist() == [
        900
    ]
    condition = EACH[value].replace("'", "''")
    sql(f"DROP INDEXTABLES PARTITIONS FROM '{table.path}' WHERE {EACH[value]}")
    left = Table.open(table.path).scan(columns=["p"]).read_all().column("p").to_pylist()
    assert sorted(map(repr, left)) == sorted(repr(v) for v in VALUES if v != value), condition


@pytest.mark.parametrize("checkpoint", [False, True])
def test_a_text_that_an_earlier_release_wrote_stays_a_text(
    tmp_path: Path, checkpoint: bool
) -> None:
    """It had a folder of the name that null has; the null beside it is a null in the log."""
    table = Table.create(str(tmp_path / "t"), schema=SCHEMA, partition_columns=["p"])
    table.append(pa.table({"id": [1, 2], "p": [None, NULL_PARTITION]}, schema=SCHEMA))
    actions = to_actions(table.files())
    with table.transaction() as changes:
        for action in actions:
            changes.remove(action.path)
    moved = []
    for action in actions:
        name = action.path.rpartition("/")[2]
        path = f"p={NULL_PARTITION}/splits/{name}"
        (tmp_path / "t" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "t" / action.path).rename(tmp_path / "t" / path)
        moved.append(
            AddAction(
                path=path, partition_values=action.partition_values, size=action.size, num_records=1
            )
        )
    with table.transaction() as changes:
        for add in moved:
            changes.add(add)
    if checkpoint:
        table.checkpoint()
    again = Table.open(table.path, options={"transaction.cache.enabled": False})
    assert again.scan(where="p IS NULL").read_all().column("id").to_pylist() == [1]
    assert again.scan(where=f"p = '{NULL_PARTITION}'").read_all().column("id").to_pylist() == [2]


def entry(path: str, value: str | None, **bounds: str) -> AddAction:
    ends = bounds or None
    return AddAction(
        path=path, partition_values={"p": value}, size=1, min_values=ends, max_values=ends
    )


@pytest.mark.parametrize(
    ("action", "meant"),
    [
        (entry("p=a%2Fb/part-0.split", "a%2Fb"), "a/b"),
        (entry("p=a%2Fb/part-0.split", "a%2Fb", p="a%2Fb"), "a%2Fb"),
        (entry("p=u%20%20/part-0.split", "u%20%20", p="u%20 "), "u%20 "),
        (entry("p=u%20%20/part-0.split", "u%20%20", p="other"), "u  "),
        (entry("p=a%2Fb/part-0.split", "a/b"), "a/b"),
        (entry("p=a%252Fb/part-0.split", "a%2Fb"), "a%2Fb"),
        (entry("no/folder.split", "a%2Fb"), "a%2Fb"),
        (entry(f"p={NULL_PARTITION}/part-0.split", NULL_PARTITION), None),
        (
            entry(f"p={NULL_PARTITION}/part-0.split", NULL_PARTITION, p=NULL_PARTITION),
            NULL_PARTITION,
        ),
        (entry(f"p={NULL_PARTITION}/splits/split-1.split", NULL_PARTITION), NULL_PARTITION),
        (
            entry("p=%5F_HIVE_DEFAULT_PARTITION__/splits/split-1.split", NULL_PARTITION),
            NULL_PARTITION,
        ),
        (entry("p=per%cent/part-0.split", "per%cent"), "per%cent"),
        (entry("p=x/part-0.split", None), None),
    ],
)
def test_the_entry_tells_which_writer_made_it(action: AddAction, meant: str | None) -> None:
    (read,) = version_file.decode(version_file.encode([action]), path="v")
    assert isinstance(read, AddAction)
    assert read.partition_values == {"p": meant}
    (again,) = version_file.decode(version_file.encode([read]), path="v")
    assert again == read, "read once or twice, it means the same"

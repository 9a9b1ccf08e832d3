"""Tables that IndexTables for the JVM wrote, with every row: read right, before and after we
append, merge and checkpoint.
"""

from __future__ import annotations

import datetime
import json
import math
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from indextables import Table
from tests.golden.golden_tables import GoldenTable, for_each_jvm_table, jvm_table
from tests.support.jvm_copies import copied

NOT_OURS = ("[", "array_contains(", "size(")
"""Conditions in Spark's words that have no counterpart in predicates."""


def spelled(value: Any) -> Any:
    """A value as `expected.json` writes it."""
    if isinstance(value, float):
        return "f:nan" if math.isnan(value) else f"f:{value!r}"
    if isinstance(value, datetime.datetime):
        return value.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")
    if isinstance(value, datetime.date):
        return value.isoformat()
    return f"hex:{value.hex()}" if isinstance(value, bytes) else value


def rows(table: Table) -> dict[int, dict[str, Any]]:
    found = table.scan().read_all()
    maps = [f.name for f in found.schema if str(f.type).startswith("map")]
    read = found.to_pylist()
    for row in read:
        row.update({name: dict(row[name]) for name in maps if row[name] is not None})
    assert len({row["id"] for row in read}) == len(read)
    return {row["id"]: {name: spelled(value) for name, value in row.items()} for row in read}


def expected_rows(table: GoldenTable) -> dict[int, dict[str, Any]]:
    return {row["id"]: row for row in table.expected["rows"]}


def appended(table: Table) -> Table:
    """The table with its own rows once more, under other ids."""
    more = table.scan().read_all()
    ids = more.column("id").to_numpy() + 10_000
    table.append(more.set_column(0, more.schema.field("id"), [ids.tolist()]))
    return Table.open(table.path)


def merged(table: Table) -> Table:
    table = appended(table)
    assert table.merge(target_size="100M").status == "success"
    return Table.open(table.path)


def checkpointed(table: Table) -> Table:
    table = appended(table)
    table.checkpoint()
    return Table.open(table.path)


STEPS: dict[str, tuple[Callable[[Table], Table], int]] = {
    "as it is": (lambda table: table, 1),
    "appended": (appended, 2),
    "checkpointed": (checkpointed, 2),
    "merged": (merged, 2),
}
after_each_step = pytest.mark.parametrize("step", STEPS)


def taken(table: GoldenTable, step: str, tmp_path: Path) -> tuple[Table, list[dict[str, Any]]]:
    """A copy after a step, and the rows that it must hold."""
    change, times = STEPS[step]
    known = expected_rows(table).values()
    all_rows = [
        {**row, "id": row["id"] + 10_000 * again} for again in range(times) for row in known
    ]
    return change(copied(table, tmp_path)), all_rows


@after_each_step
@for_each_jvm_table
def test_rows_and_conditions(table: GoldenTable, step: str, tmp_path: Path) -> None:
    found, expected = taken(table, step, tmp_path)
    assert rows(found) == {row["id"]: row for row in expected}
    assert found.count() == len(expected)
    for condition, ids in table.expected.get("where_ids", {}).items():
        if condition.startswith(NOT_OURS) or any(word in condition for word in NOT_OURS):
            continue
        matching = found.scan(where=condition, columns=["id"]).read_all().column("id").to_pylist()
        assert {number % 10_000 for number in matching} == set(ids), condition
        assert found.count(where=condition) == len(matching)
    report = Table.open(found.path).verify(full=True)
    assert report.findings == ()


def words(text: str | None) -> list[str]:
    """The words of a text, as the tokenizer `default` cuts it."""
    return re.findall(r"[^\W_]+", (text or "").lower())


@after_each_step
@pytest.mark.parametrize("name", ["t03_partitioned", "t07_merged", "t13_checkpointed"])
def test_words_are_found(name: str, step: str, tmp_path: Path) -> None:
    found, expected = taken(jvm_table(name), step, tmp_path)
    for word in ("timeout", "café", "bar", "nothing"):
        ids = sorted(row["id"] for row in expected if word in words(row["message"]))
        assert (
            sorted(found.search(f"message:{word}", columns=["id"]).column("id").to_pylist()) == ids
        ), word
        assert found.count(query=f"message:{word}") == len(ids)
    # What is one value there stays one value.
    ids = sorted(row["id"] for row in expected if row["level"] == "ERROR")
    assert sorted(found.search("level:ERROR", columns=["id"]).column("id").to_pylist()) == ids
    phrase = sorted(row["id"] for row in expected if "foo bar" in " ".join(words(row["message"])))
    assert (
        sorted(found.search('message:"foo bar"', columns=["id"]).column("id").to_pylist()) == phrase
    )


@after_each_step
def test_partitions_mean_what_was_written(step: str, tmp_path: Path) -> None:
    found, expected = taken(jvm_table("t03_partitioned"), step, tmp_path)
    for column in ("region", "day"):
        for value, count in Counter(row[column] for row in expected).items():
            quoted = (
                None
                if value is None
                else "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"
            )
            condition = f"{column} IS NULL" if quoted is None else f"{column} = {quoted}"
            assert found.count(where=condition) == count, condition
            read = (
                found.scan(where=condition, columns=[column]).read_all().column(column).to_pylist()
            )
            assert read == [value] * count
    assert found.count(where="region = '__HIVE_DEFAULT_PARTITION__'") == 0
    assert found.count(where="region = 'a%2Fb'") == 0


@after_each_step
def test_addresses(step: str, tmp_path: Path) -> None:
    found, expected = taken(jvm_table("t19_ip"), step, tmp_path)
    for address in ("10.0.0.1", "2001:db8::1"):
        ids = sorted(row["id"] for row in expected if row["v"] == address)
        assert (
            sorted(found.scan(where=f"v = '{address}'").read_all().column("id").to_pylist()) == ids
        )
        assert sorted(found.search(f'v:"{address}"').column("id").to_pylist()) == ids
    inside = sorted(row["id"] for row in expected if row["v"] == "10.0.0.1")
    assert sorted(found.search("v:10.0.0.0/8").column("id").to_pylist()) == inside


def test_dropping_partitions_takes_what_is_meant(tmp_path: Path) -> None:
    table = jvm_table("t03_partitioned")
    found = copied(table, tmp_path)
    found.drop_partitions("region = 'a/b' OR region IS NULL")
    left = {row["id"] for row in table.expected["rows"] if row["region"] not in ("a/b", None)}
    assert set(rows(Table.open(found.path))) == left


def test_new_rows_join_the_partitions_of_the_other_engine(tmp_path: Path) -> None:
    """Merging takes both writers' splits of a partition together; replacing one replaces both."""
    found = appended(copied(jvm_table("t03_partitioned"), tmp_path))
    values = {json.dumps(dict(v)) for v in found.files().column("partition_values").to_pylist()}
    found.merge(target_size="100M")
    assert Table.open(found.path).files().num_rows == len(values)
    again = found.scan(where="region = 'us east'").read_all()
    found.overwrite(again.slice(0, 1), dynamic_partitions=True)
    day = again.column("day")[0].as_py()
    condition = "day IS NULL" if day is None else f"day = '{day}'"
    assert Table.open(found.path).count(where=f"region = 'us east' AND {condition}") == 1

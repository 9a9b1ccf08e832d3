"""`table.inspect` shows what the verbs of the same names show, and what the partitions hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from indextables import Table
from tests.support.pictured import eventful_table


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Table:
    return eventful_table(tmp_path_factory.mktemp("inspected") / "table")


def test_the_namespace_and_the_verbs_say_the_same(table: Table) -> None:
    assert table.inspect.files() == table.files()
    assert table.inspect.files(where="hour = 1") == table.files(where="hour = 1")
    assert table.inspect.history(limit=3) == table.history(limit=3)
    assert table.inspect.state() == table.state()
    assert table.inspect.component_sizes() == table.component_sizes()
    assert table.inspect.skipped_files() == table.skipped_files()


def test_the_partitions_add_up(table: Table) -> None:
    partitions = table.inspect.partitions()
    assert partitions.column_names == ["partition", "splits", "rows", "size_bytes"]
    assert sum(partitions.column("rows").to_pylist()) == table.count()
    assert sum(partitions.column("splits").to_pylist()) == table.files().num_rows
    names = {name for values in partitions.column("partition").to_pylist() for name, _ in values}
    assert names == set(table.partition_columns)


def test_an_older_version_is_looked_at_as_it_was(table: Table, tmp_path: Path) -> None:
    older = Table.open(table.path, version=1)
    assert (
        sum(older.inspect.partitions().column("rows").to_pylist()) == older.count() != table.count()
    )

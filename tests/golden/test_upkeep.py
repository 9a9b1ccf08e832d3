"""Tables of another engine are kept in order like our own."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa

from indextables import Table
from tests.golden.golden_tables import GoldenTable, for_each_table


def sorted_rows(table: Table) -> list[str]:
    found: pa.Table = table.scan().read_all()
    return sorted(map(repr, found.to_pylist()))


@for_each_table
def test_merging_rewrites_foreign_splits(table: GoldenTable, tmp_path: Path) -> None:
    shutil.copytree(table.path, tmp_path / "t")
    copy = Table.open(str(tmp_path / "t"))
    before, kinds = sorted_rows(copy), {}
    for name in copy.schema.names:
        kinds[name] = copy.count(where=f"`{name}` IS NOT NULL")
    partitions = {repr(values) for values in copy.files().column("partition_values").to_pylist()}
    report = copy.merge()
    assert report.skipped_files == 0, report
    assert report.merge_groups == len(partitions)
    fresh = Table.open(copy.path)
    assert sorted_rows(fresh) == before
    assert fresh.files().num_rows == len(partitions)
    assert {name: fresh.count(where=f"`{name}` IS NOT NULL") for name in kinds} == kinds
    assert fresh.merge().status == "no_action", "what is ours is not rewritten again"

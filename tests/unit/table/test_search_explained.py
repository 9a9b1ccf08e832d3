"""`search(..., explain=True)`: the rows, and what the search pruned, opened and read."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import indextables
from indextables import Table
from indextables.cli.app import app
from indextables.errors import InvalidInputError


def table_of(path: Path) -> Table:
    """Four splits in two partitions, with ids that ascend from split to split."""
    table = None
    for number in range(4):
        ids = list(range(10 * number, 10 * number + 10))
        messages = ["read timeout" if i % 2 else "connection reset" for i in ids]
        rows = pa.table({"id": ids, "day": [f"d{number // 2}"] * 10, "message": messages})
        table = indextables.write_table(str(path), rows, text=["message"], partition_by=["day"])
    assert table is not None
    return table


@pytest.mark.parametrize(
    "how", [{"limit": 3}, {}, {"limit": 4, "order_by": "-id"}, {"limit": 2, "snippet": "message"}]
)
def test_the_rows_are_those_of_the_search_without_a_report(
    tmp_path: Path, how: dict[str, object]
) -> None:
    table = table_of(tmp_path / "t")
    explained = table.search("timeout", explain=True, **how)  # type: ignore[call-overload]
    assert explained.rows == table.search("timeout", **how)  # type: ignore[call-overload]
    assert explained.report.rows_matched >= explained.rows.num_rows


def test_the_report_counts_pruned_and_opened_splits(tmp_path: Path) -> None:
    report = (
        table_of(tmp_path / "t")
        .search("timeout", where="day = 'd1' AND id < 30", limit=10, explain=True)
        .report
    )
    assert (
        report.splits_considered,
        report.splits_pruned_by_partition,
        report.splits_skipped_by_statistics,
    ) == (
        4,
        2,
        1,
    )
    assert (report.splits_opened, report.rows_matched, report.query) == (1, 5, "message:timeout")


def test_splits_that_an_order_rules_out_are_not_opened(tmp_path: Path) -> None:
    report = (
        table_of(tmp_path / "t").search("timeout", limit=1, order_by="-id", explain=True).report
    )
    assert sorted(split.answered_by for split in report.splits) == [
        "index",
        "index",
        "not opened",
        "not opened",
    ]
    assert report.splits_opened == 2


def test_a_later_page_has_no_report(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t")
    token = table.search_page("timeout", limit=1).next
    with pytest.raises(InvalidInputError, match="explain=True takes no search_after"):
        table.search("timeout", limit=1, search_after=token, explain=True)


def test_the_command_prints_both(tmp_path: Path) -> None:
    table_of(tmp_path / "t")
    arguments = ["search", str(tmp_path / "t"), "timeout", "--limit", "2", "--explain"]
    printed = json.loads(CliRunner().invoke(app, [*arguments, "--json"]).stdout)
    assert [len(printed["rows"]), printed["report"]["splits_opened"]] == [2, 4]
    plain = CliRunner().invoke(app, arguments)
    assert plain.stdout.count("read timeout") == 2
    assert "splits_opened" in plain.stderr

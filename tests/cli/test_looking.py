"""describe, history, files, partitions, state, skipped-files, diff, report, sql, settings,
exit-codes.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from indextables import errors
from indextables.cli.output import CODES, code_of
from indextables.config import REGISTRY
from tests.cli.calls import Call, forbid


def test_describe(call: Call, made_once: Path) -> None:
    told = call("describe", made_once, "--json").json
    assert (told["version"], told["rows"], told["splits"], told["partition_columns"]) == (
        2,
        3,
        2,
        "day",
    )
    kinds = {column["column"]: column["index"] for column in told["columns"]}
    assert kinds == {"day": "partition", "level": "string", "ms": "statistics", "message": "text"}
    assert "columns (4)" in call("describe", made_once).out


def test_history_tells_what_was_committed(call: Call, made_once: Path) -> None:
    rows = call("history", made_once, "--json").json
    assert [(row["version"], row["operation"], row["user_metadata"]) for row in rows] == [
        (2, "WRITE", "late"),
        (1, "WRITE", None),
        (0, "CREATE", None),
    ]
    lines = call("history", made_once, "--limit", "1").lines
    assert lines[0] == [
        "version",
        "timestamp",
        "operation",
        "user_metadata",
        "is_readable",
        "metrics",
    ]
    assert len(lines) == 2
    assert "numAddedRecords=1" in lines[1][-1]


def test_files_and_partitions(call: Call, made_once: Path) -> None:
    files = call("files", made_once, "--where", "day = '2026-11-02'", "--json").json
    assert [file["partition_values"] for file in files] == [{"day": "2026-11-02"}]
    assert len(call("files", made_once).lines) == 3
    assert [line[:3] for line in call("partitions", made_once).lines] == [
        ["partition", "splits", "rows"],
        ["day=2026-11-01", "1", "2"],
        ["day=2026-11-02", "1", "1"],
    ]
    assert call("partitions", made_once, "--json").json[0]["partition"] == {"day": "2026-11-01"}


def test_state_and_skipped_files(call: Call, made_once: Path) -> None:
    assert call("state", made_once, "--json").json["num_files"] == 2
    assert "latest_version" in call("state", made_once).out
    assert call("skipped-files", made_once, "--json").json == []


def test_component_sizes(call: Call, made_once: Path) -> None:
    rows = call("component-sizes", made_once, "--where", "day = '2026-11-02'", "--json").json
    assert all("2026-11-02" in row["partition_values"] for row in rows)
    assert "message" in {row["field"] for row in rows}


def test_diff_of_two_versions(call: Call, made_once: Path) -> None:
    told = call("diff", made_once, "1", "2", "--json").json
    assert (told["rows_before"], told["rows_after"], len(told["added"]), told["removed"]) == (
        2,
        3,
        1,
        [],
    )
    assert call("diff", made_once, "0", "--json").json["to_version"] == 2
    assert "can be read" in call("diff", made_once, "0", "9", code=3).err


def test_report_writes_a_page(call: Call, made_once: Path, tmp_path: Path) -> None:
    told = call("report", made_once, "-o", tmp_path / "page.html", "--json").json
    assert told == {"path": str(tmp_path / "page.html"), "version": 2}
    assert "</html>" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_a_page_that_cannot_be_written(
    call: Call, made_once: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (
        "There is no folder"
        in call("report", made_once, "-o", tmp_path / "no" / "x.html", code=3).err
    )
    assert "is a folder" in call("report", made_once, "-o", tmp_path, code=2).err
    forbid(tmp_path / "x.html", monkeypatch)
    assert (
        "may not be written by this user"
        in call("report", made_once, "-o", tmp_path / "x.html", code=10).err
    )


def test_sql_runs_a_statement(call: Call, made_once: Path) -> None:
    (row,) = call("sql", f"DESCRIBE INDEXTABLES STATE '{made_once}'", "--json").json
    assert row["num_files"] == 2
    assert "The statements are" in call("sql", "SELECT 1", code=2).err


def test_settings_are_those_of_the_registry(call: Call, made_once: Path) -> None:
    assert {row["key"] for row in call("settings", "--json").json} == set(REGISTRY.settings)
    rows = call("settings", "typemap", "--table", made_once, "--json").json
    assert [(row["key"], row["value"]) for row in rows] == [("indexing.typemap.*", "message=text")]


def test_a_setting_that_does_not_exist_is_an_error_and_one_of_a_column_is_explained(
    call: Call,
) -> None:
    assert "There is no setting 'nothere'." in call("settings", "nothere", code=2).err
    assert (
        "'purge.retentionCheckEnabled'"
        in call("settings", "purge.retentionChekEnabled", code=2).err
    )
    assert "'indexing.typemap.*'" in call("settings", "typmap", code=2).err
    (row,) = call("settings", "spark.indextables.indexing.typemap.message", "--json").json
    assert row["key"] == "indexing.typemap.*"


def test_a_secret_is_not_shown(call: Call, made_once: Path) -> None:
    answer = call("settings", "aws", "--table", made_once, "-o", "aws.secretKey=hush", "--json")
    assert "hush" not in answer.out


def test_every_kind_of_error_has_an_exit_code(call: Call) -> None:
    assert set(errors.IndexTablesError.__subclasses__()) < set(CODES)
    told = {row["code"]: row["errors"] for row in call("exit-codes", "--json").json}
    assert {CODES[kind] for kind in CODES} < set(told)
    assert told[3] == "NotFoundError"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.QuerySyntaxError("x"), 2),
        (errors.LogGapError("x"), 8),
        (errors.ThrottledError("x"), 10),
    ],
)
def test_an_error_has_the_code_of_its_kind(error: errors.IndexTablesError, code: int) -> None:
    assert code_of(error) == code


def test_analyze_shows_the_terms_of_a_text(call: Call, made_once: Path) -> None:
    shown = call("analyze", made_once, "message", "Gateway timeout", "--json").json
    assert [(row["term"], row["position"]) for row in shown] == [("gateway", 0), ("timeout", 1)]

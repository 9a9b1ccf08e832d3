"""Golden tables with one file after another missing, empty, cut short or garbled: read rightly, or
refused by name.

The tables are also brought into the current form first, so that every kind of file that we write is
broken in turn too.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from indextables.errors import CorruptTableError
from indextables.log.transaction import Changes
from indextables.log.transaction_log import TransactionLog
from indextables.model.actions import AddAction
from tests.golden.golden_tables import GoldenTable, golden_tables
from tests.support.golden_tables import copy_of, open_log

BREAKS: dict[str, Callable[[bytes], bytes | None]] = {
    "missing": lambda data: None,
    "empty": lambda data: b"",
    "cut short": lambda data: data[: len(data) * 2 // 3],
    "cut by one": lambda data: data[:-1],
    "garbled": lambda data: b"\x00garbage" * 9,
    "flipped early": lambda data: bytes([*data[:8], data[8] ^ 0x10, *data[9:]]),
    "flipped late": lambda data: bytes([*data[:-9], data[-9] ^ 0x10, *data[-8:]]),
}
CHOSEN = {"02_five_appends", "03_with_removes", "09_partitioned_multi_append", "13_after_purge"}
TABLES = [table for table in golden_tables() if table.path.name in CHOSEN]


def add(log: TransactionLog, name: str, columns: list[str]) -> None:
    values: dict[str, str | None] = dict.fromkeys(columns, "x")
    log.commit(
        log.newest(), Changes("WRITE", adds=[AddAction(path=name, size=7, partition_values=values)])
    )


def current_form(table: GoldenTable, tmp_path: Path) -> Path:
    """The table with two states of ours and versions between and after them."""
    path = copy_of(table, tmp_path)
    log = open_log(path)
    for step in range(2):
        add(log, f"a{step}", table.expected["partition_columns"])
        log.checkpoint()
        add(log, f"b{step}", table.expected["partition_columns"])
    return path


def paths(path: Path, *, back: int = 0) -> list[str]:
    log = open_log(path)
    newest = log.newest()
    snapshot = log.at_version(newest.version - back) if back else newest
    return sorted(snapshot.all_files.column("path").to_pylist())


def newest_commit(path: Path, *, ours: bool) -> Path:
    """A version file in our form; in the other implementation's, the file of its newest state."""
    log = path / "_transaction_log"
    return max(log.glob("0*.json")) if ours else max(log.glob("state-v*")) / "_manifest.avro"


@pytest.mark.parametrize("kind", BREAKS)
@pytest.mark.parametrize("ours", [False, True], ids=["as written", "in our form"])
@pytest.mark.parametrize("table", TABLES, ids=lambda t: t.path.name)
def test_one_broken_file(table: GoldenTable, ours: bool, kind: str, tmp_path: Path) -> None:
    whole = current_form(table, tmp_path / "whole") if ours else copy_of(table, tmp_path / "whole")
    right, before = paths(whole), paths(whole, back=1)
    # Where the newest commit itself is lost there is nothing left to tell of it: the table is as it
    # was before.
    last_commit = newest_commit(whole, ours=ours).relative_to(whole)
    outcomes = set()
    for file in sorted(
        p.relative_to(whole) for p in (whole / "_transaction_log").rglob("*") if p.is_file()
    ):
        broken = tmp_path / "broken"
        shutil.copytree(whole, broken)
        content = BREAKS[kind]((broken / file).read_bytes())
        (broken / file).unlink()
        if content is not None:
            (broken / file).write_bytes(content)
        try:
            found = paths(broken)
        except CorruptTableError as error:
            outcomes.add("refused")
            assert error.context["path"], file
        else:
            outcomes.add("read")
            assert found == (before if kind == "missing" and file == last_commit else right), file
        shutil.rmtree(broken)
    assert "read" in outcomes


def test_a_broken_state_is_reported_once_and_healed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for table in TABLES[:1]:
        path = current_form(table, tmp_path)
        right = paths(path)
        newest = max((path / "_transaction_log").glob("state-v*/_manifest.avro"))
        newest.write_bytes(b"garbage")
        log = open_log(path)
        with caplog.at_level(logging.WARNING):
            for _ in range(3):
                assert sorted(log.reload().all_files.column("path").to_pylist()) == right
        said = [r for r in caplog.records if r.name == "indextables.log.checkpoint.state_reader"]
        assert [r.getMessage().count(str(newest.parent.name)) for r in said] == [1]
        log.checkpoint()
        caplog.clear()
        assert paths(path) == right
        assert caplog.records == []

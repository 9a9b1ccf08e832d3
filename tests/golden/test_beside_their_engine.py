"""The table "Beside their engine" of docs/how-to/upgrade.md, row by row, on tables that the JVM engine wrote."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from indextables import Table, sql
from indextables.errors import CorruptTableError
from indextables.wire.version_file import JVM_MARK
from tests.golden.golden_tables import jvm_table
from tests.golden.test_jvm_rows import copied
from tests.golden.test_two_engines import (
    appended_by_an_earlier_release,
    fresh,
    one_row,
    other_engine_commits,
    state_of,
    states,
)

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "upgrade.md"
REFUSES = "the other engine refuses protocol version 5"


def contents(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def theirs(tmp_path: Path) -> Table:
    return copied(jvm_table("t07_merged"), tmp_path)


def ours(tmp_path: Path) -> Table:
    table = theirs(tmp_path)
    table.append(one_row(table))
    return Table.open(table.path)


def read_count_filter_search(tmp_path: Path) -> None:
    table = theirs(tmp_path)
    root = Path(table.path)
    before, rows = contents(root), table.count()
    hits = table.search("message:timeout").num_rows
    assert table.scan(where="n = 27").read_all().num_rows == table.count(where="n = 27") > 0
    assert contents(root) == before
    table.append(one_row(table))
    both = Table.open(table.path)
    assert (both.count(), both.search("message:timeout").num_rows) == (rows + 1, hits)
    assert both.count(where="id = 77000") == 1


def their_engine_reads_and_writes(tmp_path: Path) -> None:
    table = theirs(tmp_path)
    root = Path(table.path)
    version = other_engine_commits(root)
    assert fresh(table).version == version
    fresh(table).append(one_row(table))
    with pytest.raises(AssertionError, match=REFUSES):
        other_engine_commits(root)


def writes_of_ours(tmp_path: Path) -> None:
    verbs: list[Callable[[Table], object]] = [
        lambda t: t.append(one_row(t)),
        lambda t: t.delete(where="n = 27"),
        lambda t: t.merge(target_size="100M"),
    ]
    for number, verb in enumerate(verbs):
        table = theirs(tmp_path / str(number))
        verb(table)
        assert state_of(Path(table.path), states(Path(table.path))[-1]).protocol_version == 5
        again = Table.open(table.path)
        again.append(one_row(again))
        assert Table.open(table.path).verify(full=True).findings == ()


def a_checkpoint_of_ours(tmp_path: Path) -> None:
    table = ours(tmp_path)
    table.checkpoint()
    with pytest.raises(AssertionError, match=REFUSES):
        other_engine_commits(Path(table.path))


def looks_of_ours(tmp_path: Path) -> None:
    table = theirs(tmp_path)
    before = contents(Path(table.path))
    assert table.verify(full=True).findings == ()
    assert table.explain(query="message:timeout").rows_matched > 0
    assert sql(f"DESCRIBE INDEXTABLES STATE '{table.path}'").num_rows == 1
    assert contents(Path(table.path)) == before


def older_versions(tmp_path: Path) -> None:
    table = theirs(tmp_path)
    version, rows = table.version, table.count()
    table.append(one_row(table))
    assert Table.open(table.path, version=version).count() == rows
    assert Table.open(table.path, version=version + 1).count() == rows + 1


def both_wrote(tmp_path: Path) -> None:
    table = appended_by_an_earlier_release(theirs(tmp_path))
    root = Path(table.path)
    other_engine_commits(root)
    before = contents(root)
    with pytest.raises(CorruptTableError):
        fresh(table).count()
    assert before.items() <= contents(root).items()


def version_files(tmp_path: Path) -> None:
    table = theirs(tmp_path)
    options = {"transaction.compression.layout": "jvm"}
    opened = Table.open(table.path, options=options)
    opened.append(one_row(opened))
    newest = max((Path(table.path) / "_transaction_log").glob("0*.json"))
    assert newest.read_bytes().startswith(JVM_MARK)
    Table.open(table.path).append(one_row(table))
    newest = max((Path(table.path) / "_transaction_log").glob("0*.json"))
    assert newest.read_bytes()[:2] == b"\x1f\x8b"
    assert Table.open(table.path).count(where="id = 77000") == 2


def two_words(tmp_path: Path) -> None:
    table = theirs(tmp_path)
    both, either = (table.count(query=f"message:login {word} message:full") for word in ("AND", "OR"))
    as_theirs = Table.open(table.path, options={"query.defaultOperator": "and"})
    assert as_theirs.count(query="message:(login full)") == both < either
    assert table.count(query="message:(login full)") == either
    table.update_metadata(options={"query.defaultOperator": "and"})
    assert Table.open(table.path).count(query="message:(login full)") == both


ROWS = {
    "read, count, filter, search": read_count_filter_search,
    "their engine reads and writes": their_engine_reads_and_writes,
    "append, delete, merge, restore of ours": writes_of_ours,
    "a checkpoint of ours": a_checkpoint_of_ours,
    "verify, explain, DESCRIBE of ours": looks_of_ours,
    "older versions by number": older_versions,
    "both wrote, from an earlier release": both_wrote,
    "version files": version_files,
    "`hello world` in a query": two_words,
}


def test_every_row_of_the_page_is_tested() -> None:
    section = PAGE.read_text("utf-8").split("## Beside their engine")[1].split("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ") and not line.startswith("| what")]
    assert [re.split(r" \| ", line.strip("| "))[0] for line in rows] == list(ROWS)


@pytest.mark.parametrize("row", ROWS)
def test_a_row_of_the_page(row: str, tmp_path: Path) -> None:
    ROWS[row](tmp_path)

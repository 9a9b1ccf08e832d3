"""The table "Beside their engine" of docs/how-to/upgrade.md, cell by cell, on tables that
IndexTables for the JVM wrote.
"""

from __future__ import annotations

import gzip
import logging
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from starlette.testclient import TestClient
from typer.testing import CliRunner

from indextables import Table, sql
from indextables.cli.app import app
from indextables.errors import CorruptTableError
from indextables.log import log_files
from indextables.web.explorer import Limits
from indextables.web.service import Service, service_application
from indextables.web.warehouse import Warehouse
from indextables.wire.version_file import JVM_MARK
from tests.golden.golden_tables import jvm_table
from tests.support.jvm_copies import copied
from tests.support.two_engines import (
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
    return {
        str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()
    }


def theirs(tmp_path: Path) -> Table:
    return copied(jvm_table("t07_merged"), tmp_path)


def ours(tmp_path: Path) -> Table:
    table = theirs(tmp_path)
    table.append(one_row(table))
    return Table.open(table.path)


def read_theirs(tmp_path: Path) -> None:
    table = theirs(tmp_path)
    root = Path(table.path)
    before, rows = contents(root), jvm_table("t07_merged").expected["rows"]
    assert table.count() == len(rows)
    assert table.count(where="n = 27") == sum(row["n"] == 27 for row in rows) > 0
    assert table.scan(where="n = 27").read_all().num_rows == table.count(where="n = 27")
    words = sum("timeout" in (row["message"] or "").lower().split() for row in rows)
    assert table.search("message:timeout", limit=len(rows)).num_rows == words > 0
    assert contents(root) == before


def read_ours(tmp_path: Path) -> None:
    before, both = theirs(tmp_path / "before"), ours(tmp_path)
    assert both.count() == before.count() + 1
    assert both.count(where="id = 77000") == 1
    assert both.count(where="n = 27") == before.count(where="n = 27") > 0
    assert both.search("message:timeout").num_rows == before.search("message:timeout").num_rows > 0


def their_engine_on_theirs(tmp_path: Path) -> None:
    table = theirs(tmp_path)
    rows = table.count()
    version = other_engine_commits(Path(table.path))
    assert (fresh(table).version, fresh(table).count()) == (version, rows)


def their_engine_on_ours(tmp_path: Path) -> None:
    table = ours(tmp_path)
    before = contents(Path(table.path))
    with pytest.raises(AssertionError, match=REFUSES):
        other_engine_commits(Path(table.path))
    assert contents(Path(table.path)) == before


VERBS: dict[str, Callable[[Table], object]] = {
    "append": lambda t: t.append(one_row(t)),
    "delete": lambda t: t.delete(where="n = 27"),
    "update": lambda t: t.update(set={"level": "upper(level)"}, where="n = 27"),
    "upsert": lambda t: t.upsert(one_row(t), on=["id"]),
    "merge": lambda t: t.merge(target_size="100M"),
    "restore": lambda t: t.restore(version=t.version - 1),
}


def writes_on_theirs(tmp_path: Path) -> None:
    for name, verb in VERBS.items():
        table, heard = theirs(tmp_path / name), Heard()
        logging.getLogger("indextables").addHandler(heard)
        verb(table)
        logging.getLogger("indextables").removeHandler(heard)
        assert [text for text in heard.texts if "was another engine's table until now" in text], (
            name
        )
        assert state_of(Path(table.path), states(Path(table.path))[-1]).protocol_version == 5, name
        assert Table.open(table.path).verify(full=True).findings == (), name


class Heard(logging.Handler):
    """What is said while it listens."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


def writes_on_ours(tmp_path: Path) -> None:
    for name, verb in VERBS.items():
        table = ours(tmp_path / name)
        version = table.version
        verb(table)
        again = Table.open(table.path)
        assert again.version > version, name
        assert again.verify(full=True).findings == (), name


def checkpoint_on_theirs(tmp_path: Path) -> None:
    table = theirs(tmp_path)
    rows = table.count()
    table.checkpoint()
    with pytest.raises(AssertionError, match=REFUSES):
        other_engine_commits(Path(table.path))
    assert fresh(table).count() == rows


def checkpoint_on_ours(tmp_path: Path) -> None:
    table = ours(tmp_path)
    rows, version = table.count(), table.checkpoint().version
    assert states(Path(table.path))[-1] == version
    assert fresh(table).count() == rows


def looks_at(table: Table) -> None:
    before = contents(Path(table.path))
    assert table.verify(full=True).findings == ()
    assert table.explain(query="message:timeout").rows_matched > 0
    assert sql(f"DESCRIBE INDEXTABLES STATE '{table.path}'").num_rows == 1
    assert contents(Path(table.path)) == before


def older_versions_of_theirs(tmp_path: Path) -> None:
    table = theirs(tmp_path)
    for version in states(Path(table.path)):
        assert Table.open(table.path, version=version).version == version
    assert Table.open(table.path, version=table.version).count() == table.count()


def older_versions_of_ours(tmp_path: Path) -> None:
    table = theirs(tmp_path)
    version, rows = table.version, table.count()
    older = {v: Table.open(table.path, version=v).count() for v in states(Path(table.path))}
    table.append(one_row(table))
    table.append(one_row(table))
    assert {v: Table.open(table.path, version=v).count() for v in older} == older
    assert [Table.open(table.path, version=version + n).count() for n in range(3)] == [
        rows,
        rows + 1,
        rows + 2,
    ]


def both_wrote(tmp_path: Path) -> Table:
    table = appended_by_an_earlier_release(theirs(tmp_path))
    root = Path(table.path)
    ours_, theirs_ = (
        log_files.version_path(table.version),
        log_files.state_path(other_engine_commits(root)),
    )
    before = contents(root)
    with pytest.raises(CorruptTableError) as raised:
        fresh(table).count()
    assert ours_ in raised.value.message
    assert theirs_ in raised.value.message
    assert before.items() <= contents(root).items()
    return table


def both_wrote_and_ours_again(tmp_path: Path) -> None:
    table = both_wrote(tmp_path)
    before = contents(Path(table.path))
    for verb in (
        lambda: table.append(one_row(table)),
        table.checkpoint,
        table.merge,
        lambda: fresh(table),
    ):
        with pytest.raises(CorruptTableError):
            verb()
    assert before.items() <= contents(Path(table.path)).items()


def version_files_of_theirs(tmp_path: Path) -> None:
    table = theirs(tmp_path)
    first = Path(table.path) / log_files.version_path(0)
    raw = first.read_bytes()
    text = (
        gzip.decompress(raw[2:])
        if raw.startswith(JVM_MARK)
        else gzip.decompress(raw)
        if raw[:1] == b"\x1f"
        else raw
    )
    for number, form in enumerate((text, gzip.compress(text), JVM_MARK + gzip.compress(text))):
        copy = tmp_path / f"form{number}"
        shutil.copytree(table.path, copy)
        for state in (copy / "_transaction_log").glob("state-v*"):
            shutil.rmtree(state)
        (copy / log_files.POINTER).unlink()
        (copy / log_files.version_path(0)).write_bytes(form)
        assert Table.open(str(copy), version=0).schema == table.schema


def version_files_of_ours(tmp_path: Path) -> None:
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


WORDS = "message:(login full)"


def by_every_door(path: str) -> set[int]:
    """How many rows hold two words side by side, by Python, SQL, the command line and the search
    service.
    """
    counts = {
        Table.open(path).count(query=WORDS),
        Table.open(path).search(WORDS, limit=1000).num_rows,
    }
    run = CliRunner().invoke(app, ["count", path, "--query", WORDS])
    assert run.exit_code == 0, run.output
    counts.add(int(re.sub(r"\D", "", run.output.split()[0])))
    limits = Limits()
    warehouse = Warehouse([str(Path(path).parent)], max_staleness=0)
    client = TestClient(
        service_application(
            Service(warehouse, limits), "the-token-of-these-tests", names=frozenset()
        )
    )
    said = {"Authorization": "ApiKey the-token-of-these-tests"}
    name = Path(path).name
    for query in (
        {"query_string": {"query": WORDS}},
        {"simple_query_string": {"query": "login full", "fields": ["message"]}},
        {"query_string": {"query": "login full", "default_field": "message"}},
    ):
        answer = client.post(f"/{name}/_count", json={"query": query}, headers=said)
        assert answer.status_code == 200, answer.text
        counts.add(answer.json()["count"])
    answer = client.get(f"/{name}/_count", params={"q": WORDS}, headers=said)
    counts.add(answer.json()["count"])
    limits.close()
    return counts


def two_words_of_theirs(tmp_path: Path) -> None:
    table = theirs(tmp_path)
    before = contents(Path(table.path))
    both, either = (
        table.count(query=f"message:login {word} message:full") for word in ("AND", "OR")
    )
    assert by_every_door(table.path) == {both}
    assert both < either
    assert (
        Table.open(table.path, options={"query.defaultOperator": "or"}).count(query=WORDS) == either
    )
    assert contents(Path(table.path)) == before
    assert "query.defaultOperator" not in (table.metadata.configuration or {})


def two_words_of_ours(tmp_path: Path) -> None:
    table = theirs(tmp_path)
    both, either = (
        table.count(query=f"message:login {word} message:full") for word in ("AND", "OR")
    )
    table.append(one_row(table))
    again = Table.open(table.path)
    assert (again.metadata.configuration or {})["query.defaultOperator"] == "and"
    assert by_every_door(table.path) == {both}
    again.merge(rewrite=True)
    assert by_every_door(table.path) == {both}
    again.update_metadata(options={"query.defaultOperator": "or"})
    again.append(one_row(table))
    assert by_every_door(table.path) == {either}


Check = Callable[[Path], object]
ROWS: dict[str, tuple[tuple[str, Check], tuple[str, Check]]] = {
    "read, count, filter, search here": (
        ("works; nothing is written", read_theirs),
        ("works on the splits of both", read_ours),
    ),
    "read and write by IndexTables for the JVM": (
        ("works", their_engine_on_theirs),
        ("its own check refuses: protocol 5 in the state", their_engine_on_ours),
    ),
    "append, delete, update, upsert, merge, restore here": (
        ("works and takes the table over, with a warning", writes_on_theirs),
        ("works", writes_on_ours),
    ),
    "a checkpoint here": (
        ("works and takes the table over", checkpoint_on_theirs),
        ("works", checkpoint_on_ours),
    ),
    "verify, explain, DESCRIBE here": (
        ("works; nothing is written", lambda tmp_path: looks_at(theirs(tmp_path))),
        ("works", lambda tmp_path: looks_at(ours(tmp_path))),
    ),
    "older versions by number": (
        ("those that its log still contains", older_versions_of_theirs),
        ("the same, and every later one", older_versions_of_ours),
    ),
    "both engines wrote, from an earlier release": (
        ("every open is an error that names both files; nothing is deleted", both_wrote),
        ("the same", both_wrote_and_ours_again),
    ),
    "version files": (
        ("read in each of its forms: plain, gzip, two bytes and gzip", version_files_of_theirs),
        (
            "written as gzip, or with `transaction.compression.layout=jvm` in its form",
            version_files_of_ours,
        ),
    ),
    "`hello world` in a query": (
        (
            "both words; either with `query.defaultOperator=or`",
            two_words_of_theirs,
        ),
        (
            "the same: the first write records `query.defaultOperator=and` in the table",
            two_words_of_ours,
        ),
    ),
}
"""What the page says in each cell, word for word, and what shows it."""


def test_every_cell_of_the_page_is_tested() -> None:
    section = (
        PAGE.read_text("utf-8")
        .split("## Share a table with IndexTables for the JVM")[1]
        .split("\n## ")[0]
    )
    lines = [
        line
        for line in section.splitlines()
        if line.startswith("| ") and not line.startswith("| action")
    ]
    cells = [tuple(re.split(r" \| ", line.strip("| "))) for line in lines]
    assert cells == [(row, *(text for text, _ in checks)) for row, checks in ROWS.items()]


@pytest.mark.parametrize("side", [0, 1], ids=["theirs", "ours"])
@pytest.mark.parametrize("row", ROWS)
def test_a_cell_of_the_page(row: str, side: int, tmp_path: Path) -> None:
    ROWS[row][side][1](tmp_path)

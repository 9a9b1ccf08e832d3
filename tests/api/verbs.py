"""Every public verb, statement and command: whether it reads or changes a table, and a call that
really changes one.

`test_verb_table.py` finds them by reflection and runs the calls, and `tools/reference.py` prints
the table. A verb that is missing here fails the test.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from typer.testing import CliRunner

import indextables
from indextables import Table, write_table
from indextables.cli.app import VERBS, app
from indextables.commands.parser import STATEMENTS
from indextables.operations.alter import Alteration
from indextables.table.administration import Administration

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int32(), nullable=False),
        ("day", pa.int32()),
        ("ts", pa.timestamp("us", "UTC")),
        ("message", pa.string()),
    ]
)
OPTIONS: dict[str, object] = {
    "indexing.typemap.message": "text",
    "purge.retentionCheckEnabled": False,
    "merge.targetSize": "1G",
    "retention.column": "ts",
    "retention.period": "30 days",
}
GROUPS = {"Table": Table, "Table.admin": Administration, "Table.alter": Alteration}


class CommandFailedError(Exception):
    """A command that ended with an error; its text is what it printed."""


@dataclass(frozen=True)
class Place:
    """A table to change: its path, the handle through which it is changed, and a file of rows next
    to it.
    """

    path: str
    table: Table

    @property
    def rows_file(self) -> str:
        """The file of rows that commands read."""
        return f"{self.path}.jsonl"


@dataclass(frozen=True)
class Change:
    """A verb that changes a table, with a call of it."""

    name: str
    run: Callable[[Place], object]
    is_held: bool = True
    """Whether it goes through a handle; a statement or a command opens the table by its path."""
    is_repeatable: bool = True
    """Whether the same call may be made after it was successful."""
    prepare: Callable[[str], object] | None = None
    creates: bool = False
    """Whether it makes a table that is not there; a table that is there is refused."""
    drops: bool = False
    """Whether it removes the table: what is left of an interrupted one opens no more, and the next
    call removes it.
    """


def rows(*ids: int) -> pa.Table:
    """A row per id; every fifth is older than the retention of the table."""
    moments = [datetime(2000 if i % 5 == 0 else 2100, 1, 1, tzinfo=UTC) for i in ids]
    columns = {
        "id": ids,
        "day": [i % 3 for i in ids],
        "ts": moments,
        "message": [f"disk full n{i}" for i in ids],
    }
    return pa.table(columns, schema=SCHEMA)


def damage_state(path: str) -> None:
    """Write a state and overwrite it, so that a repair has something to do."""
    Table.open(path).checkpoint()
    newest = max(Path(path, "_transaction_log").glob("state-v*/_manifest.avro"))
    newest.write_bytes(b"damaged")


def replace_by_plain_table(path: str) -> None:
    """Put a table in its place whose rows were never masked, as an older protocol needs."""
    shutil.rmtree(path)
    table = Table.create(path, schema=SCHEMA, partition_columns=["day"], options=OPTIONS)
    table.append(rows(*range(12)))


def add_tag(path: str) -> None:
    """Give a version the tag that another verb takes away."""
    Table.open(path).tag("spare")


def follow_source(path: str) -> None:
    """Put a companion in the place of the table, whose source has a file that is not indexed."""
    shutil.rmtree(path)
    source = Path(f"{path}-source")
    source.mkdir()
    pq.write_table(rows(1, 2), source / "a.parquet")
    Table.companion(path, source=str(source), options={**OPTIONS, "companion.settleTime": 0})


def put_source(path: str) -> None:
    """Put a folder of Parquet files next to the path."""
    source = Path(f"{path}-source")
    source.mkdir(exist_ok=True)
    pq.write_table(rows(1, 2), source / "a.parquet")


def _make_companion(place: Place) -> None:
    put_source(place.path)
    source = Path(f"{place.path}-source")
    Table.companion(place.path, source=str(source), text=["message"])


def _transact(place: Place) -> None:
    action = place.table.files().column("path")[0].as_py()
    with place.table.transaction(operation="DELETE") as tx:
        tx.remove(action)


def _record_skip(place: Place) -> None:
    place.table.admin.record_skipped_file(
        place.table.files().column("path")[0].as_py(), "unreadable"
    )


def _sql(statement: str) -> Callable[[Place], object]:
    return lambda place: indextables.sql(statement.format(p=place.path), options=OPTIONS)


def _command(*words: str) -> Callable[[Place], object]:
    def run(place: Place) -> None:
        given = [word.format(p=place.path, rows=place.rows_file) for word in words]
        result = CliRunner().invoke(app, given, env={"COLUMNS": "400"})
        if result.exit_code:
            raise CommandFailedError(result.output)

    return run


def _held(name: str, run: Callable[[Table], object], **ways: Any) -> Change:
    return Change(name, lambda place: run(place.table), **ways)


PYTHON = (
    _held("Table.append", lambda t: t.append(rows(100)), is_repeatable=False),
    _held("Table.overwrite", lambda t: t.overwrite(rows(101), where="day = 2")),
    _held("Table.delete", lambda t: t.delete(where="id = 4")),
    _held("Table.update", lambda t: t.update(set={"message": "upper(message)"}, where="id < 9")),
    _held("Table.upsert", lambda t: t.upsert(rows(7, 102), on=["id"])),
    _held("Table.drop_partitions", lambda t: t.drop_partitions("day = 1")),
    Change("Table.transaction", _transact, is_repeatable=False),
    _held("Table.update_metadata", lambda t: t.update_metadata(description="new")),
    _held(
        "Table.upgrade_protocol",
        lambda t: t.upgrade_protocol(
            min_reader_version=4, min_writer_version=4, features=("skippedFiles", "columnMapping")
        ),
    ),
    _held("Table.reindex", lambda t: t.reindex({"message": "string"})),
    _held("Table.merge", lambda t: t.merge()),
    _held("Table.sync", lambda t: t.sync(), prepare=follow_source),
    Change("Table.companion", _make_companion, is_held=False, creates=True),
    _held("Table.purge", lambda t: t.purge(older_than_hours=0, log_retention_hours=0)),
    _held("Table.erase", lambda t: t.erase(where="id = 4", retention_hours=0)),
    _held("Table.truncate_time_travel", lambda t: t.truncate_time_travel()),
    _held("Table.restore", lambda t: t.restore(version=2)),
    _held("Table.expire", lambda t: t.expire()),
    _held("Table.tag", lambda t: t.tag("release-7")),
    _held("Table.untag", lambda t: t.untag("spare"), is_repeatable=False, prepare=add_tag),
    _held("Table.checkpoint", lambda t: t.checkpoint()),
    _held("Table.compact", lambda t: t.compact()),
    _held(
        "Table.admin.downgrade_protocol",
        lambda t: t.admin.downgrade_protocol(to=3, log_only=True),
        is_repeatable=False,
        prepare=replace_by_plain_table,
    ),
    Change("Table.admin.record_skipped_file", _record_skip),
    _held(
        "Table.alter.add_column",
        lambda t: t.alter.add_column("region", "string"),
        is_repeatable=False,
    ),
    _held(
        "Table.alter.add_columns",
        lambda t: t.alter.add_columns({"region": "string"}),
        is_repeatable=False,
    ),
    _held("Table.alter.drop_column", lambda t: t.alter.drop_column("message"), is_repeatable=False),
    _held(
        "Table.alter.drop_columns", lambda t: t.alter.drop_columns(["message"]), is_repeatable=False
    ),
    _held(
        "Table.alter.rename_column",
        lambda t: t.alter.rename_column("message", "text"),
        is_repeatable=False,
    ),
    _held("Table.alter.reorder", lambda t: t.alter.reorder(["id", "ts", "message", "day"])),
    _held("Table.alter.set_comment", lambda t: t.alter.set_comment("message", "what happened")),
    _held("Table.alter.set_nullable", lambda t: t.alter.set_nullable("id", True)),
    _held("Table.alter.widen_column", lambda t: t.alter.widen_column("id", "bigint")),
    Change(
        "Table.create",
        lambda p: Table.create(p.path, schema=SCHEMA),
        is_held=False,
        is_repeatable=False,
        creates=True,
    ),
    Change(
        "Table.repair",
        lambda p: Table.repair(p.path, options=OPTIONS),
        is_held=False,
        prepare=damage_state,
    ),
    Change(
        "Table.drop", lambda p: Table.drop(p.path), is_held=False, is_repeatable=False, drops=True
    ),
    Change(
        "write_table", lambda p: write_table(p.path, rows(100)), is_held=False, is_repeatable=False
    ),
)
SQL = tuple(
    Change(name, _sql(text), is_held=False, **ways)
    for name, text, ways in (
        ("MERGE SPLITS", "MERGE SPLITS '{p}'", {}),
        ("OPTIMIZE", "OPTIMIZE '{p}'", {}),
        (
            "PURGE INDEXTABLE",
            "PURGE INDEXTABLE '{p}' OLDER THAN 0 HOURS TRANSACTION LOG RETENTION 0 HOURS",
            {},
        ),
        ("VACUUM", "VACUUM '{p}' RETAIN 0 HOURS", {}),
        ("ERASE FROM", "ERASE FROM '{p}' WHERE id = 4 RETAIN 0 HOURS", {}),
        ("EXPIRE INDEXTABLES", "EXPIRE INDEXTABLES '{p}'", {}),
        (
            "DROP INDEXTABLES PARTITIONS FROM",
            "DROP INDEXTABLES PARTITIONS FROM '{p}' WHERE day = 1",
            {},
        ),
        ("CHECKPOINT INDEXTABLES", "CHECKPOINT INDEXTABLES '{p}'", {}),
        ("COMPACT INDEXTABLES", "COMPACT INDEXTABLES '{p}'", {}),
        ("TRUNCATE INDEXTABLES TIME TRAVEL", "TRUNCATE INDEXTABLES TIME TRAVEL '{p}'", {}),
        ("RESTORE INDEXTABLES", "RESTORE INDEXTABLES '{p}' TO VERSION 2", {}),
        ("RESTORE TABLE", "RESTORE TABLE '{p}' TO VERSION AS OF 2", {}),
        ("TAG INDEXTABLES", "TAG INDEXTABLES '{p}' AS 'release-7'", {}),
        (
            "UNTAG INDEXTABLES",
            "UNTAG INDEXTABLES '{p}' 'spare'",
            {"is_repeatable": False, "prepare": add_tag},
        ),
        (
            "REPAIR INDEXFILES TRANSACTION LOG",
            "REPAIR INDEXFILES TRANSACTION LOG '{p}'",
            {"prepare": damage_state},
        ),
        (
            "REPAIR INDEX FILES TRANSACTION LOG",
            "REPAIR INDEX FILES TRANSACTION LOG '{p}'",
            {"prepare": damage_state},
        ),
    )
)
COMMANDS = tuple(
    Change(name, _command(name, *words), is_held=False, **ways)
    for name, words, ways in (
        (
            "create",
            ("{p}", "--schema", "id int, message string"),
            {"creates": True, "is_repeatable": False},
        ),
        ("append", ("{p}", "{rows}"), {"is_repeatable": False}),
        ("overwrite", ("{p}", "{rows}", "--yes"), {}),
        ("delete", ("{p}", "--where", "id = 4", "--yes"), {}),
        ("update", ("{p}", "--set", "message=upper(message)", "--where", "id < 9", "--yes"), {}),
        ("upsert", ("{p}", "{rows}", "--on", "id"), {}),
        ("alter", ("{p}", "rename", "message", "text"), {"is_repeatable": False}),
        ("configure", ("{p}", "--description", "new"), {}),
        ("merge", ("{p}",), {}),
        ("reindex", ("{p}", "message=string"), {}),
        ("checkpoint", ("{p}",), {}),
        ("compact", ("{p}",), {}),
        ("tag", ("{p}", "release-7"), {}),
        ("repair", ("{p}",), {"prepare": damage_state}),
        ("purge", ("{p}", "--older-than-hours", "0", "--log-retention-hours", "0", "--yes"), {}),
        ("erase", ("{p}", "--where", "id = 4", "--retention-hours", "0", "--yes"), {}),
        ("expire", ("{p}", "--yes"), {}),
        ("truncate", ("{p}", "--yes"), {}),
        ("drop-partitions", ("{p}", "day = 1", "--yes"), {}),
        ("drop", ("{p}", "--yes"), {"drops": True, "is_repeatable": False}),
        ("restore", ("{p}", "--version", "2", "--yes"), {}),
        ("sql", ("COMPACT INDEXTABLES '{p}'",), {}),
        ("sync", ("{p}",), {"prepare": follow_source}),
        (
            "companion",
            ("{p}", "--source", "{p}-source", "--text", "message"),
            {"creates": True, "prepare": put_source},
        ),
    )
)
CHANGES: Mapping[str, tuple[Change, ...]] = {"Python": PYTHON, "SQL": SQL, "command": COMMANDS}


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


READS = {
    "Python": _names(
        "AddAction __version__ errors open_table sql Table "
        "Table.admin Table.aggregate Table.alter Table.cache_stats Table.changes Table.component_sizes Table.count "
        "Table.explain Table.files Table.handle Table.head Table.history Table.inspect Table.invalidate_cache Table.metadata "
        "Table.metrics Table.open Table.partition_columns Table.path Table.plot Table.prewarm Table.protocol "
        "Table.refresh Table.scan Table.scan_polars Table.schema Table.search Table.search_page Table.settings "
        "Table.skipped_files Table.source_status Table.state Table.tags Table.to_dict Table.to_duckdb Table.to_pandas "
        "Table.to_parquet_view Table.to_polars Table.verify Table.version"
    ),
    "SQL": frozenset(
        lead
        for lead in STATEMENTS
        if lead.split()[0] in ("DESCRIBE", "FLUSH", "INVALIDATE", "PREWARM", "WAIT", "VERIFY")
        or lead.endswith(("PROFILER", "PROFILER CACHE", "COMPANION", "TABLE ROOT"))
    ),
    "command": _names(
        "search scan count aggregate explain prewarm query changes to-parquet-view describe history files partitions "
        "analyze state skipped-files component-sizes diff verify source-status settings man exit-codes doctor report ui serve "
        "mcp jar pack-env demo"  # demo makes a table in a new folder of its own
    ),
}


def public_names() -> dict[str, frozenset[str]]:
    """Every verb there is, by reflection."""
    return {
        "Python": frozenset([*indextables.__all__, *_members()]),
        "SQL": frozenset(STATEMENTS),
        "command": frozenset(VERBS),
    }


def _members() -> Iterator[str]:
    for group, kind in GROUPS.items():
        yield from (f"{group}.{name}" for name in dir(kind) if not name.startswith("_"))

"""A dry run of any verb changes not a byte, and every report can be printed, shown in a notebook
and sent as JSON.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from indextables import Table
from indextables.config.log import RetentionSettings
from indextables.config.upkeep import MergeSettings
from indextables.handle import open_log
from indextables.model.predicate import bind, parse
from indextables.model.report import Report
from indextables.operations import (
    delete,
    drop_partitions,
    merge,
    purge,
    restore,
    salvage,
    truncate,
    verify,
)
from indextables.operations.merge import MergeBounds
from indextables.operations.purge import Retention
from indextables.table import verify_table
from tests.support.rows import ids, rows, table_of
from tests.support.stores import age

UNCHECKED: dict[str, object] = {"purge.retentionCheckEnabled": False, "cleanup.enabled": False}
Verb = Callable[[Table, bool], Report]
VERBS: dict[str, Verb] = {
    "merge": lambda t, dry: t.merge(dry_run=dry),
    "merge some": lambda t, dry: t.merge(
        where="day = 1", max_dest_splits=1, target_size="2M", dry_run=dry
    ),
    "purge": lambda t, dry: t.purge(dry_run=dry),
    "purge everything": lambda t, dry: t.purge(
        older_than_hours=0, log_retention_hours=0, dry_run=dry
    ),
    "truncate": lambda t, dry: t.truncate_time_travel(dry_run=dry),
    "drop": lambda t, dry: t.drop_partitions("day = 2", dry_run=dry),
    "restore": lambda t, dry: t.restore(version=2, dry_run=dry),
    "delete by condition": lambda t, dry: t.delete(where="id > 3 AND id < 9", dry_run=dry),
    "delete by search": lambda t, dry: t.delete(query="message:disk", dry_run=dry),
    "erase": lambda t, dry: t.erase(where="id > 3 AND id < 9", dry_run=dry),
    "erase at once": lambda t, dry: t.erase(
        where="id > 3 AND id < 9", retention_hours=0, dry_run=dry
    ),
    "checkpoint": lambda t, dry: t.checkpoint(dry_run=dry),
    "compact": lambda t, dry: t.compact(dry_run=dry),
    "verify": lambda t, dry: t.verify(dry_run=dry),
    "verify every byte": lambda t, dry: verify_table(t.path, full=True, dry_run=dry),
    "repair elsewhere": lambda t, dry: Table.repair(t.path, at=f"{t.path}-copy", dry_run=dry),
}


def lived_in(root: Path) -> Table:
    """A table with removed splits, old files, leftovers, and a state that is not of the newest
    version.
    """
    table = table_of(root / "t", appends=3, each=12, partitioned=True, options=UNCHECKED)
    table.checkpoint()
    table.overwrite(rows(range(60, 72)), where="id >= 20")
    table.append(rows(range(80, 86)))
    (root / "t/day=1/splits/split-stray.split").write_bytes(b"stray")
    (root / "t/day=1/splits/.gone.split.crc").write_bytes(b"crc")
    age(root / "t", hours=2_000)
    return Table.open(table.path, options=UNCHECKED)


def seen(root: Path) -> dict[str, tuple[bytes, int]]:
    """Every file: its bytes, and when it was written."""
    return {
        str(p): (p.read_bytes(), p.stat().st_mtime_ns)
        for p in sorted(root.rglob("*"))
        if p.is_file()
    }


def check_forms(report: Report) -> None:
    """As text, as plain values, as HTML."""
    told = json.loads(json.dumps(report.to_dict()))
    text, html = str(report), report._repr_html_()
    assert html.startswith("<table>")
    for name, value in told.items():
        if not isinstance(value, list):
            assert name in text
            assert name in html
        elif value:
            assert f"{name} ({len(value)})" in text
            assert f"{name} ({len(value)})" in html


@pytest.mark.parametrize("name", VERBS)
def test_a_dry_run_changes_not_a_byte(tmp_path: Path, name: str) -> None:
    table = lived_in(tmp_path)
    rows_before, before = ids(table), seen(tmp_path)
    planned = VERBS[name](table, True)
    assert seen(tmp_path) == before
    check_forms(planned)
    assert ids(table) == rows_before
    done = VERBS[name](Table.open(table.path, options=UNCHECKED), False)
    check_forms(done)
    assert type(done) is type(planned)
    assert (seen(tmp_path) == before) == name.startswith("verify")


def test_a_dry_run_of_rebuilding_the_log(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=2, partitioned=True)
    shutil.rmtree(tmp_path / "t/_transaction_log")
    before = seen(tmp_path)
    planned = Table.repair(table.path, dry_run=True)
    assert seen(tmp_path) == before
    check_forms(planned)
    done = Table.repair(table.path)
    check_forms(done)
    assert (planned.valid_splits, planned.left_out) == (done.valid_splits, done.left_out) == (6, ())


def test_every_plan_is_a_value_that_can_be_shown(tmp_path: Path) -> None:
    table = lived_in(tmp_path)
    log, before = table.handle.log, seen(tmp_path)
    where = bind(parse("day = 1"), table.schema)
    retention = RetentionSettings()
    plans: list[Report] = [
        merge.plan(
            log.fresh(),
            url=table.path,
            bounds=MergeBounds.of(MergeSettings()),
            now_ms=0,
            where=where,
        ),
        purge.plan(log, retention=Retention(0, 0), settings=retention),
        truncate.plan(log, settings=retention),
        drop_partitions.plan(log, where),
        restore.plan(log, version=2),
        delete.plan(log.fresh(), url=table.path, where=where),
        verify.plan(log),
        salvage.plan_copy(log, open_log(f"{table.path}-copy", None), parallelism=1),
    ]
    for planned in plans:
        check_forms(planned)
    assert seen(tmp_path) == before

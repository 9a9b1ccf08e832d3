"""Nothing is deleted that a snapshot does not cover which was read from the store just then: a
state or checkpoint that was damaged at rest is rewritten first, and the table is whole after every
verb.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from indextables import Table, sql
from indextables.errors import CorruptTableError
from indextables.log import log_files
from indextables.log.cache import PROCESS_CACHE
from indextables.wire import old_checkpoints
from tests.support.rows import ids, rows, table_of
from tests.support.stores import age

Damage = Callable[[bytes], bytes | None]


def _flipped(data: bytes, *, at: int) -> bytes:
    """Some bits turned in a few bytes: one alone may hit a place of a Parquet file that says
    nothing.
    """
    return data[:at] + bytes(byte ^ 0x10 for byte in data[at : at + 12]) + data[at + 12 :]


DAMAGES: dict[str, Damage] = {
    "flipped": lambda data: _flipped(data, at=len(data) // 4),
    "cut short": lambda data: data[: len(data) * 2 // 3],
    "missing": lambda data: None,
}
PLACES = {
    "a manifest": ("avro", f"{log_files.MANIFESTS}/*.avro"),
    "a state": ("avro", f"{log_files.LOG}/state-v*/_manifest.avro"),
    "a Parquet checkpoint": ("parquet", f"{log_files.PARQUET_CHECKPOINTS}/*.parquet"),
    "a JSON checkpoint": ("json", f"{log_files.LOG}/0*.checkpoint.json"),
    "a part of a JSON checkpoint": ("json parts", f"{log_files.LOG}/0*.checkpoint.*-*.json"),
}
CASES = [
    (place, kind) for place in PLACES for kind in DAMAGES if (place, kind) != ("a state", "missing")
]
NOTHING_KEPT: dict[str, object] = {
    "purge.retentionCheckEnabled": False,
    "state.retention.versions": 1,
    "state.retention.hours": 0,
    "state.gc.minManifestAgeHours": 0,
    "logRetention.duration": 0,
    "checkpointRetention.duration": 0,
    "checkpoint.retention": 0,
    "purge.txLogRetentionHours": 0,
}


@pytest.fixture(autouse=True)
def short_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(old_checkpoints, "ACTIONS_PER_PART", 1_000)


def lived_in(path: Path, place: str, monkeypatch: pytest.MonkeyPatch) -> Table:
    """A table of 40 rows whose newest version has a checkpoint of the wanted form; its files are a
    week old.
    """
    form = PLACES[place][0]
    if form == "json parts":
        monkeypatch.setattr(old_checkpoints, "ACTIONS_PER_PART", 3)
    table = table_of(
        path,
        appends=4,
        options={"state.format": form.partition(" ")[0], "checkpoint.interval": 1_000},
    )
    table.checkpoint()
    age(path, hours=24 * 7)
    return table


def damaged(path: Path, place: str, kind: str) -> Path:
    """Break one file of a kind; what the process remembers of it stays as it was."""
    file = sorted(path.glob(PLACES[place][1]))[-1]
    content = DAMAGES[kind](file.read_bytes())
    shutil.copy2(file, path.parent / "as it was")
    if content is None:
        file.unlink()
    else:
        written = file.stat()
        file.write_bytes(content)
        os.utime(file, ns=(written.st_atime_ns, written.st_mtime_ns))
    return file


def fresh(path: Path) -> Table:
    """The table as a new process sees it."""
    PROCESS_CACHE.invalidate()
    return Table.open(str(path))


def errors(table: Table) -> list[str]:
    return [f"{f.path}: {f.message}" for f in table.verify().findings if f.severity == "error"]


def truncate(table: Table) -> None:
    table.truncate_time_travel()


def purge(table: Table) -> None:
    table.purge(older_than_hours=0, log_retention_hours=0)


def purge_by_default(table: Table) -> None:
    age(table.path, hours=24 * 60)
    Table.open(table.path).purge()


def write_until_cleaned(table: Table) -> None:
    """Clean-up by itself: the next write is followed by a checkpoint and by cleaning."""
    options = {**NOTHING_KEPT, "checkpoint.interval": 1}
    Table.open(table.path, options=options).append(rows([900]))


CLEANERS = {
    "truncate": truncate,
    "purge": purge,
    "purge by default": purge_by_default,
    "clean-up by itself": write_until_cleaned,
}


@pytest.mark.parametrize(
    ("place", "kind", "cleaner", "remembered"),
    [
        (place, kind, cleaner, remembered)
        for place, kind in CASES
        for cleaner in CLEANERS
        for remembered in (True, False)
        if remembered != (PLACES[place][0] != "avro" or kind != "flipped")
    ],
)
def test_no_cleaner_takes_a_damaged_checkpoint_for_cover(
    tmp_path: Path,
    place: str,
    kind: str,
    cleaner: str,
    remembered: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = tmp_path / "t"
    lived_in(path, place, monkeypatch)
    if remembered:
        assert len(ids(Table.open(str(path)))) == 40
    damaged(path, place, kind)
    if not remembered:
        PROCESS_CACHE.invalidate()
    CLEANERS[cleaner](Table.open(str(path), options=NOTHING_KEPT))
    table = fresh(path)
    assert ids(table) == [*range(40), *([900] if cleaner == "clean-up by itself" else [])]
    assert errors(table) == []
    table.append(rows([901]))
    assert fresh(path).count() == len(ids(table))


def healed_by_checkpoint(table: Table) -> None:
    assert table.checkpoint().written


def healed_by_compact(table: Table) -> None:
    assert table.compact().written


def healed_by_statement(table: Table) -> None:
    found = sql(f"CHECKPOINT INDEXTABLES '{table.path}'").to_pylist()
    assert found[0]["status"] == "success"


def healed_by_repair(table: Table) -> None:
    assert Table.repair(table.path).status == "success"


HEALERS = {
    "checkpoint": healed_by_checkpoint,
    "compact": healed_by_compact,
    "CHECKPOINT": healed_by_statement,
    "repair": healed_by_repair,
}


def pointer(path: Path) -> int:
    return int(json.loads((path / log_files.POINTER).read_bytes())["version"])


@pytest.mark.parametrize(
    ("place", "kind", "healer"),
    # A checkpoint that is not there at all is no damage: there is nothing that a repair could be
    # told of.
    [
        (p, k, h)
        for p, k in CASES
        for h in HEALERS
        if k == "flipped" or p == "a manifest" or h == "checkpoint"
    ],
)
def test_a_damaged_checkpoint_is_written_anew_under_another_name(
    tmp_path: Path, place: str, kind: str, healer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t"
    table = lived_in(path, place, monkeypatch)
    file = damaged(path, place, kind)
    broken = file.read_bytes() if file.exists() else None
    HEALERS[healer](Table.open(table.path))
    assert broken is None or file.read_bytes() == broken
    # By the checkpoint alone: what the older versions said is gone.
    for version in range(5):
        (path / log_files.version_path(version)).unlink(missing_ok=True)
    table = fresh(path)
    assert table.handle.snapshot.base.header.version == pointer(path)
    assert ids(table) == list(range(40))


@pytest.mark.parametrize(("place", "kind"), CASES)
def test_the_next_checkpoint_that_is_due_heals_too(
    tmp_path: Path, place: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t"
    table = lived_in(path, place, monkeypatch)
    damaged(path, place, kind)
    writer = Table.open(table.path, options={"checkpoint.interval": 1})
    version = writer.append(rows(range(40, 45)))
    for old in range(version or 0):
        (path / log_files.version_path(old)).unlink(missing_ok=True)
    assert pointer(path) >= (version or 0)
    assert ids(fresh(path)) == list(range(45))


@pytest.mark.parametrize("verb", ["truncate", "purge"])
def test_damage_that_cannot_be_healed_is_an_error_and_nothing_is_deleted(
    tmp_path: Path, verb: str
) -> None:
    """Versions before the state are gone, and its manifest is damaged: only a backup helps, and it
    still must fit.
    """
    path = tmp_path / "t"
    table = table_of(path, appends=4)
    table.truncate_time_travel()
    table.append(rows([40]))
    file = damaged(path, "a manifest", "flipped")
    before = sorted(p for p in path.rglob("*") if p.is_file())
    PROCESS_CACHE.invalidate()
    with pytest.raises(CorruptTableError):
        CLEANERS[verb](Table.open(table.path, options=NOTHING_KEPT))
    assert sorted(p for p in path.rglob("*") if p.is_file()) == before
    shutil.copy2(tmp_path / "as it was", file)
    assert ids(fresh(path)) == list(range(41))


def test_an_older_checkpoint_that_is_damaged_covers_nothing(tmp_path: Path) -> None:
    """Versions that a damaged state would have to stand for stay, as long as something younger
    needs them.
    """
    path = tmp_path / "t"
    table = table_of(path, appends=2, options={"checkpoint.interval": 1_000})
    table.checkpoint()
    file = damaged(path, "a manifest", "flipped")
    age(path, hours=100)
    for n in range(2, 5):
        table.append(rows(range(n * 10, n * 10 + 10)))
    table.compact()
    PROCESS_CACHE.invalidate()
    Table.open(str(path), options=NOTHING_KEPT).purge(older_than_hours=24, log_retention_hours=24)
    assert file.exists()
    for version in range(2, 6):
        assert ids(Table.open(str(path), version=version)) == list(range(version * 10))


def test_the_report_says_what_was_healed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t"
    table = lived_in(path, "a manifest", monkeypatch)
    file = damaged(path, "a manifest", "flipped")
    report = table.truncate_time_travel()
    assert (report.status, report.versions_deleted) == ("success", 5)
    assert file.name in report.message
    assert "rewritten" in report.message

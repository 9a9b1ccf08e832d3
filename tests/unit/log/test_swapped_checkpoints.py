"""A state or checkpoint in whose place lies another one, whole in itself: of another version, of
another table, or a part of one. It is taken for what it is, which is damage: the rows stay what the
versions say, and CHECKPOINT heals it.
"""

from __future__ import annotations

import gzip
import os
import shutil
from pathlib import Path

import pytest

from indextables import Table
from indextables.errors import BadFileError
from indextables.log import log_files
from indextables.log.cache import PROCESS_CACHE
from indextables.log.log_files import list_log
from indextables.wire import old_checkpoints
from tests.support.rows import ids, rows, table_of

PLACES = {
    "state": ("avro", "state-v*/_manifest.avro"),
    "Parquet checkpoint": ("parquet", "_checkpoints/*.parquet"),
    "JSON checkpoint": ("json", "0*.checkpoint.json"),
    "manifest of parts": ("json parts", "0*.checkpoint.json"),
    "part": ("json parts", "0*.checkpoint.*-*.00002.json"),
}
NOTHING_KEPT: dict[str, object] = {
    "purge.retentionCheckEnabled": False,
    "state.retention.versions": 1,
    "state.retention.hours": 0,
    "state.gc.minManifestAgeHours": 0,
}


def made(path: Path, place: str, monkeypatch: pytest.MonkeyPatch, *, each: int = 10) -> Table:
    """A table of four appends with checkpoints of its versions 2 and 4."""
    form = PLACES[place][0]
    if form == "json parts":
        monkeypatch.setattr(old_checkpoints, "ACTIONS_PER_PART", 4)
    options = {"state.format": form.partition(" ")[0], "checkpoint.interval": 1_000}
    table = table_of(path, appends=2, each=each, options=options)
    table.checkpoint()
    for n in (2, 3):
        table.append(rows(range(n * each, (n + 1) * each)))
    table.checkpoint()
    return table


def files(path: Path, place: str) -> list[Path]:
    return sorted((path / log_files.LOG).glob(PLACES[place][1]))


def swap(target: Path, content: bytes) -> None:
    """The bytes of another file, under the name and the time of this one."""
    before = target.stat()
    target.write_bytes(content)
    os.utime(target, ns=(before.st_atime_ns, before.st_mtime_ns))
    PROCESS_CACHE.invalidate()


@pytest.fixture(params=["another version", "another table", "another version of another table"])
def swapped(
    request: pytest.FixtureRequest, tmp_path: Path, place: str, monkeypatch: pytest.MonkeyPatch
) -> Table:
    """A table whose newest checkpoint, or a part of it, is another one's."""
    path, other = tmp_path / "t", tmp_path / "other"
    table = made(path, place, monkeypatch)
    source = path
    target = [file for file in files(path, place) if f"{4:020d}" in str(file)][-1]
    if "table" in request.param:
        source = other
        made(other, place, monkeypatch, each=7)
        for file in (other / log_files.MANIFESTS).glob("*.avro"):
            shutil.copy2(file, path / log_files.MANIFESTS)
        for file in (other / log_files.LOG).glob("0*.checkpoint.*-*.json"):
            shutil.copy2(file, path / log_files.LOG)
    found = files(source, place)
    content = found[0 if "version" in request.param else -1].read_bytes()
    assert target.read_bytes() != content
    swap(target, content)
    return table


@pytest.mark.parametrize("place", PLACES)
def test_another_checkpoint_is_not_taken_for_the_table(swapped: Table) -> None:
    assert ids(Table.open(swapped.path)) == list(range(40))
    assert [
        f for f in Table.open(swapped.path).verify().findings if f.severity in ("error", "warning")
    ] != []


@pytest.mark.parametrize("place", PLACES)
def test_a_checkpoint_heals_it(swapped: Table) -> None:
    table = Table.open(swapped.path)
    assert table.checkpoint().written
    for version in range(table.version):
        (Path(table.path) / log_files.version_path(version)).unlink(missing_ok=True)
    PROCESS_CACHE.invalidate()
    healed = Table.open(table.path)
    assert healed.handle.snapshot.base.header.version > 4
    assert ids(healed) == list(range(40))


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("verb", ["truncate", "purge"])
def test_no_cleaner_takes_it_for_cover(swapped: Table, verb: str) -> None:
    table = Table.open(swapped.path, options=NOTHING_KEPT)
    if verb == "truncate":
        table.truncate_time_travel()
    else:
        table.purge(older_than_hours=0, log_retention_hours=0)
    PROCESS_CACHE.invalidate()
    table = Table.open(swapped.path)
    assert ids(table) == list(range(40))
    assert table.append(rows([40]))
    assert ids(Table.open(swapped.path)) == list(range(41))


def test_a_part_is_no_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first part of the same version holds everything but some of the files."""
    table = made(tmp_path / "t", "part", monkeypatch)
    log = tmp_path / "t" / log_files.LOG
    first = sorted(log.glob(f"{4:020d}.checkpoint.*-*.json"))
    assert len(first) > 1
    for part in first:
        swap(log / f"{4:020d}.checkpoint.json", part.read_bytes())
        assert ids(Table.open(table.path)) == list(range(40))


def test_a_version_is_no_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = made(tmp_path / "t", "JSON checkpoint", monkeypatch)
    log = tmp_path / "t" / log_files.LOG
    for version in (1, 4):
        swap(
            log / f"{4:020d}.checkpoint.json",
            (tmp_path / "t" / log_files.version_path(version)).read_bytes(),
        )
        assert ids(Table.open(table.path)) == list(range(40))


def test_a_part_of_a_second_checkpoint_of_the_version_is_another_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two writers may cut the same version into parts in another order."""
    table = made(tmp_path / "t", "part", monkeypatch)
    log = tmp_path / "t" / log_files.LOG
    parts = sorted(log.glob(f"{4:020d}.checkpoint.*-*.json"))
    plain = gzip.decompress(parts[1].read_bytes())
    swap(parts[1], gzip.compress(plain, mtime=7))
    assert ids(Table.open(table.path)) == list(range(40))
    with pytest.raises(BadFileError, match="checksum"):
        table.handle.log.bases.standalone(4, list_log(table.handle.log.store).legacy_checkpoints[4])


def two_manifests_in_each_others_place(path: Path) -> Table:
    """A state of two manifests with as many entries and the same bytes in all, each under the
    other's name.
    """
    table = table_of(path, appends=2, options={"checkpoint.interval": 1_000})
    table.checkpoint()
    for n in (2, 3):
        table.append(rows(range(n * 10, (n + 1) * 10)))
    table.checkpoint()
    one, other = sorted((path / log_files.MANIFESTS).glob("*.avro"))
    first, second = one.read_bytes(), other.read_bytes()
    swap(one, second)
    swap(other, first)
    return table


def test_a_manifest_in_the_place_of_another_is_found_before_a_split_is_skipped(
    tmp_path: Path,
) -> None:
    """A filter reads only the manifests that may hold a match, so the counts of the whole do not
    tell.
    """
    table = two_manifests_in_each_others_place(tmp_path / "t")
    for wanted in range(40):
        PROCESS_CACHE.invalidate()
        found = Table.open(table.path).scan(where=f"id = {wanted}").read_all()
        assert found.column("id").to_pylist() == [wanted]
    assert [
        f for f in Table.open(table.path).verify().findings if f.severity in ("error", "warning")
    ] != []


def test_swapped_manifests_are_written_anew_and_cover_nothing_meanwhile(tmp_path: Path) -> None:
    table = two_manifests_in_each_others_place(tmp_path / "t")
    Table.open(table.path, options=NOTHING_KEPT).truncate_time_travel()
    PROCESS_CACHE.invalidate()
    healed = Table.open(table.path)
    healed.delete(where="id = 3")
    healed.checkpoint()
    PROCESS_CACHE.invalidate()
    assert ids(Table.open(table.path)) == [n for n in range(40) if n != 3]
    assert Table.open(table.path).verify(full=True).healthy

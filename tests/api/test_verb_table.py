"""Each verb is classified; each that changes a table checks protocol and identity, and may be
interrupted.
"""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from indextables import Table
from indextables.errors import IndexTablesError, UnsupportedError
from indextables.log.cache import PROCESS_CACHE
from indextables.log.log_files import version_path
from indextables.model.actions import ProtocolAction
from indextables.storage import spec
from indextables.storage.store import ObjectInfo, PutOutcome, Store
from indextables.wire import version_file
from tests.api.verbs import (
    CHANGES,
    OPTIONS,
    READS,
    SCHEMA,
    Change,
    CommandFailedError,
    Place,
    public_names,
    rows,
)
from tests.support.faulty_store import StoreWrapper
from tests.support.stores import age, contents

EVERY = [
    pytest.param(change, id=f"{way}: {change.name}")
    for way, changes in CHANGES.items()
    for change in changes
]
HELD = [pytest.param(change, id=change.name) for change in CHANGES["Python"] if change.is_held]
REFUSALS = (IndexTablesError, CommandFailedError)


@pytest.mark.parametrize("way", CHANGES)
def test_every_verb_is_classified_as_one_that_reads_or_changes(way: str) -> None:
    changes = [change.name for change in CHANGES[way]]
    assert len(changes) == len(set(changes))
    assert not READS[way] & {*changes}
    assert public_names()[way] == READS[way] | {*changes}


@pytest.fixture(scope="module")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table with something to do for every verb: small splits, deleted rows, removed splits."""
    path = tmp_path_factory.mktemp("verbs") / "t"
    table = Table.create(str(path), schema=SCHEMA, partition_columns=["day"], options=OPTIONS)
    for number in range(4):
        table.append(rows(*range(number * 6, number * 6 + 6)))
    table.delete(where="id = 3")
    table.drop_partitions("day = 2")
    table.append(rows(32, 35))
    age(path, hours=1000)
    return path


@pytest.fixture
def copied(made_once: Path, tmp_path: Path) -> Path:
    return copy_of(made_once, tmp_path / "t")


def copy_of(made_once: Path, path: Path, change: Change | None = None) -> Path:
    """A copy of the table, with its own file of rows, prepared for a verb."""
    PROCESS_CACHE.invalidate()
    if change is None or not change.creates:
        shutil.copytree(made_once, path)
    row = {"id": 200, "day": 0, "ts": "2100-01-01T00:00:00Z", "message": "late"}
    Path(f"{path}.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
    if change is not None and change.prepare is not None:
        change.prepare(str(path))
        PROCESS_CACHE.invalidate()
    return path


def place(path: Path, change: Change) -> Place:
    table = Table.open(str(path), options=OPTIONS) if change.is_held else None
    return Place(str(path), table)  # type: ignore[arg-type]


NEWER: dict[str, Callable[[ProtocolAction], ProtocolAction]] = {
    "writer version 5": lambda protocol: replace(protocol, min_writer_version=5),
    "an unknown writer feature": lambda p: replace(
        p, writer_features=(*(p.writer_features or ()), "someday")
    ),
}


@pytest.mark.parametrize("newer", NEWER)
@pytest.mark.parametrize("change", EVERY)
def test_a_table_of_a_newer_writer_is_refused_and_left_as_it_is(
    change: Change, newer: str, made_once: Path, tmp_path: Path
) -> None:
    path = copy_of(made_once, tmp_path / "t", replace_creates(change))
    newest = Table.open(str(path))
    protocol: ProtocolAction = NEWER[newer](newest.protocol)
    Path(path, version_path(newest.version + 1)).write_bytes(version_file.encode([protocol]))
    PROCESS_CACHE.invalidate()
    here = place(path, change)
    before = contents(path)
    with pytest.raises(REFUSALS) as refused:
        change.run(here)
    assert contents(path) == before
    if not change.creates:
        assert "writer" in str(refused.value)
        assert isinstance(refused.value, UnsupportedError | CommandFailedError)


def replace_creates(change: Change) -> Change:
    """The verb, meeting a table where it would make one."""
    return Change(change.name, change.run, change.is_held, change.is_repeatable, change.prepare)


@pytest.mark.parametrize("versions", [2, 14])
@pytest.mark.parametrize("change", HELD)
def test_a_table_that_was_made_again_is_not_changed_through_the_old_handle(
    change: Change, versions: int, made_once: Path, tmp_path: Path
) -> None:
    path = copy_of(made_once, tmp_path / "t", change)
    here = place(path, change)
    shutil.rmtree(path)
    other = Table.create(str(path), schema=SCHEMA, partition_columns=["day"], options=OPTIONS)
    for number in range(versions):
        other.append(rows(1000 + number))
    age(path, hours=900)
    before = contents(path)
    with pytest.raises(IndexTablesError):
        change.run(here)
    after = contents(path)
    assert before.items() <= after.items()
    assert all(
        name.endswith(".split") for name in after.keys() - before.keys()
    )  # of ours, which no version names
    PROCESS_CACHE.invalidate()
    again = Table.open(str(path))
    assert (again.version, again.count()) == (versions, versions)


class Interrupted(BaseException):
    """The process ends here."""


class Interruption:
    """Ends the process at the n-th call that changes a store; what the process asks of a store
    after that fails too.
    """

    def __init__(self, at: int | None) -> None:
        self.calls = 0
        self._at = at
        self._lock = threading.Lock()

    def pass_one(self) -> None:
        with self._lock:
            self.calls += 1
            if self._at is not None and self.calls >= self._at:
                raise Interrupted


class InterruptedStore(StoreWrapper):
    """A store whose changes pass through an interruption."""

    def __init__(self, inner: Store, interruption: Interruption) -> None:
        super().__init__(inner)
        self._interruption = interruption

    def put_if_absent(self, path: str, data: bytes) -> PutOutcome:
        self._interruption.pass_one()
        return self.inner.put_if_absent(path, data)

    def put(self, path: str, data: bytes) -> None:
        self._interruption.pass_one()
        self.inner.put(path, data)

    def put_file(self, path: str, source: Path) -> None:
        self._interruption.pass_one()
        self.inner.put_file(path, source)

    def delete(self, paths: Iterable[str | ObjectInfo]) -> None:
        for path in [*paths]:
            self._interruption.pass_one()
            self.inner.delete([path])


def run_interrupted(change: Change, path: Path, at: int | None) -> int:
    """Run a verb that is interrupted at a call, or never; returns how many calls changed the store."""
    interruption, plain = Interruption(at), spec._open
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spec, "_open", lambda *given: InterruptedStore(plain(*given), interruption))
        here = place(path, change)
        try:
            change.run(here)
        except Interrupted:
            assert at is not None
    PROCESS_CACHE.invalidate()
    return interruption.calls


def rows_of(path: Path) -> list[dict[str, Any]]:
    """The rows of a table that was just opened; none where there is no table."""
    PROCESS_CACHE.invalidate()
    if not (path / "_transaction_log").exists() or not list(
        (path / "_transaction_log").glob("0*.json")
    ):
        return []
    return sorted((dict(row) for row in Table.open(str(path))), key=lambda row: int(row["id"]))


def points(calls: int) -> Iterator[int]:
    """The first call that changes something, one in the middle, and the last."""
    yield from sorted({1, 2, (calls + 1) // 2, calls} & {*range(1, calls + 1)})


@pytest.mark.parametrize("change", EVERY)
def test_after_an_interruption_every_row_is_there_and_the_verb_runs_again(
    change: Change, made_once: Path, tmp_path: Path
) -> None:
    whole = copy_of(made_once, tmp_path / "whole", change)
    old = rows_of(whole)
    calls = run_interrupted(change, whole, None)
    assert calls > 0, "the call changes nothing"
    new = rows_of(whole)
    for at in points(calls):
        path = copy_of(made_once, tmp_path / f"at-{at}", change)
        version = Table.open(str(path)).version if not change.creates else -1
        run_interrupted(change, path, at)
        if change.drops:
            finish_drop(change, path, old)
            continue
        found = rows_of(path)
        assert found in (old, new), at
        if change.is_repeatable or (found == old and version_of(path) == version):
            change.run(place(path, change))
            assert rows_of(path) == new, at
        findings = Table.open(str(path)).verify(full=True).findings
        assert not [finding for finding in findings if finding.severity == "error"], at


def finish_drop(change: Change, path: Path, old: list[dict[str, Any]]) -> None:
    """A table whose removal was interrupted has every row, or opens with an error; the next call
    ends it.
    """
    try:
        assert rows_of(path) in (old, [])
    except IndexTablesError:
        with pytest.raises(IndexTablesError):
            Table.open(str(path)).append(rows(300))
    if list(path.glob("_transaction_log/*")):
        change.run(place(path, change))
    assert not list(path.rglob("*.split"))
    assert rows_of(path) == []


def version_of(path: Path) -> int:
    """The newest version of a table; -1 where there is none."""
    PROCESS_CACHE.invalidate()
    has_log = (path / "_transaction_log").exists() and list(
        (path / "_transaction_log").glob("0*.json")
    )
    return Table.open(str(path)).version if has_log else -1

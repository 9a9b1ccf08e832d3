"""What switches the rules of the protocol off: something else in the place of what carries a rule
out.

Beside these stand the few assertions that no test of the product makes in one call.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from msgspec import Struct
from msgspec.structs import replace

from indextables.config.log import CheckpointSettings, RetrySettings
from indextables.errors import ConflictError
from indextables.log import commit as committing
from indextables.log import log_files, replay, versions
from indextables.log import snapshots as logged_snapshots
from indextables.log.checkpoint import (
    checkpointer,
    legacy,
    manifests,
    state_reader,
    state_writer,
    verifier,
)
from indextables.log.checkpoint.checkpointer import Checkpointer
from indextables.log.checkpoint.legacy import LegacyWriter
from indextables.log.checkpoint.state_writer import StateWriter
from indextables.log.checkpoint.verifier import CheckpointVerifier
from indextables.log.cleaning import Cleaner
from indextables.log.commit import CommitResult, Committer, _Put
from indextables.log.log_files import POINTER, LogListing, version_path
from indextables.log.maintenance import LogMaintenance
from indextables.log.transaction import Changes
from indextables.log.transaction_log import TransactionLog
from indextables.log.versions import VersionReader
from indextables.model import conflicts, retention
from indextables.model import snapshot as snapshots
from indextables.model.actions import AddAction, ProtocolAction
from indextables.model.conflicts import Operation
from indextables.model.file_list import to_actions
from indextables.model.snapshot import CommittedVersion, Snapshot
from indextables.model.state import StateManifest
from indextables.operations import first_write, table_write
from indextables.operations.merge import _Merge
from indextables.operations.purge import Retention
from indextables.operations.row_write import RowWrite
from indextables.operations.write_request import WriteRequest
from indextables.storage.local import LocalStore
from indextables.wire.state import LastCheckpoint, encode_pointer
from tests.interleave import test_stopped_writers
from tests.support import commit_schedules
from tests.support.faulty_store import Fault, FaultyStore, StoreWrapper
from tests.support.interleave import explore
from tests.support.state_logs import commit, file, new_state_log, state_log
from tests.unit.log import test_swapped_checkpoints
from tests.unit.log.checkpoint import test_checkpoint
from tests.unit.operations import test_cover

Patch = pytest.MonkeyPatch


class Rule(Struct, frozen=True):
    """What is done instead of the rule, the test that finds it out, and what that test asserts."""

    instead: str
    test: str
    off: Callable[[Patch], None]
    prove: Callable[[Path], None]
    explores: bool = False
    """With the rule this goes through every schedule, which the named test does already."""


def without(target: Any, name: str, value: Any) -> Callable[[Patch], None]:
    """Switches a rule off by putting something else in the place of what carries it out."""
    return lambda patch: patch.setattr(target, name, value)


def always(value: Any) -> Callable[..., Any]:
    """A function that says the same to everything."""
    return lambda *_, **__: value


def schedules(
    actors: Mapping[str, Callable[..., Any]], check: Callable[..., str | None], **more: Any
) -> Callable[[Path], None]:
    """Schedules until the first one after which something is wrong."""

    def prove(_: Path) -> None:
        found = [
            violation.why
            for violation in explore(actors, check, stop_at_first=True, **more).violations
        ]
        assert found == [], found

    return prove


def no_reading_back(patch: Patch) -> None:
    def trusting(self: Committer, candidate: Any) -> _Put:
        return _Put(
            self.context.store.put_if_absent(version_path(candidate.number), candidate.body)
        )

    patch.setattr(Committer, "_put", trusting)
    patch.setattr(Committer, "_find_landed_version", always(None))


def without_predecessors(patch: Patch) -> None:
    """No commit checks the version before it."""
    patch.setattr(Committer, "_is_unchanged", always(True))
    patch.setattr(Committer, "_continues_log", always(True))


def lenient_reader(patch: Patch) -> None:
    def present(self: VersionReader, wanted: Any) -> Any:
        found = [self.read_one(version) for version, _ in wanted]
        return [version for version in found if version is not None]

    patch.setattr(LogListing, "missing", lambda *_: [])
    patch.setattr(VersionReader, "read", present)


def own_version_too(patch: Patch) -> None:
    old = retention._Search.old_versions
    patch.setattr(retention._Search, "old_versions", lambda self, start: old(self, start + 1))


def state_without(**fields: Any) -> Callable[[Patch], None]:
    """States that leave something out."""
    return without(
        state_writer, "StateManifest", lambda **given: StateManifest(**{**given, **fields})
    )


def blind_to_others(patch: Patch) -> None:
    def trusting(self: Changes, snapshot: Snapshot) -> list[AddAction]:
        chosen = self.selected(snapshot).column("path").to_pylist() if self.selected else []
        wanted = {*self.removes, *chosen}
        return [action for action in to_actions(snapshot.all_files) if action.path in wanted]

    patch.setattr(conflicts, "_decide", always(None))
    patch.setattr(Changes, "_removals", trusting)


def told_as_conflict(self: Committer, *_: Any) -> ConflictError:
    return ConflictError(f"Nothing was committed to {self.context.store.url}.")


def unguarded(self: LogMaintenance, committed: CommitResult, read: Snapshot) -> None:
    if self.checkpointer.is_due(committed.snapshot):
        self.checkpointer.write(committed.snapshot, only_if_due=True)


def failed_state(folder: Path) -> None:
    faulty = FaultyStore(LocalStore(str(folder)), [Fault(path_contains="state-v", times=99)])
    new_state_log(folder)
    log = state_log(faulty, checkpoint=CheckpointSettings(interval=2))
    for n in range(2):
        commit(log, file(n))
    assert log.upkeep.failures == 1


@contextmanager
def unsynced(self: LocalStore, path: str, full: str, fill: Callable[[Any], None]) -> Iterator[str]:
    Path(full).parent.mkdir(parents=True, exist_ok=True)
    with Path(f"{full}.staged").open("wb") as file:
        fill(file)
    yield f"{full}.staged"


def data_before_name(folder: Path) -> None:
    seen: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        sync, link = os.fsync, os.link

        def synced(handle: int) -> None:
            seen.append("sync")
            sync(handle)

        def linked(source: str, target: str) -> None:
            seen.append("link")
            link(source, target)

        patch.setattr(os, "fsync", synced)
        patch.setattr(os, "link", linked)
        store = LocalStore(folder / "table")
        store.put_if_absent("log/1.json", b"x")
        seen.clear()
        store.put_if_absent("log/2.json", b"x")
    assert seen == ["sync", "link", "sync"]


def lowered(given: ProtocolAction, **wanted: Any) -> ProtocolAction:
    return replace(
        given, **{name: value for name, value in wanted.items() if name.startswith("min_")}
    )


def never_all(patch: Patch) -> None:
    whole = StateWriter.state_of
    patch.setattr(StateWriter, "state_of", lambda self, snapshot, *, compact: whole(self, snapshot))


def back_and_forth(folder: Path) -> None:
    store = LocalStore(str(folder))
    store.put(log_files.json_checkpoint_path(3), b"{}")
    for version in (3, 1):
        checkpointer.move_pointer(store, LastCheckpoint(version=version, size=1))
    there = checkpointer.read_pointer(store)
    assert there is not None
    assert there.version == 3


def paths_alone(patch: Patch) -> None:
    """Whoever replaces a split does not say which of its rows were deleted when it was read, and is
    not asked.
    """
    changes, summarize = _Merge._changes, conflicts._others_of_version

    def without_vectors(self: Any, outcomes: Any, live: Any) -> Any:
        return replace(changes(self, outcomes, live), vectors={})

    def by_path(intent: Any, read: Any, theirs: Any) -> Any:
        bare = [
            replace(a, deletion_vector=None) if isinstance(a, AddAction) else a
            for a in theirs.actions
        ]
        return summarize(
            intent, read, CommittedVersion(theirs.version, theirs.timestamp_ms, tuple(bare))
        )

    patch.setattr(_Merge, "_changes", without_vectors)
    patch.setattr(conflicts, "_others_of_version", by_path)


def always_moved(patch: Patch) -> None:
    def put(store: Any, pointer: LastCheckpoint) -> bool:
        store.put(POINTER, encode_pointer(pointer))
        return True

    patch.setattr(checkpointer, "move_pointer", put)
    patch.setattr(checkpointer, "move_pointer", put)


def kept_as_it_is(patch: Patch) -> None:
    """A manifest that is there already is not written again."""
    write = manifests.ManifestWriter._write_one

    def once(self: Any, files: Any) -> Any:
        inner = self.store

        class Once(StoreWrapper):
            def put(self, path: str, data: bytes) -> None:
                if inner.head(path) is None:
                    inner.put(path, data)

        self.store = Once(inner)
        try:
            return write(self, files)
        finally:
            self.store = inner

    patch.setattr(manifests.ManifestWriter, "_write_one", once)


def old_if_unknown(self: Any, file: Any, limit_ms: int) -> bool:
    return bool(self.now_ms - (file.last_modified_ms or 0) >= limit_ms)


def from_creation(self: Any, found: Any, ended: Any) -> int | None:
    when: int | None = found.last_modified_ms
    return when


def never_dry(patch: Patch) -> None:
    clean = Cleaner.run
    patch.setattr(Cleaner, "run", lambda self, expiry, **_: clean(self, expiry))


def unchecked(
    cls: type[Retention], settings: Any, *, split_hours: Any, log_hours: Any
) -> Retention:
    return cls(
        settings.split_hours if split_hours is None else split_hours,
        settings.log_hours if log_hours is None else log_hours,
    )


def remembered_alone(self: Committer, newest: Snapshot, candidate: Any) -> int | None:
    return candidate.number if candidate.txn_id in newest.header.recent_txn_ids else None


def stopped_writer(_: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(snapshots, "RECENT_TXN_IDS", 1)
        start = commit_schedules.grown_table()
        found = test_stopped_writers.explored(
            test_stopped_writers.slow, start, faults=0, stop_at_first=True
        )
    assert found.violations == []


def deleted_at_once(self: Committer, paths: Any, *, since: int) -> bool:
    self.context.store.delete(paths)
    return True


def every_table_the_same(patch: Patch) -> None:
    for module in (committing, logged_snapshots, table_write):
        patch.setattr(module, "is_same_table", always(True))


def listed_version_alone(patch: Patch) -> None:
    patch.setattr(
        Committer, "_continues_log", lambda self, basis, _: self._is_unchanged(basis.listed_version)
    )


def blind_to_drops(patch: Patch) -> None:
    whole = log_files.listing_of
    patch.setattr(
        log_files,
        "listing_of",
        lambda *args, **named: replace(whole(*args, **named), is_dropped=False),
    )


def every_checkpoint_believed(patch: Patch) -> None:
    patch.setattr(verifier, "uncovered_failure", always(None))
    patch.setattr(replay, "without_strangers", lambda _, listing: listing)


def ten_attempts(patch: Patch) -> None:
    begin = Committer.commit

    def impatient(self: Committer, *args: Any, **named: Any) -> CommitResult:
        self.context.settings = replace(self.context.settings, retry=RetrySettings(max_attempts=10))
        return begin(self, *args, **named)

    patch.setattr(Committer, "commit", impatient)


def first_rows_appended(patch: Patch) -> None:
    planned = first_write.plan_first_rows

    def appended(
        log: TransactionLog, data: pa.Schema, request: WriteRequest, **named: Any
    ) -> RowWrite:
        return planned(log, data, replace(request, operation=Operation.APPEND), **named)

    patch.setattr(first_write, "plan_first_rows", appended)


def never_read_back(patch: Patch) -> None:
    patch.setattr(Checkpointer, "_manifest_failure", always(None))
    patch.setattr(Checkpointer, "_is_there", always(True))


def written_over(self: LegacyWriter, path: str, content: bytes) -> None:
    self.store.put(path, content)


def believed_unread(patch: Patch) -> None:
    patch.setattr(CheckpointVerifier, "failure_at", always(None))
    patch.setattr(
        Checkpointer,
        "_usable_state",
        lambda self, version, listing, **_: self.bases.read_state(version, listing.states[version]),
    )


def dated_by_themselves(patch: Patch) -> None:
    for module in (state_reader, legacy, replay, versions):
        patch.setattr(
            module, "bounded_time", lambda recorded_ms, file_ms: recorded_ms or file_ms or 0
        )


def planned_by_the_committer(patch: Patch) -> None:
    from indextables.spark.source import writer

    commit = writer.commit_splits

    def forgetful(plan: Any, messages: Any, **named: Any) -> int | None:
        return commit(plan, [dataclasses.replace(m, plan=plan) for m in messages], **named)

    patch.setattr(writer, "commit_splits", forgetful)


def batch_for_another_layout(folder: Path) -> None:
    from tests.spark import test_races

    test_races.test_a_stream_batch_made_for_no_table_fits_only_one_of_its_layout(
        str(folder / "t"), {}
    )


def read_back(folder: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        test_checkpoint.test_a_checkpoint_reads_back_what_it_wrote_and_of_the_rest_what_costs_little(
            folder, patch, 1 << 20, asked=False, older=2
        )


def healed(folder: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        test_cover.test_a_damaged_checkpoint_is_written_anew_under_another_name(
            folder, "a Parquet checkpoint", "flipped", "checkpoint", patch
        )


def truncated_over_damage(folder: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        test_cover.test_no_cleaner_takes_a_damaged_checkpoint_for_cover(
            folder, "a manifest", "flipped", "truncate", remembered=True, monkeypatch=patch
        )


def part_in_the_place_of_the_whole(folder: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        test_swapped_checkpoints.test_a_part_is_no_checkpoint(folder, patch)

"""The rules of the protocol, each with what switches it off and a test that must fail then.

A test is named as pytest names it, so that `docs/reference/protocol.md` can list it; `prove` is what that test asserts. The
explorers of schedules stop at the first violation. A new rule gets an entry here, and a row of the same form there.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct
from msgspec.structs import replace

from indextables.config.state import CheckpointSettings
from indextables.errors import ConflictError
from indextables.log import checkpoint, checkpoint_pointer, manifest_writer, state_writer
from indextables.log.checkpoint import Checkpointer
from indextables.log.cleaning import Cleaner
from indextables.log.commit import Committed, Committer
from indextables.log.listing import LogListing
from indextables.log.names import POINTER, version_path
from indextables.log.state_writer import Compact, StateWriter
from indextables.log.transaction import Changes
from indextables.log.transaction_log import TransactionLog
from indextables.log.version_reader import VersionReader
from indextables.model import conflicts, protocol, retention, stat_text
from indextables.model.actions import AddAction, ProtocolAction
from indextables.model.file_list import to_actions
from indextables.model.snapshot import Snapshot
from indextables.model.state import StateManifest
from indextables.storage.local import LocalStore
from indextables.storage.store import PutOutcome
from indextables.storage.wrappers import StoreWrapper
from indextables.testing.faulty_store import Fault, FaultyStore
from indextables.testing.interleave import explore
from indextables.upkeep import purge_plan
from indextables.upkeep.purge_plan import Retention
from indextables.wire.last_checkpoint import LastCheckpoint, encode_pointer
from tests.faults import test_commit_faults
from tests.interleave import test_checkpoints, test_commits, test_purges, test_upkeep
from tests.support.state_logs import commit, file, new_state_log, state_log
from tests.unit.log import test_checkpoint, test_cleaning
from tests.unit.model import test_retention, test_stat_text
from tests.unit.table import test_log_verbs
from tests.unit.upkeep import test_merge, test_purge

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
        found = [violation.why for violation in explore(actors, check, stop_at_first=True, **more).violations]
        assert found == [], found

    return prove


def _no_reading_back(patch: Patch) -> None:
    def trusting(self: Committer, offer: Any, *_: Any, **__: Any) -> PutOutcome:
        return self.store.put_if_absent(version_path(offer.version.version), offer.body)

    patch.setattr(Committer, "_create", trusting)
    patch.setattr(Committer, "_landed", always(None))


def _lenient_reader(patch: Patch) -> None:
    def present(self: VersionReader, wanted: Any) -> Any:
        found = [self.read_one(version) for version, _ in wanted]
        return [version for version in found if version is not None]

    patch.setattr(LogListing, "missing", lambda *_: [])
    patch.setattr(VersionReader, "read", present)


def _own_version_too(patch: Patch) -> None:
    old = retention._Search.old_versions
    patch.setattr(retention._Search, "old_versions", lambda self, start: old(self, start + 1))


def _state_without(**fields: Any) -> Callable[[Patch], None]:
    """States that leave something out."""
    return without(state_writer, "StateManifest", lambda **given: StateManifest(**{**given, **fields}))


def _blind_to_others(patch: Patch) -> None:
    def trusting(self: Changes, snapshot: Snapshot) -> list[AddAction]:
        chosen = self.selected(snapshot).column("path").to_pylist() if self.selected else []
        wanted = {*self.removes, *chosen}
        return [action for action in to_actions(snapshot.all_files) if action.path in wanted]

    patch.setattr(conflicts, "_reason", always(None))
    patch.setattr(Changes, "_removals", trusting)


def _told_as_conflict(self: Committer, *_: Any) -> ConflictError:
    return ConflictError(f"Nothing was committed to {self.store.url}.")


def _unguarded(self: TransactionLog, committed: Committed) -> None:
    if self._checkpointer.is_due(committed.snapshot):
        self._checkpointer.write(committed.snapshot, only_if_due=True)


def _failed_state(folder: Path) -> None:
    faulty = FaultyStore(LocalStore(str(folder)), [Fault(path_contains="state-v", times=99)])
    new_state_log(folder)
    log = state_log(faulty, checkpoint=CheckpointSettings(interval=2))
    for n in range(2):
        commit(log, file(n))
    assert log.upkeep.failures == 1


@contextmanager
def _unsynced(self: LocalStore, full: str, fill: Callable[[Any], None]) -> Iterator[str]:
    Path(full).parent.mkdir(parents=True, exist_ok=True)
    with Path(f"{full}.staged").open("wb") as file:
        fill(file)
    yield f"{full}.staged"


def _data_before_name(folder: Path) -> None:
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


def _lowered(given: ProtocolAction, **wanted: Any) -> ProtocolAction:
    return replace(given, **{name: value for name, value in wanted.items() if name.startswith("min_")})


def _never_all(patch: Patch) -> None:
    whole = StateWriter.state_of
    patch.setattr(StateWriter, "state_of", lambda self, snapshot, *, compact: whole(self, snapshot))


def _back_and_forth(folder: Path) -> None:
    store = LocalStore(str(folder))
    for version in (3, 1):
        checkpoint_pointer.move_pointer(store, LastCheckpoint(version=version, size=1))
    there = checkpoint_pointer.read_pointer(store)
    assert there is not None
    assert there.version == 3


def _always_moved(patch: Patch) -> None:
    def put(store: Any, pointer: LastCheckpoint) -> None:
        store.put(POINTER, encode_pointer(pointer))

    patch.setattr(checkpoint_pointer, "move_pointer", put)
    patch.setattr(checkpoint, "move_pointer", put)


def _kept_as_it_is(patch: Patch) -> None:
    """A manifest that is there already is not written again."""
    write = manifest_writer.ManifestWriter._write_one

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

    patch.setattr(manifest_writer.ManifestWriter, "_write_one", once)


def _old_if_unknown(self: Any, file: Any, limit_ms: int) -> bool:
    return bool(self.now_ms - (file.last_modified_ms or 0) >= limit_ms)


def _from_creation(self: Any, found: Any, ended: Any) -> int | None:
    when: int | None = found.last_modified_ms
    return when


def _never_dry(patch: Patch) -> None:
    clean = Cleaner.run
    patch.setattr(Cleaner, "run", lambda self, expiry, **_: clean(self, expiry))


def _unchecked(cls: type[Retention], settings: Any, *, split_hours: Any, log_hours: Any) -> Retention:
    return cls(
        settings.split_hours if split_hours is None else split_hours,
        settings.log_hours if log_hours is None else log_hours,
    )


_WRITERS = {"a": test_commits.writer("a"), "b": test_commits.writer("b")}
_CLEANED = {**_WRITERS, "cleaner": test_commits.cleaner}
_SLEEPER = {"upkeep": test_checkpoints.busy_upkeep, "a": test_commits.writer("a")}
_LOG, _FAULTS, _MEET = "tests/unit/log", "tests/faults/test_commit_faults.py", "tests/interleave"

RULES: dict[str, Rule] = {
    "R1": Rule(
        "what the store answers is believed",
        f"{_MEET}/test_commits.py::test_two_writers_and_one_fault",
        _no_reading_back,
        schedules(_WRITERS, test_commits.check, start=test_commits.new_table(), faults=1),
    ),
    "R2": Rule(
        "a reader takes the versions that are there",
        f"{_MEET}/test_commits.py::test_two_writers_a_cleaner_and_one_fault",
        _lenient_reader,
        schedules(_CLEANED, test_commits.check, start=test_commits.grown_table(), private=test_commits.unseen),
        explores=True,
    ),
    "R3": Rule(
        "the version of the newest state is deleted too",
        "tests/unit/model/test_retention.py::test_zero_retention_keeps_the_newest_state_its_version_and_what_follows",
        _own_version_too,
        lambda _: test_retention.test_zero_retention_keeps_the_newest_state_its_version_and_what_follows(),
    ),
    "R4": Rule(
        "nobody looks for the version before the one just created",
        f"{_MEET}/test_checkpoints.py::test_a_sleeping_writer_never_takes_a_number_that_was_used",
        without(Committer, "_is_part_of_the_table", always(True)),
        schedules(_SLEEPER, test_checkpoints.judge, start=test_checkpoints.start(), max_states=60_000),
        explores=True,
    ),
    "R5": Rule(
        "states forget the transactions",
        f"{_LOG}/test_checkpoint.py::test_everything_but_the_files_survives_in_the_state",
        _state_without(txn_ids=()),
        test_checkpoint.test_everything_but_the_files_survives_in_the_state,
    ),
    "R6": Rule(
        "what others did meanwhile is not looked at",
        f"{_MEET}/test_upkeep.py::test_two",
        _blind_to_others,
        lambda _: test_upkeep.run(test_upkeep.deleter, test_upkeep.merger),
    ),
    "R7": Rule(
        "an unknown outcome is told as a conflict",
        f"{_FAULTS}::test_a_store_that_never_answers_is_unknown_and_nothing_is_cleaned",
        without(Committer, "_unknown", _told_as_conflict),
        test_commit_faults.test_a_store_that_never_answers_is_unknown_and_nothing_is_cleaned,
    ),
    "R8": Rule(
        "a state that fails is raised",
        f"{_LOG}/test_checkpoint.py::test_a_failed_state_never_fails_the_commit",
        without(TransactionLog, "_keep_up", _unguarded),
        _failed_state,
    ),
    "R9": Rule(
        "a file gets its name before its data is on the disk",
        "tests/unit/storage/test_local.py::test_put_if_absent",
        without(LocalStore, "_staged", _unsynced),
        _data_before_name,
    ),
    "R10": Rule(
        "the recorded version of an application is not looked at",
        "tests/unit/table/test_log_verbs.py::test_exactly_once",
        without(Changes, "_is_recorded", always(False)),
        lambda folder: test_log_verbs.test_exactly_once(str(folder / "t")),
    ),
    "R11": Rule(
        "what others did meanwhile is not looked at",
        "tests/unit/upkeep/test_merge.py::test_two_merges_of_the_same_splits_never_double_a_row",
        _blind_to_others,
        test_merge.test_two_merges_of_the_same_splits_never_double_a_row,
    ),
    "R12": Rule(
        "the protocol becomes what is asked for",
        "tests/unit/table/test_log_verbs.py::test_the_protocol_is_raised_and_never_lowered",
        without(protocol, "upgraded", _lowered),
        lambda folder: test_log_verbs.test_the_protocol_is_raised_and_never_lowered(str(folder / "t")),
    ),
    "S1": Rule(
        "every state is written anew",
        f"{_LOG}/test_checkpoint.py::test_bytes_written_follow_the_change_not_the_table",
        without(StateWriter, "_continued", lambda self, snapshot, *_, **__: self._anew(snapshot)),
        test_checkpoint.test_bytes_written_follow_the_change_not_the_table,
    ),
    "S2": Rule(
        "compaction continues the state before",
        f"{_LOG}/test_checkpoint.py::test_compact_really_compacts",
        _never_all,
        test_checkpoint.test_compact_really_compacts,
    ),
    "S3": Rule(
        "a cut maximum is not rounded up",
        "tests/unit/model/test_stat_text.py::test_shortened_texts_still_bound",
        without(stat_text, "successor", lambda prefix: prefix),
        lambda _: test_stat_text.test_shortened_texts_still_bound(),
    ),
    "S4": Rule(
        "the pointer is put without looking",
        "tests/torture/test_rules_switched_off.py::test_with_the_rule_all_is_well",
        _always_moved,
        _back_and_forth,
    ),
    "S5": Rule(
        "states forget the skips",
        "tests/unit/upkeep/test_purge.py::test_skips_in_cooldown_survive",
        _state_without(skips=()),
        test_purge.test_skips_in_cooldown_survive,
    ),
    "S6": Rule(
        "a manifest that is there is not written again",
        f"{_LOG}/test_cleaning.py::test_a_manifest_that_is_written_again_is_young_again",
        _kept_as_it_is,
        test_cleaning.test_a_manifest_that_is_written_again_is_young_again,
    ),
    "S7": Rule(
        "nobody looks for the manifests of a new state",
        f"{_LOG}/test_cleaning.py::test_a_state_whose_manifests_were_taken_away_is_written_anew",
        without(Checkpointer, "_is_whole", always(True)),
        lambda folder: test_cleaning.test_a_state_whose_manifests_were_taken_away_is_written_anew(folder, Compact.ALL),
    ),
    "C1": Rule(
        "what must stay readable is not looked for",
        "tests/unit/model/test_retention.py::test_a_young_version_keeps_the_base_it_needs_and_all_between",
        without(retention._Search, "oldest_needed", lambda self: self.anchor),
        lambda _: test_retention.test_a_young_version_keeps_the_base_it_needs_and_all_between(),
    ),
    "C2": Rule(
        "the age of a split counts from its creation",
        "tests/unit/upkeep/test_purge.py::test_a_removed_split_is_kept_from_its_removal_on",
        without(purge_plan._Search, "_since", _from_creation),
        test_purge.test_a_removed_split_is_kept_from_its_removal_on,
    ),
    "C3": Rule(
        "a file of unknown age is old",
        "tests/unit/model/test_retention.py::test_unknown_age_is_kept",
        without(retention._Search, "_older", _old_if_unknown),
        lambda _: test_retention.test_unknown_age_is_kept(),
    ),
    "C4": Rule(
        "a purge puts up no fence",
        f"{_MEET}/test_purges.py::test_a_purge_beside_a_writer",
        without(purge_plan, "IN_FLIGHT_MS", 0),
        schedules(
            {"writer": test_purges.writer, "purger": test_purges.purger},
            test_purges.check,
            start=test_purges.table_with(),
        ),
        explores=True,
    ),
    "C5": Rule(
        "cleaning does not know dry runs",
        f"{_LOG}/test_cleaning.py::test_a_dry_run_changes_nothing_and_finds_the_same",
        _never_dry,
        test_cleaning.test_a_dry_run_changes_nothing_and_finds_the_same,
    ),
    "C6": Rule(
        "any retention will do",
        "tests/unit/upkeep/test_purge.py::test_too_short_a_retention_is_refused",
        without(Retention, "checked", classmethod(_unchecked)),
        test_purge.test_too_short_a_retention_is_refused,
    ),
}

"""The rules of the protocol, each with what switches it off and a test that must fail then.

A test is named as pytest names it, so that `docs/reference/protocol.md` can list it; `prove` is
what that test asserts. The explorers of schedules stop at the first violation. A new rule gets an
entry here, and a row of the same form there.
"""

from __future__ import annotations

from indextables.log.checkpoint import manifests
from indextables.log.checkpoint.checkpointer import Checkpointer
from indextables.log.checkpoint.legacy import LegacyWriter
from indextables.log.checkpoint.state_writer import Compact, StateWriter
from indextables.log.cleaning import Cleaner
from indextables.log.commit import Committer
from indextables.log.maintenance import LogMaintenance
from indextables.log.transaction import Changes
from indextables.log.versions import StoreClock
from indextables.model import protocol, retention, values
from indextables.operations import purge
from indextables.operations.purge import Retention
from indextables.storage import local
from indextables.storage.local import LocalStore
from indextables.wire.old_checkpoints import CheckpointOrigin
from tests.faults import test_commit_faults, test_landed_commits, test_lost_races
from tests.interleave import test_checkpoints, test_commits, test_creation, test_purges, test_upkeep
from tests.support import commit_schedules
from tests.torture import switches
from tests.torture.switches import Rule, always, schedules, without
from tests.unit.log import test_cleaning, test_clock, test_swapped_checkpoints
from tests.unit.log.checkpoint import test_checkpoint
from tests.unit.model import test_retention, test_values
from tests.unit.operations import test_cover, test_deletion_vectors, test_merge, test_purge
from tests.unit.table import (
    test_drop_table,
    test_log_holes,
    test_log_verbs,
    test_removed_tables,
    test_table_identity,
)

_WRITERS = {"a": commit_schedules.writer("a"), "b": commit_schedules.writer("b")}
_CLEANED = {**_WRITERS, "cleaner": test_commits.cleaner}
_SLEEPER = {"upkeep": test_checkpoints.busy_upkeep, "a": commit_schedules.writer("a")}
_LOG, _FAULTS, _MEET = "tests/unit/log", "tests/faults/test_commit_faults.py", "tests/interleave"

RULES: dict[str, Rule] = {
    "R1": Rule(
        "the answer of the store is trusted",
        f"{_MEET}/test_commits.py::test_two_writers_and_one_fault",
        switches.no_reading_back,
        schedules(_WRITERS, commit_schedules.check, start=commit_schedules.new_table(), faults=1),
    ),
    "R2": Rule(
        "a reader accepts the versions that exist",
        f"{_MEET}/test_commits.py::test_two_writers_a_cleaner_and_one_fault",
        switches.lenient_reader,
        schedules(_CLEANED, commit_schedules.check, start=commit_schedules.grown_table()),
        explores=True,
    ),
    "R3": Rule(
        "the version of the newest state is deleted too",
        "tests/unit/model/test_retention.py::test_zero_retention_keeps_the_newest_state_its_version_and_what_follows",
        switches.own_version_too,
        lambda _: (
            test_retention.test_zero_retention_keeps_the_newest_state_its_version_and_what_follows()
        ),
    ),
    "R4": Rule(
        "the version before the new one is not checked",
        f"{_MEET}/test_checkpoints.py::test_a_sleeping_writer_never_takes_a_number_that_was_used",
        switches.without_predecessors,
        schedules(
            _SLEEPER, test_checkpoints.judge, start=test_checkpoints.start(), max_states=60_000
        ),
        explores=True,
    ),
    "R5": Rule(
        "states forget the transactions",
        f"{_LOG}/checkpoint/test_checkpoint.py::test_everything_but_the_files_survives_in_the_state",
        switches.state_without(txn_ids=()),
        test_checkpoint.test_everything_but_the_files_survives_in_the_state,
    ),
    "R6": Rule(
        "other commits are not checked",
        f"{_MEET}/test_upkeep.py::test_two",
        switches.blind_to_others,
        lambda _: test_upkeep.run(test_upkeep.deleter, test_upkeep.merger),
    ),
    "R7": Rule(
        "an unknown outcome is reported as a conflict",
        f"{_FAULTS}::test_a_store_that_never_answers_is_unknown_and_nothing_is_cleaned",
        without(Committer, "_unknown", switches.told_as_conflict),
        test_commit_faults.test_a_store_that_never_answers_is_unknown_and_nothing_is_cleaned,
    ),
    "R8": Rule(
        "a state that fails is raised",
        f"{_LOG}/checkpoint/test_checkpoint.py::test_a_failed_state_never_fails_the_commit",
        without(LogMaintenance, "follow_up", switches.unguarded),
        switches.failed_state,
    ),
    "R9": Rule(
        "a file gets its name before its data is on the disk",
        "tests/unit/storage/test_local.py::test_put_if_absent",
        without(LocalStore, "_stage", switches.unsynced),
        switches.data_before_name,
    ),
    "R10": Rule(
        "the recorded version of an application is ignored",
        "tests/unit/table/test_log_verbs.py::test_exactly_once",
        without(Changes, "is_recorded", always(False)),
        lambda folder: test_log_verbs.test_exactly_once(str(folder / "t")),
    ),
    "R11": Rule(
        "other commits are not checked",
        "tests/unit/operations/test_merge.py::test_two_merges_of_the_same_splits_never_double_a_row",
        switches.blind_to_others,
        test_merge.test_two_merges_of_the_same_splits_never_double_a_row,
    ),
    "R12": Rule(
        "the protocol is set as requested",
        "tests/unit/table/test_log_verbs.py::test_the_protocol_is_raised_and_never_lowered",
        without(protocol, "raise_protocol", switches.lowered),
        lambda folder: test_log_verbs.test_the_protocol_is_raised_and_never_lowered(
            str(folder / "t")
        ),
    ),
    "R13": Rule(
        "an id that is not in the state counts as a failed commit",
        f"{_MEET}/test_stopped_writers.py::test_a_writer_that_stops_anywhere_deletes_nothing_that_is_named",
        without(Committer, "_find_landed_version", switches.remembered_alone),
        switches.stopped_writer,
        explores=True,
    ),
    "R14": Rule(
        "splits of a commit that failed are deleted at once",
        "tests/faults/test_landed_commits.py::test_in_doubt_splits_are_left_to_a_purge",
        without(Committer, "discard", switches.deleted_at_once),
        test_landed_commits.test_in_doubt_splits_are_left_to_a_purge,
    ),
    "R15": Rule(
        "every id is accepted as that of the table",
        "tests/unit/table/test_table_identity.py::test_a_writer_that_wakes_in_another_table_leaves_it_as_it_is",
        switches.every_table_the_same,
        lambda folder: (
            test_table_identity.test_a_writer_that_wakes_in_another_table_leaves_it_as_it_is(
                folder, 2
            )
        ),
    ),
    "R16": Rule(
        "a commit is given up after ten attempts",
        "tests/faults/test_lost_races.py::test_an_append_that_conflicts_with_nothing_is_not_given_up",
        switches.ten_attempts,
        test_lost_races.test_an_append_that_conflicts_with_nothing_is_not_given_up,
    ),
    "R17": Rule(
        "the first rows of a table are appended, whatever their mode",
        f"{_MEET}/test_creation.py::test_two_first_writers",
        switches.first_rows_appended,
        schedules(
            {name: test_creation.writer(name, "overwrite") for name in ("a", "b")},
            test_creation.judge({"a": "overwrite", "b": "overwrite"}),
            start={},
        ),
        explores=True,
    ),
    "R18": Rule(
        "a commit is checked only against the plan of its own process",
        "tests/spark/test_races.py::test_a_stream_batch_made_for_no_table_fits_only_one_of_its_layout",
        switches.planned_by_the_committer,
        switches.batch_for_another_layout,
    ),
    "R19": Rule(
        "a split is identified by its path alone",
        "tests/unit/operations/test_deletion_vectors.py::test_a_stale_merge_does_not_bring_deleted_rows_back",
        switches.paths_alone,
        test_deletion_vectors.test_a_stale_merge_does_not_bring_deleted_rows_back,
    ),
    "R20": Rule(
        "a commit checks only the version that was listed",
        "tests/unit/table/test_log_holes.py::test_no_commit_is_acknowledged_over_a_version_that_is_lost",
        switches.listed_version_alone,
        lambda folder: test_log_holes.test_no_commit_is_acknowledged_over_a_version_that_is_lost(
            folder, 5
        ),
    ),
    "R21": Rule(
        "the marker of a drop is ignored",
        "tests/unit/table/test_drop_table.py::test_a_drop_that_died_is_finished_by_the_next_one_and_the_table_is_closed_until_then",
        switches.blind_to_drops,
        test_drop_table.test_a_drop_that_died_is_finished_by_the_next_one_and_the_table_is_closed_until_then,
    ),
    "S1": Rule(
        "every state is rewritten",
        f"{_LOG}/checkpoint/test_checkpoint.py::test_bytes_written_follow_the_change_not_the_table",
        without(
            StateWriter,
            "_continue_state",
            lambda self, snapshot, *_, **__: self._rewrite_state(snapshot),
        ),
        test_checkpoint.test_bytes_written_follow_the_change_not_the_table,
    ),
    "S2": Rule(
        "compaction continues the previous state",
        f"{_LOG}/checkpoint/test_checkpoint.py::test_compact_really_compacts",
        switches.never_all,
        test_checkpoint.test_compact_really_compacts,
    ),
    "S3": Rule(
        "a cut maximum is not rounded up",
        "tests/unit/model/test_values.py::test_shortened_texts_still_bound",
        without(values, "successor", lambda prefix: prefix),
        lambda _: test_values.test_shortened_texts_still_bound(),
    ),
    "S4": Rule(
        "the pointer is written without a check",
        "tests/torture/test_rules_switched_off.py::test_with_the_rule_all_is_well",
        switches.always_moved,
        switches.back_and_forth,
    ),
    "S5": Rule(
        "states forget the skips",
        "tests/unit/operations/test_purge.py::test_skips_in_cooldown_survive",
        switches.state_without(skips=()),
        test_purge.test_skips_in_cooldown_survive,
    ),
    "S6": Rule(
        "an existing manifest is not rewritten",
        f"{_LOG}/test_cleaning.py::test_a_manifest_that_is_written_again_is_young_again",
        switches.kept_as_it_is,
        test_cleaning.test_a_manifest_that_is_written_again_is_young_again,
    ),
    "S7": Rule(
        "the manifests of a new state are not checked",
        f"{_LOG}/test_cleaning.py::test_a_state_whose_manifests_were_taken_away_is_written_anew",
        without(Checkpointer, "_is_there", always(True)),
        lambda folder: test_cleaning.test_a_state_whose_manifests_were_taken_away_is_written_anew(
            folder, Compact.ALL
        ),
    ),
    "S8": Rule(
        "written files are not read back",
        f"{_LOG}/checkpoint/test_checkpoint.py::test_a_checkpoint_reads_back_what_it_wrote_and_of_the_rest_what_costs_little",
        switches.never_read_back,
        switches.read_back,
    ),
    "S9": Rule(
        "a damaged checkpoint is overwritten",
        "tests/unit/operations/test_cover.py::test_a_damaged_checkpoint_is_written_anew_under_another_name",
        without(LegacyWriter, "_put", switches.written_over),
        switches.healed,
    ),
    "S10": Rule(
        "a checkpoint is identified by its name",
        f"{_LOG}/test_swapped_checkpoints.py::test_a_part_is_no_checkpoint",
        without(CheckpointOrigin, "check", always(None)),
        switches.part_in_the_place_of_the_whole,
    ),
    "S11": Rule(
        "a manifest is identified by its name",
        f"{_LOG}/test_swapped_checkpoints.py::test_a_manifest_in_the_place_of_another_is_found_before_a_split_is_skipped",
        without(manifests, "check_manifest_name", always(None)),
        test_swapped_checkpoints.test_a_manifest_in_the_place_of_another_is_found_before_a_split_is_skipped,
    ),
    "S12": Rule(
        "a checkpoint is trusted without the versions around it",
        "tests/unit/table/test_removed_tables.py::test_a_checkpoint_of_another_table_that_lies_in_the_log_is_not_believed",
        switches.every_checkpoint_believed,
        lambda folder: (
            test_removed_tables.test_a_checkpoint_of_another_table_that_lies_in_the_log_is_not_believed(
                folder, "avro", 3
            )
        ),
    ),
    "S13": Rule(
        "every write creates its folders",
        "tests/unit/table/test_removed_tables.py::test_a_checkpoint_does_not_bring_a_removed_table_back",
        without(LocalStore, "_floor", always(None)),
        lambda folder: test_removed_tables.test_a_checkpoint_does_not_bring_a_removed_table_back(
            folder, "avro"
        ),
    ),
    "C1": Rule(
        "readable versions are not protected",
        "tests/unit/model/test_retention.py::test_a_young_version_keeps_the_base_it_needs_and_all_between",
        without(retention._Search, "oldest_needed", lambda self: self.anchor),
        lambda _: test_retention.test_a_young_version_keeps_the_base_it_needs_and_all_between(),
    ),
    "C2": Rule(
        "the age of a split counts from its creation",
        "tests/unit/operations/test_purge.py::test_a_removed_split_is_kept_from_its_removal_on",
        without(purge._PurgeSearch, "_since", switches.from_creation),
        test_purge.test_a_removed_split_is_kept_from_its_removal_on,
    ),
    "C3": Rule(
        "a file of unknown age is old",
        "tests/unit/model/test_retention.py::test_unknown_age_is_kept",
        without(retention._Search, "_older", switches.old_if_unknown),
        lambda _: test_retention.test_unknown_age_is_kept(),
    ),
    "C4": Rule(
        "a purge announces nothing",
        f"{_MEET}/test_purges.py::test_a_purge_beside_a_writer",
        without(purge, "IN_FLIGHT_MS", 0),
        schedules(
            {"writer": test_purges.writer, "purger": test_purges.purger},
            test_purges.check,
            start=test_purges.table_with(),
        ),
        explores=True,
    ),
    "C5": Rule(
        "cleaning ignores dry runs",
        f"{_LOG}/test_cleaning.py::test_a_dry_run_changes_nothing_and_finds_the_same",
        switches.never_dry,
        test_cleaning.test_a_dry_run_changes_nothing_and_finds_the_same,
    ),
    "C6": Rule(
        "any retention is accepted",
        "tests/unit/operations/test_purge.py::test_too_short_a_retention_is_refused",
        without(Retention, "from_arguments", classmethod(switches.unchecked)),
        test_purge.test_too_short_a_retention_is_refused,
    ),
    "C7": Rule(
        "a state or checkpoint is trusted without being read",
        "tests/unit/operations/test_cover.py::test_no_cleaner_takes_a_damaged_checkpoint_for_cover",
        switches.believed_unread,
        switches.truncated_over_damage,
    ),
    "C8": Rule(
        "the covering checkpoint is not checked",
        "tests/unit/operations/test_cover.py::test_an_older_checkpoint_that_is_damaged_covers_nothing",
        without(Cleaner, "find_uncovered", always({})),
        test_cover.test_an_older_checkpoint_that_is_damaged_covers_nothing,
    ),
    "C9": Rule(
        "the clocks are not compared",
        f"{_LOG}/test_clock.py::test_a_machine_with_a_wrong_clock_is_told_and_deletes_nothing",
        without(StoreClock, "_check", always(None)),
        lambda folder: test_clock.test_a_machine_with_a_wrong_clock_is_told_and_deletes_nothing(
            folder, "purge", "40 days ahead"
        ),
    ),
    "C10": Rule(
        "versions are dated by their own timestamps",
        f"{_LOG}/test_clock.py::test_a_version_from_the_future_is_dated_by_the_store_and_pushes_nobody_ahead",
        switches.dated_by_themselves,
        test_clock.test_a_version_from_the_future_is_dated_by_the_store_and_pushes_nobody_ahead,
    ),
    "C11": Rule(
        "a file of the log is deleted by its name",
        "tests/unit/table/test_removed_tables.py::test_a_cleaner_that_slept_deletes_no_file_of_the_table_that_was_created_again",
        without(local, "is_same_object", always(True)),
        lambda folder: (
            test_removed_tables.test_a_cleaner_that_slept_deletes_no_file_of_the_table_that_was_created_again(
                folder, "truncate", 6, 1
            )
        ),
    ),
}

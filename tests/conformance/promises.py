"""Every promise of the five texts of the specification: what is done here, the test that shows it, and why if it differs.

The texts: 000 the table protocol 1.0, 001 the table protocol 2.1, 002 the wire protocol, 003 the transaction log system,
004 the design of checkpoints. A row is `promise | how | what is done | test | why`. `how` is `as written`, `otherwise` (done
in another way, with the reason), `more` (beyond what is asked), or `absent` (with the decision that argues it). Where one
test shows a part only, the tests that show the whole stand there with commas between them.
"""

# ruff: noqa: E501 - a row of a table is a line

from __future__ import annotations

from typing import NamedTuple

HOW = ("as written", "otherwise", "more", "absent")


class Promise(NamedTuple):
    """A row of the table."""

    text: str
    promise: str
    how: str
    done: str
    test: str
    why: str


_ROWS = {
    "000": """
Version files are `{version:020d}.json` of JSON lines | as written | the same name and lines; gzip by default, as 002 has it | conformance/test_on_disk.py::test_a_version_file_has_twenty_digits_and_holds_json_lines |
Log files are write-once | otherwise | version files, states and checkpoints are created if absent and never change; the pointer and the note beside a Parquet checkpoint are replaced, and a manifest may be put again with the bytes that its name stands for | conformance/test_on_disk.py::test_no_file_of_the_log_ever_changes_but_the_pointer_and_a_note, conformance/test_on_disk.py::test_version_files_are_put_on_condition_that_they_are_absent, interleave/test_commits.py::test_three_writers | the pointer and the note are hints that no reader depends on
Version 0 holds protocol and metaData, and cannot be overwritten | more | one of each, and a commitInfo; a second creation is TableExistsError | unit/table/test_log_verbs.py::test_creating_twice, interleave/test_creation.py::test_two_first_writers, conformance/test_on_disk.py::test_version_0_holds_one_protocol_and_one_metadata_beside_its_commit_info |
Version 0 is never deleted | otherwise | goes once a proven checkpoint covers it | unit/log/test_cleaning.py::test_everything_before_the_newest_state_goes, unit/upkeep/test_cover.py::test_no_cleaner_takes_a_damaged_checkpoint_for_cover | 001, which is newer, says so
Readers and writers check the protocol first | as written | versions and features, before anything else is used | conformance/test_single_promises.py::test_the_protocol_is_checked_before_anything_else_is_used, conformance/test_single_promises.py::test_a_protocol_that_only_writers_lack_lets_readers_in |
Unknown fields and actions are ignored | more | ignored; unknown fields of a split are kept in every form of checkpoint, an unknown action in its version file only | unit/wire/test_version_file.py::test_unknown_fields_and_keys_survive_a_round_trip, conformance/test_single_promises.py::test_what_is_not_known_is_passed_over_and_kept_in_a_checkpoint |
The five actions with their fields | as written | all fields, and commitInfo and txn beside them | conformance/test_on_disk.py::test_an_example_of_the_specification_is_understood_and_written_back, conformance/test_single_promises.py::test_each_line_of_a_version_is_an_object_with_one_key |
AddAction paths are absolute | otherwise | relative; absolute ones under the root are read | unit/table/test_log_verbs.py::test_paths_under_the_root_are_made_relative, unit/table/test_log_verbs.py::test_absolute_paths_of_other_writers_are_read_and_escapes_refused | 002 says relative; a table can be moved then
Skips record path, reason, operation, partition, size, retryAfter, skipCount | as written | every skip has all of them | unit/table/test_admin.py::test_a_skip_says_where_the_split_is_and_how_large, conformance/test_on_disk.py::test_a_merge_that_skips_a_split_writes_every_field_of_the_skip |
Append, overwrite and merge are one version each | as written | removes and adds in one file | conformance/test_single_promises.py::test_an_append_adds_and_a_merge_removes_and_adds_in_one_version, conformance/test_on_disk.py::test_an_overwrite_removes_every_file_and_adds_the_new_ones_in_one_version |
Conditional writes: If-None-Match on S3 | as written | and the like of it on Google; Azure, HDFS and local disk keep the same contract | conformance/test_on_disk.py::test_version_files_are_put_on_condition_that_they_are_absent, contract/test_race.py, contract/test_stores.py, contract/test_hdfs.py::test_one_winner |
A lost race is an IllegalStateException | otherwise | tried again on the newest version; ConflictError where it cannot stand beside what others did | faults/test_lost_races.py, unit/model/test_conflicts.py::test_cell | 001 wants retries
Atomic version counter | otherwise | the store decides: the next version is read from it | interleave/test_commits.py::test_two_writers_and_one_fault | a counter in one process says nothing about others
A checkpoint every N versions (10) | as written | `checkpoint.interval` | unit/log/checkpoint/test_checkpoint.py::test_a_state_after_every_interval, conformance/test_defaults.py::test_a_setting_has_the_default_of_the_specification |
Checkpoint content: protocol, metaData, add list in one object | as written | with `checkpoint.json.layout=object`; Avro state otherwise | unit/log/checkpoint/test_legacy_parts.py::test_the_single_object_is_as_specified_and_read_back |
Reading starts at the checkpoint and applies what follows | as written | newest usable base, then contiguous versions | unit/log/checkpoint/test_legacy.py::test_a_checkpoint_stands_for_the_versions_before_it |
`_last_checkpoint` names version and time | as written | a hint: whatever it says the table opens | unit/log/checkpoint/test_checkpoint.py::test_whatever_the_pointer_says_the_table_opens, conformance/test_on_disk.py::test_a_checkpoint_of_an_older_form_has_the_name_of_its_version, conformance/test_on_disk.py::test_a_state_a_manifest_and_the_pointer_have_the_names_and_fields_of_the_format |
Retention: log 30 days, checkpoints 2 hours, failure policy, dry run | as written | the same keys and defaults | conformance/test_defaults.py::test_a_setting_has_the_default_of_the_specification, conformance/test_defaults.py::test_by_default_versions_stay_for_thirty_days, unit/model/test_retention.py::test_old_checkpoints_and_their_parts, unit/log/test_cleaning.py::test_failed_deletions_are_reported_or_raised, unit/log/test_cleaning.py::test_a_dry_run_changes_nothing_and_finds_the_same |
Deleted only if old, covered and not current | more | and only if the cover was just read and proven | unit/upkeep/test_cover.py::test_no_cleaner_takes_a_damaged_checkpoint_for_cover, unit/log/test_cleaning.py::test_young_files_stay, unit/log/test_cleaning.py::test_everything_before_the_newest_state_goes, unit/model/test_retention.py::test_nothing_without_a_checkpoint |
The last action on a path wins | as written | within and across versions | unit/model/test_snapshot.py::test_the_last_action_on_a_path_wins_within_and_across_versions |
Read committed, no dirty reads, no lost updates | as written | every schedule of a reader beside a writer and a cleaner, and of three writers, is run | interleave/test_checkpoints.py::test_a_reader_beside_a_writer_and_an_upkeeper, interleave/test_commits.py::test_three_writers |
Caches with a TTL of 5 minutes | otherwise | `transaction.cache.expirationSeconds`, 0 by default; one listing tells what is new | unit/table/test_log_verbs.py::test_staleness_is_allowed_where_it_is_asked_for | a stale answer without being asked is a wrong answer; 300 is honoured where set
Caches can be emptied and turned off | as written | invalidate_cache(), the statement, `transaction.cache.enabled` | unit/commands/test_execution.py::test_invalidating_makes_the_next_read_go_to_the_store, unit/table/test_log_verbs.py::test_the_cache_can_be_looked_at_and_emptied, conformance/test_single_promises.py::test_with_the_cache_off_nothing_of_a_table_is_remembered |
Partition values in adds prune files | as written | typed by the schema | unit/model/test_pruning.py::test_partition_values_are_exact |
A gap in the versions ends the table at the gap | otherwise | LogGapError that names it; the version before opens by number | unit/table/test_log_verbs.py::test_a_hole_in_the_log_is_named | a shorter table without an error is lost data
A checkpoint that cannot be read falls back to the versions | as written | with a warning | unit/log/checkpoint/test_legacy.py::test_a_damaged_checkpoint_falls_back_to_the_versions |
Corrupted version 0: "No transaction log found" | otherwise | an error that names the file and the way out; with the whole log gone it is TableNotFoundError, `no transaction log found`, and a repair from the splits | conformance/test_single_promises.py::test_a_table_that_lost_version_0_without_a_checkpoint_is_refused_by_the_name_of_the_file, unit/upkeep/test_repair.py::test_rows_and_answers_come_back_from_the_splits_alone | a table that is there is not reported as absent
upgradeProtocol writes the next version | as written | upgrade_protocol(); never lowered by it | conformance/test_single_promises.py::test_an_upgrade_of_the_protocol_is_the_next_version_and_keeps_what_is_higher, unit/table/test_log_verbs.py::test_the_protocol_is_raised_and_never_lowered |
Schema evolution is not supported | more | columns can be added and more | unit/table/test_row_verbs.py::test_columns_are_added_when_asked |
Planned: deletion vectors | more | deletes mark rows in place | unit/upkeep/test_deletion_vectors.py::test_every_answer_is_that_of_a_table_without_the_rows |
Planned: multi-part checkpoints | as written | JSON and Parquet, beyond `checkpoint.maxFileSize` | unit/log/checkpoint/test_legacy_parts.py::test_a_parquet_checkpoint_goes_on_in_further_parts, unit/log/checkpoint/test_legacy_parts.py::test_a_json_checkpoint_goes_on_by_size |
Planned: incremental checksums | as written | every file of a checkpoint has one, read back before the pointer moves | unit/log/test_swapped_checkpoints.py::test_another_checkpoint_is_not_taken_for_the_table, conformance/test_single_promises.py::test_a_checkpoint_that_does_not_prove_right_is_an_error_and_the_pointer_stays |
Considered: time travel queries | as written | by version and by timestamp, and `t@v3` in Spark SQL | unit/table/test_log_verbs.py::test_time_travel_by_version_and_by_moment, spark/test_delta_habits.py::test_queries_make_tables_in_one_version |
Considered: VACUUM and OPTIMIZE | as written | with a path in quotes, beside PURGE and MERGE SPLITS | unit/commands/test_upkeep_commands.py::test_the_words_of_delta_lake_do_what_ours_do |
Considered: change data feed | more | changes between versions as rows | unit/table/test_changes.py::test_the_feed_leads_from_version_to_version |
Considered: liquid clustering | more | splits sorted by columns | unit/upkeep/test_clustering.py::test_rows_are_sorted_and_found_as_before |
Parallel reading: `checkpoint.parallelism`, `checkpoint.read.timeoutSeconds` | as written | for remote stores; the time limit holds everywhere | conformance/test_single_promises.py::test_versions_are_read_in_parallel_by_as_many_as_the_setting_says, unit/table/test_kept_promises.py::test_reading_the_log_gives_up_when_it_was_told_to |
Operations are atomic at the level of a file | as written | no partial version is ever seen, whoever is killed | faults/test_killed_writer.py::test_no_partial_file_is_ever_seen |
Concurrent operations are detected and prevented | as written | what cannot stand beside another's commit is a ConflictError | unit/model/test_conflicts.py::test_cell |
Durability: no accidental overwrites | as written | put-if-absent on every store | contract/test_race.py, contract/test_stores.py, contract/test_hdfs.py::test_one_winner |
Version numbers give a strict order | as written | no number is used twice, whoever sleeps meanwhile | interleave/test_checkpoints.py::test_a_sleeping_writer_never_takes_a_number_that_was_used |
The log is in `_transaction_log/`, splits beside it | more | splits in `splits/`, as 001 has it | conformance/test_on_disk.py::test_splits_lie_in_splits_below_folders_of_their_partition_and_the_log_beside_them |
Checkpoints are `{version:020d}.checkpoint.json` | as written | written with `state.format=json`, always read | unit/log/checkpoint/test_legacy.py::test_older_forms_are_written_by_setting, conformance/test_on_disk.py::test_a_checkpoint_of_an_older_form_has_the_name_of_its_version |
`_last_checkpoint` is JSON | as written | also in its first form, with a version alone | unit/wire/test_old_checkpoints.py::test_the_first_pointers_had_a_version_only, conformance/test_on_disk.py::test_a_state_a_manifest_and_the_pointer_have_the_names_and_fields_of_the_format |
Each line holds one object with one key | as written | the five keys of the text, `mergeskip` among them, and commitInfo and txn | conformance/test_single_promises.py::test_each_line_of_a_version_is_an_object_with_one_key |
protocol: readerFeatures and writerFeatures from version 3 on | as written | an unknown feature is named and refused | unit/model/test_protocol.py::test_an_unknown_feature_is_named, conformance/test_single_promises.py::test_features_are_named_from_protocol_3_on |
Operations are rejected if the protocol is incompatible | as written | both numbers are named | unit/model/test_protocol.py::test_a_version_too_high_names_both_numbers |
protocol 1 and 2 is what is written | otherwise | new tables have 4, older ones are read | unit/table/test_log_verbs.py::test_a_new_table_is_empty_and_current, conformance/test_older_tables.py::test_a_table_of_an_older_protocol_is_read_at_every_version, conformance/test_older_tables.py::test_a_table_of_an_older_protocol_is_continued | 001 makes 4 the current one
protocol and metaData in version 0 only | otherwise | later versions may change both | unit/model/test_snapshot.py::test_latest_metadata_protocol_and_txn_win | 003 allows it; tables change
metaData: id, name, description, format, schemaString, partitionColumns, configuration, createdTime | as written | all of them | conformance/test_single_promises.py::test_the_metadata_of_a_new_table_has_every_field |
add: core fields | as written | required ones are always written | unit/wire/test_version_file.py::test_names_on_disk_are_camel_case_required_fields_are_written_and_absent_ones_left_out |
add: stats, tags, minValues, maxValues, numRecords | as written | written by every append | conformance/test_on_disk.py::test_an_append_writes_statistics_offsets_and_counts, conformance/test_on_disk.py::test_every_field_of_an_add_survives_every_form_of_checkpoint |
add: footer and hotcache offsets | as written | written by every append, kept by every form of checkpoint | conformance/test_on_disk.py::test_an_append_writes_statistics_offsets_and_counts, conformance/test_on_disk.py::test_every_field_of_an_add_survives_every_form_of_checkpoint |
add: time range, split tags, opstamp, merge operations, mapping, uncompressed size | otherwise | every field survives reading, writing and every form of checkpoint; time range and split tags of other writers only | conformance/test_on_disk.py::test_an_example_of_the_specification_is_understood_and_written_back, conformance/test_on_disk.py::test_every_field_of_an_add_survives_every_form_of_checkpoint | our splits have no time range or tags of their own: minValues and maxValues hold the range
remove: deletionTimestamp, dataChange, partitionValues, size, tags | as written | read and kept; ours have no tags | conformance/test_on_disk.py::test_an_example_of_the_specification_is_understood_and_written_back, conformance/test_on_disk.py::test_an_overwrite_removes_every_file_and_adds_the_new_ones_in_one_version |
mergeskip: retryAfter and skipCount | as written | counted on, and they end with the split | unit/model/test_snapshot.py::test_skips_add_up_and_end_with_their_split |
Initialization is idempotent | otherwise | a second create is TableExistsError; `exist_ok=True` is idempotent | unit/table/test_log_verbs.py::test_creating_twice | creating over another's table by mistake must be seen
Loss of version 0 makes a table unreadable | more | a state holds what it said; without one a repair reads the splits | unit/upkeep/test_repair.py::test_rows_and_answers_come_back_from_the_splits_alone, unit/log/test_cleaning.py::test_everything_before_the_newest_state_goes |
Append writes add actions alone | otherwise | add actions and a commitInfo; the first append with a new doc mapping also a metaData that records it | conformance/test_single_promises.py::test_an_append_adds_and_a_merge_removes_and_adds_in_one_version | 001 stores a mapping once, in metaData
Overwrite removes every file and adds the new ones in one version | as written | also of a part, or of partitions | unit/table/test_row_verbs.py::test_overwriting_a_part, conformance/test_on_disk.py::test_an_overwrite_removes_every_file_and_adds_the_new_ones_in_one_version, unit/table/test_row_verbs.py::test_overwriting_the_partitions_of_the_data |
A merge removes its sources and adds its result in one version | as written | rows are never doubled | conformance/test_single_promises.py::test_an_append_adds_and_a_merge_removes_and_adds_in_one_version, unit/upkeep/test_merge.py::test_two_merges_of_the_same_splits_never_double_a_row |
HTTP 412 means that the file exists | more | it is read back: it may be our own, answered twice | faults/test_commit_over_http.py::test_two_hundred_commits_each_with_a_fault |
Manual checkpoints | as written | checkpoint() and CHECKPOINT | unit/commands/test_execution.py::test_a_checkpoint_is_written_and_described, unit/table/test_kept_promises.py::test_the_state_of_a_table_is_the_newest_one_whoever_wrote_it |
A checkpoint replays everything up to its version | more | from the newest state on | unit/log/checkpoint/test_checkpoint.py::test_bytes_written_follow_the_change_not_the_table, conformance/test_single_promises.py::test_a_checkpoint_starts_from_the_newest_one_and_reads_only_later_versions |
Clean-up after a checkpoint is optional | as written | `cleanup.enabled` | unit/log/test_cleaning.py::test_no_clean_up_where_it_is_not_wanted |
Without checkpoints all versions are read | as written | the same | unit/log/checkpoint/test_legacy_parts.py::test_without_checkpoints_a_reader_replays_every_version |
`cleanup.dryRun` | as written | changes nothing, finds the same | unit/log/test_cleaning.py::test_a_dry_run_changes_nothing_and_finds_the_same |
Files younger than their retention stay | as written | by the store's clock | unit/log/test_cleaning.py::test_young_files_stay, unit/log/test_clock.py::test_a_small_difference_is_measured_by_the_stores_clock |
All data stays readable during and after a clean-up | as written | at every step of it | unit/model/test_retention.py::test_what_must_stay_readable_stays_readable_at_every_step, interleave/test_checkpoints.py::test_a_reader_beside_a_writer_and_an_upkeeper |
Several checkpoints may exist | as written | and older ones serve time travel | conformance/test_single_promises.py::test_whatever_base_it_is_read_from_the_list_is_the_same, unit/model/test_retention.py::test_old_checkpoints_and_their_parts |
A clean-up that fails affects nothing | as written | a warning in the log | unit/table/test_kept_promises.py::test_by_default_a_failed_clean_up_is_a_warning_and_affects_nothing |
No metadata is an error | as written | CorruptTableError with the way out | conformance/test_single_promises.py::test_a_log_without_metadata_is_an_error_with_the_way_out, unit/log/test_crafted_files.py::test_schemas_that_are_none |
The schema is Spark's JSON | as written | read and written | unit/model/test_schema.py::test_every_spark_type_comes_back_from_arrow |
A file list is base and increments | as written | folding in two goes is folding in one | unit/model/test_snapshot.py::test_folding_in_two_goes_is_folding_in_one |
Protocol, metadata and skips do not change the list | as written | the same | conformance/test_single_promises.py::test_protocol_metadata_and_skips_leave_the_list_as_it_is |
The losing writer retries with a new version | as written | by itself | budget/test_log_requests.py::test_a_lost_race_costs_no_listing |
Writes are serialized | as written | all schedules of three writers | interleave/test_commits.py::test_three_writers |
Caches are renewed after every write | as written | a write is read at once through the same handle and any other, also one of another writer | unit/table/test_log_verbs.py::test_another_writers_commit_is_visible_at_once, unit/table/test_row_verbs.py::test_overwriting_everything |
Caches are renewed after a checkpoint | as written | the state of a table is the newest one | unit/table/test_kept_promises.py::test_the_state_of_a_table_is_the_newest_one_whoever_wrote_it |
A cache of checkpoint locations | otherwise | states are kept by the identity of their file | unit/table/test_log_verbs.py::test_a_table_made_anew_at_the_same_place_is_not_mistaken_for_the_old, unit/table/test_table_identity.py::test_a_table_that_is_made_anew_within_a_second_is_not_taken_for_the_old_one | a location can come to hold another table
Partition folders `year=2024/month=10` | as written | the same names, escaped | conformance/test_on_disk.py::test_splits_lie_in_splits_below_folders_of_their_partition_and_the_log_beside_them, unit/storage/test_partitions.py::test_escaped_as_spark_does |
Partition values are strings in the log | as written | and their types come from the schema | conformance/test_on_disk.py::test_partition_values_are_texts_in_the_log_and_typed_by_the_schema_when_read |
A missing file is handled gracefully | as written | a store that fails for a while is asked again; a split that is gone is MissingSplitError, which names it | unit/table/test_row_verbs.py::test_a_missing_or_damaged_split_is_named, faults/test_remote_faults.py::test_a_passing_failure_is_not_noticed |
Action types may be added; old readers ignore them | as written | and show them | unit/commands/test_execution.py::test_what_another_writer_added_to_the_log_is_shown |
Optional fields may be added | as written | kept | unit/wire/test_version_file.py::test_unknown_fields_and_keys_survive_a_round_trip, unit/wire/test_manifest.py::test_fields_of_a_newer_writer_are_kept |
Monitor version 0 | more | verify() looks at every version; without version 0 a table is whole once a checkpoint holds what it said | conformance/test_single_promises.py::test_a_damaged_version_0_is_found, unit/upkeep/test_verify.py::test_a_garbled_version |
Test recovery from checkpoints | as written | a broken state heals | conformance/test_older_tables.py::test_a_broken_state_is_reported_once_and_healed_by_a_checkpoint, conformance/test_older_tables.py::test_with_any_one_file_broken_a_table_is_right_or_refused_by_name |
Planned: schema evolution | more | add, rename, drop, widen | unit/table/test_alter.py::test_the_command, unit/table/test_alter.py::test_update_upsert_and_delete_follow_the_names, unit/table/test_row_verbs.py::test_columns_are_added_when_asked, model/test_schema_evolution.py::test_programs |
Planned: column mapping | more | renamed columns keep their name in the splits | conformance/test_single_promises.py::test_a_renamed_column_keeps_its_name_in_the_splits, unit/table/test_alter.py::test_the_mapping_survives_states_repair_and_older_releases_refuse_it |
Skip actions make merges resilient | as written | the rest goes on | unit/upkeep/test_merge.py::test_a_source_that_cannot_be_read_is_skipped_and_the_rest_goes_on, unit/upkeep/test_merge.py::test_a_missing_source_is_skipped |
Merges run in the process | as written | in threads, or as Spark's tasks | unit/upkeep/test_merge.py::test_the_work_travels, spark/test_upkeep.py::test_a_merge_commits_batch_by_batch |
""",
    "001": """
V4: Avro state with shared manifests is what new tables have | as written | the names of the format, and the schema that files on disk have | unit/wire/test_manifest.py::test_the_schema_is_the_formats, conformance/test_on_disk.py::test_a_state_a_manifest_and_the_pointer_have_the_names_and_fields_of_the_format, conformance/test_on_disk.py::test_two_states_share_the_manifest_of_what_did_not_change |
Tables of V1 to V3 are read and upgraded by a checkpoint | as written | the protocol is raised in a version of its own first | unit/log/checkpoint/test_legacy.py::test_a_checkpoint_upgrades_to_the_current_form, conformance/test_older_tables.py::test_a_checkpoint_upgrades_a_table_and_changes_no_data_file |
State writes are incremental: O(delta) | as written | one new manifest, others named | unit/log/checkpoint/test_checkpoint.py::test_bytes_written_follow_the_change_not_the_table |
Manifests are pruned by partition bounds | more | and by bounds of columns | unit/log/checkpoint/test_checkpoint.py::test_parts_that_cannot_match_are_not_fetched |
Manifests are read in parallel (8) | as written | `state.read.parallelism` | conformance/test_single_promises.py::test_manifests_are_read_in_parallel_by_as_many_as_the_setting_says, conformance/test_defaults.py::test_a_setting_has_the_default_of_the_specification |
Optimistic concurrency with retries and backoff | as written | full jitter; the first retries at once; on a local disk writers that lost a race take turns before they wait | faults/test_contention.py, conformance/test_single_promises.py::test_lost_races_wait_below_a_bound_that_doubles_and_the_first_retries_come_at_once |
10 attempts | otherwise | 1000 attempts within `transaction.retry.maxElapsedMs` (60 s); 10 where set | conformance/test_defaults.py::test_a_setting_has_the_default_of_the_specification, conformance/test_defaults.py::test_the_elapsed_time_of_retries_is_a_minute_where_nothing_is_set, faults/test_lost_races.py::test_it_is_given_up_when_its_time_is_over, faults/test_lost_races.py::test_the_number_of_attempts_stays_a_setting | with many writers ten is not enough, and time is what a caller cares for
State writes are conditional and re-read the base on a retry | as written | losing that race is as good as winning | unit/log/checkpoint/test_checkpoint.py::test_two_writers_do_not_write_the_same_state_twice, conformance/test_on_disk.py::test_version_files_are_put_on_condition_that_they_are_absent, conformance/test_single_promises.py::test_a_state_write_that_loses_its_race_leaves_the_state_of_the_winner, conformance/test_single_promises.py::test_a_state_that_is_overtaken_by_newer_commits_rereads_the_table |
Merge resilience: skipped files stay live and wait for retryAfter | as written | cooldown 24 h, counted | unit/upkeep/test_merge.py::test_a_source_that_cannot_be_read_is_skipped_and_the_rest_goes_on, unit/upkeep/test_merge.py::test_a_source_that_fails_again_after_its_cooldown_is_skipped_for_longer |
Skip state is visible | as written | DESCRIBE INDEXTABLES STATE and SKIPPED FILES | unit/commands/test_execution.py::test_skipped_files_are_shown_with_their_cooldown |
Purge-on-write and merge-on-write | as written | merges in the background | unit/upkeep/test_on_write.py::test_in_the_background, unit/upkeep/test_on_write.py::test_purging_after_some_writes |
Checkpoints after MERGE SPLITS | as written | `state.compaction.afterMerge` | unit/log/checkpoint/test_checkpoint.py::test_a_merge_is_followed_by_a_state |
Compaction above 10 % tombstones or 20 manifests | otherwise | above 10 %; above 20 manifests only if they are more than twice as many as full ones would be | conformance/test_single_promises.py::test_compaction_begins_beyond_a_tenth_of_tombstones_and_twenty_manifests, unit/log/checkpoint/test_checkpoint.py::test_too_many_manifests_are_merged_and_large_ones_left_alone | a very large table would be compacted every time
COMPACT forces it, sorted by partition, chunks of 50,000, no tombstones | as written | COMPACT is the CHECKPOINT that rewrites everything | unit/log/checkpoint/test_checkpoint.py::test_compact_really_compacts, unit/commands/test_execution.py::test_compacting_writes_the_state_anew, conformance/test_defaults.py::test_a_setting_has_the_default_of_the_specification |
DESCRIBE INDEXTABLES STATE | as written | format, version, counts, ratio, whether to compact | unit/commands/test_execution.py::test_a_checkpoint_is_written_and_described, unit/commands/test_execution.py::test_a_state_with_many_tombstones_is_shown_as_one_to_compact |
TRUNCATE TIME TRAVEL with DRY RUN | as written | nothing but the newest version is left | unit/upkeep/test_truncate.py::test_only_the_newest_version_is_left, unit/upkeep/test_truncate.py::test_a_dry_run_lists_exactly_what_is_then_deleted, unit/commands/test_upkeep_commands.py::test_truncating_leaves_the_newest_version |
State retention: 2 versions, 168 hours | as written | the same keys | unit/model/test_retention.py::test_states_are_kept_by_number_and_by_age, conformance/test_defaults.py::test_by_default_states_stay_for_a_week_and_the_two_newest_longer |
Manifest garbage collection with a safety window of an hour | as written | `state.gc.minManifestAgeHours` | unit/model/test_retention.py::test_young_manifests_are_left_for_writers_under_way, conformance/test_defaults.py::test_by_default_a_manifest_that_no_state_names_stays_for_an_hour |
PURGE removes orphans, old versions and states | as written | by the store's clock | unit/upkeep/test_purge.py::test_a_dry_run_lists_exactly_what_is_then_deleted, unit/upkeep/test_purge.py::test_expired_states_and_manifests, unit/upkeep/test_purge_clock.py::test_the_clock_of_the_store_counts |
Schema deduplication by a canonical hash | as written | in version files and states | unit/log/test_recorded_mappings.py::test_a_mapping_is_recorded_once_and_named_by_its_hash, unit/log/checkpoint/test_checkpoint.py::test_a_wide_schema_is_stored_once |
400 columns do not bloat the log | as written | 40 splits of 400 columns are below 150 KB | unit/log/test_recorded_mappings.py::test_forty_splits_of_four_hundred_columns_are_a_small_version |
Statistics are truncated to 32 characters, partition columns never | more | and stay bounds: a cut maximum is rounded up | unit/model/test_values.py::test_shortened_texts_still_bound, conformance/test_on_disk.py::test_texts_in_statistics_are_cut_after_32_characters_but_not_those_of_partitions |
`dataSkippingNumIndexedCols` (32) | as written | the same | unit/splits/write/test_statistics.py::test_which_columns_have_statistics, conformance/test_defaults.py::test_a_setting_has_the_default_of_the_specification |
Migration: CHECKPOINT upgrades; `DESCRIBE` shows avro-state | as written | no data file changes | conformance/test_older_tables.py::test_a_checkpoint_upgrades_a_table_and_changes_no_data_file, conformance/test_older_tables.py::test_a_table_of_another_engine_is_continued_and_upgraded |
Troubleshooting: REPAIR from split files | as written | rows, partitions, statistics and index settings come back | unit/upkeep/test_repair.py::test_how_columns_are_indexed_comes_back, unit/upkeep/test_repair.py::test_rows_and_answers_come_back_from_the_splits_alone, unit/upkeep/test_repair.py::test_partitions_come_back_with_their_types_and_nulls, unit/upkeep/test_repair.py::test_statistics_come_back_too |
Readers see a version whole or not at all | as written | under traffic too | faults/test_states_under_traffic.py::test_readers_see_whole_versions_or_are_told |
Version 0 is protected at creation | as written | two first writers make one table | interleave/test_creation.py::test_two_first_writers |
Version 0 may go once a checkpoint covers it | as written | and the id of the table stays | unit/upkeep/test_truncate.py::test_only_the_newest_version_is_left |
The list of files is deterministic | as written | whatever base it is read from | conformance/test_single_promises.py::test_whatever_base_it_is_read_from_the_list_is_the_same |
Protocol checks run before every write too | as written | a writer that wakes in a newer table deletes nothing | unit/table/test_log_verbs.py::test_a_protocol_too_new_is_named, faults/test_landed_commits.py::test_a_writer_that_wakes_in_a_table_too_new_for_it_deletes_nothing, conformance/test_single_promises.py::test_the_protocol_is_checked_before_anything_else_is_used, conformance/test_single_promises.py::test_a_protocol_that_only_writers_lack_lets_readers_in |
A conflict leads to a re-read of the state | as written | only of what is new | budget/test_log_requests.py::test_several_versions_lost_at_once_are_read_by_name |
Azure has an equivalent | as written | the contract of a store holds there: what exists is not overwritten, and of many writers one wins | contract/test_stores.py::TestAzure |
Splits lie in `splits/`, below their partition | as written | the same | conformance/test_on_disk.py::test_splits_lie_in_splits_below_folders_of_their_partition_and_the_log_beside_them |
Manifests are named by a hash and shared | as written | by their content | unit/wire/test_manifest.py::test_the_same_rows_give_the_same_bytes_and_name, conformance/test_on_disk.py::test_two_states_share_the_manifest_of_what_did_not_change |
`state-v<version>/_manifest.avro` | as written | the same record | unit/wire/test_state.py::test_a_state_comes_back, conformance/test_on_disk.py::test_a_state_a_manifest_and_the_pointer_have_the_names_and_fields_of_the_format |
V1: tables without a protocol | as written | are read as version 1 | unit/table/test_log_verbs.py::test_a_version_without_a_protocol_is_legacy, conformance/test_older_tables.py::test_a_table_of_an_older_protocol_is_read_at_every_version, conformance/test_older_tables.py::test_a_table_of_an_older_protocol_is_continued |
V2: skips and footer offsets | as written | written and read | conformance/test_on_disk.py::test_a_merge_that_skips_a_split_writes_every_field_of_the_skip, conformance/test_on_disk.py::test_an_append_writes_statistics_offsets_and_counts, conformance/test_older_tables.py::test_a_table_of_an_older_protocol_is_read_at_every_version |
V3: docMappingRef and feature flags | as written | read and continued | conformance/test_older_tables.py::test_a_table_of_an_older_protocol_is_read_at_every_version, conformance/test_older_tables.py::test_a_table_of_an_older_protocol_is_continued, unit/table/test_admin.py::test_protocol_3_keeps_what_it_knows_and_the_way_back_is_open |
New tables are V4 | as written | with avroState | unit/table/test_log_verbs.py::test_a_new_table_is_empty_and_current |
A due checkpoint upgrades by itself | as written | an append that completes the interval | unit/log/checkpoint/test_legacy.py::test_an_append_upgrades_when_it_is_time_for_a_checkpoint |
Reading begins at `_last_checkpoint` | as written | and works without it | unit/log/checkpoint/test_checkpoint.py::test_opening_costs_four_requests_and_listing_one_more_per_manifest, unit/log/checkpoint/test_checkpoint.py::test_whatever_the_pointer_says_the_table_opens, conformance/test_on_disk.py::test_a_state_a_manifest_and_the_pointer_have_the_names_and_fields_of_the_format |
Tombstoned entries are left out | as written | an entry added again is not hidden | unit/log/checkpoint/test_checkpoint.py::test_a_path_added_again_is_not_hidden_and_stands_once, unit/log/checkpoint/test_checkpoint.py::test_removed_files_become_tombstones |
partitionBounds are min and max of a manifest | otherwise | typed bounds of every column, partitions among them; `partitionBounds` only where text order gives the same | conformance/test_on_disk.py::test_bounds_of_a_manifest_are_the_least_and_the_greatest_value | readers that know partitionBounds alone compare texts, and 9 is above 10 there
70,000 files are read in under 500 ms | otherwise | measured by `make bench-log`, which is no test | unit/log/checkpoint/test_checkpoint.py::test_opening_costs_four_requests_and_listing_one_more_per_manifest | times depend on the machine; requests are counted
Removed files become tombstones of the next state | as written | the same | unit/log/checkpoint/test_checkpoint.py::test_removed_files_become_tombstones |
The pointer moves to the new state | as written | and never back, unless what it names is not there | unit/log/checkpoint/test_checkpoint.py::test_the_pointer_never_moves_back, unit/log/checkpoint/test_checkpoint.py::test_a_state_after_every_interval |
A state that cannot be written does not fail the commit | as written | counted, and tried again | unit/log/checkpoint/test_checkpoint.py::test_a_failed_state_never_fails_the_commit |
A merge that meets a corrupt file goes on | as written | the file stays live | unit/upkeep/test_merge.py::test_a_source_that_cannot_be_read_is_skipped_and_the_rest_goes_on |
Transient errors are no skips | more | asked again first | unit/upkeep/test_merge.py::test_a_store_that_fails_once_is_asked_again |
skipCount counts | as written | and every failure starts a new cooldown | unit/upkeep/test_merge.py::test_a_source_that_fails_again_after_its_cooldown_is_skipped_for_longer |
Purge-on-write cleans splits and versions | as written | after so many writes, and after merges | unit/upkeep/test_on_write.py::test_purging_after_some_writes, unit/upkeep/test_on_write.py::test_purging_after_a_merge |
Merge-on-write above a threshold | as written | the same | unit/upkeep/test_on_write.py::test_enough_small_splits_are_merged |
Merge-on-write is asynchronous by default | as written | waited for at exit | unit/upkeep/test_on_write.py::test_a_process_that_ends_waits_for_its_merges, unit/upkeep/test_on_write.py::test_in_the_background, conformance/test_defaults.py::test_a_setting_has_the_default_of_the_specification |
Zstandard by default | as written | and snappy and none | unit/log/checkpoint/test_checkpoint.py::test_every_codec_can_be_read_back, conformance/test_single_promises.py::test_manifests_are_compressed_as_the_setting_says |
COMPACT sorts by partition | as written | and in bounded memory | unit/log/checkpoint/test_manifests.py::test_rows_come_in_the_order_of_their_partitions, unit/log/checkpoint/test_checkpoint.py::test_compact_really_compacts |
Compacting needs removals to call for it, or a statement | as written | the same | unit/log/checkpoint/test_checkpoint.py::test_removals_that_call_for_compaction, conformance/test_single_promises.py::test_compaction_begins_beyond_a_tenth_of_tombstones_and_twenty_manifests, unit/log/checkpoint/test_checkpoint.py::test_compact_really_compacts |
Time travel is bounded by retention | as written | the error for a version that is gone names those that are left | unit/table/test_log_verbs.py::test_time_travel_by_version_and_by_moment, unit/log/test_cleaning.py::test_everything_before_the_newest_state_goes |
TRUNCATE DRY RUN lists what would go | as written | exactly that | unit/upkeep/test_truncate.py::test_a_dry_run_lists_exactly_what_is_then_deleted |
Expired states and their manifests go with PURGE | as written | the same | unit/upkeep/test_purge.py::test_expired_states_and_manifests |
PURGE ... OLDER THAN 7 DAYS | as written | too short a time is refused | unit/commands/test_upkeep_commands.py::test_a_dry_purge_lists_what_the_purge_then_deletes, unit/upkeep/test_purge.py::test_too_short_a_retention_is_refused |
`state.retry.*`: attempts, base and longest delay | as written | the same keys, with the same defaults | conformance/test_single_promises.py::test_a_state_is_tried_as_often_and_waited_for_as_long_as_the_settings_say, conformance/test_defaults.py::test_a_setting_has_the_default_of_the_specification |
`transaction.retry.*`: attempts, base and longest delay | as written | the same keys; the default of the attempts differs, see above | faults/test_lost_races.py::test_the_number_of_attempts_stays_a_setting, conformance/test_single_promises.py::test_lost_races_wait_below_a_bound_that_doubles_and_the_first_retries_come_at_once, conformance/test_defaults.py::test_a_setting_has_the_default_of_the_specification |
No distributed locks | as written | none; on a local disk writers of one machine that lost a race take turns by a file lock, for 0.2 s at most, and nothing depends on it | faults/test_contention.py, unit/storage/test_local.py::test_nobody_waits_long_for_a_turn_and_nobody_twice |
Canonical hash: sorted keys, sorted named arrays | as written | order and spacing do not matter | unit/model/test_schema_registry.py::test_order_and_spacing_do_not_matter_but_content_does, unit/model/test_schema_registry.py::test_what_is_sorted_and_what_is_not |
`stats.truncation.enabled` and `maxLength` | as written | can be turned off or set | unit/splits/write/test_statistics.py::test_truncation_can_be_turned_off_or_set, conformance/test_defaults.py::test_a_setting_has_the_default_of_the_specification |
Splits are skipped by minValues and maxValues | as written | the same | unit/model/test_pruning.py::test_bounds_and_null_counts |
Schemas are immutable | more | they can be changed | unit/table/test_alter.py::test_the_command |
The upgrade changes no data file | as written | the same | conformance/test_older_tables.py::test_a_checkpoint_upgrades_a_table_and_changes_no_data_file, conformance/test_older_tables.py::test_a_table_of_another_engine_is_continued_and_upgraded |
`_last_checkpoint` that is lost is recreated | more | the table opens without it; the next checkpoint writes it | unit/log/checkpoint/test_checkpoint.py::test_whatever_the_pointer_says_the_table_opens |
REPAIR INDEXFILES TRANSACTION LOG | as written | the same statement | unit/commands/test_upkeep_commands.py::test_a_lost_log_is_rebuilt_from_the_splits |
A high ratio of tombstones is shown | as written | DESCRIBE says whether to compact | unit/commands/test_execution.py::test_a_state_with_many_tombstones_is_shown_as_one_to_compact |
Conflicts after all attempts are an error with a hint | as written | which names the settings | faults/test_commit_faults.py::test_giving_up_after_other_writers_says_so |
An append needs no list of files | as written | three requests | budget/test_log_requests.py::test_a_commit_without_conflict_costs_three_and_lists_nothing |
Monitor that a valid checkpoint exists | as written | verify() and DESCRIBE | unit/upkeep/test_verify.py::test_a_damaged_state_file, unit/commands/test_execution.py::test_a_checkpoint_is_written_and_described |
""",
    "002": """
State manifest is `_manifest.json` | otherwise | `_manifest.avro` is written, both are read | unit/wire/test_state.py::test_the_json_form, conformance/test_on_disk.py::test_a_state_a_manifest_and_the_pointer_have_the_names_and_fields_of_the_format, conformance/test_older_tables.py::test_states_of_another_engine_are_read_whatever_form_their_manifest_paths_have | 001, which is newer, says Avro
Version files may be gzip; detected by content | as written | plain, gzip, or two bytes and gzip | unit/wire/test_version_file.py::test_the_three_forms_on_disk_are_told_apart |
Feature flags avroState, multiPartCheckpoint, schemaDeduplication | as written | and parquetSplits, which is ours | conformance/test_single_promises.py::test_features_are_named_from_protocol_3_on |
metaData configuration holds `docMappingSchema.<hash>` | as written | a version that brings a new mapping records it | unit/log/test_recorded_mappings.py::test_a_mapping_is_recorded_once_and_named_by_its_hash |
Hash: canonical JSON, SHA-256, Base64, 16 characters | as written | URL-safe, as the files of the other engine have it | unit/model/test_schema_registry.py::test_the_hash_of_a_real_table |
Renormalization above 5 references | as written | `state.schema.renormalizeThreshold` | unit/log/checkpoint/test_checkpoint.py::test_many_spellings_of_one_schema_are_merged |
`_last_checkpoint` fields | as written | all of them | unit/wire/test_old_checkpoints.py::test_the_pointer_comes_back_in_the_formats_words, conformance/test_on_disk.py::test_a_state_a_manifest_and_the_pointer_have_the_names_and_fields_of_the_format |
JSON checkpoint: one gzip file, or a manifest and parts | as written | with checksums of the parts | unit/log/checkpoint/test_legacy.py::test_a_large_json_checkpoint_is_written_in_parts, conformance/test_on_disk.py::test_a_checkpoint_of_an_older_form_has_the_name_of_its_version, unit/wire/test_old_checkpoints.py::test_the_manifest_of_a_multi_part_checkpoint, unit/log/test_swapped_checkpoints.py::test_another_checkpoint_is_not_taken_for_the_table |
ManifestInfo, three forms of manifest paths | as written | all three are resolved | conformance/test_older_tables.py::test_states_of_another_engine_are_read_whatever_form_their_manifest_paths_have |
FileEntry and its field ids | otherwise | the ids that files on disk have; read by name | unit/wire/test_manifest.py::test_a_foreign_schema_is_read_by_name_with_defaults, unit/wire/test_manifest.py::test_the_schema_is_the_formats, conformance/test_older_tables.py::test_states_of_another_engine_are_read_whatever_form_their_manifest_paths_have | files of the other engine differ from the appendix
zstd, snappy or none; level 3 | as written | `state.compression`, `state.compressionLevel` | conformance/test_single_promises.py::test_manifests_are_compressed_as_the_setting_says, unit/log/checkpoint/test_checkpoint.py::test_every_codec_can_be_read_back, conformance/test_single_promises.py::test_manifests_are_compressed_at_the_level_that_is_set |
numFiles and totalBytes are of live files | more | exact; another number is damage | conformance/test_single_promises.py::test_a_state_that_counts_otherwise_is_damaged, unit/log/checkpoint/test_checkpoint.py::test_removed_files_become_tombstones |
Statistics are texts, numbers compared as numbers | more | typed by the schema for every type | unit/model/test_pruning.py::test_bounds_and_null_counts, unit/model/test_pruning.py::test_manifests_are_ruled_out_by_typed_bounds, model/test_skipping_never_drops_a_match.py::test_our_statistics |
Retention of the log by `purge.txLogRetentionHours` | as written | the longer of two settings counts | unit/table/test_kept_promises.py::test_the_longer_of_two_retentions_counts_for_the_clean_up |
`largeRemoveThreshold` calls for compaction | as written | the same | unit/log/checkpoint/test_checkpoint.py::test_removals_that_call_for_compaction, conformance/test_defaults.py::test_a_setting_has_the_default_of_the_specification |
Every key of its configuration reference | as written | accepted in options, sessions and tables | unit/test_config.py::test_every_key_of_the_specification_is_taken_from_a_session, unit/table/test_log_verbs.py::test_metadata_can_be_changed_and_unset |
Emergency downgrade: `state.format=json` and CHECKPOINT | as written | and downgrade_protocol writes the protocol back | unit/log/checkpoint/test_legacy.py::test_a_state_in_the_registry_reaches_a_json_checkpoint, unit/table/test_admin.py::test_a_table_that_was_downgraded_opens_in_a_reader_of_protocol_2 |
JSON schemas of the actions | as written | required fields are always written | unit/wire/test_version_file.py::test_names_on_disk_are_camel_case_required_fields_are_written_and_absent_ones_left_out |
Consistency: readers see one snapshot | as written | a handle stays at its version | unit/table/test_log_verbs.py::test_another_writers_commit_is_visible_at_once |
Version 3: multi-part checkpoints | as written | the same | unit/log/checkpoint/test_legacy.py::test_a_large_json_checkpoint_is_written_in_parts |
All features must be supported by who reads | as written | an unknown one is refused by name | unit/model/test_protocol.py::test_an_unknown_feature_is_named, conformance/test_single_promises.py::test_the_protocol_is_checked_before_anything_else_is_used |
Lines may hold unknown keys | as written | kept | unit/wire/test_version_file.py::test_unknown_fields_and_keys_survive_a_round_trip |
`transaction.compression.enabled` | as written | gzip unless turned off | conformance/test_on_disk.py::test_version_files_are_gzip_unless_the_setting_is_off, unit/wire/test_version_file.py::test_the_three_forms_on_disk_are_told_apart |
protocol: optional feature sets | as written | with and without them; null is read as none | conformance/test_on_disk.py::test_an_example_of_the_specification_is_understood_and_written_back, conformance/test_older_tables.py::test_states_of_another_engine_are_read_whatever_form_their_manifest_paths_have |
metaData may lack name, description, createdTime | as written | the same | unit/wire/test_version_file.py::test_names_on_disk_are_camel_case_required_fields_are_written_and_absent_ones_left_out, conformance/test_on_disk.py::test_an_example_of_the_specification_is_understood_and_written_back |
Paths are relative | as written | absolute ones of other writers are read, escapes refused | unit/table/test_log_verbs.py::test_absolute_paths_of_other_writers_are_read_and_escapes_refused |
docMappingJson is read where it stands inline | as written | both forms | unit/log/test_recorded_mappings.py::test_versions_with_mappings_in_every_split_are_read, conformance/test_older_tables.py::test_a_table_of_an_older_protocol_is_read_at_every_version |
Statistics of other writers spelt as numbers | more | become text | unit/wire/test_version_file.py::test_statistics_that_another_writer_spelt_as_numbers_become_text |
remove may lack its time, values and size | as written | a removal then counts from its version | conformance/test_single_promises.py::test_a_removal_without_time_values_and_size_counts_from_its_version |
mergeskip is recorded with its count | as written | two of one split count on | unit/model/test_conflicts.py::test_two_skips_of_one_split_count_on |
A single JSON checkpoint, gzipped | otherwise | gzip for lines, which are the default; the single object of 000 is plain | unit/wire/test_old_checkpoints.py::test_json_lines_plain_or_gzipped, conformance/test_on_disk.py::test_a_checkpoint_of_an_older_form_has_the_name_of_its_version, unit/wire/test_old_checkpoints.py::test_the_object_form | 000 shows the object as plain JSON; both are read either way
The manifest of a multi-part checkpoint | as written | names every part | unit/wire/test_old_checkpoints.py::test_the_manifest_of_a_multi_part_checkpoint |
A missing part | more | is damage, never a shorter table | unit/log/checkpoint/test_legacy.py::test_a_missing_part_is_not_a_shorter_table |
State fields formatVersion to metadata | as written | a newer format is refused by name | unit/wire/test_state.py::test_a_newer_format_is_refused_by_name, unit/wire/test_state.py::test_the_json_form, unit/wire/test_state.py::test_an_older_reader_resolves_the_record, unit/wire/test_state.py::test_a_state_comes_back |
tombstones are paths | as written | ours also say since which version | unit/wire/test_state.py::test_an_older_reader_resolves_the_record |
metadata is JSON in a text | as written | wrapped, bare or null | unit/wire/test_state.py::test_metadata_wrapped_bare_or_null |
A state without our fields | as written | takes their defaults | unit/wire/test_state.py::test_a_record_without_our_fields_takes_their_defaults |
Shared, normalized and bare manifest paths | as written | resolved; none leads out of the log | conformance/test_older_tables.py::test_states_of_another_engine_are_read_whatever_form_their_manifest_paths_have, conformance/test_older_tables.py::test_a_manifest_path_that_leads_out_of_the_log_is_refused |
min and max of bounds may be absent | as written | then nothing is ruled out | unit/model/test_pruning.py::test_manifests_are_ruled_out_by_typed_bounds |
FileEntry is Avro | as written | and another library reads ours | unit/wire/test_manifest.py::test_another_reader_sees_the_same_rows |
addedAtVersion and addedAtTimestamp | as written | the time of a version survives its file | unit/log/test_clock.py::test_the_time_of_a_version_survives_its_file, conformance/test_on_disk.py::test_every_field_of_an_add_survives_every_form_of_checkpoint, unit/wire/test_manifest.py::test_any_file_list_comes_back |
Avro fields in another order, narrower types | as written | read by name | unit/wire/test_manifest.py::test_fields_in_another_order_and_of_narrower_types |
Compression level 3 | as written | `state.compressionLevel` | conformance/test_single_promises.py::test_manifests_are_compressed_at_the_level_that_is_set, conformance/test_defaults.py::test_a_setting_has_the_default_of_the_specification |
A manifest of another count than its state says | more | is damage | unit/wire/test_manifest.py::test_another_number_of_rows_than_the_state_says |
A mapping is stored once for many files | as written | the same | unit/model/test_schema_registry.py::test_a_wide_schema_over_many_files_is_stored_once |
A mapping is restored by its name when read | as written | in every version and after upkeep | unit/log/test_recorded_mappings.py::test_mappings_are_known_in_every_version_and_after_upkeep |
Keys of the registry are prefixed | as written | or bare | unit/model/test_schema_registry.py::test_keys_bare_or_prefixed |
Renormalization merges equal mappings | as written | above the threshold | unit/model/test_schema_registry.py::test_equal_mappings_under_many_names_become_one_above_the_threshold |
Text statistics in the order of their writer | more | UTF-16 and cut ones are widened | unit/model/test_pruning.py::test_text_in_utf16_order_cut_without_rounding_is_widened |
Manifests are pruned before they are read | as written | by typed bounds | unit/model/test_pruning.py::test_manifests_are_ruled_out_by_typed_bounds, unit/log/checkpoint/test_checkpoint.py::test_parts_that_cannot_match_are_not_fetched |
A state conflict increments the version | otherwise | the state of a version is of that version; losing is as good as winning | unit/log/checkpoint/test_checkpoint.py::test_two_writers_do_not_write_the_same_state_twice, conformance/test_single_promises.py::test_a_state_write_that_loses_its_race_leaves_the_state_of_the_winner | two states of one version say the same
A state write looks whether one is there | as written | and whether it is right | unit/log/checkpoint/test_checkpoint.py::test_a_checkpoint_reads_back_what_it_wrote_and_of_the_rest_what_costs_little, conformance/test_single_promises.py::test_a_state_write_that_loses_its_race_leaves_the_state_of_the_winner, unit/upkeep/test_cover.py::test_a_damaged_checkpoint_is_written_anew_under_another_name |
Only the latest checkpoint is used for reading | more | an older one where it is damaged | conformance/test_older_tables.py::test_with_any_one_file_broken_a_table_is_right_or_refused_by_name |
Old checkpoints go with PURGE | as written | the same | unit/model/test_retention.py::test_old_checkpoints_and_their_parts, conformance/test_single_promises.py::test_a_purge_deletes_checkpoints_that_a_newer_one_supersedes |
Garbage collection looks at every state that is kept | as written | a state that is not whole covers nothing | unit/model/test_retention.py::test_a_state_that_is_not_whole_covers_nothing, unit/model/test_retention.py::test_young_manifests_are_left_for_writers_under_way, unit/model/test_retention.py::test_what_must_stay_readable_stays_readable_at_every_step |
A manifest under way is protected by its age | as written | one written again is young again | unit/log/test_cleaning.py::test_a_manifest_that_is_written_again_is_young_again, conformance/test_defaults.py::test_by_default_a_manifest_that_no_state_names_stays_for_an_hour |
A manifest taken away from a writer | more | its state is written anew | unit/log/test_cleaning.py::test_a_state_whose_manifests_were_taken_away_is_written_anew |
`checkpoint.enabled`, `checkpoint.interval` | as written | the same keys and defaults | unit/log/checkpoint/test_checkpoint.py::test_a_state_after_every_interval, unit/log/checkpoint/test_checkpoint.py::test_no_state_when_checkpoints_are_off, conformance/test_defaults.py::test_a_setting_has_the_default_of_the_specification |
`state.format` avro or json | as written | and parquet | unit/log/checkpoint/test_legacy.py::test_older_forms_are_written_by_setting, conformance/test_defaults.py::test_a_setting_has_the_default_of_the_specification |
`state.entriesPerManifest`, `state.read.parallelism` | as written | the same keys and defaults | unit/log/checkpoint/test_checkpoint.py::test_compact_really_compacts, conformance/test_single_promises.py::test_manifests_are_read_in_parallel_by_as_many_as_the_setting_says, conformance/test_defaults.py::test_a_setting_has_the_default_of_the_specification |
`state.compaction.*` | as written | the same keys and defaults | conformance/test_single_promises.py::test_compaction_begins_beyond_a_tenth_of_tombstones_and_twenty_manifests, unit/log/checkpoint/test_checkpoint.py::test_removals_that_call_for_compaction, unit/log/checkpoint/test_checkpoint.py::test_a_merge_is_followed_by_a_state, conformance/test_defaults.py::test_a_setting_has_the_default_of_the_specification |
`state.retention.versions` and `hours` | as written | the same keys and defaults | unit/model/test_retention.py::test_states_are_kept_by_number_and_by_age, conformance/test_defaults.py::test_by_default_states_stay_for_a_week_and_the_two_newest_longer |
Required fields of the JSON schemas | as written | a version that no reader would accept is refused | unit/table/test_refused_values.py::test_no_commit_can_write_what_cannot_be_read, unit/table/test_refused_values.py::test_a_split_of_the_wrong_types_is_refused_where_it_is_added |
CHECKPOINT migrates the registry | as written | a state's mappings reach a JSON checkpoint and back | unit/log/checkpoint/test_legacy.py::test_a_state_in_the_registry_reaches_a_json_checkpoint, conformance/test_older_tables.py::test_a_checkpoint_upgrades_a_table_and_changes_no_data_file |
The downgraded table opens in an older engine | as written | a reader written from 000 opens it | unit/table/test_admin.py::test_a_table_that_was_downgraded_opens_in_a_reader_of_protocol_2 |
A downgrade with newer features in use | more | refused with their list | unit/table/test_admin.py::test_what_an_older_engine_could_not_handle_is_listed_and_nothing_changes |
""",
    "003": """
ACID: one file per version, conditional put | as written | held by rules R1 to R17, each with a test that fails without it | torture/test_rules_switched_off.py |
Partition columns must exist in the schema | as written | refused by name | unit/model/test_schema.py::test_bad_partition_columns_are_refused |
Durability | more | fsync of file and folder before a commit is told | unit/storage/test_local.py::test_put_if_absent |
Metadata is in version 0 and can be updated | as written | the latest wins | unit/model/test_snapshot.py::test_latest_metadata_protocol_and_txn_win |
Remove is logical; files stay until vacuumed | as written | kept from the removal on | unit/upkeep/test_purge.py::test_a_removed_split_is_kept_from_its_removal_on |
Checkpoints leave out removes and skips | otherwise | live skips, txn and recent ids are kept | unit/log/checkpoint/test_checkpoint.py::test_everything_but_the_files_survives_in_the_state | a cooldown must outlive a checkpoint
Checkpoint when `version % interval == 0` | otherwise | when interval versions have passed since the last | unit/log/checkpoint/test_checkpoint.py::test_a_state_after_every_interval | a missed one is made up for by the next commit
Versions after a checkpoint are read in parallel | as written | from remote stores; local files are read fastest one by one | conformance/test_single_promises.py::test_versions_are_read_in_parallel_by_as_many_as_the_setting_says |
Retention gates: age, covered, not current | as written | see 000 | unit/model/test_retention.py::test_a_young_version_keeps_the_base_it_needs_and_all_between |
`cleanup.failurePolicy` continue or fail | as written | fail raises CleanupError after the commit | unit/table/test_kept_promises.py::test_a_failed_clean_up_is_raised_where_that_is_asked_for_and_the_rows_are_in |
Caches: protocol, metadata, versions, files, versions list | as written | named kinds; all but version files are parts of the newest snapshot | unit/table/test_log_verbs.py::test_the_specifications_kinds_have_their_hit_rates |
Cache statistics with hit rates | as written | per kind and per table | unit/table/test_kept_promises.py::test_figures_of_the_cache_are_of_the_table |
`transaction.useOptimized` chooses an implementation | otherwise | accepted; says once that there is one | unit/test_config.py::test_the_choice_of_an_implementation_is_accepted_and_answered | one implementation, the optimized one
Backward listing for metadata | otherwise | states hold it | unit/log/checkpoint/test_checkpoint.py::test_opening_costs_four_requests_and_listing_one_more_per_manifest | nothing has to be searched
Checkpoint integrity by checksum | as written | manifests by the checksum in their name, other forms by one in the file | unit/log/test_swapped_checkpoints.py::test_swapped_manifests_are_written_anew_and_cover_nothing_meanwhile |
Stale reads for who allows them | as written | Table.open(max_staleness=) | unit/table/test_log_verbs.py::test_staleness_is_allowed_where_it_is_asked_for |
Streaming checkpoint creation | as written | every form is written a few files at a time | unit/log/checkpoint/test_memory.py::test_a_checkpoint_of_six_times_as_many_files_takes_little_more_memory |
Thread pools for listing, version reading, checkpoint creation | as written | and for manifests, splits and merges; sized by settings | unit/test_pools.py::test_threads_stay_for_the_next_call_and_a_larger_setting_gets_more |
recordSkippedFile(path, reason, operation, partitionValues, size, cooldownHours) | as written | table.admin.record_skipped_file | unit/table/test_admin.py::test_a_skip_says_where_the_split_is_and_how_large |
Files in cooldown are filtered | as written | and counted and logged | unit/test_metrics.py::test_the_log_says_what_happened |
Skipped again after the cooldown | as written | the count goes on | unit/upkeep/test_merge.py::test_a_source_that_fails_again_after_its_cooldown_is_skipped_for_longer |
Every addition and removal of a split is tracked | as written | action by action | unit/commands/test_execution.py::test_the_log_is_told_action_by_action |
Audit | as written | history tells who did what | unit/commands/test_execution.py::test_history_shows_what_was_committed_newest_first |
Zero-padded numbers of 20 digits | as written | a file that cannot be a version is passed over and reported | unit/log/test_crafted_files.py::test_a_file_of_a_version_that_cannot_be_is_passed_over_and_reported |
Familiar to who knows Delta Lake | more | its statements too | unit/commands/test_upkeep_commands.py::test_the_words_of_delta_lake_do_what_ours_do |
Overwrite is atomic | as written | one version | unit/table/test_row_verbs.py::test_overwriting_everything |
The schema is checked at creation | as written | a bad one creates nothing | unit/table/test_log_verbs.py::test_a_bad_schema_creates_nothing |
Values of settings are checked | as written | key, value and range are named | unit/test_config.py::test_a_bad_value_names_key_value_and_range |
Partition values are checked | as written | they must name the partition columns | unit/table/test_log_verbs.py::test_partition_values_must_name_the_partition_columns |
Version collisions are detected | as written | an answer that misleads is seen through | faults/test_commit_faults.py::test_two_hundred_commits_with_a_misleading_answer_each |
Optimistic, without locks | as written | the same | interleave/test_commits.py::test_two_writers_and_a_cleaner |
Clean-up removes only what a checkpoint holds | as written | and that was just proven | unit/log/test_cleaning.py::test_everything_before_the_newest_state_goes, unit/model/test_retention.py::test_nothing_without_a_checkpoint, unit/log/test_cleaning.py::test_a_cleaner_stops_when_the_state_it_counted_on_has_gone |
The counter follows the store | otherwise | there is none: the next number is read | interleave/test_commits.py::test_without_looking_for_the_predecessor_r4_a_commit_is_lost | a counter in one process says nothing about others
The protocol is updated when a table is upgraded | as written | in a version | unit/table/test_log_verbs.py::test_the_protocol_is_raised_and_never_lowered |
Clients that are too old are kept out | as written | also another engine, once we have written | golden/test_two_engines.py::test_the_first_write_keeps_the_other_engine_out |
metaData: name and description are optional | as written | and can be changed and unset | unit/table/test_log_verbs.py::test_metadata_can_be_changed_and_unset |
numRecords for statistics and sizing | as written | counts come from it | unit/table/test_row_verbs.py::test_counting |
Footer offsets save requests | as written | a split is opened in one request | budget/test_split_requests.py |
Removed files serve time travel | as written | the same | unit/table/test_log_verbs.py::test_time_travel_by_version_and_by_moment |
Vacuum deletes them after their time | as written | PURGE, VACUUM | unit/upkeep/test_purge.py::test_a_removed_split_is_kept_from_its_removal_on |
Skips do not fail the job | as written | the same | unit/upkeep/test_merge.py::test_a_missing_source_is_skipped |
Skips are visible | as written | with their cooldown | unit/commands/test_execution.py::test_skipped_files_are_shown_with_their_cooldown |
A cached version is not read again | as written | by the identity of its file | budget/test_log_requests.py::test_looking_again_costs_one |
An unknown action is an error | otherwise | kept and shown | unit/wire/test_version_file.py::test_unknown_fields_and_keys_survive_a_round_trip | 000 says that it is ignored
A cached file list is used | as written | while nothing was committed | unit/table/test_log_verbs.py::test_the_specifications_kinds_have_their_hit_rates |
A checkpoint holds the latest protocol and metadata | as written | and what else survives | unit/log/checkpoint/test_checkpoint.py::test_everything_but_the_files_survives_in_the_state |
The pointer may hold a version alone | as written | read; ours holds more | unit/wire/test_old_checkpoints.py::test_the_first_pointers_had_a_version_only |
`checkpoint.parallelism` 4 | otherwise | 8, as 000 has it | unit/test_config.py::test_every_key_of_the_specification_is_taken_from_a_session | 000 and 001 say 8
`checkpoint.read.timeoutSeconds` 30 | otherwise | 60, as 000 has it | unit/table/test_kept_promises.py::test_reading_the_log_gives_up_when_it_was_told_to | 000 says 60
Increments are applied in order | as written | however they were read | unit/model/test_snapshot.py::test_a_delta_is_laid_over_the_base |
`cleanup.enabled` | as written | the same key | unit/log/test_cleaning.py::test_no_clean_up_where_it_is_not_wanted |
A file that cannot be deleted | as written | is reported, or raised if the policy says so | unit/log/test_cleaning.py::test_failed_deletions_are_reported_or_raised |
A file of unknown age | more | stays | unit/model/test_retention.py::test_unknown_age_is_kept |
Files before the checkpoint are not read | as written | nor listed | unit/log/checkpoint/test_checkpoint.py::test_opening_costs_four_requests_and_listing_one_more_per_manifest |
Protocol and metadata survive writes in the cache | as written | a look that changes neither is a hit | conformance/test_single_promises.py::test_protocol_and_metadata_are_still_known_after_a_write |
Versions, files and their list are renewed by writes | as written | the same | unit/table/test_log_verbs.py::test_the_specifications_kinds_have_their_hit_rates |
invalidateProtocol, invalidateMetadata, invalidateAll | as written | invalidate_cache(kind=) | unit/table/test_log_verbs.py::test_one_kind_is_forgotten_alone |
`maximumSize(1000)` versions | otherwise | a bound in bytes, `transaction.cache.maxSize`: the highest that a process opened a table with | conformance/test_single_promises.py::test_the_log_cache_holds_no_more_bytes_than_its_bound, conformance/test_single_promises.py::test_the_bound_of_the_log_cache_is_the_setting_also_a_low_one | versions differ in size by a thousand times
A cache never hides a table made anew | more | known by the identity of its files | unit/table/test_log_verbs.py::test_a_table_made_anew_at_the_same_place_is_not_mistaken_for_the_old |
Asynchronous updates within the tolerance | as written | by a thread, from half of it on | unit/table/test_log_verbs.py::test_who_allows_staleness_has_the_store_asked_beside_and_never_waits |
Pools are shut down | as written | at exit; a forked child has its own | unit/test_pools.py::test_a_process_ends_with_its_threads_and_its_last_words_still_read |
A skip counts on from the one before | as written | the same | unit/table/test_log_verbs.py::test_skips_are_recorded_counted_and_expire |
recordSkippedFile logs what it did | as written | INFO | unit/test_metrics.py::test_the_log_says_what_happened |
isFileInCooldown, getFilesInCooldown | as written | skipped_files() tells until when | unit/commands/test_execution.py::test_skipped_files_are_shown_with_their_cooldown |
Merges leave files in cooldown alone | as written | also recorded by hand | unit/table/test_admin.py::test_merges_leave_a_recorded_split_alone |
Skipped files are not removed | as written | their rows are read; a purge leaves the skip | unit/upkeep/test_purge.py::test_skips_in_cooldown_survive |
""",
    "004": """
Parquet checkpoints in `_checkpoints/` with a JSON beside them | as written | `state.format=parquet` | unit/wire/test_old_checkpoints.py::test_a_parquet_checkpoint_comes_back |
CheckpointEntry columns | more | and every other field of an add | conformance/test_single_promises.py::test_a_parquet_checkpoint_has_the_columns_of_its_design_and_tells_actions_apart, unit/wire/test_old_checkpoints.py::test_a_parquet_checkpoint_with_the_columns_of_its_design_only |
`checkpoint.compression` | as written | snappy, zstd, gzip, none | unit/wire/test_old_checkpoints.py::test_the_parquet_codec_is_the_one_asked_for |
`checkpoint.maxFileSize` (128 MB) | as written | further parts beyond it | unit/log/checkpoint/test_legacy_parts.py::test_a_parquet_checkpoint_goes_on_in_further_parts |
`checkpoint.enabled` | as written | no checkpoints are written | unit/log/checkpoint/test_checkpoint.py::test_no_state_when_checkpoints_are_off |
With `checkpoint.enabled=false` readers replay | as written | where all versions are there; else the checkpoint is used | unit/log/checkpoint/test_legacy_parts.py::test_without_checkpoints_a_reader_replays_every_version |
`checkpoint.retention` (30 versions) | as written | the same | unit/model/test_retention.py::test_versions_are_kept_by_number_too |
Background checkpoint creation | as written | `checkpoint.async.enabled`, waited for at exit | unit/log/checkpoint/test_background.py::test_the_end_of_a_process_waits_for_it |
Incremental checkpoints | as written | Avro states | unit/log/checkpoint/test_checkpoint.py::test_bytes_written_follow_the_change_not_the_table |
CheckpointWriteError | as written | logged, counted, tried again; never a failed commit | unit/log/checkpoint/test_background.py::test_a_failure_is_logged_and_counted_and_tried_again |
CheckpointValidationError, CheckpointCorruptionError | as written | the first where one written does not prove right, the second where one read does not | conformance/test_single_promises.py::test_a_checkpoint_that_does_not_prove_right_is_an_error_and_the_pointer_stays, unit/log/checkpoint/test_legacy_parts.py::test_a_part_that_is_not_there_or_not_right_is_damage_and_healed |
Validation before cleanup; the previous checkpoint is kept until then | as written | the pointer moves after the new one was read back | unit/upkeep/test_cover.py::test_a_damaged_checkpoint_is_written_anew_under_another_name |
Corrupted checkpoints are recreated | as written | by the next checkpoint, CHECKPOINT and repair | unit/upkeep/test_cover.py::test_the_next_checkpoint_that_is_due_heals_too |
Metrics: creation time and size, compression, load time, files cleaned | as written | and more | unit/test_metrics.py::test_a_scraper_reads_the_metrics_of_the_page |
Log lines for checkpoints, cleaning, loads | as written | INFO | unit/test_metrics.py::test_the_log_says_what_happened |
Local, HDFS and S3 | more | and Azure and Google | contract/test_stores.py, contract/test_hdfs.py |
CheckpointMetadata: version, size, parts, createdTime | as written | in the JSON beside it | unit/wire/test_old_checkpoints.py::test_a_parquet_checkpoint_comes_back |
actionType tells add, remove and metadata apart | as written | add, metadata and others; a checkpoint holds no removes | conformance/test_single_promises.py::test_a_parquet_checkpoint_has_the_columns_of_its_design_and_tells_actions_apart, unit/wire/test_old_checkpoints.py::test_a_parquet_checkpoint_comes_back |
A checkpoint when interval commits have passed | as written | the same | unit/log/checkpoint/test_checkpoint.py::test_a_state_after_every_interval |
A checkpoint that Spark wrote is a folder | as written | read | unit/log/checkpoint/test_legacy.py::test_a_parquet_checkpoint_that_spark_wrote_is_a_folder |
The highest checkpoint is found without a pointer | as written | by listing | unit/log/checkpoint/test_checkpoint.py::test_whatever_the_pointer_says_the_table_opens |
Transactions since the checkpoint are applied | as written | the same | unit/log/checkpoint/test_legacy.py::test_a_checkpoint_stands_for_the_versions_before_it |
Without a checkpoint the versions are replayed | as written | the same | unit/log/checkpoint/test_legacy_parts.py::test_without_checkpoints_a_reader_replays_every_version |
Multi-part checkpoints for very large tables | as written | by size and by count | unit/log/checkpoint/test_legacy_parts.py::test_a_json_checkpoint_goes_on_by_size |
Memory of O(active files) | more | creation passes a few at a time through memory | unit/log/checkpoint/test_legacy_parts.py::test_a_large_checkpoint_passes_through_memory_a_few_files_at_a_time |
Tables without checkpoints keep working | as written | the same | unit/log/checkpoint/test_checkpoint.py::test_no_state_when_checkpoints_are_off |
Authentication and configuration of the store are those of the log | as written | one store for both | unit/storage/test_spec.py::test_settings_are_taken_as_the_kind_of_store_needs_them |
A checkpoint that cannot be read is passed over | as written | with a warning | unit/log/checkpoint/test_legacy.py::test_a_damaged_checkpoint_falls_back_to_the_versions, golden/test_broken_tables.py::test_one_broken_file |
The previous checkpoint stays until the new one is proven | as written | a damaged one gets a successor of another name | unit/upkeep/test_cover.py::test_a_damaged_checkpoint_is_written_anew_under_another_name |
Damage that cannot be healed | more | is an error, and nothing is deleted | unit/upkeep/test_cover.py::test_damage_that_cannot_be_healed_is_an_error_and_nothing_is_deleted |
Compressed JSON for small tables | as written | gzip | unit/wire/test_old_checkpoints.py::test_json_lines_plain_or_gzipped |
Background creation ends with the process | as written | bounded | unit/log/checkpoint/test_background.py::test_the_end_of_a_process_waits_for_it |
Multi-version checkpoints for time travel | as written | several states are kept; any base at or below a version serves it | unit/model/test_retention.py::test_what_must_stay_readable_stays_readable_at_every_step |
Cross-table checkpoints | absent | a checkpoint is of one table | docs | docs/adr/{adr}
Checkpoint replication across locations | as written | `checkpoint.replica.location`; `Table.repair(path, from_replica=)` proves it and uses it | unit/log/test_replica.py::test_a_table_that_nothing_else_can_bring_back_comes_back |
""",
}


def promises(adr: str = "0013-checkpoints-are-of-one-table-and-in-one-place.md") -> list[Promise]:
    """The whole table."""
    rows = []
    for text, lines in _ROWS.items():
        for line in lines.strip().splitlines():
            cells = [cell.strip() for cell in line.replace("{adr}", adr).split(" | ")]
            cells[-1] = cells[-1].removesuffix(" |").strip()
            rows.append(Promise(text, *cells, *[""] * (5 - len(cells))))
    return rows

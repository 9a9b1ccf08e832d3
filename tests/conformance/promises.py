"""Every promise of the five texts of the specification: what is done here, the test that shows it, and why if it differs.

The texts: 000 the table protocol 1.0, 001 the table protocol 2.1, 002 the wire protocol, 003 the transaction log system,
004 the design of checkpoints. A row is `promise | how | what is done | test | why`. `how` is `as written`, `otherwise` (done
in another way, with the reason), `more` (beyond what is asked), or `absent` (with the decision that argues it).
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
Version files are `{version:020d}.json` of JSON lines | as written | the same name and lines | unit/wire/test_version_file.py::test_names_on_disk_are_camel_case_required_fields_are_written_and_absent_ones_left_out |
Log files are write-once | as written | created if absent, never replaced; only the pointer is overwritten | interleave/test_commits.py::test_three_writers |
Version 0 holds protocol and metaData, and cannot be overwritten | as written | a second creation is TableExistsError | unit/table/test_log_verbs.py::test_creating_twice |
Version 0 is never deleted | otherwise | goes once a proven checkpoint covers it | unit/log/test_cleaning.py::test_everything_before_the_newest_state_goes | 001, which is newer, says so
Readers and writers check the protocol first | as written | versions and features, before anything else is used | unit/table/test_log_verbs.py::test_a_protocol_too_new_is_named |
Unknown fields and actions are ignored | more | ignored and kept where a file is rewritten | unit/wire/test_version_file.py::test_unknown_fields_and_keys_survive_a_round_trip |
The five actions with their fields | as written | all fields, and commitInfo and txn beside them | unit/wire/test_version_file.py::test_every_action_survives |
AddAction paths are absolute | otherwise | relative; absolute ones under the root are read | unit/table/test_log_verbs.py::test_paths_under_the_root_are_made_relative | 002 says relative; a table can be moved then
Skips record path, reason, operation, partition, size, retryAfter, skipCount | as written | every skip has all of them | unit/table/test_admin.py::test_a_skip_says_where_the_split_is_and_how_large |
Append, overwrite and merge are one version each | as written | removes and adds in one file | unit/table/test_row_verbs.py::test_overwriting_everything |
Conditional writes: If-None-Match on S3 | as written | and its like on Azure, Google, HDFS and local disk | contract/test_race.py |
A lost race is an IllegalStateException | otherwise | tried again on the newest version; ConflictError where it cannot stand beside what others did | faults/test_lost_races.py | 001 wants retries
Atomic version counter | otherwise | the store decides: the next version is read from it | interleave/test_commits.py::test_two_writers_and_one_fault | a counter in one process says nothing about others
A checkpoint every N versions (10) | as written | `checkpoint.interval` | unit/log/checkpoint/test_checkpoint.py::test_a_state_after_every_interval |
Checkpoint content: protocol, metaData, add list in one object | as written | with `checkpoint.json.layout=object`; Avro state otherwise | unit/log/checkpoint/test_legacy_parts.py::test_the_single_object_is_as_specified_and_read_back |
Reading starts at the checkpoint and applies what follows | as written | newest usable base, then contiguous versions | unit/log/checkpoint/test_legacy.py::test_a_checkpoint_stands_for_the_versions_before_it |
`_last_checkpoint` names version and time | as written | a hint: whatever it says the table opens | unit/log/checkpoint/test_checkpoint.py::test_whatever_the_pointer_says_the_table_opens |
Retention: log 30 days, checkpoints 2 hours, failure policy, dry run | as written | the same keys and defaults | unit/log/test_cleaning.py::test_the_clean_up_after_a_checkpoint |
Deleted only if old, covered and not current | more | and only if the cover was just read and proven | unit/upkeep/test_cover.py::test_no_cleaner_takes_a_damaged_checkpoint_for_cover |
The last action on a path wins | as written | within and across versions | unit/model/test_snapshot.py::test_the_last_action_on_a_path_wins_within_and_across_versions |
Read committed, no dirty reads, no lost updates | as written | every schedule of writers, cleaners and readers is run | interleave/test_checkpoints.py::test_a_reader_beside_a_writer_and_an_upkeeper |
Caches with a TTL of 5 minutes | otherwise | `transaction.cache.expirationSeconds`, 0 by default; one listing tells what is new | unit/table/test_log_verbs.py::test_staleness_is_allowed_where_it_is_asked_for | a stale answer without being asked is a wrong answer; 300 is honoured where set
Caches can be emptied and turned off | as written | invalidate_cache(), the statement, `transaction.cache.enabled` | unit/commands/test_execution.py::test_invalidating_makes_the_next_read_go_to_the_store |
Partition values in adds prune files | as written | typed by the schema | unit/model/test_pruning.py::test_partition_values_are_exact |
A gap in the versions ends the table at the gap | otherwise | LogGapError that names it; the version before opens by number | unit/table/test_log_verbs.py::test_a_hole_in_the_log_is_named | a shorter table without an error is lost data
A checkpoint that cannot be read falls back to the versions | as written | with a warning | unit/log/checkpoint/test_legacy.py::test_a_damaged_checkpoint_falls_back_to_the_versions |
Corrupted version 0: "No transaction log found" | as written | TableNotFoundError, and the repair from splits | unit/upkeep/test_repair.py::test_rows_and_answers_come_back_from_the_splits_alone |
upgradeProtocol writes the next version | as written | upgrade_protocol(); never lowered by it | unit/table/test_log_verbs.py::test_the_protocol_is_raised_and_never_lowered |
Schema evolution is not supported | more | columns can be added and more | unit/table/test_row_verbs.py::test_columns_are_added_when_asked |
Planned: deletion vectors | more | deletes mark rows in place | unit/upkeep/test_deletion_vectors.py::test_every_answer_is_that_of_a_table_without_the_rows |
Planned: multi-part checkpoints | as written | JSON and Parquet, beyond `checkpoint.maxFileSize` | unit/log/checkpoint/test_legacy_parts.py::test_a_parquet_checkpoint_goes_on_in_further_parts |
Planned: incremental checksums | as written | every file of a checkpoint has one, read back before the pointer moves | unit/log/test_swapped_checkpoints.py::test_another_checkpoint_is_not_taken_for_the_table |
Considered: time travel queries | as written | by version and by moment | unit/table/test_log_verbs.py::test_time_travel_by_version_and_by_moment |
Considered: VACUUM and OPTIMIZE | as written | with a path in quotes, beside PURGE and MERGE SPLITS | unit/commands/test_upkeep_commands.py::test_the_words_of_delta_lake_do_what_ours_do |
Considered: change data feed | more | changes between versions as rows | unit/table/test_changes.py::test_the_feed_leads_from_version_to_version |
Considered: liquid clustering | more | splits sorted by columns | unit/upkeep/test_clustering.py::test_rows_are_sorted_and_found_as_before |
Parallel reading: `checkpoint.parallelism`, `checkpoint.read.timeoutSeconds` | as written | for remote stores; the time limit holds everywhere | unit/table/test_kept_promises.py::test_reading_the_log_gives_up_when_it_was_told_to |
""",
    "001": """
V4: Avro state with shared manifests is what new tables have | as written | the same schema and names | unit/wire/test_manifest.py::test_the_schema_is_the_formats |
Tables of V1 to V3 are read and upgraded by a checkpoint | as written | the protocol is raised in a version of its own first | unit/log/checkpoint/test_legacy.py::test_a_checkpoint_upgrades_to_the_current_form |
State writes are incremental: O(delta) | as written | one new manifest, others named | unit/log/checkpoint/test_checkpoint.py::test_bytes_written_follow_the_change_not_the_table |
Manifests are pruned by partition bounds | more | and by bounds of columns | unit/log/checkpoint/test_checkpoint.py::test_parts_that_cannot_match_are_not_fetched |
Manifests are read in parallel (8) | as written | `state.read.parallelism` | unit/log/checkpoint/test_checkpoint.py::test_opening_costs_four_requests_and_listing_one_more_per_manifest |
Optimistic concurrency with retries and backoff | as written | full jitter; the first retries at once | faults/test_contention.py |
10 attempts | otherwise | 1000 attempts within `transaction.retry.maxElapsedMs` (60 s); 10 where set | unit/test_config.py::test_every_key_of_the_specification_is_taken_from_a_session | with many writers ten is not enough, and time is what a caller cares for
State writes are conditional and re-read the base on a retry | as written | losing that race is as good as winning | unit/log/checkpoint/test_checkpoint.py::test_two_writers_do_not_write_the_same_state_twice |
Merge resilience: skipped files stay live and wait for retryAfter | as written | cooldown 24 h, counted | unit/upkeep/test_merge.py::test_a_source_that_cannot_be_read_is_skipped_and_the_rest_goes_on |
Skip state is visible | as written | DESCRIBE INDEXTABLES STATE and SKIPPED FILES | unit/commands/test_execution.py::test_skipped_files_are_shown_with_their_cooldown |
Purge-on-write and merge-on-write | as written | merges in the background | unit/upkeep/test_on_write.py::test_in_the_background |
Checkpoints after MERGE SPLITS | as written | `state.compaction.afterMerge` | unit/log/checkpoint/test_checkpoint.py::test_a_merge_is_followed_by_a_state |
Compaction above 10 % tombstones or 20 manifests | as written | and more than twice as many manifests as full ones would be | unit/log/checkpoint/test_checkpoint.py::test_too_many_manifests_are_merged_and_large_ones_left_alone | a very large table would be compacted every time
COMPACT forces it, sorted by partition, chunks of 50,000, no tombstones | as written | COMPACT is the CHECKPOINT that rewrites everything | unit/log/checkpoint/test_checkpoint.py::test_compact_really_compacts |
DESCRIBE INDEXTABLES STATE | as written | format, version, counts, ratio, whether to compact | unit/commands/test_execution.py::test_a_checkpoint_is_written_and_described |
TRUNCATE TIME TRAVEL with DRY RUN | as written | nothing but the newest version is left | unit/upkeep/test_truncate.py::test_only_the_newest_version_is_left |
State retention: 2 versions, 168 hours | as written | the same keys | unit/model/test_retention.py::test_states_are_kept_by_number_and_by_age |
Manifest garbage collection with a safety window of an hour | as written | `state.gc.minManifestAgeHours` | unit/model/test_retention.py::test_young_manifests_are_left_for_writers_under_way |
PURGE removes orphans, old versions and states | as written | by the store's clock | unit/upkeep/test_purge.py::test_a_dry_run_lists_exactly_what_is_then_deleted |
Schema deduplication by a canonical hash | as written | in version files and states | unit/log/test_recorded_mappings.py::test_a_mapping_is_recorded_once_and_named_by_its_hash |
400 columns do not bloat the log | as written | 40 splits of 400 columns are below 150 KB | unit/log/test_recorded_mappings.py::test_forty_splits_of_four_hundred_columns_are_a_small_version |
Statistics are truncated to 32 characters, partition columns never | more | and stay bounds: a cut maximum is rounded up | unit/model/test_stat_text.py::test_shortened_texts_still_bound |
`dataSkippingNumIndexedCols` (32) | as written | the same | unit/model/test_stats.py::test_which_columns_have_statistics |
Migration: CHECKPOINT upgrades; `DESCRIBE` shows avro-state | as written | no data file changes | golden/test_upkeep.py |
Troubleshooting: REPAIR from split files | as written | rows, partitions, statistics and index settings come back | unit/upkeep/test_repair.py::test_how_columns_are_indexed_comes_back |
""",
    "002": """
State manifest is `_manifest.json` | otherwise | `_manifest.avro` is written, both are read | unit/wire/test_state.py::test_the_json_form | 001, which is newer, says Avro
Version files may be gzip; detected by content | as written | plain, gzip, or two bytes and gzip | unit/wire/test_version_file.py::test_the_three_forms_on_disk_are_told_apart |
Feature flags avroState, multiPartCheckpoint, schemaDeduplication | as written | and parquetSplits, which is ours | unit/model/test_protocol.py::test_what_this_release_writes_it_reads |
metaData configuration holds `docMappingSchema.<hash>` | as written | a version that brings a new mapping records it | unit/log/test_recorded_mappings.py::test_versions_with_mappings_in_every_split_are_read |
Hash: canonical JSON, SHA-256, Base64, 16 characters | as written | URL-safe, as the files of the other engine have it | unit/model/test_schema_registry.py::test_the_hash_of_a_real_table |
Renormalization above 5 references | as written | `state.schema.renormalizeThreshold` | unit/log/checkpoint/test_checkpoint.py::test_many_spellings_of_one_schema_are_merged |
`_last_checkpoint` fields | as written | all of them | unit/wire/test_old_checkpoints.py::test_the_pointer_comes_back_in_the_formats_words |
JSON checkpoint: one gzip file, or a manifest and parts | as written | with checksums of the parts | unit/log/checkpoint/test_legacy.py::test_a_large_json_checkpoint_is_written_in_parts |
ManifestInfo, three forms of manifest paths | as written | all three are resolved | golden/test_tables.py |
FileEntry and its field ids | otherwise | the ids that files on disk have; read by name | unit/wire/test_manifest.py::test_a_foreign_schema_is_read_by_name_with_defaults | files of the other engine differ from the appendix
zstd, snappy or none; level 3 | as written | `state.compression`, `state.compressionLevel` | unit/log/checkpoint/test_checkpoint.py::test_every_codec_can_be_read_back |
numFiles and totalBytes are of live files | more | exact; another number is damage | unit/upkeep/test_verify.py::test_a_state_that_does_not_say_what_the_versions_say |
Statistics are texts, numbers compared as numbers | more | typed by the schema for every type | unit/model/test_pruning.py::test_bounds_and_null_counts |
Retention of the log by `purge.txLogRetentionHours` | as written | the longer of two settings counts | unit/table/test_kept_promises.py::test_the_longer_of_two_retentions_counts_for_the_clean_up |
`largeRemoveThreshold` calls for compaction | as written | the same | unit/log/checkpoint/test_checkpoint.py::test_removals_that_call_for_compaction |
Every key of its configuration reference | as written | accepted in options, sessions and tables | unit/test_config.py::test_every_key_of_the_specification_is_taken_from_a_session |
Emergency downgrade: `state.format=json` and CHECKPOINT | as written | and downgrade_protocol writes the protocol back | unit/table/test_admin.py::test_a_table_that_was_downgraded_opens_in_a_reader_of_protocol_2 |
JSON schemas of the actions | as written | required fields are always written | unit/wire/test_version_file.py::test_names_on_disk_are_camel_case_required_fields_are_written_and_absent_ones_left_out |
""",
    "003": """
ACID: one file per version, conditional put | as written | held by rules R1 to R17, each with a test that fails without it | torture/test_rules_switched_off.py |
Partition columns must exist in the schema | as written | refused by name | unit/model/test_schema.py::test_bad_partition_columns_are_refused |
Durability | more | fsync of file and folder before a commit is told | unit/storage/test_local.py::test_put_if_absent |
Metadata is in version 0 and can be updated | as written | the latest wins | unit/model/test_snapshot.py::test_latest_metadata_protocol_and_txn_win |
Remove is logical; files stay until vacuumed | as written | kept from the removal on | unit/upkeep/test_purge.py::test_a_removed_split_is_kept_from_its_removal_on |
Checkpoints leave out removes and skips | otherwise | live skips, txn and recent ids are kept | unit/log/checkpoint/test_checkpoint.py::test_everything_but_the_files_survives_in_the_state | a cooldown must outlive a checkpoint
Checkpoint when `version % interval == 0` | otherwise | when interval versions have passed since the last | unit/log/checkpoint/test_checkpoint.py::test_a_state_after_every_interval | a missed one is made up for by the next commit
Versions after a checkpoint are read in parallel | as written | from remote stores; local files are read fastest one by one | budget/test_log_requests.py |
Retention gates: age, covered, not current | as written | see 000 | unit/model/test_retention.py::test_a_young_version_keeps_the_base_it_needs_and_all_between |
`cleanup.failurePolicy` continue or fail | as written | fail raises CleanupError after the commit | unit/table/test_kept_promises.py::test_a_failed_clean_up_is_raised_where_that_is_asked_for_and_the_rows_are_in |
Caches: protocol, metadata, versions, files, versions list | otherwise | versions, states, manifests, checkpoints and the newest snapshot, which holds the other kinds | unit/table/test_log_verbs.py::test_the_cache_can_be_looked_at_and_emptied | kept by the identity of immutable files, so that nothing must be invalidated by a write
Cache statistics with hit rates | as written | per kind and per table | unit/table/test_kept_promises.py::test_figures_of_the_cache_are_of_the_table |
`transaction.useOptimized` chooses an implementation | otherwise | accepted; says once that there is one | unit/test_config.py::test_the_choice_of_an_implementation_is_accepted_and_answered | one implementation, the optimized one
Backward listing for metadata | otherwise | states hold it | unit/log/checkpoint/test_checkpoint.py::test_opening_costs_four_requests_and_listing_one_more_per_manifest | nothing has to be searched
Checkpoint integrity by checksum | as written | manifests by the checksum in their name, other forms by one in the file | unit/log/test_swapped_checkpoints.py::test_swapped_manifests_are_written_anew_and_cover_nothing_meanwhile |
Stale reads for who allows them | as written | Table.open(max_staleness=) | unit/table/test_log_verbs.py::test_staleness_is_allowed_where_it_is_asked_for |
Streaming checkpoint creation | as written | every form is written a few files at a time | unit/log/checkpoint/test_legacy_parts.py::test_a_json_checkpoint_goes_on_by_size |
Thread pools for listing, version reading, checkpoint creation | otherwise | bounded threads per call, and two for checkpoints in the background | unit/log/checkpoint/test_background.py::test_at_most_one_at_a_time_for_a_table | idle pools outlive their use and do not survive a fork
recordSkippedFile(path, reason, operation, partitionValues, size, cooldownHours) | as written | table.admin.record_skipped_file | unit/table/test_admin.py::test_a_skip_says_where_the_split_is_and_how_large |
Files in cooldown are filtered | as written | and counted and logged | unit/test_metrics.py::test_the_log_says_what_happened |
Skipped again after the cooldown | as written | the count goes on | unit/upkeep/test_merge.py::test_a_source_that_fails_again_after_its_cooldown_is_skipped_for_longer |
""",
    "004": """
Parquet checkpoints in `_checkpoints/` with a JSON beside them | as written | `state.format=parquet` | unit/wire/test_old_checkpoints.py::test_a_parquet_checkpoint_comes_back |
CheckpointEntry columns | more | and every other field of an add | unit/wire/test_old_checkpoints.py::test_a_parquet_checkpoint_with_the_columns_of_its_design_only |
`checkpoint.compression` | as written | snappy, zstd, gzip, none | unit/wire/test_old_checkpoints.py::test_the_parquet_codec_is_the_one_asked_for |
`checkpoint.maxFileSize` (128 MB) | as written | further parts beyond it | unit/log/checkpoint/test_legacy_parts.py::test_a_parquet_checkpoint_goes_on_in_further_parts |
`checkpoint.enabled` | as written | no checkpoints are written | unit/log/checkpoint/test_checkpoint.py::test_no_state_when_checkpoints_are_off |
With `checkpoint.enabled=false` readers replay | as written | where all versions are there; else the checkpoint is used | unit/log/checkpoint/test_legacy_parts.py::test_without_checkpoints_a_reader_replays_every_version |
`checkpoint.retention` (30 versions) | as written | the same | unit/model/test_retention.py::test_versions_are_kept_by_number_too |
Background checkpoint creation | as written | `checkpoint.async.enabled`, waited for at exit | unit/log/checkpoint/test_background.py::test_the_end_of_a_process_waits_for_it |
Incremental checkpoints | as written | Avro states | unit/log/checkpoint/test_checkpoint.py::test_bytes_written_follow_the_change_not_the_table |
CheckpointWriteError | as written | logged, counted, tried again; never a failed commit | unit/log/checkpoint/test_background.py::test_a_failure_is_logged_and_counted_and_tried_again |
CheckpointValidationError, CheckpointCorruptionError | as written | the first where one written does not prove right, the second where one read does not | unit/log/checkpoint/test_legacy_parts.py::test_a_part_that_is_not_there_or_not_right_is_damage_and_healed |
Validation before cleanup; the previous checkpoint is kept until then | as written | the pointer moves after the new one was read back | unit/upkeep/test_cover.py::test_a_damaged_checkpoint_is_written_anew_under_another_name |
Corrupted checkpoints are recreated | as written | by the next checkpoint, CHECKPOINT and repair | unit/upkeep/test_cover.py::test_the_next_checkpoint_that_is_due_heals_too |
Metrics: creation time and size, compression, load time, files cleaned | as written | and more | unit/test_metrics.py::test_a_scraper_reads_the_metrics_of_the_page |
Log lines for checkpoints, cleaning, loads | as written | INFO | unit/test_metrics.py::test_the_log_says_what_happened |
Local, HDFS and S3 | more | and Azure and Google | contract/test_hdfs.py |
Multi-version checkpoints for time travel | as written | several states are kept; any base at or below a version serves it | unit/model/test_retention.py::test_what_must_stay_readable_stays_readable_at_every_step |
Cross-table checkpoints | absent | a checkpoint is of one table | docs | docs/adr/{adr}
Checkpoint replication across locations | absent | a store's own replication, or `repair`, which needs no checkpoint | docs | docs/adr/{adr}
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

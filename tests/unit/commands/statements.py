"""Every statement as documented: forms that mean the same, the value, the columns, and a wrong form
with its error.
"""

from __future__ import annotations

from dataclasses import dataclass

from indextables.commands import TableName, TablePath
from indextables.commands.caches import (
    DescribeDiskCache,
    DescribeLogCache,
    DescribePrewarmJobs,
    FlushDiskCache,
    FlushSearcherCache,
    InvalidateCache,
    PrewarmCache,
    WaitForPrewarmJobs,
)
from indextables.commands.delta import (
    DescribeDetail,
    DescribeTableHistory,
    NotOffered,
    Optimize,
    RestoreTable,
    Vacuum,
)
from indextables.commands.describe import (
    DescribeComponentSizes,
    DescribeDataSkipping,
    DescribeEnvironment,
    DescribeHistory,
    DescribeMergeJobs,
    DescribeProfiler,
    DescribeProfilerCache,
    DescribeSkippedFiles,
    DescribeState,
    DescribeStorageStats,
    DescribeTransactionLog,
    FlushDataSkipping,
    SwitchProfiler,
)
from indextables.commands.statement import Command
from indextables.commands.upkeep import (
    Checkpoint,
    DropPartitions,
    EraseRows,
    ExpireRows,
    MergeSplits,
    Purge,
    RepairLog,
    Restore,
    TagVersion,
    TruncateTimeTravel,
    UntagVersion,
    Verify,
)
from indextables.model.predicate import parse as predicate

PATH = TablePath("/data/a table")


@dataclass(frozen=True)
class Documented:
    """One statement: `forms` all mean `value`; `wrong` raises an error that holds each of `error`."""

    name: str
    forms: tuple[str, ...]
    value: Command
    columns: str
    wrong: str
    error: tuple[str, ...]


STATEMENTS = (
    Documented(
        "merge",
        (
            "MERGE SPLITS '/data/a table' WHERE day = '2026-01-01' AND n < 3 TARGET SIZE 100M MAX DEST SPLITS 5 "
            "MAX SOURCE SPLITS PER MERGE 20 ORDER BY ts, `a b` DRY RUN",
            'merge splits "/data/a table"\n-- the old ones\nwhere day = "2026-01-01" and n < 3 target size 104857600\n'
            "dry run order by (ts, `a b`) max source splits per merge 20 max dest splits 5;",
            "MERGE SPLITS '/data/a table' /* where */ WHERE (day = '2026-01-01' AND n < 3) MAX DEST SPLITS 5 TARGET SIZE "
            "102400k ORDER BY `ts`,`a b` MAX SOURCE SPLITS PER MERGE 20 DRY RUN ; ",
        ),
        MergeSplits(
            PATH, predicate("day = '2026-01-01' AND n < 3"), 100 << 20, 5, 20, True, ("ts", "a b")
        ),
        "table_path s, status s, merged_files l, merge_groups l, original_size_bytes l, merged_size_bytes l, "
        "skipped_files l, version l, message s",
        "MERGE SPLITS '/p' TARGE SIZE 100M",
        (
            "line 1, column 19: expected WHERE, TARGET SIZE, MAX DEST SPLITS, MAX GROUPS, MAX SOURCE SPLITS PER "
            "MERGE, ORDER BY, REWRITE, DRY RUN "
            "or the end, found 'TARGE'",
            "\n  MERGE SPLITS '/p' TARGE SIZE 100M\n                    ^\n",
            "Did you mean TARGET SIZE? Write: MERGE SPLITS 'path' [WHERE condition] [TARGET SIZE 100M|1G|n]",
        ),
    ),
    Documented(
        "purge",
        (
            "PURGE INDEXTABLE '/data/a table' OLDER THAN 7 DAYS TRANSACTION LOG RETENTION 48 HOURS DRY RUN",
            "purge indextables '/data/a table' older than 168 hours transaction log retention 2 days dry run;",
            "Purge /* it */ IndexTable '/data/a table' dry run transaction log retention 2 DAYS older than 7 days -- now",
        ),
        Purge(PATH, 168, 48, True),
        "table_path s, status s, orphaned_files_found l, orphaned_files_deleted l, size_bytes_deleted l, "
        "retention_hours l, tx_log_files_deleted l, expired_states_found l, expired_states_deleted l, "
        "manifests_deleted l, dry_run b, duration_ms l, message s, splits_with_deleted_rows l, masked_rows l",
        "PURGE INDEXTABEL '/p'",
        ("expected INDEXTABLE, found 'INDEXTABEL'", "Did you mean PURGE INDEXTABLE?"),
    ),
    Documented(
        "erase",
        (
            "ERASE FROM '/data/a table' WHERE email = 'ada@example.org' RETAIN 2 DAYS DRY RUN",
            'erase from "/data/a table" where email = "ada@example.org" dry run retain 48 hours;',
        ),
        EraseRows(PATH, predicate("email = 'ada@example.org'"), 48, True),
        "table_path s, status s, proved b, erased_rows l, erased_masked_rows l, splits_rewritten l, splits_removed l, "
        "files_deleted l, size_bytes_deleted l, retention_hours d, log_retention_hours d, dry_run b, version l, message s",
        "ERASE FROM '/p'",
        (
            "expected WHERE, found the end",
            "Write: ERASE FROM 'path' WHERE condition [RETAIN n DAYS|HOURS] [DRY RUN]",
        ),
    ),
    Documented(
        "drop_partitions",
        (
            "DROP INDEXTABLES PARTITIONS FROM '/data/a table' WHERE month < 10",
            'drop indextable partitions from "/data/a table" where month < 10;',
        ),
        DropPartitions(PATH, predicate("month < 10")),
        "table_path s, status s, partitions_dropped l, splits_removed l, total_size_bytes l, version l, message s",
        "DROP INDEXTABLES PARTITIONS FROM '/p'",
        (
            "expected WHERE, found the end",
            "Write: DROP INDEXTABLES PARTITIONS FROM 'path' WHERE condition",
        ),
    ),
    Documented(
        "checkpoint",
        ("CHECKPOINT INDEXTABLES '/data/a table'", "checkpoint indextable '/data/a table' ;;"),
        Checkpoint(PATH, compact=False),
        "table_path s, status s, checkpoint_version l, num_actions l, num_files l, protocol_version l, "
        "is_multi_part b, num_manifests l",
        "CHECKPOINT INDEXTABLES",
        (
            "expected a path in quotes or the name of a table, found the end",
            "Write: CHECKPOINT INDEXTABLES 'path'",
        ),
    ),
    Documented(
        "compact",
        ("COMPACT INDEXTABLES '/data/a table'", "compact indextable '/data/a table'"),
        Checkpoint(PATH, compact=True),
        "table_path s, status s, checkpoint_version l, num_actions l, num_files l, protocol_version l, "
        "is_multi_part b, num_manifests l",
        "COMPACT INDEXTABLES '/p' NOW",
        ("expected the end, found 'NOW'",),
    ),
    Documented(
        "truncate",
        (
            "TRUNCATE INDEXTABLES TIME TRAVEL '/data/a table' DRY RUN",
            "truncate indextable time travel '/data/a table' dry run",
        ),
        TruncateTimeTravel(PATH, True),
        "table_path s, status s, checkpoint_version l, versions_deleted l, checkpoints_deleted l, files_preserved l, "
        "message s",
        "TRUNCATE INDEXTABLES '/p'",
        ("expected TIME TRAVEL, found \"'/p'\"",),
    ),
    Documented(
        "expire",
        (
            "EXPIRE INDEXTABLES '/data/a table' DRY RUN",
            "expire indextable '/data/a table' dry run;",
        ),
        ExpireRows(PATH, True),
        "table_path s, status s, deleted_rows l, splits_rewritten l, splits_removed l, version l, message s",
        "EXPIRE INDEXTABLES '/p' NOW",
        ("expected DRY RUN or the end, found 'NOW'",),
    ),
    Documented(
        "tag",
        (
            "TAG INDEXTABLES '/data/a table' VERSION 12 AS 'release-7'",
            "tag indextable '/data/a table' version 12 as 'release-7';",
        ),
        TagVersion(PATH, "release-7", 12),
        "table_path s, tag s, tagged_version l, version l",
        "TAG INDEXTABLES '/p' 'release-7'",
        ("expected VERSION or AS, found \"'release-7'\"",),
    ),
    Documented(
        "untag",
        (
            "UNTAG INDEXTABLES '/data/a table' 'release-7'",
            "untag indextable '/data/a table' 'release-7';",
        ),
        UntagVersion(PATH, "release-7"),
        "table_path s, tag s, version l",
        "UNTAG INDEXTABLES '/p'",
        ("expected a tag in quotes",),
    ),
    Documented(
        "repair",
        (
            "REPAIR INDEXFILES TRANSACTION LOG '/data/a table' AT LOCATION 's3://b/copy'",
            "repair indexfiles transaction log '/data/a table' at location \"s3://b/copy\";",
        ),
        RepairLog(PATH, "s3://b/copy"),
        "source_path s, target_path s, source_version l, total_splits i, valid_splits i, missing_splits i, status s, "
        "message s",
        "REPAIR INDEXTABLES TRANSACTION LOG '/p'",
        ("expected INDEXFILES TRANSACTION LOG", "Did you mean REPAIR INDEXFILES TRANSACTION LOG?"),
    ),
    Documented(
        "restore",
        (
            "RESTORE INDEXTABLES '/data/a table' TO VERSION 12",
            "restore indextable '/data/a table' to version 12;",
        ),
        Restore(PATH, version=12),
        "table_path s, version l, restored_version l, files_added l, files_removed l",
        "RESTORE INDEXTABLES '/p' TO TIMESTAMP 'yesterday'",
        ("'yesterday' is not a timestamp", "2026-01-31T12:00:00Z"),
    ),
    Documented(
        "verify",
        ("VERIFY INDEXTABLES '/data/a table' FULL", "verify indextable '/data/a table' full"),
        Verify(PATH, True),
        "check s, severity s, path s, message s",
        "VERIFY INDEXTABLES '/p' FUL",
        ("expected FULL or the end, found 'FUL'", "Did you mean FULL?"),
    ),
    Documented(
        "state",
        (
            "DESCRIBE INDEXTABLES STATE '/data/a table'",
            "describe indextable state '/data/a table';",
        ),
        DescribeState(PATH),
        "table_path s, format s, version l, latest_version l, num_files l, num_manifests l, num_tombstones l, "
        "tombstone_ratio d, total_bytes l, needs_compaction b, num_skipped l, protocol_version i",
        "DESCRIBE INDEXTABLES STAT '/p'",
        ("expected STATE, TRANSACTION LOG, HISTORY,", "Did you mean DESCRIBE INDEXTABLES STATE?"),
    ),
    Documented(
        "transaction_log",
        (
            "DESCRIBE INDEXTABLES TRANSACTION LOG '/data/a table' INCLUDE ALL",
            "describe indextable transaction log '/data/a table' include all",
        ),
        DescribeTransactionLog(PATH, True),
        "version l, log_file_path s, action_type s, path s, partition_values s, size l, data_change b, tags s, "
        "modification_time ts, stats s, min_values s, max_values s, num_records l, footer_start_offset l, "
        "footer_end_offset l, hotcache_start_offset l, hotcache_length l, has_footer_offsets b, time_range_start s, "
        "time_range_end s, split_tags s, delete_opstamp l, num_merge_ops i, doc_mapping_json s, doc_mapping_ref s, "
        "uncompressed_size_bytes l, deletion_timestamp ts, extended_file_metadata b, skip_timestamp ts, skip_reason s, "
        "skip_operation s, skip_retry_after ts, skip_count i, protocol_min_reader_version i, "
        "protocol_min_writer_version i, protocol_reader_features s, protocol_writer_features s, metadata_id s, "
        "metadata_name s, metadata_description s, metadata_format_provider s, metadata_format_options s, "
        "metadata_schema_string s, metadata_partition_columns s, metadata_configuration s, metadata_created_time ts, "
        "added_at_version l, added_at_timestamp ts, companion_source_files s, companion_delta_version l, "
        "companion_fast_field_mode s, deletion_vector s, deleted_records l, "
        "txn_app_id s, txn_version l, txn_last_updated ts, commit_txn_id s, "
        "commit_timestamp ts, commit_operation s, commit_operation_parameters s, commit_operation_metrics s, "
        "commit_user_metadata s, commit_engine_info s, unknown_fields s, is_checkpoint b",
        "DESCRIBE INDEXTABLES TRANSACTION LOGS '/p'",
        ("expected LOG, found 'LOGS'", "Did you mean DESCRIBE INDEXTABLES TRANSACTION LOG?"),
    ),
    Documented(
        "history",
        (
            "DESCRIBE INDEXTABLES HISTORY '/data/a table' LIMIT 10",
            "describe indextable history '/data/a table' limit 10",
        ),
        DescribeHistory(PATH, 10),
        "version l, timestamp ts, operation s, operation_parameters s, operation_metrics s, user_metadata s, "
        "engine_info s, is_readable b, tags s",
        "DESCRIBE INDEXTABLES HISTORY '/p' LIMIT -1",
        ("expected a whole number, found '-'",),
    ),
    Documented(
        "skipped_files",
        (
            "DESCRIBE INDEXTABLES SKIPPED FILES '/data/a table'",
            "describe indextable skipped files '/data/a table'",
        ),
        DescribeSkippedFiles(PATH),
        "path s, reason s, operation s, skip_count i, skipped_at ts, retry_after ts, in_cooldown b",
        "DESCRIBE INDEXTABLES SKIPPED '/p'",
        ("expected FILES, found \"'/p'\"",),
    ),
    Documented(
        "component_sizes",
        (
            "DESCRIBE INDEXTABLES COMPONENT SIZES '/data/a table' WHERE day IN ('a', 'b')",
            "describe indextable component sizes '/data/a table' where `day` in ('a', 'b');",
        ),
        DescribeComponentSizes(PATH, predicate("day IN ('a', 'b')")),
        "split_path s, partition_values s, component s, field s, size_bytes l",
        "DESCRIBE INDEXTABLES COMPONENT SIZES '/p' WHERE day IN ()",
        ("line 1, column 57: expected a column, a value or '(', found ')'",),
    ),
    Documented(
        "merge_jobs",
        ("DESCRIBE INDEXTABLES MERGE JOBS", "describe indextable merge jobs;"),
        DescribeMergeJobs(),
        "job_id s, table_path s, status s, total_groups l, completed_groups l, progress_pct d, duration_ms l, "
        "error_message s",
        "DESCRIBE INDEXTABLES MERGE JOBS '/p'",
        ("expected the end, found \"'/p'\"",),
    ),
    Documented(
        "storage_stats",
        ("DESCRIBE INDEXTABLES STORAGE STATS", "describe indextable storage stats;"),
        DescribeStorageStats(),
        "table_path s, store s, verb s, requests l, failures l, bytes l, seconds d, executor s, host s",
        "DESCRIBE INDEXTABLES STORAGE",
        ("expected STATS, found the end",),
    ),
    Documented(
        "environment",
        ("DESCRIBE INDEXTABLES ENVIRONMENT", "describe indextable environment -- all of it"),
        DescribeEnvironment(),
        "host s, role s, property_type s, property_name s, property_value s",
        "DESCRIBE INDEXTABLES ENVIRONMENT FOR me",
        ("expected the end, found 'FOR'",),
    ),
    Documented(
        "disk_cache",
        ("DESCRIBE INDEXTABLES DISK CACHE", "describe indextable disk cache"),
        DescribeDiskCache(),
        "executor s, host s, bytes l, splits l, hits l, misses l, hit_rate d",
        "DESCRIBE INDEXTABLES DISK",
        ("expected CACHE, found the end",),
    ),
    Documented(
        "enable profiler",
        ("ENABLE INDEXTABLES PROFILER", "enable tantivy4spark profiler;"),
        SwitchProfiler(on=True),
        "status s, host_count i, message s",
        "ENABLE INDEXTABLES PROFILR",
        ("Did you mean ENABLE INDEXTABLES PROFILER?",),
    ),
    Documented(
        "reset profiler",
        ("RESET INDEXTABLES PROFILER", "reset tantivy4spark profiler"),
        DescribeProfiler(reset=True),
        "section s, category s, calls l, total_ms d, avg_us d, min_us d, max_us d",
        "RESET INDEXTABLES PROFILER NOW",
        ("found 'NOW'",),
    ),
    Documented(
        "profiler cache",
        ("DESCRIBE INDEXTABLES PROFILER CACHE", "describe tantivy4spark profiler cache"),
        DescribeProfilerCache(reset=False),
        "cache s, hits l, misses l, hit_rate d",
        "DESCRIBE INDEXTABLES PROFILER CACHE 'p'",
        ("expected the end",),
    ),
    Documented(
        "data skipping",
        ("DESCRIBE INDEXTABLES DATA SKIPPING STATS", "describe tantivy4spark data skipping stats;"),
        DescribeDataSkipping(),
        "metric_type s, metric_name s, metric_value s",
        "DESCRIBE INDEXTABLES DATA SKIPPING",
        ("expected STATS, found the end",),
    ),
    Documented(
        "flush data skipping",
        (
            "INVALIDATE INDEXTABLES DATA SKIPPING CACHE",
            "invalidate tantivy4spark data skipping cache",
        ),
        FlushDataSkipping(caches=True),
        "status s, message s",
        "FLUSH INDEXTABLES DATA SKIPPING",
        ("expected STATS, found the end",),
    ),
    Documented(
        "flush",
        ("FLUSH INDEXTABLES DISK CACHE", "flush indextable disk cache;"),
        FlushDiskCache(),
        "executor s, host s, bytes_freed l, splits_freed l",
        "FLUSH INDEXTABLES CACHE",
        ("expected DATA SKIPPING STATS, DISK CACHE or SEARCHER CACHE, found 'CACHE'",),
    ),
    Documented(
        "prewarm",
        (
            "PREWARM INDEXTABLES CACHE '/data/a table' ON FIELDS (message, `a b`, c.d) WHERE day = 'x'",
            "prewarm indextable cache '/data/a table' where day = 'x' on fields ( `message` , `a b`, c . d );",
        ),
        PrewarmCache(PATH, ("message", "a b", "c.d"), predicate("day = 'x'")),
        "host s, splits_prewarmed i, bytes l, duration_ms l, job_id s, message s",
        "PREWARM INDEXTABLES CACHE '/p' ON FIELDS ()",
        ("expected a name, found ')'",),
    ),
    Documented(
        "flush searchers",
        ("FLUSH INDEXTABLES SEARCHER CACHE", "flush tantivy4spark searcher cache;"),
        FlushSearcherCache(),
        "cache_type s, status s, message s",
        "FLUSH INDEXTABLES SEARCHER CACHE 'p'",
        ("expected the end",),
    ),
    Documented(
        "prewarm jobs",
        ("DESCRIBE INDEXTABLES PREWARM JOBS", "describe tantivy4spark prewarm jobs;"),
        DescribePrewarmJobs(),
        "job_id s, table_path s, status s, splits_prewarmed l, bytes l, duration_ms l, started_ms l, message s",
        "DESCRIBE INDEXTABLES PREWARM JOB",
        ("expected JOBS, found 'JOB'",),
    ),
    Documented(
        "wait for prewarm jobs",
        (
            "WAIT FOR INDEXTABLES PREWARM JOBS '/data/a table' JOB 'a1' TIMEOUT 60",
            "wait for indextables prewarm jobs '/data/a table' timeout '60' job 'a1';",
        ),
        WaitForPrewarmJobs(PATH, "a1", 60),
        "job_id s, table_path s, status s, splits_prewarmed l, bytes l, duration_ms l, started_ms l, message s",
        "WAIT FOR INDEXTABLES PREWARM JOBS TIMEOUT soon",
        ("expected a whole number, found 'soon'",),
    ),
    Documented(
        "not offered",
        (
            "BUILD INDEXTABLES COMPANION FOR DELTA 'x' AT LOCATION 'y'",
            "build tantivy4spark companion;",
        ),
        NotOffered(**NotOffered.leads["BUILD INDEXTABLES COMPANION"]),
        "message s",
        "BUILD INDEXTABLES COMPANIONS",
        ("Did you mean BUILD INDEXTABLES COMPANION?",),
    ),
    Documented(
        "log cache",
        (
            "DESCRIBE INDEXTABLES LOG CACHE FOR '/data/a table'",
            "describe indextable log cache for '/data/a table';",
        ),
        DescribeLogCache(PATH),
        "table_path s, kind s, entries l, hits l, misses l, hit_rate d",
        "DESCRIBE INDEXTABLES LOG CACHE '/p'",
        ("expected FOR or the end, found \"'/p'\"",),
    ),
    Documented(
        "invalidate",
        (
            "INVALIDATE INDEXTABLES TRANSACTION LOG CACHE FOR logs.`2026`",
            "invalidate indextable transaction log cache for `logs`.`2026`;",
        ),
        InvalidateCache(TableName(("logs", "2026"))),
        "table_path s, result s, cache_hits_before l, cache_misses_before l, hit_rate_before s",
        "INVALIDATE INDEXTABLES TRANSACTION LOG CACHE '/p'",
        ("expected FOR, GLOBAL or the end, found \"'/p'\"",),
    ),
    Documented(
        "vacuum",
        (
            "VACUUM '/data/a table' RETAIN 168 HOURS DRY RUN",
            'vacuum "/data/a table" dry run retain 7 days;',
            "/* old */ Vacuum '/data/a table' -- all\n RETAIN 168 HOURS DRY RUN",
        ),
        Vacuum(PATH, 168, None, True),
        "table_path s, status s, orphaned_files_found l, orphaned_files_deleted l, size_bytes_deleted l, "
        "retention_hours l, tx_log_files_deleted l, expired_states_found l, expired_states_deleted l, "
        "manifests_deleted l, dry_run b, duration_ms l, message s, splits_with_deleted_rows l, masked_rows l",
        "VACUUM '/p' RETAIN 168",
        (
            "expected DAYS or HOURS, found the end",
            "Write: VACUUM 'path' [RETAIN n DAYS|HOURS] [DRY RUN]",
        ),
    ),
    Documented(
        "optimize",
        ("OPTIMIZE '/data/a table' WHERE day = 'x'", 'optimize "/data/a table" where day = "x";'),
        Optimize(PATH, predicate("day = 'x'")),
        "table_path s, status s, merged_files l, merge_groups l, original_size_bytes l, merged_size_bytes l, "
        "skipped_files l, version l, message s",
        "OPTIMIZE '/p' ZORDER BY (a)",
        ("expected WHERE or the end, found 'ZORDER'", "Write: OPTIMIZE 'path' [WHERE condition]"),
    ),
    Documented(
        "restore_table",
        (
            "RESTORE TABLE '/data/a table' TO VERSION AS OF 12",
            "restore table '/data/a table' to version as of 12;",
        ),
        RestoreTable(PATH, version=12),
        "table_path s, version l, restored_version l, files_added l, files_removed l",
        "RESTORE TABLE '/p' TO VERSION 12",
        (
            "expected AS OF, found '12'",
            "Write: RESTORE TABLE 'path' TO VERSION AS OF n|TO TIMESTAMP AS OF 't'",
        ),
    ),
    Documented(
        "table_history",
        ("DESCRIBE HISTORY '/data/a table' LIMIT 10", "describe history '/data/a table' limit 10;"),
        DescribeTableHistory(PATH, 10),
        "version l, timestamp ts, operation s, operation_parameters s, operation_metrics s, user_metadata s, "
        "engine_info s, is_readable b, tags s",
        "DESCRIBE HISTORI '/p'",
        ("found 'HISTORI'", "Did you mean DESCRIBE HISTORY?"),
    ),
    Documented(
        "detail",
        ("DESCRIBE DETAIL '/data/a table'", "describe detail '/data/a table';"),
        DescribeDetail(PATH),
        "format s, id s, name s, description s, location s, created_at ts, last_modified ts, partition_columns s, "
        "num_files l, num_records l, size_in_bytes l, properties s, min_reader_version i, min_writer_version i, "
        "table_features s, version l",
        "DESCRIBE DETAIL '/p' NOW",
        ("expected the end, found 'NOW'",),
    ),
)

"""Settings of the transaction log: commits, retries, caches; and of its checkpoints: writing,
compaction, retention.
"""

from __future__ import annotations

from indextables.config.registry import SettingsGroup, setting
from indextables.config.values import (
    boolean,
    duration_ms,
    hours,
    integer,
    number,
    size,
    text,
    word_of,
)

_MAX_INT = 2**31 - 1
_GIVEN_LAST = (
    "0: only transaction.cache.maxSize limits it. The limit applies to all tables of a process; "
    "the last value set is used."
)


class StateReadSettings(SettingsGroup, frozen=True):
    """How a state is read."""

    parallelism: int = setting(
        "state.read.parallelism", integer(1, 256), 8, "Threads that read manifests."
    )


class CheckpointSettings(SettingsGroup, frozen=True):
    """When the log is checkpointed, and in which form."""

    enabled: bool = setting(
        "checkpoint.enabled",
        boolean(),
        True,
        "Write checkpoints. With false, a reader also reads every version and ignores existing checkpoints.",
        in_table=True,
    )
    asynchronous: bool = setting(
        "checkpoint.async.enabled",
        boolean(),
        True,
        "Write due checkpoints in the background; if false, the commit waits for its checkpoint.",
        in_table=True,
    )
    shutdown_timeout_ms: int = setting(
        "checkpoint.async.shutdownTimeoutMs",
        duration_ms(),
        60_000,
        "How long the process waits for running checkpoints before it exits.",
    )
    async_parallelism: int = setting(
        "checkpoint.async.parallelism",
        integer(1, 64),
        2,
        "Number of tables whose checkpoints one process writes at a time.",
    )
    interval: int = setting(
        "checkpoint.interval",
        integer(1),
        10,
        "Number of versions between checkpoints.",
        in_table=True,
    )
    format: str = setting(
        "state.format",
        word_of("avro", "json", "parquet"),
        "avro",
        "Form of a checkpoint: Avro state, or the JSON and Parquet checkpoints of older releases.",
        in_table=True,
    )
    json_layout: str = setting(
        "checkpoint.json.layout",
        word_of("lines", "object"),
        "lines",
        "Form of JSON checkpoints: one action a line, or the single object with protocol, metaData and a list of adds.",
        in_table=True,
    )
    max_file_bytes: int = setting(
        "checkpoint.maxFileSize",
        size(1 << 10),
        128 << 20,
        "Size at which a checkpoint starts another part: of the text for JSON, of the file for Parquet.",
        in_table=True,
    )
    replica_location: str = setting(
        "checkpoint.replica.location",
        text(),
        "",
        "A folder or URL to which each state and its manifests are copied, in a folder named "
        "by the table's id. Table.repair(path, from_replica=True) reads it. Empty: no copies.",
    )
    parquet_compression: str = setting(
        "checkpoint.compression",
        word_of("snappy", "zstd", "gzip", "none"),
        "snappy",
        "Compression of Parquet checkpoints.",
        in_table=True,
    )


class StateWriteSettings(SettingsGroup, frozen=True):
    """How the manifests of a state are written."""

    compression: str = setting(
        "state.compression",
        word_of("zstd", "snappy", "none"),
        "zstd",
        "Compression of manifests.",
        in_table=True,
    )
    level: int = setting(
        "state.compressionLevel", integer(1, 22), 3, "Level of zstd compression.", in_table=True
    )
    entries_per_manifest: int = setting(
        "state.entriesPerManifest",
        integer(1),
        50_000,
        "Maximum number of files in one manifest.",
        in_table=True,
    )
    renormalize_threshold: int = setting(
        "state.schema.renormalizeThreshold",
        integer(0),
        5,
        "Number of doc mappings above which equal ones are merged.",
        in_table=True,
    )


class CompactionSettings(SettingsGroup, frozen=True):
    """When a state is rewritten instead of continued."""

    tombstone_threshold: float = setting(
        "state.compaction.tombstoneThreshold",
        number(0, 1),
        0.10,
        "Share of removed entries above which a state is compacted.",
        in_table=True,
    )
    max_manifests: int = setting(
        "state.compaction.maxManifests",
        integer(1),
        20,
        "Number of manifests above which a state is compacted.",
        in_table=True,
    )
    large_remove_threshold: int = setting(
        "state.compaction.largeRemoveThreshold",
        integer(1),
        _MAX_INT,
        "Number of files removed since the last state above which it is compacted.",
        in_table=True,
    )
    after_merge: bool = setting(
        "state.compaction.afterMerge",
        boolean(),
        True,
        "Compact the state after a merge.",
        in_table=True,
    )


class StateRetrySettings(SettingsGroup, frozen=True):
    """Retries of a state write that lost a race."""

    max_attempts: int = setting(
        "state.retry.maxAttempts", integer(1), 10, "Attempts to write a state.", in_table=True
    )
    base_delay_ms: int = setting(
        "state.retry.baseDelayMs",
        duration_ms(),
        100,
        "First backoff of a state write.",
        in_table=True,
    )
    max_delay_ms: int = setting(
        "state.retry.maxDelayMs",
        duration_ms(),
        5000,
        "Longest backoff of a state write.",
        in_table=True,
    )


LOG_RETENTION = "logRetention.duration"


class RetentionSettings(SettingsGroup, frozen=True):
    """Retention of the log."""

    state_versions: int = setting(
        "state.retention.versions", integer(1), 2, "Number of newest states to keep.", in_table=True
    )
    state_hours: float = setting(
        "state.retention.hours", hours(), 168.0, "How long older states are kept.", in_table=True
    )
    manifest_hours: float = setting(
        "state.gc.minManifestAgeHours",
        hours(),
        1.0,
        "Age below which a manifest is never deleted; must be longer than writing a state takes.",
        in_table=True,
    )
    log_ms: int = setting(
        LOG_RETENTION,
        duration_ms(),
        30 * 86_400_000,
        "How long version files are kept.",
        in_table=True,
    )
    checkpoint_ms: int = setting(
        "checkpointRetention.duration",
        duration_ms(),
        7_200_000,
        "How long superseded checkpoints are kept.",
        in_table=True,
    )
    versions: int = setting(
        "checkpoint.retention",
        integer(0),
        30,
        "Number of newest version files before a checkpoint to keep.",
        in_table=True,
    )


class CleanupSettings(SettingsGroup, frozen=True):
    """Automatic cleaning of the log after a checkpoint."""

    enabled: bool = setting(
        "cleanup.enabled",
        boolean(),
        True,
        "Delete expired log files after a checkpoint.",
        in_table=True,
    )
    failure_policy: str = setting(
        "cleanup.failurePolicy",
        word_of("continue", "fail"),
        "continue",
        "Whether a failed deletion is logged or raised.",
        in_table=True,
    )
    dry_run: bool = setting(
        "cleanup.dryRun",
        boolean(),
        False,
        "Log what cleanup would delete, and delete nothing.",
        in_table=True,
    )


class RetrySettings(SettingsGroup, frozen=True):
    """Retries of a commit that lost a race."""

    max_attempts: int = setting(
        "transaction.retry.maxAttempts",
        integer(1),
        1_000,
        "Maximum number of attempts to commit a version.",
        in_table=True,
    )
    max_elapsed_ms: int = setting(
        "transaction.retry.maxElapsedMs",
        duration_ms(),
        60_000,
        "How long to retry a commit that only lost races.",
        in_table=True,
    )
    base_delay_ms: int = setting(
        "transaction.retry.baseDelayMs",
        duration_ms(),
        100,
        "First backoff of a commit.",
        in_table=True,
    )
    max_delay_ms: int = setting(
        "transaction.retry.maxDelayMs",
        duration_ms(),
        5000,
        "Longest backoff of a commit.",
        in_table=True,
    )


class VersionFileSettings(SettingsGroup, frozen=True):
    """How version files are written."""

    compress: bool = setting(
        "transaction.compression.enabled",
        boolean(),
        True,
        "Write version files as gzip.",
        in_table=True,
    )
    layout: str = setting(
        "transaction.compression.layout",
        word_of("gzip", "jvm"),
        "gzip",
        "Form of compressed version files: plain gzip, or with the two leading bytes that "
        "IndexTables for the JVM needs (jvm).",
        in_table=True,
    )

    @property
    def jvm_layout(self) -> bool:
        """Whether IndexTables for the JVM must be able to read them."""
        return self.layout == "jvm"


class CacheSettings(SettingsGroup, frozen=True):
    """The cache of log files in the process."""

    enabled: bool = setting(
        "transaction.cache.enabled", boolean(), True, "Cache immutable log files in memory."
    )
    expiration_seconds: int = setting(
        "transaction.cache.expirationSeconds",
        integer(0),
        0,
        "How long a snapshot is reused without asking the store for newer versions; 0 lists "
        "the log every time. After half of the time, the next open refreshes the snapshot in "
        "the background. Commits of this process, and of the processes of one Spark "
        "application, are always visible at once.",
    )
    refresh_parallelism: int = setting(
        "transaction.cache.refreshParallelism",
        integer(1, 64),
        2,
        "Number of tables that one process refreshes in the background at a time, where a stale answer is allowed.",
    )
    max_bytes: int = setting(
        "transaction.cache.maxSize",
        size(),
        256 << 20,
        "Maximum size of the log cache. A process has one; the highest value of its tables is used.",
    )
    version_ttl_ms: int | None = setting(
        "transaction.cache.version.ttl.ms",
        duration_ms(),
        None,
        f"How long a version file is cached. {_GIVEN_LAST}",
    )
    metadata_ttl_ms: int | None = setting(
        "transaction.cache.metadata.ttl.ms",
        duration_ms(),
        None,
        f"How long the metadata of a table is cached, in snapshots and checkpoints. {_GIVEN_LAST}",
    )
    file_list_ttl_ms: int | None = setting(
        "transaction.cache.fileList.ttl.ms",
        duration_ms(),
        None,
        f"How long lists of files are cached, in snapshots and manifests. {_GIVEN_LAST}",
    )
    version_capacity: int | None = setting(
        "transaction.cache.version.capacity",
        integer(0),
        None,
        f"Maximum number of cached version files. {_GIVEN_LAST}",
    )
    snapshot_capacity: int | None = setting(
        "transaction.cache.snapshot.capacity",
        integer(0),
        None,
        f"Maximum number of tables whose newest snapshot is cached. {_GIVEN_LAST}",
    )
    file_list_capacity: int | None = setting(
        "transaction.cache.fileList.capacity",
        integer(0),
        None,
        f"Maximum number of tables whose manifests are cached. {_GIVEN_LAST}",
    )


class LogReadSettings(SettingsGroup, frozen=True):
    """How the log is read."""

    parallelism: int = setting(
        "checkpoint.parallelism", integer(1, 256), 8, "Threads that read version files."
    )
    timeout_seconds: int = setting(
        "checkpoint.read.timeoutSeconds",
        integer(1),
        60,
        "Longest wait for the version files of one read.",
    )


class ImplementationSettings(SettingsGroup, frozen=True):
    """Settings of other engines that choose between implementations. This package has one."""

    use_optimized: bool = setting(
        "transaction.useOptimized",
        boolean(),
        True,
        "Accepted without effect, with a log line: there is one implementation of the log.",
    )


class SkipSettings(SettingsGroup, frozen=True):
    """List splits that an operation could not process."""

    cooldown_hours: float = setting(
        "skippedFiles.cooldownDuration",
        hours(),
        24.0,
        "How long a skipped split is not tried again.",
        in_table=True,
    )

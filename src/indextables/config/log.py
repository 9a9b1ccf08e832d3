"""Settings of the transaction log: commits, retries, caches."""

from __future__ import annotations

from indextables.config.registry import SettingsGroup, setting
from indextables.config.values import boolean, duration_ms, hours, integer, size, word_of


class RetrySettings(SettingsGroup, frozen=True):
    """How a commit tries again after another writer was first."""

    max_attempts: int = setting(
        "transaction.retry.maxAttempts",
        integer(1),
        1_000,
        "Attempts to commit a version, within the time for them.",
        in_table=True,
    )
    max_elapsed_ms: int = setting(
        "transaction.retry.maxElapsedMs",
        duration_ms(),
        60_000,
        "For how long a commit is tried again that conflicts with nothing but others' being first.",
        in_table=True,
    )
    base_delay_ms: int = setting(
        "transaction.retry.baseDelayMs", duration_ms(), 100, "First backoff of a commit.", in_table=True
    )
    max_delay_ms: int = setting(
        "transaction.retry.maxDelayMs", duration_ms(), 5000, "Longest backoff of a commit.", in_table=True
    )


class VersionFileSettings(SettingsGroup, frozen=True):
    """How version files are written."""

    compress: bool = setting(
        "transaction.compression.enabled", boolean(), True, "Write version files as gzip.", in_table=True
    )
    layout: str = setting(
        "transaction.compression.layout",
        word_of("gzip", "jvm"),
        "gzip",
        "Form of compressed version files: plain gzip, or with the two bytes before it that the JVM engine needs (jvm).",
        in_table=True,
    )

    @property
    def jvm_layout(self) -> bool:
        """Whether the JVM engine must be able to read them."""
        return self.layout == "jvm"


class CacheSettings(SettingsGroup, frozen=True):
    """What the process remembers of the log."""

    enabled: bool = setting("transaction.cache.enabled", boolean(), True, "Remember immutable log files in memory.")
    expiration_seconds: int = setting(
        "transaction.cache.expirationSeconds",
        integer(0),
        0,
        "For how long a snapshot is used again without asking the store for newer versions; 0 asks every time, because a "
        "stale answer that nobody asked for is a wrong one, and one listing tells. When half of the time has gone, the next "
        "open has the store asked in the background.",
    )
    refresh_parallelism: int = setting(
        "transaction.cache.refreshParallelism",
        integer(1, 64),
        2,
        "Tables that one process looks at in the background at a time, where a stale answer is allowed.",
    )
    max_bytes: int = setting("transaction.cache.maxSize", size(), 256 << 20, "Bound of the log cache, per process.")


class LogReadSettings(SettingsGroup, frozen=True):
    """How the log is read."""

    parallelism: int = setting("checkpoint.parallelism", integer(1, 256), 8, "Threads that read version files.")
    timeout_seconds: int = setting(
        "checkpoint.read.timeoutSeconds", integer(1), 60, "Longest wait for the version files of one read."
    )


class ImplementationSettings(SettingsGroup, frozen=True):
    """Settings of other engines that choose between implementations; there is one here."""

    use_optimized: bool = setting(
        "transaction.useOptimized",
        boolean(),
        True,
        "Accepted for sessions that set it: there is one implementation of the log, and a line in the log says so.",
    )


class SkipSettings(SettingsGroup, frozen=True):
    """How splits that an operation could not process are left alone."""

    cooldown_hours: float = setting(
        "skippedFiles.cooldownDuration", hours(), 24.0, "For how long a skipped split is left alone.", in_table=True
    )

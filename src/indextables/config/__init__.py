"""Every setting once: key, type, default, unit, one sentence. One module per room; `REGISTRY` is all of them."""

from __future__ import annotations

from collections.abc import Mapping

from indextables.config import indexing, log, read, spark, splits, state, stats, storage, upkeep
from indextables.config.registry import PREFIX, Registry, Setting, Settings

GROUPS: tuple[type, ...] = (
    log.RetrySettings,
    log.VersionFileSettings,
    log.CacheSettings,
    log.LogReadSettings,
    log.SkipSettings,
    storage.AwsSettings,
    storage.AzureSettings,
    storage.GcpSettings,
    storage.RequestSettings,
    indexing.IndexingSettings,
    indexing.SearchSettings,
    splits.SplitWriterSettings,
    splits.SplitCacheSettings,
    stats.StatsSettings,
    read.ReadSettings,
    state.StateReadSettings,
    state.CheckpointSettings,
    state.StateWriteSettings,
    state.CompactionSettings,
    state.StateRetrySettings,
    state.RetentionSettings,
    state.CleanupSettings,
    spark.SparkReadSettings,
    spark.SparkWriteSettings,
    upkeep.MergeSettings,
    upkeep.PurgeSettings,
    upkeep.MergeOnWriteSettings,
    upkeep.PurgeOnWriteSettings,
)
STORE_GROUPS = (storage.AwsSettings, storage.AzureSettings, storage.GcpSettings, storage.RequestSettings)
"""Settings of the place, not of the table: never kept in a table's metadata."""
REGISTRY = Registry(GROUPS)


def resolve(
    *,
    options: Mapping[str, object] | None = None,
    session: Mapping[str, object] | None = None,
    table: Mapping[str, object] | None = None,
) -> Settings:
    """The settings in force: option > session > table > default.

    An option that does not exist is an error; so is a session key that carries our prefix. Keys in a table's metadata
    that are not settings (the schema registry, another engine's) are left alone.
    """
    ours = {k: v for k, v in (session or {}).items() if k.lower().startswith(PREFIX)}
    return Settings(REGISTRY, [known_settings(table or {}), ours, options or {}])


def known_settings(configuration: Mapping[str, object]) -> dict[str, object]:
    """Those entries of a table's configuration that are settings of ours."""
    return {key: value for key, value in configuration.items() if is_setting(key)}


def table_configuration(options: Mapping[str, object]) -> dict[str, str]:
    """The options that a table keeps: every setting but those of the store, checked, as text without prefix."""
    kept: dict[str, str] = {}
    for key, value in options.items():
        found, column, _ = REGISTRY.parse(key, value)
        if found.group not in STORE_GROUPS:
            kept[found.key if column is None else found.key[:-1] + column] = str(value)
    return kept


def is_setting(key: str) -> bool:
    """Whether a key names a setting."""
    bare = key[len(PREFIX) :] if key.lower().startswith(PREFIX) else key
    lowered = bare.lower()
    return any(
        lowered == known.lower() or (known.endswith(".*") and lowered.startswith(known[:-1].lower()))
        for known in REGISTRY.settings
    )


__all__ = ["GROUPS", "PREFIX", "REGISTRY", "Registry", "Setting", "Settings", "is_setting", "known_settings", "resolve"]

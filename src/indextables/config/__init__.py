"""Every setting once: key, type, default, unit, one sentence. One module per package; `REGISTRY` is
all of them.

`VERSION` is the release, which `indextables.__version__` shows and the package is built under.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager

from indextables.config import companion, indexing, ingest, log, spark, splits, storage, upkeep
from indextables.config.registry import (
    PREFIX,
    Registry,
    Setting,
    Settings,
    WithoutEffect,
    bare_key,
    mention,
    renamed_entry,
    weighed_name,
)
from indextables.errors import InvalidInputError

VERSION = "0.2.0"
"""The version of this release, used by the build."""
GROUPS: tuple[type, ...] = (
    log.RetrySettings,
    log.VersionFileSettings,
    log.CacheSettings,
    log.LogReadSettings,
    log.SkipSettings,
    log.ImplementationSettings,
    storage.AwsSettings,
    storage.AzureSettings,
    storage.GcpSettings,
    storage.HdfsSettings,
    storage.DatabricksSettings,
    storage.RequestSettings,
    indexing.IndexingSettings,
    indexing.SearchSettings,
    indexing.FilterSettings,
    splits.SplitWriterSettings,
    splits.SplitCacheSettings,
    splits.PrewarmSettings,
    splits.StatsSettings,
    splits.ReadSettings,
    splits.RangeSettings,
    log.StateReadSettings,
    log.CheckpointSettings,
    log.StateWriteSettings,
    log.CompactionSettings,
    log.StateRetrySettings,
    log.RetentionSettings,
    log.CleanupSettings,
    spark.SparkReadSettings,
    spark.SparkWriteSettings,
    upkeep.MergeSettings,
    upkeep.DeleteSettings,
    upkeep.PurgeSettings,
    upkeep.ExpirySettings,
    upkeep.MergeOnWriteSettings,
    upkeep.PurgeOnWriteSettings,
    companion.CompanionSettings,
    ingest.IngestSettings,
)
STORE_GROUPS = (
    storage.AwsSettings,
    storage.AzureSettings,
    storage.GcpSettings,
    storage.HdfsSettings,
    storage.DatabricksSettings,
    storage.RequestSettings,
)
"""Settings for reaching a store, independent of the table."""
REGISTRY = Registry(GROUPS)


def resolve(
    *,
    options: Mapping[str, object] | None = None,
    session: Mapping[str, object] | None = None,
    table: Mapping[str, object] | None = None,
) -> Settings:
    """Return the settings in effect: option > session > table > default.

    An unknown option is an error; so is a session key with our prefix. Keys in a table's metadata
    that are not settings (the schema registry, another engine's) are ignored, and settings that a
    table must not carry are not read from it.
    """
    given: object = options  # callers without a type checker give anything
    if given is not None and not isinstance(given, Mapping):
        hint = 'Write options={"checkpoint.interval": 20}.'
        raise InvalidInputError(
            f"options is a {type(given).__name__}, not a mapping of settings.", hint=hint
        )
    ours = {k: v for k, v in (session or {}).items() if k.lower().startswith(PREFIX)}
    return Settings(REGISTRY, [settings_of_table(table or {}), ours, options or {}])


def settings_of_table(configuration: Mapping[str, object]) -> dict[str, object]:
    """Return the valid settings in a table's configuration that a table may carry."""
    carried = {
        key: v
        for key, v in configuration.items()
        if (match := REGISTRY.lookup(key)) and match[0].in_table
    }
    return {key: value for key, value in carried.items() if _failure_of(key, value) is None}


def unreadable_of_tables(configuration: Mapping[str, object]) -> dict[str, InvalidInputError]:
    """Return the settings of a table's configuration with unreadable values and their errors; they
    are left out.
    """
    carried = [
        key for key in configuration if (match := REGISTRY.lookup(key)) and match[0].in_table
    ]
    failures = {key: _failure_of(key, configuration[key]) for key in carried}
    return {key: failure for key, failure in failures.items() if failure is not None}


def _failure_of(key: str, value: object) -> InvalidInputError | None:
    try:
        REGISTRY.parse(key, value)
    except InvalidInputError as failure:
        return failure
    return None


def not_of_tables(configuration: Mapping[str, object]) -> list[str]:
    """Return the settings that only a caller may choose, because a table would otherwise decide for
    its readers.

    Settings without effect are not included.
    """
    matches = ((bare_key(key), REGISTRY.lookup(key)) for key in configuration)
    found = {key: match[0] for key, match in matches if match is not None and not match[0].in_table}
    return sorted(
        {
            REGISTRY.name_of(key)
            for key, setting in found.items()
            if setting.group is not WithoutEffect
        }
    )


def table_configuration(options: Mapping[str, object]) -> dict[str, str]:
    """Return the options that a table stores: every setting that it may carry, validated, as text
    without prefix.
    """
    configuration: dict[str, str] = {}
    for key, value in options.items():
        setting, column, parsed = REGISTRY.parse(key, value)
        mention(setting, value)
        if setting.in_table and parsed is not None:
            if column is None:
                name = setting.key
            else:
                name = setting.key[:-1] + column
            configuration[name] = str(REGISTRY.convert(key, value))
    return configuration


@contextmanager
def named_as_given(options: Mapping[str, object] | None) -> Iterator[None]:
    """Make errors of a block name settings as the caller does, also by names of IndexTables for the
    JVM.
    """
    try:
        yield
    except InvalidInputError as error:
        given = {
            match[0].key: REGISTRY.name_of(key)
            for key in options or {}
            if (match := REGISTRY.lookup(key))
        }
        names = {
            ours: name
            for ours, name in given.items()
            if ours not in (name, f"{name}.*") and not ours.endswith("*")
        }

        def rename_settings(text: str) -> str:
            for ours, name in names.items():
                text = re.sub(rf"(?<![\w.]){re.escape(ours)}(?!\.?\w)", name, text)
            return text

        if rename_settings(error.message) == error.message:
            raise
        faults = {"faults": [rename_settings(fault) for fault in error.context.get("faults", ())]}
        context = error.context | (faults if "faults" in error.context else {})
        raise type(error)(
            rename_settings(error.message), hint=rename_settings(error.hint), **context
        ) from None


def names_a_column(key: str, value: object, columns: Iterable[str]) -> bool:
    """Return whether a key is about one of some columns."""
    match = REGISTRY.lookup(key)
    if match is None or match[1] is None or match[0].lists(match[1], value):
        return False
    return match[1] in set(columns)


def without_columns(configuration: Mapping[str, str], gone: Collection[str]) -> dict[str, str]:
    """Return a table's configuration without settings of removed columns."""
    rest: dict[str, str] = {}
    for key, value in configuration.items():
        match = REGISTRY.lookup(key) if gone else None
        if match is not None and match[1] in gone:
            continue
        if match is not None and match[0].names_columns:
            parsed = match[0].type.parse(value)
            names = [parsed] if isinstance(parsed, str) else parsed
            left = [name for name in names if name.partition("^")[0] not in gone]
            if not left:
                continue
            value = ",".join(left)
        rest[key] = value
    return rest


def with_columns(options: Mapping[str, object], rename: Callable[[str], str]) -> dict[str, object]:
    """Return settings with renamed columns in keys and values. Other keys are unchanged."""
    renamed: dict[str, object] = {}
    for key, value in options.items():
        match = REGISTRY.lookup(key)
        if match is None:
            renamed[key] = value
        elif match[1] is not None:
            column, words = renamed_entry(match[0], match[1], value, rename)
            renamed[key[: len(key) - len(match[1])] + column] = words
        elif match[0].names_columns and value:
            parsed = match[0].type.parse(value)
            each = weighed_name(rename)
            if isinstance(parsed, str):
                renamed[key] = rename(parsed)
            else:
                renamed[key] = ",".join(map(each, parsed))
        else:
            renamed[key] = value
    return renamed


def without_index_of(options: Mapping[str, object], columns: Collection[str]) -> dict[str, object]:
    """Return settings without the index settings of some columns."""
    rest: dict[str, object] = {}
    for key, value in options.items():
        match = REGISTRY.lookup(key) if is_index_setting(key) else None
        if match is None or value is None:
            rest[key] = value
        elif match[1] is not None and (match[1] not in columns or match[0].lists(match[1], value)):
            # The kind may come first: `indexing.typemap.text = a,b`.
            left = [part for part in str(value).split(",") if part.strip() not in columns]
            rest |= (
                {key: value if len(left) == len(str(value).split(",")) else ",".join(left)}
                if left
                else {}
            )
        elif match[0].names_columns:
            names = match[0].type.parse(value)
            rest[key] = ",".join(name for name in names if name not in columns)
        elif match[1] is None:
            rest[key] = value
    return rest


def refuse_settings_of_callers(options: Mapping[str, object]) -> None:
    """Raise an error if table metadata must not contain one of the settings."""
    keys = not_of_tables(options)
    if keys:
        message = f"{', '.join(keys)} cannot be stored in table metadata."
        hint = "Pass it as an option when opening the table, or set it in the Spark session."
        raise InvalidInputError(message, hint=hint, keys=keys)


def is_index_setting(key: str) -> bool:
    """Return whether a key is about how columns are indexed."""
    match = REGISTRY.lookup(key)
    return match is not None and match[0].group is indexing.IndexingSettings


def is_setting(key: str) -> bool:
    """Return whether a key names a setting."""
    return REGISTRY.lookup(key) is not None


__all__ = [
    "GROUPS",
    "PREFIX",
    "REGISTRY",
    "Registry",
    "Setting",
    "Settings",
    "VERSION",
    "WithoutEffect",
    "bare_key",
    "is_setting",
    "mention",
    "named_as_given",
    "names_a_column",
    "not_of_tables",
    "refuse_settings_of_callers",
    "resolve",
    "settings_of_table",
    "table_configuration",
    "with_columns",
    "without_columns",
    "without_index_of",
]

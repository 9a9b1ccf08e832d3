"""History and time travel: commits, readable versions, and the version of a timestamp.

A purge records in the log up to which version it deletes removed splits, so these versions are
known to be incomplete.

`log_action_rows` returns the log action by action, in the order in which its files are applied: one
column per field of every kind of action. Maps and lists are JSON text. A time outside of the years
1 to 9999 is null.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec
import pyarrow as pa

from indextables.errors import CorruptTableError, NotFoundError, VersionNotFoundError
from indextables.log.log_files import LogListing, list_log
from indextables.log.replay import RESTARTS, readable_versions
from indextables.log.transaction_log import TransactionLog
from indextables.model.actions import (
    ACTION_KEYS,
    AddAction,
    CommitInfo,
    LogAction,
    MetadataAction,
    ProtocolAction,
    RemoveAction,
    SkipAction,
    TxnAction,
    UnknownAction,
)
from indextables.model.conflicts import PURGE_TXN
from indextables.model.deletion_vector import REACHED_COLUMNS, listed_paths
from indextables.model.file_list import to_actions
from indextables.model.snapshot import Base, CommittedVersion, Snapshot, files_not_in
from indextables.model.values import timestamp_of

_TEXT, _LONG, _INT, _FLAG = pa.string(), pa.int64(), pa.int32(), pa.bool_()
_TIME = pa.timestamp("us", tz="UTC")
_YEAR_1_MS, _YEAR_10000_MS = -62_135_596_800_000, 253_402_300_800_000
ACTION_ROW_SCHEMA = pa.schema(
    [
        ("version", _LONG),
        ("log_file_path", _TEXT),
        ("action_type", _TEXT),
        ("path", _TEXT),
        ("partition_values", _TEXT),
        ("size", _LONG),
        ("data_change", _FLAG),
        ("tags", _TEXT),
        ("modification_time", _TIME),
        ("stats", _TEXT),
        ("min_values", _TEXT),
        ("max_values", _TEXT),
        ("num_records", _LONG),
        ("footer_start_offset", _LONG),
        ("footer_end_offset", _LONG),
        ("hotcache_start_offset", _LONG),
        ("hotcache_length", _LONG),
        ("has_footer_offsets", _FLAG),
        ("time_range_start", _TEXT),
        ("time_range_end", _TEXT),
        ("split_tags", _TEXT),
        ("delete_opstamp", _LONG),
        ("num_merge_ops", _INT),
        ("doc_mapping_json", _TEXT),
        ("doc_mapping_ref", _TEXT),
        ("uncompressed_size_bytes", _LONG),
        ("deletion_timestamp", _TIME),
        ("extended_file_metadata", _FLAG),
        ("skip_timestamp", _TIME),
        ("skip_reason", _TEXT),
        ("skip_operation", _TEXT),
        ("skip_retry_after", _TIME),
        ("skip_count", _INT),
        ("protocol_min_reader_version", _INT),
        ("protocol_min_writer_version", _INT),
        ("protocol_reader_features", _TEXT),
        ("protocol_writer_features", _TEXT),
        ("metadata_id", _TEXT),
        ("metadata_name", _TEXT),
        ("metadata_description", _TEXT),
        ("metadata_format_provider", _TEXT),
        ("metadata_format_options", _TEXT),
        ("metadata_schema_string", _TEXT),
        ("metadata_partition_columns", _TEXT),
        ("metadata_configuration", _TEXT),
        ("metadata_created_time", _TIME),
        ("added_at_version", _LONG),
        ("added_at_timestamp", _TIME),
        ("companion_source_files", _TEXT),
        ("companion_delta_version", _LONG),
        ("companion_fast_field_mode", _TEXT),
        ("deletion_vector", _TEXT),
        ("deleted_records", _LONG),
        ("txn_app_id", _TEXT),
        ("txn_version", _LONG),
        ("txn_last_updated", _TIME),
        ("commit_txn_id", _TEXT),
        ("commit_timestamp", _TIME),
        ("commit_operation", _TEXT),
        ("commit_operation_parameters", _TEXT),
        ("commit_operation_metrics", _TEXT),
        ("commit_user_metadata", _TEXT),
        ("commit_engine_info", _TEXT),
        ("unknown_fields", _TEXT),
        ("is_checkpoint", _FLAG),
    ]
)
_PREFIXES: dict[type, str] = {
    ProtocolAction: "protocol_",
    MetadataAction: "metadata_",
    TxnAction: "txn_",
}
_PREFIXES |= {CommitInfo: "commit_", AddAction: "", RemoveAction: "", SkipAction: ""}
_SPELLED = {
    "reason": "skip_reason",
    "operation": "skip_operation",
    "retry_after": "skip_retry_after",
}


def action_rows(
    actions: Iterable[LogAction], *, version: int, log_file_path: str, is_checkpoint: bool = False
) -> pa.Table:
    """Return a row per action of one log file, in order."""
    listed = list(actions)
    columns: dict[str, list[Any]] = {}
    for at, action in enumerate(listed):
        for name, value in _fields(action):
            if value is not None:
                columns.setdefault(name, [None] * len(listed))[at] = value
    same = {"version": version, "log_file_path": log_file_path, "is_checkpoint": is_checkpoint}
    columns |= {name: [value] * len(listed) for name, value in same.items()}
    return pa.table(
        [_column(f, columns.get(f.name), len(listed)) for f in ACTION_ROW_SCHEMA],
        schema=ACTION_ROW_SCHEMA,
    )


def _fields(action: LogAction) -> list[tuple[str, Any]]:
    """Return columns and values of one action."""
    if isinstance(action, UnknownAction):
        return [("action_type", action.key), ("unknown_fields", action.value)]
    prefix = _PREFIXES[type(action)]
    pairs: list[tuple[str, Any]] = [("action_type", ACTION_KEYS[type(action)])]
    for name in action.__struct_fields__:
        value = getattr(action, name)
        if name == "unknown":
            pairs.append(("unknown_fields", value or None))
        elif name == "format":
            pairs += [
                ("metadata_format_provider", value.provider),
                ("metadata_format_options", value.options),
            ]
        elif isinstance(action, SkipAction):
            pairs.append((_SPELLED.get(name, name), value))
        else:
            pairs.append((prefix + name, value))
    return pairs


def _column(field: pa.Field, values: list[Any] | None, length: int) -> pa.Array:
    if values is None:
        return pa.nulls(length, field.type)
    if field.type == _TEXT:
        values = [
            v if v is None or isinstance(v, str) else msgspec.json.encode(v).decode()
            for v in values
        ]
    elif field.type == _TIME:
        values = [
            v * 1000 if v is not None and _YEAR_1_MS <= v < _YEAR_10000_MS else None for v in values
        ]
    return pa.array(values, field.type)


HISTORY_SCHEMA = pa.schema(
    [
        pa.field("version", pa.int64(), nullable=False),
        pa.field("timestamp", pa.timestamp("ms", tz="UTC")),
        pa.field("operation", pa.string()),
        pa.field("operation_parameters", pa.string()),
        pa.field("operation_metrics", pa.string()),
        pa.field("user_metadata", pa.string()),
        pa.field("engine_info", pa.string()),
        pa.field("is_readable", pa.bool_(), nullable=False),
        pa.field("tags", pa.string()),
    ]
)


def history(log: TransactionLog, *, limit: int | None = None) -> pa.Table:
    """Return the versions in the log, newest first. A version that lost splits to a purge is not
    readable.

    If the log is cleaned while it is read, it is read again.
    """
    for _ in range(RESTARTS):
        try:
            return _history(log, limit)
        except NotFoundError:
            continue
    return _history(log, limit)


def _history(log: TransactionLog, limit: int | None) -> pa.Table:
    header = log.newest().header
    purge, tagged = header.txns.get(PURGE_TXN), {*header.tags.values()}
    listing = list_log(log.store)
    readable = {
        v for v in readable_versions(listing) if purge is None or v >= purge.version or v in tagged
    }
    versions = sorted({*listing.versions, *listing.states}, reverse=True)[:limit]
    committed = {
        v.version: v
        for v in log.reader.read(
            [(v, listing.versions[v]) for v in versions if v in listing.versions]
        )
    }
    rows = [
        {
            **_row(version, committed.get(version), listing, version in readable),
            "tags": ", ".join(
                name for name, tagged_version in header.tags.items() if tagged_version == version
            )
            or None,
        }
        for version in versions
    ]
    return pa.Table.from_pylist(rows, schema=HISTORY_SCHEMA)


def _row(
    version: int, committed: CommittedVersion | None, listing: LogListing, is_readable: bool
) -> dict[str, Any]:
    info = committed.info if committed else None
    timestamp_ms = committed.timestamp_ms if committed else listing.states[version].last_modified_ms
    return {
        "version": version,
        "timestamp": timestamp_ms,
        "operation": info.operation if info else None,
        "operation_parameters": _json(info.operation_parameters) if info else None,
        "operation_metrics": _json(info.operation_metrics) if info else None,
        "user_metadata": info.user_metadata if info else None,
        "engine_info": info.engine_info if info else None,
        "is_readable": is_readable,
    }


def _json(value: dict[str, Any] | None) -> str | None:
    if value is None:
        return None
    return msgspec.json.encode(value).decode()


def version_at(log: TransactionLog, timestamp_ms: int) -> int:
    """Return the newest readable version committed at or before a timestamp."""
    listing = list_log(log.store)
    readable = readable_versions(listing)
    low, high = 0, len(readable)
    # Times rise with the versions, so a few look-ups find the place.
    while low < high:
        middle = (low + high) // 2
        if _timestamp_ms(log, listing, readable[middle]) <= timestamp_ms:
            low = middle + 1
        else:
            high = middle
    if low == 0:
        if readable:
            first = _format_time(_timestamp_ms(log, listing, readable[0]))
        else:
            first = None
        raise VersionNotFoundError(
            f"{log.store.url} had no version that can be read at {_format_time(timestamp_ms)}.",
            hint=f"The oldest that can be read is version {readable[0]}, of {first}."
            if readable
            else None,
            path=log.store.url,
            timestamp_ms=timestamp_ms,
            available=[readable[0], readable[-1]] if readable else [None, None],
        )
    found = readable[low - 1]
    if (
        low < len(readable)
        and readable[low] != found + 1
        and _timestamp_ms(log, listing, found) != timestamp_ms
    ):
        _check_no_later(log, listing, found, readable[low], timestamp_ms)
    return found


def _check_no_later(
    log: TransactionLog, listing: LogListing, version: int, next_readable: int, timestamp_ms: int
) -> None:
    """Refuse a timestamp that a version may have which is no longer in the log: an older version
    would be a guess.
    """
    if version + 1 in listing.versions and _timestamp_ms(log, listing, version + 1) > timestamp_ms:
        return
    raise VersionNotFoundError(
        f"The version that {log.store.url} had at {_format_time(timestamp_ms)} cannot be read: of the versions "
        f"{version + 1} to {next_readable - 1} files are gone.",
        hint=f"Open version {version} or {next_readable} by its number.",
        path=log.store.url,
        timestamp_ms=timestamp_ms,
        available=[version, next_readable],
    )


def _timestamp_ms(log: TransactionLog, listing: LogListing, version: int) -> int:
    if version in listing.versions:
        return log.reader.read([(version, listing.versions[version])])[0].timestamp_ms
    info = listing.states.get(version) or listing.legacy_checkpoints[version]
    return info.last_modified_ms or 0


def _format_time(timestamp_ms: int) -> str:
    """Return a timestamp as ISO text in UTC, or as a number if the calendar lacks its year."""
    try:
        return (
            timestamp_of(timestamp_ms * 1000, zone=False).isoformat(timespec="milliseconds") + "Z"
        )
    except ValueError:
        return f"{timestamp_ms} ms since 1970"


def log_action_rows(log: TransactionLog, *, include_all: bool = False) -> pa.Table:
    """Return the newest checkpoint and every version after it as rows (`model.action_rows`).

    With `include_all` every remaining version from the oldest; a state comes first only if the
    versions below it were cleaned.
    """
    for _ in range(RESTARTS):
        try:
            return pa.concat_tables(list(_parts(log, list_log(log.store), include_all=include_all)))
        except NotFoundError:
            continue  # a file was cleaned away since the listing
    raise CorruptTableError(
        f"The log of {log.store.url} changes faster than it can be read.", path=log.store.url
    )


def _parts(log: TransactionLog, listing: LogListing, *, include_all: bool) -> Iterator[pa.Table]:
    base = _start(log, listing, oldest=include_all)
    at = base.header.version
    if at >= 0:
        info = listing.states.get(at) or listing.legacy_checkpoints[at]
        yield action_rows(
            _actions_of(base), version=at, log_file_path=info.path, is_checkpoint=True
        )
    later = sorted(version for version in listing.versions if version > at)
    for committed in log.reader.read([(version, listing.versions[version]) for version in later]):
        path = listing.versions[committed.version].path
        yield action_rows(committed.actions, version=committed.version, log_file_path=path)


def _start(log: TransactionLog, listing: LogListing, *, oldest: bool) -> Base:
    """Return the newest base, or the oldest from which the versions are complete."""
    newest = listing.newest
    start: Base | None = None
    for base in log.bases.bases(listing, until=newest):
        if not listing.missing(base.header.version, newest):
            start = base
            if not oldest:
                break
    if start is None:
        raise NotFoundError(
            f"The log of {log.store.url} does not hold a whole table.", path=log.store.url
        )
    return start


def _actions_of(base: Base) -> Iterator[LogAction]:
    """Return the content of a checkpoint as equivalent actions."""
    header = base.header
    yield header.protocol
    if header.metadata is not None:
        yield header.metadata
    yield from header.txns.values()
    yield from header.skips.values()
    yield from to_actions(base.source.files())


def check_not_purged(log: TransactionLog, newest: Snapshot, target: Snapshot) -> None:
    """Raise VersionNotFoundError if a purge has condemned splits of a version, even if it has not
    deleted them yet.
    """
    purge = newest.header.txns.get(PURGE_TXN)
    if (
        purge is None
        or purge.version <= target.version
        or target.version in newest.header.tags.values()
    ):
        return
    removed = {
        path: version.version
        for version in _since(log, target, newest)
        for path in version.released_files
    }
    needed = listed_paths(files_not_in(target, newest)) - listed_paths(
        newest.files(columns=REACHED_COLUMNS)
    )
    # A purge deletes whatever was removed up to the version that it records.
    missing = [path for path in needed if removed.get(path, 0) <= purge.version]
    if missing:
        raise VersionNotFoundError(
            f"Version {target.version} of {log.store.url} cannot be read any more: {len(missing)} of its "
            f"{target.all_files.num_rows} splits were purged.",
            hint=f"Versions {purge.version} to {newest.version} can be read; history() shows each.",
            path=log.store.url,
            version=target.version,
            available=[purge.version, newest.version],
            missing=sorted(missing),
        )


def _since(log: TransactionLog, target: Snapshot, newest: Snapshot) -> Sequence[CommittedVersion]:
    try:
        return log.since(target.version, newest.version)
    except VersionNotFoundError:
        return ()

"""History and time travel: what was committed when, what can still be read, and which version a moment had."""

from __future__ import annotations

from typing import Any

import msgspec
import pyarrow as pa

from indextables.errors import NotFoundError, VersionNotFoundError
from indextables.log.listing import LogListing, list_log
from indextables.log.replay import RESTARTS, readable_versions
from indextables.log.transaction_log import TransactionLog
from indextables.model.conflicts import PURGE_TXN
from indextables.model.snapshot import CommittedVersion
from indextables.model.temporal import timestamp_of

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
    ]
)


def history(log: TransactionLog, *, limit: int | None = None) -> pa.Table:
    """The versions the log still tells of, newest first. One that has lost splits to a purge is not readable.

    A log that is cleaned while it is read is read again.
    """
    for _ in range(RESTARTS):
        try:
            return _history(log, limit)
        except NotFoundError:
            continue
    return _history(log, limit)


def _history(log: TransactionLog, limit: int | None) -> pa.Table:
    purged = log.newest().header.txns.get(PURGE_TXN)
    listing = list_log(log.store)
    readable = {version for version in readable_versions(listing) if purged is None or version >= purged.version}
    told = sorted({*listing.versions, *listing.states}, reverse=True)[:limit]
    committed = {
        v.version: v for v in log.reader.read([(v, listing.versions[v]) for v in told if v in listing.versions])
    }
    rows = [_row(version, committed.get(version), listing, version in readable) for version in told]
    return pa.Table.from_pylist(rows, schema=HISTORY_SCHEMA)


def _row(version: int, committed: CommittedVersion | None, listing: LogListing, is_readable: bool) -> dict[str, Any]:
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
    return None if value is None else msgspec.json.encode(value).decode()


def version_at(log: TransactionLog, timestamp_ms: int) -> int:
    """The newest readable version committed at or before a moment."""
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
        first = _shown(_timestamp_ms(log, listing, readable[0])) if readable else None
        raise VersionNotFoundError(
            f"{log.store.url} had no version that can be read at {_shown(timestamp_ms)}.",
            hint=f"The oldest that can be read is version {readable[0]}, of {first}." if readable else None,
            path=log.store.url,
            timestamp_ms=timestamp_ms,
            available=[readable[0], readable[-1]] if readable else [None, None],
        )
    return readable[low - 1]


def _timestamp_ms(log: TransactionLog, listing: LogListing, version: int) -> int:
    if version in listing.versions:
        return log.reader.read([(version, listing.versions[version])])[0].timestamp_ms
    info = listing.states.get(version) or listing.checkpoints[version]
    return info.last_modified_ms or 0


def _shown(timestamp_ms: int) -> str:
    """A moment as ISO text in UTC, or as its number where the calendar has no such year."""
    try:
        return timestamp_of(timestamp_ms * 1000, zone=False).isoformat(timespec="milliseconds") + "Z"
    except ValueError:
        return f"{timestamp_ms} ms since 1970"

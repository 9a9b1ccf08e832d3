"""Create a table: version 0 holds the protocol and the metadata, and is created if absent.

One of several creators wins. A loser accepts the winner's table if it has the same schema and
partition columns; otherwise it raises a TableExistsError with the differences.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from indextables.errors import (
    CommitUnknownError,
    SchemaMismatchError,
    StorageError,
    TableExistsError,
    TableNotFoundError,
)
from indextables.log import log_files
from indextables.log.commit import delete_version
from indextables.log.log_files import being_dropped, list_log
from indextables.log.transaction_log import TransactionLog
from indextables.model.actions import CommitInfo, LogAction, MetadataAction, ProtocolAction
from indextables.model.conflicts import Operation
from indextables.model.protocol import NEW_TABLE_PROTOCOL
from indextables.model.schema_registry import record_mappings
from indextables.model.snapshot import Snapshot
from indextables.storage.store import PutOutcome
from indextables.wire.version_file import encode_verified

logger = logging.getLogger(__name__)


class FirstVersion(Struct, frozen=True):
    """Additional content of the first version, for a table made from the remains of another."""

    operation: Operation = Operation.CREATE
    protocol: ProtocolAction = NEW_TABLE_PROTOCOL
    actions: Sequence[LogAction] = ()
    parameters: Mapping[str, Any] | None = None


def create_table(
    log: TransactionLog,
    metadata: MetadataAction,
    *,
    exist_ok: bool,
    engine_info: str,
    first: FirstVersion | None = None,
) -> Snapshot:
    """Create the table, or return the existing one if it is the same and `exist_ok` allows it."""
    content = first or FirstVersion()
    if log.background is not None:
        log.background.settle(log.store.url)  # of a table that was here before
    listing = list_log(log.store)
    if listing.is_dropped:
        raise being_dropped(log.store.url)
    if not listing.is_empty:
        return _open_existing(log, metadata, exist_ok=exist_ok)
    txn_id = log.new_id()
    now_ms = log.now_ms()
    info = CommitInfo(
        txn_id=txn_id,
        timestamp=now_ms,
        operation=content.operation,
        operation_parameters=dict(content.parameters) if content.parameters else None,
        engine_info=engine_info,
    )
    actions = (
        info,
        *record_mappings(
            (content.protocol, metadata, *content.actions), metadata, content.protocol
        ),
    )
    body = encode_verified(
        actions,
        url=log.store.url,
        version=0,
        compress=log.settings.files.compress,
        jvm_layout=log.settings.files.jvm_layout,
    )
    snapshot = _create_version(log, metadata, body, txn_id, exist_ok=exist_ok)
    if content.actions:
        _checkpoint(log)
    return snapshot


def _checkpoint(log: TransactionLog) -> None:
    """Rule R8: checkpoint the new table. A failure is harmless, because the next writer repeats it."""
    try:
        log.checkpoint()
    except StorageError as failure:
        log.upkeep.failures += 1
        log.upkeep.last_failure = str(failure)
        logger.warning("%s was made, but not checkpointed: %s", log.store.url, failure.message)


def _create_version(
    log: TransactionLog, metadata: MetadataAction, body: bytes, txn_id: str, *, exist_ok: bool
) -> Snapshot:
    for _ in range(log.settings.retry.max_attempts):
        if log.store.put_if_absent(log_files.version_path(0), body) is PutOutcome.CREATED:
            return _confirm(log, metadata, txn_id, exist_ok=exist_ok)
        existing = log.reader.read_one(0)
        if existing is not None:
            if existing.info.txn_id == txn_id:
                return _confirm(log, metadata, txn_id, exist_ok=exist_ok)
            return _open_existing(log, metadata, exist_ok=exist_ok)
        try:
            return _open_existing(log, metadata, exist_ok=exist_ok)
        except TableNotFoundError:
            continue
    message = f"Whether the table at {log.store.url} was created could not be found out."
    raise CommitUnknownError(message, path=log.store.url, version=0, txn_id=txn_id)


def _confirm(
    log: TransactionLog, metadata: MetadataAction, txn_id: str, *, exist_ok: bool
) -> Snapshot:
    """Return the current table. If another table was created, grew and lost its version 0
    meanwhile, ours is deleted (R4).
    """
    log.count_own_commit()
    snapshot = log.reload()
    if txn_id in snapshot.header.recent_txn_ids or snapshot.metadata.id == metadata.id:
        return snapshot
    delete_version(log.reader, 0, txn_id)
    return _open_existing(log, metadata, exist_ok=exist_ok)


def _open_existing(log: TransactionLog, metadata: MetadataAction, *, exist_ok: bool) -> Snapshot:
    snapshot = log.reload()
    differences = _differences(snapshot.metadata, metadata)
    if differences and exist_ok:
        message = f"The table at {log.store.url} exists with {' and '.join(differences)}."
        hint = "Give the columns and the index that it has, or choose another path. Nothing was changed."
        raise SchemaMismatchError(message, hint=hint, path=log.store.url, version=snapshot.version)
    if not exist_ok:
        if differences:
            detail = f", with {' and '.join(differences)}"
        else:
            detail = ""
        raise TableExistsError(
            f"There is a table at {log.store.url} already{detail}.", path=log.store.url
        )
    return snapshot


def _differences(existing: MetadataAction, metadata: MetadataAction) -> list[str]:
    different = []
    if existing.schema_string != metadata.schema_string:
        different.append("another schema")
    if tuple(existing.partition_columns or ()) != tuple(metadata.partition_columns or ()):
        different.append(
            f"other partition columns ({', '.join(existing.partition_columns or ()) or 'none'})"
        )
    there = existing.configuration or {}
    for key, value in (metadata.configuration or {}).items():
        if ".indexing." in f".{key}" and there.get(key) != value:
            different.append(f"{key}={there[key]}" if key in there else f"no {key}")
    return different

r"""What two writers may do at once. A pure decision over what was committed since a writer read the table.

On conflict-free ground the commit is rebased: its actions are planned again on the newest snapshot and written as the
next version, as if the writer had started after the others. The columns are what the others committed, the rows what we
want to commit; `=` rebase, `P` rebase after planning again on what is live now, `X` ConflictError.

    ours \ theirs   append  overwrite  replace  merge  drop  delete  rows  upsert  metadata  restore  skip
    append            =1       =1         =1      =     =      =      =      =       X2        =1X2     =
    overwrite         P        P          P       P     P      P      P      P       X2        PX2      =
    replace-where     P        P          P       P     P      P      P      P       X2        PX2      =
    merge             =        X3         X3      X3    X3     X3     X3     X3      X2        X3       =
    drop              P        P          P       P     P      P      P      P       =         P        =
    delete            =        X3         X3      X3    X3     X3     X3     X3      X2        X3       =
    rows              =        X3         X3      X3    X3     X3     X5     X5      X2        X5       =
    upsert            X6       X3         X3      X3    X3     X3     X5     X5X6    X2        X5       =
    metadata          =        =          =       =     =      =      =      =       X4        X4       =
    restore           P        P          P       P     P      P      P      P       X4        PX4      =
    skip              =        P          P       P     P      P      P      P       =         P        P

    `delete` writes splits anew, and so does an erasure; `rows` deletes or updates rows of splits that stay, by deletion
    vectors. Where it only deletes, a change of the schema is =: no data was made for the old one.

    1  two versions that add the same path: X, for one of them would vanish
    2  X only if the schema, the partitioning or how columns are indexed changed: the data was made for the old one
    3  X only if a split that ours replaces is no longer live with the vector that was read: its rows would come back, or
       stand twice. A split is what it is by path and vector
    4  X: both set the metadata
    5  X only if a split is no longer live, or one of the very rows is deleted by both; otherwise both deletions stand
    6  X only if new rows can hold a key that ours inserts, by their bounds: the key would stand twice

    A change of how columns are indexed, which only an empty table can have, is X beside anything that adds data.
    Metadata that only records doc mappings (`docMappingSchema.*`) is no change: such records are put together.

Three more rules stand beside the table: a `txn` that another commit already recorded at this version or a later one makes
ours superfluous (it is skipped, not refused); a raised protocol is checked again before the retry; and a purge says in the
log what it is about to delete, so a commit that would add a split which a purge has taken for an orphan is X, and so is
one that revives splits of the past (restore) after any purge.

`files_of_new_rows` says which files of a version bring rows that were not in the table before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum

import numpy as np
import pyarrow as pa
from msgspec import Struct

from indextables.errors import ConflictError
from indextables.model.actions import AddAction, MetadataAction
from indextables.model.arguments import RESERVED_APP_IDS
from indextables.model.file_list import from_actions
from indextables.model.predicate import Predicate
from indextables.model.pruning import may_match
from indextables.model.schema_registry import without_registry
from indextables.model.snapshot import CommittedVersion, Snapshot, files_not_in


class Operation(StrEnum):
    """The operation of a commit, as recorded in its commitInfo."""

    CREATE = "CREATE"
    APPEND = "WRITE"
    OVERWRITE = "OVERWRITE"
    REPLACE_WHERE = "REPLACE WHERE"
    MERGE = "MERGE"
    DROP = "DROP PARTITIONS"
    DELETE = "DELETE"
    ERASE = "ERASE"
    UPDATE = "UPDATE"
    UPSERT = "UPSERT"
    MERGE_INTO = "MERGE INTO"
    METADATA = "SET METADATA"
    ALTER = "ALTER COLUMNS"
    REINDEX = "REINDEX"
    RESTORE = "RESTORE"
    SKIP = "SKIP"
    COMPACT = "COMPACT"
    PROTOCOL = "UPGRADE PROTOCOL"
    DOWNGRADE = "DOWNGRADE PROTOCOL"
    PURGE = "PURGE"
    REPAIR = "REPAIR"
    TAG = "TAG"
    UNTAG = "UNTAG"


PURGE_TXN = f"{RESERVED_APP_IDS}purge"
"""The appId whose `txn` every purge raises, so that even a snapshot shows that there was one."""


class Intent(Struct, frozen=True):
    """What a commit reads and writes, as far as another commit can conflict with it."""

    operation: str
    adds: frozenset[str] = frozenset()
    replaces: frozenset[str] = frozenset()
    """Splits that must still be live, because their rows are rewritten."""
    vectors: Mapping[str, str | None] = {}
    """The deletion vectors of these splits when their rows were read; a split that is missing had
    none.
    """
    masks: frozenset[str] = frozenset()
    """Splits that must still be live, because some of their rows are deleted; the rows are
    determined by the plan.
    """
    keys: Predicate | None = None
    """Condition of rows with one of the inserted keys."""
    sets_metadata: bool = False
    writes_data: bool = True
    """Whether it adds files made for the schema and partitioning that it read."""
    reindexes: bool = False
    """Whether it changes how columns are indexed, so that no data made before may be added
    concurrently.
    """
    revives: bool = False
    """Whether it adds splits that the table had before, which a purge may be deleting."""


class Conflict(Struct, frozen=True):
    """Why a commit cannot proceed."""

    version: int
    reason: str
    retry_helps: bool


def find_conflict(intent: Intent, read: MetadataAction | None, theirs: Sequence[CommittedVersion]) -> Conflict | None:
    """Return the first conflict with what was committed since `read`, or None if the commit may be
    rebased.
    """
    for version in theirs:
        reason = _reason(intent, read, version)
        if reason is not None:
            return Conflict(version.version, reason, retry_helps=True)
    return None


def find_difference(intent: Intent, read: Snapshot, newest: Snapshot) -> Conflict | None:
    """Make the same decision if the versions in between are gone, by comparing the read snapshot
    with the current one.
    """
    needs_files = intent.replaces or intent.adds or intent.reindexes or intent.masks
    live = _vectors(newest) if needs_files else {}
    gone = (intent.replaces | intent.masks) - live.keys()
    reason = None
    if gone:
        reason = f"{_some(gone)} no longer part of the table"
    elif changed := _changed(intent, live, _vectors(read)):
        reason = f"{_some(changed)} changed: rows of it were deleted"
    elif intent.keys is not None and _may_hold(intent.keys, files_not_in(newest, read), newest.metadata):
        reason = _SAME_KEYS
    elif doubled := intent.adds & live.keys():
        reason = f"{_some(frozenset(doubled))} already part of the table"
    elif (intent.adds or intent.revives) and newest.header.txns.get(PURGE_TXN) != read.header.txns.get(PURGE_TXN):
        reason = "splits were purged meanwhile, and the log does not say which any more"
    elif intent.sets_metadata and without_registry(newest.metadata) != without_registry(read.metadata):
        reason = "the metadata was changed too"
    elif intent.reindexes and live:
        reason = "rows were added"
    elif intent.writes_data and layout(newest.metadata) != layout(read.metadata):
        reason = _OTHER_LAYOUT
    return Conflict(newest.version, reason, retry_helps=True) if reason else None


def _vectors(snapshot: Snapshot) -> dict[str, str | None]:
    files = snapshot.files(columns=["path", "deletion_vector"])
    return dict(zip(files.column("path").to_pylist(), files.column("deletion_vector").to_pylist(), strict=True))


def _changed(intent: Intent, live: Mapping[str, str | None], read: Mapping[str, str | None]) -> frozenset[str]:
    """Return the replaced splits whose vector differs from the one that was read."""
    return frozenset(path for path in intent.replaces if live[path] != intent.vectors.get(path, read.get(path)))


def _may_hold(keys: Predicate, files: pa.Table, metadata: MetadataAction) -> bool:
    columns = tuple(metadata.partition_columns or ())
    return bool(files.num_rows) and bool(np.asarray(may_match(keys, files, partition_columns=columns)).any())


def _arrivals(theirs: CommittedVersion) -> list[AddAction]:
    """Return the files with rows that may be new to the table.

    Restored files were in the table before, and their actions are the same as then.
    """
    if theirs.info.operation == Operation.RESTORE:
        return [action for action in theirs.actions if isinstance(action, AddAction)]
    return files_of_new_rows(theirs)


_SAME_KEYS = "rows were added that can have the same keys"


def _reason(intent: Intent, read: MetadataAction | None, theirs: CommittedVersion) -> str | None:
    gone = (intent.replaces | intent.masks) & (theirs.removed - theirs.added)
    if gone:
        return f"{_some(gone)} no longer part of the table"
    again = intent.replaces & theirs.added
    other = frozenset(path for path in again if theirs.vectors[path] != intent.vectors.get(path))
    if other:
        return f"{_some(other)} changed: rows of it were deleted"
    if intent.keys is not None and read is not None and _may_hold(intent.keys, from_actions(_arrivals(theirs)), read):
        return _SAME_KEYS
    doubled = intent.adds & theirs.added
    if doubled:
        return f"{_some(doubled)} already part of the table"
    if theirs.info.operation == Operation.PURGE:
        conflicting = intent.adds & theirs.removed
        if conflicting:
            return f"{_some(conflicting)} taken for an orphan and purged"
        if intent.revives:
            return "splits were purged meanwhile"
    if intent.reindexes and theirs.added:
        return "rows were added"
    changed = next((a for a in reversed(theirs.actions) if isinstance(a, MetadataAction)), None)
    if changed is None or (read is not None and _only_records(changed, read)):
        return None
    if intent.sets_metadata:
        return "the metadata was changed too"
    if intent.writes_data and read is not None and layout(changed) != layout(read):
        return _OTHER_LAYOUT
    return None


_OTHER_LAYOUT = "the schema, the partitioning or the index was changed"


def layout(metadata: MetadataAction) -> tuple[str, tuple[str, ...], dict[str, str]]:
    """Return what data depends on: the schema, the partition columns, and the index settings
    without search settings.
    """
    settings = {key.lower(): value for key, value in (metadata.configuration or {}).items()}
    indexing = {k: v for k, v in settings.items() if "indexing." in k and not k.endswith("searchfields")}
    return metadata.schema_string, tuple(metadata.partition_columns or ()), indexing


def _only_records(changed: MetadataAction, read: MetadataAction) -> bool:
    """Return whether metadata differs from what was read only in recorded doc mappings."""
    return changed != read and without_registry(changed) == without_registry(read)


def is_same_table(one_id: str, other_id: str) -> bool:
    """Return whether two ids belong to one table. A missing id proves nothing."""
    return one_id == other_id or not (one_id and other_id)


def descends(newest: Snapshot, read: Snapshot) -> bool:
    """Return whether a snapshot descends from an older one, as far as its transactions show.

    Every version adds at most one id, so a list longer than the distance contains the last id of
    its ancestor.
    """
    ids, last = newest.header.recent_txn_ids, read.header.recent_txn_ids[-1:]
    return not last or ids[-1:] == last or len(ids) <= newest.version - read.version or last[0] in ids


def another_table(url: str, expected_id: str, actual_id: str) -> ConflictError:
    """Error for a table that was dropped and re-created at the same path."""
    return ConflictError(
        f"The table at {url} is another one than before: it was {expected_id}, and now it is {actual_id}.",
        hint="It was deleted and created again. Nothing was committed; open it anew with Table.open(path), and look "
        "whether what you are about to do is meant for the new table.",
        path=url,
        table_id=expected_id,
        found_id=actual_id,
        retry_helps=False,
    )


def _some(paths: frozenset[str]) -> str:
    first = min(paths)
    return f"{first} is" if len(paths) == 1 else f"{first} and {len(paths) - 1} more are"


def files_of_new_rows(version: CommittedVersion) -> list[AddAction]:
    """Return the files whose rows are new. A deletion adds files with kept rows, a merge with
    existing rows.
    """
    if version.info.operation == Operation.DELETE:
        return []
    return [a for a in version.actions if isinstance(a, AddAction) and a.data_change]

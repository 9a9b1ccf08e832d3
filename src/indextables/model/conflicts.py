r"""What two writers may do at once. A pure decision over what was committed since a writer read the
table.

On conflict-free ground the commit is rebased: its actions are planned again on the newest snapshot
and written as the next version, as if the writer had started after the others. The columns are what
the others committed, the rows what we want to commit; `=` rebase, `P` rebase after planning again
on what is live now, `X` ConflictError.

    ours \ theirs   append  overwrite  replace  merge  drop  delete  rows  upsert  metadata  restore
    skip append            =1       =1         =1      =     =      =      =      =       X2
    =1X2     = overwrite         P        P          P       P     P      P      P      P       X2
    PX2      = replace-where     P        P          P       P     P      P      P      P       X2
    PX2      = merge             =        X3         X3      X3    X3     X3     X3     X3      X2
    X3       = drop              P        P          P       P     P      P      P      P       =
    P        = delete            =        X3         X3      X3    X3     X3     X3     X3      X2
    X3       = rows              =        X3         X3      X3    X3     X3     X5     X5      X2
    X5       = upsert            X6       X3         X3      X3    X3     X3     X5     X5X6    X2
    X5       = metadata          =        =          =       =     =      =      =      =       X4
    X4       = restore           P        P          P       P     P      P      P      P       X4
    PX4      = skip              =        P          P       P     P      P      P      P       =
    P        P

    `delete` rewrites splits, and so does an erasure; `rows` deletes or updates rows of splits that
    stay, by deletion vectors. Where it only deletes, a change of the schema is =: no data was made
    for the old one.

    1  two versions that add the same path: X, for one of them would vanish 2  X only if the schema,
    the partitioning or how columns are indexed changed: the data was made for the old one 3  X only
    if a split that ours replaces is no longer live with the vector that was read: its rows would
    come back, or
       stand twice. A split is what it is by path and vector
    4  X: both set the metadata 5  X only if a split is no longer live, or one of the very rows is
    deleted by both; otherwise both deletions stand 6  X only if new rows can hold a key that ours
    inserts, by their bounds: the key would stand twice

    A change of how columns are indexed, which only an empty table can have, is X with anything that
    adds data. Metadata that only records doc mappings (`docMappingSchema.*`) is no change: such
    records are put together.

Three more rules apply: a `txn` that another commit already recorded at this version or a later one
makes ours superfluous (it is skipped, not refused); a raised protocol is checked again before the
retry; and a purge says in the log what it is about to delete, so a commit that would add a split
which a purge has taken for an orphan is X, and so is one that revives splits of the past (restore)
after any purge.

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
    SYNC = "SYNC"
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


class _Others(Struct, frozen=True):
    """What other writers committed since a writer read the table, as far as it matters to an
    intent.
    """

    version: int
    gone: frozenset[str]
    """Splits that ours replaces or deletes rows of, and that are no longer live."""
    changed: frozenset[str]
    """Splits that ours replaces, and that have another deletion vector than was read."""
    arrivals: pa.Table | None
    """The files with new rows; None where the keys of ours do not matter."""
    doubled: frozenset[str]
    """Paths that ours adds and that are live already."""
    purged: frozenset[str]
    """Paths that ours adds and that a purge has taken for orphans."""
    may_have_purged: bool
    """Whether a purge may have deleted splits that ours adds or revives."""
    has_new_files: bool
    metadata: MetadataAction | None
    """Other metadata than was read; None where nothing but recorded doc mappings differs."""


def find_conflict(
    intent: Intent, read: MetadataAction | None, theirs: Sequence[CommittedVersion]
) -> Conflict | None:
    """Return the first conflict of an intent with what was committed since `read`; None if it may
    be rebased.
    """
    for version in theirs:
        conflict = _decide(intent, read, _others_of_version(intent, read, version))
        if conflict is not None:
            return conflict
    return None


def find_difference(intent: Intent, read: Snapshot, newest: Snapshot) -> Conflict | None:
    """Decide the same where the versions in between are gone: by what was read against what is
    there now.
    """
    return _decide(intent, read.metadata, _others_of_snapshots(intent, read, newest))


def _decide(intent: Intent, read: MetadataAction | None, others: _Others) -> Conflict | None:
    """The decision table: the first rule that applies gives the reason."""
    changes_metadata = others.metadata is not None
    other_layout = (
        others.metadata is not None and read is not None and layout(others.metadata) != layout(read)
    )
    reason = None
    if others.gone:
        reason = f"{_some(others.gone)} no longer part of the table"
    elif others.changed:
        reason = f"{_some(others.changed)} changed: rows of it were deleted"
    elif _may_hold(intent.keys, others.arrivals, read):
        reason = "rows were added that can have the same keys"
    elif others.doubled:
        reason = f"{_some(others.doubled)} already part of the table"
    elif others.purged:
        reason = f"{_some(others.purged)} taken for an orphan and purged"
    elif others.may_have_purged:
        reason = "splits were purged concurrently"
    elif intent.reindexes and others.has_new_files:
        reason = "rows were added"
    elif intent.sets_metadata and changes_metadata:
        reason = "the metadata was changed too"
    elif intent.writes_data and other_layout:
        reason = "the schema, the partitioning or the index was changed"
    if reason:
        return Conflict(others.version, reason, retry_helps=True)
    return None


def _others_of_version(
    intent: Intent, read: MetadataAction | None, theirs: CommittedVersion
) -> _Others:
    """Summarize one version of another writer."""
    again = intent.replaces & theirs.added_paths
    is_purge = theirs.info.operation == Operation.PURGE
    metadata = next((a for a in reversed(theirs.actions) if isinstance(a, MetadataAction)), None)
    if metadata is not None and read is not None and _only_records(metadata, read):
        metadata = None
    return _Others(
        version=theirs.version,
        gone=(intent.replaces | intent.masks) & (theirs.removed_paths - theirs.added_paths),
        changed=frozenset(
            path for path in again if theirs.vectors[path] != intent.vectors.get(path)
        ),
        arrivals=from_actions(_arrivals(theirs)) if intent.keys is not None else None,
        doubled=intent.adds & theirs.added_paths,
        purged=intent.adds & theirs.removed_paths if is_purge else frozenset(),
        may_have_purged=is_purge and intent.revives,
        has_new_files=bool(theirs.added_paths),
        metadata=metadata,
    )


def _others_of_snapshots(intent: Intent, read: Snapshot, newest: Snapshot) -> _Others:
    """Summarize all that was committed between two snapshots."""
    needs_files = intent.replaces or intent.adds or intent.reindexes or intent.masks
    live = _vectors(newest) if needs_files else {}
    before = _vectors(read) if intent.replaces else {}
    kept = intent.replaces & live.keys()
    is_purged = newest.header.txns.get(PURGE_TXN) != read.header.txns.get(PURGE_TXN)
    is_changed = without_registry(newest.metadata) != without_registry(read.metadata)
    return _Others(
        version=newest.version,
        gone=(intent.replaces | intent.masks) - live.keys(),
        changed=frozenset(
            path for path in kept if live[path] != intent.vectors.get(path, before.get(path))
        ),
        arrivals=files_not_in(newest, read) if intent.keys is not None else None,
        doubled=intent.adds & live.keys(),
        purged=frozenset(),
        may_have_purged=is_purged and bool(intent.adds or intent.revives),
        has_new_files=bool(live),
        metadata=newest.metadata if is_changed else None,
    )


def _vectors(snapshot: Snapshot) -> dict[str, str | None]:
    files = snapshot.files(columns=["path", "deletion_vector"])
    return dict(
        zip(
            files.column("path").to_pylist(),
            files.column("deletion_vector").to_pylist(),
            strict=True,
        )
    )


def _may_hold(
    keys: Predicate | None, files: pa.Table | None, metadata: MetadataAction | None
) -> bool:
    if keys is None or files is None or metadata is None or not files.num_rows:
        return False
    columns = tuple(metadata.partition_columns or ())
    return bool(np.asarray(may_match(keys, files, partition_columns=columns)).any())


def _arrivals(theirs: CommittedVersion) -> list[AddAction]:
    """Return the files with rows that may not have been in the table right before.

    A restoration brings back files that were in the table once, and whose actions are those of that
    time.
    """
    if theirs.info.operation == Operation.RESTORE:
        return [action for action in theirs.actions if isinstance(action, AddAction)]
    return files_of_new_rows(theirs)


def layout(metadata: MetadataAction) -> tuple[str, tuple[str, ...], dict[str, str]]:
    """Return what data depends on: the schema, the partition columns, and the index settings
    without search settings.
    """
    settings = {key.lower(): value for key, value in (metadata.configuration or {}).items()}
    indexing = {
        k: v for k, v in settings.items() if "indexing." in k and not k.endswith("searchfields")
    }
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
    return (
        not last or ids[-1:] == last or len(ids) <= newest.version - read.version or last[0] in ids
    )


def another_table(url: str, expected_id: str, actual_id: str) -> ConflictError:
    """Error for a table that was dropped and re-created at the same path."""
    return ConflictError(
        f"The table at {url} is another one than before: it was {expected_id}, and now it is {actual_id}.",
        hint="It was deleted and created again. Nothing was committed; open it again with Table.open(path), and check "
        "whether what you are about to do is meant for the new table.",
        path=url,
        table_id=expected_id,
        found_id=actual_id,
        retry_helps=False,
    )


def _some(paths: frozenset[str]) -> str:
    first = min(paths)
    if len(paths) == 1:
        return f"{first} is"
    return f"{first} and {len(paths) - 1} more are"


def files_of_new_rows(version: CommittedVersion) -> list[AddAction]:
    """Return the files whose rows are new. A deletion adds files with kept rows, a merge with
    existing rows.
    """
    if version.info.operation == Operation.DELETE:
        return []
    return [a for a in version.actions if isinstance(a, AddAction) and a.data_change]

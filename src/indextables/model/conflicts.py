r"""What two writers may do at once. A pure decision over what was committed since a writer read the table.

On conflict-free ground the commit is rebased: its actions are planned again on the newest snapshot and written as the
next version, as if the writer had started after the others. The columns are what the others committed, the rows what we
want to commit; `=` rebase, `P` rebase after planning again on what is live now, `X` ConflictError.

    ours \ theirs   append  overwrite  replace  merge  drop  delete  metadata  restore  skip
    append            =1       =1         =1      =     =      =       X2        =1X2     =
    overwrite         P        P          P       P     P      P       X2        PX2      =
    replace-where     P        P          P       P     P      P       X2        PX2      =
    merge             =        X3         X3      X3    X3     X3      X2        X3       =
    drop              P        P          P       P     P      P       =         P        =
    delete            =        X3         X3      X3    X3     X3      X2        X3       =
    metadata          =        =          =       =     =      =       X4        X4       =
    restore           P        P          P       P     P      P       X4        PX4      =
    skip              =        P          P       P     P      P       =         P        P

    1  two versions that add the same path: X, for one of them would vanish
    2  X only if the schema, the partitioning or how columns are indexed changed: the data was made for the old one
    3  X only if a split that ours replaces is no longer live: its rows would come back or stand twice
    4  X: both set the metadata

    A change of how columns are indexed, which only an empty table can have, is X beside anything that adds data.
    Metadata that only records doc mappings (`docMappingSchema.*`) is no change: such records are put together.

Three more rules stand beside the table: a `txn` that another commit already recorded at this version or a later one makes
ours superfluous (it is skipped, not refused); a raised protocol is checked again before the retry; and a purge says in the
log what it is about to delete, so a commit that would add a split which a purge has taken for an orphan is X, and so is
one that revives splits of the past (restore) after any purge.

Which files of a version bring rows that were not in the table before.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from msgspec import Struct

from indextables.errors import ConflictError
from indextables.model.actions import AddAction, MetadataAction
from indextables.model.arguments import RESERVED_APP_IDS
from indextables.model.schema_registry import without_registry
from indextables.model.snapshot import CommittedVersion, Snapshot


class Operation(StrEnum):
    """What a commit does, as recorded in its commitInfo."""

    CREATE = "CREATE"
    APPEND = "WRITE"
    OVERWRITE = "OVERWRITE"
    REPLACE_WHERE = "REPLACE WHERE"
    MERGE = "MERGE"
    DROP = "DROP PARTITIONS"
    DELETE = "DELETE"
    METADATA = "SET METADATA"
    RESTORE = "RESTORE"
    SKIP = "SKIP"
    COMPACT = "COMPACT"
    PROTOCOL = "UPGRADE PROTOCOL"
    PURGE = "PURGE"
    REPAIR = "REPAIR"


PURGE_TXN = f"{RESERVED_APP_IDS}purge"
"""The appId whose `txn` every purge raises, so that even a snapshot tells that there was one."""


class Intent(Struct, frozen=True):
    """What a commit wants, as far as others could stand in its way."""

    operation: str
    adds: frozenset[str] = frozenset()
    replaces: frozenset[str] = frozenset()
    """Splits that must still be live, because what is added holds their rows."""
    sets_metadata: bool = False
    writes_data: bool = True
    """Whether it adds files made for the schema and partitioning that it read."""
    reindexes: bool = False
    """Whether it changes how columns are indexed, so that no data may come in that was made before."""
    revives: bool = False
    """Whether it adds splits that the table had before, which a purge may be deleting."""


class Conflict(Struct, frozen=True):
    """Why a commit cannot go ahead."""

    version: int
    reason: str
    retry_helps: bool


def find_conflict(intent: Intent, read: MetadataAction | None, theirs: Sequence[CommittedVersion]) -> Conflict | None:
    """The first thing committed since `read` that the intent cannot stand beside, or None if it may be rebased."""
    for version in theirs:
        reason = _reason(intent, read, version)
        if reason is not None:
            return Conflict(version.version, reason, retry_helps=True)
    return None


def find_difference(intent: Intent, read: Snapshot, newest: Snapshot) -> Conflict | None:
    """The same decision where the versions in between are gone: by what was read against what is there now."""
    needs_files = intent.replaces or intent.adds or intent.reindexes
    live = set(newest.all_files.column("path").to_pylist()) if needs_files else set()
    reason = None
    if intent.replaces - live:
        reason = f"{_some(intent.replaces - live)} no longer part of the table"
    elif intent.adds & live:
        reason = f"{_some(intent.adds & live)} already part of the table"
    elif (intent.adds or intent.revives) and newest.header.txns.get(PURGE_TXN) != read.header.txns.get(PURGE_TXN):
        reason = "splits were purged meanwhile, and the log does not say which any more"
    elif intent.sets_metadata and without_registry(newest.metadata) != without_registry(read.metadata):
        reason = "the metadata was changed too"
    elif intent.reindexes and live:
        reason = "rows were added"
    elif intent.writes_data and layout(newest.metadata) != layout(read.metadata):
        reason = _OTHER_LAYOUT
    return Conflict(newest.version, reason, retry_helps=True) if reason else None


def _reason(intent: Intent, read: MetadataAction | None, theirs: CommittedVersion) -> str | None:
    gone = intent.replaces & (theirs.removed - theirs.added)
    if gone:
        return f"{_some(gone)} no longer part of the table"
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
    """What data is made for: the schema, the partition columns, and what is said of the index (not of its search)."""
    settings = {key.lower(): value for key, value in (metadata.configuration or {}).items()}
    indexing = {k: v for k, v in settings.items() if "indexing." in k and not k.endswith("searchfields")}
    return metadata.schema_string, tuple(metadata.partition_columns or ()), indexing


def _only_records(changed: MetadataAction, read: MetadataAction) -> bool:
    """Whether metadata differs from what was read in nothing but recorded doc mappings."""
    return changed != read and without_registry(changed) == without_registry(read)


def is_same_table(one_id: str, other_id: str) -> bool:
    """Whether two ids are of one table. A writer that gave none tells nothing."""
    return one_id == other_id or not (one_id and other_id)


def another_table(url: str, expected_id: str, actual_id: str) -> ConflictError:
    """The error of whoever knows a table in whose place there is another one now."""
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
    """The files whose rows are new. What a deletion adds are the rows that it keeps; what a merge adds was there too."""
    if version.info.operation == Operation.DELETE:
        return []
    return [a for a in version.actions if isinstance(a, AddAction) and a.data_change]

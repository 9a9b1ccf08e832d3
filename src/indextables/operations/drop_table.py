"""Drop a table: delete its log and its splits, so that the folder is free for another table.

A marker in the log is written first and deleted last. While it exists no process can open the
table, commit to it or checkpoint it. An interrupted drop leaves the marker, and the next one
continues. Files that do not belong to the table stay: those of tables in subfolders, and foreign
files.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import ClassVar

import msgspec

from indextables.errors import ConflictError, CorruptTableError, RefusedError, TableNotFoundError
from indextables.handle import open_log
from indextables.log import log_files
from indextables.log.log_files import listing_of
from indextables.log.transaction_log import TransactionLog
from indextables.metrics import METRICS
from indextables.model.deletion_vector import VECTOR_FOLDER
from indextables.model.protocol import check_writable
from indextables.model.report import Progress, Report, pluralize, silent, was
from indextables.operations.jobs import DRY_RUN, JOBS, SUCCESS
from indextables.operations.purge import own_files
from indextables.storage.local import remove_empty_folders
from indextables.storage.store import ObjectInfo, Store, is_same_object

_BATCH = 1_000
_ROUNDS = 10
"""Maximum number of repeated listings for files that other writers add meanwhile."""


class DropTableReport(Report, frozen=True):
    """What was, or would be, deleted. `files_kept` are files in the folder that do not belong to
    the table.
    """

    table_path: str
    status: str
    files_deleted: int
    size_bytes_deleted: int
    files_kept: int
    message: str


class DropTablePlan(Report, frozen=True):
    """The files of a table."""

    table_path: str
    files: tuple[ObjectInfo, ...]
    files_kept: int
    newest: ObjectInfo | None = None
    """The file of the newest version; None if the table is being dropped already."""
    hidden: ClassVar[tuple[str, ...]] = ("files", "newest")

    def report(self, status: str, files: Sequence[ObjectInfo]) -> DropTableReport:
        """Return the counts."""
        if status == DRY_RUN:
            verb = "would be deleted"
        else:
            verb = f"{was(len(files))} deleted"
        kept = ""
        if self.files_kept:
            kept = f" {pluralize(self.files_kept, 'file')} in the folder {was(self.files_kept)} kept: not of this table."
        return DropTableReport(
            table_path=self.table_path,
            status=status,
            files_deleted=len(files),
            size_bytes_deleted=sum(info.size for info in files),
            files_kept=self.files_kept,
            message=f"{pluralize(len(files), 'file')} {verb}.{kept}",
        )

    def preview(self) -> DropTableReport:
        """Return the report of a dry run."""
        return self.report(DRY_RUN, self.files)


def plan(log: TransactionLog) -> DropTablePlan:
    """Find the files of a table. Changes nothing.

    Raises:
        TableNotFoundError: There is no table.
        UnsupportedError: The table needs a newer release to be written to.
    """
    listed = [*log.store.list(), *log.store.list_unfinished()]
    own = [info for info in own_files(listed) if _is_of_the_table(info.path)]
    listing = listing_of(info for info in own if info.path.startswith(f"{log_files.LOG}/"))
    if listing.is_empty and not listing.is_dropped:
        raise TableNotFoundError(
            f"There is no table at {log.store.url}. Nothing was deleted.", path=log.store.url
        )
    if not listing.is_dropped:
        with suppress(CorruptTableError):  # a damaged table can be dropped
            check_writable(log.fresh().header.protocol, path=log.store.url)
    newest = None
    if listing.versions and not listing.is_dropped:
        newest = listing.versions[max(listing.versions)]
    return DropTablePlan(log.store.url, tuple(own), len(listed) - len(own), newest)


def run(
    planned: DropTablePlan, log: TransactionLog, *, progress: Progress = silent
) -> DropTableReport:
    """Wait for the background work of this process, write the marker, delete everything, delete the
    marker.
    """
    store = log.store
    JOBS.settle(store.url)
    if log.background is not None:
        log.background.settle(store.url)
    _check_unchanged(planned, store, store.list(log_files.LOG))
    store.put(log_files.DROPPED, msgspec.json.encode({"droppedAt": log.now_ms()}))
    deleted: dict[str, ObjectInfo] = {}
    for _ in range(_ROUNDS):
        left = [
            info
            for info in own_files([*store.list(), *store.list_unfinished()])
            if _is_of_the_table(info.path) and info.path != log_files.DROPPED
        ]
        if not left:
            break
        if not deleted:
            try:
                _check_unchanged(planned, store, left)
            except ConflictError:
                store.delete([log_files.DROPPED])
                raise
        for at in range(0, len(left), _BATCH):
            _check_marker(store)
            store.delete(left[at : at + _BATCH])
            deleted |= {info.path: info for info in left[at : at + _BATCH]}
            progress(len(deleted), max(len(planned.files), len(deleted)), "files")
    else:
        raise RefusedError(
            f"{store.url} is not dropped: other processes keep writing to it ({left[0].path}).",
            hint="Stop them, and drop it again. Until then the table cannot be opened.",
            path=store.url,
        )
    store.delete([log_files.DROPPED])
    folder = store.local_path(log_files.LOG)
    if folder is not None:
        remove_empty_folders(folder.parent)
    log.invalidate_cache()
    METRICS.count("tables_dropped_total", store.url)
    return planned.report(SUCCESS, [*deleted.values()])


def _check_unchanged(planned: DropTablePlan, store: Store, listed: Iterable[ObjectInfo]) -> None:
    """Raise ConflictError if the log that is there now does not continue the planned one: a process
    that slept must not delete a table that was created in place of the planned one.
    """
    versions = {info.path: info for info in listed if log_files.version_of(info.path) is not None}
    newest = planned.newest
    if newest is None or not versions:
        return
    found = versions.get(newest.path)
    if found is None or not is_same_object(found, newest):
        raise ConflictError(
            f"The table at {store.url} changed while it was being dropped: another one may have "
            "been created in its place. Nothing was deleted.",
            hint="Drop it again if the table that is there now is to be removed.",
            path=store.url,
            retry_helps=False,
        )


def _check_marker(store: Store) -> None:
    """Raise ConflictError if the marker of the drop is gone: the folder was removed, and what is
    there now is not the dropped table.
    """
    if store.head(log_files.DROPPED) is None:
        raise ConflictError(
            f"The folder of {store.url} was removed while the table was being dropped: another "
            "table may have been created in its place. Nothing of it was deleted.",
            hint="Drop it again if the table that is there now is to be removed.",
            path=store.url,
            retry_helps=False,
        )


def _is_of_the_table(path: str) -> bool:
    name = path.rpartition("/")[2]
    in_own_folder = path.startswith((f"{log_files.LOG}/", f"{VECTOR_FOLDER}/"))
    return (
        in_own_folder
        or name.endswith((".split", ".split.crc"))
        or name.startswith(".indextables-tmp-")
    )


def drop_table(
    path: str, *, options: Mapping[str, object] | None, dry_run: bool, progress: Progress
) -> DropTableReport:
    """Drop the table at a path, whether it can be opened or not. See `Table.drop`."""
    log = open_log(path, options)
    planned = plan(log)
    if dry_run:
        return planned.preview()
    return run(planned, log, progress=progress)

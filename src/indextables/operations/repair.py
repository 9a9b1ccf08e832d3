"""`Table.repair`: choose how to repair a table that may not open, and do it.

A damaged log is repaired in place or copied to another path (`salvage`). A lost log is rebuilt from
the splits or read back from a replica (`rebuild`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from indextables import config
from indextables.config.splits import ReadSettings
from indextables.errors import CorruptTableError, InvalidInputError, TableNotFoundError
from indextables.handle import ENGINE_INFO, log_settings, open_log, open_replica
from indextables.log.log_files import LOG, list_log
from indextables.log.replica import Replica
from indextables.log.transaction_log import TransactionLog
from indextables.model.report import Progress
from indextables.operations import rebuild, salvage
from indextables.operations.rebuild import RepairReport


def repair_table(
    path: str,
    *,
    at: str | None,
    options: Mapping[str, object] | None,
    dry_run: bool,
    progress: Progress,
    from_replica: bool | str = False,
) -> RepairReport:
    """Repair the table at a path in place, or with `at` by a clean copy of its log. See
    `Table.repair`.
    """
    source = open_log(_without_log_folder(path), options, makes_folder=from_replica is not False)
    if from_replica is not False:
        replica = _named_replica(from_replica, source, options)
        if at is not None:
            raise InvalidInputError(
                "A replica mends the table in its place: give `at` or `from_replica`, not both."
            )
        recovered = rebuild.plan_recovery(
            source, replica, is_readable=_readable(source, options) is not None
        )
        if recovered is not None:
            if dry_run:
                return recovered.preview()
            return rebuild.recover(recovered, source)
    parallelism = config.resolve(options=options).group(ReadSettings).parallelism
    if at is not None:
        target = open_log(_without_log_folder(at), options)
        copied = salvage.plan_copy(source, target, parallelism=parallelism)
        if dry_run:
            return copied.preview()
        return salvage.copy_log(copied, target, engine_info=ENGINE_INFO)
    readable = _readable(source, options)
    if readable is not None:
        return rebuild.heal(readable, dry_run=dry_run)
    if not list_log(source.store).is_empty:
        left = salvage.plan_salvage(source, parallelism=parallelism)
        if dry_run:
            return left.preview()
        return salvage.run_salvage(left, source, engine_info=ENGINE_INFO)
    plan = rebuild.plan_rebuild(source, parallelism=parallelism, progress=progress)
    if dry_run:
        return plan.preview()
    return rebuild.rebuild(plan, source, engine_info=ENGINE_INFO)


def _named_replica(
    place: bool | str, log: TransactionLog, options: Mapping[str, object] | None
) -> Replica:
    settings = config.resolve(options=options)
    if isinstance(place, str | os.PathLike) and os.fspath(place):
        return open_replica(os.fspath(place), log.store.url, settings)
    if place is not True or log.replica is None:
        raise InvalidInputError(
            "Nothing says where the replica is.",
            hint="Give from_replica='place', or options={'checkpoint.replica.location': 'place'} with from_replica=True.",
        )
    return log.replica


def _readable(log: TransactionLog, options: Mapping[str, object] | None) -> TransactionLog | None:
    """Return the log with the settings of its table, if the table can be opened."""
    try:
        snapshot = log.reload()
        snapshot.files(columns=["path"])
    except (CorruptTableError, TableNotFoundError):
        return None
    log.settings = log_settings(
        config.resolve(options=options, table=snapshot.metadata.configuration)
    )
    return log


def _without_log_folder(path: str) -> str:
    """Return the location of the table if the location of its log was given."""
    folder = path.rstrip("/")
    if folder.endswith(f"/{LOG}"):
        return folder.removesuffix(f"/{LOG}")
    return path

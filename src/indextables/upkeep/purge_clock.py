"""The store's clock: ages are measured by it, and a machine whose own clock is ahead must not purge too early.

Nothing but writing something tells what time it is in the store. A purge writes a version of its own before it deletes
anything, so the time of that file is known when it matters; a dry run writes nothing and must trust the machine.
"""

from __future__ import annotations

import logging

from msgspec.structs import replace

from indextables.log import names
from indextables.log.transaction_log import TransactionLog
from indextables.model.retention import Expiry
from indextables.storage.store import Store
from indextables.upkeep.purge_plan import PurgePlan, Retention, plan

TOLERANCE_MS = 10_000
"""So far two clocks may differ; stores tell times in whole seconds, and the commit takes a moment too."""
logger = logging.getLogger(__name__)


def by_the_stores_clock(planned: PurgePlan, log: TransactionLog, version: int) -> PurgePlan:
    """The part of a plan that is old enough by the store's clock too. `version` was committed after planning."""
    if not planned.retention_hours and not planned.log_retention_hours:
        return planned
    now_ms = _time_of(log.store, version)
    if now_ms is None or planned.now_ms - now_ms <= TOLERANCE_MS:
        return planned
    seconds = (planned.now_ms - now_ms) / 1000
    logger.warning("the clock of this machine is %.0f s ahead of that of %s, which counts", seconds, log.store.url)
    retention = Retention(planned.retention_hours, planned.log_retention_hours)
    again = plan(log, retention=retention, settings=planned.settings, now_ms=now_ms)
    promised = {file.path for file in planned.all_files()}
    expired = tuple(file for file in again.expiry.expired if file.path in promised)
    return replace(
        planned,
        files=tuple(file for file in again.files if file.path in promised),
        expiry=Expiry(again.expiry.anchor, expired),
        in_flight=planned.in_flight | again.in_flight,
    )


def _time_of(store: Store, version: int) -> int | None:
    """When a version was written, or something after it if another purge was faster."""
    info = store.head(names.version_path(version))
    if info is not None:
        return info.last_modified_ms
    later = store.list(names.LOG, start_after=names.version_path(version))
    return max((found.last_modified_ms for found in later if found.last_modified_ms is not None), default=None)

"""Whether an older version has lost splits to a purge. A purge says in the log up to where it deletes removed splits."""

from __future__ import annotations

from collections.abc import Sequence

from indextables.errors import VersionNotFoundError
from indextables.log.selection import files_not_in
from indextables.log.transaction_log import TransactionLog
from indextables.model.conflicts import PURGE_TXN
from indextables.model.snapshot import CommittedVersion, Snapshot


def check_purged(log: TransactionLog, newest: Snapshot, target: Snapshot) -> None:
    """VersionNotFoundError if a purge has condemned splits of a version, even if it has not deleted them yet."""
    purge = newest.header.txns.get(PURGE_TXN)
    if purge is None or purge.version <= target.version:
        return
    removed = {path: version.version for version in _since(log, target, newest) for path in version.removed}
    # A purge deletes whatever was removed up to the version that it records.
    missing = [
        path
        for path in files_not_in(target, newest).column("path").to_pylist()
        if removed.get(path, 0) <= purge.version
    ]
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

"""The log, told action by action: what its files say, in the order in which they are folded into the table."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from indextables.errors import CorruptTableError, NotFoundError
from indextables.log.listing import LogListing, list_log
from indextables.log.replay import RESTARTS
from indextables.log.transaction_log import TransactionLog
from indextables.model.action_rows import action_rows
from indextables.model.actions import LogAction
from indextables.model.file_list import to_actions
from indextables.model.snapshot import Base


def describe_log(log: TransactionLog, *, include_all: bool = False) -> pa.Table:
    """The newest state or checkpoint and every version after it, as rows (`model.action_rows`).

    With `include_all` every version that is left, from the oldest on; a state comes first only where the versions below
    it were cleaned away.
    """
    for _ in range(RESTARTS):
        try:
            return pa.concat_tables(list(_parts(log, list_log(log.store), include_all=include_all)))
        except NotFoundError:
            continue  # a file was cleaned away since the listing
    raise CorruptTableError(f"The log of {log.store.url} changes faster than it can be read.", path=log.store.url)


def _parts(log: TransactionLog, listing: LogListing, *, include_all: bool) -> Iterator[pa.Table]:
    base = _start(log, listing, oldest=include_all)
    at = base.header.version
    if at >= 0:
        info = listing.states.get(at) or listing.checkpoints[at]
        yield action_rows(_said_by(base), version=at, log_file_path=info.path, is_checkpoint=True)
    wanted = sorted(version for version in listing.versions if version > at)
    for committed in log.reader.read([(version, listing.versions[version]) for version in wanted]):
        path = listing.versions[committed.version].path
        yield action_rows(committed.actions, version=committed.version, log_file_path=path)


def _start(log: TransactionLog, listing: LogListing, *, oldest: bool) -> Base:
    """Where the telling begins: the newest base, or the oldest from which the versions go on without a hole."""
    newest = listing.newest
    found: Base | None = None
    for base in log.bases.bases(listing, until=newest):
        if not listing.missing(base.header.version, newest):
            found = base
            if not oldest:
                break
    if found is None:
        raise NotFoundError(f"The log of {log.store.url} does not hold a whole table.", path=log.store.url)
    return found


def _said_by(base: Base) -> Iterator[LogAction]:
    """What a state or checkpoint says, as the actions that would say it."""
    header = base.header
    yield header.protocol
    if header.metadata is not None:
        yield header.metadata
    yield from header.txns.values()
    yield from header.skips.values()
    yield from to_actions(base.source.files())

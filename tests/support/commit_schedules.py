"""Writers and cleaners for the explorer of schedules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from indextables.errors import CommitUnknownError, ConflictError
from indextables.log.log_files import version_path
from indextables.log.transaction import Changes
from indextables.model.actions import AddAction, CommitInfo, MetadataAction
from indextables.model.protocol import NEW_TABLE_PROTOCOL
from indextables.storage.store import Store
from indextables.wire import version_file
from tests.interleave import stepped_logs
from tests.interleave.stepped_logs import live_paths
from tests.support.interleave import Content

open_log = partial(stepped_logs.open_log, now_ms=1_000)

SCHEMA = '{"type":"struct","fields":[]}'


def new_table() -> Content:
    actions = (
        CommitInfo(txn_id="create", timestamp=0),
        NEW_TABLE_PROTOCOL,
        MetadataAction(id="t", schema_string=SCHEMA),
    )
    return {version_path(0): version_file.encode(actions, compress=False)}


def grown_table() -> Content:
    """A table with a version that a cleaner can delete."""
    first = version_file.encode(
        (CommitInfo(txn_id="first", timestamp=1), AddAction(path="first.split", size=1)),
        compress=False,
    )
    return {**new_table(), version_path(1): first}


def writer(name: str, *, attempts: int = 4, before: int = 0) -> Callable[[Store], Any]:
    """Commits one split, after `before` others."""

    def run(store: Store) -> Any:
        log = open_log(store, name, attempts=attempts)
        for n in range(before):
            log.commit(
                log.newest(), Changes("WRITE", adds=[AddAction(path=f"{name}-{n}.split", size=1)])
            )
        changes = Changes("WRITE", adds=[AddAction(path=f"{name}.split", size=1)])
        return log.commit(log.newest(), changes).version

    return run


def check(content: Content, results: Mapping[str, Any]) -> str | None:
    live = Counter(live_paths(content))
    if any(n > 1 for n in live.values()):
        return f"TWICE: {live}"
    for name, result in results.items():
        path = f"{name}.split"
        if isinstance(result, int) and not live[path]:
            return f"LOST: {name} was told version {result}"
        if isinstance(result, ConflictError) and live[path]:
            return f"GHOST: {name} was told that nothing was committed"
        if isinstance(result, Exception) and not isinstance(
            result, ConflictError | CommitUnknownError
        ):
            return f"{name} raised {result!r}"
    return None

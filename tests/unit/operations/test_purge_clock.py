"""The store's clock counts, not this machine's: a purge by a clock that is ahead deletes nothing
too early.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from indextables import AddAction, Table
from indextables.errors import ConflictError
from indextables.storage.store import ObjectInfo, Store
from tests.support.faulty_store import StoreWrapper
from tests.support.rows import table_of
from tests.support.stores import age, splits_on_disk


def stray(table: Table, name: str = "split-stray.split") -> str:
    (Path(table.path) / "splits" / name).write_bytes(b"not committed")
    return f"splits/{name}"


class Behind(StoreWrapper):
    """A store whose clock is behind this machine's."""

    def __init__(self, inner: Store, *, hours: float) -> None:
        super().__init__(inner)
        self._ms = round(hours * 3_600_000)

    def _shifted(self, info: ObjectInfo) -> ObjectInfo:
        return replace(info, last_modified_ms=(info.last_modified_ms or 0) - self._ms)

    def list(self, prefix: str = "", *, start_after: str | None = None) -> Iterator[ObjectInfo]:
        return map(self._shifted, super().list(prefix, start_after=start_after))

    def head(self, path: str) -> ObjectInfo | None:
        found = super().head(path)
        return None if found is None else self._shifted(found)


@pytest.mark.parametrize(
    ("behind", "deleted", "versions"), [(0.0, 2, 2), (0.05, 1, 0), (-400.0, 0, 0)]
)
def test_the_clock_of_the_store_counts(
    tmp_path: Path, behind: float, deleted: int, versions: int
) -> None:
    """Two splits that nobody committed, one of yesterday, one of long ago, and versions as old as
    each.
    """
    table = table_of(tmp_path / "t", appends=2)
    table.checkpoint()
    young, old = stray(table, "split-young.split"), stray(table, "split-old.split")
    age(table.path, hours=500, paths=[old, "_transaction_log/00000000000000000000.json"])
    age(table.path, hours=30, paths=[young, "_transaction_log/00000000000000000001.json"])
    purger = Table.open(table.path)
    purger.handle.log.context.store = Behind(purger.handle.log.store, hours=behind)
    report = purger.purge(
        older_than_hours=24 if behind == 0 else 168, log_retention_hours=24 if behind == 0 else 168
    )
    assert (report.orphaned_files_deleted, report.tx_log_files_deleted) == (deleted, versions)
    assert all("20.8 days ago" in file.reason for file in report.files if file.path == old)
    assert (young in splits_on_disk(table.path)) is (deleted < 2)
    with Table.open(table.path).transaction(check_splits=False) as tx:
        if deleted < 2:
            tx.add(AddAction(path=young, size=13, num_records=1))
    live = set(Table.open(table.path).files().column("path").to_pylist())
    assert live <= splits_on_disk(table.path)


def test_without_retention_every_orphan_is_fenced_whatever_its_age(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=1)
    path = stray(table)
    writer, purger = (
        Table.open(table.path),
        Table.open(table.path, options={"purge.retentionCheckEnabled": False}),
    )
    purger.handle.log.context.store = Behind(purger.handle.log.store, hours=0.05)
    assert purger.purge(older_than_hours=0, log_retention_hours=0).orphaned_files_deleted == 1
    with pytest.raises(ConflictError, match="purged"), writer.transaction(check_splits=False) as tx:
        tx.add(AddAction(path=path, size=13, num_records=1))

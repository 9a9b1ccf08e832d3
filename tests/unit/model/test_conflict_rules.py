"""Single rules of the decision table of conflicts, on versions and on snapshots."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from msgspec.structs import replace

from indextables import Table
from indextables.model.actions import AddAction, CommitInfo, LogAction, MetadataAction, RemoveAction
from indextables.model.conflicts import Intent, Operation, descends, find_conflict, find_difference
from indextables.model.predicate import bind, parse
from indextables.model.snapshot import CommittedVersion, Snapshot
from indextables.storage.local import LocalStore
from tests.support.tables import append, create_on, split

READ = MetadataAction(
    id="t", schema_string="{}", partition_columns=(), configuration={}, created_time=0
)
GONE = RemoveAction(path="a.split")
NEW = AddAction(path="b.split", size=1)
MERGED = AddAction(path="b.split", size=1, data_change=False)
INSERTS = Intent("upsert", keys=bind(parse("id = 7"), pa.schema([("id", pa.int64())])))


def by(operation: Operation, *actions: LogAction) -> list[CommittedVersion]:
    return [CommittedVersion(5, 0, (CommitInfo(operation=operation), *actions))]


@pytest.mark.parametrize(
    ("intent", "theirs", "reason"),
    [
        (
            Intent("delete", masks=frozenset({"a.split"})),
            by(Operation.MERGE, GONE),
            "no longer part",
        ),
        (Intent("delete", masks=frozenset({"b.split"})), by(Operation.MERGE, GONE), None),
        (
            Intent("restore", adds=frozenset({"a.split"})),
            by(Operation.PURGE, GONE),
            "taken for an orphan",
        ),
        (Intent("restore", revives=True), by(Operation.PURGE, GONE), "purged concurrently"),
        (Intent("reindex", reindexes=True), by(Operation.APPEND, NEW), "rows were added"),
        (Intent("append"), by(Operation.APPEND, NEW), None),
        (
            Intent("append"),
            by(Operation.METADATA, replace(READ, partition_columns=("day",))),
            "the partitioning",
        ),
        (Intent("append"), by(Operation.METADATA, replace(READ, description="x")), None),
        (
            Intent("alter", sets_metadata=True, writes_data=False),
            by(Operation.METADATA, replace(READ, description="x")),
            "metadata was changed too",
        ),
        (INSERTS, by(Operation.APPEND, NEW), "the same keys"),
        (INSERTS, by(Operation.MERGE, GONE, MERGED), None),
        (INSERTS, by(Operation.RESTORE, MERGED), "the same keys"),
    ],
)
def test_what_a_version_of_another_writer_means(
    intent: Intent, theirs: list[CommittedVersion], reason: str | None
) -> None:
    found = find_conflict(intent, READ, theirs)
    assert (found is None) if reason is None else (found is not None and reason in found.reason)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    made = create_on(LocalStore(str(tmp_path / "t")))
    append(made, "s1", "s2")
    return made


def newest(table: Table) -> Snapshot:
    return table.handle.log.newest()


def test_what_the_newest_snapshot_means_where_versions_are_gone(table: Table) -> None:
    read = newest(table)
    s1, s2 = (split(name).path for name in ("s1", "s2"))
    with table.transaction(operation=Operation.DELETE, check_splits=False) as tx:
        tx.remove(s1)
    now = newest(table)
    for intent in (
        Intent("merge", replaces=frozenset({s1, s2})),
        Intent("delete", masks=frozenset({s1})),
    ):
        found = find_difference(intent, read, now)
        assert found is not None and "no longer part" in found.reason
    assert find_difference(Intent("merge", replaces=frozenset({s2})), read, now) is None
    stale = Intent("merge", replaces=frozenset({s2}), vectors={s2: "another"})
    found = find_difference(stale, read, now)
    assert found is not None and "rows of it were deleted" in found.reason


def test_a_snapshot_descends_from_its_own_past_only(table: Table, tmp_path: Path) -> None:
    read = newest(table)
    append(table, "s3")
    append(table, "s4")
    other = create_on(LocalStore(str(tmp_path / "other")))
    for name in ("x", "y", "z"):
        append(other, name)
    assert descends(newest(table), read)
    assert not descends(newest(other), read)

"""Replay: the last word on a path, on the metadata, on a writer's batch and on a skip wins."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from indextables.model.actions import (
    AddAction,
    LogAction,
    MetadataAction,
    ProtocolAction,
    RemoveAction,
    SkipAction,
    TxnAction,
)
from indextables.model.file_list import from_actions, to_actions
from indextables.model.snapshot import Base, CommittedVersion, Delta, Header, Snapshot, replay


def version(number: int, *actions: LogAction) -> CommittedVersion:
    return CommittedVersion(number, number * 10, actions)


def add(path: str, size: int = 1) -> AddAction:
    return AddAction(path=path, size=size)


def paths(snapshot: Snapshot) -> list[str]:
    return list(snapshot.all_files.column("path").to_pylist())


def test_the_last_action_on_a_path_wins_within_and_across_versions() -> None:
    snapshot = replay(
        Base(),
        [
            version(0, add("a"), add("b", 1)),
            version(1, RemoveAction(path="a"), add("c"), RemoveAction(path="c"), add("b", 2)),
            version(2, add("a", 9)),
        ],
    )
    assert [(f.path, f.size, f.added_at_version) for f in to_actions(snapshot.all_files)] == [
        ("b", 2, 1),
        ("a", 9, 2),
    ]


def test_latest_metadata_protocol_and_txn_win() -> None:
    snapshot = replay(
        Base(),
        [
            version(
                0, ProtocolAction(min_reader_version=1), MetadataAction(id="1", schema_string="")
            ),
            version(1, TxnAction(app_id="q", version=1), TxnAction(app_id="r", version=7)),
            version(
                2, ProtocolAction(min_reader_version=4), MetadataAction(id="2", schema_string="")
            ),
            version(3, TxnAction(app_id="q", version=2)),
        ],
    )
    assert snapshot.header.protocol.min_reader_version == 4
    assert snapshot.metadata.id == "2"
    assert {a: t.version for a, t in snapshot.header.txns.items()} == {"q": 2, "r": 7}
    assert (snapshot.version, snapshot.header.timestamp_ms) == (3, 30)


def skip(path: str, at: int, count: int, retry: int) -> SkipAction:
    return SkipAction(
        path=path,
        skip_timestamp=at,
        reason=f"r{at}",
        operation="merge",
        retry_after=retry,
        skip_count=count,
    )


def test_skips_add_up_and_end_with_their_split() -> None:
    snapshot = replay(
        Base(),
        [
            version(0, add("a"), add("b")),
            version(1, skip("a", 1, 3, 90), skip("b", 1, 1, 5), skip("a", 2, 1, 20)),
        ],
    )
    assert snapshot.header.skips["a"].skip_count == 3
    assert snapshot.header.skips["a"].retry_after == 90
    assert snapshot.header.skips["a"].reason == "r2"
    after = replay(snapshot, [version(2, RemoveAction(path="a"))])
    assert set(after.header.skips) == {"b"}


def test_a_delta_is_laid_over_the_base() -> None:
    class Listed:
        def files(self, wanted: object = None, *, columns: object = None) -> object:
            return from_actions([add("a"), add("b"), add("c")])

    base = Base(Header(version=4), Listed())
    snapshot = replay(base, [version(5, RemoveAction(path="b"), add("c", 5), add("d"))])
    assert paths(snapshot) == ["a", "c", "d"]
    assert Delta().over(snapshot.all_files).equals(snapshot.all_files)


_paths = st.sampled_from("abcdef")
_steps = st.lists(st.tuples(st.booleans(), _paths), max_size=30)


@given(_steps, st.integers(0, 30))
def test_folding_in_two_goes_is_folding_in_one(steps: list[tuple[bool, str]], cut: int) -> None:
    versions = [
        version(n, add(p, n) if is_add else RemoveAction(path=p))
        for n, (is_add, p) in enumerate(steps)
    ]
    model: dict[str, int] = {}
    for number, (is_add, path) in enumerate(steps):
        model.pop(path, None)
        if is_add:
            model[path] = number
    once = replay(Base(), versions)
    twice = replay(replay(Base(), versions[:cut]), versions[cut:])
    expected = list(model.items())
    for snapshot in (once, twice):
        assert [(f.path, f.size) for f in to_actions(snapshot.all_files)] == expected

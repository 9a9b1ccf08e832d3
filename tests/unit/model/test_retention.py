"""What may be deleted: never anything that something retained can reach, oldest first, and nothing
of unknown age.
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from indextables.model.retention import (
    CheckpointFiles,
    ExpiredFile,
    LogInventory,
    LogObject,
    RetentionPolicy,
    find_expired,
)

NOW = 1_000_000
ZERO = RetentionPolicy(log_ms=0, state_ms=0, checkpoint_ms=0, manifest_ms=0)


def obj(path: str, age: int | None = 1000) -> LogObject:
    return LogObject(path, 10, None if age is None else NOW - age)


def state(
    version: int, *manifests: str, age: int | None = 1000, readable: bool = True
) -> CheckpointFiles:
    return CheckpointFiles(
        (obj(f"state{version}", age),), frozenset(manifests) if readable else None
    )


def inventory(
    versions: range,
    states: dict[int, CheckpointFiles],
    *,
    manifests: str = "",
    ages: dict[int, int | None] | None = None,
) -> LogInventory:
    return LogInventory(
        versions={v: obj(f"v{v}", (ages or {}).get(v, 1000)) for v in versions},
        states=states,
        manifests={m: obj(m) for m in manifests},
    )


def paths(log: LogInventory, policy: RetentionPolicy = ZERO) -> list[str]:
    return [e.path for e in find_expired(log, policy, now_ms=NOW).expired]


def test_nothing_without_a_checkpoint() -> None:
    assert paths(inventory(range(5), {})) == []


def test_zero_retention_keeps_the_newest_state_its_version_and_what_follows() -> None:
    log = inventory(range(8), {2: state(2, "a"), 5: state(5, "a", "b")}, manifests="abc")
    assert paths(log) == ["v0", "v1", "v2", "v3", "v4", "state2", "c"]


def test_a_young_version_keeps_the_base_it_needs_and_all_between() -> None:
    states = {2: state(2), 5: state(5), 8: state(8)}
    log = inventory(range(10), states, ages=dict.fromkeys(range(4, 10), 10))
    policy = RetentionPolicy(log_ms=500, state_ms=0, checkpoint_ms=0, manifest_ms=0)
    assert paths(log, policy) == ["v0", "v1", "state5"]


def test_versions_are_kept_by_number_too() -> None:
    log = inventory(range(10), {2: state(2), 8: state(8)})
    assert paths(log, RetentionPolicy(0, 0, 0, 0, versions=3)) == ["v0", "v1"]


def test_without_an_older_base_every_version_is_needed() -> None:
    log = inventory(range(10), {8: state(8)}, ages={5: 10})
    assert paths(log, RetentionPolicy(500, 0, 0, 0)) == []


def test_states_are_kept_by_number_and_by_age() -> None:
    states = {v: state(v, age=100 * (6 - v)) for v in range(1, 6)}
    log = inventory(range(6), states)
    assert paths(log, RetentionPolicy(10**9, 0, 0, 0, state_versions=2)) == [
        "state1",
        "state2",
        "state3",
    ]
    assert paths(log, RetentionPolicy(10**9, 350, 0, 0, state_versions=1)) == ["state1", "state2"]


def test_unknown_age_is_kept() -> None:
    states = {2: state(2, age=None), 5: state(5)}
    log = inventory(range(7), states, ages={1: None})
    assert paths(log, RetentionPolicy(0, 0, 0, 0)) == []


def test_a_state_that_is_not_whole_covers_nothing() -> None:
    log = inventory(range(7), {2: state(2, "a"), 5: state(5, "a", "gone")}, manifests="a")
    assert paths(log) == ["v0", "v1"]
    unreadable = inventory(
        range(7), {2: state(2, "a"), 5: state(5, readable=False)}, manifests="ax"
    )
    assert paths(unreadable) == ["v0", "v1"]


def test_young_manifests_are_left_for_writers_under_way() -> None:
    log = LogInventory(
        versions={0: obj("v0")},
        states={0: state(0, "a")},
        manifests={"a": obj("a"), "b": obj("b", 10), "c": obj("c")},
    )
    assert paths(log, RetentionPolicy(0, 0, 0, 500)) == ["c"]


def test_old_checkpoints_and_their_parts() -> None:
    log = LogInventory(
        versions={v: obj(f"v{v}") for v in range(8)},
        states={6: state(6)},
        legacy_checkpoints={
            2: CheckpointFiles((obj("c2"),), frozenset({"p1"})),
            4: CheckpointFiles((obj("c4", 10),), frozenset({"p2"})),
        },
        parts={"p1": obj("p1"), "p2": obj("p2"), "p3": obj("p3")},
    )
    policy = RetentionPolicy(0, 0, 500, 0)
    assert paths(log, policy) == ["v0", "v1", "v2", "v3", "v4", "v5", "c2", "p1", "p3"]


ages = st.none() | st.integers(0, 2000)


@st.composite
def logs(draw: st.DrawFn) -> LogInventory:
    newest = draw(st.integers(0, 12))
    oldest = draw(st.integers(0, newest))
    manifests = {m: obj(m, draw(ages)) for m in "abcde" if draw(st.booleans())}
    states = {
        v: state(
            v,
            *draw(st.sets(st.sampled_from("abcde"))),
            age=draw(ages),
            readable=draw(st.booleans()),
        )
        for v in range(newest + 1)
        if draw(st.integers(0, 3)) == 0
    }
    versions = {v: obj(f"v{v}", draw(ages)) for v in range(oldest, newest + 1)}
    return LogInventory(versions, states, {}, manifests)


def readable(log: LogInventory) -> set[int]:
    whole, _ = log.usable()
    found: set[int] = set()
    for version in range(14):
        if version in whole or (version in log.versions and (version == 0 or version - 1 in found)):
            found.add(version)
    return found


def without(log: LogInventory, gone: list[ExpiredFile]) -> LogInventory:
    names = {e.path for e in gone}
    return LogInventory(
        {v: f for v, f in log.versions.items() if f.path not in names},
        {v: s for v, s in log.states.items() if s.files[0].path not in names},
        {},
        {m: f for m, f in log.manifests.items() if m not in names},
    )


@given(
    logs(),
    st.integers(0, 1500),
    st.integers(0, 1500),
    st.integers(0, 1500),
    st.integers(0, 3),
    st.integers(1, 3),
)
def test_what_must_stay_readable_stays_readable_at_every_step(
    log: LogInventory,
    log_ms: int,
    state_ms: int,
    manifest_ms: int,
    versions: int,
    state_versions: int,
) -> None:
    policy = RetentionPolicy(log_ms, state_ms, 0, manifest_ms, versions, state_versions)
    expiry = find_expired(log, policy, now_ms=NOW)
    before = readable(log)
    for done in range(len(expiry.expired) + 1):
        left = without(log, list(expiry.expired[:done]))
        lost = before - readable(left)
        young = {
            v
            for v, f in log.versions.items()
            if f.last_modified_ms is None or NOW - f.last_modified_ms < log_ms
        }
        assert not lost & young
        assert not before or max(before) in readable(left)
        assert not expiry.expired or expiry.anchor in readable(left)

"""Processes at work on one table that are killed and stopped at any call; afterwards the rows are
the serial history.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from indextables import Table
from indextables.errors import IndexTablesError, VersionNotFoundError
from indextables.handle import open_log
from indextables.log.transaction import Changes
from indextables.model.conflicts import Operation
from indextables.model.protocol import SUPPORTED_VERSION
from indextables.table import verify_table
from tests.support.places import StorePlace
from tests.support.rows import TEXT
from tests.torture import history
from tests.torture.actors import BATCH, RETENTION, SCHEMA, data, pairs_of, state_of
from tests.torture.stage import KINDS, Stage, fresh_folder, place_of
from tests.torture.suite import Kind, Tally

OPTIONS: dict[str, Any] = {
    "purge.retentionCheckEnabled": False,
    "transaction.retry.maxAttempts": 60,
    "transaction.retry.baseDelayMs": 10,
    "transaction.retry.maxDelayMs": 300,
    "storage.retry.baseDelayMs": 10,
}
CLEAR = {"missing_split", "version_not_found", "not_found", "conflict", "unavailable"}
"""What a reader or a writer may be told while others take away what it looks at."""
CROWD = (
    "write",
    "write",
    "write_once",
    "delete",
    "delete",
    "update",
    "update",
    "upsert",
    "upsert",
    "replace",
    "expire",
    "alter",
    "tag",
    "restore",
    "merge",
    "compact",
    "checkpoint",
    "read",
    "read",
)
CLEANERS = ("purge", "truncate")


class Actors:
    """A crowd in most rounds; in others writers sleep while many commit and clean, or while the
    table is made anew.
    """

    name = "actors"
    quick = (1, 3, 4)
    quick_seconds = 10.0

    def run(self, seed: int, deadline: float) -> Tally:
        """One round."""
        rng = random.Random(seed)
        kind = "disk" if seed < 6 else rng.choice(KINDS)
        tally = Tally()
        tally.count(f"rounds on {kind}")
        with fresh_folder() as folder, place_of(kind) as place:
            act: Callable[..., None] = (
                sleepers if seed % 3 == 0 else recreation if seed % 7 == 4 else crowd
            )
            act(place, folder, rng, tally, seed=seed, deadline=deadline)
        return tally


def made(place: StorePlace, rng: random.Random, **settings: Any) -> Table:
    """The table, with a few batches in it."""
    partitioned = rng.random() < 0.3
    ways = {
        "checkpoint.interval": rng.choice([2, 3, 5, 10]),
        "delete.mode": rng.choice(["auto", "vector", "rewrite"]),
    }
    options = {**TEXT, **RETENTION, **place.options, **ways, **settings}
    columns = ["level"] if partitioned else []
    table = Table.create(place.url, schema=SCHEMA, partition_columns=columns, options=options)
    for first in history.START:
        table.append(data(first))
    return table


def crowd(
    place: StorePlace, folder: Path, rng: random.Random, tally: Tally, *, seed: int, deadline: float
) -> None:
    """Everybody at once; whoever dies is followed by another, whoever is stopped wakes up after a
    while.
    """
    made(place, rng)
    lively = max(deadline - time.monotonic() - 5, 3)
    end = time.monotonic() + lively
    roles = [*rng.sample(CROWD, 7), rng.choice(CLEANERS), rng.choice(CLEANERS), "read"]
    fate = {"stops": rng.choice([0.0, 0.005, 0.01]), "deaths": rng.choice([0.0, 0.005, 0.01])}
    with Stage(place, OPTIONS, seed=seed, folder=folder) as stage:
        cast = {stage.start(role, lively, **fate): role for role in roles}
        while time.monotonic() < end:
            stage.wake_sleepers(rng, longest=lively / 3)
            chance = rng.random()
            number = rng.choice(list(cast))
            if chance < 0.02:
                stage.kill(number)
            elif chance < 0.06:
                stage.stop(number)
            for dead in [number for number in cast if not stage.alive(number)]:
                role = cast.pop(dead)
                cast[stage.start(role, max(end - time.monotonic(), 0.1), **fate)] = role
            time.sleep(0.02)
        late = stage.finish(60)
        tally.count("kills from outside", stage.kills)
        tally.count("wakings", stage.wakings)
    if late:
        tally.violation(
            "bounds", f"{len(late)} actors had not ended a minute after their time", seed=seed
        )
    settle(place, folder, tally, seed=seed)


VICTIMS = (
    "write",
    "delete",
    "replace",
    "merge",
    "write_once",
    "restore",
    "update",
    "upsert",
    "expire",
    "alter",
    "tag",
)


def sleepers(
    place: StorePlace, folder: Path, rng: random.Random, tally: Tally, *, seed: int, deadline: float
) -> None:
    """Writers are stopped right around their commit, others commit very often, clean up, and the
    sleepers wake.
    """
    made(place, rng)
    remembered = 0 if deadline - time.monotonic() > 40 else 40
    flood = rng.choice([2, (remembered or 1000) + 5])
    with Stage(place, OPTIONS, seed=seed, folder=folder) as stage:
        for role in rng.sample(VICTIMS, 4):
            point = "created" if rng.random() < 0.8 else "offered"
            number = stage.start(role, 0.3, stop_once=point, remembered=remembered)
            _wait(lambda number=number: stage.stopped(number) or not stage.alive(number), 10)  # type: ignore[misc]
            tally.count(f"{role} asleep: {point}", int(stage.stopped(number)))
        stage.wait_for(stage.start("flood", flood, remembered=remembered), _rest(deadline))
        tally.count("commits while others slept", flood)
        for role in rng.choice(
            [("truncate",), ("checkpoint", "purge"), ("truncate", "purge"), ("compact", "truncate")]
        ):
            stage.wait_for(stage.start(role, 0.2, remembered=remembered), _rest(deadline))
        newer = rng.random() < 0.3
        if newer:
            _raise_protocol(place)
        late = stage.finish(60)
        tally.count("wakings", stage.wakings)
    if late:
        tally.violation(
            "bounds", f"{len(late)} actors had not ended a minute after their time", seed=seed
        )
    settle(place, folder, tally, seed=seed, writable=not newer)


def recreation(
    place: StorePlace, folder: Path, rng: random.Random, tally: Tally, *, seed: int, deadline: float
) -> None:
    """The table is removed and made anew, with rows that say so, under writers that know the old
    one or are asleep.
    """
    made(place, rng)
    store = place.open()
    other = data(OTHER)
    with Stage(place, OPTIONS, seed=seed, folder=folder) as stage:
        asleep = [
            (role, rng.choice(["offered", "created", "opened"])) for role in rng.sample(VICTIMS, 2)
        ]
        asleep += [(rng.choice(["checkpoint", "compact", "write"]), "checkpointing")]
        asleep += [(rng.choice(["truncate", "purge"]), "cleaning")]
        for role, point in asleep:
            number = stage.start(role, 0.3, stop_once=point)
            _wait(lambda number=number: stage.stopped(number) or not stage.alive(number), 10)  # type: ignore[misc]
            tally.count(f"{role} asleep under a new table: {point}", int(stage.stopped(number)))
        held = Table.open(place.url, options={**place.options, **OPTIONS})
        way = rng.choice(["drop", "delete"])
        tally.count(f"tables removed by {way}")
        if way == "drop":
            Table.drop(place.url, options={**place.options, **OPTIONS})
        else:
            store.delete([info.path for info in store.list()])
        columns = rng.choice([[], ["level"]])
        Table.create(
            place.url, schema=SCHEMA, partition_columns=columns, options={**TEXT, **place.options}
        )
        fresh = Table.open(place.url, options={**place.options, **OPTIONS})
        for _ in range(rng.choice([0, 1, held.version, held.version + 3])):
            fresh.append(other.slice(0, 1))
        expected = fresh.count()
        for verb, act in _through(held).items():
            _refused_through(verb, act, tally, seed)
        late = stage.finish(60)
    if late:
        tally.violation(
            "bounds", f"{len(late)} actors had not ended a minute after their time", seed=seed
        )
    _only_new(place, expected, tally, seed=seed)


OTHER = 500_000_000
"""The id of the rows of the new table."""


def _through(held: Table) -> dict[str, Callable[[], object]]:
    """What a handle of the old table may be asked to do."""
    return {
        "append": lambda: held.append(data(BATCH * 100)),
        "overwrite": lambda: held.overwrite(data(BATCH * 101)),
        "replace": lambda: held.overwrite(data(0, 1), where=f"id >= 0 AND id < {BATCH}"),
        "delete": lambda: held.delete(where="id >= 0"),
        "update_metadata": lambda: held.update_metadata(description="of the old table"),
        "merge": lambda: held.merge(),
        "restore": lambda: held.restore(version=1),
    }


def _refused_through(verb: str, act: Callable[[], object], tally: Tally, seed: int) -> None:
    try:
        act()
    except IndexTablesError as error:
        tally.count(f"{verb} through a handle of the old table: {error.kind}")
    else:
        tally.count(f"{verb} through a handle of the old table: done")


def _only_new(place: StorePlace, expected: int, tally: Tally, *, seed: int) -> None:
    """The new table has its own rows, and nothing of what was meant for the old one."""
    options = {**place.options, **OPTIONS}
    try:
        table = Table.open(place.url, options=options)
        found = table.scan(columns=["id"]).read_all().column("id").to_pylist()
        tally.count("rows accounted", len(found))
        if found != [OTHER] * expected:
            what = f"{len(found)} rows, of {expected} that are its own; {sorted(set(found) - {OTHER})[:9]} are not"
            tally.violation("wrong", f"the new table has {what}", seed=seed)
        if table.metadata.description is not None:
            tally.violation(
                "wrong", "the metadata of the new table was changed through the old one", seed=seed
            )
        findings = verify_table(place.url, full=True, options=options).findings
        if findings:
            tally.violation("wrong", f"verify finds {findings[:3]}", seed=seed)
    except IndexTablesError as error:
        tally.violation("lost", f"the new table cannot be used: {error}", seed=seed)


def _raise_protocol(place: StorePlace) -> None:
    """A newer release writes the table from now on; this one can still read it."""
    log = open_log(place.url, {**place.options, **OPTIONS})
    newest = log.newest()
    raised = replace(newest.header.protocol, min_writer_version=SUPPORTED_VERSION + 1)
    log.commit(newest, Changes(Operation.PROTOCOL, protocol=raised), keep_up=False)


def _rest(deadline: float) -> float:
    return max(deadline - time.monotonic(), 5) + 30


def _wait(until: Callable[[], bool], seconds: float) -> None:
    end = time.monotonic() + seconds
    while not until() and time.monotonic() < end:
        time.sleep(0.01)


def settle(
    place: StorePlace,
    folder: Path,
    tally: Tally,
    *,
    seed: int,
    writable: bool = True,
    expected: frozenset[str] = frozenset(),
) -> None:
    """Compare the table with the history, let the verbs of upkeep run, and compare again."""
    told = history.read_journals(folder)
    tally.counts.update(told.counts)
    for crash in told.crashes:
        tally.violation("error", "an actor ended with an exception", seed=seed, traceback=crash)
    for wrong in told.wrong[:3]:
        tally.violation("wrong", wrong, seed=seed)
    allowed = CLEAR | expected | (set() if writable else {"unsupported"})
    allowed |= {f"checkpoint_write: {kind}" for kind in allowed}
    for error in set(told.errors) - allowed:
        tally.violation(
            "error", f"{told.errors[error]} times {error}: {told.messages[error]}", seed=seed
        )
    options = {**place.options, **OPTIONS}
    try:
        newest = _compared(place, told, tally, seed=seed)
        if not writable:
            return
        table = Table.open(place.url, options=options)
        table.merge()
        table.purge(older_than_hours=0, log_retention_hours=0)
        table.truncate_time_travel()
        _compared(place, told, tally, seed=seed, newest=newest)
    except IndexTablesError as error:
        tally.violation(
            "lost", f"the table cannot be used any more: {error}", seed=seed, refused=_refused(told)
        )


def _compared(
    place: StorePlace, told: history.Told, tally: Tally, *, seed: int, newest: int | None = None
) -> int:
    """Rows and bytes; what follows the version `newest` changed no row."""
    options = {**place.options, **OPTIONS}
    table = Table.open(place.url, options=options)
    state, wrong = state_of(pairs_of(table))
    tally.count("rows accounted", len(state) * BATCH)
    if wrong:
        tally.violation("wrong", f"at the end: {wrong}", seed=seed)
    last = table.version if newest is None else newest
    _look_at_tags(table, told, tally, seed=seed)
    verdict = history.judge(told, state, start=history.MADE, newest=last)
    tally.count("versions in the history", last)
    tally.count("commits whose end is not known", verdict.doubts)
    tally.count("versions that readers saw", len(told.sights))
    if verdict.reasons:
        missing = [
            r for r in verdict.reasons if "missing batches [" in r and "missing batches []" not in r
        ]
        kind: Kind = "lost" if missing else "wrong"
        facts = {"reasons": verdict.reasons[:5], "refused": _refused(told), "versions": last}
        facts |= {
            "doubts": verdict.doubts,
            "untried": verdict.untried,
            "operations": history.told_again(told),
        }
        tally.violation(
            kind, f"{len(verdict.reasons)} differences to the serial history", seed=seed, **facts
        )
    findings = verify_table(place.url, full=True, options=options).findings
    if findings:
        tally.violation("wrong", f"verify finds {findings[:3]}", seed=seed, refused=_refused(told))
    return last


def _look_at_tags(table: Table, told: history.Told, tally: Tally, *, seed: int) -> None:
    """Versions that were named are there, and become something that a reader saw; but see
    docs/how-to/change.md.
    """
    found = table.tags()
    for name, version in told.tags.items():
        tally.count("tags looked at")
        if found.get(name) != version:
            tally.violation(
                "lost", f"tag {name} of version {version} is one of {found.get(name)}", seed=seed
            )
            continue
        try:
            named = Table.open(table.path, version=name, options=table.handle.options)
            told.sights.append((version, state_of(pairs_of(named))[0]))
        except VersionNotFoundError as error:
            if "truncate" not in told.roles:
                tally.violation(
                    "lost", f"tag {name} of version {version}: {error.message}", seed=seed
                )
            tally.count("tags of versions that a truncation took at the same moment")


def seen_of(table: Table) -> history.State:
    """The batches of a table."""
    return state_of(pairs_of(table))[0]


def _refused(told: history.Told) -> list[str]:
    return [str(op) for op in told.ops if op.end == "refused" and op.created][:8]


SUITE = Actors()

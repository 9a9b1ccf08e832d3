"""Disks that are full or read-only, other users, few descriptors, no hard links, wrong clocks:
clear errors, no lost row.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from pathlib import Path

from indextables import Table
from tests.support.places import StorePlace
from tests.torture import history
from tests.torture.conditions import DAY_S, small_disk
from tests.torture.stage import Stage, fresh_folder
from tests.torture.suite import Tally
from tests.torture.suites.actors import OPTIONS, made, seen_of, settle

AT_MOST_S = 20.0
"""The longest that one verb takes, whatever it runs into: what is certain to fail is told, not
tried for long.
"""
COMMITS = 12


class Environment:
    """One condition per round, by turns."""

    name = "environment"
    quick = (0, 1, 2, 3, 4, 5, 7, 30)
    quick_seconds = 3.0

    def run(self, seed: int, deadline: float) -> Tally:
        """One round."""
        rng = random.Random(seed)
        rounds = list(ROUNDS)
        name = rounds[seed % len(rounds)]
        tally = Tally()
        tally.count(f"rounds: {name}")
        with fresh_folder() as folder:
            folder.chmod(0o755)
            ROUNDS[name](folder, rng, tally, seed, deadline)
        return tally


def _acted(
    place: StorePlace, folder: Path, seed: int, seconds: float, *conditions: tuple[str, int] | None
) -> None:
    """Actors that do everything, each under its condition, one after the other."""
    with Stage(place, OPTIONS, seed=seed, folder=folder) as stage:
        for condition in conditions:
            stage.wait_for(
                stage.start("all", seconds / len(conditions), condition=condition), seconds + 60
            )
            if condition is not None and "clock" in condition[0]:
                # Many commits, so that checkpoints come due and the clean-up that follows them.
                stage.wait_for(stage.start("flood", COMMITS, condition=condition), seconds + 60)


def _judged(
    place: StorePlace,
    folder: Path,
    tally: Tally,
    seed: int,
    *,
    expected: frozenset[str],
    old_versions: bool = False,
) -> history.Told:
    """What is always so: only the errors that fit, nothing took long, the rows are the history."""
    told = history.read_journals(folder)
    doubts = [op for op in told.ops if op.end == "doubt"]
    if doubts:  # every condition here is one that is known for certain
        tally.violation(
            "wrong", f"what is certain to have failed is told as unknown: {doubts[0]}", seed=seed
        )
    if told.longest > AT_MOST_S:
        tally.violation("bounds", f"a verb took {told.longest:.0f} s", seed=seed)
    if old_versions:
        _readable(place, told, tally, seed)
    settle(place, folder, tally, seed=seed, expected=expected)
    return told


def _journals(folder: Path) -> Path:
    journals = folder / "journals"
    journals.mkdir(mode=0o777)
    journals.chmod(0o777)
    return journals


def full_disk(folder: Path, rng: random.Random, tally: Tally, seed: int, deadline: float) -> None:
    """A disk that fills up while all verbs are used, and is made larger later."""
    with small_disk(4_000) as disk:
        place, seconds = StorePlace(str(disk.path / "t")), max(deadline - time.monotonic() - 2, 2)
        made(place, rng)
        space = os.statvfs(disk.path)
        left = rng.choice([0, 8_192, 40_960, 102_400])
        (disk.path / "ballast").write_bytes(bytes(space.f_bavail * space.f_bsize - left))
        journals = _journals(folder)
        _acted(place, journals, seed, seconds / 2, None)
        tally.count(
            "refused because the disk was full",
            history.read_journals(journals).errors["storage_full"],
        )
        disk.remount("size=200m")
        _acted(place, journals, seed, seconds / 2, None)
        _judged(place, journals, tally, seed, expected=frozenset({"storage_full"}))


def read_only(folder: Path, rng: random.Random, tally: Tally, seed: int, deadline: float) -> None:
    """A disk that becomes read-only."""
    with small_disk(100_000) as disk:
        place, seconds = StorePlace(str(disk.path / "t")), max(deadline - time.monotonic() - 2, 2)
        made(place, rng)
        journals = _journals(folder)
        disk.remount("ro")
        before = seen_of(Table.open(place.url))
        _acted(place, journals, seed, seconds, None)
        if seen_of(Table.open(place.url)) != before:
            tally.violation("wrong", "a table on a read-only disk is another one", seed=seed)
        disk.remount("rw")
        _judged(place, journals, tally, seed, expected=frozenset({"access_denied"}))


def in_process(
    name: str, *amounts: int, expected: frozenset[str] = frozenset()
) -> Callable[..., None]:
    """A condition of one process; another process without it works before and after."""

    def play(folder: Path, rng: random.Random, tally: Tally, seed: int, deadline: float) -> None:
        place = StorePlace(str(folder / "t"))
        # Few versions are kept for their number, so that it is by their age that they are.
        made(place, rng, **{"checkpoint.retention": 1})
        journals, seconds = _journals(folder), max(deadline - time.monotonic() - 1, 2)
        amount = rng.choice(amounts)
        tally.count(f"{name}: {amount}")
        _acted(place, journals, seed, seconds, None, (name, amount), None)
        clocks = "clock" in name
        _judged(place, journals, tally, seed, expected=expected, old_versions=clocks)

    return play


def _readable(place: StorePlace, told: history.Told, tally: Tally, seed: int) -> None:
    """No clock makes a version of a minute ago disappear, and none puts the table into the future."""
    table = Table.open(place.url, options={**place.options, **OPTIONS})
    past = history.states(
        [op for op in told.ops if op.end == "ack"], start=history.MADE, newest=table.version
    )
    for version in range(table.version + 1):
        try:
            found = seen_of(
                Table.open(place.url, version=version, options={**place.options, **OPTIONS})
            )
        except Exception as error:
            tally.violation(
                "lost", f"version {version} of a minute ago cannot be read: {error!r}", seed=seed
            )
            return
        tally.count("old versions read")
        if found != past[version]:
            tally.violation(
                "wrong", f"version {version} reads {found} and not {past[version]}", seed=seed
            )
    newest = table.history(limit=1).column("timestamp")[0].as_py()
    ahead = newest.timestamp() - time.time()
    if ahead > 3_600:
        tally.violation(
            "wrong", f"the newest version is {ahead / DAY_S:.1f} days ahead of the clock", seed=seed
        )


_STORAGE = frozenset({"storage", "storage_full", "access_denied", "unavailable"})
_SKEWED = frozenset({"refused"})
"""Cleaning may refuse to judge ages by a clock that is wrong."""
ROUNDS: dict[str, Callable[[Path, random.Random, Tally, int, float], None]] = {
    "full disk": full_disk,
    "read-only disk": read_only,
    "another user": in_process("another user", 0, expected=_STORAGE),
    "too few descriptors": in_process("too few descriptors", 1, 3, 6, 12, 24, expected=_STORAGE),
    "files of a bounded size": in_process(
        "files of a bounded size", 100, 700, 2_000, 6_000, expected=_STORAGE
    ),
    "no hard links": in_process("no hard links", 0, expected=_STORAGE),
    "another clock": in_process(
        "another clock", 40 * DAY_S, -40 * DAY_S, 400 * DAY_S, 600, expected=_SKEWED
    ),
    "a clock in steps": in_process(
        "a clock in steps", 40 * DAY_S, -40 * DAY_S, 3_600, expected=_SKEWED
    ),
}
SUITE = Environment()

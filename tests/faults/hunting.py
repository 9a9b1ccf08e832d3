"""The actors of the hunt for a lost row: `python hunting.py ROLE URL OPTIONS_JSON SECONDS NUMBER
[cold]`, JSON per deed.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from indextables import Table
from indextables.errors import CommitUnknownError, ConflictError, IndexTablesError
from tests.support.rows import rows, table_of

BATCH = 10
STRIDE = 1_000_000


def tell(**what: Any) -> None:
    """One line for the judge."""
    print(json.dumps(what), flush=True)


def until(seconds: float) -> Iterator[int]:
    """Rounds until the time is over."""
    end = time.monotonic() + seconds
    n = 0
    while time.monotonic() < end:
        yield n
        n += 1


def write(url: str, options: dict[str, Any], seconds: float, number: int) -> None:
    """Append batches of consecutive ids; every commit that is acknowledged is told."""
    table = Table.open(url, options=options)
    for n in until(seconds):
        first = number * STRIDE + n * BATCH
        tell(trying=first)
        try:
            table.append(rows(range(first, first + BATCH)))
            tell(acknowledged=first)
        except CommitUnknownError:
            tell(unknown=first)
        except ConflictError as conflict:
            tell(conflict=conflict.message, refused=first)
        table = table.refresh()


def read(url: str, options: dict[str, Any], seconds: float, number: int) -> None:
    """Look at whole versions: batches complete, no row twice, nothing that was there before gone."""
    known: set[int] = set()
    for _ in until(seconds):
        table = Table.open(url, options=options)
        try:
            found = Counter(table.scan(columns=["id"]).read_all().column("id").to_pylist())
            searched = table.count(query="message:disk OR message:full")
        except IndexTablesError as error:
            tell(error=error.kind, message=error.message)
            continue
        doubled = [i for i, count in found.items() if count > 1]
        batches = Counter(i - i % BATCH for i in found)
        torn = [first for first, count in batches.items() if count != BATCH]
        matching = sum(1 for i in found if i % 8 in (0, 1) or i // 8 % 8 in (0, 1))
        lost = sorted(known - set(batches))
        if doubled or torn or lost or matching != searched:
            tell(
                wrong={
                    "version": table.version,
                    "doubled": doubled[:5],
                    "torn": torn[:5],
                    "lost": lost[:5],
                }
            )
        known = set(batches)
        tell(seen=len(found))


def look(url: str, options: dict[str, Any], seconds: float, number: int) -> None:
    """Look at whole versions, the newest and older ones, of a table whose rows come and go: no
    batch is torn or double.
    """
    rng = random.Random(number)
    for n in until(seconds):
        table = Table.open(url, options=options)
        try:
            if n % 2:
                table = Table.open(
                    url, version=max(0, table.version - rng.randrange(6)), options=options
                )
            found = Counter(table.scan(columns=["id"]).read_all().column("id").to_pylist())
        except IndexTablesError as error:
            tell(error=error.kind, message=error.message)
            continue
        torn = [
            first
            for first, count in Counter(i - i % BATCH for i in found.elements()).items()
            if count != BATCH
        ]
        tell(
            **(
                {"wrong": {"version": table.version, "torn": torn[:5]}}
                if torn
                else {"seen": len(found)}
            )
        )


def remove(url: str, options: dict[str, Any], seconds: float, number: int) -> None:
    """Delete batches, one at a time, wherever merges have put their rows."""
    rng = random.Random(number)
    for _ in until(seconds):
        table = Table.open(url, options=options)
        try:
            known = sorted(
                {
                    i - i % BATCH
                    for i in table.scan(columns=["id"]).read_all().column("id").to_pylist()
                }
            )
        except IndexTablesError:
            continue
        if len(known) < 5:
            time.sleep(0.05)
            continue
        first = rng.choice(known)
        tell(deleting=first)
        try:
            table.delete(where=f"id >= {first} AND id < {first + BATCH}")
            tell(deleted=first)
        except ConflictError:
            tell(kept=first)
        except IndexTablesError as error:
            tell(error=error.kind, message=error.message)


def check(url: str, options: dict[str, Any], seconds: float, number: int) -> None:
    """Verify every byte while all the others are at work: what they do is no finding."""
    for _ in until(seconds):
        try:
            report = Table.open(url, options=options).verify(full=True)
            tell(checked=report.splits_checked) if report.healthy else tell(
                wrong=report.to_dict()["findings"][:5]
            )
        except IndexTablesError as error:
            tell(error=error.kind, message=error.message)


def keep_up(
    act: Callable[[Table], Any], share: float = 0.0, rest: float = 0.0
) -> Callable[[str, dict[str, Any], float, int], None]:
    """An actor that repeats a verb, and rests after each: for a share of the whole time, or so many
    seconds.
    """

    def repeat(url: str, options: dict[str, Any], seconds: float, number: int) -> None:
        for _ in until(seconds):
            try:
                report = act(Table.open(url, options=options))
                tell(done=report.status)
            except ConflictError as conflict:
                tell(conflict=conflict.message)
            time.sleep(min(max(share * seconds, rest), 3.0))

    return repeat


ROLES: dict[str, Callable[[str, dict[str, Any], float, int], None]] = {
    "write": write,
    "read": read,
    "look": look,
    "check": check,
    "delete": remove,
    "merge": keep_up(lambda table: table.merge(max_source_splits=4, max_dest_splits=1)),
    # A purge that keeps nothing gives up what others are about to commit, so it must leave them
    # time for it.
    "purge": keep_up(
        lambda table: table.purge(older_than_hours=0, log_retention_hours=0), 0.05, rest=1.2
    ),
    "truncate": keep_up(lambda table: table.truncate_time_travel(), 0.02),
}


def warm_up() -> None:
    """Do everything once, elsewhere: the first time costs seconds on a busy machine."""
    with tempfile.TemporaryDirectory(
        ignore_cleanup_errors=True
    ) as folder:  # a checkpoint may be under way
        table = table_of(f"{folder}/t", appends=2)
        table.merge()
        table.scan().read_all()


def main() -> None:
    """Say that all is loaded, wait for the start, act."""
    role, url, options, seconds, number = sys.argv[1:6]
    if "cold" not in sys.argv[6:]:
        warm_up()
    tell(ready=role)
    sys.stdin.readline()
    ROLES[role](url, json.loads(options), float(seconds), int(number))


if __name__ == "__main__":
    main()

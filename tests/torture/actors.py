"""The actors of the torture: processes that use one table, note all they do in a journal, and stop
or die at any call.

A journal is a file of JSON lines that outlives its process: an operation that begins (`op`), the
versions it offered to the store and what the store said (`offer`, `put`), and how it ended (`ack`,
`doubt`, `refused`). From all journals together `tests.torture.history` reconstructs the serial
history.
"""

from __future__ import annotations

import ctypes
import datetime as dt
import json
import os
import random
import resource
import signal
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from functools import wraps
from pathlib import Path
from typing import Any

import pyarrow as pa
from msgspec import Struct

from indextables import Table
from indextables.errors import CheckpointWriteError, CommitUnknownError, IndexTablesError
from indextables.log.log_files import LOG, version_of
from indextables.model import snapshot
from indextables.operations import delete
from indextables.operations.jobs import NO_ACTION
from indextables.storage.local import LocalStore
from indextables.storage.remote import RemoteStore
from indextables.storage.store import PutOutcome, path_of
from tests.support.rows import ROWS, rows
from tests.torture.conditions import CONDITIONS
from tests.torture.history import age

BATCH = 5
STRIDE = 1_000_000
SCHEMA = ROWS.append(pa.field("ts", pa.timestamp("us")))
BEGIN = dt.datetime(2026, 1, 1)
RETENTION: dict[str, Any] = {"retention.column": "ts", "retention.period": "30 days"}
"""Every batch has a day, by which it grows old; few have the same."""


class Part(Struct, frozen=True):
    """What an actor is told: its role, the table, how long, and how likely it is to stop or die at
    a call.
    """

    role: str
    url: str
    options: dict[str, Any]
    number: int
    seed: int
    seconds: float
    journal: str
    stops: float = 0.0
    deaths: float = 0.0
    stop_once: str = ""
    """`created`: stop right after a version got its name, once; `offered`: right before; `opened`:
    at the first put.

    `checkpointing`: right before a file of a checkpoint, or the pointer; `cleaning`: before a file
    of the log is deleted.
    """
    condition: tuple[str, int] | None = None
    """Under which condition it works (see `tests.torture.conditions`), and how bad it is."""
    remembered: int = 0
    """So many transactions are remembered by a snapshot, where it is a bounded number: few make a
    flood short.
    """


class Journal:
    """The lines of one actor, each written at once."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self.op = -1

    def tell(self, **what: Any) -> None:
        """Write one line, however small the files are that the actor may write."""
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        try:
            os.write(self._file, json.dumps(what).encode() + b"\n")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


_OF_CHECKPOINTS = ("/state-v", "/manifests/", ".checkpoint.", "/_last_checkpoint")


class Nerves:
    """Where an actor stops or dies: at calls of the store, before or after they took effect."""

    def __init__(self, part: Part, journal: Journal) -> None:
        self._part, self._journal = part, journal
        self._rng = random.Random(part.seed * 7919 + part.number)
        self._once = part.stop_once

    def __call__(self, verb: str, path: str, when: str) -> None:
        """Called around every call of the store."""
        made = verb == "put_if_absent" and version_of(path) is not None
        put = verb in ("put", "put_file", "put_if_absent")
        point = {"before": "offered", "after": "created"}[when]
        if (
            (made and self._once == point)
            or (put and self._once == "opened")
            or (
                put
                and when == "before"
                and self._once == "checkpointing"
                and any(n in path for n in _OF_CHECKPOINTS)
            )
            or (
                verb == "delete"
                and when == "before"
                and self._once == "cleaning"
                and path.startswith(LOG)
            )
        ):
            self._once = ""
            self._stop(verb, path, when)
            return
        weight = 8.0 if made else 3.0 if verb in ("delete", "put_if_absent") else 1.0
        if self._rng.random() < self._part.deaths * weight:
            self._journal.tell(dies=[verb, path, when])
            os.kill(os.getpid(), signal.SIGKILL)
        if self._rng.random() < self._part.stops * weight:
            self._stop(verb, path, when)

    def _stop(self, verb: str, path: str, when: str) -> None:
        self._journal.tell(stops=[verb, path, when])
        os.kill(os.getpid(), signal.SIGSTOP)


def tap(journal: Journal, nerves: Nerves) -> None:
    """Let every store of this process tell what it is asked to create, and its user stop or die
    around each call.
    """
    for cls in (LocalStore, RemoteStore):
        for verb in ("get", "head", "put", "put_file", "delete", "put_if_absent"):
            setattr(cls, verb, _tapped(getattr(cls, verb), verb, journal, nerves))
    planned = delete.plan

    @wraps(planned)
    def plan(snapshot: Any, **how: Any) -> Any:
        journal.tell(reads=snapshot.version, op=journal.op)
        return planned(snapshot, **how)

    delete.plan = plan  # a deletion takes the rows of the version that it read: those that others append meanwhile stay


def _tapped(
    call: Callable[..., Any], verb: str, journal: Journal, nerves: Nerves
) -> Callable[..., Any]:
    @wraps(call)
    def tapped(store: Any, path: Any, *more: Any) -> Any:
        if verb == "delete":
            path = list(path)
        name = path if isinstance(path, str) else " ".join(map(path_of, path[:1]))
        version = version_of(name) if verb == "put_if_absent" else None
        nerves(verb, name, "before")
        if version is None:
            done = call(store, path, *more)
        else:
            journal.tell(offer=version, op=journal.op)
            done = call(store, path, *more)
            if done is not PutOutcome.UNKNOWN:
                journal.tell(put=version, op=journal.op, created=done is PutOutcome.CREATED)
        nerves(verb, name, "after")
        return done

    return tapped


class Actor:
    """One process's view: the table, its journal, and operations that end in one of four ways."""

    def __init__(self, part: Part, journal: Journal) -> None:
        self.part, self.journal = part, journal
        self.rng = random.Random(part.seed * 104_729 + part.number)
        self._end = time.monotonic() + part.seconds
        self._n = 0

    def rounds(self) -> Iterator[int]:
        """Numbers until the time is over."""
        n = 0
        while time.monotonic() < self._end:
            yield n
            n += 1

    def open(self, version: int | None = None) -> Table:
        """The table, as it is now or was."""
        return Table.open(self.part.url, version=version, options=self.part.options)

    def batch(self, n: int) -> int:
        """The first id of the n-th batch of this actor."""
        return self.part.number * STRIDE + n * BATCH

    def do(self, act: Callable[[], Any], **what: Any) -> bool:
        """An operation: noted, carried out, and its end noted. `act` returns the version, if there
        is one.
        """
        self._n += 1
        self.journal.op = self._n
        self.journal.tell(**{"begin": self._n, **what})
        try:
            version = act()
        except CommitUnknownError as error:
            self.journal.tell(doubt=self._n, why=error.message)
            return False
        except IndexTablesError as error:
            self.journal.tell(refused=self._n, error=kind_of(error), why=error.message)
            return False
        self.journal.tell(ack=self._n, version=version)
        return True

    def seen(self, table: Table) -> dict[int, int]:
        """Every batch of a table with its generation; one that is torn, mixed or double is told."""
        state, wrong = state_of(pairs_of(table))
        if wrong:
            self.journal.tell(wrong=wrong, version=table.version)
        return state


def kind_of(error: IndexTablesError) -> str:
    """Return the kind of an error; of a checkpoint that could not be written, with that of the
    reason.
    """
    cause = error.__cause__
    if isinstance(error, CheckpointWriteError) and isinstance(cause, IndexTablesError):
        return f"{error.kind}: {cause.kind}"
    return error.kind


def pairs_of(table: Table) -> list[tuple[int, int]]:
    """Every row's id and generation."""
    found = table.scan(columns=["id", "day"]).read_all()
    return list(zip(found.column("id").to_pylist(), found.column("day").to_pylist(), strict=True))


def state_of(pairs: list[tuple[int, int]]) -> tuple[dict[int, int], list[str]]:
    """Batches and their generation, and what is wrong with them, from pairs of id and generation."""
    counted = Counter(i for i, _ in pairs)
    wrong = [f"row {i} stands {n} times" for i, n in counted.items() if n > 1]
    batches: dict[int, list[int]] = {}
    for i, generation in pairs:
        batches.setdefault(i - i % BATCH, []).append(generation)
    for first, generations in batches.items():
        if len(generations) != BATCH or len(set(generations)) != 1:
            wrong.append(f"batch {first} is torn: {generations}")
    return {first: generations[0] for first, generations in batches.items()}, wrong[:5]


def data(first: int, generation: int = 0) -> Any:
    """The rows of a batch."""
    day = BEGIN + dt.timedelta(days=age(first))
    return rows(range(first, first + BATCH), day=generation).append_column(
        SCHEMA.field("ts"), [[day] * BATCH]
    )


def clock(edge: int) -> dt.datetime:
    """When the time of all batches is over whose day comes before an edge."""
    return BEGIN + dt.timedelta(days=edge + 30)


def within(first: int) -> str:
    """The condition that the rows of a batch fulfil."""
    return f"id >= {first} AND id < {first + BATCH}"


def write(actor: Actor) -> None:
    """Append batch after batch, through a handle that is often old."""
    table = actor.open()
    for n in actor.rounds():
        first = actor.batch(n)
        actor.do(lambda: table.append(data(first)), kind="add", batch=first)  # noqa: B023
        if actor.rng.random() < 0.7:
            table = actor.open()


def write_once(actor: Actor) -> None:
    """Append batches exactly once: each is tried again by whoever follows a writer that died, under
    the same number.
    """
    app = f"app-{actor.part.seed}-{actor.part.role}"
    for _ in actor.rounds():
        table = actor.open()
        found = table.handle.snapshot.header.txns.get(app)
        n = found.version + 1 if found is not None else 0
        first = 900 * STRIDE + n * BATCH
        for _again in range(1 + (actor.rng.random() < 0.3)):
            actor.do(lambda: table.append(data(first), txn=(app, n)), kind="once", batch=first)  # noqa: B023


def remove(actor: Actor) -> None:
    """Delete a batch that is there."""
    for _, table, known in _looks(actor, least=4, pause=0.1):
        first = actor.rng.choice(sorted(known))
        actor.do(lambda: table.delete(where=within(first)).version, kind="delete", batch=first)  # noqa: B023


def replace(actor: Actor) -> None:
    """Replace a batch that is there by its next generation; now and then the whole table by a
    batch.
    """
    for n, table, known in _looks(actor, least=4, pause=0.2):
        if actor.rng.random() < 0.1:
            whole = actor.batch(n)
            actor.do(lambda: table.overwrite(data(whole)), kind="overwrite", batch=whole)  # noqa: B023
        else:
            first = actor.rng.choice(sorted(known))
            new = known[first] + 1
            act = lambda: table.overwrite(data(first, new), where=within(first))  # noqa: B023, E731
            actor.do(act, kind="replace", batch=first, generation=new)


def update(actor: Actor) -> None:
    """Give a batch that is there its next generation, row by row where it lies."""
    for _, table, known in _looks(actor, least=4, pause=0.1):
        first = actor.rng.choice(sorted(known))
        new = known[first] + 1
        act = lambda: table.update(set={"day": new}, where=within(first)).version  # noqa: B023, E731
        actor.do(act, kind="update", batch=first, generation=new)


def upsert(actor: Actor) -> None:
    """Write a batch by its keys: one that is there gets its next generation, one that is not comes
    in, or comes back.
    """
    for n, table, known in _looks(actor, pause=0.1):
        there = known and actor.rng.random() < 0.6
        first = (
            actor.rng.choice(sorted(known))
            if there
            else actor.batch(max(0, n - actor.rng.randrange(4)))
        )
        new = known.get(first, 0) + 1
        act = lambda: table.upsert(data(first, new), on=["id"]).version  # noqa: B023, E731
        actor.do(act, kind="replace", batch=first, generation=new)


def expire(actor: Actor) -> None:
    """Let the oldest batches go, by their time."""
    for _, table, _known in _looks(actor, pause=0.3):
        edge = actor.rng.randrange(1, 8)
        actor.do(lambda: table.expire(now=clock(edge)).version, kind="expire", to=edge)  # noqa: B023


def alter(actor: Actor) -> None:
    """Add a column, give it another name, take it away: which columns of others stay as they are
    changes no row of theirs.
    """
    for n, table, _known in _looks(actor, pause=0.4):
        own = [name for name in table.schema.names if name not in SCHEMA.names]
        name = f"extra_{actor.part.number}_{n}"
        verbs: list[Callable[[], Any]] = [lambda: table.alter.add_column(name, "bigint", default=n)]  # noqa: B023
        if own:
            verbs.append(lambda: table.alter.rename_column(own[0], name))  # noqa: B023
            verbs.append(lambda: table.alter.drop_column(own[0]))  # noqa: B023
        act = verbs[0] if not own else actor.rng.choice(verbs if len(own) < 4 else verbs[2:])
        actor.do(lambda: act() and None, kind="upkeep", verb="alter")  # noqa: B023


def tag(actor: Actor) -> None:
    """Give the newest version or one of a moment ago a name, and take some of the own names away
    again.
    """
    names: list[str] = []
    for n, table, _known in _looks(actor, pause=0.4):
        if len(names) > 3 or (names and actor.rng.random() < 0.3):
            name = names.pop(actor.rng.randrange(len(names)))
            # Before the call: a process that is killed after it cannot report that the tag is gone.
            actor.journal.tell(untagged=name)
            actor.do(lambda: table.untag(name) and None, kind="upkeep", verb="untag")  # noqa: B023
            continue
        name = f"tag-{actor.part.number}-{n}"
        version = max(0, table.version - actor.rng.choice([0, 0, 0, 1, 3]))
        if actor.do(lambda: table.tag(name, version=version) and None, kind="upkeep", verb="tag"):  # noqa: B023
            names.append(name)
            actor.journal.tell(tagged=name, version=version)


def restore(actor: Actor) -> None:
    """Bring back a version of a moment ago."""
    for _ in actor.rounds():
        time.sleep(actor.rng.uniform(0.1, 0.6))
        table = _opened(actor)
        if table is None:
            continue
        version = max(0, table.version - actor.rng.randrange(1, 5))
        actor.do(lambda: _restored(table, version), kind="restore", to=version)  # noqa: B023


def _restored(table: Table, version: int) -> int | None:
    """The version that brings another one back; none if the table is as it was then, be it by
    others' doing.
    """
    report = table.restore(version=version)
    return None if report.status == NO_ACTION else report.version


def read(actor: Actor) -> None:
    """Look at whole versions, the newest and older ones, and tell what is in them."""
    for n in actor.rounds():
        try:
            table = actor.open()
            if n % 3 == 2:
                table = actor.open(max(0, table.version - actor.rng.randrange(6)))
            state = actor.seen(table)
        except IndexTablesError as error:
            actor.journal.tell(error=kind_of(error), message=error.message)
            continue
        actor.journal.tell(saw=table.version, state=sorted(state.items()))
        time.sleep(actor.rng.uniform(0, 0.1))


def _opened(actor: Actor) -> Table | None:
    """The table as it is now; none, and a line in the journal, if it cannot be opened."""
    try:
        return actor.open()
    except IndexTablesError as error:
        actor.journal.tell(error=kind_of(error), message=error.message)
        return None


def _looks(
    actor: Actor, *, least: int = 0, pause: float = 0.0
) -> Iterator[tuple[int, Table, dict[int, int]]]:
    """Round after round the table and its batches with their generations, once it has `least`;
    `pause` after each.
    """
    for n in actor.rounds():
        try:
            table = actor.open()
            known = actor.seen(table)
        except IndexTablesError as error:
            actor.journal.tell(error=kind_of(error), message=error.message)
            time.sleep(0.05)
            continue
        if len(known) < least:
            time.sleep(0.05)
            continue
        yield n, table, known
        if pause:
            time.sleep(actor.rng.uniform(0, pause))


def upkeep(act: Callable[[Table], Any], rest: float = 0.1) -> Callable[[Actor], None]:
    """An actor that repeats a verb which changes no row."""

    def repeat(actor: Actor) -> None:
        for _ in actor.rounds():
            table = _opened(actor)
            if table is None:
                continue
            actor.do(lambda: act(table) and None, kind="upkeep", verb=actor.part.role)  # noqa: B023
            time.sleep(actor.rng.uniform(0.3, 1.0) * rest)

    return repeat


def do_all(actor: Actor) -> None:
    """Every verb in some order, one after the other, with no retention but that of the settings."""
    for n, table, known in _looks(actor):
        first, fresh = actor.rng.choice(sorted(known) or [0]), actor.batch(n)
        verbs: list[tuple[Callable[[], Any], dict[str, Any]]] = [
            (lambda: table.append(data(fresh)), {"kind": "add", "batch": fresh}),  # noqa: B023
            (lambda: table.append(data(fresh)), {"kind": "add", "batch": fresh}),  # noqa: B023
            (lambda: table.delete(where=within(first)).version, {"kind": "delete", "batch": first}),  # noqa: B023
            (lambda: table.merge() and None, {"kind": "upkeep", "verb": "merge"}),  # noqa: B023
            (lambda: table.checkpoint() and None, {"kind": "upkeep", "verb": "checkpoint"}),  # noqa: B023
            (lambda: table.compact() and None, {"kind": "upkeep", "verb": "compact"}),  # noqa: B023
            (lambda: table.purge() and None, {"kind": "upkeep", "verb": "purge"}),  # noqa: B023
            (lambda: table.verify() and None, {"kind": "upkeep", "verb": "verify"}),  # noqa: B023
        ]
        act, what = actor.rng.choice(verbs)
        began = time.monotonic()
        actor.do(act, **what)
        actor.journal.tell(took=time.monotonic() - began, what=what)


def flood(actor: Actor) -> None:
    """As many commits as there are in `seconds`, none of which changes a row: they only push others
    into the past.
    """
    table = actor.open()
    for n in range(round(actor.part.seconds)):
        with table.transaction(txn=(f"flood-{actor.part.number}", n)):
            pass


ROLES: dict[str, Callable[[Actor], None]] = {
    "write": write,
    "write_once": write_once,
    "delete": remove,
    "replace": replace,
    "update": update,
    "upsert": upsert,
    "expire": expire,
    "alter": alter,
    "tag": tag,
    "restore": restore,
    "read": read,
    "flood": flood,
    "all": do_all,
    "merge": upkeep(lambda table: table.merge(max_source_splits=4, max_dest_splits=1)),
    # A purge that keeps nothing gives up what others are about to commit, so it must leave them
    # time for it.
    "purge": upkeep(lambda table: table.purge(older_than_hours=0, log_retention_hours=0), rest=2.0),
    "truncate": upkeep(lambda table: table.truncate_time_travel(), rest=0.5),
    "compact": upkeep(lambda table: table.compact(), rest=0.5),
    "checkpoint": upkeep(lambda table: table.checkpoint(), rest=0.5),
}


PR_SET_PDEATHSIG = 1


def play(part: Part) -> None:
    """What the process does. It does not outlive who started it, not even asleep."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    folder = Path(part.journal).parent / "tmp"
    folder.mkdir(exist_ok=True)
    folder.chmod(0o777)
    tempfile.tempdir = os.environ["TMPDIR"] = str(folder)
    journal = Journal(part.journal)
    journal.tell(role=part.role, number=part.number)
    tap(journal, Nerves(part, journal))
    if part.remembered and hasattr(snapshot, "RECENT_TXN_IDS"):
        snapshot.RECENT_TXN_IDS = part.remembered
    try:
        if part.condition is not None:
            name, amount = part.condition
            CONDITIONS[name](amount)
        ROLES[part.role](Actor(part, journal))
        journal.tell(end=True)
    except BaseException:
        journal.tell(crash=traceback.format_exc()[-2000:])
        raise

"""Requests that fail and files that are damaged, then every verb of upkeep: the rows stay those
that were acknowledged.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from indextables import Table
from indextables.errors import CommitUnknownError, IndexTablesError
from indextables.log.checkpoint.checkpointer import CHECKPOINTS
from indextables.log.history import log_action_rows
from indextables.wire import old_checkpoints
from tests.support.fault_server import FaultServer
from tests.support.places import StorePlace
from tests.support.rows import TEXT
from tests.torture.actors import BATCH, RETENTION, SCHEMA, clock, data, pairs_of, state_of
from tests.torture.history import age
from tests.torture.stage import fresh_folder
from tests.torture.suite import Tally
from tests.torture.weather import Bucket, Folder, Ground, Storm, damage

OPTIONS: dict[str, Any] = {
    "purge.retentionCheckEnabled": False,
    "transaction.retry.baseDelayMs": 1,
    "transaction.retry.maxDelayMs": 20,
    "state.retry.baseDelayMs": 1,
    "state.retry.maxDelayMs": 20,
}
FORMS = ("avro", "avro", "json", "multi-part", "parquet")
State = dict[int, int]


class Faults:
    """On disk with damage alone, and over HTTP with faults of requests as well, by turns."""

    name = "faults"
    quick = (2, 3, 7, 102, 104)
    quick_seconds = 6.0

    def run(self, seed: int, deadline: float) -> Tally:
        """One round."""
        rng = random.Random(seed)
        tally = Tally()
        form = rng.choice(FORMS)
        with ExitStack() as stack:
            if form == "multi-part":
                stack.enter_context(patch.object(old_checkpoints, "ACTIONS_PER_PART", 3))
            place, ground, storm = stack.enter_context(site(rng, http=seed % 2 == 0))
            tally.count(f"rounds with {form} {'over HTTP' if storm else 'on disk'}")
            _Round(place, ground, storm, form, rng, tally, seed).play(deadline)
            if storm:
                tally.counts.update(storm.counts)
        return tally


@contextmanager
def site(rng: random.Random, *, http: bool) -> Iterator[tuple[StorePlace, Ground, Storm | None]]:
    """A place for a table, its files from behind, and the faults on the way there."""
    with fresh_folder() as folder:
        if not http:
            yield StorePlace(str(folder / "t")), Folder(folder / "t"), None
            return
        with FaultServer() as server:
            place = server.s3.below("t")
            quick = {**place.options, "storage.timeoutMs": "2000", "storage.retry.maxRetries": "2"}
            yield StorePlace(place.url, quick), Bucket(server, "t"), Storm(rng, server)


class _Round:
    """One table and what must be in it."""

    def __init__(
        self,
        place: StorePlace,
        ground: Ground,
        storm: Storm | None,
        form: str,
        rng: random.Random,
        tally: Tally,
        seed: int,
    ) -> None:
        self.place, self.ground, self.storm, self.rng, self.tally, self.seed = (
            place,
            ground,
            storm,
            rng,
            tally,
            seed,
        )
        written = "json" if form == "multi-part" else form
        self.options = {**place.options, **OPTIONS}
        kept = {
            **TEXT,
            **RETENTION,
            "checkpoint.interval": rng.choice([2, 3, 5]),
            "state.format": written,
        }
        kept["delete.mode"] = rng.choice(["auto", "vector", "rewrite"])
        kept["state.entriesPerManifest"] = rng.choice([2, 50_000])
        Table.create(place.url, schema=SCHEMA, options={**self.options, **kept})
        self.rows: State = {}
        self.past: dict[int, State] = {0: {}}
        self.deeds: list[str] = []
        self.next = 0
        self.ended = False

    def play(self, deadline: float) -> None:
        """Step by step, until the time is over or something is lost."""
        for _ in range(6):
            self._do("append")
        while time.monotonic() < deadline and not self.ended:
            if self.rng.random() < 0.4:
                self._damage()
            if not self.ended:
                self._do(self.rng.choice(VERBS), rate=self.rng.choice([0.0, 0.05, 0.3]))

    def _do(self, verb: str, rate: float = 0.0) -> None:
        """One verb in the storm, then a look at the rows in calm weather."""
        before, told = dict(self.rows), "ack"
        wanted = before
        if self.storm:
            self.storm.rate = rate
        try:
            table = Table.open(self.place.url, options=self.options)
            wanted = getattr(self, f"_{verb}", self._upkeep(verb))(table)
        except CommitUnknownError:
            told = "doubt"
            wanted = self._wanted
        except IndexTablesError as error:
            told = f"refused: {error.kind}"
        except Exception as error:
            self._violation("error", f"{verb} raised {error!r}")
        finally:
            if self.storm:
                self.storm.rate = 0.0
        self.tally.count(f"{verb}: {told.partition(':')[0]}")
        self.deeds.append(f"{verb} ({told}, faults {rate})")
        self._look([wanted] if told == "ack" else [before, wanted] if told == "doubt" else [before])

    def _look(self, allowed: list[State]) -> None:
        """The rows as a new process finds them."""
        try:
            table, found = self._fresh()
        except Exception as error:
            kind = "lost" if isinstance(error, IndexTablesError) else "error"
            self._violation(kind, f"the table cannot be read any more: {error!r}")
            return
        self.tally.count("rows accounted", len(found) * BATCH)
        if found not in allowed:
            gone = [first for first in allowed[0] if first not in found]
            self._violation("lost" if gone else "wrong", f"the rows are {found} and not {allowed}")
            return
        self.rows = found
        self.past[table.version] = found

    def _fresh(self) -> tuple[Table, State]:
        Table.open(self.place.url, options=self.options).invalidate_cache()
        table = Table.open(self.place.url, options=self.options)
        found, wrong = state_of(pairs_of(table))
        if wrong:
            self._violation("wrong", f"version {table.version}: {wrong}")
        return table, found

    def _damage(self) -> None:
        """Damage a file, if the table can be read without it; what is the only copy of something is
        given back.
        """
        CHECKPOINTS.settle(self.place.url)  # or its cleaning takes away what is about to be damaged
        done = damage(self.ground, self.rng)
        if done is None:
            return
        how, name, held = done
        try:
            whole = self._fresh()[1] == self.rows
        except IndexTablesError:
            self.ground.write(name, held)
            self.tally.count("damaged files that were the only copy, given back")
            return
        self.tally.count(f"damaged files: {how}")
        self.deeds.append(f"{how} {name}")
        if not whole:
            self._violation("wrong", f"after {how} of {name} the table is read as another one")
            self.ground.write(name, held)
            self.ended = False  # that is one finding; what else there is shows without it

    def _violation(self, kind: Any, what: str) -> None:
        self.ended = True
        self.tally.violation(kind, what, seed=self.seed, deeds=self.deeds[-12:])

    def _append(self, table: Table) -> State:
        first, self.next = self.next, self.next + BATCH
        self._wanted = {**self.rows, first: 0}
        table.append(data(first))
        return self._wanted

    def _delete(self, table: Table) -> State:
        if not self.rows:
            return self.rows
        first = self.rng.choice(sorted(self.rows))
        self._wanted = {
            batch: generation for batch, generation in self.rows.items() if batch != first
        }
        table.delete(where=f"id >= {first} AND id < {first + BATCH}")
        return self._wanted

    def _replace(self, table: Table) -> State:
        if not self.rows:
            return self.rows
        first = self.rng.choice(sorted(self.rows))
        self._wanted = {**self.rows, first: self.rows[first] + 1}
        table.overwrite(
            data(first, self.rows[first] + 1), where=f"id >= {first} AND id < {first + BATCH}"
        )
        return self._wanted

    def _update(self, table: Table) -> State:
        if not self.rows:
            return self.rows
        first = self.rng.choice(sorted(self.rows))
        self._wanted = {**self.rows, first: self.rows[first] + 1}
        table.update(
            set={"day": self.rows[first] + 1}, where=f"id >= {first} AND id < {first + BATCH}"
        )
        return self._wanted

    def _upsert(self, table: Table) -> State:
        first = self.rng.choice([*sorted(self.rows), self.next])
        self.next = max(self.next, first + BATCH)
        generation = self.rows.get(first, 0) + 1
        self._wanted = {**self.rows, first: generation}
        table.upsert(data(first, generation), on=["id"])
        return self._wanted

    def _expire(self, table: Table) -> State:
        edge = self.rng.randrange(1, 12)
        self._wanted = {
            batch: generation for batch, generation in self.rows.items() if age(batch) >= edge
        }
        table.expire(now=clock(edge))
        return self._wanted

    def _restore(self, table: Table) -> State:
        version = self.rng.choice(sorted(self.past)[-6:])
        self._wanted = self.past[version]
        table.restore(version=version)
        return self._wanted

    def _upkeep(self, verb: str) -> Callable[[Table], State]:
        def keep(table: Table) -> State:
            self._wanted = self.rows
            UPKEEP[verb](table) if verb in UPKEEP else None
            return self.rows

        return keep


UPKEEP: dict[str, Callable[[Table], Any]] = {
    "merge": lambda table: table.merge(max_source_splits=4, max_dest_splits=1),
    "purge": lambda table: table.purge(older_than_hours=0, log_retention_hours=0),
    "default purge": lambda table: table.purge(),
    "truncate": lambda table: table.truncate_time_travel(),
    "compact": lambda table: table.compact(),
    "checkpoint": lambda table: table.checkpoint(),
    "verify": lambda table: table.verify(full=True),
    "describe": lambda table: (
        table.state(),
        table.history(),
        log_action_rows(table.handle.log, include_all=True),
    ),
    "dry runs": lambda table: (table.purge(dry_run=True), table.truncate_time_travel(dry_run=True)),
}
VERBS = (
    "append",
    "append",
    "append",
    "delete",
    "replace",
    "update",
    "upsert",
    "expire",
    "restore",
    *UPKEEP,
)
SUITE = Faults()

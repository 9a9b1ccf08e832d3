"""A table against a plain dictionary: random verbs, random crashes, and at every moment the same
content.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from indextables import Table
from indextables.errors import CommitUnknownError, StorageError
from indextables.handle import TableHandle
from indextables.log.transaction import Changes
from indextables.model.conflicts import Operation
from indextables.storage.local import LocalStore
from tests.support.faulty_store import Effect, Fault, FaultyStore
from tests.support.tables import create_on, live, log_on, open_on, split

EFFECTS = [Effect.FAIL_BEFORE, Effect.FAIL_AFTER]
PUT_EFFECTS = [Effect.UNKNOWN_BEFORE, Effect.UNKNOWN_AFTER, Effect.LOST, Effect.CONFLICT]


class LogMachine(RuleBasedStateMachine):
    """The model: the live names, and what they were at each version."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.store = LocalStore(self.folder.name)
        self.table = create_on(self.store)
        self.live: set[str] = set()
        self.txns: dict[str, int] = {}
        self.skips: dict[str, int] = {}
        self.versions: list[set[str]] = [set()]
        self.counter = 0

    def teardown(self) -> None:
        self.folder.cleanup()

    def fresh(self) -> str:
        self.counter += 1
        return f"n{self.counter}"

    def landed(self) -> None:
        self.skips = {name: n for name, n in self.skips.items() if name in self.live}
        self.versions.append(set(self.live))

    @rule(count=st.integers(1, 3))
    def append(self, count: int) -> None:
        names = [self.fresh() for _ in range(count)]
        with self.table.transaction(check_splits=False) as tx:
            for name in names:
                tx.add(split(name))
        self.live |= set(names)
        self.landed()

    @rule()
    def overwrite(self) -> None:
        name = self.fresh()
        self.table.handle.commit(
            Changes(Operation.OVERWRITE, adds=[split(name)], selected=lambda s: s.all_files)
        )
        self.live = {name}
        self.landed()

    @precondition(lambda self: self.live)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.live)))
        with self.table.transaction(operation=Operation.DELETE) as tx:
            tx.remove(f"splits/{name}.split")
        self.live.discard(name)
        self.landed()

    @precondition(lambda self: any(names - self.live for names in self.versions))
    @rule(data=st.data())
    def add_again(self, data: st.DataObject) -> None:
        gone = sorted(set().union(*self.versions) - self.live)
        name = data.draw(st.sampled_from(gone))
        with self.table.transaction(operation=Operation.RESTORE, check_splits=False) as tx:
            tx.add(split(name, size=1_000))
        self.live.add(name)
        self.landed()

    @precondition(lambda self: self.live)
    @rule(data=st.data())
    def skip(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.live)))
        with self.table.transaction(operation=Operation.SKIP) as tx:
            tx.skip(f"splits/{name}.split", reason="broken")
        self.skips[name] = self.skips.get(name, 0) + 1
        self.landed()

    @rule(app=st.sampled_from("xy"), batch=st.integers(0, 5))
    def exactly_once(self, app: str, batch: int) -> None:
        name = self.fresh()
        with self.table.transaction(txn=(app, batch), check_splits=False) as tx:
            tx.add(split(name))
        if batch > self.txns.get(app, -1):
            assert tx.version is not None
            self.txns[app] = batch
            self.live.add(name)
            self.landed()
        else:
            assert tx.version is None

    @rule(k=st.integers(1, 6), effect=st.sampled_from(EFFECTS + PUT_EFFECTS))
    def crash(self, k: int, effect: Effect) -> None:
        """A process whose k-th storage call goes wrong; afterwards another one looks at what is
        there.
        """
        name = self.fresh()
        verb = "put_if_absent" if effect in PUT_EFFECTS else None
        faulty = FaultyStore(
            self.store, [Fault(verb, at=1 if verb else k, effect=effect, times=1 if verb else 99)]
        )
        told: Any = None
        try:
            log = log_on(faulty, attempts=2)
            table = Table(TableHandle(log, log.newest(), {"transaction.retry.maxAttempts": 2}))
            with table.transaction(check_splits=False) as tx:
                tx.add(split(name))
            told = tx.version
        except CommitUnknownError:
            told = "unknown"
        except StorageError:
            told = None
        there = name in live(open_on(self.store))
        if told != "unknown":
            assert there == (told is not None)
        if there:
            self.live.add(name)
            self.landed()

    @rule()
    def reopen(self) -> None:
        self.table = open_on(self.store)

    @rule(data=st.data())
    def travel(self, data: st.DataObject) -> None:
        version = data.draw(st.integers(0, len(self.versions) - 1))
        assert {f"splits/{n}.split" for n in self.versions[version]} == set(
            self.table.handle.log.at_version(version).all_files.column("path").to_pylist()
        )

    @invariant()
    def a_new_reader_sees_exactly_this(self) -> None:
        table = open_on(self.store)
        assert live(table) == self.live
        assert table.version == len(self.versions) - 1
        skipped = table.skipped_files().to_pylist()
        counts = {Path(row["path"]).stem: row["skip_count"] for row in skipped}
        assert counts == self.skips
        assert {a: t.version for a, t in table.handle.snapshot.header.txns.items()} == self.txns


TestLogMachine = LogMachine.TestCase
TestLogMachine.settings = settings(
    max_examples=40,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)

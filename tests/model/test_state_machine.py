"""Checkpoints of every form, compaction, cleaning and damage, in any order: a new reader always
sees the same table.
"""

from __future__ import annotations

import random
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from indextables.config.log import CheckpointSettings, CompactionSettings, StateWriteSettings
from indextables.errors import CorruptTableError
from indextables.log.cache import LogCache
from indextables.log.checkpoint.state_files import StateFiles
from indextables.log.checkpoint.state_writer import Compact
from indextables.log.context import LogContext, LogSettings
from indextables.log.create import create_table
from indextables.log.transaction import Changes
from indextables.log.transaction_log import TransactionLog
from indextables.model.actions import AddAction, MetadataAction
from indextables.model.retention import RetentionPolicy
from indextables.model.schema import schema_to_json
from indextables.storage.local import LocalStore
from tests.support.tables import SCHEMA, clock

NOTHING_KEPT = RetentionPolicy(log_ms=0, state_ms=0, checkpoint_ms=0, manifest_ms=0)
FORMATS = st.sampled_from(["avro", "avro", "avro", "json", "parquet"])


def open_log(store: LocalStore, kind: str = "avro", *, interval: int = 4) -> TransactionLog:
    log_settings = LogSettings(
        checkpoint=CheckpointSettings(interval=interval, format=kind),
        state_write=StateWriteSettings(entries_per_manifest=5),
        compaction=CompactionSettings(max_manifests=4, tombstone_threshold=0.3),
    )
    return TransactionLog(
        LogContext(
            store,
            log_settings,
            cache=LogCache(1 << 24),
            now_ms=clock(),
            rng=random.Random(1),
            sleep=lambda _: None,
        )
    )


class StateMachine(RuleBasedStateMachine):
    """The model is the live files with their sizes."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.store = LocalStore(self.folder.name)
        self.log = open_log(self.store)
        metadata = MetadataAction(
            id="t", schema_string=schema_to_json(SCHEMA), partition_columns=("day",)
        )
        create_table(self.log, metadata, exist_ok=False, engine_info="test")
        self.live: dict[str, int] = {}
        self.gone: set[str] = set()
        self.txns: dict[str, int] = {}
        self.counter = 0

    def teardown(self) -> None:
        self.folder.cleanup()

    def commit(self, **changes: Any) -> None:
        log = self.log
        log.commit(log.newest(), Changes("WRITE", **changes))
        assert log.upkeep.failures == 0, log.upkeep.last_failure

    def new_file(self, *, unique: bool) -> AddAction:
        self.counter += 1
        name = f"{self.counter:032x}" if unique else f"n{self.counter}"
        return self.file(f"day={self.counter % 3}/{name}.split")

    def file(self, path: str) -> AddAction:
        self.counter += 1
        bounds = {"id": str(self.counter)}
        day = path[4:].partition("/")[0]
        return AddAction(
            path=path,
            size=self.counter,
            partition_values={"day": day},
            min_values=bounds,
            max_values=bounds,
        )

    @rule(count=st.integers(1, 4), unique=st.booleans())
    def append(self, count: int, unique: bool) -> None:
        adds = [self.new_file(unique=unique) for _ in range(count)]
        self.commit(adds=adds)
        self.live |= {a.path: a.size for a in adds}

    @precondition(lambda self: self.live)
    @rule(data=st.data())
    def remove_some(self, data: st.DataObject) -> None:
        paths = data.draw(
            st.lists(st.sampled_from(sorted(self.live)), min_size=1, max_size=3, unique=True)
        )
        self.commit(removes=paths)
        for path in paths:
            del self.live[path]
        self.gone |= set(paths)

    @precondition(lambda self: self.gone)
    @rule(data=st.data())
    def add_again(self, data: st.DataObject) -> None:
        added = self.file(data.draw(st.sampled_from(sorted(self.gone))))
        self.commit(adds=[added])
        self.live[added.path] = added.size
        self.gone.discard(added.path)

    @precondition(lambda self: any("/n" in path for path in self.live))
    @rule(data=st.data())
    def add_over(self, data: st.DataObject) -> None:
        """A live path is added with other facts: the last word counts."""
        added = self.file(data.draw(st.sampled_from(sorted(p for p in self.live if "/n" in p))))
        self.commit(adds=[added])
        self.live[added.path] = added.size

    @rule(app=st.sampled_from("ab"))
    def batch(self, app: str) -> None:
        self.txns[app] = self.txns.get(app, 0) + 1
        added = self.new_file(unique=True)
        self.commit(adds=[added], txn=(app, self.txns[app]))
        self.live[added.path] = added.size

    @rule(compact=st.sampled_from(Compact))
    def checkpoint(self, compact: Compact) -> None:
        report = self.log.checkpoint(compact=compact)
        assert report.num_files == len(self.live)

    @rule(kind=FORMATS)
    def another_process(self, kind: str) -> None:
        self.log = open_log(self.store, kind)

    @rule()
    def clean(self) -> None:
        cleaner = self.log.cleaner()
        cleaner.run(cleaner.plan(NOTHING_KEPT))

    @rule(data=st.data(), cut=st.booleans())
    def damage(self, data: st.DataObject, cut: bool) -> None:
        """A derived file is damaged while every version is still there: nothing is lost, and the
        next state heals it.
        """
        log = Path(self.folder.name) / "_transaction_log"
        if not (log / f"{0:020d}.json").exists():
            return
        derived = sorted(p for p in log.rglob("*.avro")) + [log / "_last_checkpoint"] * 1
        path = data.draw(
            st.sampled_from([p for p in derived if p.exists()] or [log / "_last_checkpoint"])
        )
        path.write_bytes(path.read_bytes()[:-20] if cut and path.exists() else b"garbage")
        self.log = open_log(self.store)

    @invariant()
    def a_new_reader_sees_exactly_this(self) -> None:
        snapshot = open_log(self.store).newest()
        files = snapshot.all_files
        found = dict(
            zip(files.column("path").to_pylist(), files.column("size").to_pylist(), strict=True)
        )
        assert found == self.live
        assert files.num_rows == len(self.live)
        assert {app: txn.version for app, txn in snapshot.header.txns.items()} == self.txns

    @invariant()
    def the_newest_state_counts_rightly(self) -> None:
        snapshot = open_log(self.store).newest()
        source = snapshot.base.source
        if not isinstance(source, StateFiles) or snapshot.delta.touched:
            return
        try:
            live = [table.num_rows for table in source.live_entries(source.state.manifests)]
        except CorruptTableError:
            return
        assert (source.state.num_files, source.state.total_bytes) == (
            len(self.live),
            sum(self.live.values()),
        )
        assert live == [m.live_entry_count for m in source.state.manifests]
        hidden = sum(m.tombstone_count for m in source.state.manifests)
        assert hidden == source.state.num_entries - source.state.num_files


TestStateMachine = StateMachine.TestCase
TestStateMachine.settings = settings(
    max_examples=40, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)

"""One group's merge: its splits become one new split in the store, and a log entry for the driver to commit.

A `MergeTask` is plain values and travels by pickle; the store is opened where it runs. A source that cannot be read is
left out and named, with the reason; the rest is merged all the same.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from indextables.config.splits import SplitWriterSettings
from indextables.config.stats import StatsSettings
from indextables.config.upkeep import MIN_SOURCES
from indextables.errors import (
    CorruptTableError,
    IndexTablesError,
    SchemaMismatchError,
    StorageError,
    UnsupportedError,
)
from indextables.model.actions import AddAction
from indextables.model.schema import schema_from_json
from indextables.splits.foreign import ForeignReader
from indextables.splits.mapping import DocMapping
from indextables.splits.merge import MergeSource, merge_splits
from indextables.splits.naming import new_split_name, split_path
from indextables.splits.opening import open_split
from indextables.splits.reader import SplitReader
from indextables.splits.source import open_source
from indextables.storage.spec import StoreSpec, open_store
from indextables.storage.store import Store
from indextables.upkeep.merge_plan import MergeGroup, SourceSplit

logger = logging.getLogger(__name__)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


@dataclass(frozen=True)
class FailedSource:
    """A split that could not be read, and why."""

    path: str
    reason: str


@dataclass(frozen=True)
class MergeOutcome:
    """What became of a group. No entry and no error: too few of its splits could be read, or they hold no rows."""

    group: MergeGroup
    merged: tuple[SourceSplit, ...] = ()
    added: AddAction | None = None
    failed: tuple[FailedSource, ...] = ()
    error: IndexTablesError | None = None


@dataclass(frozen=True)
class MergeTask:
    """Everything a worker needs to merge a group."""

    spec: StoreSpec
    schema_json: str
    partition_columns: tuple[str, ...]
    mapping: DocMapping
    """How columns are indexed that no source has; for the others the sources' own way stays."""
    group: MergeGroup
    splits: SplitWriterSettings
    stats: StatsSettings

    def run(
        self,
        *,
        store: Store | None = None,
        new_name: Callable[[], str] = new_split_name,
        now_ms: Callable[[], int] = _now_ms,
    ) -> MergeOutcome:
        """Merge the group. What went wrong is part of the outcome; nothing that was uploaded is left behind then."""
        merging = _Merging(self, store or open_store(self.spec), new_name, now_ms)
        try:
            return merging.run()
        except IndexTablesError as error:
            return MergeOutcome(self.group, failed=tuple(merging.failed), error=error)


class _Merging:
    """One run of a task: the sources that are left, and those that had to be left out."""

    def __init__(self, task: MergeTask, store: Store, new_name: Callable[[], str], now_ms: Callable[[], int]) -> None:
        schema = schema_from_json(task.schema_json)
        self.failed: list[FailedSource] = []
        self._task = task
        self._store = store
        self._new_name = new_name
        self._now_ms = now_ms
        self._body = pa.schema([f for f in schema if f.name not in task.partition_columns])
        self._doubted: set[str] = set()

    def run(self) -> MergeOutcome:
        sources = list(self._task.group.sources)
        enough = min(MIN_SOURCES, len(sources))
        while len(sources) >= enough:
            try:
                added = self._merge(sources)
                return MergeOutcome(self._task.group, tuple(sources), added, tuple(self.failed))
            except (CorruptTableError, UnsupportedError, SchemaMismatchError, StorageError) as error:
                culprit = next((source for source in sources if source.path == error.context.get("path")), None)
                if culprit is None or not self._is_to_blame(culprit, error):
                    raise
                if isinstance(error, StorageError) and culprit.path not in self._doubted:
                    self._doubted.add(culprit.path)
                    continue
                self.failed.append(FailedSource(culprit.path, error.message))
                sources.remove(culprit)
        return MergeOutcome(self._task.group, failed=tuple(self.failed))

    def _is_to_blame(self, source: SourceSplit, error: IndexTablesError) -> bool:
        """Whether it is the split that is bad, and not the store: a store that fails for several splits is down."""
        return not isinstance(error, StorageError) or self._doubted <= {source.path}

    def _merge(self, sources: Sequence[SourceSplit]) -> AddAction | None:
        task = self._task
        with ExitStack() as opened:
            readers = [self._open(source, opened) for source in sources]
            mapping = kept_mapping(readers, task.mapping)
            tags = sorted({tag for source in sources for tag in source.split_tags})
            merging = merge_splits(
                [MergeSource(reader) for reader in readers],
                self._body,
                mapping,
                settings=task.splits,
                stats=task.stats,
                tags=tags,
            )
            info = opened.enter_context(merging)
            if info is None:
                return None
            values = dict(task.group.partition_values)
            action = info.add_action(
                split_path({name: values.get(name) for name in task.partition_columns}, self._new_name()),
                partition_values=values,
                modification_time=self._now_ms(),
                data_change=False,
                num_merge_ops=max(source.num_merge_ops for source in sources) + 1,
            )
            self._upload(action, info.path)
            return action

    def _open(self, source: SourceSplit, opened: ExitStack) -> SplitReader | ForeignReader:
        place = open_source(self._store, source.path, size=source.size)
        reader = open_split(place, self._body, footer_start=source.footer_start, num_records=source.num_records)
        if isinstance(reader, ForeignReader):
            opened.enter_context(closing(reader))
        return reader

    def _upload(self, action: AddAction, path: Path) -> None:
        try:
            self._store.put_file(action.path, path)
        except BaseException:
            # It may have arrived all the same, and nobody will ever name it.
            discard(self._store, [action.path])
            raise


def discard(store: Store, paths: Sequence[str]) -> None:
    """Delete splits that no commit names. What cannot be deleted is an orphan for the next purge."""
    try:
        store.delete(paths)
    except StorageError as error:
        logger.warning("splits that nobody needs stay in %s: %s", store.url, error.message)


def kept_mapping(readers: Sequence[SplitReader | ForeignReader], wanted: DocMapping) -> DocMapping:
    """The mapping of the merged split: a column stays indexed as it is in the newest source that has it."""
    columns = []
    for column in wanted.columns:
        known = (reader.mapping.find(column.name) for reader in reversed(readers))
        found = next((own for own in known if own is not None), column)
        columns.append(replace(found, field=column.field))
    return DocMapping(tuple(columns))

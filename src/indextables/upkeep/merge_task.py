"""One group's merge: its splits become one new split in the store, and a log entry for the driver to commit.

A `MergeTask` is plain values and travels by pickle; the store is opened where it runs. A source that cannot be read is
left out and named, with the reason; the rest is merged all the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, closing

from msgspec import Struct

from indextables.config.upkeep import MIN_SOURCES
from indextables.errors import (
    CorruptTableError,
    IndexTablesError,
    SchemaMismatchError,
    StorageError,
    UnsupportedError,
)
from indextables.model.actions import AddAction
from indextables.splits.foreign import ForeignReader
from indextables.splits.merge import MergeSource
from indextables.splits.opening import open_split
from indextables.splits.reader import SplitReader
from indextables.splits.source import open_source
from indextables.storage.spec import open_store
from indextables.storage.store import Store
from indextables.upkeep.merge_plan import MergeGroup
from indextables.upkeep.rewriting import Naming, SourceSplit, SplitRewriter


class FailedSource(Struct, frozen=True):
    """A split that could not be read, and why."""

    path: str
    reason: str


class MergeOutcome(Struct, frozen=True):
    """What became of a group. No entry and no error: too few of its splits could be read, or they hold no rows."""

    group: MergeGroup
    merged: tuple[SourceSplit, ...] = ()
    added: AddAction | None = None
    failed: tuple[FailedSource, ...] = ()
    error: IndexTablesError | None = None


class MergeTask(Struct, frozen=True):
    """Everything a worker needs to merge a group."""

    rewriter: SplitRewriter
    group: MergeGroup

    def run(self, *, store: Store | None = None, naming: Naming | None = None) -> MergeOutcome:
        """Merge the group. What went wrong is part of the outcome; nothing that was uploaded is left behind then."""
        merging = _Merging(self, store or open_store(self.rewriter.spec), naming or Naming())
        try:
            return merging.run()
        except IndexTablesError as error:
            return MergeOutcome(self.group, failed=tuple(merging.failed), error=error)


class _Merging:
    """One run of a task: the sources that are left, and those that had to be left out."""

    def __init__(self, task: MergeTask, store: Store, naming: Naming) -> None:
        self.failed: list[FailedSource] = []
        self._task = task
        self._store = store
        self._naming = naming
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
        with ExitStack() as opened:
            return self._task.rewriter.rewrite(
                [(source, MergeSource(self._open(source, opened))) for source in sources],
                self._task.group.partition_values,
                store=self._store,
                naming=self._naming,
                num_merge_ops=max(source.num_merge_ops for source in sources) + 1,
                data_change=False,
            )

    def _open(self, source: SourceSplit, opened: ExitStack) -> SplitReader | ForeignReader:
        place = open_source(self._store, source.path, size=source.size)
        body = self._task.rewriter.body
        reader = open_split(place, body, footer_start=source.footer_start, num_records=source.num_records)
        if isinstance(reader, ForeignReader):
            opened.enter_context(closing(reader))
        return reader

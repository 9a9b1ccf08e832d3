"""One worker's part of a scan: opens splits, finds rows, reads columns."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from functools import cached_property
from itertools import islice
from typing import TypeVar

import numpy as np
import pyarrow as pa
from msgspec import Struct

from indextables.errors import IndexTablesError
from indextables.metrics import METRICS, PROFILER
from indextables.model.predicate import Predicate, columns_of
from indextables.pools import SPLITS
from indextables.query.plan import ScanPlan
from indextables.splits.index.mapping import DocMapping
from indextables.splits.query.to_predicate import predicate_mask
from indextables.splits.query.to_tantivy import dictionary_term
from indextables.splits.query.tree import AllRows, Boost, Query, Words
from indextables.splits.read.bundle_files import WHOLE_BYTES
from indextables.splits.read.cache import SplitCache
from indextables.splits.read.companion_split import CompanionOpener
from indextables.splits.read.foreign import ForeignReader
from indextables.splits.read.table_split import (
    SplitEntry,
    TableSplit,
    open_table_split,
    opened_table_split,
    shared_table_split,
)
from indextables.splits.search.candidates import term_filters
from indextables.splits.search.match import count_rows, find_rows
from indextables.storage.spec import open_store
from indextables.storage.store import Store

logger = logging.getLogger(__name__)
Item = TypeVar("Item")
T = TypeVar("T")
ENOUGH: ContextVar[Callable[[], None] | None] = ContextVar("ENOUGH", default=None)
"""Called between the splits of every scan of this context; raises if the result is no longer
needed.
"""


_MOST_ROWS = 0.8
_MAX_PER_THREAD = 32
_TURNS = 4
_MIN_FILTERED = 4
"""With fewer splits, a search opens all of them."""
"""A thread gets several local splits at a time, because a switch of threads takes longer than a
search in a small one.
"""


class ScanTask(Struct, frozen=True, dict=True):
    """Runs a plan or a part of it in this process. Opens the store unless one is passed."""

    plan: ScanPlan
    given_store: Store | None = None
    is_measured: bool = False
    """Whether splits are opened for this task alone, so that their statistics count what this task
    reads.
    """

    @cached_property
    def _open_splits(self) -> dict[tuple[str, str | None], TableSplit]:
        return {}

    @property
    def opened(self) -> dict[str, TableSplit]:
        """The splits that were opened so far, by path."""
        return {path: split for (path, _), split in self._open_splits.items()}

    @cached_property
    def _cache(self) -> SplitCache:
        return SplitCache.of(self.plan.cache)

    def find_candidates(self, query: Query | None = None) -> list[int]:
        """Return the numbers of the splits that may hold a match of a query, by their term filters.

        Args:
            query: Used instead of the query of the plan.
        """
        plan = self.plan
        query = query or plan.query
        if len(plan.splits) < _MIN_FILTERED or (query is None and plan.where is None):
            return list(range(len(plan.splits)))
        paths = [entry.path for entry in plan.splits]
        found = term_filters(self._cache).find_candidates(
            self.store.url, paths, query, plan.where, self.schema
        )
        return np.flatnonzero(found).tolist()

    def find_holders(self, query: Query) -> Sequence[bool]:
        """Return for each split whether it may hold a term by which a query is scored."""
        paths = [entry.path for entry in self.plan.splits]
        if len(paths) < _MIN_FILTERED:
            return [True] * len(paths)
        found: list[bool] = (
            term_filters(self._cache).find_holders(self.store.url, paths, query).tolist()
        )
        return found

    @cached_property
    def store(self) -> Store:
        """The table's store."""
        return self.given_store or open_store(self.plan.spec)

    @cached_property
    def schema(self) -> pa.Schema:
        """The table's schema."""
        return self.plan.schema

    @cached_property
    def _parallelism(self) -> int:
        plan = self.plan
        remote = bool(plan.splits) and self.store.local_path(plan.splits[0].path) is None
        if remote:
            return plan.remote_parallelism
        return plan.parallelism

    def open(self, entry: SplitEntry) -> TableSplit:
        """Open one split of the plan, shared with other scans of the process."""
        split = self._open_splits.get((entry.path, entry.vector))
        if split is None:
            with PROFILER.section("open_split"):
                split = self._open_split(entry)
            self._open_splits[entry.path, entry.vector] = split
            reader = split.index_reader
            if reader is not None and reader.tail.term_filter is not None:
                known = term_filters(self._cache)
                known.add(self.store.url, entry.path, split.mapping, reader.tail.term_filter)
            if entry.warm and not split.is_warm and self.store.local_path(entry.path) is None:
                self._warm(split)
        return split

    def _open_split(self, entry: SplitEntry) -> TableSplit:
        """Open one split, shared with other scans unless this one is measured."""
        if self._companion is not None:
            if self.is_measured:
                return self._companion.open_alone(entry)
            return self._companion.open(entry)
        open_split = open_table_split if self.is_measured else shared_table_split
        return open_split(
            self.store,
            entry,
            self.schema,
            self.plan.partition_columns,
            cache=self._cache,
            ranges=self.plan.ranges,
        )

    @cached_property
    def _companion(self) -> CompanionOpener | None:
        """What opens the splits of a companion; None for a table with rows of its own."""
        plan = self.plan
        if plan.source is None:
            return None
        return CompanionOpener(
            plan.source,
            self.store,
            self.schema,
            plan.partition_columns,
            cache=self._cache,
            ranges=plan.ranges,
        )

    def _warm(self, split: TableSplit) -> None:
        """Fetch the indexes of a split ahead of searches. A failure is raised by the later use, not
        here.
        """
        try:
            split.prewarm(self.plan.warm_columns)
        except IndexTablesError as error:
            split.is_warm = True
            logger.warning("%s is not prewarmed: %s", split.path, error.message)

    def open_alone(self, entry: SplitEntry) -> TableSplit:
        """Open a split for this task alone, so that its reads are counted from the opening on."""
        plan = self.plan
        if self._companion is not None:
            return self._companion.open_alone(entry)
        return open_table_split(
            self.store,
            entry,
            self.schema,
            plan.partition_columns,
            cache=self._cache,
            ranges=plan.ranges,
        )

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield every matching row, split after split in order, with logical column names."""
        names = self.plan.names
        if self.plan.query is None:
            go_on = ENOUGH.get() or _nothing
            for number in self.find_candidates():
                for batch in self._scan(self.plan.splits[number]):
                    go_on()
                    yield names.to_logical(batch)
            return
        splits = [self.plan.splits[number] for number in self.find_candidates()]
        for found in self.in_order(lambda entry: list(self._scan(entry)), splits, rows=True):
            yield from map(names.to_logical, found)

    def first(self, limit: int) -> Iterator[pa.RecordBatch]:
        """Return the first matching rows in any order, reading no more than these."""
        for number in self.find_candidates():
            entry = self.plan.splits[number]
            if limit <= 0:
                return
            split = self.open(entry)
            where = None if entry.certain else self.plan.where
            for batch in split.iter_rows(
                find_rows(split, self.plan.query or AllRows(), where=where)[:limit],
                columns=self.plan.columns,
            ):
                limit -= batch.num_rows
                yield self.plan.names.to_logical(batch)

    def count(self) -> int:
        """Return how many rows match, from the log alone if possible.

        For a single word, open dictionaries are read one after the other, which is faster than a
        thread.
        """
        query = self.plan.query
        splits = [self.plan.splits[number] for number in self.find_candidates()]
        counts = [None] * len(splits) if query is None else self._dictionary_counts(query, splits)
        left = [entry for entry, count in zip(splits, counts, strict=True) if count is None]
        return sum(count for count in counts if count is not None) + sum(
            self.in_order(self._count, left)
        )

    def _dictionary_counts(
        self, query: Query, splits: Sequence[SplitEntry]
    ) -> Sequence[int | None]:
        """Return how many rows of each split match, from open dictionaries."""
        plan, go_on, columns = self.plan, ENOUGH.get() or _nothing, self.plan.partition_columns
        mapping: DocMapping | None = None
        term: tuple[str, str] | None = None
        counts: list[int | None] = []
        for entry in splits:
            go_on()
            count = None
            if (plan.where is None or entry.certain) and isinstance(query, Words | Boost):
                split = (
                    self._companion.find_open(entry)
                    if self._companion is not None
                    else opened_table_split(
                        self.store,
                        entry,
                        self.schema,
                        columns,
                        cache=self._cache,
                        ranges=plan.ranges,
                    )
                )
                if split is not None and split.mapping is not mapping:
                    mapping, term = split.mapping, dictionary_term(query, split.mapping)
                if split is None or term is None:
                    count = None
                else:
                    count = split.term_count(*term)
            counts.append(count)
        return counts

    def each(self, work: Callable[[SplitEntry], T]) -> Iterator[T]:
        """Run work for each split and yield the results in order, some splits at a time and never
        far ahead of the reader.
        """
        return self.in_order(work, self.plan.splits)

    def in_order(
        self, work: Callable[[Item], T], items: Sequence[Item], *, rows: bool = False
    ) -> Iterator[T]:
        """Run work for items of splits and yield the results in order. `rows` means that all rows
        are read.
        """
        ahead = min(self.plan.parallelism if rows else self._parallelism, len(items))
        go_on = ENOUGH.get() or _nothing
        left = iter(items)
        if ahead > 1 and self._are_small_and_local:
            for item in islice(left, 1):
                go_on()
                yield work(item)
            # Small splits of another engine are read in Python, where threads only wait for one
            # another.
            first = next(iter(self._open_splits.values()), None)
            if first is not None and isinstance(first.reader, ForeignReader):
                ahead = 1
            else:
                ahead = ahead
        if ahead > 1:
            if rows or not self._is_local:
                few = 1
            else:
                few = min(_MAX_PER_THREAD, len(items) // (ahead * _TURNS))
            if few <= 1:
                yield from SPLITS.each(work, left, parallelism=ahead, before_each=go_on)
                return

            def work_on_several(several: tuple[Item, ...]) -> list[T]:
                return [work(item) for item in several]

            groups = iter(lambda: tuple(islice(left, few)), ())
            for results in SPLITS.each(
                work_on_several, groups, parallelism=ahead, before_each=go_on
            ):
                yield from results
            return
        for item in left:
            go_on()
            yield work(item)

    @cached_property
    def _is_local(self) -> bool:
        return self.store.local_path(self.plan.splits[0].path) is not None

    @cached_property
    def _are_small_and_local(self) -> bool:
        return all(e.size <= WHOLE_BYTES for e in self.plan.splits) and self._is_local

    def _scan(self, entry: SplitEntry) -> Iterator[pa.RecordBatch]:
        for batch in self._matching(entry):
            METRICS.count("rows_read_total", by=batch.num_rows)
            yield batch

    def _matching(self, entry: SplitEntry) -> Iterator[pa.RecordBatch]:
        plan = self.plan
        split = self.open(entry)
        where = None if entry.certain else plan.where
        if plan.query is None and where is None:
            yield from split.iter_rows(columns=plan.columns)
            return
        if (
            plan.query is None
            and where is not None
            and self._terms_tell_little
            and self._reads_all_of(where, split)
        ):
            yield from self._test_rows(split, where)
            return
        rows = find_rows(split, plan.query or AllRows(), where=where)
        self._note_share(len(rows), split)
        if len(rows):
            yield from split.iter_rows(rows, columns=plan.columns)

    @property
    def _terms_tell_little(self) -> bool:
        """Return whether most rows of the last split matched, so that testing rows is cheaper than
        reading terms.
        """
        return self._shares[-1] >= _MOST_ROWS

    @cached_property
    def _shares(self) -> list[float]:
        return [0.0]

    def _note_share(self, matches: int, split: TableSplit) -> None:
        self._shares[-1] = matches / split.num_rows if split.num_rows else 0.0

    def _reads_all_of(self, where: Predicate, split: TableSplit) -> bool:
        """Return whether rows of another engine's split are read with all columns of a condition."""
        columns = self.plan.columns
        has_all = columns is None or set(columns_of(where)) <= set(columns)
        return has_all and isinstance(split.reader, ForeignReader)

    def _test_rows(self, split: TableSplit, where: Predicate) -> Iterator[pa.RecordBatch]:
        """Return the rows of a split for which a condition is true, after reading all of them."""
        matches = 0
        for batch in split.iter_rows(columns=self.plan.columns):
            found = batch.filter(pa.array(predicate_mask(where, pa.Table.from_batches([batch]))))
            matches += found.num_rows
            if found.num_rows:
                yield found
        self._note_share(matches, split)

    def _count(self, entry: SplitEntry) -> int:
        plan = self.plan
        where = None if entry.certain else plan.where
        if plan.query is None and where is None and entry.num_records is not None:
            return entry.num_records
        return count_rows(self.open(entry), plan.query or AllRows(), where=where)


def _nothing() -> None:
    """Do nothing: the result is always needed."""


def limit_rows(batches: Iterator[pa.RecordBatch], limit: int | None) -> Iterator[pa.RecordBatch]:
    """Return the first rows of a stream without reading the rest."""
    if limit is None:
        yield from batches
        return
    for batch in batches if limit else ():
        yield batch.slice(0, limit)
        limit -= batch.num_rows
        if limit <= 0:
            return

"""Delete rows from their splits with Spark's workers: find rows, write deletion vectors.

A worker turns the row numbers it finds into one bitmap per split. These meet in one task per split,
which writes the new vector, or rewrites the split where that pays (`delete.mode`,
`delete.maxVectorShare`). The driver receives one line per split, never row numbers. Files of failed
or repeated tasks are never committed.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace as with_fields
from pyspark.accumulators import Accumulator
from pyspark.sql import DataFrame

from indextables.model.deletion_vector import RowSet, decode_rows, encode_rows
from indextables.operations.row_removal import (
    DeleteOutcome,
    DeleteTask,
    RewriteResult,
    VectorTask,
    plan_removal,
    vector_share,
)
from indextables.spark.settings import check_workers
from indextables.spark.writes import results_accumulator
from indextables.table import Table

FILE, ROW, ACTION = "__indextables_file", "__indextables_row", "__indextables_action"
_FOUND = pa.schema(
    [("file", pa.string()), ("rows", pa.binary()), ("twice", pa.binary()), ("counts", pa.binary())]
)
_FOUND_DDL = "file string, rows binary, twice binary, counts binary"
_MOST_ROWS = 4_000_000
"""Maximum number of row numbers that a worker holds before it turns them into bitmaps."""
_TASKS_PER_CORE = 4


@dataclass(frozen=True)
class RowsGone:
    """The changed splits, not committed yet."""

    result: RewriteResult
    counts: tuple[int, ...]
    """Number of rows found for each action."""
    rows: int
    """Number of deleted rows without duplicates."""
    doubled: int
    """Number of rows found more than once."""
    vectors: Mapping[str, str | None]
    """The vectors of the splits as they were read."""

    def discard(self, table: Table) -> None:
        """Delete the workers' files, unless they may be committed."""
        paths = [*self.result.vector_files, *(action.path for action in self.result.adds)]
        if paths:
            table.handle.log.discard(paths, since=table.version)


@contextmanager
def kept(frame: DataFrame) -> Iterator[DataFrame]:
    """Cache the rows of a query for the duration of the block."""
    stored = frame.persist()
    try:
        yield stored
    finally:
        stored.unpersist()


def take_out(table: Table, found: DataFrame, *, actions: int, may_repeat: bool) -> RowsGone:
    """Delete rows from their splits: `found` has file, row number and action number of each.

    Nothing is committed. If a task fails, or a row is found twice where that is not allowed, the
    workers' files are deleted.
    """
    check_workers(found.sparkSession)
    rows = found.select(FILE, ROW, ACTION).toDF("file", "row", "action")
    with kept(rows.mapInArrow(_gather(actions), _FOUND_DDL)) as bitmaps:
        names = [row.file for row in bitmaps.select("file").distinct().collect()]
        if not names:
            return RowsGone(RewriteResult(()), (0,) * actions, 0, 0, {})
        return _finish(table, bitmaps, _tasks(table, names), may_repeat=may_repeat)


def _gather(actions: int) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        pending = _Pending(actions)
        for batch in batches:
            pending.add(batch)
            if pending.rows > _MOST_ROWS:
                yield from pending.bitmaps()
                pending = _Pending(actions)
        yield from pending.bitmaps()

    return run


class _Pending:
    """Row numbers that a worker has found, by file."""

    def __init__(self, actions: int) -> None:
        self.rows = 0
        self._actions = actions
        self._parts: dict[str, list[RowSet]] = {}
        self._counts: dict[str, npt.NDArray[np.int64]] = {}

    def add(self, batch: pa.RecordBatch) -> None:
        """Add the rows of a batch."""
        if not batch.num_rows:
            return
        files = batch.column(0).dictionary_encode()
        codes = files.indices.to_numpy()
        order = np.argsort(codes, kind="stable")
        codes = codes[order]
        rows, actions = batch.column(1).to_numpy()[order], batch.column(2).to_numpy()[order]
        ends = np.flatnonzero(np.diff(codes)) + 1
        for start, end in zip([0, *ends], [*ends, len(codes)], strict=True):
            name = files.dictionary[int(codes[start])].as_py()
            self._parts.setdefault(name, []).append(rows[start:end].astype(np.int64))
            counts = self._counts.setdefault(name, np.zeros(self._actions, np.int64))
            counts += np.bincount(actions[start:end], minlength=self._actions)
        self.rows += len(rows)

    def bitmaps(self) -> Iterator[pa.RecordBatch]:
        """Return a line for each file."""
        for name, parts in self._parts.items():
            rows, seen = np.unique(np.concatenate(parts), return_counts=True)
            twice = rows[seen > 1]
            columns = (
                [name],
                [encode_rows(rows)],
                [encode_rows(twice) if len(twice) else None],
                [self._counts[name].tobytes()],
            )
            arrays = [
                pa.array(values, field.type) for values, field in zip(columns, _FOUND, strict=True)
            ]
            yield pa.record_batch(arrays, schema=_FOUND)


# Where the bitmaps of a split meet.


def _tasks(table: Table, names: Sequence[str]) -> dict[str, DeleteTask]:
    """Return the tasks for the splits with these file names, without row numbers."""
    paths = {path.rsplit("/", 1)[-1]: path for path in table.files().column("path").to_pylist()}
    nothing = np.empty(0, np.int64)
    handle = table.handle
    plan = plan_removal(handle.snapshot, {paths[name]: nothing for name in names})
    tasks = plan.tasks(
        spec=handle.spec, settings=handle.search_settings, vector_share=vector_share(handle)
    )
    return {task.source.path.rsplit("/", 1)[-1]: task for task in tasks}


class _SplitLine(Struct, frozen=True):
    """What the driver receives for a split."""

    outcome: DeleteOutcome | None
    """None for a split with rows that are found twice and must not be."""
    counts: list[int]
    rows: int
    doubled: int


def _finish(
    table: Table, bitmaps: DataFrame, tasks: Mapping[str, DeleteTask], *, may_repeat: bool
) -> RowsGone:
    spark = bitmaps.sparkSession
    accumulator = results_accumulator(spark)
    partitions = min(len(tasks), _TASKS_PER_CORE * spark.sparkContext.defaultParallelism)
    run = _finisher(tasks, accumulator, may_repeat=may_repeat)
    try:
        told = bitmaps.repartition(partitions, "file").mapInArrow(run, "lines binary").collect()
    except BaseException:
        if accumulator is not None:
            _result(accumulator.value).discard(table)
        raise
    lines: list[_SplitLine] = [line for row in told for line in pickle.loads(bytes(row["lines"]))]
    result = _result(lines)
    if result.doubled and not may_repeat:
        result.discard(table)
    return replace(
        result, vectors={task.source.path: task.source.vector for task in tasks.values()}
    )


def _result(lines: Sequence[_SplitLine]) -> RowsGone:
    if lines:
        counts = np.sum([line.counts for line in lines], axis=0).tolist()
    else:
        counts = []
    rows, doubled = sum(line.rows for line in lines), sum(line.doubled for line in lines)
    outcomes = tuple(line.outcome for line in lines if line.outcome is not None)
    return RowsGone(RewriteResult(outcomes), tuple(counts), rows, doubled, {})


def _finisher(
    tasks: Mapping[str, DeleteTask],
    accumulator: Accumulator[list[_SplitLine]] | None,
    *,
    may_repeat: bool,
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found: dict[str, _Found] = {}
        for batch in batches:
            for row in batch.to_pylist():
                found.setdefault(row["file"], _Found(row["file"])).add(row)
        work = {}
        for name, each in found.items():
            if may_repeat or not len(each.twice):
                work[name] = with_fields(tasks[name], places=encode_rows(each.rows))
        outcomes = dict(zip(work, VectorTask(tuple(work.values())).run(), strict=True))
        lines = [
            _SplitLine(outcomes.get(name), each.counts.tolist(), len(each.rows), len(each.twice))
            for name, each in found.items()
        ]
        if accumulator is not None:
            accumulator.add(lines)
        yield pa.record_batch([pa.array([pickle.dumps(lines)], pa.binary())], ["lines"])

    return run


class _Found:
    """The rows of one split that several workers have found."""

    def __init__(self, path: str) -> None:
        self._path = path
        self.rows: RowSet = np.empty(0, np.int64)
        self.twice: RowSet = np.empty(0, np.int64)
        self.counts: npt.NDArray[np.int64] = np.zeros(0, np.int64)

    def add(self, row: Mapping[str, Any]) -> None:
        """Add the rows of one worker."""
        rows, counts = (
            decode_rows(row["rows"], path=self._path),
            np.frombuffer(row["counts"], np.int64),
        )
        again = np.intersect1d(self.rows, rows, assume_unique=True)
        if row["twice"] is not None:
            again = np.union1d(again, decode_rows(row["twice"], path=self._path))
        self.twice = np.union1d(self.twice, again)
        self.rows = np.union1d(self.rows, rows)
        self.counts = counts if not len(self.counts) else self.counts + counts

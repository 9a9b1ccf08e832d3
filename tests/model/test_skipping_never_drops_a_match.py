"""Data skipping is safe: a file that holds a match is never ruled out, whatever the types, bounds
and truncation.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cmp_to_key
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indextables.config.splits import StatsSettings
from indextables.model.actions import MetadataAction
from indextables.model.column_ranges import BoundsFinder
from indextables.model.file_list import FILE_SCHEMA
from indextables.model.predicate import Predicate, bind, evaluate
from indextables.model.pruning import PRUNING_COLUMNS, all_match, manifests_may_match, may_match
from indextables.model.schema import schema_to_json
from indextables.model.values import encode_value
from indextables.splits.format.container import FileStatistics
from indextables.splits.write.statistics import StatsCollector
from tests.model.predicates import (
    ROWS,
    SMALL_TREES,
    TYPES,
    Pool,
    micros,
    pools,
    predicate_of,
    rows_of,
    table_of,
)

NAMES = sorted(TYPES)
FILES = st.lists(ROWS, min_size=1, max_size=4)
LENGTHS = st.sampled_from([1, 2, 3, 31, 32]) | st.integers(1, 40)
Collect = Callable[[pa.Table], tuple[FileStatistics, str | None]]


@dataclass(frozen=True)
class File:
    """The rows of one file, and what the log says of it."""

    data: pa.Table
    partition: dict[str, str | None]
    statistics: FileStatistics
    json: str | None

    def entry(self, backwards: bool) -> dict[str, Any]:
        def pairs(texts: dict[str, Any]) -> list[tuple[str, Any]]:
            return list(texts.items())[:: -1 if backwards else 1]

        return {
            "partition_values": pairs(self.partition),
            "min_values": pairs(self.statistics.min_values),
            "max_values": pairs(self.statistics.max_values),
            "num_records": self.statistics.num_records,
            "stats": self.json,
        }


def file_list(files: Sequence[File], backwards: Collection[int] = ()) -> pa.Table:
    """The files as the log lists them; some with their keys in another order."""
    entries = [f.entry(i in backwards) for i, f in enumerate(files)]
    return pa.Table.from_pylist(
        entries, pa.schema([FILE_SCHEMA.field(name) for name in PRUNING_COLUMNS])
    )


def draw_files(
    data: st.DataObject, pool: Pool, partitions: list[str], collect: Collect
) -> list[File]:
    """Some files of a few rows; partition columns hold one value per file."""
    files = []
    for shape in data.draw(FILES):
        columns = rows_of(shape, pool)
        for name in partitions:
            columns[name] = [columns[name][0]] * len(shape)
        table = table_of(columns)
        statistics, json = collect(table)
        files.append(
            File(table, {n: encode_value(table[n][0]) for n in partitions}, statistics, json)
        )
    return files


def check(tree: Predicate, files: list[File], listed: pa.Table, partitions: list[str]) -> None:
    bound = bind(tree, files[0].data.schema)
    keep = may_match(bound, listed, partition_columns=partitions).to_pylist()
    exact = may_match(bound, listed, partition_columns=partitions, statistics=False).to_pylist()
    whole = all_match(bound, listed, partition_columns=partitions).to_pylist()
    for file, kept, kept_by_partition, certain in zip(files, keep, exact, whole, strict=True):
        outcome = evaluate(bound, file.data)
        matches = pc.any(outcome).as_py() is True
        assert kept or not matches, f"{tree} drops {file}"
        assert kept_by_partition or not matches, f"{tree} drops {file} by its partition"
        assert not certain or outcome.to_pylist() == [True] * len(outcome), (
            f"{tree} is not true throughout {file}"
        )


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_our_statistics(name: str, data: st.DataObject) -> None:
    pool = data.draw(pools((name, "long")))
    partitions = data.draw(st.sampled_from([[], [], ["long"], [n for n in [name] if n != "raw"]]))
    chosen = StatsSettings(
        max_length=data.draw(LENGTHS), truncate=data.draw(st.sampled_from([True, True, False]))
    )
    said = data.draw(st.sampled_from(["all", "all", "no null counts", "nothing"]))

    def collect(table: pa.Table) -> tuple[FileStatistics, str | None]:
        collector = StatsCollector(table.schema, settings=chosen, partition_columns=partitions)
        collector.add(table.slice(0, 2))
        collector.add(table.slice(2))
        found = collector.finish()
        if said == "nothing":
            return FileStatistics(found.num_records), None
        return found, found.to_json() if said == "all" else None

    files = draw_files(data, pool, partitions, collect)
    listed = file_list(files, backwards=data.draw(st.sets(st.integers(0, 3), max_size=2)))
    check(predicate_of(data.draw(SMALL_TREES), pool), files, listed, partitions)


def java_text(value: Any, arrow: pa.DataType) -> str:
    if pa.types.is_timestamp(arrow):
        return str(micros(value))
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}.get(
            str(value), str(value).replace("e+", "E")
        )
    return value.isoformat() if isinstance(value, dt.date) else str(value)


def java_key(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-16-be")
    if isinstance(value, float):
        return (value != value, 0.0 if value != value else value, str(value) != "-0.0")
    return value


def another_writer(length: int) -> Collect:
    """Statistics as other writers leave them: UTF-16 order, cut without rounding, and the first
    value of some types.
    """

    def collect(table: pa.Table) -> tuple[FileStatistics, str | None]:
        lows: dict[str, str] = {}
        highs: dict[str, str] = {}
        for name in table.column_names:
            arrow = table[name].type
            present = [v for v in table[name].to_pylist() if v is not None]
            if not present:
                continue
            compared = arrow not in (
                pa.int8(),
                pa.int16(),
                pa.timestamp("us"),
            ) and not pa.types.is_decimal(arrow)
            ordered = sorted(present, key=java_key) if compared else present[:1]
            lows[name], highs[name] = java_text(ordered[0], arrow), java_text(ordered[-1], arrow)
            if pa.types.is_string(arrow):
                lows[name], highs[name] = lows[name][:length], highs[name][:length]
        return FileStatistics(table.num_rows, lows, highs), None

    return collect


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_statistics_of_another_writer(name: str, data: st.DataObject) -> None:
    pool = data.draw(pools((name,)))
    files = draw_files(data, pool, [], another_writer(data.draw(st.sampled_from([32, 36, 1000]))))
    check(predicate_of(data.draw(SMALL_TREES), pool), files, file_list(files), [])


def number_aware(a: str, b: str) -> int:
    try:
        return (float(a) > float(b)) - (float(a) < float(b))
    except ValueError:
        return (a > b) - (a < b)


def text_bounds(values: list[str | None], order: str) -> tuple[str | None, str | None]:
    """Bounds as other writers find them, without the type; they leave out empty texts."""
    present = [v for v in values if v]
    if not present:
        return None, None
    key = cmp_to_key(number_aware if order == "number-aware" else lambda a, b: (a > b) - (a < b))
    return min(present, key=key), max(present, key=key)


@pytest.mark.parametrize("name", [n for n in NAMES if n != "raw"])
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_manifests(name: str, data: st.DataObject) -> None:
    pool = data.draw(pools((name,)))
    files = draw_files(data, pool, [name], lambda table: (FileStatistics(table.num_rows), None))
    bound = bind(predicate_of(data.draw(SMALL_TREES), pool), files[0].data.schema)
    order = data.draw(st.sampled_from(["typed", "text", "number-aware"]))
    if order == "typed":
        schema = schema_to_json(files[0].data.schema)
        finder = BoundsFinder(
            MetadataAction(id="t", schema_string=schema, partition_columns=(name,))
        )
        bounds = finder.of(file_list(files))[1].get(name, (None, None))
    else:
        bounds = text_bounds([f.partition[name] for f in files], order)
    kept = manifests_may_match(
        bound, {name: [bounds]}, count=1, typed=order == "typed"
    ).to_pylist()[0]
    matches = any(pc.any(evaluate(bound, f.data)).as_py() for f in files)
    assert kept or not matches, f"{bound} drops {bounds} ({order})"

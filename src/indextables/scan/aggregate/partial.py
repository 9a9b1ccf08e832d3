"""Aggregations over a table: each split makes its part, the parts add up exactly."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from indextables.scan.aggregate.result import finish
from indextables.scan.aggregate.spec import Aggregations, parse_spec
from indextables.scan.aggregate.state import Partial, aggregate_split, merged
from indextables.scan.task import ScanTask
from indextables.splits.query.tree import AllRows
from indextables.splits.read.table_split import SplitEntry


def aggregate_table(task: ScanTask, spec: Mapping[str, Any]) -> pa.Table:
    """The aggregations of a specification over the matching rows of a task."""
    aggregations = parse_spec(spec, task.schema)
    return finish(partial_of(task, aggregations), aggregations)


def partial_of(task: ScanTask, aggregations: Aggregations) -> Partial:
    """What the splits of a task contribute; the parts of several tasks add up."""
    return merged(task.each(lambda entry: _one(task, entry, aggregations)))


def _one(task: ScanTask, entry: SplitEntry, aggregations: Aggregations) -> Partial:
    plan = task.plan
    where = None if entry.certain else plan.where
    return aggregate_split(task.open(entry), aggregations, plan.query or AllRows(), where=where)

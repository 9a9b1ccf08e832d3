"""The values of a metric from its partial results, and the columns they stand in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from indextables.splits.aggregate.spec import Metric


def metric_columns(metric: Metric) -> dict[str, pa.DataType | None]:
    """The columns of a metric with their types; None for a sum of whole numbers, whose type depends on its size."""
    own, total = metric.field.type, _sum_type(metric.field.type)
    single: dict[str, pa.DataType | None] = {
        "min": own,
        "max": own,
        "sum": total,
        "avg": pa.float64(),
        "value_count": pa.int64(),
        "cardinality": pa.int64(),
    }
    if metric.kind in single:
        return {metric.name: single[metric.kind]}
    if metric.kind == "percentiles":
        return {_percent_name(metric, p): pa.float64() for p in metric.percents}
    parts = {"count": pa.int64(), "min": own, "max": own, "avg": pa.float64(), "sum": total}
    return {f"{metric.name}.{part}": kind for part, kind in parts.items()}


def metric_values(metric: Metric, found: Mapping[str, Any] | None) -> dict[str, Any]:
    """The values of a metric for one group; no value where there is nothing to compute from, a count of 0."""
    if metric.kind == "cardinality":
        return {metric.name: 0 if found is None else len(found["value"])}
    if metric.kind == "percentiles":
        return _percentiles(metric, found)
    count = 0 if found is None else int(found["n"])
    if found is None or count == 0:
        empty: dict[str, Any] = dict.fromkeys(metric_columns(metric))
        return empty | {n: 0 for n in empty if metric.kind == "value_count" or n.endswith(".count")}
    parts = {
        "count": count,
        "min": found["low"],
        "max": found["high"],
        "avg": float(found["sum"]) / count,
        "sum": found["sum"],
    }
    if metric.kind == "stats":
        return {f"{metric.name}.{part}": value for part, value in parts.items()}
    return {metric.name: parts["count" if metric.kind == "value_count" else metric.kind]}


def _percent_name(metric: Metric, percent: float) -> str:
    return f"{metric.name}.p{percent:g}"


def _percentiles(metric: Metric, found: Mapping[str, Any] | None) -> dict[str, Any]:
    """The values below which a share of all values lies, interpolated between the two neighbours."""
    names = [_percent_name(metric, p) for p in metric.percents]
    if found is None or not found["value"]:
        return dict.fromkeys(names)
    order = np.argsort(found["value"], kind="stable")
    values = np.asarray(found["value"], np.float64)[order]
    ends = np.cumsum(np.asarray(found["n"], np.int64)[order])
    places = np.asarray(metric.percents) / 100 * (ends[-1] - 1)
    below, above = (values[np.searchsorted(ends, edge, side="right")] for edge in (np.floor(places), np.ceil(places)))
    with np.errstate(invalid="ignore"):
        between = below + (above - below) * (places - np.floor(places))
    return dict(zip(names, np.where(below == above, below, between).tolist(), strict=True))


def _sum_type(kind: pa.DataType) -> pa.DataType | None:
    if pa.types.is_integer(kind):
        return None
    return pa.decimal128(38, kind.scale) if pa.types.is_decimal(kind) else pa.float64()

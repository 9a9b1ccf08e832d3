"""Values of metrics: averages, percentiles, deviations and top hits from the state of a group."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from indextables.query.aggregate.spec import Metric


def metric_columns(metric: Metric) -> dict[str, pa.DataType | None]:
    """Return the columns of a metric with their types; None for an integer sum, whose type depends
    on its size.
    """
    if metric.kind == "top_hits":
        row = pa.struct(
            [(label, field.type) for label, field in zip(metric.labels, metric.hits, strict=True)]
        )
        return {metric.name: pa.list_(row)}
    own, total = metric.field.element_type, _sum_type(metric.field.element_type)
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
    if metric.kind == "extended_stats":
        parts |= dict.fromkeys(_SPREAD, pa.float64())
    return {f"{metric.name}.{part}": kind for part, kind in parts.items()}


_SPREAD = ("sum_of_squares", "variance", "std_deviation")


def metric_values(metric: Metric, state: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the values of a metric for one group; null where nothing can be computed, 0 for
    counts.
    """
    if metric.kind == "cardinality":
        return {metric.name: 0 if state is None else len(state["value"])}
    if metric.kind == "percentiles":
        return _percentiles(metric, state)
    if metric.kind == "top_hits":
        return {metric.name: [] if state is None else state["hits"]}
    count = 0 if state is None else int(state["n"])
    if state is None or count == 0:
        empty: dict[str, Any] = dict.fromkeys(metric_columns(metric))
        return empty | {n: 0 for n in empty if metric.kind == "value_count" or n.endswith(".count")}
    parts = {
        "count": count,
        "min": state["low"],
        "max": state["high"],
        "avg": None
        if state["sum"] is None
        else float(state["sum"]) / count,  # of values none of which is a number
        "sum": state["sum"],
    }
    if metric.kind == "extended_stats":
        mean = float(state["sum"]) / count
        spread = state["squares"] / count - mean * mean
        variance = (
            spread if math.isnan(spread) else max(0.0, spread)
        )  # of infinite values there is none
        parts |= dict(zip(_SPREAD, (state["squares"], variance, math.sqrt(variance)), strict=True))
    if metric.kind in ("stats", "extended_stats"):
        return {f"{metric.name}.{part}": value for part, value in parts.items()}
    return {metric.name: parts["count" if metric.kind == "value_count" else metric.kind]}


def _percent_name(metric: Metric, percent: float) -> str:
    return f"{metric.name}.p{percent:g}"


def _percentiles(metric: Metric, state: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return percentiles with linear interpolation between neighbours."""
    names = [_percent_name(metric, p) for p in metric.percents]
    if state is None or not state["number"]:
        return dict.fromkeys(names)
    order = np.argsort(state["number"], kind="stable")
    values = np.asarray(state["number"], np.float64)[order]
    ends = np.cumsum(np.asarray(state["n"], np.int64)[order])
    places = np.asarray(metric.percents) / 100 * (ends[-1] - 1)
    below, above = (
        values[np.searchsorted(ends, edge, side="right")]
        for edge in (np.floor(places), np.ceil(places))
    )
    with np.errstate(invalid="ignore"):
        between = below + (above - below) * (places - np.floor(places))
    return dict(zip(names, np.where(below == above, below, between).tolist(), strict=True))


def _sum_type(kind: pa.DataType) -> pa.DataType | None:
    if pa.types.is_integer(kind):
        return None
    if pa.types.is_decimal(kind):
        return pa.decimal128(38, kind.scale)
    return pa.float64()

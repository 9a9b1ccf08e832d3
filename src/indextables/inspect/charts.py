"""Charts of a table for notebooks. They need matplotlib, which the extra `plots` brings; nothing else here does."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from indextables.errors import UnsupportedError
from indextables.inspect.figures import component_figures, partition_figures, version_figures
from indextables.inspect.inspection import Inspection

_WRITE, _MERGE, _REPLACE, _REMOVE, _OTHER = "#2a6fc9", "#178a5c", "#b77800", "#c93c3c", "#8b95a1"
_COLORS = {
    "WRITE": _WRITE,
    "MERGE": _MERGE,
    **dict.fromkeys(("OVERWRITE", "REPLACE WHERE", "RESTORE"), _REPLACE),
    **dict.fromkeys(("DELETE", "DROP PARTITIONS", "PURGE"), _REMOVE),
}


class Plots:
    """The charts of one table. Each returns a matplotlib `Figure`, which a notebook shows and `savefig` writes."""

    def __init__(self, inspection: Inspection) -> None:
        self._inspection = inspection

    def timeline(self, *, limit: int = 60) -> Any:
        """Bytes in the table at each of the newest versions, `limit` of them, in the colour of what the version did."""
        versions, _ = version_figures(self._inspection, limit=limit)
        figure, axes = _figure("bytes in the table by version")
        colors = [_COLORS.get(v.operation, _OTHER) for v in versions]
        axes.bar([v.version for v in versions], [v.size_bytes or 0 for v in versions], color=colors)
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.yaxis.set_major_formatter(_bytes_formatter())
        axes.set_xlabel("version")
        return figure

    def sizes(self, *, limit: int = 60) -> Any:
        """Sizes of the splits that went into each merge of the `limit` newest versions, and of those that came out."""
        _, merges = version_figures(self._inspection, limit=limit)
        figure, axes = _figure("split sizes before (left) and after (right) each merge")
        for place, merge in enumerate(merges):
            axes.scatter([place - 0.12] * len(merge.before), merge.before, color=_WRITE, alpha=0.5)
            axes.scatter([place + 0.12] * len(merge.after), merge.after, color=_MERGE, alpha=0.8)
        axes.set_xticks(range(len(merges)), [f"version {merge.version}" for merge in merges])
        axes.set_xlim(-0.5, max(1, len(merges)) - 0.5)
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(_bytes_formatter())
        axes.yaxis.set_minor_formatter(_bytes_formatter())
        return figure

    def partitions(self, *, limit: int = 100) -> Any:
        """Rows in each partition; where there are more than `limit`, in the last of them, and the title says so."""
        every = partition_figures(self._inspection)
        parts = every[-limit:]
        names = ["/".join("null" if v is None else v for v in part.values) or "(whole table)" for part in parts]
        left_out = "" if len(parts) == len(every) else f" (the last {len(parts):,} of {len(every):,})"
        figure, axes = _bars(f"rows by partition{left_out}", names, [part.rows for part in parts], _WRITE)
        axes.set_ylabel(", ".join(self._inspection.table.partition_columns))
        return figure

    def components(self, *, max_splits: int = 200) -> Any:
        """What the bytes of the largest splits, `max_splits` at most, are spent on, by column and component."""
        components, split_count = component_figures(self._inspection, max_splits=max_splits)
        names = [f"{c.field or '(all columns)'}: {c.component}" for c in components]
        figure, axes = _bars(f"bytes of {split_count} split(s)", names, [c.size_bytes for c in components], _MERGE)
        axes.xaxis.set_major_formatter(_bytes_formatter())
        return figure


def _bars(title: str, names: Sequence[str], values: Sequence[int], color: str) -> tuple[Any, Any]:
    """A chart of bars that lie, as high as their names need."""
    figure, axes = _figure(title, height=max(2.5, 1.2 + 0.24 * len(names)))
    axes.barh(range(len(names)), values, color=color)
    axes.set_yticks(range(len(names)), names)
    axes.margins(y=0.01)
    axes.invert_yaxis()
    return figure, axes


def _figure(title: str, *, height: float = 4.0) -> tuple[Any, Any]:
    """A figure with one chart. It is made without pyplot, so that nothing global is changed and nothing is left open."""
    figure = _library("matplotlib.figure").Figure(figsize=(9, height), layout="constrained")
    axes = figure.add_subplot()
    axes.set_title(title)
    return figure, axes


def _bytes_formatter() -> Any:
    return _library("matplotlib.ticker").EngFormatter(unit="B")


def _library(module: str) -> Any:
    try:
        return import_module(module)
    except ImportError:
        raise UnsupportedError(
            "Charts need matplotlib, which is not installed.", hint="Run `pip install 'indextables[plots]'`."
        ) from None

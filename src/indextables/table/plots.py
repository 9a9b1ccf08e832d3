"""Charts of a table for notebooks. They need matplotlib, which the extra `plots` brings; nothing else here does."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Protocol

from indextables.errors import UnsupportedError
from indextables.table.figures import ComponentFigure, MergeFigure, PartitionFigure, VersionFigure

_COLORS = {"WRITE": "#2a6fc9", "MERGE": "#178a5c", "OVERWRITE": "#b77800", "RESTORE": "#b77800", "DELETE": "#c93c3c"}
_OTHER = "#8b95a1"


class Pictured(Protocol):
    """What charts need of a table."""

    @property
    def partition_columns(self) -> list[str]:
        """The columns the table is partitioned by."""
        ...

    def version_figures(self, *, limit: int = 60) -> tuple[list[VersionFigure], list[MergeFigure]]:
        """Versions and merges."""
        ...

    def partition_figures(self) -> list[PartitionFigure]:
        """Partitions."""
        ...

    def component_figures(self, *, max_splits: int = 200) -> tuple[list[ComponentFigure], int]:
        """Components."""
        ...


class Plots:
    """The charts of one table. Each returns a matplotlib `Figure`, which a notebook shows and `savefig` writes."""

    def __init__(self, table: Pictured) -> None:
        self._table = table

    def timeline(self, *, limit: int = 60) -> Any:
        """Bytes in the table at each of the newest versions, in the colour of what the version did."""
        versions, _ = self._table.version_figures(limit=limit)
        figure, axes = _figure("bytes in the table by version")
        numbers = [v.version for v in versions]
        axes.bar(
            numbers, [v.size_bytes or 0 for v in versions], color=[_COLORS.get(v.operation, _OTHER) for v in versions]
        )
        axes.set_xlabel("version")
        axes.set_ylabel("bytes")
        return figure

    def sizes(self, *, limit: int = 60) -> Any:
        """Sizes of the splits that went into each merge and of those that came out; of no merge, an empty chart."""
        _, merges = self._table.version_figures(limit=limit)
        figure, axes = _figure("split sizes before and after each merge")
        for merge in merges:
            axes.scatter([merge.version - 0.15] * len(merge.before), merge.before, color=_COLORS["WRITE"], alpha=0.5)
            axes.scatter([merge.version + 0.15] * len(merge.after), merge.after, color=_COLORS["MERGE"], alpha=0.8)
        axes.set_xlabel("version of the merge (left: before, right: after)")
        axes.set_ylabel("bytes")
        axes.set_yscale("log")
        return figure

    def partitions(self) -> Any:
        """Rows in each partition."""
        parts = self._table.partition_figures()
        figure, axes = _figure("rows by partition")
        names = ["/".join("null" if v is None else v for v in part.values) or "(whole table)" for part in parts]
        axes.barh(names, [part.rows for part in parts], color=_COLORS["WRITE"])
        axes.set_xlabel("rows")
        axes.set_ylabel(", ".join(self._table.partition_columns))
        axes.invert_yaxis()
        return figure

    def components(self, *, max_splits: int = 200) -> Any:
        """What the bytes of the largest splits are spent on, by column and component."""
        components, looked_at = self._table.component_figures(max_splits=max_splits)
        figure, axes = _figure(f"bytes of {looked_at} split(s)")
        names = [f"{c.field or '(all columns)'}: {c.component}" for c in components]
        axes.barh(names, [c.size_bytes for c in components], color=_COLORS["MERGE"])
        axes.set_xlabel("bytes")
        axes.invert_yaxis()
        return figure


def _figure(title: str) -> tuple[Any, Any]:
    """A figure with one chart. It is made without pyplot, so that nothing global is changed and nothing is left open."""
    try:
        module = import_module("matplotlib.figure")
    except ImportError:
        raise UnsupportedError(
            "Charts need matplotlib, which is not installed.", hint="Run `pip install 'indextables[plots]'`."
        ) from None
    figure = module.Figure(figsize=(9, 4), layout="constrained")
    axes = figure.add_subplot()
    axes.set_title(title)
    return figure, axes

"""The figures that pictures of a table are drawn from, its charts for notebooks, and how a notebook
shows it.

Everything is counted from the log; only `component_figures` and `search_figures` open splits, and
never more than asked. Charts need matplotlib, which the extra `plots` brings; nothing else here
does.

`%load_ext indextables` shows searches, scans and histories well. Those are plain Arrow tables,
which have no HTML form of their own, and a library must not give them one unasked: hence an
extension.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from html import escape, unescape
from importlib import import_module
from typing import Any

import pyarrow as pa
from msgspec import Struct

from indextables.errors import CorruptTableError, UnsupportedError, VersionNotFoundError
from indextables.inspect.inspection import Inspection, sizes_of_components
from indextables.log.log_files import list_log
from indextables.log.transaction_log import TransactionLog
from indextables.model.actions import AddAction, RemoveAction
from indextables.model.calls import checked_calls
from indextables.model.conflicts import Operation
from indextables.model.report import html_table, text_table
from indextables.model.snapshot import CommittedVersion
from indextables.query.explain import ScanReport, explain
from indextables.query.plan import plan_scan
from indextables.query.task import ScanTask

Sizes = Mapping[str, int]
"""Bytes by the path of a split."""


class VersionFigure(Struct, frozen=True):
    """One version. Splits and bytes are those that it holds; None if the log does not contain it
    any more.
    """

    version: int
    at: datetime | None
    operation: str
    is_readable: bool
    splits: int | None
    size_bytes: int | None


class MergeFigure(Struct, frozen=True):
    """One merge: the sizes of the splits it replaced, and of those it wrote."""

    version: int
    before: tuple[int, ...]
    after: tuple[int, ...]


class PartitionFigure(Struct, frozen=True):
    """One partition: its values in the order of the partition columns, and what it holds."""

    values: tuple[str | None, ...]
    splits: int
    rows: int
    size_bytes: int


class ComponentFigure(Struct, frozen=True):
    """The bytes of one component over some splits, of one column where it belongs to one."""

    component: str
    field: str | None
    size_bytes: int


class ColumnFigure(Struct, frozen=True):
    """One column. `index` is its kind of index; `statistics` where bounds answer for it,
    `partition` where folders do.
    """

    column: str
    type: str
    nullable: bool
    index: str


def column_figures(inspection: Inspection) -> list[ColumnFigure]:
    """Every column, and what a search finds it by."""
    table = inspection.table
    mapping = table.logical_columns.mapping(table.settings)
    kinds = {
        column.name: column.shown_kind if column.indexed or column.exact else "statistics"
        for column in mapping.columns
    }
    return [
        ColumnFigure(f.name, str(f.type), f.nullable, kinds.get(f.name, "partition"))
        for f in table.schema
    ]


def version_figures(
    inspection: Inspection, *, limit: int = 60
) -> tuple[list[VersionFigure], list[MergeFigure]]:
    """The newest versions, oldest first, with what each held; and the merges among them."""
    log = inspection.log
    rows = inspection.history(limit=limit).to_pylist()[::-1]
    listing = list_log(log.store)
    files = [
        (row["version"], listing.versions[row["version"]])
        for row in rows
        if row["version"] in listing.versions
    ]
    walk = _VersionWalk(log, {version.version: version for version in log.reader.read(files)})
    return [walk.step(row) for row in rows], walk.merges


class _VersionWalk:
    """A walk through versions, oldest first, that knows the live splits of each where they can be
    known.
    """

    def __init__(self, log: TransactionLog, committed: Mapping[int, CommittedVersion]) -> None:
        self.merges: list[MergeFigure] = []
        self._log = log
        self._committed = committed
        self._live: dict[str, int] | None = None
        self._at = -2

    def step(self, row: Mapping[str, Any]) -> VersionFigure:
        version: int = row["version"]
        own = self._committed.get(version)
        if own is not None and self._live is not None and version == self._at + 1:
            self._apply(self._live, own)
        else:
            self._live = self._sizes_at(version)
        self._at = version
        splits, size = (
            (None, None) if self._live is None else (len(self._live), sum(self._live.values()))
        )
        operation = row["operation"] or "unknown"
        return VersionFigure(version, row["timestamp"], operation, row["is_readable"], splits, size)

    def _apply(self, live: dict[str, int], version: CommittedVersion) -> None:
        removed = [live.pop(a.path, 0) for a in version.actions if isinstance(a, RemoveAction)]
        added = {a.path: a.size for a in version.actions if isinstance(a, AddAction)}
        live.update(added)
        if version.info.operation == Operation.MERGE and added:
            self.merges.append(
                MergeFigure(version.version, tuple(sorted(removed)), tuple(sorted(added.values())))
            )

    def _sizes_at(self, version: int) -> dict[str, int] | None:
        try:
            files = self._log.at_version(version).files(columns=["path", "size"])
        except (VersionNotFoundError, CorruptTableError):
            return None
        return dict(
            zip(files.column("path").to_pylist(), files.column("size").to_pylist(), strict=True)
        )


def partition_figures(inspection: Inspection) -> list[PartitionFigure]:
    """What each partition holds, in the order of their values."""
    return [
        PartitionFigure(
            tuple(value for _, value in row["partition"]),
            row["splits"],
            row["rows"],
            row["size_bytes"],
        )
        for row in inspection.partitions().to_pylist()
    ]


def component_figures(
    inspection: Inspection, *, max_splits: int = 200
) -> tuple[list[ComponentFigure], int]:
    """What the bytes of the largest splits are spent on, the most first, and how many splits were
    looked at.
    """
    task = _largest(inspection, None, max_splits)
    summed = (
        sizes_of_components(task)
        .group_by(["component", "field"])
        .aggregate([("size_bytes", "sum")])
    )
    figures = [
        ComponentFigure(r["component"], r["field"], r["size_bytes_sum"]) for r in summed.to_pylist()
    ]
    by_size = sorted(
        figures, key=lambda figure: (-figure.size_bytes, figure.component, figure.field or "")
    )
    return by_size, len(task.plan.splits)


def search_figures(
    inspection: Inspection, query: str, *, max_splits: int = 200
) -> tuple[ScanReport, ScanReport]:
    """What a search costs in the largest splits it would open: finding the rows, then reading all
    their columns.

    What this process has read of the splits before is not read again, and not counted.
    """
    finding = explain(_largest(inspection, query, max_splits, columns=()))
    return finding, explain(_largest(inspection, query, max_splits))


def _largest(
    inspection: Inspection,
    query: str | None,
    max_splits: int,
    *,
    columns: Sequence[str] | None = None,
) -> ScanTask:
    table = inspection.table
    plan = plan_scan(table, query=query, columns=columns)
    largest = sorted(plan.splits, key=lambda entry: -entry.size)[:max_splits]
    return ScanTask(plan.with_splits(largest), inspection.log.store)


_WRITE, _MERGE, _REPLACE, _REMOVE, _OTHER = "#2a6fc9", "#178a5c", "#b77800", "#c93c3c", "#8b95a1"
_COLORS = {
    "WRITE": _WRITE,
    "MERGE": _MERGE,
    **dict.fromkeys(("OVERWRITE", "REPLACE WHERE", "RESTORE"), _REPLACE),
    **dict.fromkeys(("DELETE", "DROP PARTITIONS", "PURGE"), _REMOVE),
}


@checked_calls
class Plots:
    """The charts of one table. Each returns a matplotlib `Figure`, which a notebook shows and
    `savefig` writes.
    """

    def __init__(self, inspection: Inspection) -> None:
        self._inspection = inspection

    def timeline(self, *, limit: int = 60) -> Any:
        """Bytes in the table at each of the newest versions, `limit` of them, in the colour of what
        the version did.
        """
        versions, _ = version_figures(self._inspection, limit=limit)
        figure, axes = _figure("bytes in the table by version")
        colors = [_COLORS.get(v.operation, _OTHER) for v in versions]
        axes.bar([v.version for v in versions], [v.size_bytes or 0 for v in versions], color=colors)
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.yaxis.set_major_formatter(_bytes_formatter())
        axes.set_xlabel("version")
        return figure

    def sizes(self, *, limit: int = 60) -> Any:
        """Sizes of the splits that went into each merge of the `limit` newest versions, and of
        those that came out.
        """
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
        """Rows in each partition; where there are more than `limit`, in the last of them, and the
        title says so.
        """
        every = partition_figures(self._inspection)
        parts = every[-limit:]
        names = [
            "/".join("null" if v is None else v for v in part.values) or "(whole table)"
            for part in parts
        ]
        if len(parts) == len(every):
            left_out = ""
        else:
            left_out = f" (the last {len(parts):,} of {len(every):,})"
        figure, axes = _bars(
            f"rows by partition{left_out}", names, [part.rows for part in parts], _WRITE
        )
        axes.set_ylabel(", ".join(self._inspection.table.partition_columns))
        return figure

    def components(self, *, max_splits: int = 200) -> Any:
        """What the bytes of the largest splits, `max_splits` at most, are spent on, by column and
        component.
        """
        components, split_count = component_figures(self._inspection, max_splits=max_splits)
        names = [f"{c.field or '(all columns)'}: {c.component}" for c in components]
        figure, axes = _bars(
            f"bytes of {split_count} split(s)", names, [c.size_bytes for c in components], _MERGE
        )
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
    """A figure with one chart. It is made without pyplot, so that nothing global is changed and
    nothing is left open.
    """
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
            "Charts need matplotlib, which is not installed.",
            hint="Run `pip install 'indextables[plots]'`.",
        ) from None


SHOWN_ROWS = 50
_SNIPPET = "_snippet"
_MARKED = re.compile(r"<b>(.*?)</b>", re.S)


def load_ipython_extension(ipython: Any) -> None:
    """Called by `%load_ext indextables`: from then on this session shows Arrow tables as tables."""
    ipython.display_formatter.formatters["text/html"].for_type(pa.Table, arrow_html)


def unload_ipython_extension(ipython: Any) -> None:
    """Called by `%unload_ext indextables`."""
    ipython.display_formatter.formatters["text/html"].pop(pa.Table, None)


def table_html(inspection: Inspection) -> str:
    """A table as HTML: what it is and holds, and its columns."""
    table, files = inspection.table, inspection.snapshot.files(columns=["size", "num_records"])
    facts = {
        "path": table.path,
        "version": table.version,
        "partitioned by": ", ".join(table.partition_columns),
        "splits": files.num_rows,
        "rows": _sum(files.column("num_records")),
        "bytes": _sum(files.column("size")),
    }
    columns = [
        {"column": c.column, "type": c.type, "index": c.index} for c in column_figures(inspection)
    ]
    return html_table([{"": name, "value": value} for name, value in facts.items()]) + html_table(
        columns
    )


def _sum(numbers: pa.ChunkedArray) -> int:
    return sum(number or 0 for number in numbers.to_pylist())


def arrow_html(table: pa.Table) -> str:
    """An Arrow table as HTML: the first rows, how many more there are, and snippets with their
    words marked.
    """
    rows = [
        dict(zip(table.column_names, row, strict=True))
        for row in zip(*_columns(table), strict=True)
    ]
    more = table.num_rows - len(rows)
    caption = f"{table.num_rows:,} rows, {table.num_columns} columns{f'; {more:,} not shown' if more else ''}"
    return f"{html_table(rows, markup={_SNIPPET: _snippet_html})}<p>{caption}</p>"


class ShownRows(Struct, frozen=True):
    """Rows as a notebook shows them: HTML with what matched marked, or text where there is no
    notebook.
    """

    rows: pa.Table
    more: bool = False
    """Whether there are more rows, which are not counted."""

    def _repr_html_(self) -> str:
        return arrow_html(self.rows) + ("<p>There are more.</p>" if self.more else "")

    def __str__(self) -> str:
        rows = [
            {k: _snippet_text(v) if k == _SNIPPET else v for k, v in row.items()}
            for row in self.rows.to_pylist()
        ]
        lines = text_table(rows) or f"no rows of {', '.join(self.rows.column_names)}"
        if self.more:
            return f"{lines}\n... and more"
        return lines

    __repr__ = __str__


def _columns(table: pa.Table) -> list[list[Any]]:
    return [column.slice(0, SHOWN_ROWS).to_pylist() for column in table.columns]


def _snippet_text(snippet: Any) -> Any:
    if snippet is None:
        return snippet
    return unescape(_MARKED.sub(r"*\1*", str(snippet)))


def _snippet_html(snippet: Any) -> str:
    """Return a snippet whose only markup is its marks, whatever the text contains."""
    parts = _MARKED.split("" if snippet is None else str(snippet))
    clean = [escape(unescape(part)) for part in parts]
    return "".join(f"<b>{part}</b>" if index % 2 else part for index, part in enumerate(clean))

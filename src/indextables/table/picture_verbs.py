"""Pictures of a table: what a notebook shows of it, the figures behind charts, and the charts themselves."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from indextables.config.indexing import IndexingSettings
from indextables.model.report import html_table
from indextables.scan import inspection
from indextables.scan.explain import ScanReport, explain
from indextables.scan.task import ScanTask
from indextables.table import figures
from indextables.table.plots import Plots
from indextables.table.row_verbs import RowVerbs


class PictureVerbs(RowVerbs):
    """Looking at a table."""

    @property
    def plot(self) -> Plots:
        """Charts for notebooks, drawn with matplotlib (the extra `plots`): `t.plot.timeline()`, `t.plot.sizes()`, ..."""
        return Plots(self)

    def column_figures(self) -> list[figures.ColumnFigure]:
        """The columns, and what a search finds each of them by."""
        return figures.column_figures(self.schema, self.partition_columns, self.settings.group(IndexingSettings))

    def version_figures(self, *, limit: int = 60) -> tuple[list[figures.VersionFigure], list[figures.MergeFigure]]:
        """The newest versions, oldest first, with what each held; and the merges among them."""
        return figures.version_figures(self._log, limit=limit)

    def partition_figures(self) -> list[figures.PartitionFigure]:
        """Splits, rows and bytes of every partition."""
        return figures.partition_figures(self._snapshot.all_files, self.partition_columns)

    def component_figures(self, *, max_splits: int = 200) -> tuple[list[figures.ComponentFigure], int]:
        """What the bytes of the largest splits are spent on, and how many splits were looked at."""
        task = self._largest(None, max_splits)
        sizes = inspection.sizes_of_components(task)
        return figures.component_figures(sizes), len(task.plan.splits)

    def search_figures(self, query: str, *, max_splits: int = 200) -> tuple[ScanReport, ScanReport]:
        """What a search costs in the largest splits it would open: finding the rows, then reading all their columns.

        What this process has read of the splits before is not read again, and not counted.
        """
        finding = explain(self._largest(query, max_splits, columns=()))
        return finding, explain(self._largest(query, max_splits))

    def _largest(self, query: str | None, max_splits: int, *, columns: Sequence[str] | None = None) -> ScanTask:
        plan = self.plan_scan(query=query, columns=columns)
        largest = sorted(plan.splits, key=lambda entry: -entry.size)[:max_splits]
        return ScanTask(plan.with_splits(largest), self._log.store)

    def _repr_html_(self) -> str:
        files = self._snapshot.files(columns=["size", "num_records"])
        facts = {
            "path": self.path,
            "version": self.version,
            "partitioned by": ", ".join(self.partition_columns),
            "splits": files.num_rows,
            "rows": _sum(files.column("num_records")),
            "bytes": _sum(files.column("size")),
        }
        columns = [{"column": c.column, "type": c.type, "index": c.index} for c in self.column_figures()]
        return html_table([{"": name, "value": value} for name, value in facts.items()]) + html_table(columns)


def _sum(numbers: pa.ChunkedArray) -> int:
    return sum(number or 0 for number in numbers.to_pylist())

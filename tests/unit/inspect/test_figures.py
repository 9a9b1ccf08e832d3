"""What a notebook shows of a table, the figures behind its charts, and the charts themselves."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import pyarrow as pa
import pytest

import indextables
from indextables import Table
from indextables.errors import UnsupportedError
from indextables.inspect.figures import (
    SHOWN_ROWS,
    ShownRows,
    arrow_html,
    component_figures,
    partition_figures,
    version_figures,
)
from tests.support.pictured import eventful_table

CHARTS = ["timeline", "sizes", "partitions", "components"]
LIBRARIES = [name for name in ("matplotlib",) if find_spec(name)]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Table:
    return eventful_table(tmp_path_factory.mktemp("eventful") / "table")


def cells(html: str) -> list[str]:
    return [
        "".join(cell.itertext()) for cell in ElementTree.fromstring(f"<div>{html}</div>").iter("td")
    ]


def test_a_table_shows_what_it_is(table: Table) -> None:
    found = cells(table._repr_html_())
    assert table.path in found and str(table.count()) in found
    assert found[found.index("body") : found.index("body") + 3] == ["body", "string", "text"]


def test_the_figures_of_each_version_are_those_of_the_version(table: Table) -> None:
    versions, merges = version_figures(table.inspect)
    for figure in versions:
        files = Table.open(table.path, version=figure.version).files()
        assert (figure.splits, figure.size_bytes) == (
            files.num_rows,
            sum(files.column("size").to_pylist()),
        )
    (merge,) = merges
    before, after = (Table.open(table.path, version=merge.version - k).files() for k in (1, 0))
    gone = {*before.column("path").to_pylist()} - {*after.column("path").to_pylist()}
    assert len(merge.before) == len(gone) and len(merge.after) < len(merge.before)


def test_the_figures_of_the_newest_versions_alone_are_the_same(table: Table) -> None:
    every, _ = version_figures(table.inspect)
    newest, _ = version_figures(table.inspect, limit=3)
    assert newest == every[-3:]


def test_the_figures_of_the_partitions_add_up(table: Table) -> None:
    parts = partition_figures(table.inspect)
    assert sum(part.rows for part in parts) == table.count()
    assert sum(part.splits for part in parts) == table.files().num_rows
    hours = [part.values[1] for part in parts if part.values[0] is None]
    assert hours == sorted(hours, key=lambda hour: int(hour or 0))
    assert parts[-1].values[0] is None


def test_the_figures_of_the_components_add_up(table: Table) -> None:
    components, looked_at = component_figures(table.inspect)
    assert looked_at == table.files().num_rows
    assert sum(c.size_bytes for c in components) == sum(table.files().column("size").to_pylist())


@pytest.mark.parametrize("chart", CHARTS)
def test_without_the_library_the_error_names_the_extra(
    table: Table, chart: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(UnsupportedError, match=r"indextables\[plots\]"):
        getattr(table.plot, chart)()


@pytest.mark.parametrize("chart", CHARTS)
@pytest.mark.parametrize("library", LIBRARIES)
def test_charts_are_drawn(table: Table, library: str, chart: str, tmp_path: Path) -> None:
    figure = getattr(table.plot, chart)()
    figure.savefig(tmp_path / "chart.svg")
    drawn = (tmp_path / "chart.svg").read_text(encoding="utf-8")
    assert ElementTree.fromstring(drawn).tag.endswith("svg")
    (axes,) = figure.axes
    assert axes.get_title() and (axes.patches or axes.collections)


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_chart_that_leaves_partitions_out_says_so(table: Table, library: str) -> None:
    every = len(partition_figures(table.inspect))
    (axes,) = table.plot.partitions(limit=1).figure.axes
    assert axes.get_title() == f"rows by partition (the last 1 of {every})"
    assert len(axes.patches) == 1


class Formatter(dict[type, Callable[[Any], str]]):
    """The part of a notebook's formatter that an extension talks to."""

    def for_type(self, kind: type, show: Callable[[Any], str]) -> None:
        self[kind] = show


def test_the_extension_shows_arrow_tables_until_it_is_unloaded() -> None:
    formatter = Formatter()
    ipython = SimpleNamespace(
        display_formatter=SimpleNamespace(formatters={"text/html": formatter})
    )
    indextables.load_ipython_extension(ipython)
    assert "<td>7</td>" in formatter[pa.Table](pa.table({"a": [7]}))
    indextables.unload_ipython_extension(ipython)
    assert not formatter


def test_search_results_show_their_marks_and_nothing_else_as_markup(table: Table) -> None:
    found = table.search("body:timeout", limit=3, snippet="body", columns=["hour"])
    assert "gateway <b>timeout</b> number" in arrow_html(found)
    hostile = pa.table(
        {"_snippet": ["<script>x</script><b>a<i></b>", "</b> & <b>", None], "b": ["<b>x</b>"] * 3}
    )
    html = arrow_html(hostile)
    assert "<script" not in html and "<i>" not in html and "<td>&lt;b&gt;x" in html
    assert ElementTree.fromstring(f"<div>{html}</div>") is not None


def test_a_long_result_says_how_many_rows_are_not_shown() -> None:
    html = arrow_html(pa.table({"n": range(SHOWN_ROWS + 1234)}))
    assert f"{SHOWN_ROWS + 1234:,} rows, 1 columns; 1,234 not shown" in html


def test_rows_that_are_shown_say_that_there_are_more() -> None:
    found = pa.table({"n": [1, 2], "_snippet": ["a &lt;b&gt; <b>hit</b>", None]})
    few, more = ShownRows(found), ShownRows(found, more=True)
    assert "a &lt;b&gt; <b>hit</b>" in few._repr_html_() and "There are more" in more._repr_html_()
    assert "a <b> *hit*" in str(few) and str(more).endswith("... and more")
    assert str(ShownRows(found.slice(0, 0))) == "no rows of n, _snippet"

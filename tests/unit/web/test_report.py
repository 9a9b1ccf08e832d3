"""The report page is one well-formed file that asks for nothing else, escapes every text, and shows
the true figures.
"""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pyarrow as pa
import pytest

from indextables import Table
from indextables.errors import QuerySyntaxError
from indextables.web.report import report_html, write_report
from tests.support.pictured import LONG, TAG, eventful_table

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Table:
    return eventful_table(tmp_path_factory.mktemp("eventful") / "table")


@pytest.fixture(scope="module")
def html(table: Table) -> str:
    return report_html(table)


def parsed(html: str) -> ElementTree.Element:
    return ElementTree.fromstring(html.removeprefix("<!DOCTYPE html>\n"))


def texts(page: ElementTree.Element) -> list[str]:
    return [text.strip() for text in page.itertext() if text.strip()]


def charts(page: ElementTree.Element) -> list[str]:
    return [str(svg.findtext(f"{SVG}title")) for svg in page.iter(f"{SVG}svg")]


def test_it_is_well_formed_and_names_the_table(html: str) -> None:
    page = parsed(html)
    assert page.findtext(".//h1") == '<b>"eventful" & co</b>'
    assert "with a \ufffd control character" in texts(page)


def test_it_has_a_chart_for_everything(html: str) -> None:
    assert charts(parsed(html)) == [
        "Timeline of versions",
        "Sizes of splits before and after each merge",
        "Rows by region and hour",
        "Bytes by column and component",
        "Cost of a search",
    ]


def test_it_asks_for_nothing_from_elsewhere(html: str) -> None:
    without_names = html.replace("http://www.w3.org/2000/svg", "")
    assert not re.search(
        r"https?:|//[a-z]|url\(|@import|<script|<link|<img|<iframe|\bsrc=|\bhref=", without_names
    )


def test_names_cannot_become_markup(html: str) -> None:
    assert "<script" not in html and "<i>" not in html
    assert any(text == TAG for text in texts(parsed(html)))


def test_long_names_are_cut_and_show_whole_when_pointed_at(html: str) -> None:
    found = texts(parsed(html))
    assert any(text.endswith("…") and LONG.startswith(text[:-1]) for text in found)
    assert LONG in found


def test_the_timeline_lists_the_versions(html: str, table: Table) -> None:
    rows = [[cell.text for cell in row] for row in parsed(html).findall(".//tbody/tr")]
    assert [(int(str(row[0])), row[2]) for row in rows] == [
        (entry["version"], entry["operation"]) for entry in table.history().to_pylist()
    ]
    newest = rows[0]
    assert newest[3] == str(table.files().num_rows) and newest[5] == "yes"


def test_the_cards_tell_the_true_figures(html: str, table: Table) -> None:
    cards = {
        card.findtext("span"): card.findtext("b")
        for card in parsed(html).findall(".//div[@class='card']")
    }
    state = table.state()
    assert cards["rows"] == str(table.count()) and cards["splits"] == str(table.files().num_rows)
    assert cards["state at version"] == str(state.version) and cards["form"] == state.format
    assert cards["tombstones"] == f"{state.num_tombstones} ({state.tombstone_ratio:.0%})"


def test_a_given_query_is_the_one_that_is_costed(table: Table, tmp_path: Path) -> None:
    out = write_report(table, tmp_path / "page.html", query="body:timeout AND hour:1")
    found = texts(parsed(out.read_text(encoding="utf-8")))
    assert "body:timeout AND hour:1" in found
    assert (
        f"{table.count(query='body:timeout AND hour:1')} rows matched. The query was given."
        in found
    )


def test_a_bad_query_is_an_error_and_no_page(table: Table, tmp_path: Path) -> None:
    with pytest.raises(QuerySyntaxError):
        write_report(table, tmp_path / "page.html", query="body:(")
    assert not (tmp_path / "page.html").exists()


def test_it_says_how_many_splits_it_looked_at(table: Table) -> None:
    assert "What the bytes of 2 splits are spent on. These are the largest ones." in texts(
        parsed(report_html(table, max_splits=2))
    )


def test_an_empty_table_has_a_report_too(tmp_path: Path) -> None:
    empty = Table.create(str(tmp_path / "empty"), schema=pa.schema([("id", pa.int64())]))
    assert charts(parsed(report_html(empty))) == ["Timeline of versions"]


def test_a_table_without_text_says_why_no_search_is_shown(tmp_path: Path) -> None:
    numbers = Table.create(str(tmp_path / "numbers"), schema=pa.schema([("id", pa.int64())]))
    numbers.append(pa.table({"id": [1, 2]}))
    page = parsed(report_html(numbers))
    assert "Cost of a search" not in charts(page)
    assert any("give a query" in text for text in texts(page))


def test_versions_whose_log_is_gone_are_shown_as_unknown(tmp_path: Path) -> None:
    table = eventful_table(tmp_path / "table")
    table.checkpoint()
    (tmp_path / "table" / "_transaction_log" / f"{1:020d}.json").unlink()
    assert "no longer known" in report_html(Table.open(str(tmp_path / "table")))


def test_a_damaged_table_has_a_page_that_says_what_is_wrong(tmp_path: Path) -> None:
    table = eventful_table(tmp_path / "table")
    victim = tmp_path / "table" / table.files().column("path")[0].as_py()
    victim.write_bytes(victim.read_bytes()[:-100])
    page = parsed(report_html(Table.open(table.path)))
    assert "Timeline of versions" in charts(page) and "Bytes by column and component" not in charts(
        page
    )
    assert any(
        text.startswith("The splits could not be read.") and victim.name in text
        for text in texts(page)
    )

"""Tables of another engine have a report page like our own."""

from __future__ import annotations

from xml.etree import ElementTree

from indextables import Table
from indextables.web.report import report_html
from tests.golden.golden_tables import GoldenTable, for_each_table


@for_each_table
def test_the_page_shows_every_version_and_every_file(table: GoldenTable) -> None:
    opened = Table.open(str(table.path))
    page = ElementTree.fromstring(report_html(opened).removeprefix("<!DOCTYPE html>\n"))
    cards = {
        card.findtext("span"): card.findtext("b") for card in page.findall(".//div[@class='card']")
    }
    assert cards["splits"] == str(table.expected["live_files"])
    listed = [int(str(row[0].text)) for row in page.findall(".//tbody/tr")]
    assert listed == opened.history().column("version").to_pylist()[: len(listed)]
    assert "The splits could not be read." not in "".join(page.itertext())

"""The explorer in a real browser: searching, zooming, facets, order, pages, versions, exports,
links, errors, by keys too.

Pages are looked at by axe for what people with other eyes and hands need. Without Chromium there is
nothing to look with.
"""

from __future__ import annotations

import datetime as dt
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv
import pytest
import uvicorn

from indextables import Table
from indextables.web.explorer import Explorer, Limits
from indextables.web.service import LOOPBACK, application
from indextables.web.warehouse import Warehouse
from indextables.web.workers import open_socket

CHROMIUM = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed"),
    pytest.mark.xdist_group("browser"),
]
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
]
START = dt.datetime(2026, 11, 1, tzinfo=dt.UTC)
HOSTILE = (
    "<script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\"> gateway"
)
SCHEMA = pa.schema(
    [
        ("ts", pa.timestamp("us", tz="UTC")),
        ("level", pa.string()),
        ("status", pa.int32()),
        ("message", pa.string()),
    ]
)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    root = tmp_path_factory.mktemp("seen")
    logs = Table.create(
        str(root / "logs"), schema=SCHEMA, options={"indexing.typemap.message": "text"}
    )
    for turn in range(2):
        rows = [
            {
                "ts": START + dt.timedelta(hours=turn * 40 + n),
                "level": "ERROR" if n % 4 == 0 else "INFO",
                "status": 500 if n % 4 == 0 else 200,
                "message": HOSTILE if n == 0 else f"gateway timeout number {turn * 40 + n}",
            }
            for n in range(40)
        ]
        logs.append(pa.Table.from_pylist(rows, schema=SCHEMA))
    Table.create(str(root / "empty"), schema=SCHEMA)
    limits = Limits()
    app = application(Explorer(Warehouse([str(root)], max_staleness=0), limits), "secret")
    opened = open_socket(LOOPBACK, 0)
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [opened]})
    thread.start()
    yield f"http://{LOOPBACK}:{opened.getsockname()[1]}/secret/"
    server.should_exit = True
    thread.join(30)
    opened.close()
    limits.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield opened
        opened.close()


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    context = browser.new_context(viewport={"width": 1200, "height": 800}, accept_downloads=True)
    context.set_default_timeout(20_000)
    opened = context.new_page()
    errors: list[str] = []
    opened.on("pageerror", lambda error: errors.append(str(error)))
    yield opened
    context.close()
    assert errors == []


def shown(page: Any) -> int:
    """How many hits the page shows, after its parts were fetched."""
    page.wait_for_load_state("networkidle")
    return int(page.locator("#count").inner_text().removeprefix("of ").replace(",", ""))


def test_searching_by_keyboard_with_completion(page: Any, address: str) -> None:
    page.goto(f"{address}t/logs/search")
    assert shown(page) == 80
    page.keyboard.press("/")
    page.keyboard.type("le")
    page.wait_for_selector("#completions li")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.keyboard.type("E")
    page.wait_for_selector('#completions li:only-child:has-text("ERROR")')
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Tab")
    assert page.input_value("#q") == 'level:"ERROR" '
    page.wait_for_selector('#live:has-text("20 hits")')
    page.keyboard.press("Enter")
    page.wait_for_url("**q=level*")
    assert shown(page) == 20 and page.locator("td mark").first.inner_text() == "ERROR"
    page.keyboard.press("j")
    assert page.evaluate("document.activeElement.className") == "hit"
    page.keyboard.press("?")
    assert page.locator("dialog").inner_text().startswith("/")


def test_facets_and_their_absence(page: Any, address: str) -> None:
    page.goto(f"{address}t/logs/search?q=gateway")
    page.click('.facets a:has-text("ERROR") >> nth=0')
    assert shown(page) == 20
    page.click(".chip")
    assert shown(page) == 80
    page.click('.facets li:has-text("ERROR") .not')
    assert shown(page) == 60


def test_the_histogram_zooms_by_a_click_and_by_drawing(page: Any, address: str) -> None:
    page.goto(f"{address}t/logs/search?q=gateway")
    page.wait_for_selector("[data-brush] a")
    bars = page.locator("[data-brush] a")
    first, third = bars.nth(0).bounding_box(), bars.nth(2).bounding_box()
    middle = first["y"] + first["height"] / 2
    page.mouse.move(first["x"] + 3, middle)
    page.mouse.down()
    page.mouse.move(third["x"] + 3, middle, steps=4)
    page.mouse.up()
    page.wait_for_url("**since=*")
    drawn = shown(page)
    page.goto(f"{address}t/logs/search?q=gateway")
    page.wait_for_selector("[data-brush] a")
    page.locator("[data-brush] a").nth(0).click()
    page.wait_for_url("**since=*")
    clicked = shown(page)
    assert drawn == 3 * clicked > 0


def test_order_pages_columns_and_a_link_that_shows_the_same(page: Any, address: str) -> None:
    page.goto(f"{address}t/logs/search?q=gateway&n=25")
    page.select_option("#sort", "ts")
    page.wait_for_url("**sort=ts*")
    page.wait_for_load_state("networkidle")
    page.click('[rel="next"] >> nth=0')
    page.wait_for_url("**from=25*")
    assert page.locator("tbody tr").first.inner_text().startswith("2026-11-02 01:00:00")
    page.click("#columns summary")
    for name in ("level", "status", "ts"):
        page.locator(f'[data-column][value="{name}"]').uncheck()
    page.click("[data-apply-columns]")
    page.wait_for_url("**c=message*")
    link, text = page.url, page.locator("tbody").inner_text()
    again = page.context.new_page()
    again.goto(link)
    assert again.locator("tbody").inner_text() == text and again.locator("thead th").count() == 1


def test_travelling_through_versions(page: Any, address: str) -> None:
    page.goto(f"{address}t/logs/search")
    page.click("#versions summary")
    page.locator("[data-versions]").focus()
    page.keyboard.press("ArrowLeft")
    page.wait_for_url("**v=1*")
    assert shown(page) == 40 and "This is version 1" in page.locator(".note").inner_text()


def test_an_export_is_every_hit(page: Any, address: str, tmp_path: Path) -> None:
    page.goto(f"{address}t/logs/search?q=level:ERROR")
    page.click("#exports summary")
    with page.expect_download() as download:
        page.click('#exports a:has-text("CSV")')
    download.value.save_as(tmp_path / "hits.csv")
    assert pacsv.read_csv(tmp_path / "hits.csv").num_rows == 20


def test_errors_stand_at_their_place(page: Any, address: str) -> None:
    page.goto(f"{address}t/logs/search")
    page.fill("#q", "level:(")
    page.wait_for_selector("#live.bad")
    page.keyboard.press("Enter")
    page.wait_for_selector(".problem")
    assert page.input_value("#q") == "level:(" and page.locator(".problem pre").count() == 1
    page.goto(f"{address}t/nothing/search")
    assert "There is no table" in page.locator(".problem").inner_text()


def test_hostile_rows_are_text(page: Any, address: str) -> None:
    for shape in ("table", "records"):
        page.goto(f"{address}t/logs/search?q=gateway&as={shape}&sort=ts")
        page.wait_for_load_state("networkidle")
        assert "taken" not in page.title() and "<script>" in page.locator("#hits").inner_text()


@pytest.mark.parametrize(
    ("scheme", "width"),
    [
        ("light", 1200),
        ("dark", 390),
        pytest.param("dark", 1200, marks=pytest.mark.slow),
        pytest.param("light", 390, marks=pytest.mark.slow),
    ],
)
def test_axe_finds_nothing(browser: Any, address: str, scheme: Any, width: int) -> None:
    axe = pytest.importorskip(
        "axe_playwright_python.sync_playwright", reason="axe is not installed"
    ).Axe()
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, bypass_csp=True
    )
    page = context.new_page()
    places = (
        "",
        "t/logs/search?q=gateway",
        "t/logs/search?as=records&v=1",
        "t/logs/search?q=(",
        "t/empty/search",
    )
    for place in (
        *places,
        "t/logs/schema",
        "t/logs/files",
        "t/logs/history?from=0&to=2",
        "t/logs/upkeep?plan=merge",
    ):
        page.goto(f"{address}{place}")
        page.wait_for_load_state("networkidle")
        results = axe.run(page)
        assert results.violations_count == 0, f"{place}: {results.generate_report()}"
        assert page.evaluate(
            "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
        ), place
    context.close()


def test_it_works_without_scripts(browser: Any, address: str) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{address}t/logs/search")
    page.fill("#q", "level:ERROR")
    page.click("button.go")
    page.click('a:has-text("Show count, histogram and facets")')
    assert (
        "of 20" in page.locator("#count").inner_text()
        and page.locator("[data-brush] a").count() > 3
    )
    page.click('.facets a:has-text("ERROR") >> nth=0')
    assert page.locator(".chip").count() == 1
    context.close()

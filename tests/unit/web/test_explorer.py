"""Every page of the explorer, asked over HTTP without a browser: what it shows, what it refuses,
what it never does.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import io
import json
import random
import re
import threading
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from starlette.testclient import TestClient

from indextables import Table
from indextables.errors import IndexTablesError, NotFoundError, RefusedError
from indextables.query.task import ENOUGH
from indextables.web.explorer import Explorer, Limits
from indextables.web.service import application
from indextables.web.warehouse import Warehouse
from tests.support.pictured import TAG, eventful_table

TOKEN = "a-token-of-the-tests"
START = dt.datetime(2026, 11, 1, tzinfo=dt.UTC)
SCHEMA = pa.schema(
    [
        ("ts", pa.timestamp("us", tz="UTC")),
        ("level", pa.string()),
        ("status", pa.int32()),
        ("message", pa.string()),
        ("payload", pa.struct([("user", pa.string())])),
    ]
)
HOSTILE = "</td></table><script>alert('x')</script><img src=x onerror=alert(1)> gateway"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("warehouse")
    logs = Table.create(
        str(root / "logs"), schema=SCHEMA, options={"indexing.typemap.message": "text"}
    )
    for turn in range(2):
        rows = [
            {
                "ts": START + dt.timedelta(hours=turn * 30 + n),
                "level": "ERROR" if n % 3 == 0 else "INFO",
                "status": 500 if n % 3 == 0 else 200,
                "message": f"gateway timeout number {turn * 30 + n}" if n else HOSTILE,
                "payload": {"user": "<b>u</b>"},
            }
            for n in range(30)
        ]
        logs.append(pa.Table.from_pylist(rows, schema=SCHEMA))
    eventful_table(root / "deeper" / "eventful")
    (root / "deeper" / "not a table").mkdir()
    return root


@pytest.fixture(scope="module")
def client(folder: Path) -> Iterator[TestClient]:
    limits = Limits()
    app = application(Explorer(Warehouse([str(folder)], max_staleness=0), limits), TOKEN)
    with TestClient(app, base_url="http://127.0.0.1:8321", follow_redirects=True) as opened:
        yield opened
    limits.close()


def page(client: TestClient, address: str, status: int = 200) -> str:
    answer = client.get(f"/{TOKEN}/{address}")
    assert answer.status_code == status, answer.text
    assert "Traceback" not in answer.text
    return answer.text


def search(client: TestClient, status: int = 200, part: str = "search", **choices: Any) -> str:
    answer = client.get(f"/{TOKEN}/t/logs/{part}", params=choices)
    assert answer.status_code == status, answer.text
    return answer.text


def words(markup: str) -> str:
    return unescape(re.sub(r"<[^>]*>", "", markup))


def test_the_first_page_lists_the_tables_of_the_folder_and_below(client: TestClient) -> None:
    shown = page(client, "")
    assert "t/logs/search" in shown and "t/eventful/search" in shown and "not a table" not in shown
    assert "60 rows" in shown


def test_hits_are_marked_and_counted(client: TestClient) -> None:
    shown = search(client, q="number AND level:ERROR")
    assert (
        "<mark>number</mark>" in shown
        and "<mark>ERROR</mark>" in shown
        and "<mark>gateway</mark>" not in shown
    )
    assert "Hits 1 to 18" in words(shown)
    assert words(search(client, part="count", q="number AND level:ERROR")) == "of 18"
    assert "No row matches" in words(search(client, q="absent"))


def test_without_scripts_everything_is_in_the_page(client: TestClient) -> None:
    shown = search(client, q="gateway", panels="1")
    assert (
        "Hits 1 to 50 of 60" in words(shown) and "data-brush" in shown and 'class="facets"' in shown
    )


def test_pages_follow_each_other_without_a_hit_lost(client: TestClient) -> None:
    seen: list[str] = []
    for start in (0, 25, 50):
        choices: dict[str, Any] = {"from": start}
        shown = search(client, q="gateway", sort="ts", n="25", **choices)
        seen += re.findall(r"2026-11-0\d \d\d:00:00", shown)
        assert ('rel="next"' in shown) == (start < 50) and ('rel="prev"' in shown) == (start > 0)
    assert len(seen) == len(set(seen)) == 60 and seen == sorted(seen)


def test_hits_are_ordered_as_asked(client: TestClient) -> None:
    moments = re.findall(r"2026-11-0\d \d\d:00:00", search(client))
    assert moments == sorted(moments, reverse=True) and moments[0] == "2026-11-03 11:00:00"
    by_status = search(client, sort="status desc", n="25", c="status")
    assert (
        re.findall(r'<td class="number narrow">(\d+)</td>', by_status) == ["500"] * 20 + ["200"] * 5
    )


def test_columns_can_be_chosen_and_records_shown(client: TestClient) -> None:
    shown = search(client, q="number", c="level")
    assert (
        "payload" not in re.findall(r"<th [^>]*>.*?</th>", shown)[0]
        and len(re.findall("<th ", shown)) == 1
    )
    choices: dict[str, Any] = {"as": "records"}
    records = search(client, q="number", **choices)
    assert (
        '<ol class="records">' in records
        and "&quot;user&quot;: &quot;&lt;b&gt;u&lt;/b&gt;&quot;" in records
    )


def test_facets_count_values_and_lead_to_filters(client: TestClient) -> None:
    facets = search(client, part="facets", q="gateway")
    assert re.findall(r'class="value">(\w+)</span><span class="n">(\d+)<', facets)[:2] == [
        ("INFO", "40"),
        ("ERROR", "20"),
    ]
    link = next(
        unescape(a)
        for a in re.findall(r'href="([^"]*)"', facets)
        if "ERROR" in a and "NOT" not in a
    )
    assert "Hits 1 to 20" in words(page(client, f"t/logs/{link}"))
    without = next(
        unescape(a) for a in re.findall(r'href="([^"]*)"', facets) if "NOT" in a and "ERROR" in a
    )
    assert "Hits 1 to 40" in words(page(client, f"t/logs/{without}"))


def test_the_histogram_adds_up_and_zooms(client: TestClient) -> None:
    drawn = search(client, part="histogram", q="gateway")
    counts = [int(n) for n in re.findall(r"<title>2026-[^:]*:\d\d:\d\d: (\d+)</title>", drawn)]
    assert sum(counts) == 60 and len(counts) > 10
    link = unescape(re.findall(r'<a href="([^"]*)"', drawn)[0])
    assert f"Hits 1 to {counts[0]}" in words(page(client, f"t/logs/{link}"))
    assert (
        words(search(client, part="count", since="2026-11-02", until="2026-11-02T06:00:00Z"))
        == "of 6"
    )


def test_older_versions_are_shown_as_they_were(client: TestClient) -> None:
    shown = search(client, v="1")
    assert (
        "This is version 1, not the newest" in words(shown)
        and words(search(client, part="count", v="1")) == "of 30"
    )
    assert "VersionNotFound" not in search(client, 404, v="99")


@pytest.mark.parametrize(
    ("choices", "said"),
    [
        ({"q": "message:(timeout AND"}, "AND has nothing after it"),
        ({"q": "nocolumn:x"}, "There is no column 'nocolumn'"),
        ({"where": "status = "}, "expected a column, a value"),
        ({"where": "nope = 1"}, "There is no column 'nope'"),
        ({"f": "level:["}, "A value is missing"),
        ({"since": "yesterday"}, "'yesterday' is no moment"),
        ({"sort": "sideways"}, "cannot be ordered by 'sideways'"),
        ({"c": "nope"}, "nope"),
        ({"time": "level"}, "is no column of times"),
    ],
)
def test_an_error_stands_beside_the_box_that_keeps_what_was_asked(
    client: TestClient, choices: dict[str, str], said: str
) -> None:
    shown = search(client, 400, **choices)
    assert said in words(shown) and 'role="alert"' in shown and 'id="q"' in shown


def test_the_place_of_an_error_is_marked(client: TestClient) -> None:
    assert '<pre>status:<mark class="here">[</mark>1 TO 2</pre>' in search(
        client, 400, q="status:[1 TO 2"
    )
    assert re.search(
        r'<pre><mark class="here">n</mark>ope:x</pre>', search(client, 400, q="nope:x")
    )
    assert re.search(
        r'<pre>a AND <mark class="here">\)</mark></pre>', search(client, 400, q="a AND )")
    )


@pytest.mark.parametrize(
    "choices",
    [{"n": "x"}, {"n": "100000"}, {"from": "-1"}, {"from": "99999"}, {"as": "film"}, {"v": "x"}],
)
def test_numbers_that_make_no_sense_are_refused(
    client: TestClient, choices: dict[str, str]
) -> None:
    assert 'role="alert"' in search(client, 400, **choices)


def test_whatever_is_asked_is_answered_or_refused(client: TestClient) -> None:
    chance = random.Random(1)
    keys = (
        "q",
        "where",
        "f",
        "since",
        "until",
        "time",
        "sort",
        "c",
        "as",
        "n",
        "from",
        "v",
        "format",
        "start",
        "plan",
    )
    values = (
        "",
        "*",
        "(",
        "x\0",
        "é",
        "9" * 30,
        "-1",
        "ts",
        "now-15m",
        "ts:>now-15m",
        "9999-12-31",
        "0001-01-01",
        "csv",
        "/a.*/",
    )
    for _ in range(150):
        part = chance.choice(
            (
                "search",
                "count",
                "facets",
                "histogram",
                "cost",
                "live",
                "completions",
                "export",
                "files",
            )
        )
        choices: Any = [
            (chance.choice(keys), chance.choice(values)) for _ in range(chance.randrange(4))
        ]
        answer = client.get(f"/{TOKEN}/t/logs/{part}", params=choices)
        assert answer.status_code in (200, 400, 404), (part, choices, answer.text)


def test_a_query_is_counted_while_it_is_typed(client: TestClient) -> None:
    assert json.loads(search(client, part="live", q="number")) == {"count": 58}
    wrong = json.loads(search(client, part="live", q="level:("))
    assert wrong["position"] == 7 and wrong["message"]


def test_columns_and_values_are_completed(client: TestClient) -> None:
    def offered(text: str) -> list[str]:
        return [
            word
            for word, _ in json.loads(search(client, part="completions", q=text))["completions"]
        ]

    assert offered("timeout AND le") == ["level:"] and offered("zzz") == []
    assert offered("(level:E") == ['level:"ERROR"'] and set(offered("level:")) == {
        'level:"INFO"',
        'level:"ERROR"',
    }
    assert offered("message:gat") == []  # words of texts are not counted for it


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[TestClient]:
    """A client of an explorer over a table with a column of very many values."""
    table = Table.create(
        str(tmp_path / "hosts"), schema=pa.schema([("n", pa.int64()), ("host", pa.string())])
    )
    rows = [{"n": n, "host": f"Web-{n % 4_000:04}.example"} for n in range(6_000)]
    table.append(rows)
    limits = Limits()
    app = application(Explorer(Warehouse([str(tmp_path)], max_staleness=0), limits), TOKEN)
    with TestClient(app, base_url="http://127.0.0.1:8321", follow_redirects=True) as opened:
        yield opened
    limits.close()


def test_a_column_with_many_values_is_counted_when_it_is_opened(hosts: TestClient) -> None:
    facets = hosts.get(f"/{TOKEN}/t/hosts/facets", params={"where": "n >= 3900"}).text
    address = next(
        unescape(a) for a in re.findall(r'data-open-load="([^"]*)"', facets) if "host" in a
    )
    values = hosts.get(f"/{TOKEN}/t/hosts/{address}").text
    assert re.findall(r'class="value">([^<]+)</span><span class="n">(\d+)<', values)[0] == (
        "Web-0000.example",
        "1",
    )
    link = next(
        unescape(a)
        for a in re.findall(r'href="([^"]*)"', values)
        if "Web-0000" in a and "NOT" not in a
    )
    assert "Hits 1 to 1 " in words(hosts.get(f"/{TOKEN}/t/hosts/{link}").text)
    refused = hosts.get(f"/{TOKEN}/t/hosts/facet", params={"facet": "nope"})
    assert refused.status_code == 400 and "Columns of whole values: n, host" in words(refused.text)


def test_a_value_among_very_many_is_completed(hosts: TestClient) -> None:
    def offered(text: str) -> list[str]:
        answer = hosts.get(f"/{TOKEN}/t/hosts/completions", params={"q": text}).json()
        return [word for word, _ in answer["completions"]]

    assert set(offered("host:web-3999")) == {'host:"Web-3999.example"'}
    assert len(offered("host:")) == 12 and offered("host:zzz") == []
    assert offered("host:WEB-.*") == []


def test_a_search_without_hits_shows_no_number_of_them(client: TestClient) -> None:
    shown = words(search(client, q="absent"))
    assert "No row matches." in shown and "of 0" not in shown
    assert "of 0" not in words(search(client, q="absent", panels="1"))
    assert 'id="count"' not in search(client, q="absent")


@pytest.mark.parametrize(
    ("choices", "said"),
    [
        ({"q": "level:("}, "The group is empty at position 7."),
        ({"where": "status >"}, "expected a column, a value or '(', found the end."),
        ({"q": "status:abc"}, "Column 'status': 'abc' is not a number at position 7."),
    ],
)
def test_an_error_is_shown_to_its_end(
    client: TestClient, choices: dict[str, Any], said: str
) -> None:
    assert said in words(search(client, 400, **choices))
    message = json.loads(search(client, part="live", **choices))["message"]
    assert said in message and len(message) > len(said) + 5  # the way out comes behind it


def test_every_hit_is_exported(client: TestClient) -> None:
    choices: dict[str, Any] = {
        "q": "number",
        "where": "status = 500",
        "c": ["ts", "status", "payload"],
    }
    lines = search(client, part="export", format="jsonl", **choices).splitlines()
    assert len(lines) == 18 and json.loads(lines[0])["payload"] == {"user": "<b>u</b>"}
    rows = pacsv.read_csv(
        io.BytesIO(search(client, part="export", format="csv", **choices).encode())
    )
    assert rows.num_rows == 18 and rows.column_names == ["ts", "status", "payload"]
    answer = client.get(f"/{TOKEN}/t/logs/export", params={"format": "parquet", **choices})
    table = pq.read_table(io.BytesIO(answer.content))
    assert table.num_rows == 18 and table.schema.field("ts").type == pa.timestamp("us", tz="UTC")
    assert "filename*=UTF-8''logs.parquet" in answer.headers["content-disposition"]
    assert 'role="alert"' in search(client, 400, part="export", format="exe")
    assert search(client, part="export", q="absent", format="csv").startswith('"ts","level"')


def test_what_a_search_costs_is_shown(client: TestClient) -> None:
    shown = words(search(client, part="cost", q="timeout"))
    assert "weigh the words" in shown and "bytes read" in shown and "message:timeout" in shown


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("schema", ("indexed as", "text", "default", "60")),
        ("schema?column=message&text=The+Gateways", ("the", "gateways")),
        ("partitions", ("the whole table",)),
        ("files", ("2 splits", "splits/split-")),
        ("files?where=status+%3D+777", ("0 splits",)),
        ("files?where=status+%3D", ("expected a column",)),
        ("history", ("CREATE", "WRITE", "search")),
        ("history?from=0&to=2", ("From 0 to 2", "rows after", "60")),
        ("history?from=0&to=99", ("99",)),
        ("upkeep", ("State", "Skipped splits", "What would merge do?")),
        ("upkeep?plan=merge", ("merged files", "2")),
        ("upkeep?plan=purge", ("What purge would do",)),
        ("upkeep?plan=truncate+time+travel", ("What truncate time travel would do",)),
        ("upkeep?plan=compact", ("What compact would do",)),
        ("upkeep?plan=explode", ("There is no plan of 'explode'",)),
        ("upkeep?verify=full", ("healthy",)),
        ("report", ("Timeline of versions",)),
    ],
)
def test_pages_on_the_table(client: TestClient, address: str, said: tuple[str, ...]) -> None:
    shown = words(page(client, f"t/logs/{address}"))
    assert [text for text in said if text not in shown] == []


PAGES = (
    "",
    "search?q=gateway",
    "search?as=records",
    "schema",
    "partitions",
    "files",
    "history",
    "upkeep",
    "report",
)


@pytest.mark.parametrize("name", ["logs", "eventful"])
def test_hostile_content_is_text(client: TestClient, name: str) -> None:
    for address in PAGES[1:]:
        shown = page(client, f"t/{name}/{address}")
        assert "<script>alert" not in shown and "onerror=" not in re.sub(r"&lt;.*?&gt;", "", shown)
        assert "\x1b" not in shown
    evil = '"><script>alert(1)</script>'
    for key in ("q", "where", "f", "since", "sort", "c", "v", "n", "time", "as"):
        answer = client.get(f"/{TOKEN}/t/{name}/search", params={key: evil})
        assert answer.status_code == 400 and "<script>alert" not in answer.text
    assert TAG not in page(client, "t/eventful/schema") and TAG in words(
        page(client, "t/eventful/schema")
    )


def test_nothing_is_changed_by_looking(client: TestClient, folder: Path) -> None:
    def state() -> dict[str, str]:
        return {
            str(p): hashlib.sha256(p.read_bytes()).hexdigest()
            for p in folder.rglob("*")
            if p.is_file()
        }

    before = state()
    for address in PAGES[1:]:
        page(client, f"t/logs/{address}")
    for address in (
        "upkeep?plan=purge",
        "upkeep?plan=compact",
        "upkeep?verify=full",
        "export?format=csv",
    ):
        page(client, f"t/logs/{address}")
    assert state() == before
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        assert client.request(method, f"/{TOKEN}/t/logs/search").status_code == 405


@pytest.mark.parametrize(
    "address", ["nothing", "t/logs", "t/logs/nothing", "t/logs/search/more", "assets/none.css"]
)
def test_an_address_without_a_page_is_a_page_with_a_way_back(
    client: TestClient, address: str
) -> None:
    answer = client.get(f"/{TOKEN}/{address}")
    assert answer.status_code == 404 and "There is nothing at" in answer.text
    back = re.search(r'<a href="([^"]*)">All tables', answer.text)
    assert back is not None
    assert client.get(f"/{TOKEN}/{address}".rpartition("/")[0] + "/" + back[1]).status_code == 200


def test_who_does_not_know_the_secret_or_comes_by_another_name_is_told_nothing(
    client: TestClient,
) -> None:
    for address in (
        "/",
        "/t/logs/search",
        f"/{TOKEN[:-1]}/",
        f"/{TOKEN}x/t/logs/search",
        f"/{TOKEN}",
        "/%C3%A9/",
    ):
        answer = client.get(address)
        assert answer.status_code == 403 and "Forbidden" in answer.text, address
        assert "whole address that the server printed" in answer.text and "logs" not in answer.text
    for host in ("evil.example", "evil.example:8321", "127.0.0.1.evil.example:8321", ""):
        assert client.get(f"/{TOKEN}/", headers={"Host": host}).status_code == 403
    for host in ("localhost:8321", "127.0.0.1", "[::1]:8321"):
        assert client.get(f"/{TOKEN}/", headers={"Host": host}).status_code == 200


def test_pages_load_nothing_from_elsewhere_and_are_in_no_frame(client: TestClient) -> None:
    for address in ("", *(f"t/logs/{a}" for a in PAGES[1:])):
        answer = client.get(f"/{TOKEN}/{address}")
        policy = answer.headers["content-security-policy"]
        assert (
            "default-src 'none'" in policy
            and "frame-ancestors 'none'" in policy
            and "unsafe-eval" not in policy
        )
        assert (
            "script-src 'unsafe-inline'" not in policy
            and answer.headers["referrer-policy"] == "no-referrer"
        )
        assert (TOKEN not in answer.text and "style=" not in answer.text) or address.endswith(
            "report"
        )
        assert not re.search(r'(?:src|href)="(?:https?:)?//', answer.text)
    for name in ("explorer.css", "explorer.js", "icon.svg"):
        text = page(client, f"assets/{name}")
        assert "//" not in re.sub(r"(^|\s)// .*|http://www\.w3\.org/\S+", "", text)
    assert client.get(f"/{TOKEN}/assets/..%2Fserver.py").status_code == 404


def test_what_is_not_there_is_told(client: TestClient) -> None:
    assert "There is no table &#x27;log&#x27; here" in page(client, "t/log/search", 404)
    assert page(client, "t/logs/nowhere", 404)
    with pytest.raises(NotFoundError, match="There is no folder"):
        Warehouse(["/nowhere/at/all"]).check()


class StuckWarehouse(Warehouse):
    """Tables that cannot be opened by slow requests until they are released."""

    release = threading.Event()

    def open(self, name: str, *, version: int | None = None) -> Table:
        if threading.current_thread().name.startswith("indextables-slow"):
            self.release.wait(20)
            raise IndexTablesError("released")
        return super().open(name, version=version)


def test_a_slow_request_is_ended_and_stops_nobody(folder: Path) -> None:
    """Slow requests that fill their threads do not keep hits from being shown, and are ended at
    their limit.
    """
    limits = Limits(quick=2, slow=1, seconds=1.0)
    warehouse = StuckWarehouse([str(folder)], max_staleness=0)
    answers: list[int] = []
    with TestClient(
        application(Explorer(warehouse, limits), TOKEN), base_url="http://127.0.0.1"
    ) as client:

        def ask() -> None:
            answers.append(client.get(f"/{TOKEN}/t/logs/facets").status_code)

        threads = [threading.Thread(target=ask) for _ in range(3)]
        try:
            for thread in threads:
                thread.start()
            assert client.get(f"/{TOKEN}/t/logs/search?q=gateway").status_code == 200
            for thread in threads:
                thread.join(20)
        finally:
            warehouse.release.set()
    assert answers == [503] * 3
    limits.close()


def test_a_scan_is_ended_between_splits(folder: Path) -> None:
    def enough() -> None:
        raise RefusedError("enough")

    table = Table.open(str(folder / "logs"))
    token = ENOUGH.set(enough)
    try:
        for ask in (
            lambda: table.search("gateway"),
            lambda: table.scan().read_all(),
            lambda: table.count(query="timeout"),
        ):
            with pytest.raises(RefusedError, match="enough"):
                ask()
    finally:
        ENOUGH.reset(token)
    assert table.count(query="timeout") == 58


@pytest.mark.parametrize("asked", ["q=same", "q=same&sort=n desc", "q=same&f=half:0"])
def test_pages_behind_the_ten_thousandth_hit(tmp_path: Path, asked: str) -> None:
    """Every hit once: those that are counted to, and those behind them; at one version, whatever is
    appended meanwhile.
    """
    schema = pa.schema([("n", pa.int64()), ("word", pa.string()), ("half", pa.int64())])
    table = Table.create(
        str(tmp_path / "t"), schema=schema, options={"indexing.typemap.word": "text"}
    )
    for turn in range(3):
        numbers = range(turn * 7_000, turn * 7_000 + 7_000)
        table.append(
            pa.table({"n": numbers, "word": ["same"] * 7_000, "half": [n % 2 for n in numbers]})
        )
    limits = Limits()
    client = TestClient(
        application(Explorer(Warehouse([table.path], max_staleness=0), limits), TOKEN),
        base_url="http://127.0.0.1",
    )
    shown: list[int] = []
    link: str | None = f"search?{asked}&n=250&from=9750&c=n"
    while link is not None:
        text = page(client, f"t/t/{link}")
        shown += [int(n) for n in re.findall(r'<td class="number narrow">(\d+)</td>', text)]
        if len(shown) == 250:
            table.append(pa.table({"n": [-1], "word": ["same"], "half": [0]}))
        found = re.search(r'<a href="([^"]*)" rel="next"', text)
        last, link = link, None if found is None else unescape(found[1])
    whole = 21_000 if "half" not in asked else 10_500
    assert len(shown) == len(set(shown)) == whole - 9_750 and min(shown) >= 0
    if "desc" in asked:
        assert shown == list(range(whole - 9_751, -1, -1))
    assert "another search" in page(client, f"t/t/{last.replace('q=same', 'q=other')}", 400)
    assert "are not shown" in page(client, "t/t/search?from=10000&n=50", 400)
    limits.close()

"""The analyzer `code`: how names are cut, and tables whose splits were written before acronyms were cut rightly."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest

from indextables import Table
from indextables.errors import InvalidInputError
from indextables.splits.index.analyzers import analyze, terms_of

TEXTS = [
    "java.io.IOException: Broken pipe",
    "HTTPServer started, see XMLHttpRequest",
    "an exception in the server",
    "flags 0xDEADBEEF and 0xABCDef",
    "parseRequest snake_case getHTTPSUrl2",
]


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("IOException", ["io", "exception"]),
        ("HTTPServer", ["http", "server"]),
        ("XMLHttpRequest", ["xml", "http", "request"]),
        ("getHTTPSUrl2", ["get", "https", "url", "2"]),
        ("parseRequest snake_case /var/log x12", ["parse", "request", "snake", "case", "var", "log", "x", "12"]),
        ("ABc aBCd ABCD abcd A", ["a", "bc", "a", "b", "cd", "abcd", "abcd", "a"]),
        ("ÄÖÜber ΑΒΓδ", ["äö", "über", "αβ", "γδ"]),
        ("0xDEADBEEF 0xABCDef 0Xff 10 0x", ["0xdeadbeef", "0xabcdef", "0xff", "10", "0", "x"]),
        ("a\x1fHTTPServer\x1fIOException", ["a", "http", "server", "io", "exception"]),
    ],
)
def test_names_are_cut_at_the_last_capital_before_a_lower_case_letter(text: str, terms: list[str]) -> None:
    assert terms_of(text, "code2|lowercase") == terms
    assert [text[t.start : t.end].lower() for t in analyze(text, "code2|lowercase")] == terms


def test_places_of_terms_are_those_in_the_text_itself() -> None:
    chance = random.Random(3)
    for _ in range(500):
        text = "".join(chance.choices("ABCabc01xX_ .\x1fÄß", k=chance.randint(0, 30)))
        for token in analyze(text, "code2|lowercase"):
            assert text[token.start : token.end].lower() == token.text, repr(text)


def made(path: Path, chain: str, texts: list[str], *, kind: str = "text") -> Table:
    rows = pa.table({"id": list(range(len(texts))), "p": [n % 2 for n in range(len(texts))], "m": texts})
    options = {"indexing.typemap.m": kind, "indexing.tokenizer.m": chain}
    table = Table.create(str(path), schema=rows.schema, partition_columns=["p"], options=options)
    table.append(rows)
    return table


def ids(table: Table, query: str) -> list[int]:
    return sorted(table.search(query, limit=100).column("id").to_pylist())


FOUND = {
    "m:exception": [0, 2],
    "m:server": [1, 2],
    "m:IOException": [0],
    'm:"http server"': [1],
    "m:0xdeadbeef": [3],
    "m:0xABCDEF": [3],
    "m:https": [4],
    "m:exc*": [0, 2],
    "m:/ser.*/": [1, 2],
    "m:servre~1": [1, 2],
    "NOT m:server": [0, 3, 4],
}


@pytest.mark.parametrize("query", sorted(FOUND))
def test_real_names_are_found_by_their_words(tmp_path: Path, query: str) -> None:
    assert ids(made(tmp_path / "t", "code|lowercase", TEXTS), query) == FOUND[query]


def test_names_in_json_are_cut_in_the_same_way(tmp_path: Path) -> None:
    table = made(tmp_path / "t", "code|lowercase", ['{"a": "IOException"}', '{"a": ["HTTPServer"]}'], kind="json")
    assert (ids(table, "m.a:exception"), ids(table, "m:server"), ids(table, "m.a:IOException")) == ([0], [1], [0])


def test_a_snippet_marks_the_word_within_its_name(tmp_path: Path) -> None:
    table = made(tmp_path / "t", "code|lowercase", TEXTS)
    shown = table.search("m:exception", snippet="m").column("_snippet").to_pylist()
    assert "java.io.IO<b>Exception</b>: Broken pipe" in shown
    assert table.inspect.analyze("m", "IOException").column("term").to_pylist() == ["io", "exception"]


def of_an_earlier_release(path: Path) -> Table:
    """A table as an earlier release leaves it: its setting is `code`, and its splits cut names as that release did."""
    table = made(path, "code1|lowercase", TEXTS)
    table.update_metadata(options={"indexing.tokenizer.m": "code|lowercase"})
    return Table.open(table.path)


def test_a_table_of_an_earlier_release_keeps_its_analyzer_until_it_is_reindexed(tmp_path: Path) -> None:
    table = of_an_earlier_release(tmp_path / "t")
    assert (ids(table, "m:exception"), ids(table, "m:ioe")) == ([2], [0])
    assert "codeNames" not in (table.protocol.reader_features or ())
    writer = Table.open(table.path, options={"indexing.tokenizer.m": "code|lowercase"})
    writer.append(pa.table({"id": [9], "p": [0], "m": ["EOFException"]}))
    table = Table.open(table.path)
    assert (ids(table, "m:exception"), ids(table, "m:eofe")) == ([2], [9])
    table.merge()
    table.update_metadata(options={"purge.defaultRetentionHours": "200"})
    assert (ids(table, "m:exception"), ids(table, "m:eofe")) == ([2], [9])
    assert {split.answered_by for split in table.explain(query="m:server").splits} == {"index"}
    table.reindex(["m"], tokenizer="code|lowercase")
    again = Table.open(table.path)
    assert "codeNames" in (again.protocol.reader_features or ())
    for shown in (table, again):
        assert ids(shown, "m:exception") == [0, 2, 9] and ids(shown, "m:eofe") == []
        assert all(
            ids(shown, query) == sorted({*expected, *([9] if query in MATCH_9 else [])})
            for query, expected in FOUND.items()
        )


MATCH_9 = ("m:exception", "m:exc*", "NOT m:server")


@pytest.mark.parametrize("query", sorted(FOUND))
def test_old_and_new_splits_of_one_table_answer_alike(tmp_path: Path, query: str) -> None:
    table = of_an_earlier_release(tmp_path / "t")
    table.reindex(["m"], tokenizer="code|lowercase", where="p = 0")
    for shown in (table, Table.open(table.path)):
        assert ids(shown, query) == FOUND[query]
        assert shown.count(query=query) == len(FOUND[query])
    table.append(pa.table({"id": [8, 7], "p": [0, 1], "m": ["nothing of it", "IOException"]}))
    expected = {*FOUND[query], *([7] if query in {*MATCH_9, "m:IOException"} else []), *([8] if "NOT" in query else [])}
    assert ids(table, query) == sorted(expected)


def test_the_way_of_earlier_releases_can_be_asked_for_by_name(tmp_path: Path) -> None:
    table = made(tmp_path / "t", "code1|lowercase", TEXTS)
    assert (ids(table, "m:exception"), ids(table, "m:ioe")) == ([2], [0])
    new = made(tmp_path / "n", "code|lowercase", TEXTS)
    with pytest.raises(InvalidInputError, match="cannot be"):
        new.update_metadata(options={"indexing.tokenizer.m": "code1|lowercase"})

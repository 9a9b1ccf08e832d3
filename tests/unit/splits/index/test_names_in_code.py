"""The analyzer `code`: how names are cut, and tables whose splits were written before acronyms were
cut rightly.
"""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from indextables import Table
from indextables.config.indexing import IndexingSettings
from indextables.errors import InvalidInputError
from indextables.splits.index.analyzers import analyze, terms_of
from indextables.splits.index.mapping import DocMapping
from indextables.splits.query.fields import QueryFields
from indextables.splits.query.on_rows import scan_mask
from indextables.splits.query.parser import parse

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
        (
            "parseRequest snake_case /var/log x12",
            ["parse", "request", "snake", "case", "var", "log", "x", "12"],
        ),
        ("ABc aBCd ABCD abcd A", ["a", "bc", "a", "b", "cd", "abcd", "abcd", "a"]),
        ("ÄÖÜber ΑΒΓδ", ["äö", "über", "αβ", "γδ"]),
        ("0xDEADBEEF 0xABCDef 0Xff 10 0x", ["0xdeadbeef", "0xabcdef", "0xff", "10", "0", "x"]),
        ("a\x1fHTTPServer\x1fIOException", ["a", "http", "server", "io", "exception"]),
    ],
)
def test_names_are_cut_at_the_last_capital_before_a_lower_case_letter(
    text: str, terms: list[str]
) -> None:
    assert terms_of(text, "code2|lowercase") == terms
    assert [text[t.start : t.end].lower() for t in analyze(text, "code2|lowercase")] == terms


@pytest.mark.parametrize(
    ("text", "spellings"),
    [
        ("see parseRequest, IOException", ["parserequest", "ioexception"]),
        ("getHTTPSUrl2", ["gethttpsurl", "2"]),
        ("max_retryCount http_server HTTP x12", ["max", "retrycount"]),
        ("0xDEADBEEF of 0x10", ["deadbeef", "10"]),
        ("ÜberGröße", ["übergröße"]),
        ("parse the request", []),
        ("", []),
    ],
)
def test_the_lower_case_spelling_of_a_name_follows_its_text(
    text: str, spellings: list[str]
) -> None:
    parts, terms = analyze(text, "code2|lowercase"), analyze(text, "code3|lowercase")
    assert terms[: len(parts)] == parts
    assert [t.text for t in terms[len(parts) :]] == spellings
    assert [text[t.start : t.end].lower() for t in terms] == [t.text for t in terms]
    assert terms_of(text, "code3") == terms_of(text, "code2")


@pytest.mark.parametrize("chain", ["code2|lowercase", "code3|lowercase"])
def test_places_of_terms_are_those_in_the_text_itself(chain: str) -> None:
    chance = random.Random(3)
    for _ in range(500):
        text = "".join(chance.choices("ABCabc01xX_ .\x1f\x1eÄß", k=chance.randint(0, 30)))
        for token in analyze(text, chain):
            assert text[token.start : token.end].lower() == token.text, repr(text)


def made(path: Path, chain: str, texts: list[str], *, kind: str = "text") -> Table:
    rows = pa.table(
        {"id": list(range(len(texts))), "p": [n % 2 for n in range(len(texts))], "m": texts}
    )
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
SPELLED = {
    "m:parserequest": [4],
    "m:PARSEREQUEST": [4],
    "m:xmlhttprequest": [1],
    "m:gethttpsurl2": [4],
    'm:"gethttpsurl2"': [4],
    "m:httpserver": [1],
    "m:deadbeef": [3],
    "m:parser*": [4],
    "m:/ioex.*/": [0],
    "m:ioexceptoin~1": [0],
    'm:"request snake"': [4],
    'm:"url parserequest"': [],
    'm:"see xml"': [1],
    "m:ioexception AND m:pipe": [0],
    "NOT m:httpserver": [0, 2, 3, 4],
}
"""Queries in lower case, and phrases that must not match across the end of a text."""


@pytest.mark.parametrize("query", sorted(FOUND | SPELLED))
def test_real_names_are_found_by_their_words_and_their_spelling(tmp_path: Path, query: str) -> None:
    table = made(tmp_path / "t", "code|lowercase", TEXTS)
    assert ids(table, query) == (FOUND | SPELLED)[query]
    mapping = DocMapping.from_settings(
        pa.schema([("id", pa.int64()), ("m", pa.string())]),
        IndexingSettings(typemap={"m": "text"}, tokenizer={"m": "code|lowercase"}),
    )
    rows = pa.table({"id": list(range(len(TEXTS))), "m": TEXTS})
    scanned = scan_mask(parse(query, QueryFields(rows.schema, mapping, ("m",))), rows, mapping)
    assert np.flatnonzero(scanned).tolist() == (FOUND | SPELLED)[query]


def test_names_in_json_are_cut_in_the_same_way(tmp_path: Path) -> None:
    table = made(
        tmp_path / "t",
        "code|lowercase",
        ['{"a": "IOException"}', '{"a": ["HTTPServer"]}'],
        kind="json",
    )
    assert (ids(table, "m.a:exception"), ids(table, "m:server"), ids(table, "m.a:IOException")) == (
        [0],
        [1],
        [0],
    )
    assert (ids(table, "m.a:ioexception"), ids(table, "m:httpserver"), ids(table, "m.a:parse")) == (
        [0],
        [1],
        [],
    )


def test_a_snippet_marks_the_word_within_its_name(tmp_path: Path) -> None:
    table = made(tmp_path / "t", "code|lowercase", TEXTS)
    shown = table.search("m:exception", snippet="m").column("_snippet").to_pylist()
    assert "java.io.IO<b>Exception</b>: Broken pipe" in shown
    assert table.inspect.analyze("m", "IOException").column("term").to_pylist() == [
        "io",
        "exception",
        "ioexception",
    ]
    spelled = table.search("m:xmlhttprequest", snippet="m").column("_snippet").to_pylist()
    assert spelled == ["HTTPServer started, see <b>XMLHttpRequest</b>"]


def of_an_earlier_release(path: Path, source: str = "code1") -> Table:
    """A table as an earlier release leaves it: its setting is `code`, and its splits cut names as
    that release did.
    """
    table = made(path, f"{source}|lowercase", TEXTS)
    table.update_metadata(options={"indexing.tokenizer.m": "code|lowercase"})
    return Table.open(table.path)


def test_a_table_of_an_earlier_release_keeps_its_analyzer_until_it_is_reindexed(
    tmp_path: Path,
) -> None:
    table = of_an_earlier_release(tmp_path / "t")
    assert (ids(table, "m:exception"), ids(table, "m:ioe")) == ([2], [0])
    assert not {"codeNames", "codeSpellings"} & set(table.protocol.reader_features or ())
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
    assert "codeSpellings" in (again.protocol.reader_features or ())
    for shown in (table, again):
        assert ids(shown, "m:exception") == [0, 2, 9] and ids(shown, "m:eofe") == []
        assert all(
            ids(shown, query) == sorted({*expected, *([9] if query in MATCH_9 else [])})
            for query, expected in FOUND.items()
        )


def test_splits_without_spellings_keep_their_terms_until_they_are_reindexed(tmp_path: Path) -> None:
    table = of_an_earlier_release(tmp_path / "t", "code2")
    table.append(pa.table({"id": [9], "p": [0], "m": ["EOFException"]}))
    table = Table.open(table.path)
    features = set(table.protocol.reader_features or ())
    assert (ids(table, "m:exception"), ids(table, "m:eofexception")) == ([0, 2, 9], [])
    assert "codeNames" in features and "codeSpellings" not in features
    table.merge()
    assert (ids(table, "m:parserequest"), ids(table, "m:eofexception")) == ([], [])
    table.reindex(["m"], tokenizer="code|lowercase")
    for shown in (table, Table.open(table.path)):
        assert (ids(shown, "m:parserequest"), ids(shown, "m:eofexception")) == ([4], [9])
        assert ids(shown, "m:exception") == [0, 2, 9]
        assert "codeSpellings" in (shown.protocol.reader_features or ())


def test_a_spelling_that_is_too_long_for_the_index_is_found_in_the_rows(tmp_path: Path) -> None:
    long = "parseRequest" * 30
    table = made(tmp_path / "t", "code|lowercase", [long, "x", "y", "z", "Ⱥ" * 126 + "aB"])
    assert ids(table, f"m:{long.lower()}") == [0]
    assert ids(table, f"m:{'ⱥ' * 126}ab") == [4]
    assert ids(table, "m:parse*") == [0]


MATCH_9 = ("m:exception", "m:exc*", "NOT m:server")


@pytest.mark.parametrize("query", sorted(FOUND))
def test_old_and_new_splits_of_one_table_answer_alike(tmp_path: Path, query: str) -> None:
    table = of_an_earlier_release(tmp_path / "t")
    table.reindex(["m"], tokenizer="code|lowercase", where="p = 0")
    for shown in (table, Table.open(table.path)):
        assert ids(shown, query) == FOUND[query]
        assert shown.count(query=query) == len(FOUND[query])
    table.append(pa.table({"id": [8, 7], "p": [0, 1], "m": ["nothing of it", "IOException"]}))
    expected = {
        *FOUND[query],
        *([7] if query in {*MATCH_9, "m:IOException"} else []),
        *([8] if "NOT" in query else []),
    }
    assert ids(table, query) == sorted(expected)


def test_the_way_of_earlier_releases_can_be_asked_for_by_name(tmp_path: Path) -> None:
    table = made(tmp_path / "t", "code1|lowercase", TEXTS)
    assert (ids(table, "m:exception"), ids(table, "m:ioe")) == ([2], [0])
    new = made(tmp_path / "n", "code|lowercase", TEXTS)
    with pytest.raises(InvalidInputError, match="cannot be"):
        new.update_metadata(options={"indexing.tokenizer.m": "code1|lowercase"})

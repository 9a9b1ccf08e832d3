"""Analyzers as chains of filters: what they make of a text, and that searches find by it what they
should.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from indextables import Table
from indextables.errors import InvalidInputError
from indextables.splits.index.analyzers import terms_of

MAIL = "Mail Bob.X@ex-a.com, see https://a.b/c?d=1. Id 123e4567-E89b-12d3-a456-426614174000"


@pytest.mark.parametrize(
    ("chain", "text", "terms"),
    [
        ("words|lowercase|ascii", "Crème BRÛLÉE ßx", ["creme", "brulee", "ssx"]),
        ("words|lowercase|stop:english", "The state of the art", ["state", "art"]),
        ("words|lowercase|stop:german|stem:german", "Die Häuser und der Garten", ["haus", "gart"]),
        ("words|lowercase|stem:english", "running timeouts", ["run", "timeout"]),
        ("words|ascii", "Crème", ["Creme"]),
        ("whitespace|lowercase", "A-B  c_D", ["a-b", "c_d"]),
        (
            "entities|lowercase",
            MAIL,
            [
                "mail",
                "bob.x@ex-a.com",
                "see",
                "https://a.b/c?d=1",
                "id",
                "123e4567-e89b-12d3-a456-426614174000",
            ],
        ),
        (
            "code|lowercase",
            "parseRequest snake_case /var/log x12",
            ["parse", "request", "snake", "case", "var", "log", "x", "12"],
        ),
    ],
)
def test_a_chain_makes_terms(chain: str, text: str, terms: list[str]) -> None:
    assert terms_of(text, chain) == terms


@pytest.mark.parametrize(
    ("chain", "fault"),
    [
        ("lowercase|ascii", "starts with words"),
        ("words|lower", "none of lowercase"),
        ("words|stop:klingon", "languages"),
        ("words|ascii|ascii", "twice"),
    ],
)
def test_a_wrong_chain_is_named(tmp_path: Path, chain: str, fault: str) -> None:
    options = {"indexing.typemap.m": "text", "indexing.tokenizer.m": chain}
    with pytest.raises(InvalidInputError, match=fault):
        Table.create(str(tmp_path / "t"), schema=pa.schema([("m", pa.string())]), options=options)


def made(path: Path, chain: str, texts: list[str], kind: str = "text") -> Table:
    rows = pa.table({"id": list(range(len(texts))), "m": texts})
    options = {"indexing.typemap.m": kind, "indexing.tokenizer.m": chain}
    table = Table.create(str(path), schema=rows.schema, options=options)
    table.append(rows)
    return table


def ids(table: Table, query: str) -> list[int]:
    return sorted(table.search(query).column("id").to_pylist())


def test_accents_stems_and_stop_words_are_searched_as_they_are_indexed(tmp_path: Path) -> None:
    texts = ["Crème brûlée of the house", "creme eggs", "The Running man", "he runs off"]
    table = made(tmp_path / "t", "words|lowercase|ascii|stop:english|stem:english", texts)
    assert ids(table, "m:crème") == ids(table, "m:CREME") == [0, 1]
    assert ids(table, "m:run") == [2, 3]
    assert ids(table, 'm:"brûlée of the house"') == [0]
    assert ids(table, "m:crè*") == [0, 1]
    assert ids(table, "m:/br.l.*/") == [0]
    assert (ids(table, "m:egz~1"), ids(table, "m:eggzz~1")) == (
        [1],
        [],
    )  # the index holds the stem "egg"
    snippet = table.search("m:run", snippet="m", limit=2).column("_snippet").to_pylist()
    assert sorted(snippet) == ["The <b>Running</b> man", "he <b>runs</b> off"]
    with pytest.raises(InvalidInputError, match="no word"):
        ids(table, "m:the")


def test_addresses_are_found_whole_and_names_in_code_by_their_parts(tmp_path: Path) -> None:
    table = made(tmp_path / "t", "entities|lowercase", [MAIL, "bob and x"])
    assert ids(table, "m:bob.x@ex-a.com") == [0]
    assert ids(table, "m:bob") == [1]
    assert ids(table, "m:*@ex-a.com") == [0]
    assert ids(table, 'm:"https://a.b/c?d=1"') == [0]
    code = made(tmp_path / "c", "code|lowercase", ["def parseRequest(x)", "snake_case_name"])
    assert (ids(code, "m:request"), ids(code, "m:parseRequest"), ids(code, "m:case_name")) == (
        [0],
        [0],
        [1],
    )


def test_chains_work_in_json_and_name_their_feature(tmp_path: Path) -> None:
    table = made(
        tmp_path / "t", "words|lowercase|ascii", ['{"a": "Café"}', '{"a": "cafe"}'], kind="json"
    )
    assert ids(table, "m.a:café") == ids(table, "m:cafe") == [0, 1]
    assert "analyzerChains" in (table.protocol.reader_features or ())
    table.append(pa.table({"id": [2], "m": ['{"a": "CAFÉ"}']}))
    table.merge()
    assert ids(Table.open(table.path), "m.a:cafe") == [0, 1, 2]


def test_the_terms_of_a_text_are_shown(tmp_path: Path) -> None:
    table = made(tmp_path / "t", "words|lowercase|stop:english", ["x"])
    shown = table.inspect.analyze("m", "The Gateway of X")
    assert shown.to_pylist() == [
        {"term": "gateway", "position": 1, "start": 4, "end": 11},
        {"term": "x", "position": 3, "start": 15, "end": 16},
    ]
    with pytest.raises(InvalidInputError, match="no terms"):
        table.inspect.analyze("id", "5")
    with pytest.raises(InvalidInputError, match=r"no column|There is no"):
        table.inspect.analyze("nothing", "5")


def test_what_stands_for_edge_grams_for_whole_names_and_for_words_without_spaces(
    tmp_path: Path,
) -> None:
    code = made(
        tmp_path / "c",
        "code|lowercase",
        ["call parseRequest(x)", "parse the request", "open /var/log/app"],
    )
    assert (ids(code, "m:parseRequest"), ids(code, "m:req*"), ids(code, 'm:"/var/log"')) == (
        [0],
        [0, 1],
        [2],
    )
    assert ids(code, 'm:"parse requ"*') == [0]
    places = made(tmp_path / "p", "ngram", ["東京都に住んでいます", "京都の大学", "大阪"])
    assert (ids(places, "m:東京都"), ids(places, "m:京都"), ids(places, "m:大")) == (
        [0],
        [0, 1],
        [1, 2],
    )
    assert ids(places, "m:都京") == []

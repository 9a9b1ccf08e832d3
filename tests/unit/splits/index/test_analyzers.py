"""Text becomes terms: every tokenizer, long terms, JSON documents, addresses."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
import tantivy

from indextables.config.indexing import STEMMERS, TOKENIZERS, IndexingSettings
from indextables.splits.index.analyzers import ROW_FIELD, analyze, register, schema_for, terms_of
from indextables.splits.index.mapping import ColumnMapping, DocMapping
from indextables.splits.index.values import (
    MAX_DEPTH,
    index_text,
    index_values,
    leaves,
    parse_address,
    parse_json,
)


@pytest.mark.parametrize(
    ("tokenizer", "terms"),
    [
        ("default", ["running", "to", "café", "42"]),
        ("raw", ["Running-to CAFÉ 42"]),
        ("lowercase_raw", ["running-to café 42"]),
        ("whitespace", ["Running-to", "CAFÉ", "42"]),
        ("en_stem", ["run", "to", "café", "42"]),
    ],
)
def test_tokenizers(tokenizer: str, terms: list[str]) -> None:
    assert terms_of("Running-to CAFÉ 42", tokenizer) == terms


def test_ngrams_are_characters_and_pairs() -> None:
    assert terms_of("東京A", "ngram") == ["東", "東京", "京", "京a", "a"]


@pytest.mark.parametrize("tokenizer", TOKENIZERS)
def test_an_index_knows_every_tokenizer(tokenizer: str) -> None:
    mapping = DocMapping((ColumnMapping("a", "c0", "text", tokenizer, "position"),))
    index = tantivy.Index(schema_for(mapping, row_field=True))
    register(index, mapping.columns)
    writer = index.writer(15_000_000, 1)
    writer.add_json(json.dumps({"c0": "Häuser running", ROW_FIELD: 0}))
    writer.commit()
    index.reload()
    searcher = index.searcher()
    assert all(searcher.doc_freq("c0", term) == 1 for term in terms_of("Häuser running", tokenizer))


def test_stemmers_are_those_of_their_language() -> None:
    assert terms_of("Häuser", "de_stem") == ["haus"]
    assert terms_of("chevaux", "fr_stem") == ["cheval"]
    assert len(STEMMERS) == 18


def test_a_long_term_is_left_out_and_keeps_its_place() -> None:
    text = f"a {'x' * 40} {'y' * 256} b"
    assert [(t.text[:2], t.position) for t in analyze(text, "default", 255)] == [
        ("a", 0),
        ("xx", 1),
        ("b", 3),
    ]
    assert len(analyze(text, "default")) == 4
    assert [(t.start, t.end) for t in analyze("é b", "default")] == [(0, 1), (2, 3)]


@pytest.mark.parametrize(
    ("column", "values", "incomplete"),
    [
        (
            ColumnMapping("a", "c0", "text", "default", "position", 8),
            ["a b", "123456789", "x-" * 20, "é" * 5, None],
            [1, 3],
        ),
        (
            ColumnMapping("a", "c0", "text", "whitespace", "position", 8),
            ["a b", "x-" * 20, "a\tb " * 9],
            [1],
        ),
        (
            ColumnMapping("a", "c0", "string", "raw", "basic", 8),
            ["12345678", "1 3 5 7 9", None],
            [1],
        ),
        (ColumnMapping("a", "c0", "text", "ngram", "position", 8), ["東" * 50], []),
        (
            ColumnMapping("a", "c0", "json", "default", "position", 8),
            ['{"a":["b",{"c":"123456789"}]}', '"x"'],
            [0],
        ),
        (
            ColumnMapping("a", "c0", "ip"),
            ["10.0.0.1", "::1", "10.0.0.256", "fe80::1%eth0", None],
            [2, 3],
        ),
    ],
)
def test_the_positions_of_values_that_the_index_cannot_hold_are_recorded(
    column: ColumnMapping, values: list[str | None], incomplete: list[int]
) -> None:
    found = index_values(column, pa.chunked_array([pa.array(values)]))
    assert found.incomplete.tolist() == incomplete
    assert len(found.texts) == len(values)


def test_text_in_any_layout() -> None:
    column = ColumnMapping("a", "c0", "string", "raw", "basic")
    for kind in (pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())):
        assert index_values(column, pa.array(["a", None, "b"]).cast(kind)).texts.to_pylist() == [
            "a",
            None,
            "b",
        ]


def test_nested_values_are_json_documents() -> None:
    mapping = DocMapping.from_settings(
        pa.schema([("s", pa.struct([("m", pa.map_(pa.string(), pa.int32()))]))]), IndexingSettings()
    )
    array = pa.array(
        [{"m": [("k", 1)]}, {"m": None}, None], pa.struct([("m", pa.map_(pa.string(), pa.int32()))])
    )
    assert index_values(mapping.columns[0], array).texts.to_pylist() == [
        '{"r":{"m":{"k":1}}}',
        None,
        None,
    ]


def test_json_leaves() -> None:
    document = parse_json(
        '{"a":[1.0,{"b":true}],"c.d":null,"e":NaN,"f":1e400,"g":12345678901234567890123}'
    )
    assert list(leaves(document)) == [
        (("a",), 1),
        (("a", "b"), True),
        (("g",), 1.2345678901234568e22),
    ]
    assert list(leaves(parse_json("not json"))) == [((), "not json")]
    deep = "x"
    for _ in range(MAX_DEPTH + 5):
        deep = {"k": deep}  # type: ignore[assignment]
    assert list(leaves(deep)) == []
    assert index_text(deep) is None
    assert (
        index_text({"t": "2024-01-01T00:00:00.5Z", "\x00": "\ud800"})
        == '{"r":{"t":"\\f2024-01-01T00:00:00.5Z","\ufffd":"?"}}'
    )


def test_addresses_of_both_kinds_compare() -> None:
    assert parse_address("10.0.0.1") == parse_address("::ffff:10.0.0.1")
    assert parse_address("010.0.0.1") is None

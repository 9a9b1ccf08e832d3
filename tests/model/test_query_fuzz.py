"""Any text at all: the parser answers with a tree or with `QuerySyntaxError` that points into the
text.
"""

from __future__ import annotations

import pickle

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from indextables.config.indexing import IndexingSettings
from indextables.errors import QuerySyntaxError
from indextables.splits.index.mapping import DocMapping
from indextables.splits.query.fields import QueryFields
from indextables.splits.query.on_rows import scan_mask
from indextables.splits.query.parser import parse
from tests.model import search_oracle as oracle

SETTINGS = IndexingSettings(
    typemap=oracle.TYPEMAP, tokenizer=oracle.TOKENIZER, nonindexed=("plain",)
)
MAPPING = DocMapping.from_settings(oracle.SCHEMA, SETTINGS)
FIELDS = QueryFields(oracle.SCHEMA, MAPPING, ("message", "n"))
NO_ROWS = pa.Table.from_pylist([], schema=oracle.SCHEMA)
ONE_ROW = pa.table({f.name: pa.nulls(1, f.type) for f in oracle.SCHEMA})

PIECES = [
    *[
        "a",
        "foo",
        "AND",
        "OR",
        "NOT",
        "IN",
        "TO",
        "*",
        "?",
        "~",
        "~1",
        "^2",
        "^",
        "+",
        "-",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
    ],
    *[
        '"',
        "'",
        "\\",
        ":",
        " ",
        "  ",
        ".",
        "/",
        "1",
        "2024-01-01",
        "10.0.*.*",
        "10.0.0.0/8",
        "::1",
        ">=",
        "<",
        "é",
        "\x00",
    ],
    *[f"{name}:" for name in oracle.SCHEMA.names],
    *[
        "js.a.b:",
        "js.c\\.d:",
        "nothing:",
        "\ud800",
        "東",
        "\U0001f600",
        "_",
        "1e400",
        "99999999999999999999",
    ],
]


@settings(max_examples=600, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=14).map("".join) | st.text(max_size=40))
def test_a_tree_or_a_syntax_error(text: str) -> None:
    try:
        query = parse(text, FIELDS)
    except QuerySyntaxError as e:
        assert 0 <= e.context["position"] <= len(text)
        assert e.context["fields"] == oracle.SCHEMA.names
        return
    assert parse(str(query), FIELDS) == query
    assert pickle.loads(pickle.dumps(query)) == query
    assert len(scan_mask(query, NO_ROWS, MAPPING)) == 0
    assert len(scan_mask(query, ONE_ROW, MAPPING)) == 1

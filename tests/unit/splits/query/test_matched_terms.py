"""The bound on the terms that a pattern may fit."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from indextables import Table
from indextables.errors import InvalidInputError

SCHEMA = pa.schema([("body", pa.string()), ("code", pa.string()), ("payload", pa.string())])
OPTIONS = {"indexing.typemap.body": "text", "indexing.typemap.payload": "json"}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    table = Table.create(
        str(tmp_path_factory.mktemp("terms") / "t"), schema=SCHEMA, options=OPTIONS
    )
    bodies = [f"word{n} other" for n in range(50)]
    table.append(
        pa.table(
            {
                "body": bodies,
                "code": [f"C-{n}" for n in range(50)],
                "payload": ['{"a": "word7"}'] * 50,
            }
        )
    )
    return table.path


@pytest.mark.parametrize(
    "query", ["body:word*", "body:/word.*/", "body:*1*", 'body:"wor"*', "code:C-*", "code:/C-.*/"]
)
def test_a_pattern_that_fits_too_many_terms_is_refused_by_the_setting_s_name(
    path: str, query: str
) -> None:
    free = Table.open(path).count(query=query)
    assert free > 10
    with pytest.raises(
        InvalidInputError, match=r"fits \d+ terms of .*; query.maxMatchedTerms allows 10"
    ):
        Table.open(path, options={"query.maxMatchedTerms": 10}).count(query=query)
    assert Table.open(path, options={"query.maxMatchedTerms": 50}).count(query=query) == free


@pytest.mark.parametrize(
    "query",
    ["body:word1*", "body:other", 'body:"word1 other"', "code:C-1*", "payload.a:word*", "*"],
)
def test_what_fits_few_terms_is_answered(path: str, query: str) -> None:
    bounded = Table.open(path, options={"query.maxMatchedTerms": 11})
    assert bounded.count(query=query) == Table.open(path).count(query=query) > 0


def test_a_word_anywhere_in_a_json_column_is_found_after_a_rename(tmp_path: Path) -> None:
    table = Table.create(str(tmp_path / "t"), schema=SCHEMA, options=OPTIONS)
    table.append(
        pa.table({"body": ["x"], "code": ["y"], "payload": ['{"deep": {"a": "timeout"}}']})
    )
    assert table.count(query="payload:timeout") == 1
    table.alter.rename_column("body", "text")
    assert table.count(query="payload:timeout") == 1
    table.alter.rename_column("payload", "doc")
    assert table.count(query="doc:timeout") == 1

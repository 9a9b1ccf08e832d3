"""Equality and IN of indexed columns are answered by the index, with the answers of the rows."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from indextables import Table
from indextables.config.indexing import IndexingSettings
from indextables.model.predicate import bound_predicate
from indextables.splits.query.fields import QueryFields
from indextables.splits.query.parser import parse
from indextables.splits.query.to_predicate import predicate_mask
from indextables.splits.search.match import count_rows, find_rows
from tests.unit.splits.plain_split import PlainSplit, make_split

SETTINGS = IndexingSettings(
    typemap={"message": "text", "ip": "ip", "both": "text_and_string", "hashed": "exact_only"},
    tokenizer={"lower": "lowercase_raw"},
)
OPTIONS = {
    "indexing.typemap.message": "text",
    "indexing.typemap.ip": "ip",
    "indexing.typemap.both": "text_and_string",
    "indexing.typemap.hashed": "exact_only",
    "indexing.tokenizer.lower": "lowercase_raw",
}
KEYS = (
    "a",
    "b",
    "A",
    "ä",
    "",
    " a",
    "k" * 300,
    "k" * 255,
    "12",
    "2024-01-01T00:00:00Z",
    "x y",
    "a-b",
)
ADDRESSES = ("10.0.0.1", "::ffff:10.0.0.1", "fe80::1", "FE80::1", "no address", "")
EXACT = (
    *(f"key = '{key}'" for key in KEYS),
    *(
        "key IN ('a', 'b', 'nothing')",
        "key IN ('a', NULL)",
        "key = 'a' OR key = 'b'",
        "key = 'a' AND key = 'b'",
    ),
    "key = 'a' OR (key = 'b' AND key IN ('b', 'A'))",
)
OTHER = (
    *(
        "key = 'a' AND n < 100",
        "key = 'a' OR n < 20",
        "NOT key = 'a'",
        "key != 'a'",
        "NOT (key = 'a' AND n < 100)",
    ),
    *(
        "key IS NULL",
        "key IS NOT NULL",
        "key IS NULL OR key = 'a'",
        "key = 'a' AND key IS NULL",
        "key <=> NULL",
        "key <=> 'a'",
    ),
    *(
        "ip = '10.0.0.1'",
        "ip = 'FE80::1' AND key = 'a'",
        "ip IN ('fe80::1', 'no address')",
        "ip IN ('fe80::1', '10.0.0.1')",
    ),
    *(
        "lower = 'a'",
        "lower = 'A' AND n > 10",
        "lower IN ('a', 'ä')",
        "flag = true AND key = 'a'",
        "flag IS NULL",
    ),
    *(
        "data.a = 'x y'",
        "data.a = 'a' AND key = 'a'",
        "data.a IN ('a', 'A')",
        "data.a = 'a-b'",
        "data.a = ''",
    ),
    *(
        "data.b.c = 'a'",
        "data.b.c = 'x y' OR key = 'a'",
        "data.n = 3",
        "data.a = '12'",
        "data.b.c IS NULL",
    ),
    *(
        "both = 'a'",
        "both = 'x y' AND key = 'a'",
        "both IN ('a', 'A', 'x y')",
        "hashed = 'a'",
        "hashed = 'x y' OR key = 'b'",
    ),
    *("message = 'a b'", "message = 'a'", "key = 'a' AND contains(both, 'x')"),
)


def make_rows(count: int, seed: int) -> pa.Table:
    rng = random.Random(seed)

    def some(values: tuple[str, ...]) -> list[str | None]:
        return [None if rng.random() < 0.1 else rng.choice(values) for _ in range(count)]

    documents = [
        None if rng.random() < 0.1 else {"a": a, "b": {"c": c}, "n": rng.randint(0, 5)}
        for a, c in zip(some(KEYS), some(KEYS), strict=True)
    ]
    flags = [rng.choice((True, False, None)) for _ in range(count)]
    words = [
        None if rng.random() < 0.1 else " ".join(rng.choices("abcx", k=rng.randint(1, 3)))
        for _ in range(count)
    ]
    columns = {
        "n": pa.array(range(count)),
        "key": some(KEYS),
        "ip": some(ADDRESSES),
        "lower": some(KEYS),
        "both": some(KEYS),
        "hashed": some(KEYS),
        "flag": flags,
        "data": documents,
        "message": words,
    }
    return pa.table(columns)


@pytest.fixture(scope="module")
def split(tmp_path_factory: pytest.TempPathFactory) -> PlainSplit:
    return make_split(make_rows(800, 1), SETTINGS, tmp_path_factory.mktemp("conditions") / "index")


def expect(split: PlainSplit, condition: str) -> list[int]:
    bound = bound_predicate(condition, split.schema)
    assert bound is not None
    return np.flatnonzero(predicate_mask(bound, split.table)).tolist()


@pytest.mark.parametrize("condition", [*EXACT, *OTHER])
@pytest.mark.parametrize("query", ["*", "message:a", "message:(a AND NOT b)", "n:[5 TO 300]"])
def test_the_answer_is_that_of_the_rows(split: PlainSplit, condition: str, query: str) -> None:
    parsed = parse(query, QueryFields(split.schema, split.mapping, ("message",)))
    where = bound_predicate(condition, split.schema)
    matching = set(find_rows(split, parsed).tolist())
    wanted = [row for row in expect(split, condition) if row in matching]
    assert find_rows(split, parsed, where=where).tolist() == wanted
    assert count_rows(split, parsed, where=where) == len(wanted)


@pytest.mark.parametrize("condition", EXACT)
def test_no_row_is_read_for_equality(split: PlainSplit, condition: str) -> None:
    where = bound_predicate(condition, split.schema)
    split.columns_read.clear()
    parsed = parse("message:a", QueryFields(split.schema, split.mapping, ("message",)))
    find_rows(split, parsed, where=where)
    is_not_indexed = any(f"'{key}'" in condition for key in ("", "k" * 300))
    assert (split.columns_read != []) == is_not_indexed


@pytest.mark.parametrize("splits", [1, 3])
def test_scans_counts_searches_and_deletes_agree(tmp_path: Path, splits: int) -> None:
    rows = make_rows(300, 2)
    table = Table.create(str(tmp_path / "t"), schema=rows.schema, options=OPTIONS)
    for start in range(0, rows.num_rows, rows.num_rows // splits):
        table.append(rows.slice(start, rows.num_rows // splits))
    reference = make_split(rows, SETTINGS, tmp_path / "reference")
    table.delete(where="n >= 50 AND n < 70")
    gone = set(range(50, 70))
    for condition in (*EXACT, *OTHER):
        wanted = [row for row in expect(reference, condition) if row not in gone]
        assert (
            sorted(table.scan(where=condition, columns=["n"]).read_all()["n"].to_pylist()) == wanted
        ), condition
        assert table.count(where=condition) == len(wanted), condition
        every = table.search("message:a OR message:b", where=condition, columns=["n"], limit=500)
        best = table.search("message:a OR message:b", where=condition, columns=["n"], limit=7)
        # Splits that a condition excludes do not count for the weights of words.
        unfiltered = (
            every
            if splits > 1
            else table.search("message:a OR message:b", columns=["n"], limit=500)
        )
        scores = dict(
            zip(unfiltered["n"].to_pylist(), unfiltered["_score"].to_pylist(), strict=True)
        )
        matching = set(table.search("message:a OR message:b", columns=["n"])["n"].to_pylist())
        assert set(every["n"].to_pylist()) == matching & set(wanted), condition
        found = dict(zip(every["n"].to_pylist(), every["_score"].to_pylist(), strict=True))
        assert all(found[n] == pytest.approx(scores[n], rel=1e-6) for n in found), condition
        assert best["_score"].to_pylist() == pytest.approx(
            every["_score"].to_pylist()[:7], rel=1e-6
        ), condition
    table.delete(where="key = 'a'")
    gone |= set(expect(reference, "key = 'a'"))
    assert table.count() == 300 - len(gone)
    assert table.count(where="key = 'a'") == 0

"""Splits that hold no term of a search are not opened; the answers, scores included, stay the same."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from indextables import Table
from indextables.handle import TableHandle
from indextables.splits.format.term_filter import MAX_TERMS, bit_positions, build_filter, hash_terms
from indextables.splits.search import candidates
from indextables.storage.local import LocalStore
from tests.support.tables import RemoteStore, log_on

OPTIONS = {
    "indexing.typemap.message": "text",
    "indexing.typemap.both": "text_and_string",
    "indexing.typemap.data": "json",
    "write.maxRowsPerSplit": 20,
}
WORDS = [f"word{n}" for n in range(200)]


def make_rows(count: int, seed: int) -> pa.Table:
    rng = random.Random(seed)
    return pa.table(
        {
            "n": pa.array(range(count)),
            "id": [f"id-{n}" for n in range(count)],
            "message": [" ".join(["common", *rng.choices(WORDS, k=4)]) for _ in range(count)],
            "both": [rng.choice(WORDS) + " é" for _ in range(count)],
            "data": [{"a": rng.choice(WORDS)} for _ in range(count)],
        }
    )


QUERIES = (
    *(
        "id:id-123",
        "id:nothing",
        "message:word7",
        "message:(word7 AND word8)",
        "message:(word7 OR word9)",
        "message:word1*",
    ),
    *(
        'message:"common word3"',
        "message:(common AND NOT word7)",
        "id:IN [id-3 id-390 nothing]",
        "both:word5",
        "data.a:word3",
    ),
    *(
        "message:(word1 word2 word3)",
        "message:absent",
        "(id:id-7)^3 OR message:word199",
        "n:[5 TO 25] AND message:word7",
    ),
    *("message:word7~1", "NOT message:common"),
)
CONDITIONS = (
    "id = 'id-77'",
    "id IN ('id-1', 'id-399')",
    "id = 'nothing'",
    "both = 'word5 é'",
    "data.a = 'word3'",
)


def answers(table: Table) -> list[object]:
    found: list[object] = []
    for query in QUERIES:
        best = table.search(query, columns=["n"], limit=1_000)
        pairs = zip(best["n"].to_pylist(), best["_score"].to_pylist(), strict=True)
        found.append({n: pytest.approx(score, rel=1e-6) for n, score in pairs})
        found.append(sorted(table.search(query, columns=["n"])["n"].to_pylist()))
        found.append(
            table.search(query, columns=["n"], order_by="n desc", limit=7)["n"].to_pylist()
        )
        found.append(table.count(query=query))
        page, rows = table.search_page(query, columns=["n"], limit=5), list[int]()
        rows += page.rows["n"].to_pylist()
        found.append(rows)
    for condition in CONDITIONS:
        found.append(sorted(table.scan(where=condition, columns=["n"]).read_all()["n"].to_pylist()))
        found.append(table.count(where=condition))
        found.append(table.count(query="message:word7", where=condition))
    return found


def test_answers_and_scores_are_those_without_filters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = make_rows(400, 1)
    options = {"cache.directoryPath": str(tmp_path / "cache")}
    Table.create(str(tmp_path / "t"), schema=rows.schema, options=OPTIONS).append(rows)
    table = Table.open(str(tmp_path / "t"), options=options)
    for _ in range(2):
        table.delete(where="n >= 100 AND n < 107")
        first = answers(table)
        assert answers(table) == first
        with monkeypatch.context() as without:
            without.setattr(candidates.TermFilters, "add", lambda *_: None)
            other = {"cache.directoryPath": str(tmp_path / f"other-{table.version}")}
            assert answers(Table.open(str(tmp_path / "t"), options=other)) == first
        table.merge()


def test_a_search_opens_only_splits_that_may_hold_its_terms(tmp_path: Path) -> None:
    rows = make_rows(400, 2)
    Table.create(str(tmp_path / "t"), schema=rows.schema, options=OPTIONS).append(rows)
    store = RemoteStore(LocalStore(str(tmp_path / "t")))
    log = log_on(store)
    table = Table(TableHandle(log, log.newest(), {"cache.directoryPath": str(tmp_path / "cache")}))
    assert table.files().num_rows == 20
    table.search("message:common", columns=["n"], limit=10)
    store.reset()
    assert table.search("id:id-123", columns=["n"])["n"].to_pylist() == [123]
    assert table.count(where="id = 'id-245'") == 1
    assert table.count(query="id:id-246") == 1
    assert sum(store.reset().requests.values()) <= 9
    assert table.count(query="id:never") == 0
    assert table.search("id:never OR message:never", columns=["n"], limit=3).num_rows == 0
    assert sum(store.reset().requests.values()) <= 1


def test_changes_and_aggregations_find_the_same_rows(tmp_path: Path) -> None:
    rows = make_rows(400, 4)
    table = Table.create(str(tmp_path / "t"), schema=rows.schema, options=OPTIONS)
    table.append(rows)
    assert table.count(query="message:common") == 400
    expected = rows.filter(pc.match_substring_regex(rows["message"], r"\bword7\b")).num_rows
    counted = table.aggregate({"n": {"value_count": {"field": "n"}}}, query="message:word7")
    assert counted.to_pylist()[0]["n"] == expected
    table.update(set={"message": "'changed'"}, where="id = 'id-33'")
    assert table.search("message:changed", columns=["id"])["id"].to_pylist() == ["id-33"]
    new = rows.slice(0, 2).set_column(1, "id", pa.array(["id-44", "new"]))
    table.upsert(new, on=["id"])
    assert table.count() == 401
    assert table.count(query='id:"id-44"') == table.count(query="id:new") == 1
    table.delete(where="id = 'id-55'")
    assert table.count(where="id IN ('id-55', 'id-56')") == 1


def test_a_filter_has_no_false_negatives_and_few_false_positives() -> None:
    rng = random.Random(3)
    terms = ["", "a", "é", "x" * 255, *(f"{rng.getrandbits(64):x}" for _ in range(5_000))]
    made = build_filter({"c1": terms, "c2": ["only"]})
    bits = np.unpackbits(made.bits, bitorder="little").astype(bool)

    def holds(field: str, some: list[str]) -> list[bool]:
        found = bits[bit_positions(hash_terms(field, some), len(bits))]
        return [bool(row.all()) for row in found]

    assert all(holds("c1", terms))
    assert all(holds("c2", ["only"]))
    absent = [f"{rng.getrandbits(64):x}" for _ in range(20_000)]
    assert sum(holds("c1", absent)) < 0.02 * len(absent)
    assert sum(holds("c2", terms)) < 0.02 * len(terms)
    assert len(made.bits) <= 3 * len(terms)


def test_hashes_are_stored_and_stay_the_same() -> None:
    assert hash_terms("c0", ["", "a", "é", "indextables"]).tolist() == HASHES


def test_a_split_with_many_terms_has_no_filter(tmp_path: Path) -> None:
    count = MAX_TERMS + 10
    table = Table.create(str(tmp_path / "t"), schema=pa.schema([("id", pa.string())]))
    table.append(pa.table({"id": [f"id-{n}" for n in range(count)]}))
    assert table.count(query="id:id-7") == 1
    assert table.count(query="id:never") == 0


HASHES = [111234586975577487, 541888668236006830, 7866451068133332918, 3927923294875150124]

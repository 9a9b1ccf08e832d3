"""Searches by a vector: exact order, filters, versions, hybrid ranking, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import indextables
from indextables import Table
from indextables.errors import BadFileError, InvalidInputError
from indextables.splits.write import writer

WORDS = ["disk", "error", "timeout", "gateway", "user", "login", "slow", "query"]


def frame(count: int, *, kind: Any = np.float32, repeated: bool = True) -> pa.Table:
    """Rows with texts and vectors; every tenth vector is missing, and some occur several times."""
    rng = np.random.default_rng(1)
    vectors = rng.normal(size=(count, 8)).astype(kind)
    if repeated:
        vectors[count // 2 :: 7] = vectors[0]
    texts = [" ".join(rng.choice(WORDS, 4)) for _ in range(count)]
    lists = [None if n % 10 == 9 else vector.tolist() for n, vector in enumerate(vectors)]
    return pa.table(
        {
            "id": pa.array(range(count), pa.int64()),
            "message": texts,
            "embedding": pa.array(lists, pa.list_(pa.from_numpy_dtype(kind))),
        }
    )


def make(path: Path, data: pa.Table, parts: int = 1, metric: str = "cosine") -> Table:
    """A table of as many splits."""
    size = len(data["embedding"].drop_null()[0])
    table = Table.create(
        str(path),
        schema=data.schema,
        text=["message"],
        vector={"embedding": size},
        options={"indexing.vectorMetric.embedding": metric},
    )
    step = -(-data.num_rows // parts)
    for start in range(0, data.num_rows, step):
        table.append(data.slice(start, step))
    return table


def distances(data: pa.Table, vector: np.ndarray, metric: str) -> dict[int, float]:
    """The distance of every row with a vector by numpy."""
    data = data.filter(data["embedding"].is_valid())
    vectors = np.array(data["embedding"].to_pylist(), np.float64)
    target = np.asarray(vector, np.float64)
    if metric == "l2":
        found = np.sqrt(((vectors - target) ** 2).sum(axis=1))
    elif metric == "dot":
        found = -(vectors @ target)
    else:
        lengths = np.linalg.norm(vectors, axis=1) * np.linalg.norm(target)
        found = 1 - np.divide(
            vectors @ target, lengths, out=np.zeros(len(vectors)), where=lengths > 0
        )
    return dict(zip(data["id"].to_pylist(), found.tolist(), strict=True))


def check(rows: pa.Table, data: pa.Table, vector: np.ndarray, metric: str, limit: int) -> None:
    """The rows are the nearest of the data. Rows at equal distances may come in any order."""
    known = distances(data, vector, metric)
    shown = rows["_distance"].to_pylist()
    assert shown == pytest.approx(sorted(known.values())[:limit], abs=1e-6)
    assert shown == pytest.approx([known[number] for number in ids(rows)], abs=1e-6)
    assert shown == sorted(shown) and len(set(ids(rows))) == len(shown)


def ids(rows: pa.Table) -> list[int]:
    found: list[int] = rows["id"].to_pylist()
    return found


@pytest.mark.parametrize("metric", ["cosine", "l2", "dot"])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_the_nearest_rows_are_those_of_numpy(tmp_path: Path, metric: str, kind: Any) -> None:
    data = frame(2000, kind=kind)
    table = make(tmp_path / "t", data, parts=3, metric=metric)
    rng = np.random.default_rng(5)
    for _ in range(20):
        vector = rng.normal(size=8)
        rows = table.search(vector={"embedding": vector}, limit=15, columns=["id"])
        check(rows, data, vector, metric, 15)


def test_one_split_and_many_give_the_same_order(tmp_path: Path) -> None:
    data = frame(400, repeated=False)
    one, many = make(tmp_path / "one", data), make(tmp_path / "many", data, parts=40)
    for seed in range(10):
        vector = {"embedding": np.random.default_rng(seed).normal(size=8)}
        in_one = one.search(vector=vector, limit=50, columns=["id"])
        assert many.search(vector=vector, limit=50, columns=["id"]).equals(in_one)


def test_conditions_queries_and_deleted_rows_are_applied_first(tmp_path: Path) -> None:
    data = frame(600)
    table = make(tmp_path / "t", data, parts=4)
    vector = np.ones(8)
    before = table.version
    table.delete(where="id < 200")
    kept = data.filter(pc.greater_equal(data["id"], 200))
    nearest: dict[str, Any] = {"vector": {"embedding": vector}, "limit": 9, "columns": ["id"]}
    check(table.search(**nearest), kept, vector, "cosine", 9)
    with_word = kept.filter(pc.match_substring(kept["message"], "disk"))
    check(table.search("message:disk", **nearest), with_word, vector, "cosine", 9)
    few = kept.filter(pc.greater_equal(kept["id"], 595))
    found = table.search(where="id >= 595", **nearest)
    check(found, few, vector, "cosine", 9)
    assert found.num_rows == 4  # one of the five rows has no vector
    old = Table.open(str(tmp_path / "t"), version=before)
    check(old.search(**nearest), data, vector, "cosine", 9)
    table.merge()
    check(table.search(**nearest), kept, vector, "cosine", 9)


def test_offset_continues_the_order(tmp_path: Path) -> None:
    table = make(tmp_path / "t", frame(300), parts=3)
    whole = table.search(vector={"embedding": np.ones(8)}, limit=30, columns=["id"])
    rest = table.search(vector={"embedding": np.ones(8)}, limit=20, offset=10, columns=["id"])
    assert ids(rest) == ids(whole)[10:]


@pytest.mark.parametrize("parts", [1, 5])
def test_hybrid_search_combines_reciprocal_ranks(tmp_path: Path, parts: int) -> None:
    data = frame(500)
    table = make(tmp_path / "t", data, parts=parts)
    vector = np.ones(8)
    found = table.search(
        "disk timeout", vector={"embedding": vector}, hybrid="rrf", limit=10, columns=["id"]
    )
    words = ids(table.search("disk timeout", limit=100, columns=["id"]))
    near = ids(table.search(vector={"embedding": vector}, limit=100, columns=["id"]))
    scores: dict[int, float] = {}
    for ranking in (words, near):
        for rank, number in enumerate(ranking, 1):
            scores[number] = scores.get(number, 0) + 1 / (60 + rank)
    best = sorted(scores.values(), reverse=True)[:10]
    assert found["_score"].to_pylist() == pytest.approx(best, rel=1e-6)
    assert [scores[i] for i in ids(found)] == pytest.approx(best, rel=1e-6)
    again = table.search(
        "disk timeout", vector={"embedding": vector}, hybrid="rrf", limit=10, columns=["id"]
    )
    assert again.equals(found)


def test_hybrid_weights_of_one_ranking_give_its_order(tmp_path: Path) -> None:
    table = make(tmp_path / "t", frame(500), parts=5)
    vector = {"embedding": np.ones(8)}
    by_vector = table.search(
        "disk", vector=vector, hybrid={"weights": {"vector": 1}}, limit=10, columns=["id"]
    )
    near = table.search(vector=vector, limit=10, columns=["id"])
    assert set(ids(by_vector)) == set(ids(near))
    snippet = table.search(
        "disk", vector=vector, hybrid="rrf", limit=3, columns=["id"], snippet="message"
    )
    assert "<b>disk</b>" in "".join(snippet["_snippet"].to_pylist())


def test_write_table_measures_the_first_vector(tmp_path: Path) -> None:
    rows = [{"id": 1, "v": [1.0, 0.0]}, {"id": 2, "v": [0.0, 1.0]}, {"id": 3, "v": None}]
    table = indextables.write_table(str(tmp_path / "t"), rows, vector=["v"])
    assert ids(table.search(vector={"v": [0.1, 0.9]}, limit=5, columns=["id"])) == [2, 1]
    indextables.write_table(str(tmp_path / "t"), rows, vector=["v"])
    with pytest.raises(InvalidInputError, match="holds vectors of 2"):
        indextables.write_table(str(tmp_path / "t"), rows, vector={"v": 3})


def test_lists_of_fixed_size_name_their_dimension(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64()), ("v", pa.list_(pa.float32(), 3))])
    table = Table.create(str(tmp_path / "t"), schema=schema, vector=["v"])
    table.append([{"id": 1, "v": [1.0, 2.0, 3.0]}])
    assert table.search(vector={"v": [1, 2, 3]}, limit=1)["_distance"].to_pylist() == [
        pytest.approx(0, abs=1e-6)
    ]


def test_updates_and_upserts_change_vectors(tmp_path: Path) -> None:
    rows = [{"id": n, "v": [float(n), 1.0]} for n in range(1, 5)]
    table = indextables.write_table(str(tmp_path / "t"), rows, vector=["v"])
    table.upsert([{"id": 1, "v": [0.0, -1.0]}, {"id": 9, "v": [0.1, -1.0]}], on="id")
    found = table.search(vector={"v": [0.0, -1.0]}, limit=2, columns=["id"])
    assert ids(found) == [1, 9]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([1.0], "row 1 in column 'v' has 1 numbers"),
        ([1.0, float("nan")], "row 1 in column 'v' contains nan"),
        ([1.0, float("inf")], "row 1 in column 'v' contains inf"),
        ([1.0, None], "row 1 in column 'v' contains null"),
    ],
)
def test_wrong_vectors_are_refused_with_their_row(
    tmp_path: Path, value: list[float | None], message: str
) -> None:
    table = indextables.write_table(str(tmp_path / "t"), [{"v": [1.0, 2.0]}], vector=["v"])
    for write in (table.append, table.overwrite):
        with pytest.raises(InvalidInputError, match=message):
            write([{"v": None}, {"v": value}])
    assert table.refresh().version == table.version


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"vector": {"v": [1.0]}, "limit": 1}, "holds vectors of 2 numbers"),
        ({"vector": {"v": [0.0, 0.0]}, "limit": 1}, "no direction"),
        ({"vector": {"v": [1.0, float("nan")]}, "limit": 1}, "NaN or infinity"),
        ({"vector": {"v": "ab"}, "limit": 1}, "list of numbers"),
        ({"vector": {"id": [1.0, 2.0]}, "limit": 1}, "not a column of vectors"),
        ({"vector": {"w": [1.0, 2.0]}, "limit": 1}, "not a column of vectors"),
        ({"vector": [1.0, 2.0], "limit": 1}, "one column and its vector"),
        ({"vector": {"v": [1.0, 2.0]}}, "needs a limit"),
        ({"vector": {"v": [1.0, 2.0]}, "limit": 1, "order_by": "id"}, "takes no order_by"),
        ({"vector": {"v": [1.0, 2.0]}, "limit": 1, "score": True}, "takes no score"),
        ({"vector": {"v": [1.0, 2.0]}, "limit": 1, "hybrid": "rrf"}, "a query and a vector"),
        ({"query": "id:1", "limit": 1, "hybrid": "rrf"}, "hybrid needs a vector"),
        (
            {"query": "id:1", "vector": {"v": [1.0, 2.0]}, "limit": 1, "hybrid": "max"},
            "hybrid cannot be 'max'",
        ),
        (
            {"query": "id:1", "vector": {"v": [1, 2]}, "limit": 1, "hybrid": {"weights": {"x": 1}}},
            "hybrid cannot be",
        ),
        ({"limit": 1}, "a query or a vector"),
        ({"query": "id:1", "vector": {"v": [1, 2]}, "limit": 1, "search_after": "x"}, "no vector"),
    ],
)
def test_wrong_requests_name_the_argument(
    tmp_path: Path, arguments: dict[str, Any], message: str
) -> None:
    table = indextables.write_table(str(tmp_path / "t"), [{"id": 1, "v": [1.0, 2.0]}], vector=["v"])
    with pytest.raises(InvalidInputError, match=message):
        table.search(**arguments)


@pytest.mark.parametrize(
    ("vector", "message"),
    [
        (["v"], "without the number of components"),
        ({"v": 0}, "without the number of components"),
        ({"id": 3}, "needs a list of"),
        ({"nothing": 3}, "not a column"),
    ],
)
def test_wrong_declarations_name_the_column(tmp_path: Path, vector: Any, message: str) -> None:
    schema = pa.schema([("id", pa.int64()), ("v", pa.list_(pa.float32()))])
    with pytest.raises(InvalidInputError, match=message):
        Table.create(str(tmp_path / "t"), schema=schema, vector=vector)
    assert not (tmp_path / "t").exists()


def test_the_dimension_of_a_table_cannot_change(tmp_path: Path) -> None:
    indextables.write_table(str(tmp_path / "t"), [{"v": [1.0, 2.0]}], vector=["v"])
    other = Table.open(str(tmp_path / "t"), options={"indexing.vectorDimension.v": "3"})
    with pytest.raises(InvalidInputError, match="vectors of 2 numbers"):
        other.append([{"v": [1.0, 2.0, 3.0]}])


def test_vectors_of_a_writer_that_does_not_check_them_are_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [{"v": [1.0, 2.0]}, {"v": [3.0, 4.0]}]
    table = indextables.write_table(str(tmp_path / "t"), rows, vector=["v"])
    with monkeypatch.context() as patched:
        patched.setattr(writer, "check_vectors", lambda *_, **__: None)
        table.append([{"v": [1.0]}, {"v": [1.0, 2.0, 3.0]}])
    with pytest.raises(BadFileError, match=r"vector of [13] numbers in a column of vectors of 2"):
        table.search(vector={"v": [1.0, 2.0]}, limit=9)

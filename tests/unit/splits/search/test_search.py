"""Search: scores that compare across splits, the best k, order by a column, snippets."""

from __future__ import annotations

import math
import pickle
import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from indextables.config.indexing import IndexingSettings
from indextables.errors import InvalidInputError
from indextables.model.predicate import bind
from indextables.model.predicate import parse as where
from indextables.splits.query.fields import QueryFields
from indextables.splits.query.parser import parse
from indextables.splits.search.match import find_rows
from indextables.splits.search.order import OrderBy
from indextables.splits.search.scores import term_statistics, total, weight
from indextables.splits.search.search import SearchRequest, merge_results, search_split
from indextables.splits.search.snippets import Snippet
from tests.support.splits import log_rows
from tests.unit.splits.plain_split import PlainSplit, make_split

SETTINGS = IndexingSettings(typemap={"message": "text", "cjk": "text"}, tokenizer={"cjk": "ngram"})


def with_cjk(table: pa.Table) -> pa.Table:
    return table.append_column("cjk", pa.array(["東京都に住む"] * table.num_rows))


@pytest.fixture(scope="module")
def splits(tmp_path_factory: pytest.TempPathFactory) -> list[PlainSplit]:
    """Three splits of different sizes, and one that holds all their rows."""
    folder = tmp_path_factory.mktemp("splits")
    tables = [with_cjk(log_rows(count, seed=count)) for count in (400, 50, 7)]
    tables.append(pa.concat_tables(tables))
    return [make_split(table, SETTINGS, folder / str(n)) for n, table in enumerate(tables)]


def search(splits: list[PlainSplit], query: str, **options: object) -> pa.Table:
    schema = splits[0].schema
    fields = QueryFields(schema, splits[0].mapping, ("message",))
    condition = bind(where(str(options.pop("where"))), schema) if "where" in options else None
    request = SearchRequest(parse(query, fields), ("message", "latency"), condition, **options)  # type: ignore[arg-type]
    request.check(schema)
    statistics = pickle.loads(
        pickle.dumps(total(term_statistics(split, request.query) for split in splits))
    )
    request = pickle.loads(pickle.dumps(request))
    return merge_results(
        [search_split(split, request, statistics) for split in splits], request, schema
    )


QUERIES = [
    "timeout disk",
    '"disk full"',
    "timeout^3 level:ERROR",
    "timeout AND latency:>20",
    "(timeout AND latency:>20) OR host:host-03^2 OR retry",
    '"timeout disk full"~3 cache',
    "latency:>20",
    "-timeout",
    "tim* OR disk~1 OR level:IN [WARN ERROR]",
]


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("condition", [{}, {"where": "latency > 10"}])
def test_scores_do_not_depend_on_how_rows_are_split(
    splits: list[PlainSplit], query: str, condition: dict[str, str]
) -> None:
    # The generated messages all have seven words, so that the average length is the same
    # everywhere.
    apart, together = (
        search(some, query, limit=1000, **condition) for some in (splits[:3], splits[3:])
    )
    assert apart.num_rows == together.num_rows
    scores = apart["_score"].to_numpy(), together["_score"].to_numpy()
    assert np.allclose(*scores, rtol=1e-4)
    assert (np.diff(scores[0]) <= 0).all()
    best = search(splits[:3], query, limit=5, offset=2, **condition)
    assert best["_score"].to_pylist() == apart["_score"].to_pylist()[2:7]
    everything = search(splits[:3], query, score=True, **condition)
    assert np.allclose(np.sort(everything["_score"].to_numpy()), np.sort(scores[0]), rtol=1e-4)


def test_the_weight_of_a_keyword_is_its_rarity_in_the_table(splits: list[PlainSplit]) -> None:
    levels = splits[3].table["level"].to_pylist()
    found = search(splits[:3], "level:ERROR", limit=3)["_score"].to_pylist()
    assert found == pytest.approx([weight(levels.count("ERROR"), len(levels))] * 3)
    assert weight(3, 10) == pytest.approx(math.log(1 + 7.5 / 3.5))


def test_a_part_counts_only_where_it_matches(splits: list[PlainSplit]) -> None:
    found = search(splits[3:], "(timeout AND latency:>20) OR level:ERROR", score=True)
    plain = search(splits[3:], "level:ERROR", limit=1)["_score"][0].as_py()
    slow = [r["latency"] > 20 and "timeout" in r["message"] for r in found.to_pylist()]
    for row, both in zip(found.to_pylist(), slow, strict=True):
        if not both:
            assert row["_score"] == pytest.approx(plain)


def test_best_rows_after_many_better_ones_were_filtered_out(tmp_path: Path) -> None:
    texts = ["word word word"] * 3000 + ["word other other other"] * 5
    table = pa.table({"message": texts, "n": range(3005)})
    split = make_split(table, IndexingSettings(typemap={"message": "text"}), tmp_path / "index")
    fields = QueryFields(table.schema, split.mapping)
    request = SearchRequest(parse("word AND n:>=3000", fields), ("n",), limit=4)
    found = merge_results([search_split(split, request)], request, table.schema)
    assert found["n"].to_pylist() == [3000, 3001, 3002, 3003]


def test_every_match_without_a_limit_in_row_order(splits: list[PlainSplit]) -> None:
    found = search(splits[:3], "timeout")
    assert found.column_names == ["message", "latency"]
    assert found["message"].to_pylist() == [
        m for m in splits[3].table["message"].to_pylist() if "timeout" in m.split()
    ]


def test_order_by_a_column(splits: list[PlainSplit]) -> None:
    slowest = search(splits[:3], "timeout", limit=5, order_by=OrderBy("latency", True))
    matched = [
        r["latency"] for r in splits[3].table.to_pylist() if "timeout" in r["message"].split()
    ]
    assert slowest["latency"].to_pylist() == sorted(matched, reverse=True)[:5]
    assert slowest.column_names == ["message", "latency"]
    everything = search(splits[:3], "timeout", order_by=OrderBy("latency"), score=True)
    assert everything["latency"].to_pylist() == sorted(matched)
    assert search(splits[:3], "timeout", limit=0).num_rows == 0


def test_a_column_may_be_called_order(tmp_path: Path) -> None:
    table = pa.table({"_order": [3, 1, 2], "n": [1, 3, 2]})
    split = make_split(table, IndexingSettings(), tmp_path / "index")
    request = SearchRequest(
        parse("*", QueryFields(table.schema, split.mapping)), ("_order", "n"), order_by=OrderBy("n")
    )
    assert merge_results([search_split(split, request)], request, table.schema)[
        "_order"
    ].to_pylist() == [3, 2, 1]


def test_order_puts_nulls_last_and_nan_above_numbers(tmp_path: Path) -> None:
    table = pa.table({"f": [1.0, None, math.nan, -2.0, math.inf], "n": range(5)})
    split = make_split(table, IndexingSettings(), tmp_path / "index")
    for order, expected in ((OrderBy("f"), [3, 0, 4, 2, 1]), (OrderBy("f", True), [2, 4, 0, 3, 1])):
        request = SearchRequest(
            parse("*", QueryFields(table.schema, split.mapping)), ("n",), order_by=order
        )
        assert (
            merge_results([search_split(split, request)], request, table.schema)["n"].to_pylist()
            == expected
        )


def test_order_by_is_read_from_text() -> None:
    assert OrderBy.parse("ts", ["ts"]) == OrderBy("ts")
    assert OrderBy.parse("ts DESC", ["ts"]) == OrderBy("ts", True)
    assert OrderBy.parse("a desc", ["a desc"]) == OrderBy("a desc")
    with pytest.raises(InvalidInputError, match="ordered by 'x down'"):
        OrderBy.parse("x down", ["x"])


def test_what_makes_no_sense_is_refused(splits: list[PlainSplit]) -> None:
    for options, message in (
        ({"limit": -1}, "limit of -1"),
        ({"offset": -1}, "offset -1"),
        ({"snippet": Snippet("latency")}, "no text column 'latency'"),
        ({"snippet": Snippet("message", max_chars=0)}, "0 characters"),
        ({"order_by": OrderBy("nothing")}, "no column 'nothing'"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            search(splits[:1], "timeout", **options)


def test_an_unknown_column_is_named(splits: list[PlainSplit]) -> None:
    query = parse("*", QueryFields(splits[0].schema, splits[0].mapping))
    with pytest.raises(InvalidInputError, match="no column 'x'"):
        SearchRequest(query, ("x", "ts")).check(splits[0].schema)


def test_no_split_gives_an_empty_table_of_the_right_columns(splits: list[PlainSplit]) -> None:
    request = SearchRequest(
        parse("*", QueryFields(splits[0].schema, splits[0].mapping)),
        ("ts",),
        limit=1,
        snippet=Snippet("message"),
    )
    found = merge_results([], request, splits[0].schema)
    assert found.schema == pa.schema(
        [("ts", pa.timestamp("us", "UTC")), ("_score", pa.float32()), ("_snippet", pa.string())]
    )


@pytest.mark.parametrize(
    ("query", "text", "shown"),
    [
        ("running", "He runs & was running", "He <b>runs</b> &amp; was <b>running</b>"),
        ('"disk full"', "the Disk, full", "the <b>Disk</b>, <b>full</b>"),
        ("tim*", "Timeouts <here>", "<b>Timeouts</b> &lt;here&gt;"),
        ("dsik~1", "a disk", "a <b>disk</b>"),
        ("full -disk", "disk full", "disk <b>full</b>"),
        ("level:x", "disk full", "disk full"),
        ("cjk:京都", "東京都", "東京都"),
        ('"disk fu"*', "disk full", "<b>disk</b> <b>full</b>"),
        ("disk", None, None),
    ],
)
def test_snippets_mark_what_was_found(
    query: str, text: str | None, shown: str | None, tmp_path: Path
) -> None:
    table = pa.table({"message": pa.array([text], pa.string()), "level": ["x"], "cjk": ["東京都"]})
    settings = IndexingSettings(
        typemap=SETTINGS.typemap, tokenizer={"message": "en_stem", "cjk": "ngram"}
    )
    split = make_split(table, settings, tmp_path / "index")
    fields = QueryFields(table.schema, split.mapping, ("message",))
    request = SearchRequest(parse(f"({query}) OR *", fields), (), snippet=Snippet("message"))
    assert search_split(split, request)["_snippet"].to_pylist() == [shown]
    request = SearchRequest(
        parse("cjk:京都", fields), (), snippet=Snippet("cjk", before="[", after="]")
    )
    assert search_split(split, request)["_snippet"].to_pylist() == ["東[京都]"]


def test_a_snippet_is_the_best_stretch_of_a_long_text(tmp_path: Path) -> None:
    rng = random.Random(1)
    filler = " ".join(rng.choice(["lorem", "ipsum", "dolor"]) for _ in range(100))
    table = pa.table({"message": [f"disk {filler} disk is full {filler}"]})
    split = make_split(table, IndexingSettings(typemap={"message": "text"}), tmp_path / "index")
    query = parse("disk full", QueryFields(table.schema, split.mapping))
    request = SearchRequest(query, (), snippet=Snippet("message", max_chars=30))
    (shown,) = search_split(split, request)["_snippet"].to_pylist()
    assert shown.startswith("<b>disk</b> is <b>full</b> ")
    assert len(shown.replace("<b>", "").replace("</b>", "")) == 30


@pytest.mark.parametrize("query", QUERIES)
def test_a_split_without_an_index_is_scanned_and_scored(
    splits: list[PlainSplit], query: str
) -> None:
    split = splits[1]
    bare = PlainSplit(split.table, split.mapping, split.folder, {}, indexed=False)
    tree = parse(query, QueryFields(split.schema, split.mapping, ("message",)))
    assert term_statistics(bare, tree) == term_statistics(split, tree)
    assert find_rows(bare, tree).tolist() == find_rows(split, tree).tolist()
    with_index, without = (
        search([one], query, limit=1000).sort_by("message") for one in (split, bare)
    )
    assert with_index["message"] == without["message"]
    # Every generated text is of average length, which is what a scan takes for granted; phrases
    # count words instead.
    if '"' not in query:
        assert np.allclose(with_index["_score"].to_numpy(), without["_score"].to_numpy(), rtol=1e-3)
    assert (without["_score"].to_numpy() > 0).tolist() == (
        with_index["_score"].to_numpy() > 0
    ).tolist()

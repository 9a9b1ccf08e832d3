"""What the dialect of Elasticsearch accepts has its effect, and what it does not is refused by its
name.
"""

from __future__ import annotations

import datetime as dt
import math
import statistics
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from indextables import Table
from indextables.errors import InvalidInputError
from indextables.web.elastic import ElasticSearch
from tests.support.elastic_tables import SCHEMA

START = dt.datetime(2026, 11, 1, tzinfo=dt.UTC)
MESSAGES = (
    "memory leak found",
    "disk full",
    "memory full",
    "user login",
    "None of it",
    "e@mail <b> of ada",
)
COUNT = 24


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Table:
    made = Table.create(
        str(tmp_path_factory.mktemp("t") / "t"),
        schema=SCHEMA,
        options={"indexing.typemap.message": "text"},
    )
    rows = [
        {
            "id": n,
            "ts": START + dt.timedelta(hours=n),
            "day": (START + dt.timedelta(hours=n)).date(),
            "level": ("INFO", "WARN", "ERROR")[n % 3],
            "ms": float(n),
            "tags": ["a", "b"][: n % 3],
            "message": MESSAGES[n % len(MESSAGES)],
        }
        for n in range(COUNT)
    ]
    made.append(rows[:10])
    made.append(rows[10:])
    return made


@pytest.fixture(scope="module")
def es(table: Table) -> ElasticSearch:
    return ElasticSearch(table, "t")


def count(es: ElasticSearch, query: dict[str, Any]) -> int:
    return es.count({"query": query})


def found_ids(es: ElasticSearch, query: dict[str, Any]) -> list[int]:
    answer = es.search({"query": query, "size": 100, "sort": ["id"]})
    return [hit["_source"]["id"] for hit in answer["hits"]["hits"]]


def one(es: ElasticSearch, kind: str, **settings: Any) -> Any:
    return es.search({"size": 0, "aggs": {"x": {kind: settings}}})["aggregations"]["x"]


@pytest.mark.parametrize("minimum", [0, "0", "0%", "30%", "49%", -2, "-100%", 1, "50%", None])
def test_of_should_alone_at_least_one_clause_must_match(es: ElasticSearch, minimum: Any) -> None:
    should = [{"match": {"message": "disk"}}, {"match": {"message": "login"}}]
    assert count(es, {"bool": {"should": should, "minimum_should_match": minimum}}) == 8
    needed = {
        "bool": {"filter": [{"match_all": {}}], "should": should, "minimum_should_match": minimum}
    }
    assert count(es, needed) == (8 if minimum in (1, "50%") else COUNT)
    refused = {
        "bool": {
            "must_not": [{"term": {"level": "WARN"}}],
            "should": should,
            "minimum_should_match": minimum,
        }
    }
    assert count(es, refused) == 4


def test_more_clauses_than_there_are_match_nothing(es: ElasticSearch) -> None:
    should = [{"match": {"message": "disk"}}, {"match": {"message": "full"}}]
    assert count(es, {"bool": {"should": should, "minimum_should_match": 3}}) == 0
    assert count(es, {"bool": {"should": should, "minimum_should_match": "100%"}}) == 4


@pytest.mark.parametrize("value", [None, [], ["disk"], {}])
@pytest.mark.parametrize(
    ("kind", "key"),
    [
        *((kind, "query") for kind in ("match", "match_phrase", "match_phrase_prefix")),
        *((kind, "value") for kind in ("term", "prefix", "wildcard", "regexp", "fuzzy")),
    ],
)
def test_a_leaf_without_a_value_is_refused(
    es: ElasticSearch, kind: str, key: str, value: Any
) -> None:
    bodies = [
        {kind: {"message": {key: value}}},
        *([] if value == {} else [{kind: {"message": value}}]),
    ]
    for body in bodies:
        with pytest.raises(InvalidInputError, match=r"needs a value, not"):
            count(es, body)


@pytest.mark.parametrize(
    "query",
    [
        {"terms": {"level": ["INFO", None]}},
        {"terms": {"level": [["INFO"]]}},
        {"range": {"id": {"gte": [1]}}},
        {"query_string": {"query": None}},
        {"query_string": {"query": ["disk"]}},
        {"simple_query_string": {"query": None}},
        {"multi_match": {"query": None, "fields": ["message"]}},
    ],
)
def test_a_value_that_is_none_is_refused_wherever_it_is(
    es: ElasticSearch, query: dict[str, Any]
) -> None:
    with pytest.raises(InvalidInputError, match=r"needs a value, not|of a range needs"):
        count(es, query)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("memroy~1", 8),
        ("memroy~", 8),
        ("memry~2", 8),
        ("memory~0", 8),
        ("memroy~0", 0),
        ("memroy", 0),
        ("memroy~1 + leak", 4),
        ("-memroy~1", 16),
        ("mem*", 8),
        ('"memory full"', 4),
    ],
)
def test_a_word_within_some_edits_in_a_simple_query_string(
    es: ElasticSearch, query: str, expected: int
) -> None:
    assert count(es, {"simple_query_string": {"query": query, "fields": ["message"]}}) == expected


def test_extended_stats_have_all_their_numbers(es: ElasticSearch) -> None:
    values = [float(n) for n in range(COUNT)]
    found = one(es, "extended_stats", field="ms")
    plain = {"count": COUNT, "min": 0.0, "max": 23.0, "avg": 11.5, "sum": sum(values)}
    assert {key: found[key] for key in plain} == plain
    assert found["sum_of_squares"] == sum(v * v for v in values)
    assert (
        found["variance"]
        == found["variance_population"]
        == pytest.approx(statistics.pvariance(values))
    )
    assert found["variance_sampling"] == pytest.approx(statistics.variance(values))
    assert (
        found["std_deviation"]
        == found["std_deviation_population"]
        == pytest.approx(statistics.pstdev(values))
    )
    assert found["std_deviation_sampling"] == pytest.approx(statistics.stdev(values))
    bounds = found["std_deviation_bounds"]
    assert (
        bounds["upper"]
        == bounds["upper_population"]
        == pytest.approx(11.5 + 2 * statistics.pstdev(values))
    )
    assert bounds["lower_sampling"] == pytest.approx(11.5 - 2 * statistics.stdev(values))
    empty = es.search(
        {"query": {"match_none": {}}, "size": 0, "aggs": {"x": {"extended_stats": {"field": "ms"}}}}
    )
    found = empty["aggregations"]["x"]
    assert (
        found["count"],
        found["avg"],
        found["variance"],
        found["std_deviation_bounds"]["upper"],
    ) == (
        0,
        None,
        None,
        None,
    )


def test_percentiles_are_keyed_or_listed(es: ElasticSearch) -> None:
    assert one(es, "percentiles", field="ms", percents=[50, 95.5])["values"] == {
        "50.0": 11.5,
        "95.5": 21.965,
    }
    listed = one(es, "percentiles", field="ms", percents=[50, 95.5], keyed=False)["values"]
    assert listed == [{"key": 50.0, "value": 11.5}, {"key": 95.5, "value": 21.965}]


def test_buckets_are_listed_or_keyed(es: ElasticSearch) -> None:
    spans = [{"to": 10}, {"from": 10, "to": 20, "key": "some"}, {"from": 20}]
    listed = one(es, "range", field="ms", ranges=spans)["buckets"]
    keyed = one(es, "range", field="ms", ranges=spans, keyed=True)["buckets"]
    assert keyed == {bucket["key"]: bucket for bucket in listed} and set(keyed) == {
        "*-10",
        "some",
        "20-*",
    }
    bars = one(es, "histogram", field="ms", interval=10, keyed=True)["buckets"]
    assert {key: bucket["doc_count"] for key, bucket in bars.items()} == {
        "0.0": 10,
        "10.0": 10,
        "20.0": 4,
    }
    days = one(
        es, "date_histogram", field="ts", calendar_interval="day", keyed=True, format="yyyy-MM-dd"
    )["buckets"]
    assert days["2026-11-01"]["doc_count"] == COUNT


def test_ranges_show_their_bounds_in_order_and_may_share_a_key(es: ElasticSearch) -> None:
    spans = [{"from": 20, "key": "same"}, {"to": 10, "key": "same"}, {"from": 10, "to": 20}]
    buckets = one(es, "range", field="ms", ranges=spans)["buckets"]
    assert buckets == [
        {"key": "same", "to": 10, "doc_count": 10},
        {"key": "10-20", "from": 10, "to": 20, "doc_count": 10},
        {"key": "same", "from": 20, "doc_count": 4},
    ]


def test_meta_comes_back_with_its_aggregation(es: ElasticSearch) -> None:
    aggs = {
        "levels": {
            "terms": {"field": "level"},
            "meta": {"color": "red"},
            "aggs": {"m": {"max": {"field": "ms"}, "meta": {"unit": "ms"}}},
        }
    }
    found = es.search({"size": 0, "aggs": aggs})["aggregations"]["levels"]
    assert found["meta"] == {"color": "red"}
    assert all(bucket["m"]["meta"] == {"unit": "ms"} for bucket in found["buckets"])


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("epoch_millis", "1793491200000"),
        ("epoch_second", "1793491200"),
        ("yyyy-MM-dd", "2026-11-01"),
        ("dd/MM/yyyy HH:mm:ss.SSS", "01/11/2026 00:00:00.000"),
        ("yyyy-MM-dd'T'HH:mm:ssXXX", "2026-11-01T00:00:00Z"),
        ("strict_date_optional_time", "2026-11-01T00:00:00Z"),
        ("yyyy||epoch_millis", "2026"),
    ],
)
def test_times_of_buckets_and_metrics_have_the_format_that_is_asked_for(
    es: ElasticSearch, pattern: str, text: str
) -> None:
    bars = one(es, "date_histogram", field="ts", fixed_interval="1d", format=pattern)["buckets"]
    assert bars[0]["key_as_string"] == text and bars[0]["key"] == 1793491200000
    assert one(es, "min", field="ts", format=pattern)["value_as_string"] == text
    assert (
        one(es, "terms", field="ts", size=1, order={"_key": "asc"}, format=pattern)["buckets"][0][
            "key_as_string"
        ]
        == text
    )
    body = {
        "size": 1,
        "sort": ["id"],
        "fields": [{"field": "ts", "format": pattern}],
        "_source": False,
    }
    assert es.search(body)["hits"]["hits"][0]["fields"] == {"ts": [text]}
    body = {"size": 1, "sort": ["id"], "docvalue_fields": [{"field": "ts", "format": pattern}]}
    assert es.search(body)["hits"]["hits"][0]["fields"] == {"ts": [text]}


@pytest.mark.parametrize(
    "bounds",
    [
        {"min": "2026-10-31T20:00:00Z", "max": "2026-11-02T02:00:00Z"},
        {"min": "2026-10-31 20:00", "max": "2026-11-02 02:00"},
        {"min": 1793476800000, "max": 1793584800000},
        {"min": "1793476800000", "max": "1793584800000"},
    ],
)
@pytest.mark.parametrize(
    "interval", [{"fixed_interval": "1h"}, {"calendar_interval": "hour"}, {"interval": "1h"}]
)
def test_a_date_histogram_reaches_its_extended_bounds(
    es: ElasticSearch, bounds: Any, interval: Any
) -> None:
    buckets = one(
        es, "date_histogram", field="ts", extended_bounds=bounds, min_doc_count=0, **interval
    )["buckets"]
    assert buckets[0]["key_as_string"] == "2026-10-31T20:00:00Z"
    assert buckets[-1]["key_as_string"] == "2026-11-02T02:00:00Z"
    assert [bucket["doc_count"] for bucket in buckets] == [0] * 4 + [1] * COUNT + [0] * 3


def test_extended_bounds_of_numbers_and_relative_times(es: ElasticSearch) -> None:
    buckets = one(
        es, "histogram", field="ms", interval=10, extended_bounds={"min": -15, "max": 45}
    )["buckets"]
    assert [bucket["key"] for bucket in buckets] == [-20.0, -10.0, 0.0, 10.0, 20.0, 30.0, 40.0]
    bounds = {"min": "now-1d/d", "max": "now/d"}
    ends = one(es, "date_histogram", field="ts", fixed_interval="1d", extended_bounds=bounds)[
        "buckets"
    ]
    days = {dt.datetime.fromtimestamp(bucket["key"] / 1000, dt.UTC).date() for bucket in ends}
    assert {(dt.datetime.now(dt.UTC) - dt.timedelta(days=1)).date(), START.date()} <= days


def test_an_offset_moves_the_start_of_bars(es: ElasticSearch) -> None:
    bars = one(es, "date_histogram", field="ts", fixed_interval="12h", offset="+6h")["buckets"]
    assert [bar["key_as_string"][11:13] for bar in bars] == ["18", "06", "18"]


def test_hits_without_a_source_have_none(es: ElasticSearch) -> None:
    for source in (False, "false"):
        hits = es.search({"_source": source, "size": 3})["hits"]["hits"]
        assert len(hits) == 3 and all("_source" not in hit for hit in hits)
    assert es.search({"_source": [], "size": 1})["hits"]["hits"][0]["_source"] == {}


def test_fields_are_named_as_they_were_asked_for(es: ElasticSearch) -> None:
    body = {"query": {"term": {"id": 5}}, "_source": False, "fields": ["level.keyword", "t*", "id"]}
    assert es.search(body)["hits"]["hits"][0]["fields"] == {
        "level.keyword": ["ERROR"],
        "ts": ["2026-11-01T05:00:00Z"],
        "tags": ["a", "b"],
        "id": [5],
    }
    assert es.search({"fields": "level", "size": 1, "sort": ["id"]})["hits"]["hits"][0][
        "fields"
    ] == {"level": ["INFO"]}


def test_rows_that_agree_in_the_columns_that_are_shown_have_ids_of_their_own(
    es: ElasticSearch, table: Table
) -> None:
    def hit_ids(**body: Any) -> dict[int, str]:
        hits = es.search({"size": 100, **body})["hits"]["hits"]
        return {n: hit["_id"] for n, hit in enumerate(hits)}

    ids = hit_ids(_source=["level"])
    assert len(set(ids.values())) == COUNT
    assert set(hit_ids(_source=False).values()) == set(ids.values())
    assert set(hit_ids(sort=[{"ms": "desc"}]).values()) == set(ids.values())
    by_id = {hit["_source"]["id"]: hit["_id"] for hit in es.search({"size": 100})["hits"]["hits"]}
    page = es.search({"sort": ["id"], "size": 5, "search_after": [4], "_source": ["level"]})[
        "hits"
    ]["hits"]
    assert [hit["_id"] for hit in page] == [by_id[n] for n in range(5, 10)]


def test_a_highlight_of_one_column_has_its_own_options(es: ElasticSearch) -> None:
    fields = {"message": {"pre_tags": ["["], "post_tags": ["]"], "number_of_fragments": 0}}
    body = {
        "query": {"match": {"message": "memory"}},
        "sort": ["id"],
        "highlight": {"pre_tags": ["{"], "fields": fields},
    }
    assert es.search(body)["hits"]["hits"][0]["highlight"] == {"message": ["[memory] leak found"]}


def test_a_bucket_of_nan_has_what_is_inside_it(tmp_path: Path) -> None:
    made = Table.create(
        str(tmp_path / "n"), schema=pa.schema([("f", pa.float64()), ("n", pa.int64())])
    )
    made.append(pa.table({"f": [math.nan, math.inf, math.nan, 1.0], "n": [1, 2, 3, 4]}))
    aggs = {
        "f": {
            "terms": {"field": "f"},
            "aggs": {"n": {"terms": {"field": "n"}}, "m": {"max": {"field": "n"}}},
        }
    }
    buckets = ElasticSearch(made, "n").search({"size": 0, "aggs": aggs})["aggregations"]["f"][
        "buckets"
    ]
    shown = [
        (b["key"], b["m"]["value"], [inner["key"] for inner in b["n"]["buckets"]]) for b in buckets
    ]
    assert shown == [("NaN", 3, [1, 3]), (1.0, 4, [4]), ("Infinity", 2, [2])]


def test_a_range_without_bounds_finds_rows_with_a_value_and_checks_its_boost(
    es: ElasticSearch,
) -> None:
    assert count(es, {"range": {"message": {"boost": 2}}}) == COUNT
    with pytest.raises(InvalidInputError, match="boost"):
        count(es, {"range": {"message": {"boost": -1}}})


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ({"value": "d.sk"}, 4),
        ({"value": "[@]mail|leak"}, 4),
        ({"value": "le@k", "flags": "NONE"}, 0),
    ],
)
def test_regular_expressions_have_the_operators_that_both_know(
    es: ElasticSearch, pattern: Any, expected: int
) -> None:
    assert count(es, {"regexp": {"message": pattern}}) == expected


HOURS = {"field": "ts", "fixed_interval": "1h"}
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"query": {"regexp": {"message": "le@k"}}}, "operator @ of a regexp"),
    ({"query": {"regexp": {"message": "<1-9>"}}}, "operator < of a regexp"),
    ({"query": {"regexp": {"message": {"value": "x", "flags": "INTERVAL"}}}}, "flags 'INTERVAL'"),
    ({"query": {"wildcard": {"message": {"value": "x*", "flags": "ALL"}}}}, "flags of wildcard"),
    (
        {"query": {"wildcard": {"message": {"value": "x*", "rewrite": "top_terms_2"}}}},
        "rewrite top_terms_2",
    ),
    (
        {"query": {"wildcard": {"message": {"value": "x", "wildcard": "y"}}}},
        "wildcard next to value",
    ),
    (
        {"query": {"fuzzy": {"message": {"value": "memroy", "fuzziness": "AUTO:3,6"}}}},
        "fuzziness AUTO:3,6",
    ),
    (
        {"query": {"match_phrase": {"message": {"query": "a b", "slop": "x"}}}},
        "slop is a whole number",
    ),
    ({"query": {"multi_match": {"query": "x", "fields": ["message^x"]}}}, "weight of 'message^x'"),
    ({"query": {"match_none": {"x": 1}}}, "'x' in match_none"),
    (
        {"query": {"range": {"ts": {"gte": "01/12/2026", "format": "dd/MM/yyyy"}}}},
        "format dd/MM/yyyy",
    ),
    ({"query": {"range": {"ts": {"gte": 10**18, "format": "epoch_second"}}}}, "years 1 to 9999"),
    ({"query": {"match": {"message": {"query": "x", "boost": 1e300}}}}, "A boost is a number"),
    (
        {"aggs": {"a": {"max": {"field": "ms"}}}, "aggregations": {"b": {"max": {"field": "ms"}}}},
        "aggs and aggregations",
    ),
    ({"aggs": []}, "Aggregations are an object"),
    (
        {"aggs": {"a": {"max": {"field": "ms"}, "aggs": {"b": {"max": {"field": "ms"}}}}}},
        "aggs in a, which is max",
    ),
    (
        {"aggs": {"a": {"terms": {"field": "level", "format": "yyyy"}}}},
        "format in a, whose field holds no times",
    ),
    (
        {"aggs": {"a": {"histogram": {"field": "ms", "interval": 1, "format": "0.00"}}}},
        "'format' in the aggregation 'a'",
    ),
    (
        {
            "aggs": {
                "a": {"date_histogram": {"field": "ts", "fixed_interval": "1h", "format": "QQQ"}}
            }
        },
        "'QQQ'",
    ),
    ({"aggs": {"a": {"terms": {"field": "level", "min_doc_count": 0}}}}, "min_doc_count 0"),
    (
        {"aggs": {"a": {"terms": {"field": "level", "keyed": True}}}},
        "'keyed' in the aggregation 'a'",
    ),
    (
        {"aggs": {"a": {"terms": {"field": "level", "show_term_doc_count_error": True}}}},
        "show_term_doc_count_error True",
    ),
    (
        {
            "aggs": {
                "a": {"terms": {"field": "level", "order": [{"_key": "asc"}, {"_count": "desc"}]}}
            }
        },
        "a second order",
    ),
    ({"aggs": {"a": {"percentiles": {"field": "ms", "keyed": 1}}}}, "keyed 1"),
    ({"aggs": {"a": {"percentiles": {"field": "ms", "tdigest": {}}}}}, "'tdigest'"),
    (
        {"aggs": {"a": {"cardinality": {"field": "level", "precision_threshold": "x"}}}},
        "precision_threshold 'x'",
    ),
    ({"aggs": {"a": {"max": {"field": "ms", "precision_threshold": 5}}}}, "'precision_threshold'"),
    ({"aggs": {"a": {"extended_stats": {"field": "ms", "sigma": 3}}}}, "'sigma'"),
    ({"aggs": {"a": {"filter": {"term": {"level": "INFO"}}}}}, "'filter' is not supported"),
    ({"aggs": {"a": {"composite": {"sources": []}}}}, "'composite' is not supported"),
    ({"aggs": {"a": {"top_hits": {"size": 1}}}}, "'top_hits' is not supported"),
    (
        {
            "aggs": {
                "a": {
                    "date_histogram": {
                        "field": "ts",
                        "fixed_interval": "1h",
                        "extended_bounds": {"min": "x", "max": 1},
                    }
                }
            }
        },
        "'x' in extended_bounds",
    ),
    (
        {"aggs": {"a": {"date_histogram": {**HOURS, "extended_bounds": {"min": 1}}}}},
        "need min and max",
    ),
    (
        {
            "aggs": {
                "a": {"date_histogram": {"field": "ts", "fixed_interval": "1h", "hard_bounds": {}}}
            }
        },
        "'hard_bounds'",
    ),
    ({"aggs": {"a": {"range": {"field": "ms", "ranges": [{"from": "x"}]}}}}, "from 'x' of a range"),
    ({"aggs": {"a": {"terms": {"field": "level"}, "meta": 5}}}, "meta of 'a'"),
    (
        {"aggs": {str(n): {"max": {"field": "ms"}} for n in range(1_001)}},
        "at most 1,000 aggregations",
    ),
    ({"fields": ["nope"]}, "no column 'nope'"),
    ({"fields": [5]}, "fields must be an object, not 5"),
    ({"fields": [{"field": "ts", "include_unmapped": True}]}, "'include_unmapped'"),
    ({"fields": [{"field": "level", "format": "yyyy"}]}, "format of level"),
    ({"docvalue_fields": [{"format": "yyyy"}]}, "names no column"),
    ({"_source": ["nope"]}, "no column 'nope'"),
    ({"_source": [1]}, "no list of columns"),
    ({"_source": {"include": ["id"], "includes": ["ts"]}}, "include next to includes"),
    (
        {"highlight": {"fields": {"message": {"fragmenter": "span"}}}},
        "'fragmenter' in highlight of 'message'",
    ),
    ({"highlight": {"fields": {"message": {}}, "number_of_fragments": 3}}, "number_of_fragments 3"),
    (
        {"highlight": {"fields": {"message": {}}, "require_field_match": False}},
        "require_field_match False",
    ),
    ({"highlight": {"fields": {"message": {}}, "pre_tags": "<b>"}}, "Tags of a highlight"),
    ({"highlight": {"fields": ["message"]}}, "fields of highlight"),
    ({"highlight": 5}, "highlight must be an object"),
    (
        {"sort": [{"ts": {"order": "asc", "format": "epoch_millis"}}]},
        "format epoch_millis of the sort",
    ),
    ({"sort": [{"id": {"order": "asc", "numeric_type": "double"}}]}, "numeric_type of the sort"),
    ({"sort": [[]]}, "A sort names one column"),
    ({"track_total_hits": "yes"}, "track_total_hits is true"),
    ({"track_scores": 1}, "track_scores is true or false"),
    ({"timeout": "soon"}, "timeout is a length of time"),
    ({"version": True}, "'version' is not supported"),
]


@pytest.mark.parametrize(("body", "said"), REFUSED, ids=[said for _, said in REFUSED])
@pytest.mark.parametrize("size", [0, 1])
def test_what_has_no_effect_is_refused_by_its_name(
    es: ElasticSearch, body: dict[str, Any], said: str, size: int
) -> None:
    with pytest.raises(InvalidInputError) as refused:
        es.search({**body, "size": size})
    assert said in refused.value.message, refused.value.message

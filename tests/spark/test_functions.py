"""Functions for plain SQL: tables as functions, and buckets for GROUP BY."""

from __future__ import annotations

import datetime as dt
from collections import Counter

import pytest
from pyspark.sql import SparkSession

import indextables.spark as its
from indextables import Table
from tests.spark.compare import rows_of
from tests.spark.logs import SCHEMA, Logs, make_logs


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Logs:
    return make_logs(tmp_path_factory.mktemp("functions"))


def test_searches(spark: SparkSession, logs: Logs) -> None:
    every = spark.sql(f"select * from indextables_search('{logs.path}', 'message:disk')")
    assert every.columns == SCHEMA.names
    assert rows_of(every) == rows_of(its.search(spark, logs.path, "message:disk"))
    best = spark.sql(
        f"select * from indextables_search('{logs.path}', 'message:disk', columns => 'id, message', limit => 3,"
        " where => \"day = '2024-03-09'\", snippet => 'message', version => 2)"
    )
    assert best.columns == ["id", "message", "_score", "_snippet"]
    wanted = Table.open(logs.path, version=2).search(
        "message:disk",
        columns=["id", "message"],
        limit=3,
        where="day = '2024-03-09'",
        snippet="message",
    )
    assert sorted(r["_score"] for r in best.collect()) == pytest.approx(
        sorted(wanted["_score"].to_pylist())
    )
    joined = spark.sql(
        f"select count(*) from indextables_search('{logs.path}', 'message:disk') a"
        f" join indextables_search('{logs.path}', 'message:cache', columns => array('id')) b using (id)"
    )
    assert joined.collect()[0][0] == Table.open(logs.path).count(
        query="message:disk AND message:cache"
    )


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("'{path}', 'message:('", "QuerySyntaxError"),
        ("'{path}', 'nothing:x'", "nothing"),
        ("'{path}'", "missing a required argument: 'query'"),
        ("'{path}', 'disk', lines => 3", "unexpected keyword argument 'lines'"),
        ("'{path}', 'disk', columns => 'nothing'", "no column 'nothing'"),
        ("'{path}', 'disk', snippet => 'id'", "text column 'id'"),
        ("'{path}/nowhere', 'disk'", "no table at"),
    ],
)
def test_searches_that_make_no_sense(spark: SparkSession, logs: Logs, call: str, said: str) -> None:
    with pytest.raises(Exception, match=said):
        spark.sql(f"select * from indextables_search({call.format(path=logs.path)})").collect()


def test_history_files_and_state(spark: SparkSession, logs: Logs) -> None:
    table = Table.open(logs.path)
    history = spark.sql(
        f"select version, timestamp, operation from indextables_history('{logs.path}')"
    ).collect()
    assert [row["version"] for row in history] == [3, 2, 1, 0]
    told = table.history().to_pylist()
    assert [row["timestamp"].astimezone(dt.UTC) for row in history] == [
        row["timestamp"] for row in told
    ]
    assert spark.sql(f"select * from indextables_history('{logs.path}', limit => 2)").count() == 2
    files = spark.sql(
        f"select path, size, partition_values['day'] as day, num_records from indextables_files('{logs.path}')"
    ).collect()
    assert {(r["path"], r["size"], r["num_records"]) for r in files} == {
        (r["path"], r["size"], r["num_records"]) for r in table.files().to_pylist()
    }
    assert {r["day"] for r in files} == {
        "2024-03-08",
        "2024-03-09",
        "2024-03-10",
        "2024-03-11",
        None,
    }
    some = spark.sql(
        f"select * from indextables_files('{logs.path}', where => \"day = '2024-03-09'\", version => 1)"
    )
    assert some.count() == 1
    state = spark.sql(f"select * from indextables_state('{logs.path}')").collect()
    assert [(r["latest_version"], r["num_files"]) for r in state] == [(3, 15)]
    with pytest.raises(Exception, match=r"Write indextables_history\(path, limit => \.\.\.\)"):
        spark.sql(f"select * from indextables_history('{logs.path}', 3, 4)").collect()


def test_histograms_are_those_of_aggregate(spark: SparkSession, logs: Logs) -> None:
    its.table(spark, logs.path).createOrReplaceTempView("buckets_of")
    for column, step, start in (("ms", 10, 0), ("ms", 0.1, 0), ("id", 7, 3), ("ms", 2.5, -1)):
        found = spark.sql(
            f"select indextables_histogram({column}, {step}, {start}) as key, count(*) as n from buckets_of"
            " group by all having key is not null"
        )
        spec = {
            "h": {
                "histogram": {
                    "field": column,
                    "interval": step,
                    "offset": start,
                    "min_doc_count": 1,
                }
            }
        }
        told = its.aggregate(spark, logs.path, spec).selectExpr("double(h) as key", "count as n")
        assert rows_of(found) == rows_of(told), (column, step, start)
    edges = spark.sql(
        "select indextables_histogram(value, 0.1) from values (1.0D), (-1e-20D), (0.30000000000000004D) t(value)"
    )
    assert [row[0] for row in edges.collect()] == pytest.approx([0.9, -0.1, 0.3])
    with pytest.raises(Exception, match="interval must be a number above 0"):
        spark.sql("select indextables_histogram(1, 0)").collect()


FIXED = ("500ms", "90s", "5m", "7h", "1d", "7d")
CALENDAR = {
    unit: unit for unit in ("minute", "hour", "day", "week", "month", "quarter", "year")
} | {"1M": "month"}


def test_a_histogram_of_texts_names_their_column(spark: SparkSession) -> None:
    texts = "from values ('12', 1), (null, 2), ('{}', 3) t(title, id)"
    found = spark.sql(
        f"select indextables_histogram(title, 5) as b {texts.format('7')} order by id"
    ).collect()
    assert [row.b for row in found] == [10.0, None, 5.0]
    for call in ("indextables_histogram(title, 5)", "indextables_range(title, array(5))"):
        with pytest.raises(
            Exception, match=r"indextables_\w+: title must hold numbers, and holds the text seven"
        ):
            spark.sql(f"select {call} {texts.format('seven')}").collect()


def test_date_histograms_are_those_of_aggregate(spark: SparkSession, logs: Logs) -> None:
    table = Table.open(logs.path)
    steps = {s: {"fixed_interval": s} for s in FIXED} | {
        s: {"calendar_interval": u} for s, u in CALENDAR.items()
    }
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    try:
        keys = [
            f"unix_micros(indextables_date_histogram(at, '{step}')) as `{step}`" for step in steps
        ]
        rows = its.table(spark, logs.path).selectExpr(*keys).collect()
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(zone))
    for step, spec in steps.items():
        told = table.aggregate(
            {"h": {"date_histogram": {"field": "at", "min_doc_count": 1, **spec}}}
        )
        wanted = dict(
            zip(told["h"].cast("int64").to_pylist(), told["count"].to_pylist(), strict=True)
        )
        assert Counter(row[step] for row in rows) == wanted, step


def test_dates_stay_in_their_own_days_in_every_time_zone(spark: SparkSession) -> None:
    zone = spark.conf.get("spark.sql.session.timeZone")
    try:
        for name in ("Europe/Berlin", "America/New_York", "Asia/Kolkata"):
            spark.conf.set("spark.sql.session.timeZone", name)
            found = spark.sql(
                "select string(indextables_date_histogram(d, '1d')), string(indextables_date_histogram(d, 'week')),"
                " string(indextables_date_histogram(d, '12h')) from values (date'2024-03-11') t(d)"
            ).collect()
            assert tuple(found[0]) == ("2024-03-11 00:00:00",) * 3
        # The hour that comes twice when summer time ends is two hours.
        spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
        twice = spark.sql(
            "select unix_seconds(indextables_date_histogram(t, '1h')) from values"
            " (timestamp'2024-10-27 00:30:00Z'), (timestamp'2024-10-27 01:30:00Z') x(t)"
        ).collect()
        assert twice[1][0] - twice[0][0] == 3600
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(zone))
    with pytest.raises(Exception, match="interval must be such as"):
        spark.sql("select indextables_date_histogram(now(), 'fortnight')").collect()
    with pytest.raises(Exception, match="interval must be such as"):
        spark.sql("select indextables_date_histogram(now(), '0s')").collect()


def test_ranges_are_those_of_aggregate(spark: SparkSession, logs: Logs) -> None:
    its.table(spark, logs.path).createOrReplaceTempView("ranges_of")
    found = spark.sql(
        "select indextables_range(ms, array(10, 50)) as r, count(*) as n from ranges_of group by r having r is not null"
    )
    ranges = [{"to": 10}, {"from": 10, "to": 50}, {"from": 50}]
    told = Table.open(logs.path).aggregate({"r": {"range": {"field": "ms", "ranges": ranges}}})
    assert {(r["r"], r["n"]) for r in found.collect()} == {
        (r["r"], r["count"]) for r in told.to_pylist()
    }
    with pytest.raises(Exception, match=r"Write indextables_range\(value, array\(10, 100\)\) or"):
        spark.sql("select indextables_range(1)").collect()
    with pytest.raises(Exception, match="ascending order"):
        spark.sql("select indextables_range(1, array(3, 2))").collect()


def test_a_session_of_its_own_gets_them_when_sql_names_them_and_by_register(
    spark: SparkSession, logs: Logs
) -> None:
    other = spark.newSession()
    assert (
        other.sql(f"select latest_version from indextables_state('{logs.path}')").collect()[0][0]
        == 3
    )
    its.register(other)
    assert (
        other.sql(f"select latest_version from indextables_state('{logs.path}')").collect()[0][0]
        == 3
    )

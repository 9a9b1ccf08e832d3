"""Searches anywhere in SQL: random statements say of the table what they say of the same rows in
plain Parquet.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import indextables.spark as its
from indextables import Table
from tests.spark.compare import assert_same_rows
from tests.spark.logs import WORDS, Logs, make_logs

QUICK, SLOW = 12, 500


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Logs:
    return make_logs(tmp_path_factory.mktemp("anywhere"), commits=2, rows=120)


@pytest.fixture(scope="module", autouse=True)
def views(spark: SparkSession, logs: Logs) -> Iterator[None]:
    """`t0` by the data source, `t1` as Spark reads it itself, `plain` the twin; `naive` looks for a
    word in a text.
    """
    spark.sql(f"CREATE OR REPLACE TEMP VIEW t0 USING indextables OPTIONS (path '{logs.path}')")
    its.table(spark, logs.path).createOrReplaceTempView("t1")
    spark.read.parquet(logs.parquet).createOrReplaceTempView("plain")
    spark.udf.register(
        "naive", lambda text, word: text is not None and word in text.split(), "boolean"
    )
    yield
    for name in ("t0", "t1", "plain"):
        spark.catalog.dropTempView(name)
    spark.sql("DROP TEMPORARY FUNCTION naive")


class Statements:
    """Random statements with searches, each beside the same with a function that looks at the text."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)

    def search(self, of: str = "") -> tuple[str, str]:
        word = self.rng.choice(WORDS)
        ours = self.rng.choice(
            [
                "{}message TEXTSEARCH '{}'",
                "{}message indexquery '{}'",
                "textsearch({}message, '{}')",
            ]
        )
        return ours.format(of, word), f"naive({of}message, '{word}')"

    def column(self, of: str = "") -> str:
        forms = [
            "id > 77",
            "id > 200",
            "level = 'ERROR'",
            "ms > 50",
            "day = '2024-03-09'",
            "level IS NULL",
            "id % 3 = 1",
        ]
        return of + self.rng.choice([*forms, "level LIKE 'W%'", "ms IS NOT NULL"])

    def condition(self, depth: int = 2, of: str = "") -> tuple[str, str]:
        kind = self.rng.randint(0, 5) if depth else self.rng.randint(4, 5)
        if kind < 3:
            left, right = self.condition(depth - 1, of), self.condition(depth - 1, of)
            word = ("AND", "OR", "OR")[kind]
            return f"({left[0]} {word} {right[0]})", f"({left[1]} {word} {right[1]})"
        if kind == 3:
            ours, plain = self.condition(depth - 1, of)
            return f"NOT ({ours})", f"NOT ({plain})"
        return self.search(of) if kind == 4 else (self.column(of),) * 2

    def statement(self) -> tuple[str, str]:
        condition, search = self.condition(), self.search()
        both = [self.condition(1, "a."), self.search("b."), self.condition(1, "b.")]
        forms: list[tuple[str, list[tuple[str, str]]]] = [
            ("SELECT * FROM {t} WHERE {0}", [condition]),
            ("SELECT count(*) FROM {t} WHERE {0}", [condition]),
            ("SELECT level, count(*), max(id) FROM {t} WHERE {0} GROUP BY level", [condition]),
            (
                "SELECT id, {0} AS found, CASE WHEN {1} THEN 'a' ELSE level END FROM {t}",
                [condition, search],
            ),
            (
                "SELECT count(*) FILTER (WHERE {0}), sum(id) FILTER (WHERE {1}) FROM {t}",
                [search, condition],
            ),
            (
                "SELECT level, sum(IF({0}, 1, 0)) FROM {t} WHERE {1} GROUP BY level",
                [search, condition],
            ),
            (
                "SELECT * FROM (SELECT id, message AS message FROM {t} ORDER BY id LIMIT 40) WHERE {0}",
                [search],
            ),
            ("SELECT {0} AS k, count(*) FROM {t} GROUP BY 1", [condition]),
            ("SELECT id FROM {t} WHERE {0} ORDER BY id DESC LIMIT 9", [condition]),
            (
                "SELECT a.id, b.level FROM {t} a LEFT JOIN {t} b ON a.id = b.id + 1 AND {1} WHERE {0}",
                both,
            ),
            (
                "SELECT a.id, b.id FROM {t} a LEFT JOIN {t} b ON a.id = b.id + 1 WHERE {0} OR {1}",
                both,
            ),
            (
                "SELECT a.id, b.id FROM {t} a FULL JOIN {t} b ON a.id = b.id + 200 WHERE {2} OR NOT {1}",
                both,
            ),
            ("SELECT a.id, {1} FROM {t} a JOIN {t} b ON a.id = b.id WHERE {0}", both),
            (
                "SELECT id FROM {t} a WHERE EXISTS (SELECT 1 FROM {t} b WHERE b.id = a.id + 1 AND {2}) AND {0}",
                both,
            ),
            (
                "SELECT id FROM {t} WHERE id IN (SELECT id + 1 FROM {t} WHERE {0}) OR {1}",
                [condition, search],
            ),
            ("SELECT id, row_number() OVER (ORDER BY id) FROM {t} WHERE {0}", [condition]),
            (
                "SELECT id FROM {t} WHERE {0} UNION ALL SELECT id FROM {t} WHERE {1}",
                [condition, search],
            ),
        ]
        form, parts = self.rng.choice(forms)
        ours, plain = zip(*parts, strict=True)
        table = self.rng.choice(["t0", "t1"])
        return form.format(*ours, t=table), form.format(*plain, t="plain")


def compare(spark: SparkSession, first: int, count: int) -> None:
    for seed in range(first, first + count):
        ours, plain = Statements(seed).statement()
        try:
            assert_same_rows(spark.sql(ours), spark.sql(plain))
        except Exception as error:
            raise AssertionError(f"seed {seed}: {ours}\n{plain}") from error


def test_random_statements(spark: SparkSession) -> None:
    compare(spark, 0, QUICK)


@pytest.mark.slow
def test_many_random_statements(spark: SparkSession) -> None:
    compare(spark, 1000, SLOW)


def test_alternatives_are_one_search(spark: SparkSession) -> None:
    frame = spark.sql(
        "SELECT id FROM t1 WHERE message TEXTSEARCH 'disk' OR NOT (level = 'ERROR' AND message TEXTSEARCH 'retry')"
    )
    plan = str(frame._jdf.queryExecution().optimizedPlan().toString())
    assert "Filter" not in plan, plan  # the scan decides it
    assert frame.count() > 0


def test_scores_and_snippets_in_sql(spark: SparkSession, logs: Logs) -> None:
    """What a search knows of its rows are columns, and the best ones are found by the scan."""
    table = Table.open(logs.path)
    named = f"indextables.`{logs.path}`"
    best = f"SELECT _score, * FROM {named} WHERE message TEXTSEARCH 'disk' ORDER BY _score DESC LIMIT 5"
    rows = spark.sql(best).collect()
    expected = table.search("message:disk", limit=5, score=True)
    assert [row._score for row in rows] == pytest.approx(expected["_score"].to_pylist())
    assert rows[0].__fields__ == ["_score", *table.schema.names]
    spark.conf.set("spark.indextables.read.driverSplits", "0")
    try:
        frame = spark.sql(best)
        plan = str(frame._jdf.queryExecution().executedPlan())
        assert 'order=["_score","desc","nulls last"] rows=5' in plan, plan
        assert [row._score for row in frame.collect()] == pytest.approx(
            [row._score for row in rows]
        )
    finally:
        spark.conf.unset("spark.indextables.read.driverSplits")
    shown = spark.sql(
        f"SELECT id, _snippet FROM {named} WHERE message TEXTSEARCH 'disk' AND id < 60"
    ).collect()
    assert shown and all("<b>disk</b>" in row._snippet for row in shown)
    whole = table.search("message:disk", score=True, columns=["id"])
    high = [score for score in whole["_score"].to_pylist() if score > 1.0]
    assert spark.sql(
        f"SELECT _score FROM {named} WHERE message TEXTSEARCH 'disk' AND _score > 1"
    ).count() == len(high)
    most = spark.sql(
        f"SELECT max(_score), count(*) FROM {named} WHERE message TEXTSEARCH 'disk'"
    ).collect()[0]
    assert tuple(most) == (pytest.approx(max(whole["_score"].to_pylist())), whole.num_rows)
    assert "_score" not in spark.table(named).columns
    for refused in (
        f"SELECT _score FROM {named}",
        f"SELECT _score FROM {named} WHERE message TEXTSEARCH 'disk' OR id = 3",
        f"SELECT _snippet FROM {named} WHERE NOT message TEXTSEARCH 'disk'",
    ):
        with pytest.raises(
            PySparkException, match=r"INDEXTABLES_INVALID_INPUT.*known only of rows that a search"
        ):
            spark.sql(refused).collect()


def test_places_beside_a_search(spark: SparkSession, logs: Logs) -> None:
    """`_metadata` says of a row that a search finds what it says of the row in Spark's own scan."""
    parts = [f"_metadata.{name}" for name in ("file_path", "file_name", "file_size", "row_index")]
    parts.append("_metadata.file_modification_time")
    frame = its.table(spark, logs.path)
    scanned = {tuple(row) for row in frame.select("id", *parts).collect()}
    named = f"indextables.`{logs.path}`"
    for condition in ("textsearch(message, 'disk')", "textsearch(message, 'disk') OR id = 3"):
        searched = frame.where(condition).select("id", *parts).collect()
        by_name = spark.sql(
            f"SELECT id, {', '.join(parts)} FROM {named} WHERE {condition}"
        ).collect()
        assert searched and {tuple(row) for row in searched} == {tuple(row) for row in by_name}
        assert {tuple(row) for row in searched} <= scanned
    first = (
        f"SELECT count(*) FROM {named} WHERE message TEXTSEARCH 'disk' AND _metadata.row_index < 10"
    )
    low = (
        frame.where("textsearch(message, 'disk')")
        .select("_metadata.row_index")
        .where("row_index < 10")
        .count()
    )
    assert spark.sql(first).collect()[0][0] == low
    files = spark.sql(f"SELECT _metadata.file_name, count(*) FROM {named} GROUP BY 1").collect()
    assert {row[0] for row in files} == {row[2] for row in scanned}


def test_searches_of_cached_tables(spark: SparkSession, logs: Logs) -> None:
    """Rows that Spark keeps have no index: a search reads the table, at the version that is kept."""
    frame = its.table(spark, logs.path).cache()
    frame.count()
    frame.createOrReplaceTempView("kept")
    spark.sql(f"CACHE TABLE kept_too AS SELECT * FROM indextables.`{logs.path}` WHERE id > 5")
    try:
        for statement in (
            "SELECT id FROM {t} WHERE {s}",
            "SELECT id FROM {t} WHERE {s} OR level = 'ERROR'",
            "SELECT count(*) FILTER (WHERE {s}), count(*) FROM {t}",
            "SELECT a.id, b.id FROM {t} a JOIN {t} b ON a.id = b.id + 1 WHERE {a}",
        ):
            for name, plain in (
                ("kept", "plain"),
                ("kept_too", "(SELECT * FROM plain WHERE id > 5)"),
            ):
                ours = statement.format(
                    t=name, s="message TEXTSEARCH 'disk'", a="a.message TEXTSEARCH 'disk'"
                )
                other = statement.format(
                    t=plain, s="naive(message, 'disk')", a="naive(a.message, 'disk')"
                )
                assert_same_rows(spark.sql(ours), spark.sql(other))
        assert "InMemoryTableScan" in str(
            spark.sql("SELECT max(id) FROM kept")._jdf.queryExecution().executedPlan()
        )
    finally:
        frame.unpersist()
        spark.sql("UNCACHE TABLE kept_too")
        spark.catalog.dropTempView("kept")

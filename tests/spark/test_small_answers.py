"""Small answers: counts, limits, groups and first rows under a search, by the driver or in tasks,
are what plain SQL says.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import indextables.spark as its
from indextables import Table
from tests.spark.compare import assert_same_rows
from tests.spark.logs import Logs, make_logs

HAS = "array_contains(split(message, ' '), '{}')"
DRIVER = "spark.indextables.read.driverSplits"
TYPES = pa.schema(
    [
        ("message", pa.string()),
        ("flag", pa.bool_()),
        ("tiny", pa.int8()),
        ("small", pa.int16()),
        ("whole", pa.int32()),
        ("long", pa.int64()),
        ("single", pa.float32()),
        ("double", pa.float64()),
        ("money", pa.decimal128(12, 2)),
        ("large", pa.decimal128(38, 4)),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", tz="UTC")),
        ("local", pa.timestamp("us")),
        ("raw", pa.binary()),
        ("name", pa.string()),
        ("pair", pa.struct([("a", pa.int32()), ("b", pa.string())])),
        ("list", pa.list_(pa.int32())),
    ]
)


def typed_rows(count: int) -> pa.Table:
    """Rows of every type, with nulls, NaN, -0.0, names that differ in bytes only beyond ASCII."""
    floats = [float("nan"), None, -0.0, 0.0, float("inf"), 1.5]
    names = ["a", "B", "é", "用", None, ""]

    def row(n: int) -> dict[str, object]:
        known = n % 7 != 0
        moment = dt.datetime(2024, 3, 10, 6, 59) + dt.timedelta(minutes=n % 5)
        return {
            "message": f"w{n % 3} all" if n % 13 else None,
            "flag": n % 2 == 0 if known else None,
            "tiny": n % 5 - 2 if known else None,
            "small": n % 4 * 1000 if known else None,
            "whole": n % 3 * 10**6 if known else None,
            "long": n % 4 * 10**15 if known else None,
            "single": floats[n % 6],
            "double": floats[(n + 1) % 6],
            "money": Decimal(n % 5).scaleb(-2) if known else None,
            "large": Decimal(n % 3).scaleb(-4) if known else None,
            "day": dt.date(2024, 3, 9 + n % 3) if known else None,
            "at": moment.replace(tzinfo=dt.UTC) if known else None,
            "local": moment if known else None,
            "raw": bytes([n % 3]) if known else None,
            "name": names[n % 6],
            "pair": {"a": n % 2, "b": names[n % 6]} if known else None,
            "list": [n % 2, None] if known else None,
        }

    return pa.Table.from_pylist([row(n) for n in range(count)], schema=TYPES)


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Logs:
    return make_logs(tmp_path_factory.mktemp("small"), commits=1, rows=400)


@pytest.fixture(scope="module")
def views(
    tmp_path_factory: pytest.TempPathFactory, spark: SparkSession, logs: Logs
) -> Iterator[None]:
    """`t` and `plain` with log lines, `typed` and `typed_plain` with every type."""
    folder = tmp_path_factory.mktemp("typed")
    table = Table.create(
        str(folder / "t"), schema=TYPES, options={"indexing.typemap.message": "text"}
    )
    rows = [typed_rows(40), typed_rows(300).slice(40)]
    for part in rows:
        table.append(part)
    floating = [name for name in TYPES.names if name not in ("single", "double")]
    pq.write_table(
        pa.concat_tables(rows),
        folder / "rows.parquet",
        write_statistics=floating,
        use_dictionary=["message", "name"],
    )
    its.table(spark, logs.path).createOrReplaceTempView("t")
    spark.read.parquet(logs.parquet).createOrReplaceTempView("plain")
    its.table(spark, table.path).createOrReplaceTempView("typed")
    spark.read.parquet(str(folder / "rows.parquet")).createOrReplaceTempView("typed_plain")
    yield
    for name in ("t", "plain", "typed", "typed_plain"):
        spark.catalog.dropTempView(name)


@pytest.fixture(params=["driver", "tasks"])
def engine(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[str]:
    spark.conf.set(DRIVER, "8" if request.param == "driver" else "0")
    yield str(request.param)
    spark.conf.unset(DRIVER)


def plan_of(frame: DataFrame) -> str:
    return str(frame._jdf.queryExecution().executedPlan().toString())


STATEMENTS = [
    "SELECT count(*) FROM t WHERE {timeout}",
    "SELECT count(*), count(level), count(ms), min(id), max(at), sum(id), sum(ms) FROM t WHERE {timeout} AND ms > 3",
    "SELECT level, count(*), max(message), avg(id) FROM t WHERE {timeout} GROUP BY level",
    "SELECT day, level, count(*) FROM t WHERE {timeout} AND id % 3 = 1 GROUP BY day, level",
    "SELECT count(*) FROM t WHERE {timeout} AND level = 'nothing of the kind'",
    "SELECT max(id), count(level) FROM t WHERE {timeout} AND id < 0",
    "SELECT level, max(id) FROM t WHERE {timeout} AND id < 0 GROUP BY level",
    "SELECT DISTINCT level FROM t WHERE {timeout} AND day IS NOT NULL",
    "SELECT count(DISTINCT level), sum(DISTINCT id) FROM t WHERE {timeout}",
    "SELECT level, count(*) FILTER (WHERE ms > 50) FROM t WHERE {timeout} GROUP BY level HAVING count(*) > 3",
    "SELECT date_trunc('hour', at), count(*) FROM t WHERE {timeout} GROUP BY 1",
    "SELECT indextables_histogram(ms, 10), count(*) FROM t WHERE {timeout} GROUP BY 1",
    "SELECT id, level FROM t WHERE {timeout} ORDER BY id DESC LIMIT 7",
    "SELECT id, level FROM t WHERE {timeout} ORDER BY id LIMIT 7",
    "SELECT ms FROM t WHERE {timeout} ORDER BY ms DESC LIMIT 30",
    "SELECT ms FROM t WHERE {timeout} ORDER BY ms LIMIT 300",
    "SELECT ms FROM t WHERE {timeout} ORDER BY ms DESC NULLS FIRST LIMIT 20",
    "SELECT day, id FROM t WHERE {timeout} ORDER BY day, id LIMIT 11",
    "SELECT level FROM t WHERE {timeout} AND ms <> 3 ORDER BY level LIMIT 40",
    "SELECT count(*) FROM (SELECT * FROM t WHERE {timeout} LIMIT 9)",
    "SELECT a.level, count(*) FROM t a JOIN t b ON a.id = b.id WHERE a.{timeout} AND b.{disk} GROUP BY a.level",
    "SELECT message, sum(n) FROM (SELECT message, level, count(*) n FROM t WHERE {timeout} GROUP BY 1, 2) GROUP BY 1",
]


QUICK = {1, 2, 10, 12, 15}
"""Those that every change has to pass; the others are run with the slow tests."""


@pytest.mark.parametrize(
    "statement",
    [
        pytest.param(s, marks=[] if n in QUICK else pytest.mark.slow)
        for n, s in enumerate(STATEMENTS)
    ],
)
def test_statements(spark: SparkSession, views: None, engine: str, statement: str) -> None:
    ours = statement.format(
        timeout="message TEXTSEARCH 'timeout'", disk="message TEXTSEARCH 'disk'"
    )
    plain = statement.replace("a.{", "{").replace("b.{", "{").replace(" t ", " plain ")
    if "JOIN" in plain:
        plain = "SELECT level, count(*) FROM plain WHERE {timeout} AND {disk} GROUP BY level"
    plain = plain.format(timeout=HAS.format("timeout"), disk=HAS.format("disk"))
    assert_same_rows(spark.sql(ours), spark.sql(plain))


def test_every_type(spark: SparkSession, views: None, engine: str) -> None:
    simple = [name for name in TYPES.names if name not in ("pair", "list")]
    functions = [
        f"{f}({name})" for name in simple for f in ("min", "max", "count") if name != "raw"
    ]
    functions += [
        f"sum({n})"
        for n in ("tiny", "small", "whole", "long", "double", "single", "money", "large")
    ]
    wanted, has = "message TEXTSEARCH 'w1'", HAS.format("w1")
    for select in (", ".join(functions), "*"):
        for extra in ("", " AND double >= 0 AND at > '2024-03-10 02:00:00' AND name > 'a'"):
            ours = spark.sql(f"SELECT {select} FROM typed WHERE {wanted}{extra}")
            assert_same_rows(
                ours, spark.sql(f"SELECT {select} FROM typed_plain WHERE {has}{extra}")
            )
    for key in ["double", "money", "at", "name", "pair"]:
        ours = spark.sql(
            f"SELECT {key}, count(*), sum(money) FROM typed WHERE {wanted} GROUP BY {key}"
        )
        plain = spark.sql(
            f"SELECT {key}, count(*), sum(money) FROM typed_plain WHERE {has} GROUP BY {key}"
        )
        assert_same_rows(ours, plain)


def test_the_driver_answers_without_a_task(spark: SparkSession, views: None) -> None:
    for statement in (
        "SELECT count(*) FROM t WHERE message TEXTSEARCH 'timeout'",
        "SELECT level, count(*), max(id) FROM t WHERE message TEXTSEARCH 'timeout' AND id > 5 GROUP BY level",
        "SELECT id FROM t WHERE message TEXTSEARCH 'timeout' LIMIT 3",
    ):
        shown = plan_of(spark.sql(statement))
        assert "LocalTableScan" in shown and "BatchScan" not in shown and "Exchange" not in shown, (
            shown
        )


def test_what_the_driver_asks_is_told_at_once(
    spark: SparkSession, views: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A search with more settings takes no more trips between Spark's driver and Python."""
    client = type(spark.sparkContext._gateway._gateway_client)  # type: ignore[union-attr]
    send, sent = client.send_command, []

    def counted(self: object, command: str, *rest: object, **options: object) -> object:
        sent.append(command)
        return send(self, command, *rest, **options)

    def trips() -> int:
        sent.clear()
        assert (
            spark.sql("SELECT id FROM t WHERE message TEXTSEARCH 'timeout' AND id > 5").count() > 0
        )
        return sum(
            not command.startswith("m\n") for command in sent
        )  # those tell of objects that nobody needs any more

    monkeypatch.setattr(client, "send_command", counted)
    few = [trips() for _ in range(2)][-1]
    settings = {
        f"spark.indextables.read.{name}": "0" for name in ("splitsPerTask", "maxSplitsPerTask")
    }
    for key, value in settings.items():
        spark.conf.set(key, value)
    try:
        assert trips() == few
    finally:
        for key in settings:
            spark.conf.unset(key)


def test_many_splits_are_aggregated_in_tasks(spark: SparkSession, views: None) -> None:
    spark.conf.set(DRIVER, "0")
    try:
        shown = plan_of(
            spark.sql(
                "SELECT level, count(*) FROM t WHERE message TEXTSEARCH 'timeout' GROUP BY level"
            )
        )
        assert "BatchScan" in shown and '"functions":[["count",null]]' in shown
    finally:
        spark.conf.unset(DRIVER)


def test_a_sum_that_overflows_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.createDataFrame([("a", 2**62), ("a", 2**62)], "message string, n long")
    its.write(rows, str(tmp_path / "t"), options={"indexing.typemap.message": "text"})
    found = its.search(spark, str(tmp_path / "t"), "message:a")
    with pytest.raises(PySparkException, match="ARITHMETIC_OVERFLOW"):
        found.groupBy().sum("n").collect()


def test_a_search_says_how_much_it_finds(spark: SparkSession, logs: Logs) -> None:
    for splits in ("8", "0"):
        found = its.search(
            spark, logs.path, "message:timeout", options={"read.driverSplits": splits}
        )
        size = int(str(found._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()))
        assert 0 < size < 1 << 20
        joined = its.table(spark, logs.path).join(found.select("id"), "id")
        assert "BroadcastHashJoin" in plan_of(joined)
        assert (
            joined.count() == found.count() == Table.open(logs.path).count(query="message:timeout")
        )


def test_equal_searches_share_what_is_cached(spark: SparkSession, logs: Logs) -> None:
    first = its.search(spark, logs.path, "message:timeout").cache()
    try:
        first.count()
        assert "InMemoryTableScan" in plan_of(its.search(spark, logs.path, "message:timeout"))
        assert "InMemoryTableScan" not in plan_of(its.search(spark, logs.path, "message:disk"))
        Table.open(logs.path).append(logs.rows.slice(0, 1))
        assert "InMemoryTableScan" not in plan_of(its.search(spark, logs.path, "message:timeout"))
    finally:
        first.unpersist()


def test_a_search_has_tasks_for_all_cores(spark: SparkSession, logs: Logs) -> None:
    # Two tasks run at once: twice as many are planned.
    found = its.search(spark, logs.path, "message:timeout", options={"read.driverSplits": 0})
    assert Table.open(logs.path).files().num_rows > 4
    assert found.rdd.getNumPartitions() == 4


def test_no_task_of_a_scan_is_for_the_index_alone(spark: SparkSession, tmp_path: Path) -> None:
    words = pa.table({"message": [f"word{n} of many{n}" for n in range(20_000)]})
    table = Table.create(
        str(tmp_path / "t"), schema=words.schema, options={"indexing.typemap.message": "text"}
    )
    table.append(words)
    entry = table.files().to_pylist()[0]
    end = int(dict(entry["tags"])["rowsEnd"])
    assert end < entry["size"] * 0.7
    before = spark.conf.get("spark.sql.files.maxPartitionBytes")
    spark.conf.set("spark.sql.files.maxPartitionBytes", str(end // 4))
    try:
        frame = its.table(spark, table.path)
        assert frame.count() == frame.selectExpr("count(message)").first()[0] == 20_000  # type: ignore[index]
        assert frame.rdd.getNumPartitions() <= 5
        assert frame.select("_metadata.file_size").distinct().collect() == [(entry["size"],)]
        assert frame.where("_metadata.file_size > 0").count() == 20_000
    finally:
        spark.conf.set("spark.sql.files.maxPartitionBytes", str(before))

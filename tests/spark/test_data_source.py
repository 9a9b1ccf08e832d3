"""`format("indextables")`: options, pruned columns, temporary views, catalog tables, plain writes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from uuid import uuid4

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

import indextables.spark as its
from indextables import Table
from indextables.errors import InvalidInputError, QuerySyntaxError
from tests.spark.compare import assert_same_rows, rows_of
from tests.spark.logs import OPTIONS, SCHEMA, Logs, make_logs


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Logs:
    return make_logs(tmp_path_factory.mktemp("source"))


@pytest.fixture(scope="module")
def parquet(spark: SparkSession, logs: Logs) -> DataFrame:
    return spark.read.parquet(logs.parquet)


def read(spark: SparkSession, logs: Logs, **options: object) -> DataFrame:
    return (
        spark.read.format("indextables")
        .options(**{k: str(v) for k, v in options.items()})
        .load(logs.path)
    )


def test_everything(spark: SparkSession, logs: Logs, parquet: DataFrame) -> None:
    frame = read(spark, logs)
    assert frame.columns == SCHEMA.names
    assert_same_rows(frame, parquet)


def test_query_where_and_columns(spark: SparkSession, logs: Logs, parquet: DataFrame) -> None:
    found = read(
        spark,
        logs,
        query="message:timeout AND level:ERROR",
        where="id >= 100",
        columns="message,id",
    )
    wanted = parquet.where("level = 'ERROR' and id >= 100")
    wanted = wanted.where("array_contains(split(message, ' '), 'timeout')").select("message", "id")
    assert found.columns == ["message", "id"]
    assert_same_rows(found, wanted)


def test_a_schema_prunes_and_orders_the_columns(
    spark: SparkSession, logs: Logs, parquet: DataFrame
) -> None:
    frame = spark.read.format("indextables").schema("ms double, id long").load(logs.path)
    assert_same_rows(frame, parquet.select("ms", "id"))
    with pytest.raises(Exception, match="no column 'nothing'"):
        spark.read.format("indextables").schema("nothing int").load(logs.path).collect()


def test_aggregations_of_all_matching_rows(spark: SparkSession, logs: Logs) -> None:
    spec = {"level": {"terms": {"field": "level"}, "aggs": {"id": {"stats": {"field": "id"}}}}}
    wanted = (
        Table.open(logs.path)
        .aggregate(spec, query="message:timeout", where="id >= 100")
        .to_pylist()
    )
    frame = read(
        spark, logs, aggregate=json.dumps(spec), query="message:timeout", where="id >= 100"
    )
    assert frame.columns == list(wanted[0]) and [row.asDict() for row in frame.collect()] == wanted
    # Conditions and limits of Spark are about the result, not about the rows of the table.
    assert frame.where("level = 'ERROR'").count() == 1 and len(frame.limit(1).collect()) == 1
    assert frame.agg({"count": "sum"}).collect()[0][0] == sum(row["count"] for row in wanted)
    one = read(spark, logs, aggregate=json.dumps({"total": {"sum": {"field": "id"}}}))
    assert (
        one.select("total").collect()[0][0]
        == spark.read.parquet(logs.parquet).agg({"id": "sum"}).collect()[0][0]
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"aggregate": "{"}, "Option 'aggregate' is not JSON"),
        ({"aggregate": '{"a": {"terms": {"field": "nothing"}}}'}, "names the field 'nothing'"),
        ({"aggregate": "{}", "limit": 3}, "cannot be combined with columns, limit"),
    ],
)
def test_wrong_aggregations(
    spark: SparkSession, logs: Logs, options: dict[str, object], message: str
) -> None:
    with pytest.raises(Exception, match=re.escape(message)):
        read(spark, logs, **options).collect()
    with pytest.raises(InvalidInputError, match=r"no option aggregate|cannot be combined"):
        its.read_stream(spark, logs.path, options=options)


def test_limits_scores_and_snippets(spark: SparkSession, logs: Logs) -> None:
    best = read(
        spark, logs, query="message:timeout", limit=5, score=True, snippet="message", columns="id"
    )
    rows = best.collect()
    wanted = Table.open(logs.path).search("message:timeout", limit=5, columns=["id"])
    assert best.columns == ["id", "_score", "_snippet"]
    assert sorted(r["_score"] for r in rows) == pytest.approx(sorted(wanted["_score"].to_pylist()))
    assert all("<b>timeout</b>" in r["_snippet"] for r in rows)
    assert read(spark, logs, limit=7).count() == 7
    assert read(spark, logs, limit=0).count() == 0


@pytest.mark.parametrize(
    "options", [{}, {"score": True}, {"score": True, "snippet": "message"}], ids=str
)
def test_a_limited_search_of_which_only_some_columns_are_wanted(
    spark: SparkSession, logs: Logs, options: dict[str, object]
) -> None:
    best = read(spark, logs, query="message:timeout", limit=5, **options)
    found = best.collect()
    assert best.count() == 5
    assert sorted(r["id"] for r in best.select("id").collect()) == sorted(r["id"] for r in found)
    assert best.groupBy("level").count().agg({"count": "sum"}).collect()[0][0] == 5
    if "snippet" in options:
        assert {r[0] for r in best.select("_snippet").collect()} == {r["_snippet"] for r in found}


def test_older_versions(spark: SparkSession, logs: Logs) -> None:
    assert read(spark, logs, versionAsOf=1).count() == 200
    history = Table.open(logs.path).history()
    when = dict(zip(history["version"].to_pylist(), history["timestamp"].to_pylist(), strict=True))
    assert read(spark, logs, timestampAsOf=when[2].isoformat()).count() == 400


def test_two_searches_of_one_table_in_one_plan(
    spark: SparkSession, logs: Logs, parquet: DataFrame
) -> None:
    one, two = (
        read(spark, logs, query="message:timeout"),
        read(spark, logs, query="message:gateway"),
    )
    plain = [
        parquet.where(f"array_contains(split(message, ' '), '{w}')") for w in ("timeout", "gateway")
    ]
    assert_same_rows(one.unionAll(two), plain[0].unionAll(plain[1]))
    joined = one.alias("a").join(two.alias("b"), "id").select("id")
    assert_same_rows(joined, plain[0].join(plain[1], "id").select("id"))


def test_filters_of_one_load_do_not_disturb_each_other(
    spark: SparkSession, logs: Logs, parquet: DataFrame
) -> None:
    frame = read(spark, logs)
    assert frame.where("id = 1").count() == 1
    assert frame.count() == 600
    both = frame.where("id < 10").unionAll(frame.where("level = 'ERROR'"))
    assert_same_rows(both, parquet.where("id < 10").unionAll(parquet.where("level = 'ERROR'")))


def test_splits_are_grouped_into_tasks(spark: SparkSession, logs: Logs) -> None:
    splits = Table.open(logs.path).files().num_rows
    assert read(spark, logs, **{"read.splitsPerTask": 1}).rdd.getNumPartitions() == splits
    assert read(spark, logs, **{"read.splitsPerTask": 4}).rdd.getNumPartitions() == -(-splits // 4)
    # Twice as many as run at once.
    assert read(spark, logs).rdd.getNumPartitions() == 4


def test_a_search_never_looks_smaller_than_it_is(spark: SparkSession, logs: Logs) -> None:
    frame = read(spark, logs, query="message:timeout")
    size = int(frame._jdf.queryExecution().optimizedPlan().stats().sizeInBytes())
    assert frame.toArrow().nbytes <= size < 1 << 20
    size = its.table(spark, logs.path)._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()
    assert int(size) == sum(
        int(dict(tags)["rowsEnd"]) for tags in Table.open(logs.path).files()["tags"].to_pylist()
    )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"querry": "x"}, "no option or setting 'querry'"),
        ({"query": "message:("}, "QuerySyntaxError"),
        ({"query": "nothing:x"}, "nothing"),
        ({"where": "id >"}, "QuerySyntaxError"),
        ({"limit": "many"}, "Option 'limit' cannot be 'many'"),
        ({"score": "true"}, "no score without a query"),
        ({"columns": "id,nothing"}, "no column 'nothing'"),
        ({"read.splitsPerTask": "x"}, "read.splitsPerTask"),
    ],
)
def test_wrong_options_are_explained(
    spark: SparkSession, logs: Logs, options: dict[str, str], said: str
) -> None:
    with pytest.raises(Exception, match=said):
        read(spark, logs, **options).collect()


def test_temporary_views(spark: SparkSession, tmp_path: Path) -> None:
    logs = make_logs(tmp_path, commits=1)
    name = f"v{uuid4().hex}"
    spark.sql(f"create temporary view {name} using indextables options (path '{logs.path}')")
    found = spark.sql(
        f"create temporary view {name}q using indextables options (path '{logs.path}', query 'message:disk')"
    )
    assert found.collect() == []
    hits = Table.open(logs.path).count(query="message:disk")
    assert spark.sql(f"select * from {name}q").count() == hits
    spark.sql(f"insert into {name} select * from {name} where id < 10")
    assert Table.open(logs.path).count() == 210
    spark.sql(f"insert into {name} (id, message) values (1000, 'new line'), (1001, null)")
    assert Table.open(logs.path).count(where="id >= 1000 and day is null") == 2


def test_catalog_tables_that_leave_their_columns_to_us(spark: SparkSession, tmp_path: Path) -> None:
    one, other = (
        make_logs(tmp_path / "one", commits=1),
        make_logs(tmp_path / "other", commits=1, rows=50),
    )
    names = [f"t{uuid4().hex}" for _ in range(2)]
    try:
        for name, logs in zip(names, (one, other), strict=True):
            spark.sql(f"create table {name} using indextables options (path '{logs.path}')")
        assert spark.table(names[0]).count() == 200
        assert spark.table(names[1]).where("id < 10").count() == 10
        spark.sql(f"insert into {names[1]} select * from {names[0]} where id < 7")
        assert (Table.open(one.path).count(), Table.open(other.path).count()) == (200, 57)
    finally:
        for name in names:
            spark.sql(f"drop table if exists {name}")


def test_catalog_tables_that_name_their_columns_say_what_to_write_instead(
    spark: SparkSession, logs: Logs
) -> None:
    name = f"t{uuid4().hex}"
    with pytest.raises(AnalysisException, match="Leave the columns out"):
        spark.sql(f"create table {name} (id long) using indextables options (path '{logs.path}')")
    assert not spark.catalog.tableExists(name)


def test_plain_writes(spark: SparkSession, tmp_path: Path, parquet: DataFrame) -> None:
    path = str(tmp_path / "t")
    writer = (
        parquet.write.format("indextables").options(**OPTIONS).option("partitionColumns", "day")
    )
    writer.mode("append").save(path)
    table = Table.open(path)
    assert table.partition_columns == ["day"]
    assert_same_rows(its.table(spark, path), parquet)
    parquet.limit(10).write.format("indextables").mode("append").option(
        "userMetadata", "more"
    ).save(path)
    assert table.refresh().history(limit=1)["user_metadata"].to_pylist() == ["more"]
    parquet.where("day = '2024-03-09'").limit(3).write.format("indextables").mode(
        "overwrite"
    ).option("partitionOverwriteMode", "dynamic").save(path)
    assert its.table(spark, path).where("day = '2024-03-09'").count() == 3
    assert its.table(spark, path).where("day = '2024-03-08'").count() > 100
    parquet.where("false").write.format("indextables").mode("overwrite").save(path)
    assert its.table(spark, path).count() == 0


def test_a_plain_write_adds_columns_and_is_made_once(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    spark.range(3).write.format("indextables").mode("append").save(path)
    wider = spark.sql("select 7L as id, 'x' as more").write.format("indextables").mode("append")
    wider = wider.option("mergeSchema", True).option("txnAppId", "job").option("txnVersion", 1)
    for _ in range(2):
        wider.save(path)
    assert rows_of(its.table(spark, path)) == [
        ("0", "None"),
        ("1", "None"),
        ("2", "None"),
        ("7", "'x'"),
    ]
    half = spark.range(3).write.format("indextables").mode("append").option("txnAppId", "job")
    with pytest.raises(AnalysisException, match="txnAppId is given without txnVersion"):
        half.save(path)


def test_case_of_columns_survives_sparks_lower_case_options(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = str(tmp_path / "t")
    frame = spark.sql("select 'a word' as MyText")
    frame.write.format("indextables").mode("append").option("indexing.typemap.MyText", "text").save(
        path
    )
    assert Table.open(path).count(query="MyText:word") == 1


def test_a_schema_that_does_not_fit_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    spark.range(3).write.format("indextables").mode("append").save(path)
    with pytest.raises(AnalysisException, match=r"SchemaMismatchError.*'id' is string"):
        spark.sql("select 'x' as id").write.format("indextables").mode("append").save(path)
    assert Table.open(path).version == 1


def test_search_is_checked_before_spark_starts(spark: SparkSession, logs: Logs) -> None:
    with pytest.raises(QuerySyntaxError):
        its.search(spark, logs.path, "message:(")
    with pytest.raises(InvalidInputError, match="no column 'nothing'"):
        its.search(spark, logs.path, "message:disk", columns=["nothing"])
    with pytest.raises(InvalidInputError, match="text column 'id'"):
        its.search(spark, logs.path, "message:disk", snippet="id")


def test_search_gives_what_the_table_gives(spark: SparkSession, logs: Logs) -> None:
    table = Table.open(logs.path)
    every = its.search(
        spark, logs.path, "message:disk -level:ERROR", where="ms > 10", columns=["id", "message"]
    )
    assert rows_of(every) == rows_of(
        spark.createDataFrame(
            table.search("message:disk -level:ERROR", where="ms > 10", columns=["id", "message"])
        )
    )
    best = its.search(
        spark, logs.path, "message:disk message:cache", limit=9, options={"read.splitsPerTask": 2}
    )
    wanted = table.search("message:disk message:cache", limit=9)
    assert [r["_score"] for r in best.collect()] == pytest.approx(wanted["_score"].to_pylist())
    old = its.search(spark, logs.path, "message:disk", version=1)
    assert old.count() == Table.open(logs.path, version=1).count(query="message:disk")


def test_counts_and_aggregations(spark: SparkSession, logs: Logs, parquet: DataFrame) -> None:
    each = {"read.splitsPerTask": 3}
    assert its.count(spark, logs.path) == 600
    assert (
        its.count(spark, logs.path, where="day = '2024-03-09'")
        == parquet.where("day = '2024-03-09'").count()
    )
    found = its.count(spark, logs.path, query="message:disk", where="id > 50", options=each)
    assert found == parquet.where("id > 50 and array_contains(split(message, ' '), 'disk')").count()
    spec = {"levels": {"terms": {"field": "level", "size": 10}}}
    frame = its.aggregate(spark, logs.path, spec, query="message:disk", options=each)
    assert_same_rows(
        frame, spark.createDataFrame(Table.open(logs.path).aggregate(spec, query="message:disk"))
    )


def test_explain_says_what_happened(spark: SparkSession, logs: Logs) -> None:
    report = its.explain(spark, logs.path, query="message:disk", where="day = '2024-03-09'")
    assert report.splits_pruned_by_partition == 12
    assert report.splits_opened == 3
    assert report.rows_matched == its.count(
        spark, logs.path, query="message:disk", where="day = '2024-03-09'"
    )
    assert report.read_by == "the data source: a search opens the index"
    assert "splits_pruned_by_partition" in str(report)


def test_explain_says_who_reads(spark: SparkSession, logs: Logs) -> None:
    native = its.explain(spark, logs.path, columns=["id"])
    assert (native.read_by, native.rows_matched) == ("Spark's own Parquet scan", 600)
    assert len(native.splits) == native.splits_opened == 15
    arrow = its.explain(
        spark, logs.path, where="id < 10", options={"read.engine": "arrow", "read.splitsPerTask": 2}
    )
    assert (arrow.read_by, arrow.rows_matched) == ("the data source: read.engine is arrow", 10)

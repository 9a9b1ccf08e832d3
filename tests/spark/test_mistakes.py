"""What hands mistype: the error has a class, no traceback, and says what to write in the words of
Spark's users.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import indextables.spark as its
from indextables import Table
from indextables.spark.compat import STREAMS_HAVE_LIMITS
from tests.support.delta_steps import Call, Step, frame, rows_of, run


def follow(spark: SparkSession, path: str, **options: str) -> None:
    stream = spark.readStream.format("indextables").options(**options).load(path)
    query = stream.writeStream.format("noop").trigger(availableNow=True).start()
    query.awaitTermination()


def mistakes(path: str) -> list[Step]:
    """What hands mistype, through the reader, the writer, streams and SQL."""

    def read(**options: str) -> Call:
        return lambda s: s.read.format("indextables").options(**options).load(path)

    def write(
        frame_of: Callable[[DataFrame], DataFrame], mode: str = "append", **options: str
    ) -> Call:
        return lambda s: (
            frame_of(frame(s, 1))
            .write.format("indextables")
            .mode(mode)
            .options(**options)
            .save(path)
        )

    def same(rows: DataFrame) -> DataFrame:
        return rows

    named = f"indextables.`{path}`"
    return [
        Step(
            lambda s: s.read.format("indextables").load(f"{path}-gone"),
            says=["no table at", 'df.write.format("indextables").mode("append")'],
        ),
        Step(read(versionAsOf="99"), says=["Version 99", "Versions 0 to 1 can be read"]),
        Step(read(verionAsOf="1"), says=["Did you mean 'versionAsOf'"]),
        Step(read(query="message:("), says=["position 9"]),
        Step(read(query="nope:x"), says=["no column 'nope'", "Known columns: id, message"]),
        Step(read(where="nope = 1"), says=["no column 'nope'"]),
        Step(read(limit="many"), says=["'limit' cannot be 'many'", "a whole number"]),
        Step(read(score="true"), says=["no score without a query"]),
        Step(write(same, "error"), says=["UNSUPPORTED_DATA_SOURCE_SAVE_MODE", "Append"]),
        Step(
            write(lambda rows: rows.withColumn("extra", f.lit(1))),
            says=["'extra' (int) is not in the table", '.option("mergeSchema", "true")'],
        ),
        Step(
            write(lambda rows: rows.selectExpr("'a' AS id")),
            says=["'id' is string, the table has bigint"],
        ),
        Step(write(same, mergSchema="true"), says=["Did you mean 'mergeSchema'"]),
        Step(
            write(same, **{"indexing.typemap.message": "txt"}),
            says=["cannot be 'txt'", "string, text"],
        ),
        Step(write(same, "overwrite", replaceWhere="nope = 1"), says=["no column 'nope'"]),
        Step(write(same, replaceWhere="id = 1"), says=["needs the mode overwrite"]),
        Step(
            lambda s: follow(s, path, startingVersion="77"),
            says=["no version 77", "Start with latest"],
        ),
        Step(
            lambda s: follow(s, path, maxFilesPerTrigger="0"),
            says=[
                "'maxFilesPerTrigger' cannot be '0'"
                if STREAMS_HAVE_LIMITS
                else "maxFilesPerTrigger needs Spark 4.2"
            ],
        ),
        Step(lambda s: follow(s, path, query="nope:x"), says=["no column 'nope'"]),
        Step(
            f"SELECT * FROM {named} WHERE id TEXTSEARCH 'x'",
            says=["TEXTSEARCH needs a text column", "message"],
        ),
        Step(f"SELECT * FROM {named} WHERE message TEXTSEARCH 'a AND ('", says=["position 7"]),
        Step(
            f"SELECT id FROM {named} WHERE textsearch(message, message)",
            says=["one text that is no column"],
        ),
        Step(
            "VACUUM indextables.`" + path + "` RETAIN 0 HOURS",
            says=["SET spark.indextables.purge.retentionCheck"],
        ),
        Step("OPTIMIZE nowhere", says=["INDEXTABLES_TABLE_NOT_FOUND", "nowhere"]),
        Step("DESCRIBE HISTORY nowhere", says=["INDEXTABLES_TABLE_NOT_FOUND", "nowhere"]),
        Step(
            "RESTORE TABLE indextables.`/no/such` TO VERSION AS OF 1",
            says=["INDEXTABLES_TABLE_NOT_FOUND"],
        ),
    ]


def test_mistakes_are_told_in_the_words_of_sparks_users(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = f"{tmp_path}/mistaken"
    its.write(frame(spark, 1), path, options={"indexing.typemap.message": "text"})
    before = Table.open(path).version
    for step in mistakes(path):
        run(spark, step, {})
    assert Table.open(path).version == before


def test_an_overwrite_may_replace_the_columns(spark: SparkSession, tmp_path: Path) -> None:
    path = f"{tmp_path}/replaced"
    its.write(frame(spark, 1, 2), path)
    other = (
        frame(spark, 7)
        .selectExpr("id AS number", "true AS flag")
        .write.format("indextables")
        .mode("overwrite")
    )
    other.option("overwriteSchema", "true").save(path)
    assert rows_of(its.table(spark, path)) == [(7, True)]
    assert its.table(spark, path).columns == ["number", "flag"]
    assert its.table(spark, path, version=1).count() == 2

"""UPDATE, MERGE INTO and DELETE as statements: what they assign, and what they report about a wrong
statement.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import indextables.spark as its
from indextables import Table
from indextables.spark.compat import SPARK

STRUCTS = (
    "id INT, s STRUCT<a: INT, b: INT>, inner STRUCT<x: STRUCT<a: INT, b: INT>, y: INT>, list ARRAY<STRUCT<a: INT, b: INT>>, "
    "map MAP<STRING, STRUCT<a: INT, b: INT>>"
)
AB = "named_struct('a', 1, 'b', 2)"
BA = "named_struct('b', 20, 'a', 10)"
OLD = f"{AB} AS s, named_struct('x', {AB}, 'y', 3) AS inner, array({AB}) AS list, map('k', {AB}) AS map"
NEW = f"{BA} AS s, named_struct('y', 30, 'x', {BA}) AS inner, array({BA}) AS list, map('k', {BA}) AS map"
CHANGED = ((10, 20), ((10, 20), 30), [(10, 20)], {"k": (10, 20)})


@pytest.fixture
def structs(spark: SparkSession, tmp_path: Path) -> Iterator[str]:
    """A table of nested columns with one row."""
    spark.sql(f"CREATE TABLE nested ({STRUCTS}) USING indextables LOCATION '{tmp_path}/t'")
    spark.sql(f"INSERT INTO nested SELECT 1, {OLD}")
    yield "nested"
    spark.sql("DROP TABLE nested")


def values(spark: SparkSession, table: str, id: int) -> tuple[Any, ...]:  # noqa: A002
    row = spark.sql(f"SELECT s, inner, list, map FROM {table} WHERE id = {id}").collect()[0]
    listed, mapped = (
        [tuple(each) for each in row["list"]],
        {key: tuple(each) for key, each in row["map"].items()},
    )
    return tuple(row["s"]), (tuple(row["inner"]["x"]), row["inner"]["y"]), listed, mapped


@pytest.mark.parametrize(
    "statement",
    [
        f"UPDATE nested SET s = {BA}, inner = named_struct('y', 30, 'x', {BA}), list = array({BA}), map = map('k', {BA})",
        f"MERGE INTO nested t USING (SELECT 1 AS id, {NEW}) n ON t.id = n.id WHEN MATCHED THEN UPDATE SET *",
        f"MERGE INTO nested t USING (SELECT 1 AS id, {NEW}) n ON t.id = n.id WHEN MATCHED THEN "
        "UPDATE SET s = n.s, inner = n.inner, list = n.list, map = n.map",
        f"MERGE INTO nested t USING (SELECT 7 AS id) n ON t.id = n.id WHEN NOT MATCHED BY SOURCE THEN "
        f"UPDATE SET s = {BA}, inner = named_struct('y', 30, 'x', {BA}), list = array({BA}), map = map('k', {BA})",
    ],
)
def test_fields_of_structs_are_assigned_by_name(
    spark: SparkSession, structs: str, statement: str
) -> None:
    spark.sql(statement)
    assert values(spark, structs, 1) == CHANGED


@pytest.mark.parametrize(
    "clause",
    ["INSERT *", "INSERT (id, s, inner, list, map) VALUES (n.id, n.s, n.inner, n.list, n.map)"],
)
def test_inserted_structs_are_assigned_by_name(
    spark: SparkSession, structs: str, clause: str
) -> None:
    spark.sql(
        f"MERGE INTO nested t USING (SELECT 2 AS id, {NEW}) n ON t.id = n.id WHEN NOT MATCHED THEN {clause}"
    )
    assert values(spark, structs, 2) == CHANGED


def test_python_assigns_structs_by_name(spark: SparkSession, structs: str, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    its.update(spark, path, set={"s": BA})
    assert values(spark, structs, 1)[0] == (10, 20)
    source = spark.sql(f"SELECT 1 AS id, {NEW} UNION ALL SELECT 2 AS id, {NEW}")
    merge = its.merge_into(source, path, on="target.id = source.id")
    merge.when_matched_update_all().when_not_matched_insert_all().execute()
    assert values(spark, structs, 1) == values(spark, structs, 2) == CHANGED


def test_a_field_of_a_struct_is_set_alone(spark: SparkSession, structs: str) -> None:
    spark.sql("UPDATE nested SET s.b = s.b + 5, inner.x.a = 9 WHERE nested.id = 1")
    assert values(spark, structs, 1)[:2] == ((1, 7), ((9, 2), 3))


@pytest.mark.parametrize(
    ("statement", "condition"),
    [
        ("UPDATE few SET i = 10000000000L", "CAST_OVERFLOW_IN_TABLE_INSERT"),
        ("UPDATE few SET i = 'five'", "INCOMPATIBLE_DATA_FOR_TABLE.CANNOT_SAFELY_CAST"),
        ("UPDATE few SET b = 200", "CAST_OVERFLOW_IN_TABLE_INSERT"),
        ("UPDATE few SET d = 123456.7BD", "CAST_OVERFLOW_IN_TABLE_INSERT"),
        ("UPDATE few SET s = named_struct('a', 10000000000L)", "CAST_OVERFLOW_IN_TABLE_INSERT"),
        (
            "MERGE INTO few t USING (SELECT 1 AS i) n ON t.i = n.i WHEN MATCHED THEN UPDATE SET i = 10000000000L",
            "CAST_OVERFLOW_IN_TABLE_INSERT",
        ),
        (
            "MERGE INTO few t USING (SELECT 10000000000L AS i) n ON t.i = n.i WHEN NOT MATCHED THEN INSERT (i) VALUES (n.i)",
            "CAST_OVERFLOW_IN_TABLE_INSERT",
        ),
        (
            "MERGE INTO few t USING (SELECT 8 AS i) n ON t.i = n.i WHEN NOT MATCHED BY SOURCE THEN UPDATE SET i = 'x'",
            "INCOMPATIBLE_DATA_FOR_TABLE.CANNOT_SAFELY_CAST",
        ),
    ],
)
@pytest.mark.parametrize("ansi", ["true", "false"])
def test_every_assignment_follows_the_store_assignment_policy(
    spark: SparkSession, tmp_path: Path, statement: str, condition: str, ansi: str
) -> None:
    """What INSERT refuses, UPDATE and MERGE refuse, also without ANSI mode; nothing is wrapped or
    null.
    """
    columns = "i INT, b TINYINT, d DECIMAL(5, 1), s STRUCT<a: INT>"
    spark.sql(f"CREATE TABLE few ({columns}) USING indextables LOCATION '{tmp_path}/t'")
    spark.conf.set("spark.sql.ansi.enabled", ansi)
    try:
        spark.sql("INSERT INTO few VALUES (1, 1, 1.5, named_struct('a', 1))")
        with pytest.raises(PySparkException) as raised:
            spark.sql(statement)
        assert condition in str(raised.value)
        assert [tuple(row)[:2] for row in spark.sql("SELECT * FROM few").collect()] == [(1, 1)]
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")
        spark.sql("DROP TABLE few")


def test_default_is_a_value_in_update_and_merge(spark: SparkSession, tmp_path: Path) -> None:
    spark.sql(f"CREATE TABLE plain (id INT, v STRING) USING indextables LOCATION '{tmp_path}/t'")
    spark.sql("INSERT INTO plain VALUES (1, 'x'), (2, 'y'), (3, DEFAULT)")
    spark.sql("UPDATE plain SET v = DEFAULT WHERE id = 1")
    source = "(SELECT explode(array(2, 4)) AS id)"
    spark.sql(
        f"MERGE INTO plain t USING {source} s ON t.id = s.id WHEN MATCHED THEN UPDATE SET t.v = DEFAULT "
        "WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, DEFAULT)"
    )
    rows = sorted(tuple(row) for row in spark.sql("SELECT * FROM plain").collect())
    assert rows == [(1, None), (2, None), (3, None), (4, None)]
    spark.sql("DROP TABLE plain")


S = "USING (SELECT 1 AS id, 'x' AS w) n ON t.id = n.id"
WRONG = {
    "UPDATE wrong SET nothing = 1": ("UNRESOLVED_COLUMN", "`nothing`"),
    "UPDATE wrong SET id = nothing": ("UNRESOLVED_COLUMN", "`nothing`"),
    "UPDATE wrong SET id = 1 WHERE nothing = 1": ("UNRESOLVED_COLUMN", "`nothing`"),
    "UPDATE wrong SET id = 1, id = 2": ("ASSIGNMENTS", "'id'"),
    "UPDATE wrong SET s.a = 1, s = null": ("ASSIGNMENTS", "'s'"),
    "UPDATE wrong SET s.q = 1": ("FIELD_NOT_FOUND", "`q`"),
    "UPDATE wrong SET v.q = 1": ("INVALID_EXTRACT_BASE_FIELD_TYPE", '"v"'),
    "UPDATE wrong SET id = 'abc'": (
        "CANNOT_SAFELY_CAST",
        "the table `wrong`: Cannot safely cast `id`",
    ),
    "UPDATE wrong SET s = named_struct('a', 1, 'b', 2, 'z', 3)": ("EXTRA_STRUCT_FIELDS", "`z`"),
    "UPDATE wrong SET s = named_struct('z', 2)": ("CANNOT_FIND_DATA", "`s`."),
    "UPDATE wrong SET id = sum(id)": ("UNSUPPORTED_EXPR_FOR_OPERATOR", "sum(id)"),
    "UPDATE wrong SET id = row_number() OVER (ORDER BY id)": (
        "UNSUPPORTED_EXPR_FOR_OPERATOR",
        "row_number()",
    ),
    "UPDATE wrong SET id = explode(array(1))": ("UNSUPPORTED_GENERATOR", "explode"),
    "UPDATE wrong SET id = no_function(1)": ("UNRESOLVED_ROUTINE", "`no_function`"),
    "UPDATE wrong SET id = 1 WHERE v": ("FILTER_NOT_BOOLEAN", "wrong.v"),
    "UPDATE wrong SET id = 1 WHERE max(id) = 1": ("UNSUPPORTED_EXPR_FOR_OPERATOR", "max(id)"),
    "UPDATE wrong SET id = 1 WHERE rand() < 1": ("INVALID_NON_DETERMINISTIC_EXPRESSIONS", "rand()"),
    "UPDATE wrong SET id = (SELECT nothing FROM wrong)": ("UNRESOLVED_COLUMN", "`nothing`"),
    "UPDATE wrong t SET id = 1 WHERE wrong.id = 1": ("UNRESOLVED_COLUMN", "`wrong`.`id`"),
    "DELETE FROM wrong WHERE nothing = 1": ("UNRESOLVED_COLUMN", "`nothing`"),
    "DELETE FROM wrong WHERE v": ("FILTER_NOT_BOOLEAN", "wrong.v"),
    "DELETE FROM wrong WHERE null": ("FILTER_NOT_BOOLEAN", "NULL"),
    "DELETE FROM wrong WHERE sum(id) > 1": ("UNSUPPORTED_EXPR_FOR_OPERATOR", "sum(id)"),
    "DELETE FROM wrong WHERE uuid() = 'x'": ("INVALID_NON_DETERMINISTIC_EXPRESSIONS", "uuid()"),
    "DELETE FROM wrong WHERE id IN (SELECT nothing FROM wrong)": ("UNRESOLVED_COLUMN", "`nothing`"),
    "DELETE FROM wrong WHERE _score > 1": ("INDEXTABLES_INVALID_INPUT", "_score"),
    f"MERGE INTO wrong t {S} AND t.nothing = 1 WHEN MATCHED THEN DELETE": (
        "UNRESOLVED_COLUMN",
        "`t`.`nothing`",
    ),
    "MERGE INTO wrong t USING (SELECT 1 AS id) n ON id = 1 WHEN MATCHED THEN DELETE": (
        "AMBIGUOUS_REFERENCE",
        "`id`",
    ),
    f"MERGE INTO wrong t {S} AND rand() < 1 WHEN MATCHED THEN DELETE": (
        "NON_DETERMINISTIC",
        "rand()",
    ),
    "MERGE INTO wrong t USING (SELECT 1 AS id) n ON n.id WHEN MATCHED THEN DELETE": (
        "FILTER_NOT_BOOLEAN",
        "n.id",
    ),
    "MERGE INTO wrong t USING absent n ON t.id = n.id WHEN MATCHED THEN DELETE": (
        "TABLE_OR_VIEW_NOT_FOUND",
        "`absent`",
    ),
    f"MERGE INTO wrong t {S} WHEN MATCHED AND t.v THEN DELETE": ("FILTER_NOT_BOOLEAN", "t.v"),
    f"MERGE INTO wrong t {S} WHEN MATCHED AND n.nothing > 1 THEN DELETE": (
        "UNRESOLVED_COLUMN",
        "`n`.`nothing`",
    ),
    f"MERGE INTO wrong t {S} WHEN MATCHED THEN UPDATE SET v = n.nothing": (
        "UNRESOLVED_COLUMN",
        "`n`.`nothing`",
    ),
    f"MERGE INTO wrong t {S} WHEN MATCHED THEN UPDATE SET nothing = n.id": (
        "UNRESOLVED_COLUMN",
        "`nothing`",
    ),
    f"MERGE INTO wrong t {S} WHEN MATCHED THEN UPDATE SET id = n.w": ("CANNOT_SAFELY_CAST", "`id`"),
    f"MERGE INTO wrong t {S} WHEN MATCHED THEN UPDATE SET v = max(n.w)": (
        "UNSUPPORTED_EXPR_FOR_OPERATOR",
        "max(w)",
    ),
    f"MERGE INTO wrong t {S} WHEN MATCHED THEN UPDATE SET *": (
        "INDEXTABLES_SCHEMA_MISMATCH",
        "no column 's'",
    ),
    f"MERGE INTO wrong t {S} WHEN NOT MATCHED THEN INSERT *": (
        "INDEXTABLES_SCHEMA_MISMATCH",
        "no column 's'",
    ),
    f"MERGE INTO wrong t {S} WHEN NOT MATCHED THEN INSERT (id) VALUES (t.id)": (
        "UNRESOLVED_COLUMN",
        "`t`.`id`",
    ),
    f"MERGE INTO wrong t {S} WHEN NOT MATCHED THEN INSERT (nothing) VALUES (1)": (
        "UNRESOLVED_COLUMN",
        "`nothing`",
    ),
    f"MERGE INTO wrong t {S} WHEN NOT MATCHED THEN INSERT (id, id) VALUES (1, 2)": (
        "ASSIGNMENTS",
        "'id'",
    ),
    f"MERGE INTO wrong t {S} WHEN NOT MATCHED THEN INSERT (id, v) VALUES (1)": (
        ("COUNT_MISMATCH", "INSERT clause")
        if SPARK >= (4, 1)
        else ("The number of inserted values", "fields")
    ),
    f"MERGE INTO wrong t {S} WHEN NOT MATCHED BY SOURCE THEN UPDATE SET v = n.w": (
        "UNRESOLVED_COLUMN",
        "`n`.`w`",
    ),
    f"MERGE INTO wrong t {S} WHEN NOT MATCHED BY SOURCE AND n.id > 1 THEN DELETE": (
        "UNRESOLVED_COLUMN",
        "`n`.`id`",
    ),
}
INTERNAL = (
    "__",
    "Project [id#",
    "LogicalRDD",
    "InMemoryRelation",
    "Traceback",
    "INTERNAL_ERROR",
    "unresolvedalias(",
)


def test_errors_of_wrong_statements_name_what_the_user_wrote(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = str(tmp_path / "t")
    spark.sql(
        f"CREATE TABLE wrong (id INT, s STRUCT<a: INT, b: INT>, v STRING) USING indextables LOCATION '{path}'"
    )
    spark.sql("INSERT INTO wrong VALUES (1, named_struct('a', 1, 'b', 2), 'x')")
    version = Table.open(path).version
    for statement, (condition, name) in WRONG.items():
        with pytest.raises(PySparkException) as raised:
            spark.sql(statement)
        message = str(raised.value)
        assert condition in message and name in message, (statement, message)
        assert not any(word in message for word in INTERNAL if word not in statement), (
            statement,
            message,
        )
        assert raised.value.getCondition(), statement
    assert Table.open(path).version == version
    spark.sql("DROP TABLE wrong")


def test_values_may_be_random_and_columns_may_have_any_name(
    spark: SparkSession, tmp_path: Path
) -> None:
    spark.sql(
        f"CREATE TABLE odd (`__row` INT, `__file` STRING, `a.b` INT) USING indextables LOCATION '{tmp_path}/t'"
    )
    spark.sql("INSERT INTO odd VALUES (1, 'x', 1), (2, 'y', 2)")
    spark.sql("UPDATE odd SET `__file` = uuid(), `a.b` = `a.b` + 1")
    rows = spark.sql("SELECT `__row`, `__file`, `a.b` FROM odd ORDER BY 1").collect()
    assert [(row[0], len(row[1]), row[2]) for row in rows] == [(1, 36, 2), (2, 36, 3)]
    spark.sql(
        "MERGE INTO odd USING (SELECT 1 AS `__row`, 'merged' AS `__file`, 5 AS `a.b`) s ON odd.`__row` = s.`__row` "
        "WHEN MATCHED THEN UPDATE SET `__file` = s.`__file`, `a.b` = s.`a.b`"
    )
    assert tuple(spark.sql("SELECT * FROM odd WHERE `__row` = 1").collect()[0]) == (1, "merged", 5)
    spark.sql("DROP TABLE odd")


def test_a_merge_adds_columns_in_its_own_version_only(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    spark.sql(f"CREATE TABLE grown (id INT, v STRING) USING indextables LOCATION '{path}'")
    spark.sql("INSERT INTO grown VALUES (1, 'x')")
    before = Table.open(path).version
    merge = "MERGE WITH SCHEMA EVOLUTION INTO grown t USING (SELECT explode(array(1, 2)) AS id, 7 AS w) s ON t.id = s.id "
    with pytest.raises(PySparkException, match="CAST_OVERFLOW_IN_TABLE_INSERT"):
        spark.sql(merge + "WHEN MATCHED THEN UPDATE SET id = 10000000000L, w = s.w")
    assert Table.open(path).version == before and Table.open(path).schema.names == ["id", "v"]
    spark.sql(merge + "WHEN MATCHED THEN UPDATE SET w = s.w WHEN NOT MATCHED THEN INSERT *")
    assert Table.open(path).version == before + 1
    assert sorted(tuple(row) for row in spark.sql("SELECT * FROM grown").collect()) == [
        (1, "x", 7),
        (2, None, 7),
    ]
    spark.sql("DROP TABLE grown")


def test_a_text_that_looks_like_a_search_is_an_ordinary_value(
    spark: SparkSession, tmp_path: Path
) -> None:
    spark.sql(f"CREATE TABLE looks (id INT, note STRING) USING indextables LOCATION '{tmp_path}/t'")
    spark.sql(
        "INSERT INTO looks VALUES (1, 'textsearch('), (2, 'indexquery(x)'), (3, 'fieldmatchall('), (4, 'plain')"
    )
    spark.sql("UPDATE looks SET note = 'indexqueryall(' WHERE note = 'indexquery(x)'")
    spark.sql("DELETE FROM looks WHERE note = 'textsearch(' AND id < 9")
    spark.sql(
        "MERGE INTO looks t USING (SELECT 'fieldmatchall(' AS w) s ON t.note = s.w AND t.note = 'fieldmatchall(' "
        "WHEN MATCHED THEN DELETE"
    )
    assert sorted(map(tuple, spark.table("looks").collect())) == [
        (2, "indexqueryall("),
        (4, "plain"),
    ]
    for statement in (
        "UPDATE looks SET id = 0 WHERE note TEXTSEARCH 'plain' OR id = 2",
        "DELETE FROM looks WHERE upper(note) = 'X' OR note TEXTSEARCH 'plain'",
        "DELETE FROM looks WHERE NOT tantivy4spark_textsearch(note, 'plain')",
    ):
        with pytest.raises(PySparkException, match="INDEXTABLES_UNSUPPORTED"):
            spark.sql(statement)
    assert spark.table("looks").count() == 2
    spark.sql("DROP TABLE looks")

"""DELETE, UPDATE and MERGE INTO as analyzed by Spark against the columns of one version of a table.

Names, subqueries, DEFAULT and stars have Spark's meaning, and Spark reports errors about the
original statement. Columns get their values by the names of struct fields and under
`spark.sql.storeAssignmentPolicy`, as in an INSERT (`java/RowChangePlan.java`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from py4j.protocol import Py4JJavaError
from pyspark.errors.exceptions.captured import convert_exception
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.classic.column import Column as ClassicColumn
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame
from pyspark.sql.types import StructField, StructType

from indextables.errors import InvalidInputError, SchemaMismatchError
from indextables.spark.jvm import java_classes
from indextables.spark.schemas import quoted


@dataclass(frozen=True)
class Clause:
    """A WHEN clause of a merge from Python. Without `values` every column is taken from the source."""

    kind: Literal["update", "delete", "insert"]
    condition: Column | None = None
    values: Mapping[str, Column] | None = None


@dataclass(frozen=True)
class RowAction:
    """Action on the rows for which a condition is true: the values of all columns in the table's
    order.
    """

    kind: Literal["update", "delete", "insert"]
    condition: Column | None
    values: tuple[Column, ...]


@dataclass(frozen=True)
class RowPlan:
    """An analyzed statement. `schema` are the columns that the table has afterwards."""

    spark: SparkSession
    plan: Any
    schema: StructType

    @classmethod
    def of(
        cls, spark: SparkSession, plan: Any, name: str, schema: StructType, *, evolves: bool = False
    ) -> RowPlan:
        """Analyze a parsed statement on a named table; `evolves` permits new columns of a source.

        Raises AnalysisException for what Spark refuses, and SchemaMismatchError for a star that
        lacks a column.
        """
        session = spark._jsparkSession
        actions = _actions(plan)
        stars = any(_is_star(action) for action in actions)
        if stars or evolves:
            source_json = _call(spark, "sourceSchema", session, plan, name, schema.json())
            if source_json is None:
                source = None
            else:
                source = StructType.fromJson(json.loads(source_json))
            if source is not None and evolves:
                schema = _widen_schema(schema, source, None if stars else actions)
            elif source is not None:
                _check_star(schema, source)
        change = _call(spark, "resolved", session, plan, name, schema.json())
        return cls(spark, _call(spark, "aligned", session, change, evolves), schema)

    @property
    def condition(self) -> Column | None:
        """The condition of a DELETE or an UPDATE; None for every row."""
        given = self.plan.condition()
        if _name(self.plan) == "DeleteFromTable":
            if _name(given) == "Literal" and given.sql() == "true":
                return None
            return _column(given)
        return _optional(given)

    @property
    def values(self) -> tuple[Column, ...]:
        """The values of an UPDATE's columns."""
        return self._values(self.plan.assignments())

    @property
    def on(self) -> Column:
        """The condition of a MERGE INTO."""
        return _column(self.plan.mergeCondition())

    @property
    def source(self) -> DataFrame:
        """The source rows of a MERGE INTO."""
        return self._frame("frame", self.plan.sourceTable())

    @property
    def matched(self) -> list[RowAction]:
        """The WHEN MATCHED clauses."""
        return self._clauses(self.plan.matchedActions())

    @property
    def not_matched(self) -> list[RowAction]:
        """The WHEN NOT MATCHED clauses."""
        return self._clauses(self.plan.notMatchedActions())

    @property
    def not_matched_by_source(self) -> list[RowAction]:
        """The WHEN NOT MATCHED BY SOURCE clauses."""
        return self._clauses(self.plan.notMatchedBySourceActions())

    @property
    def reads_metadata(self) -> bool:
        """Whether an expression reads `_metadata`."""
        return "_metadata" in self._target_columns[len(self.schema) :]

    @cached_property
    def _target_columns(self) -> list[str]:
        return list(_call(self.spark, "targetColumns", self.plan))

    def rows(self, frame: DataFrame, extra: Sequence[str]) -> DataFrame:
        """Return rows of the table, with their metadata and further columns, as the statement's
        expressions read them.
        """
        columns = []
        for place, name in enumerate(self._target_columns):
            if place < len(self.schema):
                columns.append(_read_stored(frame, self.schema[name]))
            elif name == "_metadata":
                columns.append(f.col(name))
            else:
                columns.append(f.lit(None).alias(name))
        chosen = frame.select(*columns, *extra)
        return self._frame("asTarget", self.plan, chosen._jdf)

    def _frame(self, method: str, *arguments: Any) -> DataFrame:
        return ClassicDataFrame(
            _call(self.spark, method, self.spark._jsparkSession, *arguments), self.spark
        )

    def _clauses(self, actions: Any) -> list[RowAction]:
        return [self._action(action) for action in _seq(actions)]

    def _action(self, action: Any) -> RowAction:
        condition, name = _optional(action.condition()), _name(action)
        if name == "DeleteAction":
            return RowAction("delete", condition, ())
        kind: Literal["update", "insert"] = "update" if name == "UpdateAction" else "insert"
        return RowAction(kind, condition, self._values(action.assignments()))

    def _values(self, assignments: Any) -> tuple[Column, ...]:
        values = [_column(assignment.value()) for assignment in _seq(assignments)]
        return tuple(
            value.alias(name) for value, name in zip(values, self.schema.names, strict=True)
        )


# Statements of callers of Python.


def update_plan(
    spark: SparkSession, name: str, values: Mapping[str, Column], condition: Column | None
) -> Any:
    """Build an UPDATE as Spark's parser would return it."""
    return _call(spark, "update", name, *_pairs(spark, values), _java(condition))


def merge_plan(
    source: DataFrame,
    names: tuple[str, str],
    on: Column,
    clauses: Mapping[str, Sequence[Clause]],
) -> Any:
    """Build a MERGE INTO as Spark's parser would return it; `names` are those of target and source."""
    spark = source.sparkSession
    kinds = ("matched", "not_matched", "not_matched_by_source")
    actions = [
        _java_list(spark, [_java_action(spark, clause) for clause in clauses[kind]])
        for kind in kinds
    ]
    target, alias = names
    return _call(spark, "merge", target, source._jdf, alias, _java(on), *actions)


def _java_action(spark: SparkSession, clause: Clause) -> Any:
    condition = _java(clause.condition)
    if clause.kind == "delete":
        return _call(spark, "deleteAction", condition)
    if clause.values is None:
        return _call(spark, f"{clause.kind}StarAction", condition)
    return _call(spark, f"{clause.kind}Action", condition, *_pairs(spark, clause.values))


def _pairs(spark: SparkSession, values: Mapping[str, Column]) -> tuple[Any, Any]:
    return _java_list(spark, list(values)), _java_list(
        spark, [_java(value) for value in values.values()]
    )


def _java(column: Column | None) -> Any:
    if column is None:
        return None
    return column._jc


def _java_list(spark: SparkSession, values: Sequence[Any]) -> Any:
    gateway: Any = spark.sparkContext._gateway
    result = gateway.jvm.java.util.ArrayList()
    for value in values:
        result.add(value)
    return result


# Schema evolution.


def _widen_schema(
    schema: StructType, source: StructType, actions: Sequence[Any] | None
) -> StructType:
    """Return the schema with missing columns of a source: all (None), or those that clauses assign
    by name.
    """
    if actions is None:
        assigned = None
    else:
        assigned = {key.lower() for action in actions for key in _keys(action)}
    return _merge_fields(
        schema, [field for field in source if assigned is None or field.name.lower() in assigned]
    )


def _keys(action: Any) -> list[str]:
    if _name(action) == "DeleteAction":
        return []
    return [
        str(_seq(assignment.key().nameParts())[-1]) for assignment in _seq(action.assignments())
    ]


def _merge_fields(schema: StructType, other: Sequence[StructField]) -> StructType:
    known = {name.lower() for name in schema.names}
    added = [
        StructField(field.name, field.dataType)
        for field in other
        if field.name.lower() not in known
    ]
    return StructType([*schema, *added])


def _read_stored(frame: DataFrame, field: StructField) -> Column:
    """Return a column of stored rows, null if it is new."""
    if field.name in frame.columns:
        return f.col(quoted(field.name))
    return f.lit(None).cast(field.dataType).alias(field.name)


def _check_star(schema: StructType, source: StructType) -> None:
    names = {name.lower() for name in source.names}
    for name in schema.names:
        if name.lower() not in names:
            raise SchemaMismatchError(
                f"The source has no column {name!r}, which * would take from it.",
                hint="Name the columns: UPDATE SET a = s.a, INSERT (a) VALUES (s.a); or write MERGE WITH SCHEMA EVOLUTION.",
                column=name,
            )


def _is_star(action: Any) -> bool:
    return _name(action) in ("UpdateStarAction", "InsertStarAction")


def _actions(plan: Any) -> list[Any]:
    """Return the clauses of a parsed MERGE INTO, however it is wrapped; none of other statements."""
    while _name(plan) != "MergeIntoTable":
        if plan.children().isEmpty():
            return []
        plan = plan.children().head()
    kinds = (plan.matchedActions(), plan.notMatchedActions(), plan.notMatchedBySourceActions())
    return [action for actions in kinds for action in _seq(actions)]


def check_columns(names: Sequence[str], schema: StructType, path: str) -> None:
    """Raise InvalidInputError for assignments to missing columns, or to one column twice."""
    spelling = {name.lower(): name for name in schema.names}
    seen: set[str] = set()
    for given in names:
        name = spelling.get(given.lower())
        if name is None:
            raise InvalidInputError(
                f"{path} has no column {given!r}.", hint=f"Columns: {', '.join(schema.names)}."
            )
        if name in seen:
            raise InvalidInputError(f"Column {name!r} is given two values.", column=name)
        seen.add(name)


def _call(spark: SparkSession, method: str, *arguments: Any) -> Any:
    """Call the Java side. Its exceptions are raised as PySpark raises those of its own calls."""
    try:
        return java_classes(spark).call("RowChangePlan", method, *arguments)
    except Py4JJavaError as error:
        cause = error.java_exception.getCause() or error.java_exception
        raise convert_exception(cause) from None


def _optional(option: Any) -> Column | None:
    if option.isDefined():
        return _column(option.get())
    return None


def _column(expression: Any) -> Column:
    gateway: Any = SparkSession.active().sparkContext._gateway
    return ClassicColumn(
        gateway.jvm.org.apache.spark.sql.classic.ExpressionUtils.column(expression)
    )


def _seq(sequence: Any) -> list[Any]:
    return [sequence.apply(place) for place in range(sequence.size())]


def _name(node: Any) -> str:
    return str(node.getClass().getSimpleName())

"""Execute DELETE, UPDATE and MERGE INTO statements that Spark's parser has read (`row_changes`).

Conditions and values stay Spark's parsed expressions, so that subqueries and functions mean the
same as in any query. `java/RowChangeCommand.java` recognises the statements.
"""

from __future__ import annotations

import re
from typing import Any

from pyspark.sql import SparkSession

from indextables.errors import UnsupportedError
from indextables.query.plan import SearchOperator, searched
from indextables.spark.jvm import java_classes
from indextables.spark.row_changes import (
    MergeTarget,
    RowChangeReport,
    RowMerge,
    delete_rows,
    update_rows,
)
from indextables.spark.row_plans import RowPlan
from indextables.spark.settings import session_settings
from indextables.spark.upkeep import delete
from indextables.splits.query.fields import QueryFields
from indextables.table import Table


def escaped(column: str) -> str:
    """Quote a column name for a query."""
    return re.sub(r"([^\w.])", r"\\\1", column)


_SEARCHES = ("textsearch", "fieldmatch", "indexquery", "indexqueryall", "fieldmatchall")


def change_rows(spark: SparkSession, path: str, name: str, plan: Any) -> RowChangeReport:
    """Execute a parsed statement on the table at a path; errors use its name."""
    kind = _name(plan)
    statement = _Statement(spark, path, name)
    if kind == "DeleteFromTable":
        return statement.delete(plan)
    if kind == "UpdateTable":
        return statement.update(plan)
    return statement.merge(plan)


class _Statement:
    def __init__(self, spark: SparkSession, path: str, name: str) -> None:
        self._spark = spark
        self._path = path
        self._name = name

    def _analyse(self, plan: Any, *, evolves: bool = False) -> tuple[MergeTarget, RowPlan]:
        target = MergeTarget.open(self._spark, self._path, session_settings(self._spark))
        return target, RowPlan.of(self._spark, plan, self._name, target.schema, evolves=evolves)

    def delete(self, plan: Any) -> RowChangeReport:
        condition = plan.condition()
        searches = self._searches(condition)
        if not searches:
            return delete_rows(*self._analyse(plan))
        query = " AND ".join(f"({search})" for search in searches)
        report = delete(self._spark, self._path, query=query)
        return RowChangeReport(
            report.table_path, "DELETE", 0, report.deleted_rows or 0, 0, report.version
        )

    def _searches(self, condition: Any) -> list[str]:
        """Return the searches of a condition that consists of nothing else, as queries; none
        otherwise.
        """
        if _name(condition) == "And":
            sides = [self._searches(condition.left()), self._searches(condition.right())]
            if any(sides) and not all(sides):
                raise self._mixed_error(condition)
            return [search for side in sides for search in side]
        if _name(condition) == "UnresolvedFunction":
            name = _seq(condition.nameParts())[-1].lower()
        else:
            name = None
        if name not in _SEARCHES:
            if self._has_search(condition):
                raise self._mixed_error(condition)
            return []
        *column, query = _seq(condition.arguments())
        text = str(query.value())
        operator = SearchOperator(name, _seq(column[0].nameParts())[-1] if column else None, text)
        self._check(operator)
        if name == "fieldmatchall":
            raise UnsupportedError(
                f"A DELETE cannot search all columns for a whole value: {condition.sql()}.",
                hint="Nothing was deleted. Write one DELETE for each column that is meant: WHERE level FIELDMATCH '...'.",
            )
        return [text if operator.column is None else f"{escaped(operator.column)}:({text})"]

    def _check(self, operator: SearchOperator) -> None:
        """Refuse a condition that a SELECT refuses, so that its text cannot extend beyond it."""
        table = Table.open(self._path, options=session_settings(self._spark))
        fields = QueryFields.of(table.handle.logical_columns, table.settings)
        searched([operator], None, fields, now_ms=0)

    def _mixed_error(self, condition: Any) -> UnsupportedError:
        return UnsupportedError(
            f"A DELETE by a search cannot have other conditions too: {condition.sql()}.",
            hint=f"Nothing was deleted. Use its.delete(spark, {self._path!r}, query='message:timeout', where=\"day = 'x'\").",
        )

    def _has_search(self, condition: Any) -> bool:
        """Return whether a condition has a search; one in a subquery is Spark's."""
        return bool(java_classes(self._spark).call("SearchFunction", "isIn", condition))

    def _check_no_search(self, verb: str, condition: Any) -> None:
        """Refuse a search in a statement that cannot have one; inside a subquery Spark handles it."""
        if self._has_search(condition):
            raise UnsupportedError(
                f"{verb} cannot have a search in its condition: {condition.sql()}.",
                hint="Nothing was changed. Search in a subquery: WHERE id IN (SELECT id FROM t WHERE text TEXTSEARCH 'x'), "
                f"or in the USING of a MERGE. In Python, Table.open({self._path!r}).update(set=, query=) does it.",
            )

    def update(self, plan: Any) -> RowChangeReport:
        if plan.condition().isDefined():
            self._check_no_search("UPDATE", plan.condition().get())
        return update_rows(*self._analyse(plan))

    def merge(self, plan: Any) -> RowChangeReport:
        self._check_no_search("MERGE INTO", plan.mergeCondition())
        evolves = bool(plan.withSchemaEvolution())
        return RowMerge(*self._analyse(plan, evolves=evolves), merge_schema=evolves).run()


def _seq(sequence: Any) -> list[Any]:
    return [sequence.apply(place) for place in range(sequence.size())]


def _name(node: Any) -> str:
    return str(node.getClass().getSimpleName())

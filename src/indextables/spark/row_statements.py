"""DELETE, UPDATE and MERGE INTO as Spark's own parser has read them, as changes of rows (`row_changes`).

Conditions and values stay the expressions that Spark has parsed, so that subqueries and functions mean what they mean in
any query. (`java/RowChangeCommand.java` recognises the statements.)
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.classic.column import Column as ClassicColumn
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

from indextables.errors import UnsupportedError
from indextables.scan.plan import SearchOperator, query_fields, searched
from indextables.spark.row_changes import Clause, MergeTarget, RowChangeReport, RowMerge, delete_rows, update_rows
from indextables.spark.settings import session_settings
from indextables.spark.upkeep import delete
from indextables.table import Table


def escaped(column: str) -> str:
    """A column as a query names it."""
    return re.sub(r"([^\w.])", r"\\\1", column)


_SEARCHES = ("textsearch", "fieldmatch", "indexquery", "indexqueryall", "fieldmatchall")


def change_rows(spark: SparkSession, path: str, alias: str, plan: Any) -> RowChangeReport:
    """Carry out a statement that Spark has parsed, on the table at a path."""
    kind = _name(plan)
    statement = _Statement(spark, path, alias)
    if kind == "DeleteFromTable":
        return statement.delete(plan)
    return statement.update(plan) if kind == "UpdateTable" else statement.merge(plan)


class _Statement:
    def __init__(self, spark: SparkSession, path: str, alias: str) -> None:
        self._spark = spark
        self._path = path
        self._alias = alias
        gateway: Any = spark.sparkContext._gateway
        self._jvm = gateway.jvm

    def _target(self) -> MergeTarget:
        return MergeTarget.open(self._spark, self._path, self._alias, session_settings(self._spark))

    def delete(self, plan: Any) -> RowChangeReport:
        condition = plan.condition()
        searches = self._searches(condition)
        if not searches:
            everything = _name(condition) == "Literal"
            return delete_rows(
                self._target(), None if everything and condition.sql() == "true" else self._column(condition)
            )
        query = " AND ".join(f"({search})" for search in searches)
        report = delete(self._spark, self._path, query=query)
        return RowChangeReport(report.table_path, "DELETE", 0, report.deleted_rows or 0, 0, report.version)

    def _searches(self, condition: Any) -> list[str]:
        """The searches of a condition that consists of nothing else, as queries; none if it has none."""
        if _name(condition) == "And":
            sides = [self._searches(condition.left()), self._searches(condition.right())]
            if any(sides) and not all(sides):
                raise self._mixed(condition)
            return [search for side in sides for search in side]
        name = _seq(condition.nameParts())[-1].lower() if _name(condition) == "UnresolvedFunction" else None
        if name not in _SEARCHES:
            if any(f"{search}(" in condition.sql().lower() for search in _SEARCHES):
                raise self._mixed(condition)
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
        """Refuse by itself what a SELECT refuses, so that nothing in its text reaches beyond it."""
        table = Table.open(self._path, options=session_settings(self._spark))
        fields = query_fields(table.schema, table.partition_columns, table.settings)
        searched([operator], None, fields, now_ms=0)

    def _mixed(self, condition: Any) -> UnsupportedError:
        return UnsupportedError(
            f"A DELETE by a search cannot have other conditions too: {condition.sql()}.",
            hint=f"Nothing was deleted. Use its.delete(spark, {self._path!r}, query='message:timeout', where=\"day = 'x'\").",
        )

    def _check_no_search(self, verb: str, condition: Any) -> None:
        """Refuse a search among the conditions of a statement that cannot have one; in a subquery it is Spark's."""
        if any(f"{search}(" in condition.sql().lower() for search in _SEARCHES):
            raise UnsupportedError(
                f"{verb} cannot have a search in its condition: {condition.sql()}.",
                hint="Nothing was changed. Search in a subquery: WHERE id IN (SELECT id FROM t WHERE text TEXTSEARCH 'x'), "
                f"or in the USING of a MERGE. In Python, Table.open({self._path!r}).update(set=, query=) does it.",
            )

    def update(self, plan: Any) -> RowChangeReport:
        if plan.condition().isDefined():
            self._check_no_search("UPDATE", plan.condition().get())
        return update_rows(self._target(), self._values(plan.assignments()), self._optional(plan.condition()))

    def merge(self, plan: Any) -> RowChangeReport:
        self._check_no_search("MERGE INTO", plan.mergeCondition())
        source, alias = self._source(plan.sourceTable())
        merge = RowMerge(
            self._target(),
            source,
            alias,
            self._column(plan.mergeCondition()),
            matched=[self._clause(each) for each in _seq(plan.matchedActions())],
            not_matched=[self._clause(each) for each in _seq(plan.notMatchedActions())],
            not_matched_by_source=[self._clause(each) for each in _seq(plan.notMatchedBySourceActions())],
            merge_schema=bool(plan.withSchemaEvolution()),
        )
        return merge.run()

    def _source(self, plan: Any) -> tuple[DataFrame, str]:
        frame = self._jvm.org.apache.spark.sql.classic.Dataset.ofRows(self._spark._jsparkSession, plan)
        name = _name(plan)
        if name == "SubqueryAlias":
            alias = str(plan.identifier().name())
        elif name == "UnresolvedRelation":
            alias = str(_seq(plan.multipartIdentifier())[-1])
        else:
            alias = "source"
        return ClassicDataFrame(frame, self._spark), alias

    def _clause(self, action: Any) -> Clause:
        condition, name = self._optional(action.condition()), _name(action)
        if name == "DeleteAction":
            return Clause("delete", condition)
        values = None if "Star" in name else self._values(action.assignments())
        return Clause("update" if name.startswith("Update") else "insert", condition, values)

    def _values(self, assignments: Any) -> Mapping[str, Column]:
        values: dict[str, Column] = {}
        for assignment in _seq(assignments):
            parts = [str(part) for part in _seq(assignment.key().nameParts())]
            if len(parts) > 1 and parts[0].lower() == self._alias.lower():
                parts = parts[1:]
            if len(parts) != 1:
                raise UnsupportedError(
                    f"A part of a column cannot be set: {'.'.join(parts)}.",
                    hint=f"Set the whole column: {parts[0]} = named_struct(...).",
                )
            if parts[0] in values:
                raise UnsupportedError(f"Column {parts[0]!r} is given two values.")
            values[parts[0]] = self._column(assignment.value())
        return values

    def _optional(self, option: Any) -> Column | None:
        return self._column(option.get()) if option.isDefined() else None

    def _column(self, expression: Any) -> Column:
        return ClassicColumn(self._jvm.org.apache.spark.sql.classic.ExpressionUtils.column(expression))


def _seq(sequence: Any) -> list[Any]:
    return [sequence.apply(place) for place in range(sequence.size())]


def _name(node: Any) -> str:
    return str(node.getClass().getSimpleName())

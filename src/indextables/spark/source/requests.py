"""What a read asks for: which columns it returns, and whether its rows are ranked, scored or shown in snippets."""

from __future__ import annotations

import json
from collections.abc import Sequence

from msgspec import Struct
from pyspark.sql.types import FloatType, StringType, StructField, StructType

from indextables.errors import InvalidInputError
from indextables.model.predicate import all_of, parse
from indextables.model.schema import SCORE, SNIPPET
from indextables.scan.operators import SearchOperator, searched
from indextables.scan.plan import ScanPlan, query_fields
from indextables.spark.schemas import readable, with_path
from indextables.spark.source.filters import understood_filters
from indextables.spark.source.options import SourceOptions
from indextables.splits.query.tree import Query
from indextables.splits.search import SearchRequest
from indextables.splits.snippets import Snippet
from indextables.table import Table


class ReadRequest(Struct, frozen=True):
    """The options of a read, parsed."""

    query: str | None
    where: str | None
    columns: tuple[str, ...] | None
    limit: int | None
    limit_is_of_task: bool
    score: bool
    snippet: str | None
    operators: tuple[SearchOperator, ...] = ()
    filters: str | None = None
    """What the extension found in the plan around the read: search operators, and filters as JSON."""

    @classmethod
    def parse(cls, options: SourceOptions) -> ReadRequest:
        """Read the options; what makes no sense together is an error."""
        request = cls(
            query=options.text("query"),
            where=options.text("where"),
            columns=options.names("columns"),
            limit=options.number("limit"),
            limit_is_of_task=options.flag("limitPerTask"),
            score=options.flag("score"),
            snippet=options.text("snippet"),
            operators=tuple(SearchOperator(*told) for told in json.loads(options.text("searches") or "[]")),
            filters=options.text("filters"),
        )
        if request.query is None and (request.score or request.snippet):
            what = "score" if request.score else "snippet"
            raise InvalidInputError(f"There is no {what} without a query.", hint="Give the option query.", key=what)
        return request

    @property
    def searches(self) -> bool:
        """Whether rows are ranked or come with something that only a search knows."""
        return self.query is not None and (self.limit is not None or self.score or self.snippet is not None)

    def schema(self, table: Table) -> StructType:
        """The columns that the read returns, with the table's path where Spark will have lost the options."""
        full = readable(table.metadata.schema_string)
        if self.columns is not None:
            full = StructType([full[name] for name in table.plan_scan(columns=self.columns).columns])
        fields = list(full.fields)
        if self.searches and (self.score or self.limit is not None):
            fields.append(StructField(SCORE, FloatType()))
        if self.snippet is not None:
            fields.append(StructField(SNIPPET, StringType()))
        return with_path(StructType(fields), table.path)

    def plan(self, table: Table, columns: Sequence[str] | None) -> ScanPlan:
        """The scan that finds the rows."""
        query: str | Query | None = self.query
        if self.operators:
            fields = query_fields(table.schema, table.partition_columns, table.settings)
            query = searched(self.operators, self.query, fields)
        conditions = understood_filters(self.filters, table.schema)
        if self.where is not None:
            conditions.append(parse(self.where))
        return table.plan_scan(query=query, where=all_of(conditions) if conditions else None, columns=columns)

    def search(self, table: Table, columns: list[str]) -> tuple[list[str], SearchRequest | None]:
        """The table's own columns among those that are wanted, and the search that finds the rows if there is one."""
        if not self.searches:
            return columns, None
        stored = [name for name in columns if name not in (SCORE, SNIPPET)]
        plan = self.plan(table, stored)
        assert plan.query is not None
        request = SearchRequest(
            plan.query,
            plan.columns,
            where=plan.where,
            limit=self.limit,
            score=SCORE in columns,
            snippet=None if self.snippet is None or SNIPPET not in columns else Snippet(self.snippet),
        )
        request.check(table.schema)
        return stored, request

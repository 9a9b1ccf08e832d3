"""Options of the data source: a few of its own, and every setting, with lower-case keys from Spark.

`ReadRequest` is the parsed request of a read: its columns, and whether rows are ranked, scored or
have snippets.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, TypeVar

from msgspec import Struct
from msgspec.structs import replace
from pyspark.sql.types import FloatType, StringType, StructField, StructType

from indextables import config
from indextables.config.indexing import FilterSettings
from indextables.config.values import integer, parse_bool, parse_size
from indextables.errors import InvalidInputError, UnknownOptionError, nearest
from indextables.model.predicate import Predicate, all_of, bound_predicate, parse
from indextables.model.schema import (
    SCORE,
    SNIPPET,
    find_column,
    is_partitionable,
    normalize,
    schema_to_json,
)
from indextables.query.aggregate.result import result_schema
from indextables.query.aggregate.spec import Aggregations, parse_spec
from indextables.query.plan import (
    ScanPlan,
    SearchOperator,
    json_columns,
    output_columns,
    physical_query,
    plan_scan,
    searched,
)
from indextables.query.search import TableSearch
from indextables.spark.schemas import readable, with_path
from indextables.spark.settings import HADOOP, bare, file_system_settings, unknown_in_session
from indextables.spark.source.answers import is_null_free
from indextables.spark.source.filters import MatchColumns, parse_filters
from indextables.splits.query.fields import QueryFields
from indextables.splits.query.tree import AllRows, Query
from indextables.splits.search.order import OrderBy
from indextables.splits.search.search import SearchRequest
from indextables.splits.search.snippets import Snippet
from indextables.table import Table

T = TypeVar("T")

SPARKS_OWN = frozenset({"path", "checkpointlocation", "queryname"}) | {
    *(
        "owner",
        "provider",
        "location",
        "external",
        "is_managed_location",
        "comment",
        "collation",
        "table_type",
    ),
}
"""Options that Spark reads and passes on, and the properties of catalog tables."""
OWN = (
    "query",
    "where",
    "columns",
    "limit",
    "versionAsOf",
    "timestampAsOf",
    "score",
    "snippet",
    "aggregate",
    "only",
    "frame",
    "limitPerTask",
    "physicalNames",
    "partitionColumns",
    "text",
    "substring",
    "mergeSchema",
    "overwriteSchema",
    "replaceWhere",
    "partitionOverwriteMode",
    "userMetadata",
    "txnAppId",
    "txnVersion",
    "startingVersion",
    "endingVersion",
    "startingTimestamp",
    "endingTimestamp",
    "maxFilesPerTrigger",
    "maxBytesPerTrigger",
    "ignoreChanges",
    "readChangeFeed",
    "searches",
    "filters",
    "exact",
    "aggregation",
    "order",
    "rows",
    "matches",
    "parallelism",
    "thorough",
    "definition",
    "replaceFilters",
)
_OWN = {name.lower(): name for name in OWN}


class SourceOptions(Struct, frozen=True):
    """The options of one read or write by kind. Settings may hold credentials and are not in the
    repr.
    """

    path: str | None
    own: Mapping[str, str]
    settings: Mapping[str, str] = {}

    def __repr__(self) -> str:
        return f"SourceOptions(path={self.path!r}, own={self.own!r})"

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> SourceOptions:
        """Sort options. An unknown one raises an error with the nearest known names."""
        own: dict[str, str] = {}
        settings: dict[str, str] = {}
        for key, value in options.items():
            name = bare(key)
            if key.lower().startswith(HADOOP):
                continue  # of Spark's own file systems, see below
            if name.lower() in _OWN:
                own[_OWN[name.lower()]] = value
            elif name != key and not config.is_setting(name):
                unknown_in_session(name)
            elif name.lower() not in SPARKS_OWN and not name.lower().startswith("option."):
                settings[name] = value
        _check_known(settings)
        settings = {**file_system_settings(options, settings), **settings}
        return cls(options.get("path") or options.get("location"), own, settings)

    def required_path(self, schema_path: str | None = None) -> str:
        """Return the table's path, or raise an error that explains how to pass one."""
        if self.path or schema_path:
            return str(self.path or schema_path)
        raise InvalidInputError(
            "The table's path is not known here: Spark does not keep it for tables of its catalog.",
            hint="Use CREATE TEMPORARY VIEW v USING indextables OPTIONS (path '...') to read and to INSERT INTO. "
            "A table that is only read can be CREATE TABLE t USING indextables OPTIONS (path '...'), without columns.",
        )

    def text(self, name: str) -> str | None:
        """Return an option as text; an empty one counts as missing."""
        return self.own.get(name) or None

    def number(self, name: str, low: int = 0) -> int | None:
        """Return an integer option."""
        return self._parse(name, integer(low).parse, f"a whole number, at least {low}")

    def version(self, name: str) -> int | Literal["latest"] | None:
        """Return a version number, or the word `latest`."""
        if (self.text(name) or "").strip().lower() == "latest":
            return "latest"
        return self._parse(name, integer(0).parse, "a version from 0 up, or latest")

    def flag(self, name: str) -> bool:
        """Return a boolean option; False if missing."""
        return bool(self._parse(name, parse_bool, "true or false"))

    def size(self, name: str) -> int | None:
        """Return an option as a number of bytes."""
        return self._parse(name, parse_size, "bytes, or a text such as 512M")

    def names(self, name: str) -> tuple[str, ...] | None:
        """Return a list of names: a JSON list, or names separated by commas."""
        return self._parse(name, parse_names, "names separated by commas, or a JSON list of names")

    def _parse(self, name: str, parse: Callable[[Any], T], allowed: str) -> T | None:
        value = self.text(name)
        if value is None:
            return None
        try:
            return parse(value)
        except ValueError:
            message = f"Option {name!r} cannot be {value!r}."
            raise InvalidInputError(message, hint=f"Allowed: {allowed}.", key=name) from None


def parse_names(text: str) -> tuple[str, ...]:
    """Parse names from a JSON list or a comma-separated text."""
    if text.lstrip().startswith("["):
        names = json.loads(text)
        if not all(isinstance(name, str) for name in names):
            raise ValueError(text)
        return tuple(names)
    return tuple(name.strip() for name in text.split(",") if name.strip())


def with_column_case(settings: Mapping[str, str], columns: Iterable[str]) -> dict[str, str]:
    """Return settings whose per-column keys have the schema's spelling, because Spark lower-cases
    them.
    """
    spelling = {name.lower(): name for name in columns}
    result = {}
    for key, value in settings.items():
        setting, column = config.REGISTRY.find(key)
        if column is not None:
            key = setting.key[:-1] + spelling.get(column.lower(), column)
        result[key] = value
    return result


def _check_known(settings: Mapping[str, str]) -> None:
    for key in settings:
        try:
            config.REGISTRY.find(key)
        except UnknownOptionError as error:
            near = nearest(key.lower(), _OWN, count=2, cutoff=0.75)
            suggestions = [_OWN[name] for name in near] or [
                name for name in OWN if name.lower().startswith(key.lower()[:4])
            ]
            if suggestions:
                hint = f"Did you mean {' or '.join(map(repr, suggestions))}?"
            else:
                hint = error.hint
            raise UnknownOptionError(
                f"There is no option or setting {key!r}.",
                hint=hint,
                key=key,
                nearest=suggestions or error.context["nearest"],
            ) from None


class ReadRequest(Struct, frozen=True):
    """The parsed options of a read."""

    query: str | None
    where: str | None
    columns: tuple[str, ...] | None
    limit: int | None
    limit_is_of_task: bool
    score: bool
    snippet: str | None
    aggregate: str | None = None
    operators: tuple[SearchOperator, ...] = ()
    filters: str | None = None
    exact: str | None = None
    aggregation: str | None = None
    order: tuple[str, str, str] | None = None
    rows: int | None = None
    matches: str | None = None
    """What the extension found in the plan around the read: search operators; filters as JSON, and
    which of them Spark leaves to the scan; an aggregation; an order (column, direction, nulls) and
    a row limit. The last three only save work: Spark sorts and limits again.
    """

    @classmethod
    def parse(cls, options: SourceOptions) -> ReadRequest:
        """Parse the options; contradictory ones raise an error."""
        request = cls(
            query=options.text("query"),
            where=options.text("where"),
            columns=options.names("columns"),
            limit=options.number("limit"),
            limit_is_of_task=options.flag("limitPerTask"),
            score=options.flag("score"),
            snippet=options.text("snippet"),
            aggregate=options.text("aggregate"),
            operators=tuple(
                SearchOperator(*operator)
                for operator in json.loads(options.text("searches") or "[]")
            ),
            filters=options.text("filters"),
            exact=options.text("exact"),
            aggregation=options.text("aggregation"),
            order=None
            if options.text("order") is None
            else tuple(json.loads(options.text("order") or "")),
            rows=options.number("rows"),
            matches=options.text("matches"),
        )
        if request.query is None and (request.score or request.snippet):
            what = "score" if request.score else "snippet"
            raise InvalidInputError(
                f"There is no {what} without a query.", hint="Give the option query.", key=what
            )
        if request.aggregate is not None and (
            request.searches or request.limit is not None or request.columns is not None
        ):
            raise InvalidInputError(
                "The option aggregate cannot be combined with columns, limit, score or snippet.",
                hint="Its rows are aggregations of every row that matches query and where.",
                key="aggregate",
            )
        return request

    @property
    def searches(self) -> bool:
        """Return whether rows are ranked or have columns that only a search provides."""
        return self.query is not None and (
            self.limit is not None or self.score or self.snippet is not None
        )

    def schema(self, table: Table) -> StructType:
        """Return the columns of the read, with the table's path where Spark will have lost the
        options.
        """
        aggregations = self.aggregations(table)
        if aggregations is not None:
            columns = result_schema(aggregations)
            return with_path(readable(schema_to_json(normalize(columns))), table.path)
        full = readable(table.metadata.schema_string)
        if self.columns is not None:
            full = StructType([full[name] for name in output_columns(table.schema, self.columns)])
        fields = list(full.fields)
        if self.searches and (self.score or self.limit is not None):
            fields.append(StructField(SCORE, FloatType()))
        if self.snippet is not None:
            fields.append(StructField(SNIPPET, StringType()))
        return with_path(StructType(fields), table.path)

    def aggregations(self, table: Table) -> Aggregations | None:
        """Return the aggregations of the option `aggregate`; None without it."""
        if self.aggregate is None:
            return None
        try:
            spec = json.loads(self.aggregate)
        except ValueError as error:
            message = f"Option 'aggregate' is not JSON: {error}."
            hint = 'Write it as {"levels": {"terms": {"field": "level"}}}.'
            raise InvalidInputError(message, hint=hint, key="aggregate") from None
        return parse_spec(spec, table.schema, json_columns(table.handle))

    def check(self, table: Table) -> None:
        """Refuse a request that cannot be parsed or answered, without pruning splits."""
        schema = table.schema
        query, where = self._conditions(table)
        columns = output_columns(schema, schema.names if self.columns is None else self.columns)
        if self.searches and query is not None:
            if self.snippet is None:
                snippet = None
            else:
                snippet = Snippet(self.snippet)
            SearchRequest(
                query, tuple(columns), where, self.limit, score=self.score, snippet=snippet
            ).check(schema)

    def plan(
        self, table: Table, columns: Sequence[str] | None, *, order_by: str | None = None
    ) -> ScanPlan:
        """Plan the scan that finds the rows."""
        query, where = self._conditions(table)
        return plan_scan(table.handle, query=query, where=where, columns=columns, order_by=order_by)

    def first(self, table: Table, columns: Sequence[str]) -> TableSearch | None:
        """Return the search for the first rows by a column, or None if all rows are needed."""
        if self.order is None or self.rows is None or self.best is not None:
            return None
        name, direction, nulls = self.order
        column = find_column(table.schema, name)
        if not is_partitionable(table.schema.field(column).type):
            return None
        if nulls == "nulls first" and not is_null_free(
            table.files(), table.handle.names.column(column)
        ):
            return None
        plan = self.plan(table, columns, order_by=column)
        if plan.query is not None:
            plan = plan
        else:
            plan = replace(plan, query=AllRows())
        return TableSearch.of(plan, limit=self.rows, order_by=OrderBy(column, direction == "desc"))

    @property
    def best(self) -> int | None:
        """Return how many rows are needed if the best of a search, or any, suffice."""
        if self.order is None or self.order[0] == SCORE:
            return self.rows
        return None

    def ranked(self, table: Table, columns: Sequence[str]) -> TableSearch:
        """Return the rows of the search operators, with the columns that only a search provides."""
        plan = self.plan(table, [name for name in columns if name not in (SCORE, SNIPPET)])
        snippet = None
        if SNIPPET in columns:
            named = table.handle.viewed or table.handle
            searched_columns = [
                operator.column for operator in self.operators if operator.column is not None
            ]
            column = self.snippet or next(iter(searched_columns), None)
            if column is None:
                raise InvalidInputError(
                    "Of a search in all columns there is no snippet: it is not known of which column.",
                    hint="Search a column: message TEXTSEARCH '...'.",
                )
            snippet = Snippet(find_column(named.schema, column))
        return TableSearch.of(plan, limit=self.best, score=SCORE in columns, snippet=snippet)

    def search(self, table: Table, columns: Sequence[str]) -> TableSearch:
        """Return the search that finds the rows, with score and snippet columns."""
        plan = self.plan(table, [name for name in columns if name not in (SCORE, SNIPPET)])
        if self.snippet is None or SNIPPET not in columns:
            snippet = None
        else:
            snippet = Snippet(self.snippet)
        return TableSearch.of(plan, limit=self.limit, score=SCORE in columns, snippet=snippet)

    def _conditions(self, table: Table) -> tuple[Query | None, Predicate | None]:
        """Return query and predicate of the read: the query with search operators, the condition
        with filters.
        """
        text, exact = self._own_filters(table)
        filters = parse_filters(text, table.schema, exact)
        if self.where is not None:
            filters.append(parse(self.where))
        now_ms = table.handle.log.now_ms()
        if filters:
            where = bound_predicate(
                all_of(filters), table.schema, now_ms=now_ms, zone=table.handle.time_zone
            )
        else:
            where = None
        if self.query is None and not self.operators:
            return None, where
        viewed = table.handle.viewed
        if viewed is None:
            return searched(self.operators, self.query, self._fields(table), now_ms=now_ms), where
        names = viewed.names
        operators = [
            replace(o, column=None if o.column is None else names.logical_name(o.column))
            for o in self.operators
        ]
        query = searched(operators, self.query, self._fields(table), now_ms=now_ms)
        return None if query is None else physical_query(query, names), where

    def match_columns(self, table: Table) -> MatchColumns | None:
        """Return the columns that hold whether a row matches a search, with the filters over them."""
        if self.matches is None:
            return None
        viewed, told = table.handle.viewed, self.matches
        if viewed is not None:
            told = json.dumps(
                [
                    [n, f, None if c is None else viewed.names.logical_name(c), q]
                    for n, f, c, q in json.loads(told)
                ]
            )
        found = MatchColumns.parse(told, self._fields(table), now_ms=table.handle.log.now_ms())
        if viewed is not None:
            found = found.under(viewed.names)
        by_rows = table.settings.group(FilterSettings).by_rows
        return found.with_filters(self.filters, self.exact, table.schema, by_rows=by_rows)

    def exact_filters(self, table: Table) -> str:
        """Return a letter for each filter: y for those that the read applies exactly as Spark
        would.
        """
        columns, letters = self.match_columns(table), []
        for node in json.loads(self.filters or "[]"):
            known = parse_filters(json.dumps([node]), table.schema)
            letters.append(
                "y" if known or (columns and columns.condition(node, table.schema)) else "n"
            )
        return "".join(letters)

    def _own_filters(self, table: Table) -> tuple[str | None, str | None]:
        """Return the filters over table columns alone, and their letters."""
        columns = self.match_columns(table) if self.filters else None
        if columns is None:
            return self.filters, self.exact
        nodes = json.loads(self.filters or "[]")
        own = [number for number, node in enumerate(nodes) if not columns.mentioned(node)]
        if self.exact is None:
            exact = None
        else:
            exact = "".join(self.exact[number] for number in own)
        return json.dumps([nodes[number] for number in own]), exact

    def _fields(self, table: Table) -> QueryFields:
        """Return the columns as queries name them: by logical names, even if the read has physical
        ones.
        """
        named = table.handle.viewed or table.handle
        return QueryFields.of(named.logical_columns, named.settings)

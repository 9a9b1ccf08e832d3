"""`Table`: every verb that a person calls, from opening to repair. A verb checks, plans and calls the room that does it.

Verbs that change a table commit one version, or none if there was nothing to do. All of them raise errors of the tree in
`indextables.errors`, which name the thing, the place and the way out; the docstrings say which ones belong to the verb.
What concerns every verb is not repeated: StorageError, TableNotFoundError, CorruptTableError, and RefusedError where a
table that was opened at an older version is to be changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

import pyarrow as pa

from indextables.errors import InvalidInputError, shown
from indextables.handle import ENGINE_INFO, TableHandle, older_snapshot, open_log, version_of
from indextables.inspect import figures, inspection
from indextables.log.checkpoint.state_writer import Compact
from indextables.log.create import create_table
from indextables.log.transaction import Transaction
from indextables.model.arguments import (
    Moment,
    number,
    text,
    whole_number,
)
from indextables.model.calls import checked_calls, class_only
from indextables.model.conflicts import Operation
from indextables.model.predicate import Where
from indextables.model.report import Progress, silent
from indextables.operations import (
    alter,
    append,
    checkpoint,
    definition,
    delete,
    drop_partitions,
    drop_table,
    erase,
    expire,
    merge,
    overwrite,
    purge,
    reindex,
    repair,
    restore,
    table_transaction,
    tags,
    truncate,
    update,
    upsert,
    verify,
)
from indextables.operations.write_request import WriteRequest
from indextables.query import change_feed, prewarm, search_options, search_pages
from indextables.query import explain as explaining
from indextables.query.aggregate import result as aggregation
from indextables.query.plan import json_columns, plan_scan
from indextables.query.search_options import ExplainedRows, SearchOptions
from indextables.query.task import ScanTask, limited
from indextables.storage.location import check_characters
from indextables.table import administration, frames

if TYPE_CHECKING:
    import duckdb
    import polars as pl

    from indextables.config import Settings
    from indextables.inspect.figures import Plots
    from indextables.inspect.inspection import Inspection, MetricsReport
    from indextables.log.cache import CacheStats
    from indextables.log.checkpoint.checkpointer import CheckpointReport, StateReport
    from indextables.model.actions import MetadataAction, ProtocolAction
    from indextables.operations.alter import Alteration
    from indextables.operations.delete import DeleteReport
    from indextables.operations.drop_partitions import DropReport
    from indextables.operations.drop_table import DropTableReport
    from indextables.operations.erase import EraseReport
    from indextables.operations.jobs import Execute
    from indextables.operations.merge import MergeOutcome, MergeReport, MergeTask
    from indextables.operations.purge import PurgeReport
    from indextables.operations.rebuild import RepairReport
    from indextables.operations.reindex import ReindexReport
    from indextables.operations.restore import RestoreReport
    from indextables.operations.row_removal import DeleteOutcome, DeleteTask
    from indextables.operations.truncate import TruncateReport
    from indextables.operations.update import UpdateReport
    from indextables.operations.upsert import UpsertReport, WhenMatched, WhenNotMatched
    from indextables.operations.verify import Finding, VerifyReport, VerifyTask
    from indextables.query.explain import ScanReport
    from indextables.query.prewarm import Prewarmed
    from indextables.query.search_pages import SearchPage
    from indextables.table.administration import Administration
    from indextables.table.frames import ParquetView

T = TypeVar("T", bound="Table")


@checked_calls
class Table:
    """A table of full-text search indexes. Open one with `Table.open(path)`, make one with `Table.create(path, ...)`.

    `where` is everywhere SQL text such as "level = 'ERROR'", a `pyarrow.compute` expression, or a predicate tree; `query`
    is text of the query language: words, "a phrase", column:word, column:>5, AND, OR, NOT. `len(t)` counts the rows,
    iterating yields them, each as a dict.
    """

    def __init__(self, handle: TableHandle) -> None:
        self._handle = handle

    # Opening and creating.

    @classmethod
    def open(
        cls: type[T],
        path: str,
        *,
        version: int | str | None = None,
        timestamp: Moment | None = None,
        options: Mapping[str, object] | None = None,
        max_staleness: float | None = None,
    ) -> T:
        """Open the table at `path` (a local path or a URL) at its newest version, at an older one, or as of a timestamp.

        `version` is a number or a tag; `timestamp` a datetime, ISO text or milliseconds since 1970. Either makes the
        table read-only. `options` are settings. `max_staleness` (seconds) allows a version that this process has read
        within that time, without asking the store. Raises TableNotFoundError, and VersionNotFoundError for a version
        that was cleaned away or never was.

            Table.open("s3://bucket/logs", version=12)
        """
        log = open_log(path, options)
        if version is None and timestamp is None:
            seconds = None if max_staleness is None else number("max_staleness", max_staleness, "seconds")
            return cls(TableHandle(log, log.newest(max_staleness_seconds=seconds), options))
        older = older_snapshot(log, version_of(log, version=version, timestamp=timestamp))
        return cls(TableHandle(log, older, options, pinned=True))

    @classmethod
    def create(
        cls: type[T],
        path: str,
        *,
        schema: pa.Schema,
        partition_columns: list[str] | tuple[str, ...] = (),
        text: Sequence[str] = (),
        substring: Sequence[str] = (),
        options: Mapping[str, object] | None = None,
        exist_ok: bool = False,
        name: str | None = None,
        description: str | None = None,
    ) -> T:
        """Create a table at `path` with the columns of `schema`, in folders by the values of `partition_columns`.

        `text` names the string columns that are searched by their words, `substring` those whose parts are indexed for
        `LIKE '%x%'`. `options` that a table may carry are kept in its metadata; the others hold for this handle only.
        `exist_ok` opens an existing table of the same layout. `name` and `description` are for people. Raises
        TableExistsError, and InvalidInputError for columns or settings of the index that do not fit.

            Table.create("logs", schema=schema, partition_columns=["day"], text=["message"])
        """
        if text or substring:
            options = definition.index_options(options, schema, text=text, substring=substring)
        log = open_log(path, options)
        metadata = definition.new_metadata(
            schema,
            partition_columns,
            options,
            table_id=log.new_id(),
            created_time=log.now_ms(),
            name=name,
            description=description,
        )
        snapshot = create_table(log, metadata, exist_ok=exist_ok, engine_info=ENGINE_INFO)
        return cls(TableHandle(log, snapshot, options))

    def refresh(self: T) -> T:
        """The table at its newest version, which can be changed: `t = t.refresh()`."""
        return type(self)(self.handle.with_snapshot(self.handle.log.newest()))

    # What the table is.

    @property
    def handle(self) -> TableHandle:
        """The log, snapshot and settings of the table, for the other packages of this library. It may change."""
        return self._handle

    @property
    def path(self) -> str:
        """Path or URL of the table."""
        return self.handle.path

    @property
    def version(self) -> int:
        """The version that is shown."""
        return self.handle.version

    @property
    def schema(self) -> pa.Schema:
        """The columns of the table."""
        return self.handle.schema

    @property
    def partition_columns(self) -> list[str]:
        """The columns by which the table is partitioned."""
        return self.handle.partition_columns

    @property
    def metadata(self) -> MetadataAction:
        """Identity, schema, partitioning and configuration."""
        return self.handle.metadata

    @property
    def protocol(self) -> ProtocolAction:
        """Which readers and writers the table needs."""
        return self.handle.protocol

    @property
    def settings(self) -> Settings:
        """The settings in force: options, then the configuration of the table, then defaults."""
        return self.handle.settings

    def to_dict(self) -> dict[str, Any]:
        """What the table is, as plain values."""
        return self.handle.to_dict()

    def __repr__(self) -> str:
        return f"Table({self.path!r}, version={self.version})"

    # Finding rows.

    def scan(
        self, *, where: Where | None = None, columns: Sequence[str] | None = None, limit: int | None = None
    ) -> pa.RecordBatchReader:
        """Rows as a stream of batches: those that match `where`, only `columns`, at most `limit` of them.

        for batch in t.scan(where="day >= '2026-11-01'", columns=["level"]): ...
        """
        return self._reader(None, where, columns, limit)

    @overload
    def search(
        self,
        query: str,
        *,
        where: Where | None = None,
        columns: Sequence[str] | None = None,
        limit: int | None = None,
        offset: int = 0,
        score: bool = False,
        snippet: str | None = None,
        order_by: str | Sequence[str] | None = None,
        search_after: str | None = None,
        highlight: str | Sequence[str] | Mapping[str, Any] | None = None,
        explain: Literal[False] = False,
    ) -> pa.Table: ...

    @overload
    def search(
        self,
        query: str,
        *,
        where: Where | None = None,
        columns: Sequence[str] | None = None,
        limit: int | None = None,
        offset: int = 0,
        score: bool = False,
        snippet: str | None = None,
        order_by: str | Sequence[str] | None = None,
        search_after: str | None = None,
        highlight: str | Sequence[str] | Mapping[str, Any] | None = None,
        explain: Literal[True],
    ) -> ExplainedRows: ...

    def search(
        self,
        query: str,
        *,
        where: Where | None = None,
        columns: Sequence[str] | None = None,
        limit: int | None = None,
        offset: int = 0,
        score: bool = False,
        snippet: str | None = None,
        order_by: str | Sequence[str] | None = None,
        search_after: str | None = None,
        highlight: str | Sequence[str] | Mapping[str, Any] | None = None,
        explain: bool = False,
    ) -> pa.Table | ExplainedRows:
        """Return the rows that match `query` and `where`: with a `limit` the best by score, else all.

        Args:
            query: Words, "a phrase", column:word, column:>5, AND, OR, NOT.
            where: A condition that rows must also meet.
            columns: The columns to return; all if None.
            limit: How many rows to return: the best by score, or the first by `order_by`.
            offset: How many of the best rows to leave out.
            score: Whether to return `_score` for rows that are not ranked.
            snippet: A text column. Its passage with the words marked is returned as `_snippet`.
            order_by: A column, a path in one or `_score`, or several: "ts desc", ["level", "-ts"].
            search_after: The token of a `search_page`: the rows after that page.
            highlight: Text columns whose passages are returned as `_highlight`, with the positions of the words. As a
                mapping also how many `fragments` of which `length`.
            explain: Whether to report what was pruned, opened and read, next to the rows.

        Returns:
            The rows. With `explain`, an `ExplainedRows` with `rows` and `report`.

        Raises:
            QuerySyntaxError: The query cannot be parsed.
            InvalidInputError: A column does not exist, or the arguments do not fit together.

        Example:
            t.search("message:timeout AND level:ERROR", limit=10, snippet="message")
        """
        options = SearchOptions(
            columns=columns,
            limit=limit,
            offset=offset,
            score=score,
            snippet=snippet,
            order_by=order_by,
            search_after=search_after,
            highlight=highlight,
            explain=explain,
        )
        if search_after is None:
            return search_options.search(self.handle, query, options, where=where)
        if limit is None or offset:
            raise InvalidInputError("search_after takes a limit, and no offset.", hint="Write limit=100.")
        if explain:
            raise InvalidInputError("explain=True takes no search_after.", hint="Explain the first page.")
        return search_pages.search_page(self.handle, query, options, where=where).rows

    def search_page(
        self,
        query: str,
        *,
        limit: int,
        where: Where | None = None,
        columns: Sequence[str] | None = None,
        order_by: str | Sequence[str] | None = None,
        search_after: str | None = None,
        score: bool = False,
        snippet: str | None = None,
        highlight: str | Sequence[str] | Mapping[str, Any] | None = None,
    ) -> SearchPage:
        """One page of the rows that match `query` and `where`: `limit` rows, and the token of the next page.

        `order_by`, `columns`, `score`, `snippet` and `highlight` are as for `search`. `search_after` is the `next` of the
        page before: all pages show the version of the first one, and every row is on one of them. Raises InvalidInputError
        for a token of another search or table, and VersionNotFoundError if that version was cleaned away or lost meanwhile.

            page = t.search_page("timeout", order_by=["level", "-ts"], limit=100)
            page = t.search_page("timeout", order_by=["level", "-ts"], limit=100, search_after=page.next)
        """
        options = SearchOptions(
            columns=columns,
            limit=limit,
            score=score,
            snippet=snippet,
            order_by=order_by,
            search_after=search_after,
            highlight=highlight,
        )
        return search_pages.search_page(self.handle, query, options, where=where)

    def count(self, *, query: str | None = None, where: Where | None = None) -> int:
        """How many rows there are, or match `query` and `where`: from the log or the index, where that is exact.

        t.count(query="timeout", where="level = 'ERROR'")
        """
        return self._task(query, where, ()).count()

    def aggregate(self, spec: Mapping[str, Any], *, query: str | None = None, where: Where | None = None) -> pa.Table:
        """Aggregations, exact over every row that matches `query` and `where`.

        `spec` names each one: terms, histograms, ranges, statistics, and others within them.

            t.aggregate({"levels": {"terms": {"field": "level"}}}, query="timeout")
        """
        return aggregation.aggregate_table(self._task(query, where, ()), spec, json_columns(self.handle))

    def explain(
        self, *, query: str | None = None, where: Where | None = None, columns: Sequence[str] | None = None
    ) -> ScanReport:
        """Carry out a search for `query` and `where` without returning its `columns`: what was pruned, opened and read.

        print(t.explain(query="timeout", where="day = '2026-11-02'"))
        """
        return explaining.explain(self._task(query, where, columns))

    def prewarm(self, *, columns: Sequence[str] = (), where: Where | None = None) -> Prewarmed:
        """Fetch the indexes of `columns` into the local cache, ahead of a search.

        If none is named, those of `prewarm.fields`, or else all. With `where`, or the setting `prewarm.partitionFilter`
        in its place, only those of splits that may hold a matching row. The report's `message` names what was left alone:
        columns without an index (refused where `prewarm.failOnMissingField` is set), splits of IndexTables for the JVM.

            t.prewarm(columns=["message"], where="day = '2026-11-02'")
        """
        return prewarm.prewarm(self.handle, columns=columns, where=where)

    def changes(
        self, from_version: int, to_version: int | None = None, *, columns: Sequence[str] | None = None
    ) -> pa.RecordBatchReader:
        """Rows that came and went with the versions from `from_version` to `to_version` (the newest), both included.

        Beside `columns` (all of them) there are `_change_type` (insert, delete, update_preimage, update_postimage),
        `_commit_version` and `_commit_timestamp`. Merges change no row. Columns are those of the version that this table
        shows. Raises VersionNotFoundError for versions that are gone or not there yet; reading raises NotFoundError where
        a purge has deleted rows that went.

            for batch in t.changes(12, columns=["id"]): ...
        """
        return change_feed.read_changes(self.handle, from_version, to_version, columns=columns)

    # The rows for other libraries.

    def head(self, n: int = 5) -> pa.Table:
        """The first `n` rows, in the table's order.

        t.head()
        """
        return self.scan(limit=whole_number("n", n)).read_all()

    def to_pandas(
        self,
        *,
        query: str | None = None,
        where: Where | None = None,
        columns: Sequence[str] | None = None,
        limit: int | None = None,
    ) -> Any:
        """The rows that match `query` and `where`, only `columns` and at most `limit` of them, as a pandas frame.

        Raises UnsupportedError where pandas is not installed.

            t.to_pandas(where="day = '2026-11-02'")
        """
        return frames.pandas_frame(self._reader(query, where, columns, limit))

    def to_polars(
        self,
        *,
        query: str | None = None,
        where: Where | None = None,
        columns: Sequence[str] | None = None,
        limit: int | None = None,
    ) -> pl.DataFrame:
        """The rows that match `query` and `where`, only `columns` and at most `limit` of them, as a Polars frame.

        t.to_polars(query="timeout", columns=["ts", "message"])
        """
        return frames.polars_frame(self._reader(query, where, columns, limit))

    def scan_polars(self, *, query: str | None = None, where: Where | None = None) -> pl.LazyFrame:
        """A lazy Polars frame of the rows that match `query` and `where`, at the version that the table shows.

        The columns, the filter and the first rows that a Polars query asks for are pushed down: splits that cannot match
        are not opened.

            t.scan_polars().filter(pl.col("status") >= 500).select("message").collect()
        """
        return frames.lazy_frame(self.handle, query=query, where=where)

    def to_duckdb(
        self, connection: duckdb.DuckDBPyConnection | None = None, name: str | None = None
    ) -> duckdb.DuckDBPyConnection:
        """Show the table to DuckDB under `name`, in a `connection` or a new one, which is returned.

        `name` is a view into which columns and filters are pushed down; `name_search(query)` is a table function of the rows
        that a query finds, with their `_score`, and so is `indextables_search('name', query)`. Without a name it is that
        of the table's folder. Raises UnsupportedError where DuckDB is not installed (the extra `duckdb`), and
        InvalidInputError for a name that is no identifier.

            t.to_duckdb(name="logs").sql("SELECT level, count(*) FROM logs_search('timeout') GROUP BY level")
        """
        return frames.duckdb_view(self.handle, connection, name)

    def to_parquet_view(self, directory: str) -> ParquetView:
        """Write the rows of this version as plain Parquet files to a new `directory`, for readers that know no tables.

        One file per split, in folders by partition. A split that has no deleted row is copied; the copy shares its disk
        blocks where the file system can do that. The files are yours: changing them does not change the table. Raises
        RefusedError for a folder that is not empty.

            t.to_parquet_view("/data/logs-parquet")
        """
        return frames.parquet_view(self.handle, Path(check_characters(text("directory", directory))))

    def __len__(self) -> int:
        return self.count()

    def __bool__(self) -> bool:
        return True

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for batch in self.scan():
            yield from batch.to_pylist(maps_as_pydicts="lossy")

    def __contains__(self, row: object) -> bool:
        if isinstance(row, str):
            message = f"{shown(row)} is no row, and a table holds rows."
            raise InvalidInputError(message, hint="Its columns are t.schema.names; a word is looked for by t.search().")
        return any(row == one for one in self)

    if not TYPE_CHECKING:  # for a type checker every name would be one of a table

        def __getattr__(self, name: str) -> Any:
            here = frames.NAMES_ELSEWHERE.get(name)
            message = f"{type(self).__name__!r} object has no attribute {name!r}"
            raise AttributeError(message if here is None else f"{message}. Here it is {here}", name=name, obj=self)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.scan().__arrow_c_stream__(requested_schema)

    # Changing rows.

    def append(
        self,
        data: Any,
        *,
        merge_schema: bool = False,
        user_metadata: str | None = None,
        txn: tuple[str, int] | None = None,
    ) -> int | None:
        """Add rows: `data` is a frame of pandas, Polars, DuckDB or Arrow, an iterable of batches, or a list of dicts.

        Returns the version, None for no rows. `merge_schema` adds columns that the table does not have; `user_metadata` is
        kept in the history; `txn=(app_id, version)` makes the append exactly-once: a version at or below the recorded
        one is skipped. Raises SchemaMismatchError, ConflictError, and CommitUnknownError if the outcome cannot be told.

            t.append(pa.table({"id": [1], "message": ["read timeout"]}))
        """
        request = WriteRequest(merge_schema=merge_schema, user_metadata=user_metadata, txn=txn)
        return append.append(self.handle, data, request)

    def overwrite(
        self,
        data: Any,
        *,
        where: Where | None = None,
        dynamic_partitions: bool = False,
        merge_schema: bool = False,
        overwrite_schema: bool = False,
        user_metadata: str | None = None,
    ) -> int | None:
        """Replace rows by `data`: all of them, or those that match `where`.

        With `dynamic_partitions` those of the partitions that the data has. `overwrite_schema` makes the data's columns
        those of the table; partition columns stay. `merge_schema` and `user_metadata` are as for `append`, and so is what is
        raised; with `where`, InvalidInputError for a new row that does not match. Returns the version, None if there was
        nothing to do.

            t.overwrite(rows, where="day = '2026-11-02'")
        """
        request = WriteRequest(
            where=where,
            dynamic_partitions=dynamic_partitions,
            merge_schema=merge_schema,
            overwrite_schema=overwrite_schema,
            user_metadata=user_metadata,
        )
        return overwrite.overwrite(self.handle, data, request)

    def delete(
        self,
        *,
        where: Where | None = None,
        query: str | None = None,
        dry_run: bool = False,
        progress: Progress = silent,
        execute: Execute[DeleteTask, DeleteOutcome] | None = None,
    ) -> DeleteReport:
        """Delete the rows that match a condition (`where`), a search (`query`), or both, in one version.

        A split that holds a few of them gets a deletion vector, one with many is written anew (setting `delete.mode`);
        whole splits are just removed. Rows that others append meanwhile stay. `dry_run` only counts; `progress` is called at
        every step; `execute` looks into splits elsewhere than in threads of this process. Raises InvalidInputError if nothing
        says which rows, and ConflictError.

            t.delete(where="user = 7", dry_run=True)
        """
        return delete.delete(self.handle, where=where, query=query, dry_run=dry_run, progress=progress, execute=execute)

    def update(
        self,
        *,
        set: Mapping[str, Any],  # noqa: A002
        where: Where | None = None,
        query: str | None = None,
        dry_run: bool = False,
        user_metadata: str | None = None,
    ) -> UpdateReport:
        """Set columns of the rows that match a condition (`where`), a search (`query`), or both; of all without either.

        `set` maps columns to SQL over the old row ("upper(level)", "n + 1", "'ERROR'"), to a `pyarrow.compute` expression,
        or to a value that is no text. `dry_run` only counts; `user_metadata` is kept in the history. Raises
        QuerySyntaxError, InvalidInputError, and ConflictError if another writer changed one of the rows.

            t.update(set={"level": "upper(level)"}, where="day = '2026-11-02'")
        """
        return update.update(self.handle, set, where=where, query=query, dry_run=dry_run, user_metadata=user_metadata)

    def upsert(
        self,
        data: Any,
        *,
        on: Sequence[str],
        when_matched: WhenMatched = "update",
        when_not_matched: WhenNotMatched = "insert",
        dry_run: bool = False,
        user_metadata: str | None = None,
    ) -> UpsertReport:
        """Write rows by their keys, in one version: one whose key is in the table takes its place, others are inserted.

        `data` is as for `append`; `on` names the columns of the key, in which a null is equal to nothing. `when_matched` is
        update (columns that the data lacks keep their values), ignore or delete; `when_not_matched` is insert or ignore;
        `dry_run` and `user_metadata` are as for `update`. Raises InvalidInputError if a key stands twice in the data,
        SchemaMismatchError, and ConflictError if another writer changed the rows or may have added such a key.

            t.upsert(rows, on=["id"])
        """
        return upsert.upsert(
            self.handle,
            data,
            on=on,
            when_matched=when_matched,
            when_not_matched=when_not_matched,
            dry_run=dry_run,
            user_metadata=user_metadata,
        )

    def drop_partitions(self, where: Where, *, dry_run: bool = False) -> DropReport:
        """Remove every split of the partitions that match `where`, a condition over partition columns, in one version.

        `dry_run` only says which. Raises InvalidInputError for a column that is not a partition column.

            t.drop_partitions("day < '2026-01-01'")
        """
        return drop_partitions.drop_partitions(self.handle, where, dry_run=dry_run)

    def transaction(
        self,
        *,
        operation: str = Operation.APPEND,
        user_metadata: str | None = None,
        txn: tuple[str, int] | None = None,
        check_splits: bool = True,
    ) -> Transaction:
        """The low-level door to the log: actions that are collected in a `with` block and committed as one version.

        `operation` is its name in the history and `user_metadata` a note there. `txn=(app_id, version)` makes it
        exactly-once: a version at or below the recorded one is skipped. Leaving the block raises InvalidInputError for a
        split that is not in the store with the size its action says (`check_splits=False` does not look), ConflictError
        or CommitUnknownError; an error within it commits nothing.

            with t.transaction() as tx: tx.add(action); tx.remove(path)
        """
        return table_transaction.begin_transaction(
            self.handle, operation=operation, user_metadata=user_metadata, txn=txn, check_splits=check_splits
        )

    # Changing what the table is.

    @property
    def alter(self) -> Alteration:
        """Columns that change: `t.alter.add_column(...)`, `rename_column`, `drop_column`, `widen_column`, `reorder`, ..."""
        return alter.Alteration(self.handle)

    def update_metadata(
        self,
        *,
        name: str | None = None,
        description: str | None = None,
        options: Mapping[str, object] | None = None,
        unset: tuple[str, ...] = (),
    ) -> int | None:
        """Change `name`, `description` or configuration: `options` are set, `unset` names settings to drop.

        Returns the new version, None if nothing changed. Raises InvalidInputError for settings under which rows that are
        there would have to be indexed in another way.

            t.update_metadata(options={"mergeOnWrite.enabled": True}, unset=("merge.targetSize",))
        """
        return definition.update_metadata(self.handle, name=name, description=description, options=options, unset=unset)

    def upgrade_protocol(
        self, *, min_reader_version: int, min_writer_version: int, features: tuple[str, ...] = ()
    ) -> int | None:
        """Raise the protocol to `min_reader_version`, `min_writer_version` and `features`; it is never lowered.

        Returns the new version, or None if nothing changed. Raises UnsupportedError for what this release cannot do.

            t.upgrade_protocol(min_reader_version=4, min_writer_version=4)
        """
        return definition.upgrade_protocol(
            self.handle,
            min_reader_version=min_reader_version,
            min_writer_version=min_writer_version,
            features=features,
        )

    def reindex(
        self,
        columns: Mapping[str, str] | Sequence[str],
        *,
        tokenizer: str | None = None,
        where: Where | None = None,
        dry_run: bool = False,
        progress: Progress = silent,
        execute: Execute[MergeTask, MergeOutcome] | None = None,
    ) -> ReindexReport:
        """Index columns in another way, rows that are there included: `columns` maps each to its kind.

        Kinds are text, string, text_and_string, exact_only, json, ip and none. With names alone the kind stays and the
        `tokenizer` changes. The decision is one version; then splits are written anew, in batches, each a version. Until
        then theirs are answered from their rows: right, only slower. What is interrupted goes on with the same call;
        `where` chooses partitions to begin with; `dry_run` only counts; `progress` is called at every step; `execute` runs
        the work elsewhere. Raises InvalidInputError for what does not fit.

            t.reindex({"message": "text"}, tokenizer="en_stem")
        """
        return reindex.reindex(
            self.handle, columns, tokenizer=tokenizer, where=where, dry_run=dry_run, progress=progress, execute=execute
        )

    # Keeping the table in order. Each verb plans first and then acts; with `dry_run` it only says what it would do.

    def merge(
        self,
        *,
        target_size: int | str | None = None,
        where: Where | None = None,
        max_dest_splits: int | None = None,
        max_source_splits: int | None = None,
        order_by: str | Sequence[str] | None = None,
        rewrite: bool = False,
        dry_run: bool = False,
        progress: Progress = silent,
        execute: Execute[MergeTask, MergeOutcome] | None = None,
    ) -> MergeReport:
        """Merge small splits of the same partition into larger ones of about `target_size` (100M, 4G); no row changes.

        `where` chooses partitions; the oldest splits come first; at most `max_dest_splits` are made, of at most
        `max_source_splits` each. With `order_by`, a column or several, rows are sorted by it and large splits that overlap
        are cut anew, side by side; `merge.clusterBy` sorts small ones in every merge. `rewrite` takes splits of another
        engine alone, in batches: stopped, it goes on where it was. What cannot be read is skipped for a while and stays.
        `dry_run` only plans; `progress` is called at every step; `execute` runs groups elsewhere. Raises InvalidInputError.

            t.merge(target_size="1G", where="day = '2026-11-02'")
        """
        return merge.merge(
            self.handle,
            target_size=target_size,
            where=where,
            max_dest_splits=max_dest_splits,
            max_source_splits=max_source_splits,
            order_by=order_by,
            rewrite=rewrite,
            dry_run=dry_run,
            progress=progress,
            execute=execute,
        )

    def purge(
        self,
        *,
        older_than_hours: float | None = None,
        log_retention_hours: float | None = None,
        dry_run: bool = False,
        progress: Progress = silent,
        delete: Callable[[Sequence[str]], None] | None = None,
    ) -> PurgeReport:
        """Delete splits that no version of the retention period has, expired files of the log, and leftovers.

        Splits are kept for `older_than_hours` after they were removed (168 by default), version files for
        `log_retention_hours` (720). `dry_run` only lists; `progress` is called at every step; `delete` deletes files
        elsewhere. Less than 24 hours raises RefusedError unless the setting `purge.retentionCheckEnabled` is false.

            t.purge(older_than_hours=48, dry_run=True)
        """
        return purge.purge(
            self.handle,
            older_than_hours=older_than_hours,
            log_retention_hours=log_retention_hours,
            dry_run=dry_run,
            progress=progress,
            delete=delete,
        )

    def erase(
        self,
        *,
        where: Where | None = None,
        retention_hours: float | None = None,
        dry_run: bool = False,
        progress: Progress = silent,
    ) -> EraseReport:
        """Erase the rows that match a condition for good, rows that were deleted before included, and prove it.

        Live splits that store such a row are rewritten with a new index, in one version. Then the old splits, and the
        files of the log that list them, are deleted as far as retention and tags allow: older versions can not be opened
        afterwards. At last every file that is left is read again. `report.proved` is true if none holds such a row;
        otherwise `report.holders` lists the files, until when each is kept, and what lifts that.

        Args:
            where: Which rows. A condition that matches every row is accepted.
            retention_hours: How long removed splits and files of the log are kept, instead of the table's settings
                (`purge.defaultRetentionHours`, `purge.txLogRetentionHours`). Less than 24 hours raises RefusedError unless
                the setting `purge.retentionCheckEnabled` is false.
            dry_run: Only search, and report what would happen to each file. Nothing is changed.
            progress: Called at every step.

        Returns:
            What was erased, what still holds the rows, and whether the table is proved to be free of them.

        Raises:
            InvalidInputError: No condition is given.
            RefusedError: The retention is too short, or IndexTables for the JVM wrote a split that may hold the rows.
            ConflictError: Another writer changed one of the splits. Run it again.

        Example:
            t.erase(where="email = 'ada@example.org'", dry_run=True)
        """
        return erase.erase(
            self.handle, where=where, retention_hours=retention_hours, dry_run=dry_run, progress=progress
        )

    def truncate_time_travel(self, *, dry_run: bool = False, progress: Progress = silent) -> TruncateReport:
        """Forget every version but the newest. No split is deleted; those that nobody needs any more wait for a purge.

        `dry_run` only lists the files of the log; `progress` is called at every step.

            t.truncate_time_travel(dry_run=True)
        """
        return truncate.truncate_time_travel(self.handle, dry_run=dry_run, progress=progress)

    def restore(
        self, *, version: int | str | None = None, timestamp: Moment | None = None, dry_run: bool = False
    ) -> RestoreReport:
        """Bring back an older version (`version`, a number or a tag), or that of a moment (`timestamp`), as a new one.

        Schema and configuration come back too; the protocol is never lowered. `dry_run` only counts. Raises
        VersionNotFoundError, and MissingSplitError if splits of it are not there any more.

            t.restore(timestamp="2026-11-01T12:00:00Z")
        """
        return restore.restore(self.handle, version=version, timestamp=timestamp, dry_run=dry_run)

    def expire(
        self,
        *,
        now: Moment | None = None,
        dry_run: bool = False,
        progress: Progress = silent,
        execute: Execute[DeleteTask, DeleteOutcome] | None = None,
    ) -> DeleteReport:
        """Delete the rows whose time is over: `retention.column` lies further back than `retention.period`.

        Whole splits go by their bounds in the log; of splits on the edge the rows are deleted as by `delete`. Rows without
        a time stay. `now` is the clock, a datetime, ISO text or milliseconds since 1970; `dry_run` only counts; `progress`
        is called at every step; `execute` rewrites splits elsewhere than in threads of this process. Raises
        InvalidInputError if the table has no retention, and ConflictError.

            t.update_metadata(options={"retention.column": "ts", "retention.period": "30 days"}); t.expire(dry_run=True)
        """
        return expire.expire(self.handle, now=now, dry_run=dry_run, progress=progress, execute=execute)

    def tag(self, name: str, *, version: int | None = None) -> int:
        """Give a version a name, which keeps it: no purge, truncation or cleaning of the log touches it until `untag`.

        Without `version` it is the one that this table shows. The `name` is a word, no number; `Table.open(path,
        version="release-7")` and `restore` understand it. Returns the version that records the tag. Raises RefusedError
        for a name that another version has, and VersionNotFoundError for a version that was cleaned away.

            t.tag("release-7")
        """
        meant = self.version if version is None else whole_number("version", version)
        return self._renamed(tags.tag(self.handle.log, name, meant, engine_info=ENGINE_INFO))

    def untag(self, name: str) -> int:
        """Take a tag away, by its `name`: its version is cleaned up like any other from then on.

        Returns the version that records it. Raises VersionNotFoundError for a name that no version has.

            t.untag("release-7")
        """
        return self._renamed(tags.untag(self.handle.log, name, engine_info=ENGINE_INFO))

    def tags(self) -> dict[str, int]:
        """The versions that have a name, as the newest version says, oldest first: `t.tags()["release-7"]`."""
        return self.handle.log.newest().header.tags

    def checkpoint(self, *, dry_run: bool = False) -> CheckpointReport:
        """Write down the table's state, so that opening it need not replay its log. Older tables are upgraded by it.

        `dry_run` only says what would be written.

            t.checkpoint()
        """
        return checkpoint.write_checkpoint(self.handle, Compact.AS_NEEDED, dry_run=dry_run)

    def compact(self, *, dry_run: bool = False) -> CheckpointReport:
        """Rewrite the table's state: no removed entries, full manifests, sorted by partition.

        `dry_run` only says what would be written.

            t.compact()
        """
        return checkpoint.write_checkpoint(self.handle, Compact.ALL, dry_run=dry_run)

    def verify(
        self,
        *,
        full: bool = False,
        dry_run: bool = False,
        progress: Progress = silent,
        execute: Execute[VerifyTask, Sequence[Finding]] | None = None,
    ) -> VerifyReport:
        """Look for anything that is not as it should be: in the log, and in every live split. Nothing is changed.

        `full` reads every byte of every split. `dry_run` only says how much there is; `progress` is called at every step;
        `execute` looks at the splits elsewhere than in threads of this process. What is damaged is in the report, not
        raised. A table that cannot be opened is verified by `verify_table(path)`.

            assert t.verify(full=True).healthy
        """
        return verify.verify(self.handle, full=full, dry_run=dry_run, progress=progress, execute=execute)

    @class_only
    def drop(
        cls,  # noqa: N805
        path: str,
        *,
        options: Mapping[str, object] | None = None,
        dry_run: bool = False,
        progress: Progress = silent,
    ) -> DropTableReport:
        """Delete the table at `path`: its log and all its splits. The folder can be used for another table then.

        Background work of this process on the table is waited for. A marker keeps every other process from writing to it
        until all is gone. Files in the folder that are not the table's stay. `options` are settings; `dry_run` only
        reports; `progress` is called at every step. Raises TableNotFoundError where there is no table, and
        UnsupportedError for a table that this release must not write to.

            Table.drop("logs")
        """
        return drop_table.drop_table(path, options=options, dry_run=dry_run, progress=progress)

    @classmethod
    def repair(
        cls,
        path: str,
        *,
        at: str | None = None,
        from_replica: bool | str = False,
        options: Mapping[str, object] | None = None,
        dry_run: bool = False,
        progress: Progress = silent,
    ) -> RepairReport:
        """Make the table at `path` whole again. No file that is there is changed.

        Without `at` the table is mended in place. A damaged log goes on as a new version that holds every version that can
        be read, those after a missing one included; the report names the versions that are lost. A log that is lost as a
        whole is rebuilt from the splits alone, and of a log that can be read the newest state or checkpoint is written
        again if it is damaged. With `at`, a clean copy of the damaged log is written to another place. Splits that are
        missing are left out. With `from_replica`, True for the
        place in `checkpoint.replica.location` or a place, the state of a table that cannot be opened comes from there, if
        it is proven to be its. `options` are settings; `dry_run` only reports; `progress` is called at every step. Raises
        TableNotFoundError where there is nothing to repair.

            Table.repair("/data/logs", at="/data/logs-repaired", dry_run=True)
        """
        return repair.repair_table(
            path, at=at, from_replica=from_replica, options=options, dry_run=dry_run, progress=progress
        )

    # Looking at the table.

    @property
    def inspect(self) -> Inspection:
        """What the table is made of: `t.inspect.files()`, `history()`, `state()`, `partitions()`, `component_sizes()`, ..."""
        return inspection.Inspection(self.handle)

    @property
    def admin(self) -> Administration:
        """What an operator does by hand: `t.admin.record_skipped_file(...)`, `t.admin.downgrade_protocol(to=3)`."""
        return administration.Administration(self.handle)

    @property
    def plot(self) -> Plots:
        """Charts for notebooks, drawn with matplotlib (the extra `plots`): `t.plot.timeline()`, `t.plot.sizes()`, ..."""
        return figures.Plots(self.inspect)

    def files(self, *, where: Where | None = None) -> pa.Table:
        """The live splits: path, partition values, size, records, statistics, the version that added each.

        With `where` only those that may hold a matching row, by their partition values and their column bounds.

            t.files(where="day = '2026-11-02'").column("path")
        """
        return self.inspect.files(where=where)

    def history(self, *, limit: int | None = None) -> pa.Table:
        """What was committed, newest first and at most `limit` versions, and which of them can still be read.

        t.history(limit=10).to_pylist()
        """
        return self.inspect.history(limit=limit)

    def state(self) -> StateReport:
        """What the newest state or checkpoint holds, whoever wrote it, and whether it should be compacted.

        Of a table that was opened at an older version, the one that the version is read from.

            t.state().needs_compaction
        """
        return self.inspect.state()

    def component_sizes(self, *, where: Where | None = None) -> pa.Table:
        """How many bytes each component of each split takes: split_path, partition_values, component, field, size_bytes.

        With `where` only splits that may hold a matching row.

            t.component_sizes().group_by("field").aggregate([("size_bytes", "sum")])
        """
        return self.inspect.component_sizes(where=where)

    def skipped_files(self) -> pa.Table:
        """Splits that an operation could not process: why, how often, and until when they are left alone.

        t.skipped_files().num_rows
        """
        return self.inspect.skipped_files()

    def cache_stats(self) -> CacheStats:
        """What the process remembers of this table's log, and how often that helped: `t.cache_stats().to_dict()`."""
        return self.handle.log.cache_stats()

    def invalidate_cache(self, kind: str | None = None) -> dict[str, Any]:
        """Forget the log, or one `kind` of `cache_stats()`; returns the figures before: `t.invalidate_cache("files")`."""
        before = self.handle.log.cache_stats().to_dict()
        self.handle.log.invalidate_cache(kind)
        return before

    def metrics(self) -> MetricsReport:
        """What this process has done with this table, in numbers (commits, loads, requests, ...): `print(t.metrics())`."""
        return self.inspect.metrics()

    def _repr_html_(self) -> str:
        return figures.table_html(self.inspect)

    def _reader(
        self, query: str | None, where: Where | None, columns: Sequence[str] | None, limit: int | None
    ) -> pa.RecordBatchReader:
        max_rows = None if limit is None else whole_number("limit", limit)
        task = self._task(query, where, columns)
        return pa.RecordBatchReader.from_batches(task.plan.output_schema, limited(task.batches(), max_rows))

    def _task(
        self,
        query: str | None = None,
        where: Where | None = None,
        columns: Sequence[str] | None = None,
    ) -> ScanTask:
        return ScanTask(plan_scan(self.handle, query=query, where=where, columns=columns), self.handle.log.store)

    def _renamed(self, version: int) -> int:
        """Show the newest version after a tag was given or removed, unless the table was opened at an older one."""
        return version if self.handle.is_pinned else self.handle.show_newest_after(version)

"""`Table`: every public operation on a table. A method checks its arguments and calls the module
that does the work.

Methods that change a table commit one version, or none if there was nothing to do. All raise errors
of the tree in `indextables.errors`; the docstrings name those that are specific to a method. Every
method can raise StorageError, TableNotFoundError and CorruptTableError, and RefusedError for a
change of a table that was opened at an older version.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

import pyarrow as pa

from indextables.companion.source_snapshot import At
from indextables.errors import InvalidInputError, show_value
from indextables.handle import (
    ENGINE_INFO,
    TableHandle,
    older_snapshot,
    open_handle,
    open_log,
    version_of,
)
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
from indextables.operations import companion_sync as companions
from indextables.operations.auto_upkeep import run_after_write
from indextables.operations.write_request import WriteRequest
from indextables.query import change_feed, prewarm, search_options, search_pages
from indextables.query import explain as explaining
from indextables.query.aggregate import result as aggregation
from indextables.query.plan import json_columns, plan_scan
from indextables.query.search_options import ExplainedRows, SearchOptions
from indextables.query.task import ScanTask, limit_rows
from indextables.query.vector_search import Hybrid, QueryVector
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
    from indextables.model.actions import AddAction, MetadataAction, ProtocolAction
    from indextables.operations.alter import Alteration
    from indextables.operations.companion_sync import SourceStatus, SyncReport, SyncTask
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
    """A table of full-text search indexes. `Table.open(path)` opens one, `Table.create(path, ...)`
    creates one.

    `where` is SQL text such as "level = 'ERROR'", a `pyarrow.compute` expression, or a predicate
    tree. `query` is text of the query language: words, "a phrase", column:word, column:>5, AND, OR,
    NOT. `len(t)` counts the rows, iterating yields them as dicts.
    """

    def __init__(self, handle: TableHandle) -> None:
        if isinstance(handle, str):
            raise InvalidInputError(
                f"Table({handle!r}) is not a call that opens a table.", hint="Use Table.open(path)."
            )
        self._handle = handle

    # Opening and creating.

    @classmethod
    def open(
        cls: type[T],
        path: str,
        *,
        version: int | str | None = None,
        timestamp: Moment | None = None,
        at: At | None = None,
        options: Mapping[str, object] | None = None,
        max_staleness: float | None = None,
    ) -> T:
        """Open the table at `path` at its newest version, at an older one, or as of a timestamp.

        Args:
            path: A local path or a URL.
            version: A version number or a tag. The table is then read-only.
            timestamp: A datetime, ISO text or milliseconds since 1970. The table is then read-only.
            at: For a companion, the version of its source: "latest" (the default), "synced", a
                number or a timestamp.
            options: Settings, over those of the table.
            max_staleness: Seconds. A version that this process read within that time is used
                without asking the store.

        Returns:
            The table.

        Raises:
            TableNotFoundError: There is no table at the path.
            VersionNotFoundError: The version was cleaned away or never existed.

        Example:
            Table.open("s3://bucket/logs", version=12)
        """
        log = open_log(path, options)
        if version is None and timestamp is None:
            if max_staleness is None:
                seconds = None
            else:
                seconds = number("max_staleness", max_staleness, "seconds")
            newest = log.newest(max_staleness_seconds=seconds)
            return cls(open_handle(log, newest, options, at=at))
        older = older_snapshot(log, version_of(log, version=version, timestamp=timestamp))
        return cls(open_handle(log, older, options, pinned=True, at=at))

    @classmethod
    def companion(
        cls: type[T],
        path: str,
        *,
        source: str,
        format: str | None = None,  # noqa: A002
        text: Sequence[str] = (),
        include: Sequence[str] = (),
        exclude: Sequence[str] = (),
        where: str | None = None,
        options: Mapping[str, object] | None = None,
    ) -> T:
        """Create a companion at `path`: an index of a Delta table or a folder of Parquet files.

        The rows stay in the source; the companion has the index only. Searches return the rows of
        the newest version of the source: files that are not indexed yet are scanned. `sync` indexes
        them. If the companion exists it is opened.

        Args:
            path: Where the index is to be: a local path or a URL, not within the source.
            source: The Delta table or the folder.
            format: "delta" or "parquet"; found out if None.
            text: String columns to search by their words.
            include: The only columns to index; all if empty.
            exclude: Columns not to index.
            where: A condition over partition columns. The companion shows only these partitions.
            options: Settings. The companion keeps those that a table may carry.

        Returns:
            The companion, which is not synchronised yet.

        Raises:
            InvalidInputError: A column is not one of the source, nothing would be indexed, or the
                companion at the path is of another source.
            RefusedError: There is a table with rows of its own at the path.

        Example:
            Table.companion("events-index", source="events", text=["message"]).sync()
        """
        request = companions.CompanionRequest(
            source=source,
            format=format,
            text=text,
            include=include,
            exclude=exclude,
            where=where,
            options=options,
        )
        return cls(companions.companion(path, request))

    @classmethod
    def create(
        cls: type[T],
        path: str,
        *,
        schema: pa.Schema,
        partition_columns: list[str] | tuple[str, ...] = (),
        text: Sequence[str] = (),
        substring: Sequence[str] = (),
        vector: Mapping[str, int] | Sequence[str] = (),
        options: Mapping[str, object] | None = None,
        exist_ok: bool = False,
        name: str | None = None,
        description: str | None = None,
    ) -> T:
        """Create a table at `path`.

        Args:
            path: A local path or a URL.
            schema: The columns.
            partition_columns: Columns whose values become folders.
            text: String columns to search by their words.
            substring: String columns whose parts are indexed, for `LIKE '%x%'`.
            vector: Columns of vectors to search by similarity, with the number of components:
                {"embedding": 384}. The names are enough for lists of fixed size.
            options: Settings. The table keeps those that it may carry; the others apply to this
                object only.
            exist_ok: Whether to open an existing table with the same layout.
            name: A name for people.
            description: A description for people.

        Returns:
            The table.

        Raises:
            TableExistsError: There is a table at the path.
            InvalidInputError: Columns or settings of the index do not fit together.

        Example:
            Table.create("logs", schema=schema, partition_columns=["day"], text=["message"])
        """
        if text or substring or vector:
            options = definition.index_options(
                options, schema, text=text, substring=substring, vector=vector
            )
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
        """Return the table at its newest version, which can be changed.

        Example:
            t = t.refresh()
        """
        return type(self)(self.handle.reopen())

    # What the table is.

    @property
    def handle(self) -> TableHandle:
        """The log, snapshot and settings of the table, for the other packages of this library. It
        may change.
        """
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

    # Reading rows.

    def scan(
        self,
        *,
        where: Where | None = None,
        columns: Sequence[str] | None = None,
        limit: int | None = None,
    ) -> pa.RecordBatchReader:
        """Return rows as a stream of batches.

        Args:
            where: A condition that rows must meet.
            columns: The columns to return; all if None.
            limit: The maximum number of rows.

        Returns:
            A reader of record batches.

        Example:
            for batch in t.scan(where="day >= '2026-11-01'", columns=["level"]): ...
        """
        return self._reader(None, where, columns, limit)

    @overload
    def search(
        self,
        query: str | None = None,
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
        vector: QueryVector | None = None,
        hybrid: Hybrid | None = None,
        explain: Literal[False] = False,
    ) -> pa.Table: ...

    @overload
    def search(
        self,
        query: str | None = None,
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
        vector: QueryVector | None = None,
        hybrid: Hybrid | None = None,
        explain: Literal[True],
    ) -> ExplainedRows: ...

    def search(
        self,
        query: str | None = None,
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
        vector: QueryVector | None = None,
        hybrid: Hybrid | None = None,
        explain: bool = False,
    ) -> pa.Table | ExplainedRows:
        """Return the rows that match `query` and `where`: with a `limit` the best by score, else
        all.

        Args:
            query: Words, "a phrase", column:word, column:>5, AND, OR, NOT. May be left out if there
                is a `vector`.
            where: A condition that rows must also meet.
            columns: The columns to return; all if None.
            limit: How many rows to return: the best by score, or the first by `order_by`.
            offset: How many of the best rows to leave out.
            score: Whether to return `_score` for rows that are not ranked.
            snippet: A text column. Its passage with the words marked is returned as `_snippet`.
            order_by: A column, a path in one or `_score`, or several: "ts desc", ["level", "-ts"].
            search_after: The token of a `search_page`: the rows after that page.
            highlight: Text columns whose passages are returned as `_highlight`, with the positions
                of the words. As a mapping also how many `fragments` of which `length`.
            vector: A column of vectors and a vector. The rows nearest to it are returned, with
                their `_distance`; `query` and `where` decide which rows are compared.
            hybrid: How to combine the order by score with that by distance: "rrf" for reciprocal
                ranks, or {"weights": {"query": 0.3, "vector": 0.7}}.
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
            vector=vector,
            hybrid=hybrid,
            explain=explain,
        )
        if search_after is None:
            return search_options.search(self.handle, query, options, where=where)
        if query is None or vector is not None:
            raise InvalidInputError(
                "search_after takes a query, and no vector.", hint="Use limit and offset."
            )
        if limit is None or offset:
            raise InvalidInputError(
                "search_after takes a limit, and no offset.", hint="Write limit=100."
            )
        if explain:
            raise InvalidInputError(
                "explain=True takes no search_after.", hint="Explain the first page."
            )
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
        """Return one page of the rows that match `query` and `where`.

        All pages show the version of the first one, and every row is on one of them.

        Args:
            query: Text of the query language, as for `search`.
            limit: How many rows a page has.
            where: A condition that rows must also meet.
            columns: The columns to return; all if None.
            order_by: The order of the rows, as for `search`.
            search_after: The `next` of the page before; None for the first page.
            score: Whether to return `_score`.
            snippet: A text column to return a marked passage of, as `_snippet`.
            highlight: Text columns to return passages of, as for `search`.

        Returns:
            The rows, and the token of the next page.

        Raises:
            InvalidInputError: The token belongs to another search or table.
            VersionNotFoundError: The version of the first page was cleaned away.

        Example:
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
        """Count the rows that match `query` and `where`, or all.

        The log or the index answers where that is exact.

        Args:
            query: Text of the query language.
            where: A condition that rows must also meet.

        Returns:
            The number of rows.

        Example:
            t.count(query="timeout", where="level = 'ERROR'")
        """
        return self._task(query, where, ()).count()

    def aggregate(
        self, spec: Mapping[str, Any], *, query: str | None = None, where: Where | None = None
    ) -> pa.Table:
        """Compute aggregations over every row that matches `query` and `where`. They are exact.

        Args:
            spec: A mapping of names to aggregations: terms, histograms, ranges, statistics, and
                others nested in them.
            query: Text of the query language.
            where: A condition that rows must also meet.

        Returns:
            A table with a row for each bucket.

        Raises:
            InvalidInputError: The specification is wrong; the message names the aggregation.

        Example:
            t.aggregate({"levels": {"terms": {"field": "level"}}}, query="timeout")
        """
        return aggregation.aggregate_table(
            self._task(query, where, ()), spec, json_columns(self.handle)
        )

    def explain(
        self,
        *,
        query: str | None = None,
        where: Where | None = None,
        columns: Sequence[str] | None = None,
    ) -> ScanReport:
        """Run a search without returning its rows, and report what was pruned, opened and read.

        Args:
            query: Text of the query language.
            where: A condition that rows must also meet.
            columns: The columns to read of the rows that match; all if None.

        Returns:
            The report.

        Example:
            print(t.explain(query="timeout", where="day = '2026-11-02'"))
        """
        return explaining.explain(self._task(query, where, columns))

    def prewarm(self, *, columns: Sequence[str] = (), where: Where | None = None) -> Prewarmed:
        """Fetch the indexes of columns into the local cache, ahead of searches.

        Args:
            columns: The columns. If none is named, those of the setting `prewarm.fields`, or else
                all.
            where: Only splits that may hold a matching row. The default is the setting
                `prewarm.partitionFilter`.

        Returns:
            How much was fetched. Its `message` names what was left out: columns without an index,
            and splits of IndexTables for the JVM.

        Raises:
            InvalidInputError: No split has an index of a column, and `prewarm.failOnMissingField`
                is set.

        Example:
            t.prewarm(columns=["message"], where="day = '2026-11-02'")
        """
        return prewarm.prewarm(self.handle, columns=columns, where=where)

    def changes(
        self,
        from_version: int,
        to_version: int | None = None,
        *,
        columns: Sequence[str] | None = None,
    ) -> pa.RecordBatchReader:
        """Return the rows that versions added and removed.

        Next to the columns there are `_change_type` (insert, delete, update_preimage,
        update_postimage), `_commit_version` and `_commit_timestamp`. Merges change no row. The
        columns are those of the version that this table shows.

        Args:
            from_version: The first version.
            to_version: The last version; the shown one if None.
            columns: The columns to return; all if None.

        Returns:
            A reader of record batches. Reading raises NotFoundError if a purge deleted the rows of
            a removed split.

        Raises:
            VersionNotFoundError: A version was cleaned away or does not exist yet.

        Example:
            for batch in t.changes(12, columns=["id"]): ...
        """
        return change_feed.read_changes(self.handle, from_version, to_version, columns=columns)

    # Rows for other libraries.

    def head(self, n: int = 5) -> pa.Table:
        """Return the first rows, in the order of the table.

        Args:
            n: How many rows.

        Returns:
            The rows.

        Example:
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
        """Return rows as a pandas frame.

        Args:
            query: Text of the query language.
            where: A condition that rows must also meet.
            columns: The columns to return; all if None.
            limit: The maximum number of rows.

        Returns:
            The frame.

        Raises:
            UnsupportedError: pandas is not installed.

        Example:
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
        """Return rows as a Polars frame.

        Args:
            query: Text of the query language.
            where: A condition that rows must also meet.
            columns: The columns to return; all if None.
            limit: The maximum number of rows.

        Returns:
            The frame.

        Example:
            t.to_polars(query="timeout", columns=["ts", "message"])
        """
        return frames.polars_frame(self._reader(query, where, columns, limit))

    def scan_polars(self, *, query: str | None = None, where: Where | None = None) -> pl.LazyFrame:
        """Return a lazy Polars frame of the version that the table shows.

        The columns, the filter and the limit of a Polars query are pushed down: splits that cannot
        match are not opened.

        Args:
            query: Text of the query language.
            where: A condition that rows must also meet.

        Returns:
            The lazy frame.

        Example:
            t.scan_polars().filter(pl.col("status") >= 500).select("message").collect()
        """
        return frames.lazy_frame(self.handle, query=query, where=where)

    def to_duckdb(
        self, connection: duckdb.DuckDBPyConnection | None = None, name: str | None = None
    ) -> duckdb.DuckDBPyConnection:
        """Register the table in DuckDB.

        Columns and filters are pushed down into the view `name`. The table function
        `name_search(query)` returns the rows that a query finds, with their `_score`, and so does
        `indextables_search('name', query)`.

        Args:
            connection: The connection; a new one if None.
            name: The name of the view; that of the folder of the table if None.

        Returns:
            The connection.

        Raises:
            UnsupportedError: DuckDB is not installed (the extra `duckdb`).
            InvalidInputError: The name is not an identifier.

        Example:
            t.to_duckdb(name="logs").sql("SELECT level, count(*) FROM logs_search('timeout') GROUP BY level")
        """
        return frames.duckdb_view(self.handle, connection, name)

    def to_parquet_view(self, directory: str) -> ParquetView:
        """Write the rows of this version as plain Parquet files.

        There is one file per split, in folders by partition. A split without deleted rows is
        copied; the copy shares its disk blocks where the file system supports that. Changing the
        files does not change the table.

        Args:
            directory: A new or empty folder.

        Returns:
            How many files were written.

        Raises:
            RefusedError: The folder is not empty.

        Example:
            t.to_parquet_view("/data/logs-parquet")
        """
        return frames.parquet_view(
            self.handle, Path(check_characters(text("directory", directory)))
        )

    def __len__(self) -> int:
        return self.count()

    def __bool__(self) -> bool:
        return True

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for batch in self.scan():
            yield from batch.to_pylist(maps_as_pydicts="lossy")

    def __contains__(self, row: object) -> bool:
        if isinstance(row, str):
            message = f"{show_value(row)} is no row, and a table holds rows."
            raise InvalidInputError(
                message, hint="Its columns are t.schema.names; a word is looked for by t.search()."
            )
        return any(row == one for one in self)

    if not TYPE_CHECKING:  # for a type checker every name would be one of a table

        def __getattr__(self, name: str) -> Any:
            here = frames.NAMES_ELSEWHERE.get(name)
            message = f"{type(self).__name__!r} object has no attribute {name!r}"
            raise AttributeError(
                message if here is None else f"{message}. Here it is {here}", name=name, obj=self
            )

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
        """Add rows, in one version.

        Args:
            data: A frame of pandas, Polars, DuckDB or Arrow, an iterable of batches, or a list of
                dicts.
            merge_schema: Whether to add columns that the table does not have.
            user_metadata: A note for the history.
            txn: `(app_id, version)` makes the append exactly-once: a version at or below the
                recorded one is skipped.

        Returns:
            The version, None if there were no rows or the transaction was committed before.

        Raises:
            SchemaMismatchError: The rows do not fit the columns.
            ConflictError: Another writer changed the table in a way that does not fit.
            CommitUnknownError: It is unknown whether the version was committed.

        Example:
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

        Args:
            data: The new rows, as for `append`.
            where: Which rows are replaced. Every new row must match.
            dynamic_partitions: Replace the rows of those partitions that the data has.
            merge_schema: Whether to add columns that the table does not have.
            overwrite_schema: Whether the columns of the data replace those of the table. Partition
                columns stay.
            user_metadata: A note for the history.

        Returns:
            The version, None if there was nothing to do.

        Raises:
            InvalidInputError: A new row does not match `where`.
            SchemaMismatchError: The rows do not fit the columns.
            ConflictError: Another writer changed the table in a way that does not fit.

        Example:
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
        """Delete the rows that match a condition, a search, or both, in one version.

        A split that loses few rows keeps its file and gets a deletion vector; others are rewritten
        (setting `delete.mode`). A split that loses all rows is removed. Rows that other writers
        append concurrently stay.

        Args:
            where: A condition that rows meet.
            query: Text of the query language that rows match.
            dry_run: Only report what would happen. Nothing is changed.
            progress: Called at every step.
            execute: Runs the tasks elsewhere than in threads of this process.

        Returns:
            What was deleted.

        Raises:
            InvalidInputError: Neither `where` nor `query` is given.
            ConflictError: Another writer changed one of the splits.

        Example:
            t.delete(where="user = 7", dry_run=True)
        """
        report = delete.delete(
            self.handle,
            where=where,
            query=query,
            dry_run=dry_run,
            progress=progress,
            execute=execute,
        )
        if report.version is not None:
            run_after_write(self.handle, report.version)
        return report

    def update(
        self,
        *,
        set: Mapping[str, Any],  # noqa: A002
        where: Where | None = None,
        query: str | None = None,
        dry_run: bool = False,
        user_metadata: str | None = None,
    ) -> UpdateReport:
        """Set columns of the rows that match a condition, a search, or both; of all rows without
        either.

        Args:
            set: Maps columns to SQL over the old row ("upper(level)", "n + 1", "'ERROR'"), to a
                `pyarrow.compute` expression, or to a value that is not text.
            where: A condition that rows meet.
            query: Text of the query language that rows match.
            dry_run: Only count the rows.
            user_metadata: A note for the history.

        Returns:
            How many rows were updated.

        Raises:
            QuerySyntaxError: An expression cannot be parsed.
            InvalidInputError: A column does not exist, or an expression does not fit its type.
            ConflictError: Another writer changed one of the rows.

        Example:
            t.update(set={"level": "upper(level)"}, where="day = '2026-11-02'")
        """
        return update.update(
            self.handle, set, where=where, query=query, dry_run=dry_run, user_metadata=user_metadata
        )

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
        """Write rows by their keys, in one version: a row whose key is in the table replaces it,
        others are inserted.

        Args:
            data: The rows, as for `append`. Each key occurs once.
            on: The columns of the key. A null equals nothing.
            when_matched: "update" (columns that the data lacks keep their values), "ignore" or
                "delete".
            when_not_matched: "insert" or "ignore".
            dry_run: Only count the rows.
            user_metadata: A note for the history.

        Returns:
            How many rows were inserted, updated and deleted.

        Raises:
            InvalidInputError: A key occurs twice in the data.
            SchemaMismatchError: The rows do not fit the columns.
            ConflictError: Another writer changed the rows or may have added such a key.

        Example:
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
        """Remove every split of the partitions that match, in one version.

        Args:
            where: A condition over partition columns.
            dry_run: Only report what would happen. Nothing is changed.

        Returns:
            What was removed.

        Raises:
            InvalidInputError: The condition names a column that is not a partition column.

        Example:
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
        """Collect actions of the log in a `with` block and commit them as one version.

        This is the low-level interface to the log. An error within the block commits nothing.

        Args:
            operation: The name of the operation in the history.
            user_metadata: A note for the history.
            txn: `(app_id, version)` makes the commit exactly-once: a version at or below the
                recorded one is skipped.
            check_splits: Whether every added split must be in the store with the size that its
                action records.

        Returns:
            The transaction.

        Raises:
            InvalidInputError: A split is missing or has another size. Leaving the block raises it.
            ConflictError: Another writer changed the table in a way that does not fit.
            CommitUnknownError: It is unknown whether the version was committed.

        Example:
            with t.transaction() as tx: tx.add(action); tx.remove(path)
        """
        return table_transaction.begin_transaction(
            self.handle,
            operation=operation,
            user_metadata=user_metadata,
            txn=txn,
            check_splits=check_splits,
        )

    # Changing columns and configuration.

    @property
    def alter(self) -> Alteration:
        """Change columns: `t.alter.add_column(...)`, `rename_column`, `drop_column`,
        `widen_column`, `reorder`, ...
        """
        return alter.Alteration(self.handle)

    def update_metadata(
        self,
        *,
        name: str | None = None,
        description: str | None = None,
        options: Mapping[str, object] | None = None,
        unset: tuple[str, ...] = (),
    ) -> int | None:
        """Change the name, the description or the configuration.

        Args:
            name: The new name.
            description: The new description.
            options: Settings to set.
            unset: Names of settings to remove.

        Returns:
            The version, None if nothing changed.

        Raises:
            InvalidInputError: Existing rows would have to be indexed in another way.

        Example:
            t.update_metadata(options={"mergeOnWrite.enabled": True}, unset=("merge.targetSize",))
        """
        return definition.update_metadata(
            self.handle, name=name, description=description, options=options, unset=unset
        )

    def upgrade_protocol(
        self, *, min_reader_version: int, min_writer_version: int, features: tuple[str, ...] = ()
    ) -> int | None:
        """Raise the protocol. It is never lowered.

        Args:
            min_reader_version: The version that readers must support.
            min_writer_version: The version that writers must support.
            features: Features that readers and writers must support.

        Returns:
            The version, None if nothing changed.

        Raises:
            UnsupportedError: This release does not support the protocol.

        Example:
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
        """Index columns in another way, for new and existing rows.

        The decision is one version. Then splits are rewritten in batches, each a version. Until
        then their rows are tested one by one: correct, but slower. The same call continues after an
        interruption.

        Args:
            columns: Maps columns to kinds: text, string, text_and_string, exact_only, json, ip or
                none. A list of names keeps the kinds and changes the tokenizer.
            tokenizer: The analyzer of text columns.
            where: Partitions to rewrite; the others keep their index for now.
            dry_run: Only count the splits.
            progress: Called at every step.
            execute: Runs the tasks elsewhere than in threads of this process.

        Returns:
            How many splits were rewritten, and how many are left.

        Raises:
            InvalidInputError: The kind or the analyzer does not fit a column.

        Example:
            t.reindex({"message": "text"}, tokenizer="en_stem")
        """
        return reindex.reindex(
            self.handle,
            columns,
            tokenizer=tokenizer,
            where=where,
            dry_run=dry_run,
            progress=progress,
            execute=execute,
        )

    # Companions: indexes of other tables.

    def sync(
        self,
        *,
        dry_run: bool = False,
        progress: Progress = silent,
        execute: Execute[SyncTask, AddAction] | None = None,
    ) -> SyncReport:
        """Index the files that the source of a companion has and no split indexes.

        Each group of files of a partition (`companion.targetInputSize`) becomes a split. A commit of
        the source that only deletes rows by a deletion vector costs nothing. This object then shows
        the newest version of the source.

        Args:
            dry_run: Only report what would be indexed. Nothing is changed.
            progress: Called at every step.
            execute: Runs the tasks elsewhere than in threads of this process.

        Returns:
            What was indexed.

        Raises:
            RefusedError: This is not a companion, or its source is another table than it was.
            SourceChangedError: A file of the source was replaced or removed while it was read.

        Example:
            Table.open("events-index").sync()
        """
        return companions.sync(self.handle, dry_run=dry_run, progress=progress, execute=execute)

    def source_status(self) -> SourceStatus:
        """Return how far a companion follows its source: versions, files and rows that are not
        indexed.

        Raises:
            RefusedError: This is not a companion.

        Example:
            Table.open("events-index").source_status().rows_unindexed
        """
        return companions.source_status(self.handle)

    # Maintenance. Each method plans first; with `dry_run` it only reports the plan.

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
        """Merge small splits of a partition into larger ones. No row changes.

        A split that cannot be read is skipped for a while and stays in the table.

        Args:
            target_size: The size of new splits, such as 100M or 4G.
            where: Partitions to merge.
            max_dest_splits: The maximum number of new splits; the oldest sources come first.
            max_source_splits: The maximum number of sources of a new split.
            order_by: Columns to sort rows by. Large splits that overlap are then split again. The
                setting `merge.clusterBy` sorts in every merge.
            rewrite: Only rewrite splits of another engine, in batches. The same call continues
                after an interruption.
            dry_run: Only plan.
            progress: Called at every step.
            execute: Runs groups elsewhere than in threads of this process.

        Returns:
            What was merged.

        Raises:
            InvalidInputError: An argument is out of range, or `where` names a column that is not a
                partition column.

        Example:
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
        """Delete splits that no version of the retention period needs, expired files of the log,
        and leftovers.

        Args:
            older_than_hours: How long splits are kept after they were removed (168 by default).
            log_retention_hours: How long version files are kept (720 by default).
            dry_run: Only list the files.
            progress: Called at every step.
            delete: Deletes files elsewhere than in this process.

        Returns:
            What was deleted.

        Raises:
            RefusedError: A period is less than 24 hours, and the setting
                `purge.retentionCheckEnabled` is not false.

        Example:
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
        """Erase the rows that match a condition from every file, and prove it.

        Live splits that store such a row are rewritten with a new index, in one version. Then the
        old splits and the files of the log that list them are deleted as far as retention and tags
        allow; older versions cannot be opened afterwards. At last every remaining file is read
        again. `report.proved` is true if none holds such a row; otherwise `report.holders` lists
        the files, until when each is kept, and what lifts that.

        Args:
            where: Which rows, deleted rows included. A condition that matches every row is
                accepted.
            retention_hours: How long removed splits and files of the log are kept, instead of
                `purge.defaultRetentionHours` and `purge.txLogRetentionHours`.
            dry_run: Only search, and report what would happen to each file.
            progress: Called at every step.

        Returns:
            What was erased, what still holds the rows, and whether the table is proved to be free
            of them.

        Raises:
            InvalidInputError: No condition is given.
            RefusedError: The retention is less than 24 hours without
                `purge.retentionCheckEnabled=false`, or IndexTables for the JVM wrote a split that
                may hold the rows.
            ConflictError: Another writer changed one of the splits. Run it again.

        Example:
            t.erase(where="email = 'ada@example.org'", dry_run=True)
        """
        return erase.erase(
            self.handle,
            where=where,
            retention_hours=retention_hours,
            dry_run=dry_run,
            progress=progress,
        )

    def truncate_time_travel(
        self, *, dry_run: bool = False, progress: Progress = silent
    ) -> TruncateReport:
        """Delete every version but the newest from the log.

        No split is deleted. A purge deletes those that are not needed any more.

        Args:
            dry_run: Only list the files of the log.
            progress: Called at every step.

        Returns:
            What was deleted.

        Example:
            t.truncate_time_travel(dry_run=True)
        """
        return truncate.truncate_time_travel(self.handle, dry_run=dry_run, progress=progress)

    def restore(
        self,
        *,
        version: int | str | None = None,
        timestamp: Moment | None = None,
        dry_run: bool = False,
    ) -> RestoreReport:
        """Bring back an older version as a new one.

        Schema and configuration come back too; the protocol is never lowered.

        Args:
            version: A version number or a tag.
            timestamp: A datetime, ISO text or milliseconds since 1970, instead of a version.
            dry_run: Only count.

        Returns:
            What came back.

        Raises:
            VersionNotFoundError: The version was cleaned away.
            MissingSplitError: A split of the version was deleted.

        Example:
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
        """Delete the rows that are older than the retention period of the table.

        A row is too old if its value in `retention.column` is older than `retention.period`. Rows
        without a value stay. Splits are removed by their bounds in the log; splits on the edge lose
        rows as by `delete`.

        Args:
            now: The clock: a datetime, ISO text or milliseconds since 1970.
            dry_run: Only count.
            progress: Called at every step.
            execute: Runs the tasks elsewhere than in threads of this process.

        Returns:
            What was deleted.

        Raises:
            InvalidInputError: The table has no retention.
            ConflictError: Another writer changed one of the splits.

        Example:
            t.update_metadata(options={"retention.column": "ts", "retention.period": "30 days"})
            t.expire(dry_run=True)
        """
        return expire.expire(
            self.handle, now=now, dry_run=dry_run, progress=progress, execute=execute
        )

    def tag(self, name: str, *, version: int | None = None) -> int:
        """Give a version a name. No purge, truncation or cleaning of the log touches it until
        `untag`.

        Args:
            name: A word that is not a number. `Table.open(path, version="release-7")` and `restore`
                accept it.
            version: The version; the shown one if None.

        Returns:
            The version that records the tag.

        Raises:
            RefusedError: Another version has the name.
            VersionNotFoundError: The version was cleaned away.

        Example:
            t.tag("release-7")
        """
        if version is None:
            meant = self.version
        else:
            meant = whole_number("version", version)
        return self._show_tagged(tags.tag(self.handle.log, name, meant, engine_info=ENGINE_INFO))

    def untag(self, name: str) -> int:
        """Remove a tag. Its version is cleaned up like any other from then on.

        Args:
            name: The tag.

        Returns:
            The version that records the removal.

        Raises:
            VersionNotFoundError: No version has the name.

        Example:
            t.untag("release-7")
        """
        return self._show_tagged(tags.untag(self.handle.log, name, engine_info=ENGINE_INFO))

    def tags(self) -> dict[str, int]:
        """Return the tags of the newest version with their versions, oldest first.

        Example:
            t.tags()["release-7"]
        """
        return self.handle.log.newest().header.tags

    def checkpoint(self, *, dry_run: bool = False) -> CheckpointReport:
        """Write the state of the table, so that opening it does not replay its log.

        It upgrades tables of older releases.

        Args:
            dry_run: Only report what would happen. Nothing is changed.

        Returns:
            What was written.

        Example:
            t.checkpoint()
        """
        return checkpoint.write_checkpoint(self.handle, Compact.AS_NEEDED, dry_run=dry_run)

    def compact(self, *, dry_run: bool = False) -> CheckpointReport:
        """Rewrite the state of the table: without removed entries, with full manifests, sorted by
        partition.

        Args:
            dry_run: Only report what would happen. Nothing is changed.

        Returns:
            What was written.

        Example:
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
        """Check the log and every live split. Nothing is changed.

        Damage is in the report, not raised. `verify_table(path)` checks a table that cannot be
        opened.

        Args:
            full: Whether to read every byte of every split.
            dry_run: Only report how much there is to check.
            progress: Called at every step.
            execute: Runs the tasks elsewhere than in threads of this process.

        Returns:
            The findings.

        Example:
            assert t.verify(full=True).healthy
        """
        return verify.verify(
            self.handle, full=full, dry_run=dry_run, progress=progress, execute=execute
        )

    @class_only
    def drop(
        cls,  # noqa: N805
        path: str,
        *,
        options: Mapping[str, object] | None = None,
        dry_run: bool = False,
        progress: Progress = silent,
    ) -> DropTableReport:
        """Delete the table at `path`: its log and all its splits.

        Background work of this process on the table is waited for. A marker keeps other processes
        from writing to the table until everything is deleted. Files in the folder that are not part
        of the table stay.

        Args:
            path: A local path or a URL.
            options: Settings.
            dry_run: Only report what would happen. Nothing is changed.
            progress: Called at every step.

        Returns:
            What was deleted.

        Raises:
            TableNotFoundError: There is no table at the path.
            UnsupportedError: This release must not write to the table.

        Example:
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
        """Repair the table at `path`. No existing file is changed.

        A damaged log continues as a new version with every version that can be read, those after a
        missing one included; the report names the lost versions. A lost log is rebuilt from the
        splits alone. If the log can be read, its newest state or checkpoint is rewritten if it is
        damaged. Missing splits are left out.

        Args:
            path: A local path or a URL.
            at: Another path: write a clean copy of the damaged log there.
            from_replica: A location, or True for `checkpoint.replica.location`: read the state of a
                table that cannot be opened from there, if it is proved to be of this table.
            options: Settings.
            dry_run: Only report what would happen. Nothing is changed.
            progress: Called at every step.

        Returns:
            What was repaired, and what was lost.

        Raises:
            TableNotFoundError: There is nothing to repair.

        Example:
            Table.repair("/data/logs", at="/data/logs-repaired", dry_run=True)
        """
        return repair.repair_table(
            path,
            at=at,
            from_replica=from_replica,
            options=options,
            dry_run=dry_run,
            progress=progress,
        )

    # Reports on the table.

    @property
    def inspect(self) -> Inspection:
        """Report on the table: `t.inspect.files()`, `history()`, `state()`, `partitions()`,
        `component_sizes()`, ...
        """
        return inspection.Inspection(self.handle.log_handle())

    @property
    def admin(self) -> Administration:
        """Operations for administrators: `t.admin.record_skipped_file(...)`,
        `t.admin.downgrade_protocol(to=3)`.
        """
        return administration.Administration(self.handle)

    @property
    def plot(self) -> Plots:
        """Charts for notebooks, drawn with matplotlib (the extra `plots`): `t.plot.timeline()`,
        `t.plot.sizes()`, ...
        """
        return figures.Plots(self.inspect)

    def files(self, *, where: Where | None = None) -> pa.Table:
        """Return the live splits: path, partition values, size, records, statistics, and the
        version that added each.

        Args:
            where: Only splits that may hold a matching row, by their partition values and column
                bounds.

        Returns:
            A row for each split.

        Example:
            t.files(where="day = '2026-11-02'").column("path")
        """
        return self.inspect.files(where=where)

    def history(self, *, limit: int | None = None) -> pa.Table:
        """Return what was committed, newest first, and which versions can still be read.

        Args:
            limit: The maximum number of versions.

        Returns:
            A row for each version.

        Example:
            t.history(limit=10).to_pylist()
        """
        return self.inspect.history(limit=limit)

    def state(self) -> StateReport:
        """Return what the newest state or checkpoint contains, and whether it should be compacted.

        For a table that was opened at an older version, the state that this version is read from.

        Returns:
            The report.

        Example:
            t.state().needs_compaction
        """
        return self.inspect.state()

    def component_sizes(self, *, where: Where | None = None) -> pa.Table:
        """Return how many bytes each component of each split takes.

        Args:
            where: Only splits that may hold a matching row.

        Returns:
            Rows of split_path, partition_values, component, field and size_bytes.

        Example:
            t.component_sizes().group_by("field").aggregate([("size_bytes", "sum")])
        """
        return self.inspect.component_sizes(where=where)

    def skipped_files(self) -> pa.Table:
        """Return the splits that an operation could not process: why, how often, and until when
        they are skipped.

        Example:
            t.skipped_files().num_rows
        """
        return self.inspect.skipped_files()

    def cache_stats(self) -> CacheStats:
        """Return what the process caches of the log of this table, and how often that was used.

        Example:
            t.cache_stats().to_dict()
        """
        return self.handle.log.cache_stats()

    def invalidate_cache(self, kind: str | None = None) -> dict[str, Any]:
        """Drop what the process caches of the log.

        Args:
            kind: One kind of `cache_stats()`; all if None.

        Returns:
            The figures before.

        Example:
            t.invalidate_cache("files")
        """
        before = self.handle.log.cache_stats().to_dict()
        self.handle.log.invalidate_cache(kind)
        return before

    def metrics(self) -> MetricsReport:
        """Return what this process has done with this table: commits, loads, requests and more.

        Example:
            print(t.metrics())
        """
        return self.inspect.metrics()

    def _repr_html_(self) -> str:
        return figures.table_html(self.inspect)

    def _reader(
        self,
        query: str | None,
        where: Where | None,
        columns: Sequence[str] | None,
        limit: int | None,
    ) -> pa.RecordBatchReader:
        if limit is None:
            max_rows = None
        else:
            max_rows = whole_number("limit", limit)
        task = self._task(query, where, columns)
        return pa.RecordBatchReader.from_batches(
            task.plan.output_schema, limit_rows(task.batches(), max_rows)
        )

    def _task(
        self,
        query: str | None = None,
        where: Where | None = None,
        columns: Sequence[str] | None = None,
    ) -> ScanTask:
        return ScanTask(
            plan_scan(self.handle, query=query, where=where, columns=columns), self.handle.log.store
        )

    def _show_tagged(self, version: int) -> int:
        """Show the newest version after a tag was given or removed, unless the table was opened at
        an older one.
        """
        if self.handle.is_pinned:
            return version
        return self.handle.show_newest_after(version)

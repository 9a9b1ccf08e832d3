"""The class that Spark knows: options in, reader or writer out.

A statement behind the data source, for drivers that no Python process has started (spark-sql, Thrift, Connect).

The statement runs where Spark plans the read, once; the one task of the read hands over the rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from indextables.commands import Command, Session, TableName, parse
from indextables.errors import InvalidInputError
from indextables.model.schema import normalize, schema_to_json
from indextables.spark.errors import plain_errors
from indextables.spark.schemas import FRAME_KEY, SparkBatches, readable, with_metadata
from indextables.spark.source.options import ReadRequest, SourceOptions
from indextables.spark.source.reader import Frame, TableReader, open_table
from indextables.spark.source.stream_reader import FEED_FIELDS, ChangeReader, TableStreamReader
from indextables.spark.source.writer import TableStreamWriter, TableWriter, plan_source_write
from indextables.storage.location import parse_location

TABLE_KEY = "indextables.table"
"""Field metadata that asks the driver where the table behind a name is; the answer comes as option `statementTable`."""


def parse_command(sql: str) -> Command:
    """The command that a statement says; it must be one of ours."""
    command = parse(sql)
    if command is None:
        raise InvalidInputError(f"Not a statement of IndexTables: {sql!r}.")
    return command


def spark_columns(command: Command) -> StructType:
    """The columns of a command's rows as Spark knows them."""
    return readable(schema_to_json(normalize(command.columns)))


def statement_schema(sql: str) -> StructType:
    """The columns of a statement's rows, with the name of its table where it has one."""
    command = parse_command(sql)
    table = getattr(command, "table", None)
    columns = spark_columns(command)
    return with_metadata(columns, TABLE_KEY, str(table)) if isinstance(table, TableName) else columns


@dataclass
class StatementRows(InputPartition):
    """What a statement returned."""

    rows: pa.Table

    def __repr__(self) -> str:
        return f"StatementRows({self.rows.num_rows})"


class StatementReader(DataSourceReader):
    """Runs a statement."""

    def __init__(self, options: SourceOptions, sql: str, schema: StructType) -> None:
        self._options = options
        self._sql = sql
        self._schema = schema

    @plain_errors
    def partitions(self) -> Sequence[InputPartition]:
        """Runs once, in a planner process."""
        path = self._options.text("statementTable")

        def resolve(name: TableName) -> str:
            if path is None:
                raise InvalidInputError(f"It is not known where {name} is.", hint="Give the table's path in quotes.")
            return path

        session = Session(dict(self._options.settings), resolve)
        return [StatementRows(parse_command(self._sql).run(session))]

    @plain_errors
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Runs in a task. Spark may want some of the columns only."""
        if isinstance(partition, StatementRows):
            yield from SparkBatches(self._schema)(partition.rows.select(self._schema.names).to_batches())


class DefaultSource(DataSource):
    """`spark.read.format("indextables")`."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "indextables"

    _frame: Frame | None = None

    @plain_errors
    def schema(self) -> StructType:
        """The columns that a read returns. Spark keeps this object for the frame, which stays at the version seen here."""
        options = self._parsed()
        statement = options.text("statement")
        if statement is not None:
            return statement_schema(statement)
        table = open_table(options, options.required_path())
        self._frame = Frame.of(table)
        schema = ReadRequest.parse(options).schema(table)
        if options.flag("readChangeFeed"):
            schema = StructType([*schema, *FEED_FIELDS])
        if options.text("frame") == Frame.NEW:
            schema = with_metadata(schema, FRAME_KEY, str(self._frame))
        return schema

    @plain_errors
    def reader(self, schema: StructType) -> DataSourceReader:
        """A batch read, or a statement."""
        options = self._parsed()
        statement = options.text("statement")
        if statement is not None:
            return StatementReader(options, statement, schema)
        if options.flag("readChangeFeed"):
            return ChangeReader(options, schema, self._frame)
        return TableReader(options, schema, self._frame)

    @plain_errors
    def writer(self, schema: StructType, overwrite: bool) -> TableWriter:
        """A batch write."""
        return TableWriter(plan_source_write(self._parsed(), schema, overwrite=overwrite))

    @plain_errors
    def streamReader(self, schema: StructType) -> TableStreamReader:  # noqa: N802
        """A stream of what is appended to a table."""
        return TableStreamReader(self._parsed(), schema)

    @plain_errors
    def streamWriter(self, schema: StructType, overwrite: bool) -> TableStreamWriter:  # noqa: N802
        """A stream into a table, each batch once."""
        options = self._parsed()
        checkpoint = self.options.get("checkpointLocation")
        plan = plan_source_write(options, schema, overwrite=overwrite, streaming=True)
        return TableStreamWriter(plan, None if checkpoint is None else parse_location(checkpoint).url)

    def _parsed(self) -> SourceOptions:
        return SourceOptions.parse(self.options)

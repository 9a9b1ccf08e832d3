"""A statement behind the data source, for drivers that no Python process has started (spark-sql, Thrift, Connect).

The statement runs where Spark plans the read, once; the one task of the read hands over the rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from indextables.commands import Command, Session, TableName, parse
from indextables.errors import InvalidInputError
from indextables.model.schema import normalize, schema_to_json
from indextables.spark.schemas import SparkBatches, readable, with_metadata
from indextables.spark.source.options import SourceOptions

TABLE_KEY = "indextables.table"
"""Field metadata that asks the driver where the table behind a name is; the answer comes as option `statementTable`."""


def required(sql: str) -> Command:
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
    command = required(sql)
    table = getattr(command, "table", None)
    found = spark_columns(command)
    return with_metadata(found, TABLE_KEY, str(table)) if isinstance(table, TableName) else found


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

    def partitions(self) -> Sequence[InputPartition]:
        """Runs once, in a planner process."""
        found = self._options.text("statementTable")

        def resolve(name: TableName) -> str:
            if found is None:
                raise InvalidInputError(f"It is not known where {name} is.", hint="Give the table's path in quotes.")
            return found

        session = Session(dict(self._options.settings), resolve)
        return [StatementRows(required(self._sql).run(session))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Runs in a task. Spark may want some of the columns only."""
        if isinstance(partition, StatementRows):
            yield from SparkBatches(self._schema)(partition.rows.select(self._schema.names).to_batches())

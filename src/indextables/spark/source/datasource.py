"""The class that Spark knows: options in, reader or writer out."""

from __future__ import annotations

from pyspark.sql.datasource import DataSource, DataSourceReader
from pyspark.sql.types import StructType

from indextables.spark.schemas import FRAME_KEY, with_metadata
from indextables.spark.source.options import ReadRequest, SourceOptions
from indextables.spark.source.reader import Frame, TableReader, open_table
from indextables.spark.source.statement_reader import StatementReader, statement_schema
from indextables.spark.source.stream_reader import TableStreamReader
from indextables.spark.source.writer import TableStreamWriter, TableWriter, planned_write, write_request


class DefaultSource(DataSource):
    """`spark.read.format("indextables")`."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "indextables"

    _frame: Frame | None = None

    def schema(self) -> StructType:
        """The columns that a read returns. Spark keeps this object for the frame, which stays at the version seen here."""
        options = self._parsed()
        statement = options.text("statement")
        if statement is not None:
            return statement_schema(statement)
        table = open_table(options, options.required_path())
        self._frame = Frame.of(table)
        schema = ReadRequest.parse(options).schema(table)
        if options.text("frame") == Frame.NEW:
            schema = with_metadata(schema, FRAME_KEY, str(self._frame))
        return schema

    def reader(self, schema: StructType) -> DataSourceReader:
        """A batch read, or a statement."""
        options = self._parsed()
        statement = options.text("statement")
        if statement is not None:
            return StatementReader(options, statement, schema)
        return TableReader(options, schema, self._frame)

    def writer(self, schema: StructType, overwrite: bool) -> TableWriter:
        """A batch write."""
        return TableWriter(planned_write(self._parsed(), schema, overwrite=overwrite))

    def streamReader(self, schema: StructType) -> TableStreamReader:  # noqa: N802
        """A stream of what is appended to a table."""
        return TableStreamReader(self._parsed(), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> TableStreamWriter:  # noqa: N802
        """A stream into a table, each batch once."""
        return TableStreamWriter(write_request(self._parsed(), schema, overwrite=overwrite), schema)

    def _parsed(self) -> SourceOptions:
        return SourceOptions.parse(self.options)

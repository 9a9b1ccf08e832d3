"""The class that Spark knows: options in, reader or writer out."""

from __future__ import annotations

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from indextables.spark.schemas import readable, with_path
from indextables.spark.source.options import SourceOptions
from indextables.spark.source.reader import TableReader, open_table
from indextables.spark.source.writer import TableWriter, planned_write


class DefaultSource(DataSource):
    """`spark.read.format("indextables")`."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "indextables"

    def schema(self) -> StructType:
        """The columns that a read returns, with the table's path where Spark will have lost the options."""
        options = self._parsed()
        path = options.required_path()
        table = open_table(options, path)
        full = readable(table.metadata.schema_string)
        columns = options.names("columns")
        if columns is not None:
            spelled = table.plan_scan(columns=columns).columns
            full = StructType([full[name] for name in spelled])
        return with_path(full, table.path)

    def reader(self, schema: StructType) -> TableReader:
        """A batch read."""
        return TableReader(self._parsed(), schema)

    def writer(self, schema: StructType, overwrite: bool) -> TableWriter:
        """A batch write."""
        return TableWriter(planned_write(self._parsed(), schema, overwrite=overwrite))

    def _parsed(self) -> SourceOptions:
        return SourceOptions.parse(self.options)

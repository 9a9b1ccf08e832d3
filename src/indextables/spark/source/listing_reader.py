"""The live splits of a table behind the data source: a row for each, as `Table.files()` has them."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from indextables.errors import InvalidInputError
from indextables.model.schema import normalize, schema_to_json
from indextables.spark.schemas import readable
from indextables.spark.source.options import SourceOptions
from indextables.spark.source.reader import open_table
from indextables.spark.source.statement_reader import KnownRows, KnownRowsReader


def is_listing(options: SourceOptions) -> bool:
    """Whether a read is about the files of a table."""
    asked = options.text("listing")
    if asked not in (None, "files"):
        raise InvalidInputError(f"There is no listing {asked!r}.", hint="The listing is files.", key="listing")
    return asked is not None


def listing_schema(options: SourceOptions) -> StructType:
    """The columns of the file list."""
    return readable(schema_to_json(normalize(_files(options).schema)))


class ListingReader(KnownRowsReader):
    """Reads the file list, where Spark plans the read."""

    def partitions(self) -> Sequence[InputPartition]:
        """Runs in a planner process."""
        return [KnownRows(_files(self.options).select(self.schema.names))]


def _files(options: SourceOptions) -> pa.Table:
    return open_table(options, options.required_path()).files()

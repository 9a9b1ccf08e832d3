"""What differs between the versions of PySpark that the package runs on; no other Python module
asks for the version.

`spark/java/SparkApi.java` and the folders `spark/java/since_*` do the same for the classes in the
driver.
"""

from __future__ import annotations

import pickle
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyspark
from pyspark.errors import AnalysisException
from pyspark.serializers import CPickleSerializer
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas import types as arrow_types
from pyspark.sql.types import StructType


def minor_version(text: str) -> tuple[int, int]:
    """The first two numbers of a version: (4, 1) of `4.1.4` and of `since_4_1`."""
    major, minor = text.removeprefix("since_").replace("_", ".").split(".")[:2]
    return int(major), int(minor)


SPARK = minor_version(pyspark.__version__)
"""The version of the PySpark that is installed."""
OLDEST, NEWEST = (4, 0), (4, 3)
"""The versions that the tests run on."""
JAVA = (17, 21) if SPARK < (4, 2) else (17, 21, 25)
"""Supported versions of Java. The Hadoop of Spark 4.0 and 4.1 does not start on Java 25."""

if TYPE_CHECKING or SPARK >= (4, 2):
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxBytes,
        ReadMaxFiles,
        SupportsTriggerAvailableNow,
    )
else:
    # Spark 4.0 and 4.1 ask a stream only for its newest offset: they never call what takes or
    # returns a limit.

    class ReadLimit:
        """How much one batch of a stream takes."""

    class ReadAllAvailable(ReadLimit):
        """Everything that is there."""

    class ReadMaxFiles(ReadLimit):
        """A number of files."""

        def __init__(self, max_files: int) -> None:
            self.max_files = max_files

    class ReadMaxBytes(ReadLimit):
        """Return an option as a number of bytes."""

        def __init__(self, max_bytes: int) -> None:
            self.max_bytes = max_bytes

    class SupportsTriggerAvailableNow:
        """A stream that can be read up to where it ends now."""


CAPABILITIES = {
    "rate limits of streams": (4, 2),
    "CREATE TABLE LIKE": (4, 2),
    "filter pushdown into Python data sources without the extension": (4, 1),
    "scripts (BEGIN ... END) without spark.sql.scripting.enabled": (4, 1),
    "time travel as t@v1 in SQL, besides VERSION AS OF": (4, 3),
}
"""What depends on the version of Spark, and the first version that has it."""
STREAMS_HAVE_LIMITS = CAPABILITIES["rate limits of streams"] <= SPARK
"""Whether Spark passes the start of a batch and its limit to a stream reader."""


def capabilities(spark: tuple[int, int] = SPARK) -> dict[str, str]:
    """What a version of Spark can do: yes, or the version that it needs."""
    found = {}
    for name, since in CAPABILITIES.items():
        found[name] = "yes" if spark >= since else f"needs Spark {since[0]}.{since[1]}"
    return found


if TYPE_CHECKING or SPARK >= (4, 1):
    from pyspark.sql.datasource import DataSourceStreamArrowWriter
else:
    from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamWriter

    class DataSourceStreamArrowWriter(DataSourceStreamWriter, DataSourceArrowWriter):
        """A stream writer that Spark 4.0 gives Arrow batches, as it gives them to a batch writer of
        this kind.
        """


def to_arrow_schema(schema: StructType) -> pa.Schema:
    """The Arrow schema of the batches that Spark expects of a reader."""
    if SPARK >= (4, 2):
        return arrow_types.to_arrow_schema(schema, timezone="UTC")
    return arrow_types.to_arrow_schema(schema, timestamp_utc=True)  # type: ignore[call-arg]  # PySpark 4.0 and 4.1


def register_with_server(spark: SparkSession, source: type[DataSource]) -> None:
    """Register a data source through Spark Connect.

    Spark 4.0 refuses the name of a source that a package on the server has. That package is ours:
    the format works there without registration.
    """
    try:
        spark.dataSource.register(source)
    except AnalysisException as error:
        if SPARK >= (4, 1) or error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise


def with_offsets(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch from Spark in which every nested array has its offsets.

    Spark 4.0 sends no offsets for an empty array, and pyarrow reads the first one regardless.
    """
    if SPARK >= (4, 1) or not any(map(_lacks_offsets, batch.columns)):
        return batch
    return batch.take(pa.array(range(batch.num_rows), pa.int64()))


def _lacks_offsets(column: pa.Array) -> bool:
    if column.type.num_fields == 0:
        return False
    return any(buffer is not None and buffer.size == 0 for buffer in column.buffers())


def read_function(reader: DataSourceReader) -> Callable[[Iterator[pa.RecordBatch]], Iterator[Any]]:
    """Return the function that Spark's workers call with a batch that holds one pickled partition."""

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[Any]:
        partitions = [value.as_py() for batch in batches for value in batch.column(0)]
        return reader.read(pickle.loads(partitions[0]))

    return read


def pack_read(reader: DataSourceReader, schema: StructType) -> bytes:
    """A planned read for the driver (`PlannedRead.java`): its function, then its partitions, each
    with its length.
    """
    partitions: Sequence[InputPartition] = reader.partitions() or [InputPartition(None)]
    pickler: Any = CPickleSerializer()
    pieces = [
        pickler.dumps((read_function(reader), schema)),
        *(pickler.dumps(one) for one in partitions),
    ]
    return b"".join(struct.pack(">i", len(piece)) + piece for piece in pieces)


__all__ = [
    "CAPABILITIES",
    "JAVA",
    "NEWEST",
    "OLDEST",
    "SPARK",
    "STREAMS_HAVE_LIMITS",
    "DataSourceStreamArrowWriter",
    "ReadAllAvailable",
    "ReadLimit",
    "ReadMaxBytes",
    "ReadMaxFiles",
    "SupportsTriggerAvailableNow",
    "capabilities",
    "minor_version",
    "pack_read",
    "register_with_server",
    "to_arrow_schema",
    "with_offsets",
]

"""Reading a table as a DataFrame: Spark's own scan where Spark can open the files, the data source
elsewhere.

The splits of a snapshot are Parquet files, so Spark reads them with its own vectorised reader (the
native scan). It is given the file list as one byte array, for the `SnapshotFileIndex` in the driver
(`java/SnapshotFileIndex.java`).

One call hands over everything: 100,000 files in a fraction of a second, where a call per file would
take minutes. Layout, little-endian: the number of partitions; a column per partition column with
the value of each partition; then for each file the number of its partition, its path, its size,
where its rows end, and its time; then the names of the columns that have bounds, and for each of
them a column of lower and one of upper bounds; then for each file the number of its deletion
vector, how many vectors there are, and of each its length and its Roaring bitmap.

A column is a kind (`l` whole numbers, `d` doubles, `s` texts), its length, and the values (see
`java/Column.java`). Values are in the units of Spark's own rows: days, microseconds, UTF-8 bytes.
Spark does not check partition values again, so a value that cannot be read for certain is an error,
never a null.

Without access to the driver (Spark Connect) the native scan is `spark.read.parquet` over the paths
of the splits. Spark then takes the partition values from the folder names, so this way is open only
where these say exactly what the log says; and it lists every path, which it does in a job of its
own above a threshold that is raised here.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Mapping, Sequence
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame
from pyspark.sql.types import NullType, StructField, StructType

from indextables.companion.source_snapshot import At
from indextables.config.spark import SparkReadSettings
from indextables.errors import CorruptTableError, UnsupportedError
from indextables.model.actions import ROWS_END
from indextables.model.column_ranges import FileRanges
from indextables.model.deletion_vector import encode_rows
from indextables.model.predicate import Column
from indextables.model.schema import is_partitionable
from indextables.pools import SPLITS
from indextables.spark.jvm import java_classes
from indextables.spark.schemas import quoted, readable
from indextables.spark.settings import has_jvm, session_settings, source_options, with_session
from indextables.spark.source.datasource import source_frame
from indextables.spark.source.filters import PLACE
from indextables.spark.source.options import ReadRequest, SourceOptions
from indextables.spark.source.reader import Frame, parquet_splits
from indextables.storage.location import join, parse_location, partition_folder
from indextables.storage.spec import StoreSpec, open_store
from indextables.storage.vector_files import load_vector
from indextables.table import Table

_INT64 = np.dtype("<i8")
_FLOAT64 = np.dtype("<f8")
_THREADS = 16


def encode_file_list(
    files: pa.Table,
    schema: pa.Schema,
    partition_columns: Sequence[str],
    vectors: Sequence[bytes | None],
) -> bytes:
    """Encode a file list with typed partition values, the bounds of the other columns, and the
    vector of each file.
    """
    sizes = files["size"]
    if files.num_rows and pc.less_equal(pc.min(sizes), 0).as_py():
        path = files["path"][pc.index(pc.less_equal(sizes, 0), True).as_py()].as_py()
        # Spark plans by the size: it would leave out the rows beyond it without a word.
        raise CorruptTableError(f"The log gives no size for {path}.", path=path)
    ranges = FileRanges(files, partition_columns)
    values = [_partition_values(files, schema.field(name), ranges) for name in partition_columns]
    owners, firsts = _partitions(values, files.num_rows)
    parts = [struct.pack("<i", len(firsts)), *(_column(v.take(firsts)) for v in values)]
    times = pc.fill_null(files["modification_time"], 0)
    parts += [
        _column(c)
        for c in (owners, _flat(files["path"]), _flat(sizes), _row_ends(files), _flat(times))
    ]
    bounds = _bounds(schema, partition_columns, ranges)
    parts.append(_column(pa.array([name for name, _, _ in bounds], pa.string())))
    for _, low, high in bounds:
        parts += [_column(low), _column(high)]
    bitmaps = [bitmap for bitmap in vectors if bitmap is not None]
    numbers = iter(range(len(bitmaps)))
    parts.append(
        _column(
            pa.array([None if bitmap is None else next(numbers) for bitmap in vectors], pa.int32())
        )
    )
    parts.append(struct.pack("<i", len(bitmaps)))
    for bitmap in bitmaps:
        parts += [struct.pack("<i", len(bitmap)), bitmap]
    return b"".join(parts)


def _bitmaps(table: Table, files: pa.Table) -> list[bytes | None]:
    """Return the deletion vector of each file as a bitmap, compared with its recorded row count."""
    if files["deletion_vector"].null_count == files.num_rows:
        return [None] * files.num_rows
    store = open_store(StoreSpec.from_url(table.path, table.settings))

    def bitmap(deletion: tuple[str | None, int | None]) -> bytes | None:
        vector, records = deletion
        if vector is None:
            return None
        return encode_rows(load_vector(store, vector, records=records))

    deletions = zip(
        files["deletion_vector"].to_pylist(), files["deleted_records"].to_pylist(), strict=True
    )
    return list(SPLITS.each(bitmap, deletions, parallelism=_THREADS))


def _row_ends(files: pa.Table) -> pa.Array:
    """Return where the rows of each file end. Spark divides files into tasks, and those of the
    index alone would have no rows.
    """
    told = pc.map_lookup(_flat(files["tags"]), pa.scalar(ROWS_END), "first")
    is_number = pc.fill_null(pc.match_substring_regex(told, "^[1-9][0-9]{0,17}$"), False)
    ends = pc.if_else(is_number, told, None).cast(pa.int64())
    sizes = _flat(files["size"])
    return pc.if_else(pc.fill_null(pc.less_equal(ends, sizes), False), ends, sizes)


def _partition_values(files: pa.Table, field: pa.Field, ranges: FileRanges) -> pa.Array:
    bounds = ranges.range_of(Column((field.name,), field.type), nulls=False)
    unreadable = pc.is_null(bounds.low).to_numpy(zero_copy_only=False) & bounds.can_value
    if unreadable.any():
        row = files.slice(int(np.argmax(unreadable)), 1).to_pylist()[0]
        value = dict(row["partition_values"] or []).get(field.name)
        message = f"{row['path']} has the value {value!r} for partition column {field.name!r}, which is no {field.type}."
        raise CorruptTableError(message, path=row["path"], column=field.name)
    return bounds.low


def _partitions(values: Sequence[pa.Array], count: int) -> tuple[pa.Array, pa.Array]:
    """Return for each file the number of its partition, and for each partition its first file."""
    codes = np.zeros(count, np.int64)
    for column in values:
        each = pc.dictionary_encode(column, null_encoding="encode").indices.to_numpy()
        codes = codes * (int(each.max(initial=0)) + 1) + each
        # Renumbered each time, so that the product never overflows.
        codes = np.unique(codes, return_inverse=True)[1].astype(np.int64)
    firsts = np.unique(codes, return_index=True)[1]
    return pa.array(codes), pa.array(firsts)


def _bounds(
    schema: pa.Schema, partition_columns: Sequence[str], ranges: FileRanges
) -> list[tuple[str, pa.Array, pa.Array]]:
    """Return name, lower and upper bounds of every column that has any."""
    bounds = []
    for field in schema:
        if field.name in partition_columns or not is_partitionable(field.type):
            continue
        interval = ranges.range_of(Column((field.name,), field.type), nulls=False)
        if interval.low.null_count < len(interval.low) or interval.high.null_count < len(
            interval.high
        ):
            bounds.append((field.name, interval.low, interval.high))
    return bounds


def _flat(column: pa.ChunkedArray) -> pa.Array:
    combined = column.combine_chunks()
    if isinstance(combined, pa.Array):
        return combined
    return pa.concat_arrays(combined.chunks)


def _column(values: pa.Array) -> bytes:
    kinds = pa.types
    if kinds.is_decimal(values.type):
        values = values.cast(pa.string())
    if kinds.is_string(values.type):
        return _texts(values)
    if kinds.is_floating(values.type):
        return _numbers(b"d", values.cast(pa.float64()), _FLOAT64)
    if kinds.is_date(values.type):
        values = values.cast(pa.int32())
    return _numbers(b"l", values.cast(pa.int64()), _INT64)


def _texts(values: pa.Array) -> bytes:
    filled = pc.fill_null(values, "")
    lengths = pc.binary_length(filled).to_numpy().astype("<i4")
    lengths[pc.is_null(values).to_numpy(zero_copy_only=False)] = -1
    if len(filled):
        text = pc.binary_join(pa.ListArray.from_arrays([0, len(filled)], filled), "")[0].as_py()
    else:
        text = ""
    return b"".join([b"s", struct.pack("<i", len(values)), lengths.tobytes(), text.encode()])


def _numbers(kind: bytes, values: pa.Array, form: np.dtype[np.generic]) -> bytes:
    valid = pc.is_valid(values).to_numpy(zero_copy_only=False).astype("u1")
    filled = pc.fill_null(values, 0).to_numpy(zero_copy_only=False).astype(form)
    return b"".join([kind, struct.pack("<i", len(values)), valid.tobytes(), filled.tobytes()])


def has_file_system(spark: SparkSession, url: str) -> bool:
    """Return whether Spark itself can open a URL. PySpark from PyPI supports local disks and HDFS,
    but no object store.
    """
    return bool(java_classes(spark).call("NativeScan", "canRead", spark._jsparkSession, url))


def native_scan(
    spark: SparkSession, table: Table, files: pa.Table, source: Mapping[str, str]
) -> DataFrame:
    """Return a DataFrame over files of a table's snapshot, planned from the log without listing.

    `source` are the options with which the data source reads the same files, for queries with
    searches.
    """
    schema = readable(table.metadata.schema_string)
    stored = [field for field in schema if not isinstance(field.dataType, NullType)]
    partitions = table.partition_columns
    classes = java_classes(spark)
    frame = classes.call(
        "NativeScan",
        "dataFrame",
        spark._jsparkSession,
        StructType([field for field in stored if field.name not in partitions]).json(),
        StructType([schema[name] for name in partitions]).json(),
        table.path,
        f"{table.path}, version {table.version}",
        classes.text_map(source),
        encode_file_list(files, table.schema, partitions, _bitmaps(table, files)),
    )
    return in_order(ClassicDataFrame(frame, spark), schema)


def in_order(frame: DataFrame, schema: StructType) -> DataFrame:
    """Return the columns of a schema in order. Columns of nulls are not in the files and are added
    here.
    """
    if frame.columns == schema.names:
        return frame
    return frame.select(*[_select_field(frame, field) for field in schema])


def _select_field(frame: DataFrame, field: StructField) -> SparkColumn:
    if isinstance(field.dataType, NullType):
        return f.lit(None).alias(field.name)
    return frame[quoted(field.name)]


OWN_WAYS = {
    "ignoreMissingFiles": "false",
    "ignoreCorruptFiles": "false",
    "datetimeRebaseMode": "CORRECTED",
    "int96RebaseMode": "CORRECTED",
}
"""Reader options that override the session's: the same as in `NativeScan.java`."""
_LISTING_THRESHOLD = "spark.sql.sources.parallelPartitionDiscovery.threshold"


def can_list_paths(table: Table) -> bool:
    """Return whether every folder spells its partition values as the log does: null and empty text
    share a folder.
    """
    columns = table.partition_columns
    if not columns:
        return True
    files = table.files().select(["path", "partition_values"])
    return all(
        _is_told_by_folder(row["path"], dict(row["partition_values"] or []), columns)
        for row in files.to_pylist()
    )


def _is_told_by_folder(path: str, values: dict[str, str | None], columns: list[str]) -> bool:
    ordered = {name: values.get(name) for name in columns}
    return "" not in ordered.values() and path.startswith(partition_folder(ordered) + "/")


def scan_paths(spark: SparkSession, table: Table, files: pa.Table) -> DataFrame:
    """Return a DataFrame over files of a snapshot."""
    schema = readable(table.metadata.schema_string)
    stored = StructType([field for field in schema if not isinstance(field.dataType, NullType)])
    paths = [join(table.path, path) for path in files["path"].to_pylist()]
    if not paths:
        return spark.createDataFrame([], schema)
    if len(paths) > int(spark.conf.get(_LISTING_THRESHOLD) or 0):
        # A Connect session plans anew at each use of the DataFrame, so the threshold has to stay
        # raised.
        spark.conf.set(_LISTING_THRESHOLD, str(len(paths)))
    reader = spark.read.schema(stored).option("basePath", table.path).options(**OWN_WAYS)
    return in_order(reader.parquet(*paths), schema)


logger = logging.getLogger(__name__)


def table(
    spark: SparkSession,
    path: str,
    *,
    version: int | str | None = None,
    timestamp: datetime | str | int | None = None,
    at: At | None = None,
    options: Mapping[str, object] | None = None,
) -> DataFrame:
    """Return the rows of a table as a DataFrame that stays at its version.

    Spark reads the splits itself, with its own pushdown and code generation. If Spark has no file
    system for the path, or another engine wrote the splits, the data source reads them.

    Args:
        spark: The session.
        path: A local path or a URL.
        version: An older version.
        timestamp: The time of an older version: a datetime, ISO text or milliseconds.
        at: For a companion, the version of its source.
        options: Settings, over those of the session.

    Example:
        its.table(spark, "/data/logs", version=12).count()
    """
    opened_table = Table.open(
        path, version=version, timestamp=timestamp, at=at, options=with_session(spark, options)
    )
    engine, reason = engine_of(spark, opened_table)
    if engine == "arrow":
        logger.info("%s is read through the data source: %s", opened_table.path, reason)
        return through_source(spark, opened_table, options)
    # Spark reads the splits by the names that these have; what people call the columns is laid over
    # it.
    view = Table(opened_table.handle.physical_view())
    files = view.files()
    # Where Spark is told paths alone it is not told which rows are deleted.
    ours = parquet_splits(view, files, whole=not has_jvm(spark))
    rows = _scan(spark, view, files.filter(ours), options, some=pc.all(ours).as_py() is False)
    if pc.all(ours).as_py() is False:
        rest = "foreign" if has_jvm(spark) else "foreign or changed"
        rows = rows.unionByName(through_source(spark, view, options, only=rest))
    if view is opened_table:
        return rows
    return with_names(rows, readable(opened_table.metadata.schema_string))


def with_names(rows: DataFrame, schema: StructType) -> DataFrame:
    """Rename the columns, including those inside structs. Further columns are unchanged."""
    columns = [rows[quoted(name)] for name in rows.columns[len(schema) :]]
    for place, (name, field) in enumerate(zip(rows.columns, schema, strict=False)):
        column = rows[quoted(name)]
        same = rows.schema[name].dataType == field.dataType
        columns.insert(place, (column if same else column.cast(field.dataType)).alias(field.name))
    return rows.select(*columns)


def engine_of(spark: SparkSession, table: Table) -> tuple[str, str | None]:
    """Return which engine reads a table, `native` or `arrow`, and the reason if it is not Spark
    itself.
    """
    engine = table.settings.group(SparkReadSettings).engine
    reason = "read.engine is arrow" if engine == "arrow" else why_not_native(spark, table)
    if engine == "native" and reason:
        raise UnsupportedError(
            f"Spark cannot read {table.path} itself: {reason}.", hint="Set read.engine to auto."
        )
    return ("arrow" if reason else "native"), reason


def why_not_native(spark: SparkSession, table: Table) -> str | None:
    """Return why Spark cannot read the table's files itself, or None."""
    if table.handle.companion is not None:
        return "it is a companion, whose rows are in the files of another table"
    kind = parse_location(table.path).kind
    if not has_jvm(spark):
        if kind == "local" and can_list_paths(table):
            return None
        return "this session has no access to Spark's driver"
    if kind != "local" and _has_own_credentials(spark, table):
        return (
            "its credentials are settings of the table, which Spark's own file systems do not know"
        )
    if has_file_system(spark, table.path):
        return None
    return "it has no file system for this kind of URL"


def through_source(
    spark: SparkSession,
    table: Table,
    options: Mapping[str, object] | None,
    *,
    only: str | None = None,
    places: Sequence[StructField] = (),
) -> DataFrame:
    """Return the rows from the data source: all, those of a kind of splits, or of splits in a JSON
    list.

    With `places` the last column `_metadata` holds the requested fields of each row's location.
    """
    own = {
        "versionAsOf": table.version,
        "frame": Frame.of(table),
        "only": only,
        "physicalNames": table.handle.viewed is not None or None,
    }
    source = source_options(spark, options, own)
    schema = ReadRequest.parse(SourceOptions.parse(source)).schema(table)
    if places:
        place = [StructField(PLACE, StructType(list(places)))]
    else:
        place = []
    rows = source_frame(spark, table.path, StructType([*schema, *place]), source)
    return in_order(rows, StructType([*readable(table.metadata.schema_string), *place]))


def _scan(
    spark: SparkSession,
    table: Table,
    files: pa.Table,
    options: Mapping[str, object] | None,
    *,
    some: bool,
) -> DataFrame:
    if not has_jvm(spark):
        return scan_paths(spark, table, files)
    only = "parquet" if some else None
    own = {"path": table.path, "versionAsOf": table.version, "frame": Frame.of(table), "only": only}
    own["physicalNames"] = table.handle.viewed is not None or None
    return native_scan(spark, table, files, source_options(spark, options, own))


def _has_own_credentials(spark: SparkSession, table: Table) -> bool:
    """Return whether a secret of the table's settings differs from that of Spark's file systems."""
    secrets = [key for key, value in table.settings.given().items() if value == "<hidden>"]
    known = session_settings(spark) if secrets else {}
    return any(table.settings[key] != known.get(key) for key in secrets)

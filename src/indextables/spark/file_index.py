"""The file list of a snapshot as one byte array, for the `SnapshotFileIndex` in the driver (`java/SnapshotFileIndex.java`).

One call hands over everything: 100,000 files in a fraction of a second, where a call per file would take minutes. Layout,
little-endian: the number of partitions; a column per partition column with the value of each partition; then for each file
the number of its partition, its path, size and time; then the names of the columns that have bounds, and for each of them
a column of lower and one of upper bounds.

A column is a kind (`l` whole numbers, `d` doubles, `s` texts), its length, and the values (see `java/Column.java`).
Values are in the units of Spark's own rows: days, microseconds, UTF-8 bytes. Spark does not check partition values again,
so a value that cannot be read for certain is an error, never a null.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from indextables.errors import CorruptTableError
from indextables.model.column_ranges import FileRanges
from indextables.model.predicate import Column
from indextables.model.schema import is_partitionable

_INT64 = np.dtype("<i8")
_FLOAT64 = np.dtype("<f8")


def encode_file_list(files: pa.Table, schema: pa.Schema, partition_columns: Sequence[str]) -> bytes:
    """The bytes of a file list with typed partition values and the bounds of the other columns."""
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
    parts += [_column(c) for c in (owners, _flat(files["path"]), _flat(sizes), _flat(times))]
    bounds = _bounds(schema, partition_columns, ranges)
    parts.append(_column(pa.array([name for name, _, _ in bounds], pa.string())))
    for _, low, high in bounds:
        parts += [_column(low), _column(high)]
    return b"".join(parts)


def _partition_values(files: pa.Table, field: pa.Field, ranges: FileRanges) -> pa.Array:
    found = ranges.range_of(Column((field.name,), field.type), nulls=False)
    unreadable = pc.is_null(found.low).to_numpy(zero_copy_only=False) & found.can_value
    if unreadable.any():
        row = files.slice(int(np.argmax(unreadable)), 1).to_pylist()[0]
        told = dict(row["partition_values"] or []).get(field.name)
        message = f"{row['path']} has the value {told!r} for partition column {field.name!r}, which is no {field.type}."
        raise CorruptTableError(message, path=row["path"], column=field.name)
    return found.low


def _partitions(values: Sequence[pa.Array], count: int) -> tuple[pa.Array, pa.Array]:
    """For each file the number of its partition, and for each partition its first file."""
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
    """Name, lower and upper bounds of every column that has any."""
    found = []
    for field in schema:
        if field.name in partition_columns or not is_partitionable(field.type):
            continue
        known = ranges.range_of(Column((field.name,), field.type), nulls=False)
        if known.low.null_count < len(known.low) or known.high.null_count < len(known.high):
            found.append((field.name, known.low, known.high))
    return found


def _flat(column: pa.ChunkedArray) -> pa.Array:
    combined = column.combine_chunks()
    return combined if isinstance(combined, pa.Array) else pa.concat_arrays(combined.chunks)


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
    joined = pc.binary_join(pa.ListArray.from_arrays([0, len(filled)], filled), "")[0].as_py() if len(filled) else ""
    return b"".join([b"s", struct.pack("<i", len(values)), lengths.tobytes(), joined.encode()])


def _numbers(kind: bytes, values: pa.Array, form: np.dtype[np.generic]) -> bytes:
    valid = pc.is_valid(values).to_numpy(zero_copy_only=False).astype("u1")
    filled = pc.fill_null(values, 0).to_numpy(zero_copy_only=False).astype(form)
    return b"".join([kind, struct.pack("<i", len(values)), valid.tobytes(), filled.tobytes()])

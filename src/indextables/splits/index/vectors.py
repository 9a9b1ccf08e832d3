"""Vectors of a column: the check of new rows, and their values as a matrix."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from indextables.errors import BadFileError, InvalidInputError
from indextables.splits.index.mapping import ColumnMapping, DocMapping

Vectors = npt.NDArray[np.floating]
"""One vector per row."""


def check_vectors(batch: pa.RecordBatch, mapping: DocMapping, *, rows_before: int) -> None:
    """Refuse vectors of another dimension, with nulls, NaN or infinity, with the row number of the
    first one.
    """
    for column in mapping.columns:
        if column.dimension:
            _check_column(batch.column(column.name), column, rows_before)


def _check_column(values: pa.ListArray, column: ColumnMapping, rows_before: int) -> None:
    lengths = pc.list_value_length(values)
    wrong = _first(pc.not_equal(lengths, column.dimension))
    if wrong is not None:
        raise _wrong_vector(
            column,
            rows_before + wrong,
            f"has {lengths[wrong]} numbers",
            "Write vectors of one model.",
        )
    numbers = values.flatten()
    wrong = _first(pc.invert(pc.fill_null(pc.is_finite(numbers), False)))
    if wrong is not None:
        row = int(np.flatnonzero(np.asarray(values.is_valid()))[wrong // column.dimension])
        shown = "null" if not numbers[wrong].is_valid else str(numbers[wrong])
        raise _wrong_vector(
            column, rows_before + row, f"contains {shown}", "Write null for a row without a vector."
        )


def _first(condition: pa.BooleanArray) -> int | None:
    """Return the position of the first true value, or None."""
    position = pc.index(condition, True).as_py()
    if position < 0:
        return None
    return int(position)


def _wrong_vector(column: ColumnMapping, row: int, fault: str, hint: str) -> InvalidInputError:
    message = (
        f"The vector of row {row} in column {column.name!r} {fault}; "
        f"the column holds vectors of {column.dimension} finite numbers."
    )
    return InvalidInputError(
        message, hint=f"{hint} Nothing was written.", column=column.name, row=row
    )


def vectors_of(
    values: pa.ListArray, dimension: int, path: str
) -> tuple[npt.NDArray[np.bool_], Vectors]:
    """Return which rows of a split have a vector, and these vectors. Other lists than those of the
    dimension, which only another writer can have stored, are an error.
    """
    lengths = pc.min_max(pc.list_value_length(values)).as_py()
    if {*lengths.values()} - {dimension, None}:
        wrong = lengths["min"] if lengths["min"] != dimension else lengths["max"]
        raise BadFileError(
            f"The split {path} holds a vector of {wrong} numbers in a column of vectors of {dimension}.",
            hint="It was written by a release or an engine that does not check vectors. Delete or update "
            "the row.",
            path=path,
        )
    has_vector = np.asarray(values.is_valid())
    return has_vector, values.flatten().to_numpy(zero_copy_only=False).reshape(-1, dimension)

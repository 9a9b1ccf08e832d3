"""A manifest's bytes -> a file list. Fields are resolved by name with defaults; field ids are never trusted.

The columnar library decodes what it can, straight to Arrow and outside the interpreter's lock; a schema it cannot take
goes through the row library. Either way the rows must be as many as the file declares and as the caller expects.
"""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from indextables.errors import BadFileError
from indextables.model.files import FILE_SCHEMA
from indextables.wire import partition_values
from indextables.wire.avro_container import Container, read_container
from indextables.wire.avro_records import read_records
from indextables.wire.file_entry import FIELDS, NULL_PARTITIONS, EntryField

_BATCH_ROWS = 16384
_MANY_ROWS = 2_000
"""From here on the columnar library is quicker than the row library and its import together."""
_BY_COLUMN = {field.column: field for field in FIELDS}
_KNOWN = {field.name for field in FIELDS}


def decode_file_entries(
    data: bytes, *, path: str, expected_rows: int | None = None, columns: Sequence[str] | None = None
) -> pa.Table:
    """The file list in a manifest, or just these columns of it. BadFileError if the file is not whole or not right.

    `expected_rows` is what the state says of this manifest: a file that was cut at a block boundary, or another file
    under the same name, is found by it.
    """
    container = read_container(data, path=path)
    if expected_rows is not None and container.rows != expected_rows:
        message = f"{path} holds {container.rows} entries where the state says {expected_rows}."
        raise BadFileError(message, path=path, rows=container.rows, expected_rows=expected_rows)
    wanted = [name for name in FILE_SCHEMA.names if columns is None or name in columns]
    names = _fields_to_read(container, wanted, path)
    if not container.rows:
        return FILE_SCHEMA.empty_table().select(wanted)
    raw = _read(data, container, names, path) if names else {}
    if any(len(column) != container.rows for column in raw.values()):
        raise BadFileError(f"{path} does not hold as many entries as its blocks declare.", path=path)
    files = _file_list(raw, wanted, container.rows, path)
    return _as_meant(files, data, container, path) if "partition_values" in wanted else files


def _as_meant(files: pa.Table, data: bytes, container: Container, path: str) -> pa.Table:
    """The list with the partition values that its entries mean, whoever wrote them."""

    def read(column: str) -> Any:
        if column in files.column_names:
            return _one(files[column])
        names = _fields_to_read(container, [column], path)
        raw = _read(data, container, names, path) if names else {}
        return _one(_file_list(raw, [column], container.rows, path)[column])

    maps = _one(files["partition_values"])
    right = partition_values.as_meant(maps, lambda: read("path"), lambda: (read("min_values"), read("max_values")))
    if right is maps:
        return files
    place = files.column_names.index("partition_values")
    return files.set_column(place, FILE_SCHEMA.field("partition_values"), right)


def _fields_to_read(container: Container, wanted: Sequence[str], path: str) -> list[str]:
    present = [field.get("name") for field in container.schema["fields"] if isinstance(field, dict)]
    fields = [_BY_COLUMN[column] for column in wanted]
    for field in fields:
        if field.required and field.name not in present:
            raise BadFileError(f"{path} has no field {field.name!r}: it is not a manifest.", path=path)
    names = {field.name for field in fields}
    if "partition_values" in wanted:
        names.add(NULL_PARTITIONS)
    if "unknown" in wanted:
        names.update(str(name) for name in present if name not in _KNOWN)
    return [str(name) for name in present if name in names and name not in container.empty_fields]


class _ColumnsFailedError(Exception):
    """The columnar library could not decode the file; never leaves this module."""


def _read(data: bytes, container: Container, names: list[str], path: str) -> dict[str, Any]:
    """Every field in `names`: a chunked array of its column's type, or a list of values if the field is not known."""
    first = "few rows"
    if container.rows >= _MANY_ROWS:
        try:
            return _read_columns(data, names)
        except _ColumnsFailedError as failure:
            first = str(failure)
    rows = read_records(data, container, path=path)
    try:
        return {name: _typed(name, [row[name] for row in rows]) for name in names}
    except (pa.ArrowException, TypeError, ValueError, KeyError, AttributeError) as second:
        raise BadFileError(f"{path} cannot be decoded: {second}.", path=path, first=first) from second


class _Source:
    """The bytes as the columnar library wants them: a context manager that hands out a seekable file."""

    def __init__(self, data: bytes) -> None:
        self._file = io.BytesIO(data)

    def __enter__(self) -> io.BytesIO:
        self._file.seek(0)
        return self._file

    def __exit__(self, *_: object) -> None:
        return None


def _read_columns(data: bytes, names: list[str]) -> dict[str, Any]:
    # Brings in polars, which takes longer to import than a search takes; small tables never need it.
    from polars_avro._avro_rs import AvroSource  # noqa: PLC0415

    source = _Source(data)
    try:
        batches = AvroSource([lambda: source], False, False).batch_iter(_BATCH_ROWS, names)
        table = pa.Table.from_batches([pa.record_batch(batch) for batch in batches])
        return {name: _conform(name, table.column(name)) for name in names}
    except (KeyboardInterrupt, SystemExit, MemoryError):
        raise
    except BaseException as failure:  # a panic of the library is no Exception
        raise _ColumnsFailedError(str(failure)) from failure


def _conform(name: str, column: Any) -> Any:
    kind = _column_type(name)
    if kind is not None:
        return column.cast(kind)
    return column.to_pylist() if column.null_count < len(column) else [None] * len(column)


def _typed(name: str, values: list[Any]) -> Any:
    kind = _column_type(name)
    if kind is None:
        return values
    if pa.types.is_map(kind):
        values = [None if value is None else list(value.items()) for value in values]
    return pa.chunked_array([pa.array(values, kind)])


def _column_type(name: str) -> Any:
    """The type of a field's column in a file list, None for a field this release does not know."""
    if name == NULL_PARTITIONS:
        return pa.list_(pa.string())
    return next((FILE_SCHEMA.field(f.column).type for f in FIELDS if f.name == name), None)


def _file_list(raw: dict[str, Any], wanted: Sequence[str], rows: int, path: str) -> pa.Table:
    columns = []
    for name in wanted:
        field = _BY_COLUMN[name]
        column = _with_default(raw.get(field.name), field, rows)
        if field.required and column.null_count:
            raise BadFileError(f"{path} has an entry without {field.name!r}.", path=path)
        columns.append(column)
    files = pa.table(columns, schema=pa.schema([FILE_SCHEMA.field(name) for name in wanted]))
    if NULL_PARTITIONS in raw and raw[NULL_PARTITIONS].null_count < rows:
        maps = partition_values.with_null_values(_one(files["partition_values"]), _one(raw[NULL_PARTITIONS]))
        files = files.set_column(wanted.index("partition_values"), FILE_SCHEMA.field("partition_values"), maps)
    return _keep_unknown(files, {name: values for name, values in raw.items() if name not in _KNOWN})


def _with_default(column: Any, field: EntryField, rows: int) -> Any:
    kind = FILE_SCHEMA.field(field.column).type
    if column is None:
        default = list(field.default.items()) if isinstance(field.default, dict) else field.default
        return pa.chunked_array([pa.repeat(pa.scalar(None if field.required else default, kind), rows)])
    if field.optional or not column.null_count or field.required:
        return column
    return _one(column).fill_null(pa.scalar(field.default, kind)) if field.type != "map" else column


def _keep_unknown(files: pa.Table, extra: dict[str, list[Any]]) -> pa.Table:
    """Fields of a newer writer go into `unknown`, so that rewriting the entry does not lose them."""
    filled = {name: values for name, values in extra.items() if any(value is not None for value in values)}
    if not filled:
        return files
    texts = files["unknown"].to_pylist()
    for row, text in enumerate(texts):
        more = {name: values[row] for name, values in filled.items() if values[row] is not None}
        if more:
            texts[row] = json.dumps({**json.loads(text or "{}"), **more}, default=str)
    return files.set_column(files.schema.get_field_index("unknown"), FILE_SCHEMA.field("unknown"), pa.array(texts))


def _one(column: Any) -> Any:
    return column.combine_chunks()

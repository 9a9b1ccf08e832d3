"""The Parquet checkpoint: one row per action, flattened, with `actionType` telling the rows apart.

An `add` row has the columns of the design (path, partitionValues, size, numRecords, minValues, maxValues) and every other
field of AddAction beside them, so that nothing is lost. The one `metadata` row has metadataId, schemaString,
partitionColumns and format, and the whole action as JSON in `actionJson`; so have the rows of all other actions. What it is
the checkpoint of stands among the file's key-value metadata.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from msgspec import Struct

from indextables.errors import BadFileError
from indextables.model.actions import FileFormat, LogAction, MetadataAction, UnknownAction
from indextables.model.files import FILE_SCHEMA
from indextables.wire import version_file
from indextables.wire.checkpoint_origin import CheckpointOrigin, decode_origin, encode_origin
from indextables.wire.compression import INFLATION_CAP_BYTES, check_entries
from indextables.wire.file_entry import FIELDS, NULL_PARTITIONS
from indextables.wire.partition_values import as_meant

_ADD, _METADATA = "add", "metadata"
_ENTRY_NAMES = {field.column: field.name for field in FIELDS if field.name != NULL_PARTITIONS}
_OPTIONAL_ENTRY = [pa.field(_ENTRY_NAMES[f.name], f.type) for f in FILE_SCHEMA]
_METADATA_FIELDS = [
    pa.field("metadataId", pa.string()),
    pa.field("schemaString", pa.string()),
    pa.field("partitionColumns", pa.list_(pa.string())),
    pa.field("format", pa.map_(pa.string(), pa.string())),
    pa.field("actionJson", pa.string()),
    pa.field("actionType", pa.string(), nullable=False),
]
_SCHEMA = pa.schema([*_OPTIONAL_ENTRY, *_METADATA_FIELDS])
_ORIGIN = b"indextables.checkpoint"


class CheckpointMetadata(msgspec.Struct, rename="camel", frozen=True, kw_only=True):
    """The small JSON file beside a Parquet checkpoint."""

    version: int
    size: int
    parts: int | None = None
    created_time: int = 0


class ParquetCheckpoint(Struct, frozen=True):
    """What a Parquet checkpoint holds: the live files, and every other action."""

    files: pa.Table
    actions: tuple[LogAction, ...]
    origin: CheckpointOrigin | None = None


def encode_metadata(metadata: CheckpointMetadata) -> bytes:
    """The bytes of the JSON file beside the checkpoint."""
    return msgspec.json.encode(metadata)


def encode_parquet_checkpoint(
    files: pa.Table, actions: Sequence[LogAction], *, compression: str, origin: CheckpointOrigin | None = None
) -> bytes:
    """The bytes of the checkpoint: the other actions first, then the files."""
    out = io.BytesIO()
    schema = _SCHEMA if origin is None else _SCHEMA.with_metadata({_ORIGIN: encode_origin(origin)})
    with pq.ParquetWriter(out, schema, compression=compression, write_page_checksum=True) as writer:
        writer.write_table(_action_rows(actions))
        if files.num_rows:
            writer.write_table(_file_rows(files))
    return out.getvalue()


def decode_parquet_checkpoint(data: bytes, *, path: str) -> ParquetCheckpoint:
    """The checkpoint's files and actions. Columns are found by name; those that are missing take their defaults."""
    try:
        rows, origin = _rows(data, path)
        rows.validate(full=True)
        kinds = rows.column("actionType")
        files = _file_list(rows.filter(pc.equal(kinds, _ADD)))
        others = rows.filter(pc.invert(pc.equal(kinds, _ADD)))
        actions = tuple(_action(row) for row in _narrow(others).to_pylist())
    except BadFileError as failure:
        raise BadFileError(f"{path} cannot be read as a Parquet checkpoint: {failure.message}", path=path) from failure
    except (pa.ArrowException, OSError, LookupError, ValueError, TypeError, AttributeError, OverflowError) as failure:
        raise BadFileError(f"{path} cannot be read as a Parquet checkpoint: {failure}.", path=path) from failure
    if files.column("path").null_count or files.column("size").null_count:
        raise BadFileError(f"{path} has a file without a path or a size.", path=path)
    return ParquetCheckpoint(files, actions, origin)


def _rows(data: bytes, path: str) -> tuple[pa.Table, CheckpointOrigin | None]:
    """The rows of a checkpoint. Texts are read as what they are stored as, a few different ones and which of them each row
    has, and laid out one by one only if that is not more than a log may hold.
    """
    plain = pq.ParquetFile(pa.BufferReader(data))
    check_entries(plain.metadata.num_rows, len(data), path=path)
    texts = [plain.metadata.schema.column(i) for i in range(plain.metadata.num_columns)]
    shared = pq.ParquetFile(
        pa.BufferReader(data),
        read_dictionary=[column.path for column in texts if column.physical_type == "BYTE_ARRAY"],
        page_checksum_verification=True,
    ).read(use_threads=False)
    size = sum(_plain_bytes(chunk) for column in shared.columns for chunk in column.chunks)
    if size > INFLATION_CAP_BYTES:
        raise BadFileError(f"It holds {size} bytes, more than {INFLATION_CAP_BYTES}.", path=path)
    told = (plain.metadata.metadata or {}).get(_ORIGIN)
    origin = None if told is None else decode_origin(told, path=path)
    return shared.cast(plain.schema_arrow.remove_metadata()), origin


def _plain_bytes(array: Any) -> int:
    """How many bytes an array takes once every row has its own text."""
    if pa.types.is_dictionary(array.type):
        return int(pc.sum(pc.binary_length(array.dictionary).cast(pa.int64()).take(array.indices)).as_py() or 0)
    if pa.types.is_map(array.type):
        return _plain_bytes(array.keys) + _plain_bytes(array.items)
    if pa.types.is_list(array.type):
        return _plain_bytes(array.values)
    if pa.types.is_struct(array.type):
        return sum(_plain_bytes(part) for part in array.flatten())
    return int(array.nbytes)


def _file_rows(files: pa.Table) -> pa.Table:
    columns = {_ENTRY_NAMES[name]: files.column(name) for name in FILE_SCHEMA.names}
    columns["actionType"] = pa.repeat(pa.scalar(_ADD), files.num_rows)
    return _filled(columns, files.num_rows)


def _action_rows(actions: Sequence[LogAction]) -> pa.Table:
    rows = [_action_row(action) for action in actions]
    return pa.Table.from_pylist(rows, schema=_SCHEMA)


def _action_row(action: LogAction) -> dict[str, Any]:
    line = version_file.encode_action(action).decode()
    if not isinstance(action, MetadataAction):
        kind = action.key if isinstance(action, UnknownAction) else next(iter(msgspec.json.decode(line)))
        return {"actionType": kind, "actionJson": line}
    return {
        "actionType": _METADATA,
        "actionJson": line,
        "metadataId": action.id,
        "schemaString": action.schema_string,
        "partitionColumns": list(action.partition_columns or ()),
        "format": [("provider", action.format.provider), *(action.format.options or {}).items()],
    }


def _file_list(rows: pa.Table) -> pa.Table:
    columns = {}
    for field in FILE_SCHEMA:
        name = _ENTRY_NAMES[field.name]
        found = rows.column(name).cast(field.type) if name in rows.column_names else pa.nulls(rows.num_rows, field.type)
        columns[field.name] = found
    files = pa.table(columns, schema=FILE_SCHEMA)
    maps = files["partition_values"].combine_chunks()
    right = as_meant(
        maps,
        lambda: files["path"].combine_chunks(),
        lambda: (files["min_values"].combine_chunks(), files["max_values"].combine_chunks()),
    )
    place = files.column_names.index("partition_values")
    return files if right is maps else files.set_column(place, FILE_SCHEMA.field(place), right)


def _narrow(rows: pa.Table) -> pa.Table:
    return rows.select([f.name for f in _METADATA_FIELDS if f.name in rows.column_names])


def _action(row: dict[str, Any]) -> LogAction:
    """An action from its JSON; a `metadata` row of another writer has only the flattened columns."""
    line = row.get("actionJson")
    if line:
        return version_file.decode(line.encode(), path="actionJson")[0]
    if row["actionType"] != _METADATA:
        return UnknownAction(key=row["actionType"], value=None)
    options = dict(row.get("format") or ())
    return MetadataAction(
        id=row["metadataId"] or "",
        schema_string=row["schemaString"],
        partition_columns=tuple(row.get("partitionColumns") or ()),
        format=FileFormat(provider=options.pop("provider", "indextables"), options=options),
    )


def _filled(columns: dict[str, Any], rows: int) -> pa.Table:
    arrays = [columns[f.name] if f.name in columns else pa.nulls(rows, f.type) for f in _SCHEMA]
    return pa.table(arrays, schema=_SCHEMA)

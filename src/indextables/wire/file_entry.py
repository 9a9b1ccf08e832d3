"""FileEntry, the Avro record of one live split in a state's manifest, and how a file list becomes a manifest.

The first 25 fields are the format's; readers resolve them by name. The rest are ours, optional and last, so that an
action loses nothing on its way through a state: an older reader skips them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from msgspec import Struct

from indextables.model.files import FILE_SCHEMA
from indextables.wire import avro_rows, partition_values
from indextables.wire.avro_codec import BlockCodec, block_codec
from indextables.wire.avro_container import assemble

NAMESPACE = "io.indextables.state"
NULL_PARTITIONS = "nullPartitions"
_REQUIRED = object()
_BLOCK_BYTES = 256 << 10
_SLICE_BYTES = 32 << 20


class EntryField(Struct, frozen=True):
    """One field of FileEntry: its Avro type without the null, and its default. `optional` means a union with null."""

    name: str
    type: str
    field_id: int
    default: Any = None
    optional: bool = True

    @property
    def column(self) -> str:
        """The file list's name for it."""
        return "".join(f"_{c.lower()}" if c.isupper() else c for c in self.name)

    @property
    def required(self) -> bool:
        """Whether a file without this field cannot be read."""
        return self.default is _REQUIRED

    def declaration(self) -> dict[str, Any]:
        """The field as the Avro schema declares it. Defaults that the format does not declare are for reading only."""
        plain: Any = self.type
        if self.type == "map":
            plain = {"type": "map", "values": "string"}
        elif self.type == "array":
            plain = {"type": "array", "items": "string"}
        declared: dict[str, Any] = {"name": self.name, "type": ["null", plain] if self.optional else plain}
        if self.optional or self.name in _DECLARED_DEFAULTS:
            declared["default"] = self.default
        return {**declared, "field-id": self.field_id}


def _plain(name: str, kind: str, field_id: int, default: Any) -> EntryField:
    return EntryField(name, kind, field_id, default, optional=False)


_DECLARED_DEFAULTS = ("hasFooterOffsets", "addedAtVersion", "addedAtTimestamp")
FIELDS: tuple[EntryField, ...] = (
    _plain("path", "string", 100, _REQUIRED),
    _plain("partitionValues", "map", 101, {}),
    _plain("size", "long", 102, _REQUIRED),
    _plain("modificationTime", "long", 103, 0),
    _plain("dataChange", "boolean", 104, True),
    EntryField("stats", "string", 110),
    EntryField("minValues", "map", 111),
    EntryField("maxValues", "map", 112),
    EntryField("numRecords", "long", 113),
    EntryField("footerStartOffset", "long", 120),
    EntryField("footerEndOffset", "long", 121),
    _plain("hasFooterOffsets", "boolean", 124, False),
    EntryField("deleteOpstamp", "long", 123),
    EntryField("splitTags", "array", 132),
    EntryField("numMergeOps", "int", 134),
    EntryField("docMappingJson", "string", 133),
    EntryField("docMappingRef", "string", 135),
    EntryField("uncompressedSizeBytes", "long", 136),
    EntryField("timeRangeStart", "string", 137),
    EntryField("timeRangeEnd", "string", 138),
    _plain("addedAtVersion", "long", 140, 0),
    _plain("addedAtTimestamp", "long", 141, 0),
    EntryField("companionSourceFiles", "array", 150),
    EntryField("companionDeltaVersion", "long", 151),
    EntryField("companionFastFieldMode", "string", 152),
    EntryField("tags", "map", 160),
    EntryField("hotcacheStartOffset", "long", 161),
    EntryField("hotcacheLength", "long", 162),
    EntryField("unknown", "string", 163),
    EntryField(NULL_PARTITIONS, "array", 164),
)
"""In the order of the file. `nullPartitions` names the partition columns whose value is null, which the map of strings
cannot say; every other field is a column of the file list."""

SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "FileEntry",
    "namespace": NAMESPACE,
    "fields": [f.declaration() for f in FIELDS],
}
_SCHEMA_JSON = json.dumps(SCHEMA, separators=(",", ":"))
_ENCODERS: dict[str, Callable[[Any, avro_rows.Flags | None], list[avro_rows.Piece]]] = {
    "string": avro_rows.texts,
    "long": avro_rows.longs,
    "int": avro_rows.longs,
    "boolean": avro_rows.booleans,
    "map": avro_rows.text_maps,
    "array": avro_rows.text_lists,
}


def encode_file_entries(files: pa.Table, *, compression: str = "zstd", level: int = 3) -> bytes:
    """A file list as an Avro container. The same rows in the same order always give the same bytes."""
    codec = block_codec(compression, level=level)
    blocks: list[tuple[int, bytes]] = []
    for part in _slices(files.select(FILE_SCHEMA.names)):
        blocks += _pack(_rows(part), codec)
    empty = [f.name for f in FIELDS if f.optional and _is_empty(files, f)]
    return assemble(_SCHEMA_JSON, codec.name, blocks, empty_fields=empty)


def _is_empty(files: pa.Table, field: EntryField) -> bool:
    if field.name == NULL_PARTITIONS:
        return not any(chunk.items.null_count for chunk in files.column("partition_values").chunks)
    return bool(files.column(field.column).null_count == files.num_rows)


def manifest_name(content: bytes, *, again: int = 0) -> str:
    """The name of a manifest: 16 hex digits of its content's SHA-256; another one where that place is taken."""
    digest = hashlib.sha256(content + (b"again %d" % again if again else b""))
    return f"manifest-{digest.hexdigest()[:16]}.avro"


def _slices(files: pa.Table) -> Iterator[pa.Table]:
    """Parts small enough to encode: Arrow's joined rows must stay below 2 GiB, and memory is bounded."""
    if files.num_rows <= 1 or files.nbytes <= _SLICE_BYTES:
        yield files
        return
    half = files.num_rows // 2
    yield from _slices(files.slice(0, half))
    yield from _slices(files.slice(half))


def _rows(files: pa.Table) -> Any:
    """One encoded FileEntry per row."""
    pieces: list[avro_rows.Piece] = []
    for field in FIELDS:
        if field.name == NULL_PARTITIONS:
            column = partition_values.columns_without_value(_array(files, "partition_values"))
        else:
            column = _array(files, field.column)
        encode = _ENCODERS[field.type]
        if field.optional:
            pieces += avro_rows.optional(column, encode)
        else:
            if field.type == "boolean" and column.null_count:
                column = column.fill_null(field.default)
            pieces += encode(column, None)
    return avro_rows.join_rows(pieces, files.num_rows)


def _array(files: pa.Table, column: str) -> Any:
    """A column as one array, whatever its chunks."""
    chunks = files.column(column)
    return chunks.chunk(0) if chunks.num_chunks == 1 else pa.concat_arrays(chunks.chunks or [pa.array([], chunks.type)])


def _pack(rows: Any, codec: BlockCodec) -> Iterator[tuple[int, bytes]]:
    """Blocks of about 256 KiB before compression; a longer row has a block to itself."""
    offsets = np.frombuffer(rows.buffers()[1], dtype=np.int32)[rows.offset : rows.offset + len(rows) + 1]
    window = (offsets[:-1] - offsets[0]) // _BLOCK_BYTES
    starts = [0, *(np.flatnonzero(np.diff(window)) + 1).tolist(), len(rows)]
    content = memoryview(rows.buffers()[2]) if rows.buffers()[2] is not None else memoryview(b"")
    for first, last in pairwise(starts):
        if first < last:
            yield last - first, codec.pack(content[offsets[first] : offsets[last]])

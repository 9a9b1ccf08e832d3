"""A manifest as bytes: the Avro records of live splits (FileEntry), written from a file list and
read into one.

The first 25 fields of a record are the format's; readers resolve them by name, with defaults, and
field ids are never trusted. The rest are ours, optional and last, so that an action loses nothing
on its way through a state: an older reader skips them. Nulls among partition values travel beside
the map of texts.

The columnar library decodes what it can, straight to Arrow and outside the interpreter's lock; a
schema it cannot take goes through the row library. Either way the rows must be as many as the file
declares and as the caller expects.

Arrow columns become the bytes of Avro rows a whole column at a time. A column becomes a list of
pieces; piece k of row i is a run of bytes, and the row is its pieces one after another. So the rows
of a table are one element-wise join at the end, and no Python code runs per row. A null row of an
optional column has an empty run in every piece but the first, which holds the number of the union's
branch.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from indextables.errors import BadFileError
from indextables.model.file_list import FILE_SCHEMA
from indextables.model.values import NULL_PARTITION, intended_values
from indextables.pools import MANIFESTS
from indextables.wire.avro import (
    BlockCodec,
    Container,
    assemble,
    block_codec,
    block_groups,
    plain_containers,
    read_container,
    read_records,
)

Flags = np.ndarray[Any, np.dtype[np.bool_]]
Longs = np.ndarray[Any, np.dtype[np.int64]]
Piece = Any
"""A binary array with one run per row, or `bytes` when every row has the same run."""

NULL_BRANCH = b"\x00"
VALUE_BRANCH = b"\x02"
_END = b"\x00"


def join_rows(pieces: Sequence[Piece], rows: int) -> Any:
    """Concatenate the pieces of every row to one binary array; neighbouring constants are merged
    first.
    """
    parts: list[Any] = []
    for piece in pieces:
        if isinstance(piece, bytes) and parts and isinstance(parts[-1], bytes):
            parts[-1] += piece
        else:
            parts.append(piece)
    if all(isinstance(p, bytes) for p in parts):
        return pa.array([b"".join(parts)] * rows, pa.binary())
    scalars = [pa.scalar(p, pa.binary()) if isinstance(p, bytes) else p for p in parts]
    return pc.binary_join_element_wise(*scalars, pa.scalar(b"", pa.binary()))


def optional(column: Any, encode: Callable[[Any, Flags | None], list[Piece]]) -> list[Piece]:
    """Encode a union of null and a type: the branch number, then the value."""
    if column.null_count == len(column):
        return [NULL_BRANCH]
    if column.null_count == 0:
        return [VALUE_BRANCH, *encode(column, None)]
    present: Flags = column.is_valid().to_numpy(zero_copy_only=False)
    branch = pc.if_else(column.is_valid(), VALUE_BRANCH, NULL_BRANCH)
    return [branch, *encode(column, present)]


def longs(column: Any, present: Flags | None) -> list[Piece]:
    """Encode integers."""
    filled = column.fill_null(0) if column.null_count else column
    return [varints(filled.cast(pa.int64()).to_numpy(zero_copy_only=False), present)]


def booleans(column: Any, present: Flags | None) -> list[Piece]:
    """Encode booleans."""
    runs = pc.if_else(column, b"\x01", b"\x00")
    return [runs if present is None else runs.fill_null(b"")]


def texts(column: Any, present: Flags | None) -> list[Piece]:
    """Encode strings: length, then UTF-8."""
    lengths = pc.binary_length(column)
    if present is None:
        return [varints(lengths.to_numpy(zero_copy_only=False), None), column.cast(pa.binary())]
    counts = lengths.fill_null(0).to_numpy(zero_copy_only=False)
    return [varints(counts, present), column.cast(pa.binary()).fill_null(b"")]


def text_lists(column: Any, present: Flags | None) -> list[Piece]:
    """Encode arrays of strings."""
    lists = _compact(column)
    offsets, first, last = _extent(lists)
    items = lists.values.slice(first, last - first)
    return _blocks(offsets, join_rows(texts(items, None), len(items)), present)


def text_maps(column: Any, present: Flags | None) -> list[Piece]:
    """Encode maps of string to string. Entries with null values cannot be encoded and are left out."""
    maps = _compact(column)
    offsets, first, last = _extent(maps)
    keys, values = maps.keys.slice(first, last - first), maps.items.slice(first, last - first)
    if values.null_count:
        valid = values.is_valid()
        offsets = np.concatenate([[0], np.cumsum(valid.to_numpy(zero_copy_only=False))])[offsets]
        keys, values = keys.filter(valid), values.filter(valid)
    return _blocks(
        offsets, join_rows([*texts(keys, None), *texts(values, None)], len(keys)), present
    )


def _compact(column: Any) -> Any:
    """Return the lists without items hidden under null rows, which the offsets would include."""
    if column.null_count:
        return column.take(pa.array(np.arange(len(column))))
    return column


def _extent(lists: Any) -> tuple[Longs, int, int]:
    """Return row offsets from the first used item, and the range of used items."""
    offsets = lists.offsets.to_numpy(zero_copy_only=False).astype(np.int64)
    first, last = int(offsets[0]), int(offsets[-1])
    return offsets - first, first, last


def _blocks(offsets: Longs, items: Any, present: Flags | None) -> list[Piece]:
    """Encode Avro arrays and maps: one block of items, then the end mark. Items of a row are
    contiguous.
    """
    counts = np.diff(offsets)
    item_offsets = np.frombuffer(items.buffers()[1], dtype=np.int32)[items.offset :]
    body_offsets = np.ascontiguousarray(item_offsets[offsets])
    body = pa.Array.from_buffers(
        pa.binary(), len(counts), [None, pa.py_buffer(body_offsets), items.buffers()[2]]
    )
    end: Piece = _END if present is None else pc.if_else(pa.array(present), _END, b"")
    return [varints(counts, counts > 0), body, end]


def varints(values: Longs, present: Flags | None) -> Any:
    """Encode zigzag numbers of 1 to 10 bytes; absent rows get no bytes."""
    signed = values.astype(np.int64, copy=False)
    unsigned = ((signed << 1) ^ (signed >> 63)).view(np.uint64)
    lengths = np.ones(len(unsigned), dtype=np.int32)
    rest = unsigned >> np.uint64(7)
    while (longer := rest != 0).any():
        lengths += longer
        rest >>= np.uint64(7)
    width = int(lengths.max(initial=1))
    if present is not None:
        lengths[~present] = 0
    offsets = np.zeros(len(unsigned) + 1, dtype=np.int32)
    np.cumsum(lengths, out=offsets[1:])
    return pa.Array.from_buffers(
        pa.binary(),
        len(unsigned),
        [None, pa.py_buffer(offsets), pa.py_buffer(_digits(unsigned, lengths, width))],
    )


def _digits(
    unsigned: np.ndarray[Any, np.dtype[np.uint64]], lengths: np.ndarray[Any, Any], width: int
) -> Any:
    """Return the groups of seven bits of every number, lowest first."""
    grid = np.empty((len(unsigned), width), dtype=np.uint8)
    rest = unsigned.copy()
    for i in range(width):
        more = np.where(lengths > i + 1, 0x80, 0).astype(np.uint8)
        grid[:, i] = (rest & np.uint64(0x7F)).astype(np.uint8) | more
        rest >>= np.uint64(7)
    return grid[np.arange(width)[None, :] < lengths[:, None]]


_TEXT_MAP = pa.map_(pa.string(), pa.string())
_DOUBTFUL = re.compile(b"%|" + NULL_PARTITION.encode())


def columns_without_value(maps: Any) -> Any:
    """Return per row the keys whose value is null, or null if there are none."""
    rows, keys, values = _entries(maps)
    missing = values.is_null()
    where = rows[missing.to_numpy(zero_copy_only=False)]
    if not len(where):
        return pa.nulls(len(maps), pa.list_(pa.string()))
    counts = np.bincount(where, minlength=len(maps))
    lists = pa.ListArray.from_arrays(_offsets(counts), keys.filter(missing))
    return pc.if_else(pa.array(counts > 0), lists, pa.scalar(None, lists.type))


def with_null_values(maps: Any, columns: Any) -> Any:
    """Return the maps with a null entry for each named column: the inverse of
    `columns_without_value`.
    """
    if columns.null_count == len(columns):
        return maps
    rows, keys, values = _entries(maps)
    missing = columns.flatten()
    missing_rows = pc.list_parent_indices(columns).to_numpy(zero_copy_only=False)
    order = np.argsort(np.concatenate([rows, missing_rows]), kind="stable")
    all_keys = pa.concat_arrays([keys, missing]).take(pa.array(order))
    all_values = pa.concat_arrays([values, pa.nulls(len(missing), pa.string())]).take(
        pa.array(order)
    )
    counts = np.bincount(rows, minlength=len(maps)) + np.bincount(missing_rows, minlength=len(maps))
    return pa.MapArray.from_arrays(_offsets(counts), all_keys, all_values, type=_TEXT_MAP)


def intended_partition_values(
    maps: Any, paths: Callable[[], Any], bounds: Callable[[], tuple[Any, Any]]
) -> Any:
    """Return the maps with the intended values; paths and bounds are read only for ambiguous
    values.
    """
    letters = maps.items.buffers()[2]
    # Almost no table has such a value, and a search cannot afford to load what finds it.
    if letters is None or not _DOUBTFUL.search(letters):
        return maps
    rows, keys, values = _entries(maps)
    doubtful = pc.or_(pc.match_substring(values, "%"), pc.equal(values, NULL_PARTITION))
    places = np.flatnonzero(pc.fill_null(doubtful, False).to_numpy(zero_copy_only=False))
    if not len(places):
        return maps
    doubtful_rows = pa.array(np.unique(rows[places]))
    lows, highs = (column.take(doubtful_rows).to_pylist() for column in bounds())
    entries = zip(
        paths().take(doubtful_rows).to_pylist(),
        maps.take(doubtful_rows).to_pylist(),
        lows,
        highs,
        strict=True,
    )
    corrections = {
        row: intended_values(path, dict(own), dict(low or ()), dict(high or ()))
        for row, (path, own, low, high) in zip(doubtful_rows.to_pylist(), entries, strict=True)
    }
    names = keys.take(pa.array(places)).to_pylist()
    right = [corrections[int(row)][name] for row, name in zip(rows[places], names, strict=True)]
    mask = np.zeros(len(values), np.bool_)
    mask[places] = True
    changed = pc.replace_with_mask(values, pa.array(mask), pa.array(right, pa.string()))
    counts = np.bincount(rows, minlength=len(maps))
    return pa.MapArray.from_arrays(_offsets(counts), keys, changed, type=_TEXT_MAP)


def _entries(maps: Any) -> tuple[np.ndarray[Any, Any], Any, Any]:
    """Return row number, key and value of every entry."""
    offsets = maps.offsets.to_numpy(zero_copy_only=False).astype(np.int64)
    first, length = int(offsets[0]), int(offsets[-1] - offsets[0])
    rows = np.repeat(np.arange(len(maps)), np.diff(offsets))
    return rows, maps.keys.slice(first, length), maps.items.slice(first, length)


def _offsets(counts: np.ndarray[Any, Any]) -> Any:
    return pa.array(np.concatenate([[0], np.cumsum(counts)]).astype(np.int32))


NAMESPACE = "io.indextables.state"
NULL_PARTITIONS = "nullPartitions"
_REQUIRED = object()
_BLOCK_BYTES = 256 << 10
_SLICE_BYTES = 32 << 20


class EntryField(Struct, frozen=True):
    """One field of FileEntry: its Avro type without the null, and its default. `optional` means a
    union with null.
    """

    name: str
    type: str
    field_id: int
    default: Any = None
    optional: bool = True

    @property
    def column(self) -> str:
        """The column name in the file list."""
        return "".join(f"_{c.lower()}" if c.isupper() else c for c in self.name)

    @property
    def is_required(self) -> bool:
        """Whether a file without this field cannot be read."""
        return self.default is _REQUIRED

    def declaration(self) -> dict[str, Any]:
        """Return the Avro declaration of the field. Defaults that the format does not declare are
        for reading only.
        """
        plain: Any = self.type
        if self.type == "map":
            plain = {"type": "map", "values": "string"}
        elif self.type == "array":
            plain = {"type": "array", "items": "string"}
        declared: dict[str, Any] = {
            "name": self.name,
            "type": ["null", plain] if self.optional else plain,
        }
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
    EntryField("deletionVector", "string", 165),
    EntryField("deletedRecords", "long", 166),
)
"""In the order of the file. `nullPartitions` names the partition columns whose value is null, which
the map of strings cannot say; every other field is a column of the file list.
"""

SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "FileEntry",
    "namespace": NAMESPACE,
    "fields": [f.declaration() for f in FIELDS],
}
_SCHEMA_JSON = json.dumps(SCHEMA, separators=(",", ":"))
_ENCODERS: dict[str, Callable[[Any, Flags | None], list[Piece]]] = {
    "string": texts,
    "long": longs,
    "int": longs,
    "boolean": booleans,
    "map": text_maps,
    "array": text_lists,
}


def encode_file_entries(files: pa.Table, *, compression: str = "zstd", level: int = 3) -> bytes:
    """Encode a file list as an Avro container. The same rows in the same order give the same bytes."""
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


MOST_COPIES = 1_000
"""Names that one content may have: a second one is needed only where a damaged file lies under the
first.
"""


def manifest_names(content: bytes) -> Iterator[str]:
    """Return the possible names of a manifest with this content, the preferred one first: 16 hex
    digits of its SHA-256.
    """
    digest = hashlib.sha256(content)
    for again in range(MOST_COPIES):
        other = digest.copy()
        if again:
            other.update(b"again %d" % again)
        yield f"manifest-{other.hexdigest()[:16]}.avro"


def check_manifest_name(content: bytes, *, path: str) -> None:
    """Raise BadFileError if a valid manifest with other content has this name (rule S11)."""
    name = path.rpartition("/")[2]
    if name not in manifest_names(content):
        raise BadFileError(
            f"{path} is not the manifest of that name: its content differs from its checksum.",
            path=path,
        )


def _slices(files: pa.Table) -> Iterator[pa.Table]:
    """Divide into parts small enough to encode: joined rows must stay below 2 GiB, and memory is
    bounded.
    """
    if files.num_rows <= 1 or files.nbytes <= _SLICE_BYTES:
        yield files
        return
    half = files.num_rows // 2
    yield from _slices(files.slice(0, half))
    yield from _slices(files.slice(half))


def _rows(files: pa.Table) -> Any:
    """Return one encoded FileEntry per row."""
    pieces: list[Piece] = []
    for field in FIELDS:
        if field.name == NULL_PARTITIONS:
            column = columns_without_value(_array(files, "partition_values"))
        else:
            column = _array(files, field.column)
        encode = _ENCODERS[field.type]
        if field.optional:
            pieces += optional(column, encode)
        else:
            if field.type == "boolean" and column.null_count:
                column = column.fill_null(field.default)
            pieces += encode(column, None)
    return join_rows(pieces, files.num_rows)


def _array(files: pa.Table, column: str) -> Any:
    """Return a column as one array."""
    chunks = files.column(column)
    if chunks.num_chunks == 1:
        return chunks.chunk(0)
    return pa.concat_arrays(chunks.chunks or [pa.array([], chunks.type)])


def _pack(rows: Any, codec: BlockCodec) -> Iterator[tuple[int, bytes]]:
    """Build blocks of about 256 KiB before compression; a longer row has a block of its own."""
    offsets = np.frombuffer(rows.buffers()[1], dtype=np.int32)[
        rows.offset : rows.offset + len(rows) + 1
    ]
    window = (offsets[:-1] - offsets[0]) // _BLOCK_BYTES
    starts = [0, *(np.flatnonzero(np.diff(window)) + 1).tolist(), len(rows)]
    if rows.buffers()[2] is not None:
        content = memoryview(rows.buffers()[2])
    else:
        content = memoryview(b"")
    for first, last in pairwise(starts):
        if first < last:
            yield last - first, codec.pack(content[offsets[first] : offsets[last]])


_DECODERS = min(4, os.cpu_count() or 1)
_PART_ROWS = 2_000
_FEW_ROWS, _MANY_ROWS = 50, 500
"""From here on the columnar library is used: where it is loaded, and where it must be."""
_BY_COLUMN = {field.column: field for field in FIELDS}
_FIELD_NAMES = {field.name for field in FIELDS}
_FIELD_TYPES = {field["name"]: field["type"] for field in SCHEMA["fields"]}


def decode_file_entries(
    data: bytes,
    *,
    path: str,
    expected_rows: int | None = None,
    columns: Sequence[str] | None = None,
) -> pa.Table:
    """Decode the file list of a manifest, or only some columns. Raises BadFileError for incomplete
    or wrong files.

    `expected_rows` is the state's count: it detects a file truncated at a block boundary, or
    another file of the same name.
    """
    container = read_container(data, path=path)
    if expected_rows is not None and container.rows != expected_rows:
        message = f"{path} holds {container.rows} entries where the state says {expected_rows}."
        raise BadFileError(message, path=path, rows=container.rows, expected_rows=expected_rows)
    column_names = [name for name in FILE_SCHEMA.names if columns is None or name in columns]
    names = _fields_to_read(container, column_names, path)
    if not container.rows:
        return FILE_SCHEMA.empty_table().select(column_names)
    raw = _read(data, container, names, path) if names else {}
    if any(len(column) != container.rows for column in raw.values()):
        raise BadFileError(
            f"{path} does not hold as many entries as its blocks declare.", path=path
        )
    files = _file_list(raw, column_names, container.rows, path)
    if "partition_values" in column_names:
        return _with_intended_values(files, data, container, path)
    return files


def _with_intended_values(
    files: pa.Table, data: bytes, container: Container, path: str
) -> pa.Table:
    """Return the list with the partition values that its entries mean, whichever engine wrote them."""

    def read(column: str) -> Any:
        if column in files.column_names:
            return _one(files[column])
        names = _fields_to_read(container, [column], path)
        raw = _read(data, container, names, path) if names else {}
        return _one(_file_list(raw, [column], container.rows, path)[column])

    maps = _one(files["partition_values"])
    right = intended_partition_values(
        maps, lambda: read("path"), lambda: (read("min_values"), read("max_values"))
    )
    if right is maps:
        return files
    place = files.column_names.index("partition_values")
    return files.set_column(place, FILE_SCHEMA.field("partition_values"), right)


def _fields_to_read(container: Container, column_names: Sequence[str], path: str) -> list[str]:
    present = [field.get("name") for field in container.schema["fields"] if isinstance(field, dict)]
    fields = [_BY_COLUMN[column] for column in column_names]
    for field in fields:
        if field.is_required and field.name not in present:
            raise BadFileError(
                f"{path} has no field {field.name!r}: it is not a manifest.", path=path
            )
    names = {field.name for field in fields}
    if "partition_values" in column_names:
        names.add(NULL_PARTITIONS)
    if "unknown" in column_names:
        names.update(str(name) for name in present if name not in _FIELD_NAMES)
    return [str(name) for name in present if name in names and name not in container.empty_fields]


class _ColumnsFailedError(Exception):
    """The columnar library could not decode the file. Never leaves this module."""


def _is_for_columns(container: Container, names: Sequence[str]) -> bool:
    """Return whether the columnar library reads these fields faster and with the same result.

    That is certain for fields of exactly the types that are written here.
    """
    if _avro_library.cache_info().currsize:
        least = _FEW_ROWS
    else:
        least = _MANY_ROWS
    types = {
        field.get("name"): field.get("type")
        for field in container.schema["fields"]
        if isinstance(field, dict)
    }
    return container.rows >= least and all(types[name] == _FIELD_TYPES.get(name) for name in names)


def _read(data: bytes, container: Container, names: list[str], path: str) -> dict[str, Any]:
    """Read every field in `names`: a chunked array of its column's type, or a list of values for
    unknown fields.
    """
    first = "few rows"
    if _is_for_columns(container, names):
        try:
            return _read_columns(data, container, names)
        except _ColumnsFailedError as failure:
            first = str(failure)
    rows = read_records(data, container, path=path)
    try:
        return {name: _to_declared_type(name, [row[name] for row in rows]) for name in names}
    except (pa.ArrowException, TypeError, ValueError, KeyError, AttributeError) as second:
        raise BadFileError(
            f"{path} cannot be decoded: {second}.", path=path, first=first
        ) from second


class _Source:
    """The bytes for the columnar library: a context manager that returns a seekable file."""

    def __init__(self, data: bytes) -> None:
        self._file = io.BytesIO(data)

    def __enter__(self) -> io.BytesIO:
        self._file.seek(0)
        return self._file

    def __exit__(self, *_: object) -> None:
        return None


@cache
def _avro_library() -> Any:
    """Import the compiled part of the columnar library without its package, whose import of polars
    is slow.

    A later import of the package gets its own copy.
    """
    name = "polars_avro._avro_rs"
    try:
        if "polars_avro" in sys.modules:
            package = None
        else:
            package = find_spec("polars_avro")
        if package is None:
            spec = None
        else:
            spec = PathFinder.find_spec(name, package.submodule_search_locations)
        if spec is None or spec.loader is None:
            return import_module(name)
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
    except (ImportError, ValueError, AttributeError) as failure:
        raise _ColumnsFailedError(f"{name} cannot be loaded: {failure}") from failure
    return module


def _read_columns(data: bytes, container: Container, names: list[str]) -> dict[str, Any]:
    """Read the blocks in several threads: a search of one partition waits for a single manifest."""
    source_of = _avro_library().AvroSource

    def read(blocks: list[tuple[int, int, int]]) -> list[Any]:
        try:
            return [
                _batch(source_of, rows, plain, names)
                for rows, plain in plain_containers(data, container, blocks)
            ]
        except ValueError as failure:
            raise _ColumnsFailedError(str(failure)) from failure

    decoders = (
        1 if MANIFESTS.is_at_work else _DECODERS
    )  # several manifests are read at a time already
    parts = block_groups(container, rows=max(_PART_ROWS, -(-container.rows // decoders)))
    tables: Iterable[list[Any]]
    if len(parts) < 2:
        tables = [read(part) for part in parts]
    else:
        tables = MANIFESTS.each(read, parts, parallelism=decoders)
    try:
        table = pa.Table.from_batches([batch for batches in tables for batch in batches])
        return {name: _conform(name, table.column(name)) for name in names}
    except (pa.ArrowException, ValueError, LookupError, TypeError) as failure:
        raise _ColumnsFailedError(str(failure)) from failure


def _batch(source_of: Any, rows: int, plain: bytes, names: list[str]) -> Any:
    """Yield the rows of a container and check their recorded number."""
    if not rows:
        raise _ColumnsFailedError("blocks without rows")
    source = _Source(plain)
    try:
        batches = source_of([lambda: source], False, False).batch_iter(rows, names)
        batch = pa.record_batch(next(batches))
        more = next(batches, None) is not None
    except (KeyboardInterrupt, SystemExit, MemoryError):
        raise
    except BaseException as failure:  # a panic of the library is no Exception
        raise _ColumnsFailedError(str(failure)) from failure
    if more or batch.num_rows != rows:
        raise _ColumnsFailedError("blocks hold other rows than they declare")
    return batch


def _conform(name: str, column: Any) -> Any:
    kind = _column_type(name)
    if kind is not None:
        return column.cast(kind)
    if column.null_count < len(column):
        return column.to_pylist()
    return [None] * len(column)


def _to_declared_type(name: str, values: list[Any]) -> Any:
    kind = _column_type(name)
    if kind is None:
        return values
    if pa.types.is_map(kind):
        values = [None if value is None else list(value.items()) for value in values]
    return pa.chunked_array([pa.array(values, kind)])


def _column_type(name: str) -> Any:
    """Return the type of a field's column in a file list, or None for an unknown field."""
    if name == NULL_PARTITIONS:
        return pa.list_(pa.string())
    return next((FILE_SCHEMA.field(f.column).type for f in FIELDS if f.name == name), None)


def _file_list(raw: dict[str, Any], names: Sequence[str], rows: int, path: str) -> pa.Table:
    columns = []
    for name in names:
        field = _BY_COLUMN[name]
        column = _with_default(raw.get(field.name), field, rows)
        if field.is_required and column.null_count:
            raise BadFileError(f"{path} has an entry without {field.name!r}.", path=path)
        columns.append(column)
    files = pa.table(columns, schema=pa.schema([FILE_SCHEMA.field(name) for name in names]))
    if NULL_PARTITIONS in raw and raw[NULL_PARTITIONS].null_count < rows:
        maps = with_null_values(_one(files["partition_values"]), _one(raw[NULL_PARTITIONS]))
        files = files.set_column(
            names.index("partition_values"), FILE_SCHEMA.field("partition_values"), maps
        )
    return _keep_unknown(
        files, {name: values for name, values in raw.items() if name not in _FIELD_NAMES}
    )


def _with_default(column: Any, field: EntryField, rows: int) -> Any:
    kind = FILE_SCHEMA.field(field.column).type
    if column is None:
        if isinstance(field.default, dict):
            default = list(field.default.items())
        else:
            default = field.default
        return pa.chunked_array(
            [pa.repeat(pa.scalar(None if field.is_required else default, kind), rows)]
        )
    if field.optional or not column.null_count or field.is_required:
        return column
    if field.type != "map":
        return _one(column).fill_null(pa.scalar(field.default, kind))
    return column


def _keep_unknown(files: pa.Table, extra: dict[str, list[Any]]) -> pa.Table:
    """Move fields of a newer writer to `unknown`, so that rewriting the entry does not lose them."""
    filled = {
        name: values for name, values in extra.items() if any(value is not None for value in values)
    }
    if not filled:
        return files
    texts = files["unknown"].to_pylist()
    for row, text in enumerate(texts):
        more = {name: values[row] for name, values in filled.items() if values[row] is not None}
        if more:
            texts[row] = json.dumps({**json.loads(text or "{}"), **more}, default=str)
    return files.set_column(
        files.schema.get_field_index("unknown"), FILE_SCHEMA.field("unknown"), pa.array(texts)
    )


def _one(column: Any) -> Any:
    return column.combine_chunks()

"""Checkpoints of older releases as bytes: JSON in one file or several parts, and Parquet.

One file of JSON comes in two forms: JSON lines like a version file, or a single object with
`protocol`, `metaData` and a list under `add`. Either may be gzipped. We write lines, and a last one
that says what they are the checkpoint of. Several parts have a manifest that names them.

The Parquet checkpoint has one row per action, flattened, with `actionType` telling the rows apart.
An `add` row has the columns of the design (path, partitionValues, size, numRecords, minValues,
maxValues) and every other field of AddAction beside them, so that nothing is lost. The one
`metadata` row has metadataId, schemaString, partitionColumns and format, and the whole action as
JSON in `actionJson`; so have the rows of all other actions. What it is the checkpoint of stands
among the file's key-value metadata.

A checkpoint says what it is of, so that another one in its place, whole in itself, is not taken for
it (rule S10). Checkpoints of other writers and of older releases do not say it, and are taken at
their word.
"""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from msgspec import Struct

from indextables.errors import BadFileError, show_value
from indextables.model.actions import (
    ACTION_KEYS,
    FileFormat,
    LogAction,
    MetadataAction,
    UnknownAction,
)
from indextables.model.file_list import FILE_SCHEMA
from indextables.wire import version_file
from indextables.wire.manifest import FIELDS, NULL_PARTITIONS, intended_partition_values
from indextables.wire.version_file import (
    INFLATION_CAP_BYTES,
    Deflater,
    check_entries,
    check_untyped,
    inflate,
    inflate_pieces,
)

_FIELD = "checkpointOf"
_LINE = b'{"commitInfo":{"%s":' % _FIELD.encode()


class PartFile(msgspec.Struct, frozen=True):
    """A further file of a checkpoint: its name and SHA-256."""

    name: str
    sha256: str


class CheckpointOrigin(msgspec.Struct, rename="camel", frozen=True, kw_only=True):
    """The version and table of a checkpoint, and which of its parts this file is."""

    version: int
    table_id: str
    txn_id: str | None = None
    """The transaction of the version; None in a file of an older release."""
    part: int = 1
    parts: int = 1
    actions: int | None = None
    """Number of actions in the file."""
    sha256: str | None = None
    """SHA-256 of the lines before this one."""
    others: tuple[PartFile, ...] = ()
    """The further files of a Parquet checkpoint; the file that names them is written last."""

    def check(self, *, version: int, path: str, actions: int) -> None:
        """Raise BadFileError if this is not the origin of the checkpoint expected at a version."""
        if self.version != version:
            raise BadFileError(
                f"{path} says that it is the checkpoint of version {self.version}.", path=path
            )
        if self.parts != 1 + len(self.others):
            raise BadFileError(f"{path} is part {self.part} of several of a checkpoint.", path=path)
        if self.actions is not None and self.actions != actions:
            raise BadFileError(
                f"{path} speaks of {self.actions} actions, but there are {actions}.", path=path
            )


# Looked into once, at import: msgspec crashes if two threads are the first to look into a type.
_decoder = msgspec.json.Decoder(CheckpointOrigin)
_line_decoder = msgspec.json.Decoder(dict[str, dict[str, CheckpointOrigin]])


def checksum(data: bytes) -> str:
    """Return the SHA-256 of bytes as text."""
    return hashlib.sha256(data).hexdigest()


def encode_origin(origin: CheckpointOrigin) -> bytes:
    """Encode the origin as JSON."""
    return msgspec.json.encode(origin)


def decode_origin(data: bytes, *, path: str) -> CheckpointOrigin:
    """Decode the origin from JSON. Raises BadFileError."""
    try:
        return _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as failure:
        raise BadFileError(
            f"{path} does not say what it is the checkpoint of: {failure}.", path=path
        ) from failure


class CheckpointLines:
    """One file of a JSON checkpoint, compressed while lines are added, with a last line that
    records its origin.

    The last line has the form of a `commitInfo`, which every reader accepts and whose unknown
    fields are ignored.
    """

    def __init__(self) -> None:
        self._packed = Deflater()
        self._sha256 = hashlib.sha256()
        self.text_bytes = 0
        self.actions = 0

    def write(self, actions: Sequence[LogAction], lines: bytes | None = None) -> None:
        """Add actions, or their encoded lines."""
        if lines is None:
            text = version_file.encode(actions, compress=False)
        else:
            text = lines
        self._packed.write(text)
        self._sha256.update(text)
        self.text_bytes += len(text)
        self.actions += len(actions)

    def finish(self, origin: CheckpointOrigin) -> bytes:
        """Return the bytes of the file, and its origin."""
        signed = msgspec.structs.replace(origin, sha256=self._sha256.hexdigest())
        self._packed.write(_LINE + encode_origin(signed) + b"}}\n")
        return self._packed.finish()


def without_origin(plain: bytes, *, path: str) -> tuple[bytes, CheckpointOrigin | None]:
    """Return the lines of actions, and the origin in the last line. Raises BadFileError if they do
    not match.
    """
    at = _last_line(plain)
    origin = _origin_in(plain[at:], hashlib.sha256(memoryview(plain)[:at]), path)
    if origin is None:
        return (plain, None)
    return (plain[:at], origin)


def _last_line(text: bytes) -> int:
    """Return the start of the last non-empty line."""
    return text.rstrip(b"\n").rfind(b"\n") + 1


def _origin_in(line: bytes, sha256: hashlib._Hash, path: str) -> CheckpointOrigin | None:
    """Return the origin in a last line, or None for an ordinary line."""
    if not line.startswith(_LINE):
        return None
    try:
        origin = _line_decoder.decode(line)["commitInfo"][_FIELD]
    except (msgspec.DecodeError, UnicodeDecodeError, LookupError) as failure:
        raise BadFileError(
            f"{path} does not say what it is the checkpoint of: {failure}.", path=path
        ) from failure
    if origin.sha256 is not None and origin.sha256 != sha256.hexdigest():
        raise BadFileError(f"{path} does not match its checksum.", path=path)
    return origin


ACTIONS_PER_PART = 100_000
LINES_PER_SLICE = 10_000
"""Number of decoded lines in memory while a JSON checkpoint is read."""
ROWS_PER_GROUP = 20_000
"""Number of files in one row group of a Parquet checkpoint."""
_PART_NAME = re.compile(r"[^/\\\x00-\x1f]{1,200}")
_KEYS = frozenset(ACTION_KEYS.values())


class MultiPartManifest(msgspec.Struct, rename="camel", frozen=True, kw_only=True):
    """The file that completes a multi-part checkpoint: it is written last and names every part."""

    version: int
    checkpoint_id: str
    parts: tuple[str, ...]
    created_time: int = 0
    format: str = "json"
    table_id: str | None = None
    checksums: tuple[str, ...] | None = None
    """The SHA-256 of each part in order."""


# Looked into once, at import: msgspec crashes if two threads are the first to look into a type.
msgspec.json.Decoder(MultiPartManifest)
_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])


def decode_checkpoint(
    data: bytes, *, path: str, version: int | None = None
) -> list[LogAction] | MultiPartManifest:
    """Decode the actions of a checkpoint file, or the manifest of a multi-part one. Raises
    BadFileError.

    A recorded origin must be the whole checkpoint of `version`, if that is given.
    """
    plain = inflate(data, path=path)
    if _is_lines(plain):
        actions, origin = _lines(data, plain, path)
        if origin is not None and version is not None:
            origin.check(version=version, path=path, actions=len(actions))
        return actions
    check_untyped(len(plain), len(data), path=path)
    try:
        content = msgspec.json.decode(plain)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return decode_part(
            data, path=path
        )  # several lines, or garbled: the reader of lines decides
    if not isinstance(content, dict):
        raise BadFileError(f"{path} holds no JSON object.", path=path)
    if "checkpointId" in content:
        return _manifest(content, path, version)
    if len(content) == 1 and not isinstance(next(iter(content.values())), list):
        return decode_part(data, path=path)
    return _object_form(content, path)


def _is_lines(plain: bytes) -> bool:
    """Return whether the first of several lines is a JSON object."""
    first, _, rest = plain.lstrip().partition(b"\n")
    try:
        return bool(rest.strip()) and bool(_OBJECT.decode(first))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False


def is_file_of_lines(data: bytes, *, path: str) -> bool:
    """Return whether a checkpoint is a file of JSON lines, which `decode_slices` reads, by its
    beginning.
    """
    return _is_lines(next(iter(inflate_pieces(data, path=path)), b""))


def decode_part(data: bytes, *, path: str) -> list[LogAction]:
    """Decode the actions of a file of JSON lines: a checkpoint of one file, or one part of several."""
    return _lines(data, inflate(data, path=path), path)[0]


def decode_slices(
    data: bytes, *, path: str, version: int | None = None
) -> Iterator[list[LogAction]]:
    """Decode actions in slices, because decoded actions take many times their size.

    With `version`, a recorded origin must be the whole checkpoint of that version; it is checked at
    the end.
    """
    first, count = 1, 0
    origins: list[CheckpointOrigin] = []
    for text in _texts(data, path, origins):
        start = 0
        while start < len(text):
            end, lines = start, 0
            while end < len(text) and lines < LINES_PER_SLICE:
                end, lines = text.find(b"\n", end) + 1 or len(text), lines + 1
            check_entries(first - 1 + lines, len(data), path=path)
            actions = version_file.decode_lines(
                text[start:end], path=path, packed_bytes=len(data), first_line=first
            )
            first, start, count = first + lines, end, count + len(actions)
            yield actions
            del actions  # before the next ones come
    if first == 1:
        yield version_file.decode_lines(b"", path=path, packed_bytes=len(data))
    for origin in origins if version is not None else ():
        origin.check(version=version or 0, path=path, actions=count)


def _texts(data: bytes, path: str, origins: list[CheckpointOrigin]) -> Iterator[bytes]:
    """Yield whole lines, some MB at a time. The last one is held back, because it may be the
    origin.
    """
    sha256 = hashlib.sha256()
    waiting: list[bytes] = []
    for piece in inflate_pieces(data, path=path):
        waiting.append(piece)
        if b"\n" in piece:  # else a line as long as the file would be joined again and again
            text = b"".join(waiting)
            at = _last_line(text)
            sha256.update(memoryview(text)[:at])
            yield text[:at]
            waiting = [text[at:]]
    last = b"".join(waiting)
    origin = _origin_in(last, sha256, path)
    if origin is None:
        yield last
    else:
        origins.append(origin)


def _lines(data: bytes, plain: bytes, path: str) -> tuple[list[LogAction], CheckpointOrigin | None]:
    lines, origin = without_origin(plain, path=path)
    return version_file.decode_lines(lines, path=path, packed_bytes=len(data)), origin


def encode_part(actions: Sequence[LogAction], origin: CheckpointOrigin | None = None) -> bytes:
    """Return the bytes of a checkpoint of one file, or of one part of several, and its origin."""
    if origin is None:
        return version_file.encode(actions, compress=True)
    part = CheckpointLines()
    part.write(actions)
    return part.finish(origin)


def encode_object(others: Sequence[LogAction], adds: Iterable[Sequence[LogAction]]) -> bytes:
    """Encode a checkpoint as the single object of the first releases: protocol, metaData and a list
    of adds, as plain text.

    Other content is in additional lists, which older readers ignore.
    """
    lists: dict[str, list[bytes]] = {}
    for action in others:
        if not isinstance(action, UnknownAction):
            lists.setdefault(ACTION_KEYS[type(action)], []).append(_value(action))
    out = io.BytesIO()
    out.write(b"{")
    for key, values in lists.items():
        single = key in ("protocol", "metaData")
        out.write(
            b'"%s":%s,' % (key.encode(), values[-1] if single else b"[%s]" % b",".join(values))
        )
    out.write(b'"add":[')
    filled = False
    for batch in adds:
        if batch:
            out.write((b"," if filled else b"") + b",".join(_value(action) for action in batch))
            filled = True
    out.write(b"]}")
    return out.getvalue()


def _value(action: LogAction) -> bytes:
    line = version_file.encode_action(action)
    return line[line.index(b":") + 1 : -1]


def encode_multi_part_manifest(manifest: MultiPartManifest) -> bytes:
    """Return the bytes of a multi-part checkpoint's manifest, uncompressed so that its first line
    identifies it.
    """
    return msgspec.json.encode(manifest)


def _manifest(content: dict[str, Any], path: str, version: int | None) -> MultiPartManifest:
    try:
        manifest = msgspec.convert(content, MultiPartManifest)
    except msgspec.ValidationError as failure:
        raise BadFileError(
            f"{path} is not a checkpoint manifest: {failure}.", path=path
        ) from failure
    for part in manifest.parts:
        if not _PART_NAME.fullmatch(part) or part in (".", "..", path.rpartition("/")[2]):
            raise BadFileError(f"{path} names a part that is none: {show_value(part)}.", path=path)
    if len(set(manifest.parts)) < len(manifest.parts):
        raise BadFileError(f"{path} names a part twice.", path=path)
    if manifest.format != "json" or not manifest.parts:
        raise BadFileError(f"{path} names no JSON parts (format {manifest.format!r}).", path=path)
    if manifest.checksums is not None and len(manifest.checksums) != len(manifest.parts):
        raise BadFileError(
            f"{path} has {len(manifest.checksums)} checksums for {len(manifest.parts)} parts.",
            path=path,
        )
    if version is not None and manifest.version != version:
        raise BadFileError(
            f"{path} says that it is the checkpoint of version {manifest.version}.", path=path
        )
    return manifest


def _object_form(content: dict[str, Any], path: str) -> list[LogAction]:
    actions: list[LogAction] = []
    for key, value in content.items():
        for fields in value if isinstance(value, list) else [value]:
            if fields is None:
                continue
            if key not in _KEYS:
                actions.append(UnknownAction(key=key, value=fields))
                continue
            try:
                actions.append(
                    version_file.with_intended_values(version_file.action_from_fields(key, fields))
                )
            except (msgspec.ValidationError, AttributeError, RecursionError) as failure:
                raise BadFileError(
                    f"{path} holds an unreadable {key!r} action: {failure}.", path=path
                ) from failure
    if not any(not isinstance(action, UnknownAction) for action in actions):
        raise BadFileError(f"{path} holds no actions.", path=path)
    return actions


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
    """The small JSON file next to a Parquet checkpoint."""

    version: int
    size: int
    parts: int | None = None
    created_time: int = 0


class ParquetCheckpoint(Struct, frozen=True):
    """The content of a Parquet checkpoint: the live files, and every other action."""

    files: pa.Table
    actions: tuple[LogAction, ...]
    origin: CheckpointOrigin | None = None


def encode_metadata(metadata: CheckpointMetadata) -> bytes:
    """Return the bytes of the JSON file next to the checkpoint."""
    return msgspec.json.encode(metadata)


class ParquetCheckpointWriter:
    """One file of a Parquet checkpoint, written batch by batch; its footer records its origin."""

    def __init__(self, compression: str) -> None:
        self._out = io.BytesIO()
        self._writer = pq.ParquetWriter(
            self._out, _SCHEMA, compression=compression, write_page_checksum=True
        )
        self._waiting: list[pa.Table] = []
        self.rows = 0

    @property
    def size(self) -> int:
        """Number of bytes written."""
        return self._out.tell()

    def write_files(self, files: pa.Table) -> None:
        """Add live files."""
        if files.num_rows:
            self._waiting.append(_file_rows(files))
            self.rows += files.num_rows
        if sum(table.num_rows for table in self._waiting) >= ROWS_PER_GROUP:
            self._flush()

    def _flush(self) -> None:
        if self._waiting:
            rows = pa.concat_tables(self._waiting)
            self._writer.write_table(rows, row_group_size=rows.num_rows)
            self._waiting = []

    def write_actions(self, actions: Sequence[LogAction]) -> None:
        """Add other actions."""
        self._flush()
        self._writer.write_table(_action_rows(actions))
        self.rows += len(actions)

    def finish(self, origin: CheckpointOrigin | None = None) -> bytes:
        """Return the bytes of the file, and its origin."""
        self._flush()
        if origin is not None:
            self._writer.add_key_value_metadata({_ORIGIN: encode_origin(origin)})
        self._writer.close()
        return self._out.getvalue()


def encode_parquet_checkpoint(
    files: pa.Table,
    actions: Sequence[LogAction],
    *,
    compression: str,
    origin: CheckpointOrigin | None = None,
) -> bytes:
    """Return the bytes of a checkpoint of one file: the other actions first, then the files."""
    writer = ParquetCheckpointWriter(compression)
    writer.write_actions(actions)
    writer.write_files(files)
    return writer.finish(origin)


def parquet_parts(data: bytes, *, path: str) -> tuple[str, ...]:
    """Return the names of the further files of a Parquet checkpoint. Raises BadFileError."""
    try:
        text = (pq.read_metadata(pa.BufferReader(data)).metadata or {}).get(_ORIGIN)
    except (pa.ArrowException, OSError, ValueError) as failure:
        raise BadFileError(
            f"{path} cannot be read as a Parquet checkpoint: {failure}.", path=path
        ) from failure
    if text is None:
        return ()
    return tuple(part.name for part in decode_origin(text, path=path).others)


def decode_parquet_checkpoint(
    data: bytes, *, path: str, columns: Sequence[str] | None = None
) -> ParquetCheckpoint:
    """Decode the checkpoint's files and actions. Columns are found by name; missing ones have their
    defaults.

    Only `columns` of the files are kept, if they are named; all are read and checked, one row group
    at a time.
    """
    groups = list(decode_row_groups(data, path=path, columns=columns))
    actions = tuple(action for group in groups for action in group.actions)
    return ParquetCheckpoint(
        pa.concat_tables([group.files for group in groups]), actions, groups[0].origin
    )


def decode_row_groups(
    data: bytes, *, path: str, columns: Sequence[str] | None = None
) -> Iterator[ParquetCheckpoint]:
    """Decode one row group at a time, at least one, each with the origin of the whole file."""
    try:
        origin, groups = _row_groups(data, path)
        for rows in groups:
            rows.validate(full=True)
            kinds = rows.column("actionType")
            files = _file_list(rows.filter(pc.equal(kinds, _ADD)))
            if files.column("path").null_count or files.column("size").null_count:
                raise BadFileError(f"{path} has a file without a path or a size.", path=path)
            others = rows.filter(pc.invert(pc.equal(kinds, _ADD)))
            actions = tuple(_action(row) for row in _narrow(others).to_pylist())
            yield ParquetCheckpoint(
                files if columns is None else files.select(list(columns)), actions, origin
            )
    except BadFileError as failure:
        raise BadFileError(
            f"{path} cannot be read as a Parquet checkpoint: {failure.message}", path=path
        ) from failure
    except (
        pa.ArrowException,
        OSError,
        LookupError,
        ValueError,
        TypeError,
        AttributeError,
        OverflowError,
    ) as failure:
        raise BadFileError(
            f"{path} cannot be read as a Parquet checkpoint: {failure}.", path=path
        ) from failure


def _row_groups(data: bytes, path: str) -> tuple[CheckpointOrigin | None, Iterator[pa.Table]]:
    """Yield the origin of a checkpoint and its rows by row group, at least one, which may be empty.

    Texts are read as dictionary codes, and decoded only if the result is not larger than a log may
    hold.
    """
    plain = pq.ParquetFile(pa.BufferReader(data))
    check_entries(plain.metadata.num_rows, len(data), path=path)
    texts = [plain.metadata.schema.column(i) for i in range(plain.metadata.num_columns)]
    shared = pq.ParquetFile(
        pa.BufferReader(data),
        read_dictionary=[column.path for column in texts if column.physical_type == "BYTE_ARRAY"],
        page_checksum_verification=True,
    )
    schema = plain.schema_arrow.remove_metadata()

    def groups() -> Iterator[pa.Table]:
        size = 0
        for number in range(
            shared.num_row_groups
        ):  # one by one: maps of shared texts are not read across them
            group = shared.read_row_group(number, use_threads=False)
            size += sum(_plain_bytes(chunk) for column in group.columns for chunk in column.chunks)
            if size > INFLATION_CAP_BYTES:
                raise BadFileError(
                    f"It holds {size} bytes, more than {INFLATION_CAP_BYTES}.", path=path
                )
            yield group.cast(schema)
        if not shared.num_row_groups:
            yield schema.empty_table()

    origin_text = (plain.metadata.metadata or {}).get(_ORIGIN)
    return None if origin_text is None else decode_origin(origin_text, path=path), groups()


def _plain_bytes(array: Any) -> int:
    """Return the size of an array with one text per row."""
    if pa.types.is_dictionary(array.type):
        return int(
            pc.sum(pc.binary_length(array.dictionary).cast(pa.int64()).take(array.indices)).as_py()
            or 0
        )
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
    return _fill_columns(columns, files.num_rows)


def _action_rows(actions: Sequence[LogAction]) -> pa.Table:
    rows = [_action_row(action) for action in actions]
    return pa.Table.from_pylist(rows, schema=_SCHEMA)


def _action_row(action: LogAction) -> dict[str, Any]:
    line = version_file.encode_action(action).decode()
    if not isinstance(action, MetadataAction):
        if isinstance(action, UnknownAction):
            kind = action.key
        else:
            kind = next(iter(msgspec.json.decode(line)))
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
        if name in rows.column_names:
            values = rows.column(name).cast(field.type)
        else:
            values = pa.nulls(rows.num_rows, field.type)
        columns[field.name] = values
    files = pa.table(columns, schema=FILE_SCHEMA)
    maps = files["partition_values"].combine_chunks()
    right = intended_partition_values(
        maps,
        lambda: files["path"].combine_chunks(),
        lambda: (files["min_values"].combine_chunks(), files["max_values"].combine_chunks()),
    )
    place = files.column_names.index("partition_values")
    if right is maps:
        return files
    return files.set_column(place, FILE_SCHEMA.field(place), right)


def _narrow(rows: pa.Table) -> pa.Table:
    return rows.select([f.name for f in _METADATA_FIELDS if f.name in rows.column_names])


def _action(row: dict[str, Any]) -> LogAction:
    """Decode an action from JSON; a `metadata` row of another writer has only the flattened
    columns.
    """
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


def _fill_columns(columns: dict[str, Any], rows: int) -> pa.Table:
    arrays = [columns[f.name] if f.name in columns else pa.nulls(rows, f.type) for f in _SCHEMA]
    return pa.table(arrays, schema=_SCHEMA)

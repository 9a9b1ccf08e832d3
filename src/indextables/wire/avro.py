"""Avro containers: compression, framing, and records one by one.

We write blocks in zstandard, snappy or null, and read whatever the format knows. A container that
was cut short at a block boundary looks whole to most readers, so this one walks every block itself:
sizes and sync markers must agree, the file must end right after the last marker, and the rows are
counted. What we write also carries a checksum in its header, under a key that other readers pass
over; a file without it is taken on trust.

Records one by one are the slow, sure way, for a state's own file and for manifests of an unusual
schema.
"""

from __future__ import annotations

import bz2
import hashlib
import io
import json
import lzma
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import fastavro
import pyarrow as pa
from msgspec import Struct

from indextables.errors import BadFileError
from indextables.wire.version_file import INFLATION_CAP_BYTES, check_entries

Pack = Callable[[memoryview], bytes]
Unpack = Callable[[memoryview], bytes]
_CHECKSUM_BYTES = 4
_PIECE_BYTES = 1 << 20


class BlockCodec(Struct, frozen=True):
    """The codec's name in the file and how a block becomes smaller."""

    name: str
    pack: Pack


def block_codec(setting: str, *, level: int) -> BlockCodec:
    """The codec for a word of `state.compression`: zstd, snappy or none."""
    if setting == "zstd":
        zstd = pa.Codec("zstd", compression_level=level)
        return BlockCodec("zstandard", lambda rows: bytes(zstd.compress(rows, asbytes=True)))
    if setting == "snappy":
        snappy = pa.Codec("snappy")
        return BlockCodec(
            "snappy",
            lambda rows: bytes(snappy.compress(rows, asbytes=True)) + _block_checksum(rows),
        )
    return BlockCodec("null", bytes)


def unpack(codec: str, packed: memoryview) -> bytes:
    """A block before compression. ValueError if the codec is not known, the bytes are garbled, or
    they are a bomb.
    """
    if codec not in _UNPACK:
        raise ValueError(f"the codec {codec!r} is not known")
    try:
        plain = _UNPACK[codec](packed)
    except (OSError, EOFError, zlib.error, lzma.LZMAError, pa.ArrowException) as failure:
        raise ValueError(f"a block cannot be decompressed ({failure})") from failure
    if len(plain) > INFLATION_CAP_BYTES:
        raise ValueError(f"a block inflates to more than {INFLATION_CAP_BYTES} bytes")
    return plain


def _unpack_zstandard(packed: memoryview) -> bytes:
    plain = io.BytesIO()
    with pa.CompressedInputStream(pa.BufferReader(packed), "zstd") as stream:
        # Not at once: Arrow sets aside as many bytes as it is asked for.
        while plain.tell() <= INFLATION_CAP_BYTES and (piece := stream.read(_PIECE_BYTES)):
            plain.write(piece)
    return plain.getvalue()


def _unpack_snappy(packed: memoryview) -> bytes:
    body, expected = packed[:-_CHECKSUM_BYTES], bytes(packed[-_CHECKSUM_BYTES:])
    size = _leading_varint(body)
    if size > INFLATION_CAP_BYTES:
        raise ValueError(f"a block inflates to {size} bytes")
    plain = bytes(pa.Codec("snappy").decompress(body, decompressed_size=size, asbytes=True))
    if _block_checksum(memoryview(plain)) != expected:
        raise ValueError("a block does not match its checksum")
    return plain


def _leading_varint(body: memoryview) -> int:
    """Raw snappy begins with the length of what it holds."""
    value = 0
    for at, byte in enumerate(body[:5]):
        value |= (byte & 0x7F) << (7 * at)
        if byte < 0x80:
            return value
    raise ValueError("a snappy block has no length")


def _unpack_deflate(packed: memoryview) -> bytes:
    inflater = zlib.decompressobj(wbits=-15)
    plain = inflater.decompress(packed, INFLATION_CAP_BYTES + 1)
    if not inflater.eof:
        raise ValueError("a block ends in the middle of its stream")
    return plain


def _block_checksum(rows: memoryview) -> bytes:
    """Avro's snappy blocks end in the CRC32 of the bytes before compression."""
    return zlib.crc32(rows).to_bytes(_CHECKSUM_BYTES, "big")


_UNPACK: dict[str, Unpack] = {
    "null": bytes,
    "zstandard": _unpack_zstandard,
    "snappy": _unpack_snappy,
    "deflate": _unpack_deflate,
    "bzip2": lambda packed: bz2.BZ2Decompressor().decompress(
        bytes(packed), INFLATION_CAP_BYTES + 1
    ),
    "xz": lambda packed: lzma.LZMADecompressor().decompress(bytes(packed), INFLATION_CAP_BYTES + 1),
}


MAGIC = b"Obj\x01"
SYNC_BYTES = 16
_MAX_VARINT_BYTES = 10
_MAX_DEPTH = 50
_MOST_NULL_FIELDS = 8
"""A value of a type is a dict with all its fields, however few bytes it takes."""
_SCHEMA, _CODEC, _CRC32 = "avro.schema", "avro.codec", "indextables.crc32"
_EMPTY_FIELDS = "indextables.emptyFields"


class Container(Struct, frozen=True):
    """What the frame of an Avro file says: the writer's schema, the codec, and each block as (rows,
    start, end).

    `empty_fields` are null in every row, so they are not decoded; only our own files record this.
    """

    schema: dict[str, Any]
    codec: str
    blocks: tuple[tuple[int, int, int], ...]
    empty_fields: frozenset[str] = frozenset()

    @property
    def rows(self) -> int:
        """How many rows the blocks declare."""
        return sum(count for count, _, _ in self.blocks)


def zigzag(number: int) -> bytes:
    """One Avro long."""
    left = (number << 1) ^ (number >> 63)
    out = bytearray()
    while left > 0x7F:
        out.append((left & 0x7F) | 0x80)
        left >>= 7
    out.append(left)
    return bytes(out)


def assemble(
    schema_json: str,
    codec: str,
    blocks: Sequence[tuple[int, bytes]],
    *,
    empty_fields: Iterable[str] = (),
) -> bytes:
    """A container of (row count, compressed rows) blocks.

    The sync marker is a digest of the content: the same rows always give the same bytes.
    """
    body = [part for rows, packed in blocks for part in (zigzag(rows), zigzag(len(packed)), packed)]
    meta = {_CODEC: codec, _SCHEMA: schema_json, _EMPTY_FIELDS: ",".join(sorted(empty_fields))}
    crc = _checksum({key: text.encode() for key, text in meta.items()}, body)
    header = _header({**meta, _CRC32: f"{crc:08x}"})
    sync = hashlib.sha256(b"".join([header, *body])).digest()[:SYNC_BYTES]
    out = [header, sync]
    for at in range(0, len(body), 3):
        out += [*body[at : at + 3], sync]
    return b"".join(out)


def _header(meta: dict[str, str]) -> bytes:
    out = [MAGIC, zigzag(len(meta))]
    for text in (word.encode() for entry in meta.items() for word in entry):
        out += [zigzag(len(text)), text]
    return b"".join([*out, b"\x00"])


def _checksum(meta: Mapping[str, bytes], blocks: Iterable[bytes | memoryview]) -> int:
    """CRC32 over what the header says and every block with its two numbers, sync markers left out."""
    crc = 0
    for key in (_SCHEMA, _CODEC, _EMPTY_FIELDS):
        crc = zlib.crc32(meta.get(key, b""), crc)
    for part in blocks:
        crc = zlib.crc32(part, crc)
    return crc


def read_container(data: bytes, *, path: str) -> Container:
    """Walk the whole frame. BadFileError, with path and offset, if any part of it does not hold
    together.
    """
    frame = _Frame(data, path)
    if not data:
        raise frame.bad("is empty")
    if frame.take(len(MAGIC)) != MAGIC:
        raise frame.bad("does not begin like an Avro file", at=0)
    meta = _metadata(frame)
    sync = frame.take(SYNC_BYTES)
    blocks: list[tuple[int, int, int]] = []
    crc = _checksum(meta, ())
    declared = 0
    while frame.at < len(data):
        start = frame.at
        count, size = frame.long(), frame.long()
        if count < 0 or size < 0:
            raise frame.bad("has a block of negative size", at=start)
        declared += count
        blocks.append((count, frame.at, frame.at + size))
        frame.skip(size)
        crc = zlib.crc32(memoryview(data)[start : frame.at], crc)
        if frame.take(SYNC_BYTES) != sync:
            raise frame.bad("has a block that does not end in its sync marker", at=start)
    if _CRC32 in meta and meta[_CRC32] != b"%08x" % crc:
        raise frame.bad("does not match its checksum", at=0)
    check_entries(declared, len(data), path=path)
    codec = _text(frame, meta.get(_CODEC, b"null"))
    if _CRC32 in meta:
        empty = _text(frame, meta.get(_EMPTY_FIELDS, b""))
    else:
        empty = ""
    return Container(
        _schema(frame, meta), codec, tuple(blocks), frozenset(filter(None, empty.split(",")))
    )


def block_groups(container: Container, *, rows: int) -> list[list[tuple[int, int, int]]]:
    """The blocks in their order, so many together that each group but the last has this many rows
    or more.
    """
    groups: list[list[tuple[int, int, int]]] = []
    held = rows
    for block in container.blocks:
        if held >= rows:
            groups.append([])
            held = 0
        groups[-1].append(block)
        held += block[0]
    return groups


_MORE_ROWS_THAN_BYTES = 1 << 62
_JOINED_ROWS, _JOINED_BYTES = 16_384, 8 << 20


def plain_containers(
    data: bytes, container: Container, blocks: Iterable[tuple[int, int, int]]
) -> Iterator[tuple[int, bytes]]:
    """What some blocks hold as containers of a single block without compression, and how many rows
    were declared of each.

    Such a block declares more rows than there are: a reader that counts down to the last row and
    then waits for the block to end would wait for ever where bytes follow that row. Whoever reads
    one asks for the rows that were declared, and finds out whether there are more. ValueError for a
    block that cannot be decompressed.
    """
    header = _header({_CODEC: "null", _SCHEMA: json.dumps(container.schema)})
    rows, size, held = 0, 0, list[bytes]()
    for count, start, end in blocks:
        held.append(unpack(container.codec, memoryview(data)[start:end]))
        if count > len(held[-1]):
            raise ValueError("a block declares more records than it has bytes")
        rows, size = rows + count, size + len(held[-1])
        if rows >= _JOINED_ROWS or size >= _JOINED_BYTES:
            yield rows, _one_block(header, held, size)
            rows, size, held = 0, 0, []
    if held:
        yield rows, _one_block(header, held, size)


def _one_block(header: bytes, held: Sequence[bytes], size: int) -> bytes:
    sync = bytes(SYNC_BYTES)
    return b"".join([header, sync, zigzag(_MORE_ROWS_THAN_BYTES), zigzag(size), *held, sync])


def _metadata(frame: _Frame) -> dict[str, bytes]:
    meta: dict[str, bytes] = {}
    while count := frame.long():
        if count < 0:
            frame.long()
        if abs(count) > len(frame.data):
            raise frame.bad("has a garbled header")
        for _ in range(abs(count)):
            key = frame.take(frame.long())
            meta[_text(frame, key)] = frame.take(frame.long())
    return meta


_MOST_SCHEMAS, _LONG_SCHEMA = 100, 100_000
_CHECKED_SCHEMAS: set[bytes] = set()
"""The texts of schemas that were found harmless: the files of a log have but a few, and a
checkpoint reads many of them.
"""


def _schema(frame: _Frame, meta: dict[str, bytes]) -> dict[str, Any]:
    try:
        schema = json.loads(meta.get(_SCHEMA, b""))
    except (ValueError, RecursionError) as failure:
        raise frame.bad("has no readable Avro schema", at=0) from failure
    if not isinstance(schema, dict) or not isinstance(schema.get("fields"), list):
        raise frame.bad("holds no Avro records", at=0)
    text = meta[_SCHEMA]
    if text not in _CHECKED_SCHEMAS:
        _check_type(frame, schema, ())
        if len(_CHECKED_SCHEMAS) < _MOST_SCHEMAS and len(text) < _LONG_SCHEMA:
            _CHECKED_SCHEMAS.add(text)
    return schema


def _check_type(frame: _Frame, schema: Any, within: tuple[str, ...]) -> None:
    """Refuse types whose values take no bytes or are nested without end: of those a few bytes hold
    any number.

    The schema is the file's own, so it decides how much memory its rows take. `within` names the
    types that hold this one.
    """
    if len(within) > _MAX_DEPTH:
        raise frame.bad("has a schema that is nested too deep", at=0)
    if isinstance(schema, str) and schema.rpartition(".")[2] in within:
        raise frame.bad(f"has a type {schema!r} that holds itself", at=0)
    if isinstance(schema, list):
        for branch in schema:
            _check_type(frame, branch, (*within, ""))
    elif isinstance(schema, dict):
        kind, fields = schema.get("type"), schema.get("fields")
        if isinstance(fields, list):
            known = [field for field in fields if isinstance(field, dict)]
        else:
            known = []
        if not all(isinstance(field.get("name"), str) for field in known):
            raise frame.bad("has a field whose name is no text", at=0)
        types = [field.get("type") for field in known]
        nulls = sum(map(_is_null, types))
        empty = kind in ("record", "error") and nulls == len(types)
        if nulls > _MOST_NULL_FIELDS:
            raise frame.bad(f"has a type with {nulls} fields that are always null", at=0)
        within = (*within, str(schema.get("name", "")).rpartition(".")[2])
        if (
            empty
            or (kind == "array" and _is_null(schema.get("items")))
            or (kind == "fixed" and not schema.get("size"))
        ):
            raise frame.bad("has a type whose values take no bytes", at=0)
        for part in (*types, schema.get("items"), schema.get("values"), kind):
            _check_type(frame, part, within)


def _is_null(schema: Any) -> bool:
    return (
        schema is None
        or schema == "null"
        or (isinstance(schema, dict) and _is_null(schema.get("type")))
    )


def _text(frame: _Frame, raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError as failure:
        raise frame.bad("has a garbled header") from failure


class _Frame:
    """A cursor over the bytes that never reads past their end."""

    def __init__(self, data: bytes, path: str) -> None:
        self.data = data
        self.path = path
        self.at = 0

    def skip(self, length: int) -> None:
        if length < 0 or self.at + length > len(self.data):
            raise self.bad("is cut short or garbled")
        self.at += length

    def take(self, length: int) -> bytes:
        start = self.at
        self.skip(length)
        return self.data[start : self.at]

    def long(self) -> int:
        value = shift = 0
        for _ in range(_MAX_VARINT_BYTES):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (value >> 1) ^ -(value & 1)
            shift += 7
        raise self.bad("holds a number that is too long")

    def bad(self, what: str, *, at: int | None = None) -> BadFileError:
        offset = self.at if at is None else at
        return BadFileError(
            f"{self.path} {what} (at byte {offset}).", path=self.path, offset=offset
        )


def read_records(data: bytes, container: Container, *, path: str) -> list[dict[str, Any]]:
    """Every record of a container. A block that holds more or less than its records is a
    BadFileError.
    """
    try:
        schema = fastavro.parse_schema(container.schema)
        return [
            record
            for block in container.blocks
            for record in _block(data, schema, container.codec, block)
        ]
    except Exception as failure:
        message = f"{path} cannot be decoded: {failure or type(failure).__name__}."
        raise BadFileError(message, path=path) from failure


def _block(
    data: bytes, schema: Any, codec: str, block: tuple[int, int, int]
) -> list[dict[str, Any]]:
    count, start, end = block
    unpacked = unpack(codec, memoryview(data)[start:end])
    if count > len(unpacked):
        raise ValueError("a block declares more records than it has bytes")
    plain = io.BytesIO(unpacked)
    records = [fastavro.schemaless_reader(plain, schema) for _ in range(count)]
    if plain.read(1):
        raise ValueError("a block holds more than its records")
    if not all(isinstance(record, dict) for record in records):
        raise TypeError("the file does not hold records")
    return records

"""Compression of Avro blocks. We write zstandard, snappy or null, and read whatever the format knows."""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable

import pyarrow as pa
from msgspec import Struct

from indextables.wire.compression import INFLATION_CAP_BYTES

Pack = Callable[[memoryview], bytes]
Unpack = Callable[[memoryview], bytes]
_CHECKSUM_BYTES = 4


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
        return BlockCodec("snappy", lambda rows: bytes(snappy.compress(rows, asbytes=True)) + _checksum(rows))
    return BlockCodec("null", bytes)


def unpack(codec: str, packed: memoryview) -> bytes:
    """A block before compression. ValueError if the codec is not known, the bytes are garbled, or they are a bomb."""
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
    with pa.CompressedInputStream(pa.BufferReader(packed), "zstd") as stream:
        return bytes(stream.read(INFLATION_CAP_BYTES + 1))


def _unpack_snappy(packed: memoryview) -> bytes:
    body, expected = packed[:-_CHECKSUM_BYTES], bytes(packed[-_CHECKSUM_BYTES:])
    size = _leading_varint(body)
    if size > INFLATION_CAP_BYTES:
        raise ValueError(f"a block inflates to {size} bytes")
    plain = bytes(pa.Codec("snappy").decompress(body, decompressed_size=size, asbytes=True))
    if _checksum(memoryview(plain)) != expected:
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


def _checksum(rows: memoryview) -> bytes:
    """Avro's snappy blocks end in the CRC32 of the bytes before compression."""
    return zlib.crc32(rows).to_bytes(_CHECKSUM_BYTES, "big")


_UNPACK: dict[str, Unpack] = {
    "null": bytes,
    "zstandard": _unpack_zstandard,
    "snappy": _unpack_snappy,
    "deflate": _unpack_deflate,
    "bzip2": lambda packed: bz2.BZ2Decompressor().decompress(bytes(packed), INFLATION_CAP_BYTES + 1),
    "xz": lambda packed: lzma.LZMADecompressor().decompress(bytes(packed), INFLATION_CAP_BYTES + 1),
}

"""Compression of Avro blocks: zstandard, snappy, null. The words of the settings differ from the words in the file."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

Pack = Callable[[memoryview], bytes]


@dataclass(frozen=True)
class BlockCodec:
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


def _checksum(rows: memoryview) -> bytes:
    """Avro's snappy blocks end in the CRC32 of the bytes before compression."""
    return zlib.crc32(rows).to_bytes(4, "big")

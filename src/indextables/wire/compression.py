"""Compression of log files: plain, gzip, or the two bytes `01 01` and gzip; told apart by content, capped when inflated."""

from __future__ import annotations

import zlib

from indextables.errors import BadFileError

GZIP_MAGIC = b"\x1f\x8b"
HEADED_GZIP = b"\x01\x01" + GZIP_MAGIC
INFLATION_CAP_BYTES = 512 << 20


def inflate(data: bytes, *, path: str, cap_bytes: int = INFLATION_CAP_BYTES) -> bytes:
    """The plain bytes of a log file, whichever way it was written. A bomb, a cut or a flipped byte is a BadFileError."""
    if data[:4] == HEADED_GZIP:
        data = data[2:]
    if data[:2] != GZIP_MAGIC:
        return data
    inflater = zlib.decompressobj(wbits=31)
    try:
        plain = inflater.decompress(data, cap_bytes)
    except zlib.error as error:
        raise BadFileError(f"{path} is not readable gzip: {error}.", path=path) from error
    if inflater.unconsumed_tail:
        raise BadFileError(f"{path} inflates to more than {cap_bytes} bytes.", path=path, cap_bytes=cap_bytes)
    if not inflater.eof or inflater.unused_data:
        what = "ends in the middle of its gzip stream" if not inflater.eof else "has bytes after its gzip stream"
        raise BadFileError(f"{path} {what}.", path=path)
    return plain


def deflate(data: bytes) -> bytes:
    """Gzip bytes with no timestamp inside: the same input gives the same output."""
    deflater = zlib.compressobj(level=1, wbits=31)
    return deflater.compress(data) + deflater.flush()

"""Compression of log files: plain, gzip, or the two bytes `01 01` and gzip; told apart by content, capped when inflated."""

from __future__ import annotations

import zlib

from indextables.errors import BadFileError

GZIP_MAGIC = b"\x1f\x8b"
JVM_MARK = b"\x01\x01"
"""What the JVM engine puts before gzip; without it, it takes a compressed version file for lines it cannot read."""
HEADED_GZIP = JVM_MARK + GZIP_MAGIC
INFLATION_CAP_BYTES = 512 << 20


_FREE_ENTRIES = 100_000
_FREE_BYTES = 16 << 20
_UNTYPED_RATIO = 64


def check_entries(count: int, packed_bytes: int, *, path: str) -> None:
    """Refuse more actions or files than so few bytes can tell apart: each names a path of its own, and that takes bytes.

    A few bytes that inflate to millions of equal entries are made to use up the memory of whoever reads them.
    """
    if count > _FREE_ENTRIES + packed_bytes:
        message = f"{path} has {packed_bytes} bytes and claims {count} entries, which cannot all be different."
        raise BadFileError(message, path=path, entries=count, packed_bytes=packed_bytes)


def check_untyped(plain_bytes: int, packed_bytes: int, *, path: str) -> None:
    """Refuse more JSON of no known shape than was packed with it: as objects it takes twenty times its length."""
    if plain_bytes > _FREE_BYTES + _UNTYPED_RATIO * packed_bytes:
        message = f"{path} has {packed_bytes} bytes, of which {plain_bytes} come that no reader of the log knows."
        raise BadFileError(message, path=path, plain_bytes=plain_bytes, packed_bytes=packed_bytes)


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

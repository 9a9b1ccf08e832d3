"""The seal: a checksum over everything from the footer start to the end of the file, kept inside that very stretch.

It is an entry of the Parquet key-value metadata with a value of fixed width (`footer start`, `crc32`, as hex digits).
The value is written as zeros, and filled in when the file is complete: lengths stay as they are, so the file stays a
valid Parquet file. With it one read proves the Parquet metadata, the section table and the hot section at once.
"""

from __future__ import annotations

import zlib
from pathlib import Path

from indextables.errors import BadFileError

SEAL_KEY = "indextables.seal"
SEAL_WIDTH = 24
PLACEHOLDER = "0" * SEAL_WIDTH
FIRST_READ_BYTES = 64 << 10
"""What a reader that does not know the footer start fetches first."""
MIN_TAIL_BYTES = len(SEAL_KEY) + SEAL_WIDTH + 12


def seal_file(path: Path, footer_start: int) -> None:
    """Fill in the seal of a finished file."""
    with path.open("r+b") as f:
        f.seek(footer_start)
        tail = f.read()
        at = _find(tail, str(path))
        if tail[at : at + SEAL_WIDTH] != PLACEHOLDER.encode():
            raise BadFileError(f"The file {path} is sealed already.", path=str(path))
        f.seek(footer_start + at)
        f.write(f"{footer_start:016x}{zlib.crc32(tail):08x}".encode())


def sealed_start(tail: bytes, path: str) -> int:
    """The footer start that a file's last bytes name. Nothing is proven yet."""
    return _read(tail, _find(tail, path), path)[0]


def check_seal(tail: bytes, *, footer_start: int, path: str) -> None:
    """Prove the bytes from the footer start to the end of the file, or raise `BadFileError`."""
    at = _find(tail, path)
    start, crc = _read(tail, at, path)
    blank = b"".join((tail[:at], PLACEHOLDER.encode(), tail[at + SEAL_WIDTH :]))
    if start != footer_start or zlib.crc32(blank) != crc:
        raise _bad(path, footer_start, len(tail), "its checksum does not match")


def _find(tail: bytes, path: str) -> int:
    """Where the seal's value starts: after the key, which is followed by a field header and a length."""
    key = tail.rfind(SEAL_KEY.encode())
    at = key + len(SEAL_KEY) + 2
    if key < 0 or tail[at - 1] != SEAL_WIDTH or at + SEAL_WIDTH > len(tail) or tail[-4:] != b"PAR1":
        raise _bad(path, 0, len(tail), "no seal was found")
    return at


def _read(tail: bytes, at: int, path: str) -> tuple[int, int]:
    value = tail[at : at + SEAL_WIDTH]
    try:
        if value != value.lower() or b"_" in value or b"+" in value:
            raise ValueError(value)
        return int(value[:16], 16), int(value[16:], 16)
    except ValueError as e:
        raise _bad(path, 0, len(tail), "its seal is garbled") from e


def _bad(path: str, start: int, length: int, why: str) -> BadFileError:
    message = f"The end of the split {path} (bytes {start} to {start + length}) is damaged: {why}."
    return BadFileError(message, path=path, start=start, length=length)

"""Checksum of a split's footer: written when the file is complete, verified by every reader.

It covers everything from the footer start to the end of the file, and is stored inside that range:
an entry of the Parquet key-value metadata (`indextables.seal`) with a value of fixed width (`footer
start`, `crc32`, as hex digits). The value is written as zeros and replaced when the file is
complete. Lengths do not change, so the file stays a valid Parquet file. One read then verifies the
Parquet metadata, the section table and the hot section.
"""

from __future__ import annotations

import zlib
from pathlib import Path

from indextables.errors import BadFileError

FOOTER_CHECKSUM_KEY = "indextables.seal"
FOOTER_CHECKSUM_WIDTH = 24
PLACEHOLDER = "0" * FOOTER_CHECKSUM_WIDTH
MIN_FOOTER_BYTES = len(FOOTER_CHECKSUM_KEY) + FOOTER_CHECKSUM_WIDTH + 12


def write_footer_checksum(path: Path, footer_start: int) -> None:
    """Write the checksum of a finished file's footer."""
    with path.open("r+b") as f:
        f.seek(footer_start)
        footer = f.read()
        at = _find(footer, str(path))
        if footer[at : at + FOOTER_CHECKSUM_WIDTH] != PLACEHOLDER.encode():
            raise BadFileError(f"The file {path} is sealed already.", path=str(path))
        f.seek(footer_start + at)
        f.write(f"{footer_start:016x}{zlib.crc32(footer):08x}".encode())


def footer_start_of(footer: bytes, path: str) -> int:
    """Return the footer start named in a file's last bytes. It is not verified yet."""
    return _checksum_entry(footer, _find(footer, path), path)[0]


def check_footer(footer: bytes, *, footer_start: int, path: str) -> None:
    """Verify the bytes from the footer start to the end of the file. Raises `BadFileError`."""
    at = _find(footer, path)
    start, crc = _checksum_entry(footer, at, path)
    blank = b"".join((footer[:at], PLACEHOLDER.encode(), footer[at + FOOTER_CHECKSUM_WIDTH :]))
    if start != footer_start or zlib.crc32(blank) != crc:
        raise _bad(path, footer_start, len(footer), "its checksum does not match")


def _find(footer: bytes, path: str) -> int:
    """Return the position of the checksum's value, which follows the key, a field header and a
    length.
    """
    key = footer.rfind(FOOTER_CHECKSUM_KEY.encode())
    at = key + len(FOOTER_CHECKSUM_KEY) + 2
    if (
        key < 0
        or footer[at - 1] != FOOTER_CHECKSUM_WIDTH
        or at + FOOTER_CHECKSUM_WIDTH > len(footer)
        or footer[-4:] != b"PAR1"
    ):
        raise _bad(path, 0, len(footer), "no seal was found")
    return at


def _checksum_entry(footer: bytes, at: int, path: str) -> tuple[int, int]:
    value = footer[at : at + FOOTER_CHECKSUM_WIDTH]
    try:
        if value != value.lower() or b"_" in value or b"+" in value:
            raise ValueError(value)
        return int(value[:16], 16), int(value[16:], 16)
    except ValueError as e:
        raise _bad(path, 0, len(footer), "its seal is garbled") from e


def _bad(path: str, start: int, length: int, why: str) -> BadFileError:
    message = f"The end of the split {path} (bytes {start} to {start + length}) is damaged: {why}."
    return BadFileError(message, path=path, start=start, length=length)

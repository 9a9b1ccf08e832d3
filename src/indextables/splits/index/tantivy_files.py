"""Tantivy file formats that splits depend on: footers, composite files, row columns, stores and
bitsets.

A tantivy file ends in a footer (version and checksum as JSON, its length, a magic number). A
composite file holds the data of every field, then a directory of offsets, then that footer. Invalid
content raises `BadFileError`.

Errors of tantivy and of the local disk are converted to our errors. A panic in its Rust code
arrives as a BaseException.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import struct
import tempfile
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from operator import le
from pathlib import Path
from types import TracebackType

import numpy as np
import numpy.typing as npt
import tantivy
from msgspec import Struct

from indextables.errors import BadFileError, IndexTablesError, StorageError

INDEX_FORMAT = 7
TANTIVY_VERSION = tantivy.__version__.partition(",")[0].removeprefix("tantivy v")
COMPOSITE = ("term", "idx", "pos", "fieldnorm")
COMPONENTS = (*COMPOSITE, "fast", "store")
_MAGIC = 1337
_MAX_FIELDS = 100_000
_FIELD_NUMBER = struct.Struct("<I").unpack_from
_STORE_FOOTER = struct.Struct("<IQB15x")
Mask = npt.NDArray[np.bool_]


class FieldSpan(Struct, frozen=True, gc=False):
    """The range of one field's data in a composite file."""

    field_id: int
    start: int
    end: int


def footer_length(data: bytes | memoryview, name: str) -> int:
    """Return the length of the footer of a tantivy file."""
    if len(data) >= 8:
        length, magic = struct.unpack("<II", data[-8:])
        if magic == _MAGIC and length + 8 <= len(data):
            return int(length) + 8
    raise BadFileError(f"The index file {name} does not end in a tantivy footer.", path=name)


def with_footer(body: bytes) -> bytes:
    """Append the footer that tantivy expects to a body."""
    return body + _footer(zlib.crc32(body))


def _footer(crc: int) -> bytes:
    major, minor, patch = (int(part) for part in TANTIVY_VERSION.split(".")[:3])
    number = {"major": major, "minor": minor, "patch": patch, "index_format_version": INDEX_FORMAT}
    text = json.dumps({"version": number, "crc": crc}, separators=(",", ":")).encode()
    return text + struct.pack("<II", len(text), _MAGIC)


def composite_spans(end: bytes | memoryview, length: int, name: str) -> tuple[int, list[FieldSpan]]:
    """Return the start of a composite file's directory and the span of every field before it, in
    file order.

    `end` is the end of the file, at least its directory.
    """
    start, fields, starts = _composite_directory(end, length, name)
    return start, _join_spans(list(zip(fields, starts, strict=True)), start, name)


def composite_places(data: bytes | memoryview, name: str) -> dict[int, tuple[int, int]]:
    """Return the position of each field in a composite file by field number."""
    start, fields, starts = _composite_directory(data, len(data), name)
    stops = [*starts[1:], start]
    places = dict(zip(fields, zip(starts, stops, strict=False), strict=False))
    if len(places) == len(fields) and fields and not starts[0] and all(map(le, starts, stops)):
        return places
    spans = _join_spans(list(zip(fields, starts, strict=True)), start, name)
    return {span.field_id: (span.start, span.end) for span in spans}


def _composite_directory(
    end: bytes | memoryview, length: int, name: str
) -> tuple[int, list[int], list[int]]:
    """Return the start of the directory of a composite file, and field number and start of each
    entry.
    """
    stop = len(end) - footer_length(end, name)
    try:
        (size,) = struct.unpack("<I", end[stop - 4 : stop])
        start = length - len(end) + stop - 4 - size
        directory = bytes(end[stop - 4 - size : stop - 4])
        count, at = _vint(directory, 0)
        if stop - 4 < size or count > _MAX_FIELDS:
            raise ValueError("impossible directory")
        fields, starts, offset = list[int](), list[int](), 0
        for _ in range(count):  # a number of one byte, as most are, takes no call
            step, at = (
                (directory[at] & 127, at + 1) if directory[at] & 128 else _vint(directory, at)
            )
            offset += step
            fields += _FIELD_NUMBER(directory, at)
            starts.append(offset)
            if directory[at + 4] & 128:
                at = at + 5
            else:
                at = _vint(directory, at + 4)[1]
    except (struct.error, IndexError, ValueError) as e:
        raise BadFileError(f"The index file {name} has a garbled directory.", path=name) from e
    return start, fields, starts


def empty_store(rows: int) -> tuple[bytes, bytes]:
    """Return a `.store` file of documents without stored fields in one block: the block and what
    follows it.
    """
    offsets = np.arange(rows + 1, dtype="<u4")
    block = b"\x80" * rows + offsets.tobytes()
    checkpoint = _to_vint(1) + _to_vint(0) + _to_vint(0) + _to_vint(rows) + _to_vint(len(block))
    index = _to_vint(1) + _to_vint(len(checkpoint)) + checkpoint
    end = index + _STORE_FOOTER.pack(2, len(block), 0)
    return block, end + _footer(zlib.crc32(end, zlib.crc32(block)))


def check_store(index: bytes, length: int, name: str) -> None:
    """Refuse a `.store` whose list of layers has an impossible length, because tantivy allocates
    memory for it first.

    `index` is the beginning of the list, `length` its length with everything that follows.
    """
    try:
        count, _ = _vint(index, 0)
    except (IndexError, ValueError) as e:
        raise BadFileError(f"The index file {name} has a garbled list of blocks.", path=name) from e
    if count > length:
        raise BadFileError(
            f"The index file {name} claims {count} layers in {length} bytes.", path=name
        )


def store_index(data: bytes, name: str) -> int:
    """Return the start of the block list of a `.store` from the file's last bytes."""
    stop = len(data) - footer_length(data, name)
    if stop < _STORE_FOOTER.size:
        raise BadFileError(f"The index file {name} is cut short.", path=name)
    return int(_STORE_FOOTER.unpack(data[stop - _STORE_FOOTER.size : stop])[1])


def row_column(rows: int, base: int) -> bytes:
    """Return a `.fast` file whose only column `_row` counts up from `base`; its size does not
    depend on the row count.
    """
    line = _to_vint(1 << 32) + _to_vint(base) + b"\x00"
    column = (
        b"\x00\x01"
        + _to_vint(base)
        + _to_vint(1)
        + _to_vint(max(rows - 1, 0))
        + _to_vint(rows)
        + line
    )
    column += struct.pack("<I", 1)
    entry = b"\x00\x02\x00" + bytes([len(column)]) + b"\x60_row\x00\x01"
    block = struct.pack("<I", len(entry)) + entry + struct.pack("<I", 0)
    dictionary = block + struct.pack("<QQQI", 0, len(block), 1, 3)
    return with_footer(
        column + dictionary + struct.pack("<QII", len(dictionary), rows, 2) + b"\x02qwB"
    )


def alive_bitset(alive: Mask) -> bytes:
    """Return a `.del` file: one bit per document, set for living documents."""
    words = np.zeros((len(alive) + 63) // 64 * 8, np.uint8)
    packed = np.packbits(alive, bitorder="little")
    words[: len(packed)] = packed
    return with_footer(struct.pack("<I", len(alive)) + words.tobytes())


def _join_spans(places: Sequence[tuple[int, int]], end: int, name: str) -> list[FieldSpan]:
    """Join adjacent ranges of one field. Together they must cover everything up to the directory."""
    spans: list[FieldSpan] = []
    for number, (field_id, start) in enumerate(places):
        if number + 1 < len(places):
            stop = places[number + 1][1]
        else:
            stop = end
        if stop < start:
            raise BadFileError(f"The index file {name} has a garbled directory.", path=name)
        if spans and spans[-1].field_id == field_id:
            spans[-1] = FieldSpan(field_id, spans[-1].start, stop)
        else:
            spans.append(FieldSpan(field_id, start, stop))
    if (places[0][1] if places else end) != 0 or len({s.field_id for s in spans}) != len(spans):
        raise BadFileError(f"The index file {name} has fields out of place.", path=name)
    return spans


def _vint(data: bytes | memoryview, at: int) -> tuple[int, int]:
    """Encode a number in 7-bit groups, lowest first; the last byte has the high bit set."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte & 128:
            return value, at
        shift += 7
        if shift > 63:
            raise ValueError("number too long")


def _to_vint(value: int) -> bytes:
    out = bytearray()
    while value >= 128:
        out.append(value & 127)
        value >>= 7
    out.append(value | 128)
    return bytes(out)


def is_panic(error: BaseException) -> bool:
    """Return whether an exception is a Rust panic, whose class cannot be imported."""
    return type(error).__name__ == "PanicException"


@contextmanager
def writing_errors(folder: str, doing: str) -> Iterator[None]:
    """Convert failures to write local files to `StorageError` with the folder and its setting."""
    try:
        yield
    except IndexTablesError:
        raise
    except (ValueError, OSError, SystemError) as e:
        raise _cannot_write(folder, doing, e) from e
    except BaseException as e:
        if not is_panic(e):
            raise
        raise _cannot_write(folder, doing, e) from None


def scratch_folder(purpose: str, directory: str | None) -> Path:
    """Create a folder for unfinished files, in `indexWriter.tempDirectoryPath` if it is set."""
    if directory and not Path(directory).is_dir():
        if Path(directory).exists():
            is_absent = "is not a folder"
        else:
            is_absent = "does not exist"
        raise StorageError(
            f"The folder {directory!r} for unfinished files {is_absent}.",
            hint="Make the folder, or set indexWriter.tempDirectoryPath to another one. Nothing was changed.",
            path=directory,
        )
    with writing_errors(directory or tempfile.gettempdir(), "Making a folder for unfinished files"):
        return Path(tempfile.mkdtemp(prefix=f"indextables-{purpose}-", dir=directory or None))


MEMORY = Path("/dev/shm")
_MEMORY_PREFIX = "indextables-small-"
_MIN_FREE_BYTES = 256 << 20
_STALE_SECONDS = 60


class MemoryFolder:
    """A folder for the unfinished files of a small split, in memory: tantivy syncs its writes, and
    a disk would delay them.

    The process holds a lock on the folder. The next process that makes one removes the folders of
    killed processes, whose locks are free.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        fcntl.flock(self._lock, fcntl.LOCK_EX)

    @classmethod
    def make(cls) -> MemoryFolder | None:
        """Create a folder, or return None where memory is scarce or no file system is in it."""
        try:
            system = os.statvfs(MEMORY)
            if system.f_bavail * system.f_frsize < _MIN_FREE_BYTES:
                return None
            _remove_stale_folders()
            return cls(Path(tempfile.mkdtemp(prefix=_MEMORY_PREFIX, dir=MEMORY)))
        except OSError:
            return None

    def remove(self) -> None:
        """Remove the folder and everything in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


@cache
def _remove_stale_folders() -> None:
    for path in MEMORY.glob(f"{_MEMORY_PREFIX}*"):
        with suppress(OSError):
            if time.time() - path.stat().st_mtime < _STALE_SECONDS:
                continue  # it may be about to be locked
            folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path, ignore_errors=True)
            finally:
                os.close(folder)


def _cannot_write(folder: str, doing: str, error: BaseException) -> StorageError:
    hint = "Free some space, or set indexWriter.tempDirectoryPath to another disk."
    return StorageError(f"{doing} failed in the folder {folder}: {error}.", hint=hint, path=folder)


_FAILURES = (
    ValueError,
    TypeError,
    OSError,
    LookupError,
    SystemError,
    OverflowError,
    RecursionError,
)


class TantivyErrors:
    """Convert panics and errors of tantivy to `BadFileError` with the split and the operation.

    A class, because a search enters it several times and a generator takes five calls where this
    takes three.
    """

    def __init__(self, path: str, doing: str) -> None:
        self._path = path
        self._doing = doing

    def __enter__(self) -> None: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None or isinstance(error, IndexTablesError):
            return
        failed = BadFileError(
            f"{self._doing} failed in the index of {self._path}: {error}.", path=self._path
        )
        if isinstance(error, _FAILURES):
            raise failed from error
        if is_panic(error):
            raise failed from None

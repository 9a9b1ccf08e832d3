"""The file format of other engines' splits (IndexTables on the JVM, Quickwit): tantivy's files one after another.

    files · (u32 magic, u32 version, JSON {"files": {name: {start, end}}}) · u32 its length · hotcache · u32 its length

Files are proven by the checksums in their own footers, as far as they are read; `meta.json` by its copy in the
hotcache.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from indextables.errors import BadFileError, UnsupportedError
from indextables.splits.source import SplitSource
from indextables.splits.tantivy_files import check_store, footer_length, store_index

_MAGIC = 403_881_646
_VERSION = 1
_END_BYTES = 1 << 20
_PIECE_BYTES = 8 << 20
_ENDS_ONLY = ("idx", "pos", "term", "fieldnorm")
"""Of these only the end is fetched: nothing but rows is read from a foreign split."""


class BundledFile(msgspec.Struct, frozen=True):
    """Where a file lies in the bundle."""

    start: int
    end: int


class _Files(msgspec.Struct, frozen=True):
    files: dict[str, BundledFile]


# Made once, at import: msgspec crashes if two threads are the first to look into a type.
_FILES = msgspec.json.Decoder(_Files)


class Bundle(Struct, frozen=True):
    """What is where in a bundle."""

    files: Mapping[str, BundledFile]
    hotcache: BundledFile


def is_bundle(end: bytes) -> bool:
    """Whether the last bytes of a file are not those of a split of ours (which end like every Parquet file)."""
    return len(end) >= 8 and end[-4:] != b"PAR1"


def read_directory(source: SplitSource) -> Bundle:
    """The files of a bundle by name, and its hotcache."""
    hot = _length_before(source, source.size)
    stop = source.size - 4 - hot
    size = _length_before(source, stop)
    (data,) = source.read_many([(stop - 4 - size, size)]) if size >= 8 else (b"",)
    if len(data) < 8:
        raise _bad(source.path, 0, source.size, "it is neither a split of ours nor a bundle of tantivy files")
    magic, version = struct.unpack("<II", data[:8])
    if magic != _MAGIC:
        raise _bad(source.path, stop - 4 - size, size, "it is neither a split of ours nor a bundle of tantivy files")
    if version != _VERSION:
        raise UnsupportedError(f"The bundle {source.path} has version {version}; this release reads {_VERSION}.")
    try:
        files = _FILES.decode(data[8:]).files
    except msgspec.DecodeError as e:
        raise _bad(source.path, stop - 4 - size, size, f"its directory is garbled ({e})") from e
    for name, file in files.items():
        if not 0 <= file.start <= file.end <= stop or "/" in name or name in ("", ".", ".."):
            raise _bad(source.path, file.start, file.end - file.start, f"its directory is wrong about {name!r}")
    return Bundle(files, BundledFile(stop, stop + hot))


def unbundle(source: SplitSource, bundle: Bundle, folder: Path) -> None:
    """What reading rows needs, as files in a folder: whole ones proven by their checksums, of others the ends."""
    for name, file in bundle.files.items():
        if name.startswith(".") or name == "split_fields":
            continue
        length = file.end - file.start
        ends_only = name.rpartition(".")[2] in _ENDS_ONLY
        begin = max(0, length - _END_BYTES) if ends_only else 0
        with (folder / name).open("wb") as out:
            out.truncate(length)
            out.seek(begin)
            for at in range(begin, length, _PIECE_BYTES):
                (data,) = source.read_many([(file.start + at, min(_PIECE_BYTES, length - at))])
                out.write(data)
        if name == "meta.json":
            _check_meta((folder / name).read_bytes(), source, file, bundle.hotcache)
        elif begin == 0:
            _check_file(folder / name, source.path, file)


def _check_meta(meta: bytes, source: SplitSource, file: BundledFile, hotcache: BundledFile) -> None:
    """Prove `meta.json`, which has no checksum, by its copy."""
    (hot,) = source.read_many([(hotcache.start, hotcache.end - hotcache.start)])
    if hot and meta not in hot:
        raise _bad(source.path, file.start, len(meta), "meta.json differs from its copy in the hotcache")


def _check_file(path: Path, split: str, file: BundledFile) -> None:
    """Prove a tantivy file by the checksum in its footer."""
    length = path.stat().st_size
    with path.open("rb") as f:
        f.seek(max(0, length - 4096))
        end = f.read()
        footer = footer_length(end, path.name)
        f.seek(0)
        crc, left = 0, length - footer
        while left:
            data = f.read(min(_PIECE_BYTES, left))
            crc = zlib.crc32(data, crc)
            left -= len(data)
    try:
        expected = json.loads(end[-footer:-8])["crc"]
    except (ValueError, KeyError, TypeError) as e:
        raise _bad(split, file.start, length, f"the footer of {path.name} is garbled") from e
    if crc != expected:
        raise _bad(split, file.start, length, f"the checksum of {path.name} differs")
    if path.name.endswith(".store"):
        start = store_index(end, path.name)
        with path.open("rb") as f:
            f.seek(min(start, length))
            check_store(f.read(16), length - start, path.name)


def _length_before(source: SplitSource, end: int) -> int:
    """The u32 that ends at a place, which must leave room for what it measures."""
    if end >= 4:
        (data,) = source.read_many([(end - 4, 4)])
        (length,) = struct.unpack("<I", data)
        if length <= end - 4:
            return int(length)
    raise _bad(source.path, max(0, end - 4), 4, "it is neither a split of ours nor a bundle of tantivy files")


def _bad(path: str, start: int, length: int, why: str) -> BadFileError:
    message = f"The split {path} (bytes {start} to {start + length}) cannot be read: {why}."
    return BadFileError(message, path=path, start=start, length=length)

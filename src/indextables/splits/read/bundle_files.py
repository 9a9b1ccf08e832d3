"""Read bundles, the splits of other engines (IndexTables for the JVM, Quickwit), and their terms,
without tantivy.

Their term dictionary is a sorted string table, which tantivy-py cannot open: blocks of terms, each
written as the difference to the previous one, after the positions of their postings. Postings are
document numbers in blocks of 128, bit-packed as gaps, followed by a remainder of single numbers.
Both are formats of tantivy (`sstable/README.md` and `postings` of its sources). A bundle is a
concatenation of tantivy's files:

    files · (u32 magic, u32 version, JSON {"files": {name: {start, end}}}) · u32 its length ·
        hotcache · u32 its length

Files are verified by the checksums in their footers as far as they are read; `meta.json` by its
copy in the hotcache. An unknown format raises `UnknownFormError`, and the caller uses tantivy
instead, which is slower.
"""

from __future__ import annotations

import struct
import sys
import zlib
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from itertools import accumulate
from operator import lt
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from msgspec import Struct

from indextables.errors import BadFileError, UnsupportedError
from indextables.splits.format.source import SplitSource
from indextables.splits.index.tantivy_files import (
    check_store,
    composite_places,
    footer_length,
    store_index,
)
from indextables.splits.read.searchable import Mask, Rows

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

Data = bytes | memoryview
"""A file, or its range of the bundle."""
_MAGIC = 403_881_646
_VERSION = 1
_END_BYTES = 1 << 20
_PIECE_BYTES = 8 << 20
WHOLE_BYTES = 256 << 10
_ENDS_ONLY = ("idx", "pos", "term", "fieldnorm")
"""Files of which only the end is read: a foreign split is only read for its rows."""


class BundledFile(msgspec.Struct, frozen=True, gc=False):
    """The range of a file in the bundle."""

    start: int
    end: int


class _Files(msgspec.Struct, frozen=True):
    files: dict[str, BundledFile]


# Made once, at import: msgspec crashes if two threads are the first to look into a type.
_FILES = msgspec.json.Decoder(_Files)


class _Checksum(msgspec.Struct, frozen=True):
    crc: int


_CHECKSUM = msgspec.json.Decoder(_Checksum)


class Bundle(Struct, frozen=True):
    """The positions of the parts of a bundle."""

    files: Mapping[str, BundledFile]
    hotcache: BundledFile


def is_bundle(end: bytes) -> bool:
    """Return whether a file's last bytes are not those of one of our splits, which end like every
    Parquet file.
    """
    return len(end) >= 8 and end[-4:] != b"PAR1"


def read_directory(source: SplitSource) -> Bundle:
    """Return the files of a bundle by name, and its hotcache."""
    hot = _length_before(source, source.size)
    stop = source.size - 4 - hot
    size = _length_before(source, stop)
    (data,) = source.read_many([(stop - 4 - size, size)]) if size >= 8 else (b"",)
    if len(data) < 8:
        raise bad_bundle(
            source.path,
            0,
            source.size,
            "it is neither a split of ours nor a bundle of tantivy files",
        )
    magic, version = struct.unpack("<II", data[:8])
    if magic != _MAGIC:
        raise bad_bundle(
            source.path,
            stop - 4 - size,
            size,
            "it is neither a split of ours nor a bundle of tantivy files",
        )
    if version != _VERSION:
        raise UnsupportedError(
            f"The bundle {source.path} has version {version}; this release reads {_VERSION}."
        )
    try:
        files = _FILES.decode(data[8:]).files
    except msgspec.DecodeError as e:
        raise bad_bundle(
            source.path, stop - 4 - size, size, f"its directory is garbled ({e})"
        ) from e
    for name, file in files.items():
        if not 0 <= file.start <= file.end <= stop or "/" in name or name in ("", ".", ".."):
            raise bad_bundle(
                source.path,
                file.start,
                file.end - file.start,
                f"its directory is wrong about {name!r}",
            )
    return Bundle(files, BundledFile(stop, stop + hot))


def unbundle(source: SplitSource, bundle: Bundle, folder: Path) -> None:
    """Extract the files that reading rows needs into a folder: complete ones with verified
    checksums, of others the ends.
    """
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


def proven_meta(source: SplitSource, bundle: Bundle) -> bytes:
    """Return the `meta.json` of a bundle, verified by its copy because it has no checksum."""
    file = bundle.files.get("meta.json")
    if file is None:
        raise bad_bundle(source.path, 0, source.size, "it has no meta.json")
    (meta,) = source.read_many([(file.start, file.end - file.start)])
    _check_meta(meta, source, file, bundle.hotcache)
    return meta


def _check_meta(meta: bytes, source: SplitSource, file: BundledFile, hotcache: BundledFile) -> None:
    """Verify `meta.json` by its copy, because it has no checksum."""
    (hot,) = source.read_many([(hotcache.start, hotcache.end - hotcache.start)])
    if hot and meta not in hot:
        raise bad_bundle(
            source.path, file.start, len(meta), "meta.json differs from its copy in the hotcache"
        )


def _check_file(path: Path, split: str, file: BundledFile) -> None:
    """Verify a tantivy file by the checksum in its footer."""
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
        expected = checksum(end[-footer:-8])
    except msgspec.DecodeError as e:
        raise bad_bundle(split, file.start, length, f"the footer of {path.name} is garbled") from e
    if crc != expected:
        raise bad_bundle(split, file.start, length, f"the checksum of {path.name} differs")
    if path.name.endswith(".store"):
        start = store_index(end, path.name)
        with path.open("rb") as f:
            f.seek(min(start, length))
            check_store(f.read(16), length - start, path.name)


def checksum(footer: Data) -> int:
    """Return the checksum in the footer of a tantivy file. A garbled footer raises
    `msgspec.DecodeError`.
    """
    return _CHECKSUM.decode(footer).crc


def _length_before(source: SplitSource, end: int) -> int:
    """Return the u32 length that ends at a position, and check that it fits in front of it."""
    if end >= 4:
        (data,) = source.read_many([(end - 4, 4)])
        (length,) = struct.unpack("<I", data)
        if length <= end - 4:
            return int(length)
    raise bad_bundle(
        source.path,
        max(0, end - 4),
        4,
        "it is neither a split of ours nor a bundle of tantivy files",
    )


def bad_bundle(path: str, start: int, length: int, why: str) -> BadFileError:
    """Return the error for a damaged range of a bundle."""
    message = f"The split {path} (bytes {start} to {start + length}) cannot be read: {why}."
    return BadFileError(message, path=path, start=start, length=length)


class _WholeSource:
    """A small split that was read completely."""

    def __init__(self, source: SplitSource) -> None:
        self.path, self.size, self.identity, self.remote = (
            source.path,
            source.size,
            source.identity,
            source.remote,
        )
        (self._data,) = source.read_many([(0, source.size)])
        self.stats = source.stats

    def span(self, start: int, end: int) -> memoryview:
        """Return a range of it without copying."""
        return memoryview(self._data)[start:end]

    def read_many(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        return [self._data[start : start + length] for start, length in ranges]


def whole_if_small(source: SplitSource) -> SplitSource:
    """Read a small split completely; its files are contiguous."""
    if source.size <= WHOLE_BYTES and not isinstance(source, _WholeSource):
        return _WholeSource(source)
    return source


class ProvenFiles:
    """The files of a bundle, each verified by its checksum when it is read."""

    def __init__(self, source: SplitSource, bundle: Bundle) -> None:
        self._source = source
        self._files = bundle.files

    def has(self, name: str) -> bool:
        """Return whether a file exists."""
        return name in self._files

    def proven(self, name: str) -> memoryview:
        """Return the content of a file."""
        file = self._files.get(name)
        if file is None:
            raise UnknownFormError(f"The bundle has no {name}.")
        data = self._read(file)
        footer = footer_length(data, name)
        try:
            expected = checksum(data[-footer:-8])
        except msgspec.DecodeError as e:
            raise bad_bundle(
                self._source.path, file.start, len(data), f"the footer of {name} is garbled"
            ) from e
        if zlib.crc32(data[:-footer]) != expected:
            raise bad_bundle(
                self._source.path, file.start, len(data), f"the checksum of {name} differs"
            )
        return data

    def _read(self, file: BundledFile) -> memoryview:
        """Return the bytes of a file, without copying if the bundle is in memory."""
        if isinstance(self._source, _WholeSource):
            return self._source.span(file.start, file.end)
        (data,) = self._source.read_many([(file.start, file.end - file.start)])
        return memoryview(data)


_SORTED_STRINGS = 2
"""The dictionary type that the other engine writes (1 is tantivy-py's)."""
_RANDOM_ORDER = 1 << 31
_BLOCK = 128
_LARGEST_BLOCK = 1 << 28
"""Maximum unpacked size of a block of terms. The other engine writes 4 KB; a term has at most 64
KB.
"""
_SKIP_BYTES = {"basic": 5, "freq": 8, "position": 12}
_SIGN = 1 << 63
TERM_NUMBERS = 1 << 64
"""Length of numeric terms in bytes."""
_ALL_AT_ONCE = 16
"""Decoding the postings of all terms at once takes as long as decoding this share of them one by
one.
"""
_LAST_BYTES = bytes(range(128, 256))
"""The bytes that end a number."""
_SEVEN_BITS = bytes(byte & 127 for byte in range(256))


class UnknownFormError(Exception):
    """A file of a bundle has an unknown format that tantivy may support. Never leaves the reader of
    the bundle.
    """


class TermPlace(Struct, frozen=True, gc=False):
    """The position of a term's postings."""

    documents: int
    start: int
    end: int


class TermPlaces(Struct, frozen=True):
    """The positions of the postings of consecutive terms."""

    documents: list[int]
    bounds: list[int]
    """Start of each term's postings, followed by the end of the last."""

    def __getitem__(self, number: int) -> TermPlace:
        return TermPlace(self.documents[number], self.bounds[number], self.bounds[number + 1])


class FieldTerms:
    """The terms of one field of one segment in order, with the documents of each."""

    def __init__(self, dictionary: Data, postings: Callable[[], Data], record: str) -> None:
        self._dictionary = dictionary
        self._read_postings = postings
        self._record = record
        self._values: dict[str, pa.Array] = {}

    def place(self, term: bytes) -> TermPlace | None:
        """Return the position of a term's postings, or None if the term is missing."""
        terms, places = self._terms
        number = terms.get(term)
        if number is None:
            return None
        return places[number]

    def values(self, kind: str) -> pa.Array:
        """Return the terms as values of a field of a kind."""
        if kind not in self._values:
            self._values[kind] = term_values(list(self._terms[0]), kind)
        return self._values[kind]

    def rows(self, place: TermPlace) -> Rows:
        """Return the documents that contain a term, ascending."""
        data = bytes(self._postings[place.start : place.end])
        try:
            found = _document_numbers(data, place.documents, self._record)
        except (struct.error, IndexError, ValueError) as e:
            raise UnknownFormError(f"Postings cannot be read: {e}.") from e
        if len(found) != place.documents:
            raise UnknownFormError("Postings cannot be read: they end too early.")
        return found

    def rows_of(self, chosen: Mask) -> Rows:
        """Return the documents that contain one of the terms with the given numbers, in no order."""
        numbers = np.flatnonzero(chosen)
        if len(numbers) * _ALL_AT_ONCE < len(chosen):  # of few among many, only theirs are read
            places = self._terms[1]
            return np.concatenate(
                [np.empty(0, np.int64), *(self.rows(places[number]) for number in numbers.tolist())]
            )
        rows, terms = self.all_rows()
        return rows[chosen[terms]]

    def all_rows(self) -> tuple[Rows, Rows]:
        """Return the documents of all terms, term by term, and the term number of each."""
        places = self._terms[1]
        count = len(places.documents)
        return self._rows_at(places, 0, count), np.repeat(np.arange(count), places.documents)

    def number_bounds(self) -> tuple[int, int] | None:
        """Return the first and last numeric term as unsigned integers, or None if there are none."""
        terms = self._numbers[0]
        if terms:
            return (int.from_bytes(terms[0], "big"), int.from_bytes(terms[-1], "big"))
        return None

    def rows_between(self, low: int, high: int) -> Rows:
        """Return the documents of numeric terms from `low` up to but excluding `high`, in no order."""
        terms, places = self._numbers
        first, last = (
            bisect_left(terms, n.to_bytes(8, "big")) if n < TERM_NUMBERS else len(terms)
            for n in (low, high)
        )
        return self._rows_at(places, first, last)

    def _rows_at(self, places: TermPlaces, first: int, last: int) -> Rows:
        """Return the documents of consecutive terms, term by term."""
        if last - first > 1 and self._record == "basic":
            counts = np.array(places.documents[first:last], np.int64)
            ends = counts.cumsum()
            if counts.min() > 0 and counts.max() < _BLOCK:
                gaps = _stop_numbers(self._postings[places.bounds[first] : places.bounds[last]])
                if len(gaps) == ends[-1]:
                    sums = gaps.cumsum()
                    return sums - (sums - gaps)[ends - counts].repeat(counts)
        found = [self.rows(places[number]) for number in range(first, last)]
        if len(found) == 1:
            return found[0]
        return np.concatenate([np.empty(0, np.int64), *found])

    @cached_property
    def _terms(self) -> tuple[dict[bytes, int], TermPlaces]:
        """Yield every term and its number."""
        terms, places = self._decode()
        numbers = {term: number for number, term in enumerate(terms)}
        if len(numbers) != len(terms):
            raise UnknownFormError("A term dictionary has a term twice.")
        return numbers, places

    @cached_property
    def _numbers(self) -> tuple[list[bytes], TermPlaces]:
        """Return every term as a number if all are numbers of 8 bytes, whose order is numeric."""
        terms, places = self._decode()
        if {*map(len, terms)} - {8}:
            raise UnknownFormError("A term that should be a number is not 8 bytes long.")
        if not all(map(lt, terms, terms[1:])):
            raise UnknownFormError("The terms are not in their order.")
        return terms, places

    def _decode(self) -> tuple[list[bytes], TermPlaces]:
        try:
            return _dictionary_terms(self._dictionary)
        except (struct.error, IndexError, ValueError, zstd.ZstdError) as e:
            raise UnknownFormError(f"A term dictionary cannot be read: {e}.") from e

    @cached_property
    def _postings(self) -> Data:
        return self._read_postings()


class SegmentTerms:
    """The terms of a segment's fields by field number; `records` describes the postings of each
    field.
    """

    def __init__(self, files: ProvenFiles, stem: str, records: Sequence[str]) -> None:
        self._records = records
        self._term_file = files.proven(f"{stem}.term")
        self._spans = composite_places(self._term_file, ".term")
        self._lists = _PostingLists(files, f"{stem}.idx")
        self._known: dict[int, FieldTerms] = {}
        if not files.has(f"{stem}.idx") or max(self._spans, default=-1) >= len(records):
            raise UnknownFormError("A term dictionary has no postings.")

    def of(self, field: int) -> FieldTerms | None:
        """Return the terms of a field, or None."""
        known = self._known.get(field)
        if known is None and field in self._spans:
            start, end = self._spans[field]
            known = FieldTerms(
                self._term_file[start:end], partial(self._lists.of, field), self._records[field]
            )
            self._known[field] = known
        return known


class _PostingLists:
    """The postings of a segment. They are read when a term is found, which most splits do not
    contain.
    """

    def __init__(self, files: ProvenFiles, name: str) -> None:
        self._files = files
        self._name = name

    def of(self, field: int) -> Data:
        """Return the postings of a field."""
        data, places = self._file
        if field not in places:
            raise UnknownFormError("A term dictionary has no postings.")
        start, end = places[field]
        return data[start + 8 : end]  # after the number of all tokens

    @cached_property
    def _file(self) -> tuple[Data, dict[int, tuple[int, int]]]:
        data = self._files.proven(self._name)
        return data, composite_places(data, ".idx")


def _dictionary_terms(data: Data) -> tuple[list[bytes], TermPlaces]:
    (kind,) = struct.unpack("<I", data[-4:])
    if kind != _SORTED_STRINGS:
        raise ValueError(f"its kind is {kind}")
    count, version = struct.unpack("<QI", data[-16:-4])
    if version not in (2, 3):
        raise ValueError(f"its version is {version}")
    at, terms, documents, bounds = 0, list[bytes](), list[int](), list[int]()
    while True:
        (length,) = struct.unpack_from("<I", data, at)
        if not length:
            break
        packed = data[at + 5 : at + 4 + length]
        if data[at + 4]:
            block = zstd.ZstdDecompressor().decompress(packed, max_length=_LARGEST_BLOCK)
        else:
            block = bytes(packed)
        _add_terms(terms, block, _add_places(documents, bounds, block))
        at += 4 + length
    if not len(documents) == len(terms) == count:
        raise ValueError(f"it has {len(terms)} terms, not {count}")
    return terms, TermPlaces(documents, bounds)


def _add_places(documents: list[int], bounds: list[int], block: bytes) -> int:
    """Append documents, byte range and positions of the postings of a block's terms. Returns where
    the terms begin.
    """
    count, at = stop_number(block, 0)
    if count & _RANDOM_ORDER:
        raise ValueError("its postings are in no order")
    start, at = stop_number(block, at)
    _, at = stop_number(block, at)  # where the positions start
    if bounds and bounds.pop() != start:
        raise ValueError("the postings of a block do not begin where those before it end")
    numbers = block[at : at + 3 * count]
    if len(numbers) == 3 * count and not numbers.translate(
        None, _LAST_BYTES
    ):  # each is one byte, as most are
        small = numbers.translate(_SEVEN_BITS)
        documents += small[::3]
        bounds += accumulate(small[1::3], initial=start)
        return at + 3 * count
    bounds.append(start)
    for _ in range(count):
        number, at = (block[at] & 127, at + 1) if block[at] & 128 else stop_number(block, at)
        length, at = (block[at] & 127, at + 1) if block[at] & 128 else stop_number(block, at)
        at = at + 1 if block[at] & 128 else stop_number(block, at)[1]
        start += length
        documents.append(number)
        bounds.append(start)
    return at


def _add_terms(terms: list[bytes], block: bytes, at: int) -> None:
    """Append the terms of a block: each has a prefix of the previous term and its own rest."""
    term, end = b"", len(block)
    while at < end:
        head = block[at]
        at += 1
        if head == 1:
            kept, at = _more_number(block, at)
            added, at = _more_number(block, at)
        else:
            kept, added = head & 15, head >> 4
        term = term[:kept] + block[at : at + added]
        at += added
        terms.append(term)
    if at != end:
        raise ValueError("a term ends behind its block")


def _document_numbers(data: bytes, count: int, record: str) -> Rows:
    if count < _BLOCK:
        return _rest(data, count, 0)
    length, at = stop_number(data, 0)
    skips, at = data[at : at + length], at + length
    step = _SKIP_BYTES[record]
    blocks, last = [], -1
    for number in range(count // _BLOCK):
        skip = skips[number * step : (number + 1) * step]
        bits, strict = skip[4] & 31, bool(skip[4] >> 6 & 1)
        gaps = _unpack(data[at : at + 16 * bits], bits)
        first = last if strict else max(last, 0)
        numbers = first + np.cumsum(gaps + strict)
        last = int(numbers[-1])
        if last != int.from_bytes(skip[:4], "little"):
            raise ValueError("a block of them does not end where it should")
        blocks.append(numbers)
        at += 16 * (bits + (skip[5] if step > 5 else 0))
    rest = _rest(data[at:], count % _BLOCK, last)
    return np.concatenate([*blocks, rest])


def _unpack(data: bytes, bits: int) -> Rows:
    """Unpack 128 numbers of the given bit width. They are distributed over four lanes of words."""
    if not bits:
        return np.zeros(_BLOCK, np.int64)
    words = np.frombuffer(data, "<u4").reshape(bits, 4)
    flat = np.unpackbits(
        words.T.copy().view(np.uint8).reshape(4, bits * 4), axis=1, bitorder="little"
    )
    weights = np.int64(1) << np.arange(bits, dtype=np.int64)
    numbers: Rows = (flat.reshape(4, 32, bits) @ weights).T.reshape(_BLOCK)
    return numbers


def _rest(data: bytes, count: int, last: int) -> Rows:
    """Decode numbers one by one as differences from the previous one."""
    gaps = data[:count]
    if not gaps.translate(None, _LAST_BYTES):  # each is one byte, as most are
        if len(gaps) < count:
            raise ValueError("they end too early")
        return np.array(list(accumulate(gaps.translate(_SEVEN_BITS), initial=last))[1:], np.int64)
    found = np.empty(count, np.int64)
    at = 0
    for number in range(count):
        gap, at = stop_number(data, at)
        last += gap
        found[number] = last
    return found


def _stop_numbers(data: Data) -> Rows:
    """Decode a range that contains nothing but numbers."""
    octets = np.frombuffer(data, np.uint8)
    numbers: Rows = (octets & 127).astype(np.int64)
    lasts = octets >= 128
    if lasts.all():
        return numbers
    starts = np.flatnonzero(np.concatenate([[True], lasts[:-1]]))
    shifts = np.arange(len(octets)) - np.repeat(starts, np.diff(starts, append=len(octets)))
    if shifts.max() > 8:
        raise UnknownFormError("Postings cannot be read: a number is too long.")
    return np.add.reduceat(numbers << 7 * shifts, starts)


def term_of(value: Any, kind: str) -> bytes | None:
    """Return the term of a value in a field of a kind, or None. Only kinds with one term per value
    are supported.
    """
    if kind == "text":
        return str(value).encode()
    number = int(value) + (_SIGN if kind == "i64" else 0)
    if 0 <= number < TERM_NUMBERS:
        return number.to_bytes(8, "big")
    return None


def term_number(value: int, kind: str) -> int:
    """Return a whole number as a term of a kind. Values out of range become the nearest possible
    one.
    """
    return min(max(value + (0 if kind == "u64" else _SIGN), 0), TERM_NUMBERS)


def term_values(terms: Sequence[bytes], kind: str) -> pa.Array:
    """Return the values of terms: numbers are integers of 8 bytes in the order of the values.

    Timestamps are nanoseconds, of which terms keep whole seconds.
    """
    if kind == "text":
        try:
            return pa.array([term.decode() for term in terms], pa.string())
        except UnicodeDecodeError as error:
            raise UnknownFormError(
                f"A term of a text field is not valid UTF-8: {error}."
            ) from error
    if {*map(len, terms)} - {8}:
        raise UnknownFormError(f"A term of a field of kind {kind} is not 8 bytes long.")
    numbers = np.frombuffer(b"".join(terms), ">u8").astype(np.uint64)
    sign = np.uint64(_SIGN)
    if kind in ("i64", "date"):
        return pa.array((numbers ^ sign).view(np.int64))
    if kind == "f64":
        return pa.array(np.where(numbers & sign, numbers ^ sign, ~numbers).view(np.float64))
    if kind == "bool":
        return pa.array(numbers != 0)
    return pa.array(numbers)


def stop_number(data: bytes, at: int) -> tuple[int, int]:
    """Encode a number in 7-bit groups, lowest first; the last byte has the high bit set."""
    byte = data[at]
    if byte & 128:
        return byte & 127, at + 1
    value = shift = 0
    while not byte & 128:
        value |= byte << shift
        shift += 7
        at += 1
        byte = data[at]
        if shift > 63:
            raise ValueError("number too long")
    return value | (byte & 127) << shift, at + 1


def _more_number(data: bytes, at: int) -> tuple[int, int]:
    """Decode a number of 7-bit groups whose high bit means that more follow."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if not byte & 128:
            return value, at
        shift += 7
        if shift > 63:
            raise ValueError("number too long")

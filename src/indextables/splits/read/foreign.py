"""Splits that another engine wrote: rows are read from the document store; there is no index that can be used.

Their term dictionary has another form than tantivy-py's, so a query is answered by scanning the rows with the same
analyzers. Merging rewrites such a split into one of ours.

The file format of other engines' splits (IndexTables on the JVM, Quickwit): tantivy's files one after another.

    files · (u32 magic, u32 version, JSON {"files": {name: {start, end}}}) · u32 its length · hotcache · u32 its length

Files are proven by the checksums in their own footers, as far as they are read; `meta.json` by its copy in the
hotcache.

Values of another engine's documents as Arrow arrays of the table's types.
"""

from __future__ import annotations

import base64
import datetime
import ipaddress
import json
import shutil
import struct
import weakref
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import tantivy
from msgspec import Struct

from indextables.errors import BadFileError, InvalidInputError, UnsupportedError
from indextables.model.column_ranges import ColumnRange
from indextables.model.predicate import Predicate
from indextables.splits.format.source import ReadStats, SplitSource
from indextables.splits.index.mapping import TOKENIZERS, WHOLE_TOKENIZERS, ColumnMapping, DocMapping, is_nested
from indextables.splits.index.segments import read_meta
from indextables.splits.index.tantivy_errors import scratch_folder, tantivy_errors
from indextables.splits.index.tantivy_files import check_store, footer_length, store_index
from indextables.splits.read.searchable import Mask, Rows, SearcherView

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


_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_ARRAY_KEY = "_values"
"""An array is stored as an object under this key, since tantivy's json fields hold objects only."""


def to_array(values: Sequence[Any], field: pa.Field, path: str) -> pa.Array:
    """A column of document values in the column's type."""
    try:
        return pa.array([_convert(v, field.type, nested=False) for v in values], field.type)
    except (pa.ArrowException, ValueError, TypeError, LookupError, AttributeError, ArithmeticError) as e:
        message = f"Column {field.name!r} of the split {path} does not fit the table's {field.type}: {e}."
        raise BadFileError(message, path=path, column=field.name) from e


def plain_address(value: Any) -> Any:
    """An address as people write it: the other engine stores `10.0.0.1` as `::ffff:10.0.0.1`."""
    if not isinstance(value, str):
        return value
    try:
        address = ipaddress.ip_address(value)
    except ValueError:
        return value
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return value if mapped is None else str(mapped)


def _convert(value: Any, kind: pa.DataType, *, nested: bool) -> Any:
    if value is None:
        return None
    if pa.types.is_nested(kind):
        return _convert_nested(value, kind)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return value if isinstance(value, str) else json.dumps(_plain(value), ensure_ascii=False, separators=(",", ":"))
    if pa.types.is_timestamp(kind):
        return _moment(value, kind, nested)
    if pa.types.is_date(kind):
        moment = _moment(value, None, nested)
        return moment.date()
    if pa.types.is_decimal(kind):
        return Decimal(str(value)).quantize(Decimal(1).scaleb(-kind.scale))
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return base64.b64decode(value, validate=True) if isinstance(value, str) else bytes(value)
    if pa.types.is_floating(kind):
        return float(value)
    return value


def _convert_nested(value: Any, kind: pa.DataType) -> Any:
    if pa.types.is_struct(kind):
        fields = [kind.field(i) for i in range(kind.num_fields)]
        return {f.name: _convert(value.get(f.name), f.type, nested=True) for f in fields}
    if pa.types.is_map(kind):
        return [
            (_convert(_key(k, kind.key_type), kind.key_type, nested=True), _convert(v, kind.item_type, nested=True))
            for k, v in value.items()
        ]
    items = value[_ARRAY_KEY] if isinstance(value, dict) else value
    return [_convert(item, kind.value_type, nested=True) for item in items]


def _key(text: str, kind: pa.DataType) -> Any:
    """A map's key, which JSON can only hold as text."""
    if pa.types.is_integer(kind):
        return int(text)
    return text == "true" if pa.types.is_boolean(kind) else text


def _moment(value: Any, kind: pa.DataType | None, nested: bool) -> datetime.datetime:
    """A moment: tantivy's own date at the top, milliseconds since 1970 inside of a document."""
    if isinstance(value, int) and nested:
        value = _EPOCH + datetime.timedelta(milliseconds=value)
    if isinstance(value, str):
        value = datetime.datetime.fromisoformat(value)
    moment: datetime.datetime = value if value.tzinfo else value.replace(tzinfo=datetime.UTC)
    return moment if kind is None or kind.tz else moment.astimezone(datetime.UTC).replace(tzinfo=None)


def _plain(value: Any) -> Any:
    """A document's value as JSON can write it; tantivy reads texts that look like moments as moments."""
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_plain(v) for v in value]
    if isinstance(value, datetime.datetime):
        return value.isoformat().replace("+00:00", "Z")
    return value


_BATCH_ROWS = 4_096
_ADDRESS = "ip_addr"
_FAST_TYPES = ("i64", "u64", "f64", "bool")
"""What can be read back from its column where the documents do not store it."""


class ForeignReader:
    """A split of another engine. Its files are unpacked into a folder that goes with the reader."""

    indexed = False

    def __init__(self, source: SplitSource, schema: pa.Schema, folder: Path, meta: dict[str, Any]) -> None:
        self._source = source
        self._folder = folder
        self._fields: dict[str, dict[str, Any]] = {entry["name"]: entry for entry in meta["schema"]}
        self._sizes = [int(segment["max_doc"]) for segment in meta["segments"]]
        self.schema = pa.schema([f for f in schema if f.name in self._fields])
        self.incomplete: Mapping[str, int] = {}
        self._finalizer = weakref.finalize(self, shutil.rmtree, folder, True)

    @classmethod
    def open(cls, source: SplitSource, schema: pa.Schema) -> ForeignReader:
        """Open a bundle; `schema` is the table's, without partition columns."""
        bundle = read_directory(source)
        folder = scratch_folder("foreign", None)
        try:
            unbundle(source, bundle, folder)
            meta = read_meta(folder)
            if any(segment["deletes"] is not None for segment in meta["segments"]):
                raise UnsupportedError(f"The foreign split {source.path} holds deleted documents.", path=source.path)
            return cls(source, schema, folder, meta)
        except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as e:
            shutil.rmtree(folder, ignore_errors=True)
            raise BadFileError(f"The foreign split {source.path} cannot be read: {e}.", path=source.path) from e
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise

    @property
    def path(self) -> str:
        """The split's name in messages."""
        return self._source.path

    @property
    def num_rows(self) -> int:
        """How many documents the split has."""
        return sum(self._sizes)

    @property
    def stored_rows(self) -> int:
        """The same: what is deleted is not known here."""
        return self.num_rows

    @property
    def stats(self) -> ReadStats:
        """Requests and bytes so far."""
        return self._source.stats

    @cached_property
    def mapping(self) -> DocMapping:
        """How the other engine indexed the columns, in our terms."""
        columns = (_column(f, number, self._fields[f.name]) for number, f in enumerate(self.schema))
        return DocMapping(tuple(columns))

    def read_rows(self, rows: Rows | Mask | None = None, *, columns: Sequence[str] | None = None) -> pa.Table:
        """Rows by number, by mask, or all."""
        fields = self._columns(columns)
        if not fields:
            return pa.table({"": pa.nulls(len(self._numbers(rows)))}).select([])
        batches = [self._batch(part, fields) for part in _parts(self._numbers(rows))]
        return pa.Table.from_batches(batches, pa.schema(fields))

    def iter_rows(
        self,
        rows: Rows | Mask | None = None,
        *,
        columns: Sequence[str] | None = None,
        codes: bool = False,  # noqa: ARG002
    ) -> Iterator[pa.RecordBatch]:
        """The same as a stream; its texts are texts."""
        fields = self._columns(columns)
        for part in _parts(self._numbers(rows)):
            yield self._batch(part, fields)

    def may_match(self, bound: Predicate) -> Mask | None:  # noqa: ARG002
        """Nothing is known of the rows of another engine before they are read."""
        return None

    def group_bounds(self, column: str) -> tuple[Rows, ColumnRange] | None:  # noqa: ARG002
        """Nothing either."""
        return None

    def open_index(self, fields: Iterable[str], *, positions: bool = False, norms: bool = False) -> SearcherView:
        """Never possible: the term dictionary has another form."""
        wanted = {"fields": sorted(fields), "positions": positions, "norms": norms}
        message = f"The split {self.path} was written by another engine; its index cannot be searched."
        raise UnsupportedError(message, hint="Scan its rows, or MERGE SPLITS to rewrite it.", path=self.path, **wanted)

    def close(self) -> None:
        """Remove the unpacked files."""
        self._finalizer()

    @cached_property
    def _searcher(self) -> tantivy.Searcher:
        with tantivy_errors(self.path, "Opening"):
            index = tantivy.Index.open(str(self._folder))
            index.config_reader("manual")
            searcher = index.searcher()
        if searcher.num_docs != self.num_rows:
            raise BadFileError(f"The split {self.path} has {searcher.num_docs} documents, not {self.num_rows}.")
        return searcher

    def _batch(self, rows: Rows, fields: Sequence[pa.Field]) -> pa.RecordBatch:
        starts = np.cumsum([0, *self._sizes])
        searcher = self._searcher
        segments = np.searchsorted(starts, rows, side="right") - 1
        places = [tantivy.DocAddress(int(s), int(row - starts[s])) for row, s in zip(rows, segments, strict=True)]
        stored = [f for f in fields if self._option(f.name, "stored")]
        values: dict[str, list[Any]] = {}
        with tantivy_errors(self.path, "Reading documents"):
            documents = [searcher.doc(place).to_dict() for place in places] if stored else []
            for field in fields:
                if field in stored:
                    values[field.name] = [_first(document.get(field.name)) for document in documents]
                else:
                    values[field.name] = searcher.fast_field_values(field.name, places)
                if self._fields[field.name]["type"] == _ADDRESS:
                    values[field.name] = [plain_address(value) for value in values[field.name]]
        arrays = [to_array(values[f.name], f, self.path) for f in fields]
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))

    def _columns(self, columns: Sequence[str] | None) -> list[pa.Field]:
        names = list(self.schema.names) if columns is None else list(columns)
        unknown = [name for name in names if name not in self.schema.names]
        if unknown:
            message = f"The split {self.path} has no column {', '.join(map(repr, unknown))}."
            raise InvalidInputError(message, hint=f"Its columns: {', '.join(self.schema.names)}.", columns=unknown)
        for name in names:
            fast = self._fields[name]["type"] in _FAST_TYPES and self._option(name, "fast")
            if not fast and not self._option(name, "stored"):
                message = f"The split {self.path} does not store column {name!r}; its values cannot be read back."
                raise UnsupportedError(message, path=self.path, column=name)
        return [self.schema.field(name) for name in names]

    def _option(self, name: str, option: str) -> bool:
        return bool(self._fields[name].get("options", {}).get(option, False))

    def _numbers(self, rows: Rows | Mask | None) -> Rows:
        found = np.arange(self.num_rows) if rows is None else np.asarray(rows)
        if found.dtype == np.bool_:
            found = np.flatnonzero(found)
        numbers: Rows = found.astype(np.int64)
        if len(numbers) and (numbers.min() < 0 or numbers.max() >= self.num_rows):
            raise InvalidInputError(f"Row numbers outside the {self.num_rows} rows of {self.path}.")
        return numbers


def _parts(rows: Rows) -> Iterator[Rows]:
    for start in range(0, len(rows), _BATCH_ROWS):
        yield rows[start : start + _BATCH_ROWS]


def _first(values: list[Any] | None) -> Any:
    return values[0] if values else None


def _column(field: pa.Field, number: int, entry: dict[str, Any]) -> ColumnMapping:
    """A tantivy field of another engine as a column of ours; what we cannot index alike is `none`."""
    options = entry.get("options", {})
    indexing = options.get("indexing") or {}
    known = indexing.get("tokenizer") in TOKENIZERS
    tokenizer = indexing["tokenizer"] if known else "default"
    name = f"c{number}"
    if entry["type"] == _ADDRESS and options.get("indexed"):
        return ColumnMapping(field.name, name, "ip")
    if entry["type"] == "json_object" and indexing:
        return ColumnMapping(field.name, name, "json", "default", indexing.get("record", "position"))
    if entry["type"] != "text" or not indexing or is_nested(field.type):
        return ColumnMapping(field.name, name, "none")
    if tokenizer in WHOLE_TOKENIZERS:
        return ColumnMapping(field.name, name, "string", tokenizer, "basic")
    return ColumnMapping(field.name, name, "text", tokenizer, indexing.get("record", "position"))

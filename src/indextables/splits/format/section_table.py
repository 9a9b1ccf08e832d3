"""The section table: where everything lies inside a split. It is JSON in the Parquet footer's
key-value metadata.

    Parquet row groups index bodies       per field: its .term, .idx, .fieldnorm and .pos data side
    by side, so one request fetches a field hot section        meta.json, the end of every index
    file, chunk checksums, page table   <- footer start Parquet footer     page indexes, metadata
    with this table and the footer's checksum -> end of file

Places in the hot section count from the footer start; all other offsets count from the start of the
file. The store's body (the documents without stored fields) is left out: nothing ever reads it.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterable, Sequence
from itertools import pairwise

import msgspec

from indextables.errors import BadFileError, UnsupportedError
from indextables.model.source_file import SourceFile
from indextables.splits.format.term_filter import is_filter_length
from indextables.splits.index.tantivy_files import COMPONENTS, COMPOSITE, INDEX_FORMAT

TABLE_KEY = "indextables.split"
FORMAT_VERSION = 1
COMPANION_VERSION = 2
"""Format version of a companion split: an index without rows."""
MAX_INDEX_FILE_BYTES = 1 << 40
MAX_ROWS = (1 << 31) - 1024
ENTRY_BYTES = 12
"""Size of an entry of the page table."""
ROW_NUMBER_BYTES = 4
_MAX_CRC = (1 << 32) - 1


class Span(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """An offset and length in the hot section."""

    offset: int
    length: int


class FieldRange(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The data of one field in one index file: its offset in that file, its offset in the split,
    and its checksum.
    """

    field: str
    start: int
    length: int
    offset: int
    crc32: int


class Component(msgspec.Struct, frozen=True, kw_only=True):
    """One tantivy file: its full length, its end (in the hot section) and the ranges of its fields."""

    name: str
    length: int
    tail: Span
    ranges: tuple[FieldRange, ...] = ()


class Origin(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The origin of a split: schema and partitioning of the table, partition values, and the splits
    it replaces.
    """

    schema: str
    partition_columns: tuple[str, ...] = ()
    partition_values: dict[str, str | None] = {}
    replaces: tuple[str, ...] = ()
    """Hashes of the paths of the splits it was made from (`path_mark`); a merge can have a thousand
    inputs.
    """


def path_mark(path: str) -> str:
    """Return a short hash of a path."""
    return hashlib.blake2b(path.encode(), digest_size=8).hexdigest()


class Statistics(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Statistics of the split's values, so that a lost log can be rebuilt from the splits."""

    min_values: dict[str, str] = {}
    max_values: dict[str, str] = {}
    null_counts: dict[str, int] = {}
    time_range_start: str | None = None
    time_range_end: str | None = None
    uncompressed_size_bytes: int = 0
    split_tags: tuple[str, ...] = ()
    origin: Origin | None = None


class IndexedSource(msgspec.Struct, frozen=True, kw_only=True):
    """The source of a companion split and the files that are its documents."""

    format: str
    source_id: str = ""
    """Identifier of the source table; empty if its format has none."""
    files: tuple[SourceFile, ...]


class SectionTable(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a reader needs beyond Parquet's metadata."""

    version: int = FORMAT_VERSION
    tantivy: str
    index_format: int
    rows: int
    segment: str
    meta: Span
    chunks: Span
    components: tuple[Component, ...]
    mapping: str
    mapping_ref: str
    statistics: Statistics = Statistics()
    incomplete: dict[str, int] = {}
    """Number of values per column that the index holds only partly."""
    incomplete_rows: dict[str, Span] = {}
    """Row numbers of these values as ascending little-endian 32-bit integers. Some columns record
    only the count.
    """
    pages: Span | None = None
    """The page table. Splits of release 0.1.0 have none; their rows are read by column chunk."""

    term_filter: Span | None = None
    """The term filter. Splits of earlier releases and splits with many terms have none."""
    term_filter_fields: tuple[str, ...] = ()
    """The index fields whose terms are in the filter."""
    source: IndexedSource | msgspec.UnsetType = msgspec.UNSET
    """What a companion split indexes. Other splits have rows of their own instead."""

    @property
    def indexed_source(self) -> IndexedSource | None:
        """What a companion split indexes, or None."""
        if self.source is msgspec.UNSET:
            return None
        return self.source

    @property
    def stored_rows(self) -> int:
        """Number of rows that the file holds: none in a companion split."""
        if self.source is msgspec.UNSET:
            return self.rows
        return 0

    @property
    def hot_spans(self) -> list[Span]:
        """The spans of everything in the hot section."""
        optional = [span for span in (self.pages, self.term_filter) if span is not None]
        tails = [component.tail for component in self.components]
        return [self.meta, self.chunks, *tails, *self.incomplete_rows.values(), *optional]

    def component(self, name: str) -> Component:
        """Return the index file with an extension."""
        return next(c for c in self.components if c.name == name)

    def file_name(self, component: Component) -> str:
        """Return the file name that tantivy uses for an index file."""
        return f"{self.segment}.{component.name}"


def encode_table(table: SectionTable) -> str:
    """Encode the table as JSON."""
    return msgspec.json.encode(table).decode()


def decode_table(text: bytes, *, footer_start: int, hot_limit: int, path: str) -> SectionTable:
    """Decode the table from JSON. Content that does not fit the file raises `BadFileError`."""
    try:
        version = _VERSION.decode(text).version
        if version not in (FORMAT_VERSION, COMPANION_VERSION):
            message = (
                f"The split {path} has format version {version}; this release reads "
                f"{FORMAT_VERSION} and {COMPANION_VERSION}."
            )
            raise UnsupportedError(message, path=path, version=version)
        table = _TABLE.decode(text)
        _check(table, footer_start, hot_limit)
    except (msgspec.DecodeError, ValueError) as e:
        message = f"The section table of the split {path} makes no sense: {e}."
        raise BadFileError(message, path=path, start=footer_start, length=hot_limit) from e
    if table.index_format != INDEX_FORMAT and table.components:
        message = f"The index of {path} has format {table.index_format}; this release reads {INDEX_FORMAT}."
        raise UnsupportedError(message, path=path)
    return table


class _VersionOnly(msgspec.Struct, frozen=True):
    version: int


# Made once, at import: msgspec crashes if two threads are the first to look into a type.
_VERSION = msgspec.json.Decoder(_VersionOnly)
_TABLE = msgspec.json.Decoder(SectionTable)


def _check(table: SectionTable, footer_start: int, hot_limit: int) -> None:
    _require(0 <= table.rows <= MAX_ROWS, "impossible number of rows")
    source = table.indexed_source
    _require(
        (source is None) == (table.version == FORMAT_VERSION), "another kind of split than it names"
    )
    if source is not None:
        _require(bool(source.files), "a companion split of no files")
        sound = all(file.rows >= 0 and file.size >= 0 for file in source.files)
        _require(sound, "a negative size of a source file")
        _require(
            sum(file.rows for file in source.files) == table.rows, "other rows than its files have"
        )
    _require(all(n >= 0 for n in table.incomplete.values()), "negative count of incomplete values")
    spans = table.hot_spans
    rows_fit = all(
        span.length == ROW_NUMBER_BYTES * table.incomplete.get(name, 0)
        for name, span in table.incomplete_rows.items()
    )
    if table.term_filter is not None:
        _require(
            is_filter_length(table.term_filter.length), "a term filter of an impossible length"
        )
    _require(rows_fit, "row numbers that do not fit their count")
    _require(
        table.pages is None or table.pages.length % ENTRY_BYTES == 0, "a page table of odd length"
    )
    _require(
        all(s.offset >= 0 and s.length >= 0 and s.offset + s.length <= hot_limit for s in spans),
        "a span outside",
    )
    if not table.components:
        return
    _require(uuid.UUID(hex=table.segment).hex == table.segment, "a garbled segment name")
    _require(
        tuple(c.name for c in table.components) == COMPONENTS,
        "not the index files that there must be",
    )
    for component in table.components:
        _check_component(component, footer_start)
    _check_disjoint([r for c in table.components for r in c.ranges])


def _check_component(component: Component, footer_start: int) -> None:
    body = component.length - component.tail.length
    _require(
        body >= 0 and component.length <= MAX_INDEX_FILE_BYTES,
        f"impossible length of .{component.name}",
    )
    _require(component.name in COMPOSITE or not component.ranges, f"fields in .{component.name}")
    _require(
        len({r.field for r in component.ranges}) == len(component.ranges),
        f"a field twice in .{component.name}",
    )
    at = 0
    for part in component.ranges:
        _require(part.start == at and part.length >= 0, f"a gap in .{component.name}")
        inside = part.offset >= 0 and part.offset + part.length <= footer_start
        _require(inside, f"a range of .{component.name} outside the file")
        _require(0 <= part.crc32 <= _MAX_CRC, "a checksum that is none")
        at += part.length
    _require(
        component.name not in COMPOSITE or at == body, f"ranges that do not cover .{component.name}"
    )


def _check_disjoint(ranges: Iterable[FieldRange]) -> None:
    ordered: Sequence[FieldRange] = sorted((r for r in ranges if r.length), key=lambda r: r.offset)
    for one, other in pairwise(ordered):
        _require(one.offset + one.length <= other.offset, "ranges that overlap")


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise ValueError(what)

"""What a split says of itself: its entry in the log, when there is no log to ask; whether its bytes
are right; their sizes.

A split is checked from the file itself, past every cache: its end, and on request every byte of
rows and index. The sizes of its components add up to the size of its file:

    rows        a column's values in Parquet, per column
    term        the dictionary of a column's terms          idx        where each term occurs
    pos         positions, for phrases                      fieldnorm  lengths, for scores
    hot         the hot section: what every search reads first
    footer      Parquet's footer, and everything that is not one of the others
"""

from __future__ import annotations

import json
import tempfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
from msgspec import Struct

from indextables.errors import BadFileError
from indextables.model.actions import AddAction
from indextables.splits.format.container import SplitInfo
from indextables.splits.format.footer import SplitFooter, read_footer
from indextables.splits.format.section_table import FieldRange, Origin
from indextables.splits.format.source import SplitSource
from indextables.splits.index.mapping import DocMapping
from indextables.splits.index.segments import read_meta
from indextables.splits.read.bundle_files import is_bundle, read_directory, unbundle
from indextables.splits.read.cache import SplitCache
from indextables.splits.read.foreign import ForeignReader
from indextables.splits.read.reader import SplitReader

_FOREIGN_TYPES = {
    "i64": pa.int64(),
    "u64": pa.int64(),
    "f64": pa.float64(),
    "bool": pa.bool_(),
    "date": pa.timestamp("us", "UTC"),
    "bytes": pa.binary(),
}


_LOG_TYPES = {"json_object": "object", "ip_addr": "ip", "date": "datetime"}


class SplitDescription(Struct, frozen=True):
    """A split described by its own content. One of another engine has no mapping of ours and no
    origin.
    """

    path: str
    size: int
    rows: int
    schema: pa.Schema
    origin: Origin | None = None
    mapping: DocMapping | None = None
    info: SplitInfo | None = None
    foreign_mapping: str | None = None
    """The index of another engine's split, in that engine's log format."""

    def add_action(
        self, partition_values: dict[str, str | None], *, modification_time: int
    ) -> AddAction:
        """Return the add action of the split."""
        if self.info is not None:
            return self.info.add_action(
                self.path, partition_values=partition_values, modification_time=modification_time
            )
        return AddAction(
            path=self.path,
            partition_values=partition_values,
            size=self.size,
            modification_time=modification_time,
            num_records=self.rows,
            doc_mapping_json=self.foreign_mapping,
        )


def describe_split(source: SplitSource) -> SplitDescription:
    """Describe a split from its file. Raises BadFileError or UnsupportedError if it cannot be read."""
    try:
        footer = read_footer(source)
    except BadFileError:
        if source.size < 8 or not is_bundle(source.read_many([(source.size - 8, 8)])[0]):
            raise
        return _foreign(source)
    table = footer.table
    return SplitDescription(
        path=source.path,
        size=source.size,
        rows=table.rows,
        schema=footer.schema,
        origin=table.statistics.origin,
        mapping=DocMapping.from_json(table.mapping),
        info=_info(source, footer),
    )


def _info(source: SplitSource, footer: SplitFooter) -> SplitInfo:
    table = footer.table
    return SplitInfo(
        path=Path(source.path),
        size=source.size,
        num_records=table.rows,
        statistics=table.statistics,
        footer_start_offset=footer.footer_start,
        hotcache_length=max(span.offset + span.length for span in table.hot_spans),
        doc_mapping_json=table.mapping,
        doc_mapping_ref=table.mapping_ref,
        rows_end=_rows_end(footer),
    )


def _foreign(source: SplitSource) -> SplitDescription:
    """Describe another engine's split: its fields as columns of the nearest types."""
    with tempfile.TemporaryDirectory(prefix="indextables-foreign-") as folder:
        unbundle(source, read_directory(source), Path(folder))
        try:
            meta = read_meta(Path(folder))
            fields = [
                pa.field(e["name"], _FOREIGN_TYPES.get(e["type"], pa.string()))
                for e in meta["schema"]
            ]
            mapping = [_doc_mapping_entry(e) for e in meta["schema"]]
            rows = sum(int(segment["max_doc"]) for segment in meta["segments"])
        except (OSError, ValueError, KeyError, TypeError) as e:
            raise BadFileError(
                f"The foreign split {source.path} cannot be read: {e}.", path=source.path
            ) from e
    mapping_json = json.dumps(mapping, ensure_ascii=False, separators=(",", ":"))
    return SplitDescription(
        source.path, source.size, rows, pa.schema(fields), foreign_mapping=mapping_json
    )


def _doc_mapping_entry(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return a field of a tantivy schema as an entry of the doc mapping that its engine records."""
    options = entry.get("options", {})
    indexing = options.get("indexing") or {}
    words = {key: indexing[key] for key in ("tokenizer", "record") if key in indexing}
    return {
        "name": entry["name"],
        "type": _LOG_TYPES.get(entry["type"], entry["type"]),
        "indexed": bool(indexing or options.get("indexed")),
        "stored": bool(options.get("stored")),
        **words,
    }


_PIECE_BYTES = 8 << 20


def _rows_end(footer: SplitFooter) -> int:
    """Return the byte at which the rows of a split end and its index begins."""
    return min(
        (r.offset for part in footer.table.components for r in part.ranges),
        default=footer.footer_start,
    )


def check_end(
    source: SplitSource, schema: pa.Schema, *, footer_start: int | None
) -> tuple[int, int | None]:
    """Return the row count in a split's end and the byte at which the rows end (None for another
    engine).

    Raises BadFileError or UnsupportedError if it cannot be read.
    """
    footer = _own_footer(source, footer_start)
    if footer is not None:
        return footer.table.rows, _rows_end(footer)
    with closing(ForeignReader.open(source, schema)) as reader:
        return reader.num_rows, None


def check_bytes(
    source: SplitSource, schema: pa.Schema, *, footer_start: int | None
) -> Iterator[pa.RecordBatch]:
    """Yield every row of a split after verifying all its bytes, none of a companion split. Raises
    BadFileError for the first damage.
    """
    footer = _own_footer(source, footer_start)
    if footer is None:
        with closing(ForeignReader.open(source, schema)) as reader:
            reader.check_files()
            yield from reader.iter_rows()
        return
    for component in footer.table.components:
        for field_range in component.ranges:
            _check_range(source, field_range)
    if footer.table.indexed_source is not None:
        return  # the rows are in the files of the source
    yield from SplitReader(source, footer, SplitCache.default()).iter_rows()


def _own_footer(source: SplitSource, footer_start: int | None) -> SplitFooter | None:
    """Return the end of one of our splits, or None for another engine's."""
    try:
        return read_footer(source, footer_start)
    except BadFileError:
        if source.size < 8 or not is_bundle(source.read_many([(source.size - 8, 8)])[0]):
            raise
    return None


def _check_range(source: SplitSource, field_range: FieldRange) -> None:
    crc = 0
    for start in range(0, field_range.length, _PIECE_BYTES):
        length = min(_PIECE_BYTES, field_range.length - start)
        crc = zlib.crc32(source.read_many([(field_range.offset + start, length)])[0], crc)
    if crc != field_range.crc32:
        end = field_range.offset + field_range.length
        message = f"Bytes {field_range.offset} to {end} of the split {source.path} are damaged: wrong checksum."
        raise BadFileError(
            message, path=source.path, start=field_range.offset, length=field_range.length
        )


class ComponentSize(Struct, frozen=True):
    """The bytes of one component, of one column if it belongs to one."""

    component: str
    field: str | None
    size_bytes: int


def component_sizes(source: SplitSource, *, footer_start: int | None = None) -> list[ComponentSize]:
    """Return the components of a split; of another engine's bundle its files by extension."""
    try:
        sizes = _sizes(read_footer(source, footer_start))
    except BadFileError:
        if source.size < 8 or not is_bundle(source.read_many([(source.size - 8, 8)])[0]):
            raise
        sizes = _bundle_sizes(source)
    rest = source.size - sum(size.size_bytes for size in sizes)
    return [*sizes, ComponentSize("footer", None, rest)]


def _bundle_sizes(source: SplitSource) -> list[ComponentSize]:
    bundle = read_directory(source)
    files = [(name.rpartition(".")[2], file) for name, file in sorted(bundle.files.items())]
    return [
        ComponentSize(name, None, file.end - file.start)
        for name, file in [*files, ("hot", bundle.hotcache)]
    ]


def _sizes(footer: SplitFooter) -> list[ComponentSize]:
    return [*_row_sizes(footer), *_index_sizes(footer), _hot_size(footer)]


def _row_sizes(footer: SplitFooter) -> list[ComponentSize]:
    lengths = footer.places[:, :, 1].sum(axis=0)
    return [
        ComponentSize("rows", name, int(lengths[leaves.start : leaves.stop].sum()))
        for name, leaves in footer.leaves.items()
    ]


def _index_sizes(footer: SplitFooter) -> list[ComponentSize]:
    names = {
        column.field: column.name for column in DocMapping.from_json(footer.table.mapping).columns
    }
    return [
        ComponentSize(
            component.name, names.get(field_range.field, field_range.field), field_range.length
        )
        for component in footer.table.components
        for field_range in component.ranges
    ]


def _hot_size(footer: SplitFooter) -> ComponentSize:
    return ComponentSize("hot", None, sum(span.length for span in footer.table.hot_spans))

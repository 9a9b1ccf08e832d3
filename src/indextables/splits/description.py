"""What a split says of itself: enough for an entry in the log, when there is no log to ask."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from msgspec import Struct

from indextables.errors import BadFileError
from indextables.model.actions import AddAction
from indextables.splits.bundle import is_bundle, read_directory, unbundle
from indextables.splits.info import SplitInfo
from indextables.splits.layout import Origin
from indextables.splits.mapping import DocMapping
from indextables.splits.segments import read_meta
from indextables.splits.source import SplitSource
from indextables.splits.tail import SplitTail, read_tail

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
    """A split by its own words. Another engine's has no mapping of ours and says nothing of where it belongs."""

    path: str
    size: int
    rows: int
    schema: pa.Schema
    origin: Origin | None = None
    mapping: DocMapping | None = None
    info: SplitInfo | None = None
    foreign_mapping: str | None = None
    """How another engine's split is indexed, in the words that its engine has for it in the log."""

    def add_action(self, partition_values: dict[str, str | None], *, modification_time: int) -> AddAction:
        """The log entry of the split."""
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
    """What the file says; BadFileError or UnsupportedError if it cannot be read."""
    try:
        tail = read_tail(source)
    except BadFileError:
        if source.size < 8 or not is_bundle(source.read_many([(source.size - 8, 8)])[0]):
            raise
        return _foreign(source)
    table = tail.table
    return SplitDescription(
        path=source.path,
        size=source.size,
        rows=table.rows,
        schema=tail.schema,
        origin=table.statistics.origin,
        mapping=DocMapping.from_json(table.mapping),
        info=_info(source, tail),
    )


def _info(source: SplitSource, tail: SplitTail) -> SplitInfo:
    table = tail.table
    return SplitInfo(
        path=Path(source.path),
        size=source.size,
        num_records=table.rows,
        statistics=table.statistics,
        footer_start_offset=tail.footer_start,
        hotcache_length=table.chunks.offset + table.chunks.length,
        doc_mapping_json=table.mapping,
        doc_mapping_ref=table.mapping_ref,
    )


def _foreign(source: SplitSource) -> SplitDescription:
    """Another engine's split: its fields as columns of the types that come nearest."""
    with tempfile.TemporaryDirectory(prefix="indextables-foreign-") as folder:
        unbundle(source, read_directory(source), Path(folder))
        try:
            meta = read_meta(Path(folder))
            fields = [pa.field(e["name"], _FOREIGN_TYPES.get(e["type"], pa.string())) for e in meta["schema"]]
            mapping = [_doc_mapping_entry(e) for e in meta["schema"]]
            rows = sum(int(segment["max_doc"]) for segment in meta["segments"])
        except (OSError, ValueError, KeyError, TypeError) as e:
            raise BadFileError(f"The foreign split {source.path} cannot be read: {e}.", path=source.path) from e
    told = json.dumps(mapping, ensure_ascii=False, separators=(",", ":"))
    return SplitDescription(source.path, source.size, rows, pa.schema(fields), foreign_mapping=told)


def _doc_mapping_entry(entry: Mapping[str, Any]) -> dict[str, Any]:
    """A field of a tantivy schema as an entry of the doc mapping that its engine records for it."""
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

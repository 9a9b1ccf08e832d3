"""Tantivy segments on local disk (one folder per segment), and merging them in a given order
without re-indexing.

Tantivy-py has no merge call, but a writer that opens a folder merges segments of similar size
automatically. The segments are placed in one folder with a `meta.json` that makes each large one
look nearly empty, which puts them on one level with the small ones, and padding segments fill up to
the number that starts a merge. Looking empty requires a bitset of deleted documents, which costs
time for every posting, so segments that are all small or of similar size are left as they are.

The folder is sorted by `_row`, and every segment gets a column `_row` that continues where the
previous one ends, so the merged order is the list order. Deleted rows are left out in the same
pass. The result is verified: number of rows, and the position of the first and last row of every
segment.
"""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import tantivy
from msgspec import Struct

from indextables.errors import BadFileError
from indextables.splits.index.analyzers import ROW_FIELD, register, schema_for
from indextables.splits.index.mapping import DocMapping
from indextables.splits.index.tantivy_files import (
    COMPONENTS,
    COMPOSITE,
    Mask,
    alive_bitset,
    empty_store,
    row_column,
)

MIN_HEAP_BYTES = 15_000_000
META = "meta.json"


class Segment(Struct, frozen=True):
    """A segment in a folder, with its number of documents."""

    folder: Path
    segment_id: str
    rows: int

    @property
    def stem(self) -> str:
        """The common prefix of its file names."""
        return uuid.UUID(self.segment_id).hex

    def file(self, component: str) -> Path:
        """Return one of its files."""
        return self.folder / f"{self.stem}.{component}"

    def place(self, folder: Path, stem: str) -> None:
        """Link its composite files into another folder under another name."""
        for component in COMPOSITE:
            (folder / f"{stem}.{component}").symlink_to(self.file(component).absolute())


def read_meta(folder: Path) -> dict[str, Any]:
    """Read the `meta.json` of an index folder."""
    meta: dict[str, Any] = json.loads((folder / META).read_bytes())
    return meta


def segments_of(folder: Path) -> list[Segment]:
    """Return the committed segments of a folder in searcher order."""
    return [Segment(folder, s["segment_id"], s["max_doc"]) for s in read_meta(folder)["segments"]]


def create_index(folder: Path, mapping: DocMapping) -> tantivy.Index:
    """Create an empty index for a mapping, with registered analyzers."""
    folder.mkdir(parents=True)
    tantivy.Index(schema_for(mapping, row_field=True), path=str(folder))
    meta = read_meta(folder)
    meta["schema"] = [_without_norms(entry, mapping) for entry in meta["schema"]]
    (folder / META).write_text(json.dumps(meta))
    return open_folder(folder, mapping)


def open_folder(folder: Path, mapping: DocMapping) -> tantivy.Index:
    """Open an index folder with registered analyzers and without automatic reload."""
    index = tantivy.Index.open(str(folder))
    register(index, mapping.indexed)
    index.config_reader("manual")
    return index


def index_schema(mapping: DocMapping, scratch: Path) -> list[dict[str, Any]]:
    """Return the schema of a mapping as in `meta.json`."""
    create_index(scratch, mapping)
    schema: list[dict[str, Any]] = read_meta(scratch)["schema"]
    return schema


def _without_norms(entry: dict[str, Any], mapping: DocMapping) -> dict[str, Any]:
    """Remove field norms of whole values: each is one term, so its length does not affect a score
    but would cost a byte per row.
    """
    strings = {c.field for c in mapping.indexed if c.kind in ("string", "grams", "whole")}
    if entry["name"] in strings and entry["name"] != ROW_FIELD:
        entry["options"]["indexing"]["fieldnorms"] = False
    return entry


_MERGE_AT = 8
_SMALL = 10_000
"""Segments of up to this many documents are on the lowest level."""
_LIKE = 1.6
"""Segments whose sizes differ at most by this factor are on one level."""
_LARGEST = 10_000_000
"""Segments of more documents are not merged."""
_OPSTAMP = 100
_SETTINGS = {
    "sort_by_field": {"field": ROW_FIELD, "order": "Asc"},
    "docstore_compression": "lz4",
    "docstore_blocksize": 16384,
}


class Placeable(Protocol):
    """A segment whose composite files can be placed in a folder."""

    @property
    def segment_id(self) -> str:
        """The segment's name."""
        ...

    @property
    def rows(self) -> int:
        """The number of its documents."""
        ...

    def place(self, folder: Path, stem: str) -> None:
        """Place its files in a folder under another name."""
        ...


class Layer(Struct, frozen=True):
    """A segment to merge, and its living rows (None: all)."""

    segment: Placeable
    alive: Mask | None

    @property
    def rows(self) -> int:
        """Number of living rows."""
        if self.alive is None:
            return self.segment.rows
        return int(np.count_nonzero(self.alive))


def merge_segments(layers: Sequence[Layer], mapping: DocMapping, folder: Path) -> Segment:
    """Merge the living rows of all layers in order into one segment. The layers' files are only
    read.
    """
    layers = [layer for layer in layers if layer.rows]
    schema = index_schema(mapping, folder.with_name(folder.name + ".schema"))
    folder.mkdir(parents=True)
    shrunk = _shrunk(layers)
    entries = [
        _place(n, layer, base, folder, shrink=shrink)
        for n, (layer, base, shrink) in enumerate(zip(layers, _bases(layers), shrunk, strict=True))
    ]
    entries += _padding(schema, mapping, folder, max(0, _MERGE_AT - len(entries)))
    meta = {"index_settings": _SETTINGS, "segments": entries, "schema": schema, "opstamp": _OPSTAMP}
    (folder / META).write_text(json.dumps(meta))
    index = open_folder(folder, mapping)
    writer = index.writer(MIN_HEAP_BYTES, 1)
    writer.commit()
    writer.wait_merging_threads()
    merged = segments_of(folder)
    _check(merged, layers, mapping, folder)
    return merged[0]


def _bases(layers: Sequence[Layer]) -> list[int]:
    """Return the `_row` of every layer's first document."""
    return [int(n) for n in np.cumsum([0, *(layer.segment.rows for layer in layers[:-1])])]


def _shrunk(layers: Sequence[Layer]) -> list[bool]:
    """Return the layers that must look smaller so that all are on one level."""
    sizes = [max(layer.segment.rows, _SMALL) for layer in layers]
    similar_sizes = (
        max(sizes) <= _LIKE * min(sizes) and len(layers) >= _MERGE_AT and max(sizes) <= _LARGEST
    )
    if similar_sizes and all(layer.alive is None for layer in layers):
        return [False] * len(layers)
    return [layer.alive is not None or layer.segment.rows > _SMALL for layer in layers]


def _place(number: int, layer: Layer, base: int, folder: Path, *, shrink: bool) -> dict[str, Any]:
    """Return a segment under a unique name, because two splits can hold copies of one segment."""
    segment = layer.segment
    name = uuid.uuid5(uuid.UUID(segment.segment_id), str(number))
    segment.place(folder, name.hex)
    (folder / f"{name.hex}.fast").write_bytes(row_column(segment.rows, base))
    (folder / f"{name.hex}.store").write_bytes(b"".join(empty_store(segment.rows)))
    if not shrink:
        return {"segment_id": str(name), "max_doc": segment.rows, "deletes": None}
    if layer.alive is None:
        alive = np.ones(segment.rows, np.bool_)
    else:
        alive = layer.alive
    return _entry(folder, str(name), alive)


def _entry(folder: Path, segment_id: str, alive: Mask) -> dict[str, Any]:
    """Return a segment entry that claims one living document; a bitset next to it holds the correct
    state.
    """
    stem = uuid.UUID(segment_id).hex
    (folder / f"{stem}.{_OPSTAMP}.del").write_bytes(alive_bitset(alive))
    deletes = {"num_deleted_docs": len(alive) - 1, "opstamp": _OPSTAMP}
    return {"segment_id": segment_id, "max_doc": len(alive), "deletes": deletes}


def _padding(
    schema: list[dict[str, Any]], mapping: DocMapping, folder: Path, count: int
) -> list[dict[str, Any]]:
    """Return segments of two deleted documents each."""
    if not count:
        return []
    scratch = folder.with_name(folder.name + ".padding")
    scratch.mkdir()
    meta = {"index_settings": _SETTINGS, "segments": [], "schema": schema, "opstamp": 0}
    (scratch / META).write_text(json.dumps(meta))
    writer = open_folder(scratch, mapping).writer(MIN_HEAP_BYTES, 1)
    for row in range(2):
        writer.add_json(json.dumps({ROW_FIELD: row}))
    writer.commit()
    writer.wait_merging_threads()
    (segment,) = segments_of(scratch)
    entries = []
    for number in range(count):
        name = uuid.uuid5(uuid.UUID(segment.segment_id), f"padding {number}")
        for component in COMPONENTS:
            shutil.copyfile(segment.file(component), folder / f"{name.hex}.{component}")
        entries.append(_entry(folder, str(name), np.zeros(2, np.bool_)))
    shutil.rmtree(scratch)
    return entries


def _check(
    merged: Sequence[Segment], layers: Sequence[Layer], mapping: DocMapping, folder: Path
) -> None:
    """Verify the merge: every row is present, and layers begin and end at the right rows."""
    expected = sum(layer.rows for layer in layers)
    if len(merged) != 1 or merged[0].rows != expected:
        rows = sum(segment.rows for segment in merged)
        raise BadFileError(
            f"Merging segments gave {rows} rows in place of {expected}.", path=str(folder)
        )
    places: list[tantivy.DocAddress] = []
    numbers: list[int] = []
    at = 0
    for layer, base in zip(layers, _bases(layers), strict=True):
        if layer.alive is None:
            alive = np.arange(layer.segment.rows)
        else:
            alive = np.flatnonzero(layer.alive)
        for row, place in ((int(alive[0]), at), (int(alive[-1]), at + len(alive) - 1)):
            places.append(tantivy.DocAddress(0, place))
            numbers.append(base + row)
        at += len(alive)
    row_values = open_folder(folder, mapping).searcher().fast_field_values(ROW_FIELD, places)
    moved = next(
        (number for number, row in zip(numbers, row_values, strict=True) if number != row), None
    )
    if moved is not None:
        raise BadFileError(f"Merging segments moved row {moved} of {folder}.", path=str(folder))

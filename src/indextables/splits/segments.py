"""Segments of tantivy on local disk: one folder, one segment, as the pieces that indexing and merging hand around."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import tantivy
from msgspec import Struct

from indextables.splits.analyzers import ROW_FIELD, register, schema_for
from indextables.splits.mapping import DocMapping
from indextables.splits.tantivy_files import COMPOSITE

MIN_HEAP_BYTES = 15_000_000
META = "meta.json"


class Segment(Struct, frozen=True):
    """A segment in a folder, with the number of its documents."""

    folder: Path
    segment_id: str
    rows: int

    @property
    def stem(self) -> str:
        """What its files are called before the dot."""
        return uuid.UUID(self.segment_id).hex

    def file(self, component: str) -> Path:
        """One of its files."""
        return self.folder / f"{self.stem}.{component}"

    def place(self, folder: Path, stem: str) -> None:
        """Link its composite files into another folder, under another name."""
        for component in COMPOSITE:
            (folder / f"{stem}.{component}").symlink_to(self.file(component).absolute())


def read_meta(folder: Path) -> dict[str, Any]:
    """The `meta.json` of an index folder."""
    meta: dict[str, Any] = json.loads((folder / META).read_bytes())
    return meta


def segments_of(folder: Path) -> list[Segment]:
    """The committed segments of a folder, in the order a searcher numbers them."""
    return [Segment(folder, s["segment_id"], s["max_doc"]) for s in read_meta(folder)["segments"]]


def create_index(folder: Path, mapping: DocMapping) -> tantivy.Index:
    """A new, empty index for a mapping, with analyzers registered."""
    folder.mkdir(parents=True)
    tantivy.Index(schema_for(mapping, row_field=True), path=str(folder))
    meta = read_meta(folder)
    meta["schema"] = [_without_norms(entry, mapping) for entry in meta["schema"]]
    (folder / META).write_text(json.dumps(meta))
    return open_folder(folder, mapping)


def open_folder(folder: Path, mapping: DocMapping) -> tantivy.Index:
    """An index folder as tantivy opens it, with analyzers registered; it never reloads by itself."""
    index = tantivy.Index.open(str(folder))
    register(index, mapping.indexed)
    index.config_reader("manual")
    return index


def index_schema(mapping: DocMapping, scratch: Path) -> list[dict[str, Any]]:
    """The schema of a mapping as `meta.json` writes it."""
    create_index(scratch, mapping)
    schema: list[dict[str, Any]] = read_meta(scratch)["schema"]
    return schema


def _without_norms(entry: dict[str, Any], mapping: DocMapping) -> dict[str, Any]:
    """A whole value is one term: its length says nothing to a score, and would cost a byte per row."""
    strings = {c.field for c in mapping.of_kind("string")}
    if entry["name"] in strings and entry["name"] != ROW_FIELD:
        entry["options"]["indexing"]["fieldnorms"] = False
    return entry

"""Splits that another engine wrote: rows are read from the document store; there is no index that can be used.

Their term dictionary has another form than tantivy-py's, so a query is answered by scanning the rows with the same
analyzers. Merging rewrites such a split into one of ours.
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import tantivy

from indextables.errors import BadFileError, InvalidInputError, UnsupportedError
from indextables.model.predicate import Predicate
from indextables.splits.bundle import read_directory, unbundle
from indextables.splits.foreign_values import plain_address, to_array
from indextables.splits.mapping import TOKENIZERS, WHOLE_TOKENIZERS, ColumnMapping, DocMapping, is_nested
from indextables.splits.panics import tantivy_errors
from indextables.splits.searchable import Mask, Rows, SearchView
from indextables.splits.segments import read_meta
from indextables.splits.source import ReadStats, SplitSource

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
        folder = Path(tempfile.mkdtemp(prefix="indextables-foreign-"))
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
        self, rows: Rows | Mask | None = None, *, columns: Sequence[str] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The same as a stream."""
        fields = self._columns(columns)
        for part in _parts(self._numbers(rows)):
            yield self._batch(part, fields)

    def may_match(self, bound: Predicate) -> Mask | None:  # noqa: ARG002
        """Nothing is known of the rows of another engine before they are read."""
        return None

    def open_index(self, fields: Iterable[str], *, positions: bool = False, norms: bool = False) -> SearchView:
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

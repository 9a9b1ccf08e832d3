"""Execute a tantivy query: return row numbers. The count comes first and decides between a list of
hits and a bitset.

Tantivy returns hits one Python object at a time. For many hits it is faster to let tantivy delete
what matches in a scratch folder of links and to read the deletion marks; the index itself is not
modified. The marks must agree with the count, otherwise hits are listed.

Results are cached within `cache.memory.maxSize`, because a split never changes. Deleted rows of a
split are deleted documents in the index, which tantivy skips; row numbers count only living rows.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import tantivy

from indextables.errors import BadFileError
from indextables.metrics import PROFILER
from indextables.splits.index.tantivy_files import INDEX_FORMAT, TantivyErrors
from indextables.splits.read.searchable import Rows, SearcherView

Scores = npt.NDArray[np.float32]
MAX_LISTED = 10_000
"""Up to this many hits are listed; above, the bitset is faster."""
_WRITER_HEAP_BYTES = 15_000_000
_MEMORY = "/dev/shm"
_ENTRY_BYTES = 1_000
"""Approximate memory of a cached answer without its rows."""
_NO_ROWS: Rows = np.empty(0, np.int64)
_Arrays = TypeVar("_Arrays", bound=tuple[npt.NDArray[Any], ...])


class IndexHits:
    """Results of an open index. Errors of tantivy become `BadFileError` with the split's name."""

    def __init__(self, view: SearcherView, path: str, *, max_listed: int = MAX_LISTED) -> None:
        self._view = view
        self._path = path
        self._max_listed = max_listed

    @property
    def schema(self) -> tantivy.Schema:
        """The fields of the index."""
        return self._view.index.schema

    def count(self, query: tantivy.Query, name: Hashable = None) -> int:
        """Return how many rows match. Reads no row and computes only constant scores.

        A result under a `name` is cached; the name must be unique within this index.
        """
        if name is None:
            known = None
        else:
            known = self._view.recall(("count", name))
        if known is not None:
            return int(known)
        with TantivyErrors(self._path, "A search"), PROFILER.section("count_in_index"):
            same = tantivy.Query.const_score_query(query, 0.0)
            count = int(self._view.index.searcher().search(same, limit=1, count=True).count)
        if name is not None:
            self._view.remember(("count", name), count, _ENTRY_BYTES)
        return count

    def term_count(self, field: str, text: str) -> int | None:
        """Return how many rows hold a term, from the dictionary, or None if that would count
        deleted documents.
        """
        if self._view.living is not None:
            return None
        with TantivyErrors(self._path, "A search"):
            return int(self._view.index.searcher().doc_freq(field, text))

    def term_bound(self, field: str, text: str | int) -> int:
        """Return an upper bound of the rows that hold a term, from the dictionary."""
        with TantivyErrors(self._path, "A search"):
            return int(self._view.index.searcher().doc_freq(field, text))

    def terms(self, field: str, start: str) -> list[str]:
        """Return the terms of a text field with a prefix."""
        with TantivyErrors(self._path, "Reading the term dictionary"):
            return [
                str(term) for term, _ in self._view.index.searcher().terms_with_prefix(field, start)
            ]

    def named_rows(self, name: Hashable, query: tantivy.Query, count: int | None = None) -> Rows:
        """Return `rows`, cached under a name unless that is None."""
        if name is None:
            return self.rows(query, count)
        known = self._view.recall(("rows", name))
        if known is None:
            rows = self.rows(query, count)
            # A copy of half the size, which the caller may modify.
            few = rows.astype(np.uint32)
            self._view.remember(("rows", name), few, few.nbytes + _ENTRY_BYTES)
            return rows
        return np.asarray(known, np.int64)

    def named_scored(self, name: Hashable, query: tantivy.Query, limit: int) -> tuple[Rows, Scores]:
        """Return `scored`, cached under a name unless that is None. The name must include the
        document frequencies.
        """
        key = None if name is None else ("scored", name, limit)
        rows, scores = self.remember_arrays(key, lambda: self.scored(query, limit))
        return rows.copy(), scores.copy()

    def recall(self, name: Hashable) -> Any:
        """Return what was remembered under a name, or None."""
        return self._view.recall(name)

    def remember(self, name: Hashable, value: Any, size: int) -> None:
        """Keep a value with this index, within the bound on memory."""
        self._view.remember(name, value, size + _ENTRY_BYTES)

    def remember_arrays(self, name: Hashable, compute: Callable[[], _Arrays]) -> _Arrays:
        """Return cached arrays, or compute and cache them."""
        if name is None:
            return compute()
        known: _Arrays | None = self._view.recall(name)
        if known is None:
            known = compute()
            self._view.remember(name, known, sum(part.nbytes for part in known) + _ENTRY_BYTES)
        return known

    def end_rows(
        self, name: Hashable, query: tantivy.Query, count: int, some: int, *, last: bool
    ) -> Rows | None:
        """Return the first or the last of the `count` matching rows, ascending and without a gap.

        Rows of equal scores come in their order, so an offset skips the earlier ones. Returns None
        if they did not.
        """
        if name is None:
            known = None
        else:
            known = self._view.recall(("end", name, some, last))
        if known is not None:
            return np.asarray(known, np.int64)
        with TantivyErrors(self._path, "A search"), PROFILER.section("search_index"):
            same = tantivy.Query.const_score_query(query, 1.0)
            searcher, offset = self._view.index.searcher(), count - some if last else 0
            hits = searcher.search(same, limit=some, offset=offset, count=False).hits
            rows = self._living(np.array([address.doc for _, address in hits], np.int64))
        if len(rows) != some or bool((np.diff(rows) <= 0).any()):
            return None
        if name is not None:
            self._view.remember(
                ("end", name, some, last), rows.astype(np.uint32), 4 * some + _ENTRY_BYTES
            )
        return rows

    def rows(self, query: tantivy.Query, count: int | None = None) -> Rows:
        """Return the numbers of all matching rows, ascending. `count` is their number if it is
        known.
        """
        count = self.count(query) if count is None else count
        with TantivyErrors(self._path, "A search"):
            if count == 0:
                return _NO_ROWS
            if count == self._view.index.searcher().num_docs:
                return np.arange(count, dtype=np.int64)
            with PROFILER.section("search_index"):
                if count > self._max_listed:
                    found = marked_rows(self._view, query)
                else:
                    found = None
        if found is not None:
            found = self._living(found)
        if found is not None and len(found) == count:
            return found
        return np.sort(self.scored(query, count)[0])

    def rows_among(self, query: tantivy.Query, most: int) -> Rows:
        """Return the matching rows if at most this many are known to match."""
        if most == 0:
            return _NO_ROWS
        same = tantivy.Query.const_score_query(query, 1.0)
        if most > self._max_listed:
            return self.rows(query)
        return np.sort(self.scored(same, most)[0])

    def _living(self, documents: Rows) -> Rows:
        """Convert documents to rows without the deleted ones.

        Postings are read as tantivy returns them, so a document number out of range is an error
        here.
        """
        living = self._view.living
        if living is not None:
            places = np.searchsorted(living, documents).astype(np.int64)
            rows: Rows = places[living[np.minimum(places, len(living) - 1)] == documents]
            return rows
        count = self._view.index.searcher().num_docs
        if len(documents) and int(documents.max()) >= count:
            raise BadFileError(
                f"The index of {self._path} names row {int(documents.max())} of {count}.",
                path=self._path,
            )
        return documents

    def scored(self, query: tantivy.Query, limit: int) -> tuple[Rows, Scores]:
        """Return the best rows and their scores, best first; equal scores in row order."""
        with TantivyErrors(self._path, "A search"), PROFILER.section("search_index"):
            searcher = self._view.index.searcher()
            bounded = min(limit, searcher.num_docs)
            # Tantivy panics at a limit of 0, and a huge one makes it allocate until the process is
            # ended.
            if bounded > 0:
                hits = searcher.search(query, limit=bounded, count=False).hits
            else:
                hits = []
            documents = np.fromiter((address.doc for _, address in hits), np.int64, len(hits))
            rows = self._living(documents)
            if len(rows) != len(documents):
                raise BadFileError(
                    f"The index of {self._path} names rows that are deleted.", path=self._path
                )
            return rows, np.fromiter((score for score, _ in hits), np.float32, len(hits))


def marked_rows(view: SearcherView, query: tantivy.Query) -> Rows | None:
    """Return the rows that tantivy marks when it deletes what matches, or None if the marks are not
    reliable.
    """
    try:
        with tempfile.TemporaryDirectory(prefix="indextables-rows-", dir=_memory_folder()) as made:
            return _mark(view, query, Path(made))
    except (OSError, ValueError):
        return None


def _memory_folder() -> str | None:
    """Return a folder in memory, because tantivy syncs its writes and a disk would delay it."""
    if os.access(_MEMORY, os.W_OK):
        return _MEMORY
    return None


def _mark(view: SearcherView, query: tantivy.Query, scratch: Path) -> Rows | None:
    if len(_link(view.folder, scratch).get("segments", [])) != 1:
        return None
    index = tantivy.Index.open(str(scratch))
    writer = index.writer(_WRITER_HEAP_BYTES, 1)
    writer.delete_documents_by_query(query)
    writer.commit()
    writer.wait_merging_threads()
    after = json.loads((scratch / "meta.json").read_text(encoding="utf-8"))["segments"]
    if len(after) != 1 or after[0].get("deletes") is None:
        return None
    name = f"{after[0]['segment_id'].replace('-', '')}.{after[0]['deletes']['opstamp']}.del"
    return _read_deleted(scratch / name, int(after[0]["max_doc"]))


def _link(folder: Path, scratch: Path) -> dict[str, list[dict[str, object]]]:
    """Fill a scratch folder with links to an index and return its metadata."""
    for entry in os.scandir(folder):
        if not entry.name.startswith(".") and entry.name != "meta.json":
            (scratch / entry.name).symlink_to(Path(entry.path).resolve())
    found = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
    if not isinstance(found, dict):
        raise BadFileError(f"The index in {folder} has a garbled meta.json.", path=str(folder))
    for segment in found.get("segments", []):
        segment["deletes"] = None  # what is deleted already would be marked as well
    (scratch / "meta.json").write_text(json.dumps(found), encoding="utf-8")
    return found


def _read_deleted(path: Path, num_docs: int) -> Rows | None:
    """Return the deleted documents of a file of living documents: their number, then words of 64
    bits.
    """
    raw = np.fromfile(path, np.uint8)
    words = (num_docs + 63) // 64 * 8
    if (
        len(raw) < 4 + words
        or int(raw[:4].view("<u4")[0]) != num_docs
        or not _known_format(raw[4 + words :].tobytes())
    ):
        return None
    dead = np.unpackbits(~raw[4 : 4 + words], count=num_docs, bitorder="little")
    return np.flatnonzero(dead.view(np.bool_)).astype(np.int64, copy=False)


def _known_format(footer: bytes) -> bool:
    """Return whether a file's footer names a format that this module can read."""
    try:
        text = footer[: int.from_bytes(footer[-8:-4], "little")]
        return bool(json.loads(text)["version"]["index_format_version"] == INDEX_FORMAT)
    except (ValueError, KeyError, TypeError):
        return False

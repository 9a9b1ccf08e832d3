"""Read and write the deletion vectors of a table, in the log's text or in files.

All vectors of one commit that are too large for the log are in one file. Only the requested vector
of a file is read, and its checksum verified. Rows are cached by the position of their vector,
because files never change.
"""

from __future__ import annotations

import os
import threading
import uuid
from collections import OrderedDict
from collections.abc import Callable, Sequence

from indextables.errors import BadFileError, NotFoundError
from indextables.model.deletion_vector import (
    VECTOR_FOLDER,
    VECTOR_SUFFIX,
    RowSet,
    VectorPlace,
    inline_rows,
    vectors_of,
)
from indextables.storage.store import PutOutcome, Store

_MOST_BYTES = 32 << 20
_known: OrderedDict[tuple[str, str], RowSet] = OrderedDict()
_lock = threading.Lock()


def _renew_lock() -> None:
    """Replace the locks in a forked child, because a thread of the parent may hold them forever."""
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_renew_lock)


def load_vector(
    store: Store, vector: str, *, records: int | None = None, fresh: bool = False
) -> RowSet:
    """Return the rows of a vector in the log. Raises BadFileError if it is damaged, missing, or of
    another row count.

    With `fresh` it is read from the store, ignoring the cache.
    """
    place = VectorPlace.of(vector)
    if place is None:
        rows = inline_rows(vector)
    else:
        rows = _from_file(store, place, fresh=fresh)
    if records is not None and len(rows) != records:
        if place is None:
            name = "a deletion vector of the log"
        else:
            name = str(place)
        raise BadFileError(
            f"The deletion vector {name} names {len(rows)} rows; the log says {records}.",
            path=store.url,
            vector=vector,
        )
    return rows


def _from_file(store: Store, place: VectorPlace, *, fresh: bool) -> RowSet:
    key = store.url, str(place)
    with _lock:
        known = None if fresh else _known.get(key)
        if known is not None:
            _known.move_to_end(key)
            return known
    try:
        rows = place.rows(store.get_range(place.path, *place.span))
    except NotFoundError as gone:
        raise BadFileError(
            f"{place.path}, which says which rows are deleted, is gone from {store.url}.",
            path=place.path,
        ) from gone
    rows.setflags(write=False)
    with _lock:
        _known[key] = rows
        while sum(each.nbytes for each in _known.values()) > _MOST_BYTES and len(_known) > 1:
            _known.popitem(last=False)
    return rows


class VectorWriter:
    """Writes the vectors of one commit, and keeps the list for a commit that fails.

    `written` are files that workers have written for the same commit.
    """

    def __init__(
        self,
        store: Store,
        new_name: Callable[[], str] = lambda: uuid.uuid4().hex,
        written: Sequence[str] = (),
    ) -> None:
        self.store = store
        self.written: list[str] = list(written)
        self._new_name = new_name
        self._last: tuple[list[bytes], list[str]] = ([], [])

    def load(self, vector: str | None, records: int | None = None) -> RowSet | None:
        """Return the rows of a vector; None without a vector."""
        if vector is None:
            return None
        return load_vector(self.store, vector, records=records)

    def save(self, sets: Sequence[RowSet]) -> list[str]:
        """Return the vectors as texts of the log in order, writing a file if some are too large."""
        same = [rows.tobytes() for rows in sets]
        if same and same == self._last[0]:
            return self._last[1]  # others were first, but not with rows of these splits
        path = f"{VECTOR_FOLDER}/vectors-{self._new_name()}{VECTOR_SUFFIX}"
        texts, body = vectors_of(sets, path)
        if body:
            self.written.append(path)
            created = self.store.put_if_absent(path, body) is PutOutcome.CREATED
            if (
                not created and self.store.get(path) != body
            ):  # a request that was answered twice, or not at all
                raise BadFileError(f"Another file lies at {path} of {self.store.url}.", path=path)
        self._last = same, texts
        return texts

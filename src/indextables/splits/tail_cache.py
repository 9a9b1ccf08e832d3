"""The end of a split, read as seldom as possible: kept decoded in memory, and on disk for a remote split."""

from __future__ import annotations

import hashlib

from indextables.errors import BadFileError
from indextables.splits.cache import SplitCache
from indextables.splits.seal import check_seal
from indextables.splits.source import SplitSource
from indextables.splits.tail import SplitTail, decode_tail, read_tail


def open_tail(source: SplitSource, footer_start: int | None, cache: SplitCache) -> SplitTail:
    """The proven end of a split. A split never changes, so what was proven once is used again for the same file."""
    known = cache.tails.get(source.identity)
    if isinstance(known, SplitTail) and footer_start in (None, known.footer_start):
        return known
    tail = _from_disk(source, footer_start, cache) if source.remote and footer_start is not None else None
    if tail is None:
        tail = read_tail(source, footer_start)
        if source.remote:
            cache.keep(_key(source, tail.footer_start), tail.data)
    cache.tails.put(source.identity, tail, len(tail.data))
    return tail


def _from_disk(source: SplitSource, footer_start: int, cache: SplitCache) -> SplitTail | None:
    data = cache.read(_key(source, footer_start))
    if data is None or len(data) != source.size - footer_start:
        return None
    try:
        check_seal(data, footer_start=footer_start, path=source.path)
    except BadFileError:
        return None
    return decode_tail(data, footer_start, source.path)


def _key(source: SplitSource, footer_start: int) -> str:
    return f"tail-{hashlib.sha256(f'{source.identity}:{footer_start}'.encode()).hexdigest()[:40]}"

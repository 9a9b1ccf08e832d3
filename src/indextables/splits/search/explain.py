"""What one split did for a query: how each part was answered, what matched, what was read. For `explain`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from indextables.model.predicate import Predicate
from indextables.model.report import plain
from indextables.splits.query.tree import Leaf, Query, leaves
from indextables.splits.read.searchable import Searchable
from indextables.splits.search.match import OpenQuery, open_query


class LeafReport(Struct, frozen=True):
    """One part of a query and who answered it."""

    part: str
    answered_by: str


class SplitExplanation(Struct, frozen=True):
    """One split's share of a search, as plain values."""

    path: str
    rows: int
    matched: int
    rows_looked_at: int
    requests: int
    bytes_read: int
    answered_by: str
    parts: tuple[LeafReport, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The report as plain values."""
        told: dict[str, Any] = plain(self)
        return told


INDEX, BOTH, ROWS = "index", "index, confirmed by rows", "rows"


def explain_split(
    split: Searchable, query: Query, *, where: Predicate | None = None, columns: Sequence[str] | None = None
) -> SplitExplanation:
    """Run a query and say what it took; with `columns`, reading them for the rows that matched is part of it."""
    requests, read = split.stats.requests, split.stats.bytes
    with open_query(split, query) as opened:
        rows = opened.rows(where)
        parts = tuple(LeafReport(str(leaf), _answered(opened, leaf)) for leaf in dict.fromkeys(leaves(query)))
        way = _way(split, parts, opened.rows_read)
        if columns is not None and len(rows):
            everything = len(rows) == split.num_rows
            for _ in split.iter_rows(None if everything else rows, columns=columns):
                pass
        looked_at = opened.rows_read
    return SplitExplanation(
        path=split.path,
        rows=split.num_rows,
        matched=len(rows),
        rows_looked_at=looked_at,
        requests=split.stats.requests - requests,
        bytes_read=split.stats.bytes - read,
        answered_by=way,
        parts=parts,
    )


def _answered(opened: OpenQuery, leaf: Leaf) -> str:
    answer = opened.ask(leaf)
    if answer is None:
        return ROWS
    return INDEX if answer.exact else BOTH


def _way(split: Searchable, parts: Sequence[LeafReport], rows_read: int) -> str:
    if not split.indexed:
        return "rows (the split has no index)"
    if any(part.answered_by != ROWS for part in parts):
        return BOTH if rows_read else INDEX
    return ROWS if rows_read else INDEX

"""Live splits as sources of new ones: by partition, the oldest first."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

import pyarrow as pa

from indextables.errors import BadFileError
from indextables.splits.live_indexing import Disputes
from indextables.splits.mapping import DocMapping
from indextables.upkeep.rewriting import SourceSplit

T = TypeVar("T")
ListedSplit = tuple[tuple[tuple[str, str | None], ...], SourceSplit]
"""The partition of a split, as sorted pairs of column and value, and the split."""
_COLUMNS = [
    *("path", "size", "num_records", "footer_start_offset", "num_merge_ops", "split_tags", "modification_time"),
    "partition_values",
]


def source_splits(files: pa.Table, registry: Mapping[str, str], disputes: Disputes | None = None) -> list[ListedSplit]:
    """The splits of a file list. `registry` holds the doc mappings that they may name."""
    found: list[ListedSplit] = []
    columns = (files.column(name).to_pylist() for name in _COLUMNS)
    sides = by_mapping(files, registry, disputes.side, "") if disputes else [""] * files.num_rows
    for path, size, records, footer, merges, tags, modified, values, odd, side in zip(
        *columns, to_be_rewritten(files, registry, disputes), sides, strict=True
    ):
        source = SourceSplit(path, size, records, footer, merges or 0, tuple(tags or ()), modified or 0, odd, side)
        found.append((tuple(sorted(values or [])), source))
    return sorted(found, key=lambda f: (_order(f[0]), f[1].modification_time, f[1].path))


def are_foreign(files: pa.Table, registry: Mapping[str, str]) -> list[bool]:
    """Which of the splits another engine wrote, by their doc mappings; one without is taken for ours."""
    return by_mapping(files, registry, _is_foreign, False)


def to_be_rewritten(files: pa.Table, registry: Mapping[str, str], disputes: Disputes | None) -> list[bool]:
    """Which of the splits a merge writes anew even if they stand alone: another engine's, and wrongly indexed ones."""
    wrong = disputes.is_wrong if disputes is not None else lambda _: False
    return by_mapping(files, registry, lambda text: _is_foreign(text) or wrong(text), False)


def by_mapping(files: pa.Table, registry: Mapping[str, str], told: Callable[[str], T], otherwise: T) -> list[T]:
    """What the doc mapping of each split tells.

    Every mapping is looked at once, however many splits share it: a mapping is large, and a table has few of them.
    """
    named = {ref: told(text) for ref, text in registry.items()}
    found = [named.get(ref, otherwise) for ref in files.column("doc_mapping_ref").to_pylist()]
    at = 0
    for chunk in files.column("doc_mapping_json").chunks:
        inline = chunk.dictionary_encode()
        own = [told(text) for text in inline.dictionary.to_pylist()]
        for row, mapping in enumerate(inline.indices.to_pylist(), start=at):
            found[row] = found[row] if mapping is None else own[mapping]
        at += len(chunk)
    return found


def _is_foreign(mapping: str) -> bool:
    try:
        DocMapping.from_json(mapping)
    except BadFileError:
        return True
    return False


def _order(values: tuple[tuple[str, str | None], ...]) -> list[tuple[str, bool, str]]:
    return [(name, value is not None, value or "") for name, value in values]

"""Live splits as sources of new ones: by partition, the oldest first."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from indextables.errors import BadFileError
from indextables.splits.mapping import DocMapping
from indextables.upkeep.rewriting import SourceSplit

ListedSplit = tuple[tuple[tuple[str, str | None], ...], SourceSplit]
"""The partition of a split, as sorted pairs of column and value, and the split."""
_COLUMNS = [
    *("path", "size", "num_records", "footer_start_offset", "num_merge_ops", "split_tags", "modification_time"),
    "partition_values",
]


def source_splits(files: pa.Table, registry: Mapping[str, str]) -> list[ListedSplit]:
    """The splits of a file list. `registry` holds the doc mappings that they may name."""
    found: list[ListedSplit] = []
    columns = (files.column(name).to_pylist() for name in _COLUMNS)
    for path, size, records, footer, merges, tags, modified, values, foreign in zip(
        *columns, are_foreign(files, registry), strict=True
    ):
        source = SourceSplit(path, size, records, footer, merges or 0, tuple(tags or ()), modified or 0, foreign)
        found.append((tuple(sorted(values or [])), source))
    return sorted(found, key=lambda f: (_order(f[0]), f[1].modification_time, f[1].path))


def are_foreign(files: pa.Table, registry: Mapping[str, str]) -> list[bool]:
    """Which of the splits another engine wrote, by their doc mappings; one without is taken for ours.

    Every mapping is looked at once, however many splits share it: a mapping is large, and a table has few of them.
    """
    named = {ref: _is_foreign(text) for ref, text in registry.items()}
    found = [named.get(ref, False) for ref in files.column("doc_mapping_ref").to_pylist()]
    at = 0
    for chunk in files.column("doc_mapping_json").chunks:
        inline = chunk.dictionary_encode()
        own = [_is_foreign(text) for text in inline.dictionary.to_pylist()]
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

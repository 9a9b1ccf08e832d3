"""Live splits as sources of new ones: by partition, the oldest first."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import pyarrow as pa

from indextables.errors import BadFileError
from indextables.model.schema_registry import restored
from indextables.splits.mapping import DocMapping
from indextables.upkeep.rewriting import SourceSplit

ListedSplit = tuple[tuple[tuple[str, str | None], ...], SourceSplit]
"""The partition of a split, as sorted pairs of column and value, and the split."""
_COLUMNS = [
    *("path", "size", "num_records", "footer_start_offset", "num_merge_ops", "split_tags", "modification_time"),
    *("partition_values", "doc_mapping_json", "doc_mapping_ref"),
]


def source_splits(files: pa.Table, registry: Mapping[str, str]) -> list[ListedSplit]:
    """The splits of a file list. `registry` holds the doc mappings that they may name."""
    known = restored(files.select(_COLUMNS), registry)
    found: list[ListedSplit] = []
    for path, size, records, footer, merges, tags, modified, values, mapping, _ in zip(
        *(known.column(name).to_pylist() for name in _COLUMNS), strict=True
    ):
        source = SourceSplit(
            path, size, records, footer, merges or 0, tuple(tags or ()), modified or 0, is_foreign(mapping)
        )
        found.append((tuple(sorted(values or [])), source))
    return sorted(found, key=lambda f: (_order(f[0]), f[1].modification_time, f[1].path))


@lru_cache(maxsize=64)
def is_foreign(mapping: str | None) -> bool:
    """Whether a doc mapping in the log is another engine's. A split without one is taken for ours."""
    if mapping is None:
        return False
    try:
        DocMapping.from_json(mapping)
    except BadFileError:
        return True
    return False


def _order(values: tuple[tuple[str, str | None], ...]) -> list[tuple[str, bool, str]]:
    return [(name, value is not None, value or "") for name, value in values]

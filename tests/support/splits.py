"""Splits for tests: generated rows, written to a file the way a table writes them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import tantivy

from indextables.config.indexing import IndexingSettings
from indextables.config.splits import SplitWriterSettings
from indextables.splits.format.source import LocalSource
from indextables.splits.index.mapping import DocMapping
from indextables.splits.read.cache import SplitCache
from indextables.splits.read.reader import SplitReader
from indextables.splits.write.writer import write_splits

WORDS = ("timeout", "from", "remote", "host", "retry", "login", "failed", "disk", "full", "cache")
TEXT = {"message": "text"}
SCRATCH = SplitWriterSettings(temp_directory="/dev/shm" if Path("/dev/shm").is_dir() else "")
"""Writers that build in memory where there is such a folder: tantivy waits for the disk at every
commit.
"""


def log_rows(count: int, *, seed: int = 0) -> pa.Table:
    """Generated log lines: a time, keywords with nulls, a full-text message, numbers."""
    rng = np.random.default_rng(seed)
    words = np.array(WORDS)[rng.integers(0, len(WORDS), (count, 6))]
    hosts = [None if n == 0 else f"host-{n:02d}" for n in rng.integers(0, 20, count)]
    return pa.table(
        {
            "ts": pa.array(
                1_700_000_000_000_000 + np.arange(count) * 1_000_003, pa.timestamp("us", "UTC")
            ),
            "level": pa.array(np.array(["INFO", "WARN", "ERROR"])[rng.integers(0, 3, count)]),
            "host": pa.array(hosts, pa.string()),
            "message": pa.array([f"{' '.join(w)} n{i}" for i, w in enumerate(words)]),
            "latency": pa.array(rng.exponential(30, count)),
        }
    )


def mapping_of(schema: pa.Schema, typemap: Mapping[str, str] = TEXT) -> DocMapping:
    """The mapping of a schema, with the typemap's columns as far as the schema has them."""
    known = {name: kind for name, kind in typemap.items() if name in schema.names}
    return DocMapping.from_settings(schema, IndexingSettings(typemap=known))


@contextmanager
def old_splits() -> Iterator[None]:
    """Within it, splits are written as release 0.1.0 wrote them: small row groups of one page, and
    no page table.
    """
    parquet = "indextables.splits.format.parquet"
    with (
        patch(f"{parquet}.ROW_GROUP_ROWS", 8_192),
        patch(f"{parquet}.PAGE_ROWS", 20_000),
        patch(f"{parquet}.PAGE_BYTES", 1 << 20),
        patch("indextables.splits.format.container.page_table", lambda *_: b""),
    ):
        yield


@contextmanager
def small_pages(rows: int, *, group_rows: int = 131_072) -> Iterator[None]:
    """Within it, pages have so few rows that small splits have many of them."""
    parquet = "indextables.splits.format.parquet"
    with (
        patch(f"{parquet}.ROW_GROUP_ROWS", group_rows),
        patch(f"{parquet}.PAGE_ROWS", rows),
        patch("indextables.splits.read.page_rows.PAGE_ROWS", rows),
    ):
        yield


def write_file(
    table: pa.Table,
    path: Path,
    *,
    typemap: Mapping[str, str] = TEXT,
    settings: SplitWriterSettings | None = None,
) -> Path:
    """Write rows as exactly one split at a path."""
    mapping = mapping_of(table.schema, typemap)
    splits = write_splits(table.to_batches(), table.schema, mapping, settings=settings or SCRATCH)
    count = 0
    for split in splits:
        count += 1
        path.write_bytes(split.path.read_bytes())
    assert count == 1
    return path


def open_file(path: Path, cache: SplitCache | None = None) -> SplitReader:
    """Open a local split with a cache of its own beside it."""
    return SplitReader.open(
        LocalSource(path), cache=cache or SplitCache(path.parent / "cache", 1 << 30)
    )


def term_rows(reader: SplitReader, column: str, term: str) -> list[int]:
    """The rows that hold a term, by the index."""
    found = reader.mapping.find(column)
    assert found is not None
    with reader.open_index([found.field]) as view:
        query = tantivy.Query.term_query(view.index.schema, found.field, term, index_option="basic")
        hits = view.index.searcher().search(query, limit=max(reader.num_rows, 1)).hits
        return sorted(address.doc for _, address in hits)


def rows_with(values: Iterable[str | None], word: str) -> list[int]:
    """The rows whose text has a word, by looking."""
    return [row for row, value in enumerate(values) if value is not None and word in value.split()]

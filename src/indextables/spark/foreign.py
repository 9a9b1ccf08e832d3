"""Telling our splits, which are Parquet files, from the bundles of other engines, which Spark cannot read."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from indextables.splits.table_split import SplitEntry
from indextables.storage.spec import StoreSpec, open_store
from indextables.table import Table

_MAGIC = b"PAR1"
_THREADS = 16


def parquet_splits(table: Table, files: pa.Table) -> pa.BooleanArray:
    """Which files are Parquet. The log tells for those that we wrote; of the others the last bytes are read."""
    ours = pc.fill_null(pc.match_substring(files["stats"], '"nullCount"'), False).to_numpy()
    doubtful = np.flatnonzero(~ours)
    if len(doubtful) == 0:
        return pa.array(ours)
    store = open_store(StoreSpec.from_url(table.path, table.settings))
    paths = files["path"].take(doubtful).to_pylist()
    sizes = files["size"].take(doubtful).to_pylist()

    def ends_as_parquet(path: str, size: int) -> bool:
        return size > 2 * len(_MAGIC) and store.get_range(path, size - len(_MAGIC), len(_MAGIC)) == _MAGIC

    with ThreadPoolExecutor(_THREADS) as pool:
        told = list(pool.map(ends_as_parquet, paths, sizes))
    found = ours.copy()
    found[doubtful] = told
    return pa.array(found)


def splits_of_kind(table: Table, splits: Sequence[SplitEntry], kind: str) -> list[SplitEntry]:
    """Those of some splits that are `parquet`, or those that are `foreign`."""
    files = table.files()
    ours = set(files["path"].filter(parquet_splits(table, files)).to_pylist())
    return [entry for entry in splits if (entry.path in ours) == (kind == "parquet")]

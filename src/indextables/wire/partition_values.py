"""Partition values of a file list: nulls, which travel beside the map of texts, and what other writers mean by theirs."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from indextables.model.partition_text import NULL_PARTITION, meant

_TEXT_MAP = pa.map_(pa.string(), pa.string())
_DOUBTFUL = re.compile(b"%|" + NULL_PARTITION.encode())


def columns_without_value(maps: Any) -> Any:
    """Per row the keys whose value is null, or null where there is none."""
    rows, keys, values = _entries(maps)
    missing = values.is_null()
    where = rows[missing.to_numpy(zero_copy_only=False)]
    if not len(where):
        return pa.nulls(len(maps), pa.list_(pa.string()))
    counts = np.bincount(where, minlength=len(maps))
    lists = pa.ListArray.from_arrays(_offsets(counts), keys.filter(missing))
    return pc.if_else(pa.array(counts > 0), lists, pa.scalar(None, lists.type))


def with_null_values(maps: Any, columns: Any) -> Any:
    """The maps with a null entry for each named column: the inverse of `columns_without_value`."""
    if columns.null_count == len(columns):
        return maps
    rows, keys, values = _entries(maps)
    missing = columns.flatten()
    missing_rows = pc.list_parent_indices(columns).to_numpy(zero_copy_only=False)
    order = np.argsort(np.concatenate([rows, missing_rows]), kind="stable")
    all_keys = pa.concat_arrays([keys, missing]).take(pa.array(order))
    all_values = pa.concat_arrays([values, pa.nulls(len(missing), pa.string())]).take(pa.array(order))
    counts = np.bincount(rows, minlength=len(maps)) + np.bincount(missing_rows, minlength=len(maps))
    return pa.MapArray.from_arrays(_offsets(counts), all_keys, all_values, type=_TEXT_MAP)


def as_meant(maps: Any, paths: Callable[[], Any], bounds: Callable[[], tuple[Any, Any]]) -> Any:
    """The maps with the values that their entries mean; paths and bounds are read only where a value is doubtful."""
    letters = maps.items.buffers()[2]
    # Almost no table has such a value, and a search cannot afford to load what finds it.
    if letters is None or not _DOUBTFUL.search(letters):
        return maps
    rows, keys, values = _entries(maps)
    doubtful = pc.or_(pc.match_substring(values, "%"), pc.equal(values, NULL_PARTITION))
    places = np.flatnonzero(pc.fill_null(doubtful, False).to_numpy(zero_copy_only=False))
    if not len(places):
        return maps
    wanted = pa.array(np.unique(rows[places]))
    lows, highs = (column.take(wanted).to_pylist() for column in bounds())
    known = zip(paths().take(wanted).to_pylist(), maps.take(wanted).to_pylist(), lows, highs, strict=True)
    told = {
        row: meant(path, dict(own), dict(low or ()), dict(high or ()))
        for row, (path, own, low, high) in zip(wanted.to_pylist(), known, strict=True)
    }
    names = keys.take(pa.array(places)).to_pylist()
    right = [told[int(row)][name] for row, name in zip(rows[places], names, strict=True)]
    mask = np.zeros(len(values), np.bool_)
    mask[places] = True
    changed = pc.replace_with_mask(values, pa.array(mask), pa.array(right, pa.string()))
    counts = np.bincount(rows, minlength=len(maps))
    return pa.MapArray.from_arrays(_offsets(counts), keys, changed, type=_TEXT_MAP)


def _entries(maps: Any) -> tuple[np.ndarray[Any, Any], Any, Any]:
    """Row number, key and value of every entry."""
    offsets = maps.offsets.to_numpy(zero_copy_only=False).astype(np.int64)
    first, length = int(offsets[0]), int(offsets[-1] - offsets[0])
    rows = np.repeat(np.arange(len(maps)), np.diff(offsets))
    return rows, maps.keys.slice(first, length), maps.items.slice(first, length)


def _offsets(counts: np.ndarray[Any, Any]) -> Any:
    return pa.array(np.concatenate([[0], np.cumsum(counts)]).astype(np.int32))

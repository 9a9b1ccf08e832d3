"""The file list: the live splits of a table as one Arrow table, converted from and to AddActions.

The conversion is column by column: 100,000 files take milliseconds, not seconds.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from itertools import accumulate, chain, pairwise
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from indextables.model.actions import AddAction

_TEXT_MAP = pa.map_(pa.string(), pa.string())
_TEXTS = pa.list_(pa.string())

FILE_SCHEMA = pa.schema(
    [
        pa.field("path", pa.string(), nullable=False),
        pa.field("partition_values", _TEXT_MAP),
        pa.field("size", pa.int64(), nullable=False),
        pa.field("modification_time", pa.int64()),
        pa.field("data_change", pa.bool_()),
        pa.field("stats", pa.string()),
        pa.field("tags", _TEXT_MAP),
        pa.field("min_values", _TEXT_MAP),
        pa.field("max_values", _TEXT_MAP),
        pa.field("num_records", pa.int64()),
        pa.field("footer_start_offset", pa.int64()),
        pa.field("footer_end_offset", pa.int64()),
        pa.field("hotcache_start_offset", pa.int64()),
        pa.field("hotcache_length", pa.int64()),
        pa.field("has_footer_offsets", pa.bool_()),
        pa.field("time_range_start", pa.string()),
        pa.field("time_range_end", pa.string()),
        pa.field("split_tags", _TEXTS),
        pa.field("delete_opstamp", pa.int64()),
        pa.field("num_merge_ops", pa.int32()),
        pa.field("doc_mapping_json", pa.string()),
        pa.field("doc_mapping_ref", pa.string()),
        pa.field("uncompressed_size_bytes", pa.int64()),
        pa.field("added_at_version", pa.int64()),
        pa.field("added_at_timestamp", pa.int64()),
        pa.field("companion_source_files", _TEXTS),
        pa.field("companion_delta_version", pa.int64()),
        pa.field("companion_fast_field_mode", pa.string()),
        pa.field("deletion_vector", pa.string()),
        pa.field("deleted_records", pa.int64()),
        pa.field("unknown", pa.string()),
    ]
)
"""The column `unknown` holds, as JSON, the fields of the action that this release does not know."""


_WIDEST = 100
"""Maximum number of map keys for which code is generated."""
_ACTION_FIELDS = [f.name for f in msgspec.structs.fields(AddAction)]
_DEFAULTS = {name: getattr(AddAction(path="", size=0), name) for name in FILE_SCHEMA.names}


def empty_file_list() -> pa.Table:
    """Return a file list without files."""
    return FILE_SCHEMA.empty_table()


def from_actions(actions: Sequence[AddAction]) -> pa.Table:
    """Return the file list of these actions, in order."""
    if not actions:
        return empty_file_list()
    values = dict(
        zip(_ACTION_FIELDS, zip(*map(msgspec.structs.astuple, actions), strict=True), strict=True)
    )
    return pa.table(
        [_array(field, values[field.name]) for field in FILE_SCHEMA], schema=FILE_SCHEMA
    )


def _array(field: pa.Field, values: Sequence[Any]) -> pa.Array:
    if field.name == "unknown":
        values = [msgspec.json.encode(v).decode() if v else None for v in values]
    if values.count(None) == len(values):
        return pa.nulls(len(values), field.type)
    if pa.types.is_map(field.type):
        return _map_array(values, field.type)
    if pa.types.is_list(field.type):
        return _list_array(values, field.type)
    return pa.array(values, field.type)


def to_actions(files: pa.Table) -> list[AddAction]:
    """Return the rows of a file list as actions, in order. Absent or empty columns get their
    default.
    """
    columns: dict[str, list[Any]] = {}
    with _no_collection():
        for field in FILE_SCHEMA:
            if field.name not in files.column_names:
                continue
            array = _one_array(files.column(field.name), field.type)
            if len(array) == 0 or array.null_count < len(array):
                columns[field.name] = _values(array)
        return _add_actions(columns)


def _add_actions(columns: dict[str, list[Any]]) -> list[AddAction]:
    if "unknown" in columns:
        columns["unknown"] = [
            msgspec.json.decode(text) if text else {} for text in columns["unknown"]
        ]
    if not columns:
        return []
    for name in ("data_change", "has_footer_offsets", "modification_time"):
        if name in columns and None in columns[name]:
            columns[name] = [_DEFAULTS[name] if value is None else value for value in columns[name]]
    return _action_maker(tuple(columns))(zip(*columns.values(), strict=True))


# A keyword call whose keywords stand in the code takes a third of the time of one that unpacks a
# dictionary for each file, and a dictionary whose keys do takes half: 100,000 files are 300,000
# dictionaries. The texts below hold names of this module alone, never a value of a file.


@lru_cache(maxsize=256)
def _action_maker(names: tuple[str, ...]) -> Callable[[Iterable[tuple[Any, ...]]], list[AddAction]]:
    """Return a constructor of actions from rows of these columns."""
    keywords = ", ".join(f"{name}={name}" for name in names)
    code = f"lambda rows: [AddAction({keywords}) for {', '.join(names)}, in rows]"
    make: Callable[[Iterable[tuple[Any, ...]]], list[AddAction]] = eval(
        code, {"AddAction": AddAction}
    )
    return make


@lru_cache(maxsize=256)
def _dict_maker(width: int) -> Callable[..., list[dict[str, Any]]]:
    """Return a constructor of dictionaries from rows of this many values; the keys are passed after
    the rows.
    """
    keys, values = [f"k{n}" for n in range(width)], [f"v{n}" for n in range(width)]
    items = ", ".join(f"{key}: {value}" for key, value in zip(keys, values, strict=True))
    code = f"lambda rows, {', '.join(keys)}: [{{{items}}} for {', '.join(values)}, in rows]"
    make: Callable[..., list[dict[str, Any]]] = eval(code, {})
    return make


@contextmanager
def _no_collection() -> Iterator[None]:
    """Disable the garbage collector: millions of new dictionaries would trigger it repeatedly, and
    none is garbage.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _one_array(column: Any, kind: pa.DataType) -> pa.Array:
    array = column.combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        if array.num_chunks:
            return pa.concat_arrays(array.chunks)
        return pa.array([], kind)
    return array


def _values(array: pa.Array) -> list[Any]:
    if pa.types.is_map(array.type):
        return _maps(array)
    if pa.types.is_list(array.type):
        texts, starts = _texts(array.values), array.offsets.to_numpy().tolist()
        return _with_nulls(array, [tuple(texts[s:e]) for s, e in pairwise(starts)])
    if array.null_count == 0 or pa.types.is_string(array.type):
        return _texts(array)
    return list(array.to_pylist())


def _texts(array: pa.Array) -> list[Any]:
    """Return a plain column as Python values through numpy, which creates strings much faster."""
    return list(array.to_numpy(zero_copy_only=False).tolist())


def _maps(array: pa.Array) -> list[Any]:
    offsets = array.offsets.to_numpy()
    first, last = int(offsets[0]), int(offsets[-1])
    keys = array.keys.slice(first, last - first).dictionary_encode()
    values = _texts(array.items.slice(first, last - first))
    names, codes = keys.dictionary.to_pylist(), keys.indices.to_numpy()
    width = (last - first) // len(array) if len(array) else 0
    if (
        width
        and (np.diff(offsets) == width).all()
        and (codes.reshape(-1, width) == codes[:width]).all()
    ):
        shared = [names[code] for code in codes[:width]]
        rows = zip(*[iter(values)] * width, strict=True)
        if width <= _WIDEST:
            return _dict_maker(width)(rows, *shared)
        return [dict(zip(shared, row, strict=False)) for row in rows]
    key_texts = [names[code] for code in codes.tolist()]
    starts = (offsets - first).tolist()
    maps = [dict(zip(key_texts[s:e], values[s:e], strict=False)) for s, e in pairwise(starts)]
    return _with_nulls(array, maps)


def _with_nulls(array: pa.Array, values: list[Any]) -> list[Any]:
    if array.null_count == 0:
        return values
    return [
        value if ok else None
        for value, ok in zip(values, array.is_valid().to_pylist(), strict=True)
    ]


def _map_array(values: Sequence[Mapping[str, str | None] | None], kind: pa.DataType) -> pa.Array:
    present = [v for v in values if v]
    keys = pa.array(list(chain.from_iterable(present)), pa.string())
    items = pa.array(list(chain.from_iterable(v.values() for v in present)), pa.string())
    return pa.MapArray.from_arrays(_offsets(values), keys, items, type=kind)


def _list_array(values: Sequence[Sequence[str] | None], kind: pa.DataType) -> pa.Array:
    flat = pa.array(list(chain.from_iterable(v for v in values if v)), pa.string())
    return pa.ListArray.from_arrays(_offsets(values), flat, type=kind)


def _offsets(values: Sequence[Sequence[Any] | Mapping[str, Any] | None]) -> pa.Array:
    """Return the offsets of a list array. A null offset marks a null list and must not be the last
    one.
    """
    lists = [v for v in values if v is not None]
    if len(lists) == len(values):
        return pa.array(list(accumulate(map(len, lists), initial=0)), pa.int32())
    ends = list(accumulate((len(v) if v else 0 for v in values), initial=0))
    starts: list[int | None] = [
        None if v is None else s for v, s in zip(values, ends, strict=False)
    ]
    return pa.array([*starts, ends[-1]], pa.int32())

"""File lists to test with: every kind of value, every null, and the corners in between."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from indextables.model.file_list import FILE_SCHEMA

_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
_LONGS = st.integers(-(2**63), 2**63 - 1)
_MAPS = st.dictionaries(_TEXTS, _TEXTS, max_size=4).map(lambda d: list(d.items()))


def _values(field: pa.Field) -> st.SearchStrategy[Any]:
    if field.name == "partition_values":
        return st.dictionaries(_TEXTS, st.none() | _TEXTS, max_size=3).map(
            lambda d: sorted(d.items(), key=_nulls_last)
        )
    if field.name == "unknown":
        return st.none() | st.just('{"later":1}')
    if field.name in ("data_change", "has_footer_offsets"):
        return st.booleans()
    if field.name in ("modification_time", "added_at_version", "added_at_timestamp", "size"):
        return _LONGS
    if pa.types.is_map(field.type):
        return st.none() | _MAPS
    if pa.types.is_list(field.type):
        return st.none() | st.lists(_TEXTS, max_size=4)
    if pa.types.is_int32(field.type):
        return st.none() | st.integers(-(2**31), 2**31 - 1)
    return (
        (_TEXTS if field.name == "path" else st.none() | _TEXTS)
        if pa.types.is_string(field.type)
        else _LONGS
    )


def _nulls_last(entry: tuple[str, str | None]) -> bool:
    return entry[1] is None


@st.composite
def file_lists(draw: st.DrawFn, max_size: int = 8) -> pa.Table:
    """Any file list, in as many chunks as it pleases."""
    rows = draw(
        st.lists(
            st.fixed_dictionaries({f.name: _values(f) for f in FILE_SCHEMA}), max_size=max_size
        )
    )
    whole = pa.Table.from_pylist(rows, schema=FILE_SCHEMA)
    cut = draw(st.integers(0, whole.num_rows))
    return pa.concat_tables([whole.slice(0, cut), whole.slice(cut)])


def plain_files(count: int, *, first: int = 0) -> pa.Table:
    """Files as a table usually has them."""
    rows = [
        {
            "path": f"day={i % 3}/splits/split-{i:08x}.split",
            "partition_values": [("day", str(i % 3))],
            "size": 1000 + i,
            "modification_time": 1_700_000_000_000 + i,
            "data_change": True,
            "min_values": [("id", str(i)), ("text", "a")],
            "max_values": [("id", str(i + 9)), ("text", "zebra")],
            "num_records": 10,
            "has_footer_offsets": False,
            "added_at_version": i // 10,
            "added_at_timestamp": 1_700_000_000_000 + i,
        }
        for i in range(first, first + count)
    ]
    return pa.Table.from_pylist(rows, schema=FILE_SCHEMA)

"""Sorting entries by partition: the same rows in order, whether they fit into one group or not."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indextables.log.checkpoint.manifests import EntrySorter
from indextables.model.actions import AddAction, MetadataAction
from indextables.model.file_list import from_actions
from indextables.model.schema import schema_to_json

SCHEMA = pa.schema([("month", pa.int32()), ("region", pa.string()), ("x", pa.int64())])
METADATA = MetadataAction(
    id="t", schema_string=schema_to_json(SCHEMA), partition_columns=("month", "region")
)
KEYS = st.tuples(st.none() | st.integers(1, 12), st.none() | st.sampled_from("ab"))


def part(keys: Sequence[tuple[int | None, str | None]], name: int) -> pa.Table:
    return from_actions(
        [
            AddAction(
                path=f"{name}-{n}",
                size=1,
                partition_values={"month": None if month is None else str(month), "region": region},
            )
            for n, (month, region) in enumerate(keys)
        ]
    )


@pytest.mark.parametrize("group_rows", [1, 3, 1000])
@settings(max_examples=40, deadline=None)
@given(parts=st.lists(st.lists(KEYS, max_size=6), min_size=1, max_size=4))
def test_rows_come_in_the_order_of_their_partitions(
    group_rows: int, parts: list[list[tuple[int | None, str | None]]]
) -> None:
    tables = [part(keys, n) for n, keys in enumerate(parts)]
    readers = [
        lambda columns, t=t: t if columns is None else t.select(list(columns)) for t in tables
    ]
    rows = sum(t.num_rows for t in tables)
    groups = list(EntrySorter(METADATA, group_rows).sorted_groups(readers, expected_rows=rows))
    assert all(group.num_rows <= group_rows for group in groups) or rows <= group_rows
    found = [path for group in groups for path in group.column("path").to_pylist()]
    labelled = [(key, f"{n}-{row}") for n, keys in enumerate(parts) for row, key in enumerate(keys)]
    expected = sorted(labelled, key=lambda item: tuple((v is not None, v) for v in item[0]))
    assert found == [path for _, path in expected]


def test_without_partitions_the_order_stays() -> None:
    plain = MetadataAction(id="t", schema_string=schema_to_json(SCHEMA))
    table = part([(3, "a"), (1, "b"), (2, None)], 0)
    (group,) = EntrySorter(plain).sorted_groups([lambda columns: table], expected_rows=3)
    assert group.equals(table)

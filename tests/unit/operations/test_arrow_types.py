"""Every Arrow type through every verb that takes rows or values: stored without loss, or refused by
one of our errors.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from indextables import Table
from indextables.errors import InvalidInputError, SchemaMismatchError
from indextables.model.schema import is_atomic, normalize

NAIVE = (dt.datetime(2026, 1, 2, 3, 4, 5), dt.datetime(1969, 12, 31, 23, 59, 59))
ZONED = (NAIVE[0].replace(tzinfo=dt.UTC), NAIVE[1].replace(tzinfo=dt.UTC))
DATES = (dt.date(2026, 1, 2), dt.date(1960, 1, 1))
TIMES = (dt.time(1, 2, 3), dt.time(23, 59, 59))
SPANS = (dt.timedelta(seconds=5), dt.timedelta(days=-1))
AMOUNTS = (Decimal("1.25"), Decimal("-7.50"))
UNITS = ("s", "ms", "us", "ns")
PAIR = pa.struct(
    [
        ("a", pa.large_string()),
        ("b", pa.dictionary(pa.int8(), pa.string())),
        ("c", pa.list_view(pa.uint16())),
    ]
)
TYPES: list[tuple[pa.DataType, tuple[Any, Any]]] = [
    (pa.bool_(), (True, False)),
    *((kind, (1, 100)) for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64())),
    *((kind, (1, 100)) for kind in (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())),
    *((kind, (1.5, -2.0)) for kind in (pa.float16(), pa.float32(), pa.float64())),
    *((kind, ("a", "bé")) for kind in (pa.string(), pa.large_string(), pa.string_view())),
    *(
        (kind, (b"abc", b"\0\1\2"))
        for kind in (pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(3))
    ),
    *((kind, DATES) for kind in (pa.date32(), pa.date64())),
    *(
        (kind, TIMES)
        for kind in (pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns"))
    ),
    *((kind, NAIVE) for kind in map(pa.timestamp, UNITS)),
    *((pa.timestamp(unit, zone), ZONED) for unit in UNITS for zone in ("UTC", "Europe/Berlin")),
    *((pa.duration(unit), SPANS) for unit in UNITS),
    *(
        (kind, AMOUNTS)
        for kind in (
            pa.decimal32(7, 2),
            pa.decimal64(12, 2),
            pa.decimal128(20, 2),
            pa.decimal256(30, 2),
        )
    ),
    *(
        (pa.dictionary(index, pa.string()), ("a", "b"))
        for index in (pa.int8(), pa.int32(), pa.uint64())
    ),
    (pa.dictionary(pa.int8(), pa.large_string()), ("a", "b")),
    (pa.dictionary(pa.int8(), pa.int64()), (1, 2)),
    (pa.run_end_encoded(pa.int32(), pa.string()), ("a", "b")),
    (pa.run_end_encoded(pa.int16(), pa.float32()), (1.5, 2.5)),
    (pa.run_end_encoded(pa.int64(), pa.string_view()), ("a", "b")),
    (pa.list_(pa.int32()), ([1, 2], [3, None])),
    (pa.large_list(pa.int32()), ([1, 2], [])),
    (pa.list_view(pa.int32()), ([1, 2], [3, None])),
    (pa.large_list_view(pa.int32()), ([1, 2], [])),
    (pa.list_(pa.int32(), 2), ([1, 2], [3, None])),
    (pa.list_(pa.large_string()), (["a"], ["b", None])),
    (pa.list_(pa.timestamp("ns", "Europe/Berlin")), ([ZONED[0]], [])),
    (
        pa.list_(pa.struct([("u", pa.uint64()), ("t", pa.time32("s"))])),
        ([{"u": 1, "t": TIMES[0]}], [None]),
    ),
    (PAIR, ({"a": "x", "b": "y", "c": [1]}, {"a": None, "b": "z", "c": None})),
    (pa.map_(pa.large_string(), pa.string_view()), ([("a", "1")], [("b", None)])),
    (pa.large_list(pa.map_(pa.string(), pa.decimal256(10, 2))), ([[("k", AMOUNTS[0])]], [None])),
    (pa.json_(), ('{"a":1}', "[]")),
    (pa.uuid(), (b"0123456789abcdef", b"fedcba9876543210")),
    (pa.bool8(), (1, 0)),
    (pa.fixed_shape_tensor(pa.int32(), [2]), ([1, 2], [3, 4])),
    (pa.opaque(pa.string(), "kind", "vendor"), ("a", "b")),
]
NAMES = [f"c{number}" for number in range(len(TYPES))]


def array(kind: pa.DataType, values: list[Any]) -> pa.Array:
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, array(kind.storage_type, values))
    if pa.types.is_run_end_encoded(kind):
        run_ends = pa.array(range(1, len(values) + 1), kind.run_end_type)
        return pa.RunEndEncodedArray.from_arrays(run_ends, pa.array(values, kind.value_type))
    return pa.array(values, kind)


def rows(ids: list[int], picks: list[int | None]) -> pa.Table:
    """Rows with a column of each type; `picks` choose one of the two values of a type, or null."""
    columns = [
        array(kind, [None if pick is None else pair[pick] for pick in picks])
        for kind, pair in TYPES
    ]
    return pa.table([pa.array(ids, pa.int64()), *columns], names=["id", *NAMES])


def plain(value: Any) -> Any:
    """A value as Python compares it, whatever Arrow type it was read from."""
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, tuple):
        return tuple(plain(item) for item in value)
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return value


def expected(pick: int | None) -> list[Any]:
    return [None if pick is None else plain(pair[pick]) for _, pair in TYPES]


def stored(table: Table) -> dict[int, list[Any]]:
    return {
        row["id"]: [plain(row[name]) for name in NAMES]
        for row in table.scan().read_all().to_pylist()
    }


@pytest.fixture
def table(tmp_path: Path) -> Table:
    made = Table.create(str(tmp_path / "t"), schema=rows([], []).schema)
    made.append(rows([1, 2, 3], [0, 1, None]))
    return made


def test_append_stores_every_type(table: Table) -> None:
    assert stored(table) == {1: expected(0), 2: expected(1), 3: expected(None)}
    table.append(rows([9, 4, 9], [0, 1, 0]).slice(1, 1))
    assert stored(table)[4] == expected(1)


def test_overwrite_stores_every_type(table: Table) -> None:
    table.overwrite(rows([1], [1]), where="id = 1")
    assert stored(table) == {1: expected(1), 2: expected(1), 3: expected(None)}
    table.overwrite(rows([7, 8], [1, None]))
    assert stored(table) == {7: expected(1), 8: expected(None)}
    table.overwrite(rows([5], [0]), overwrite_schema=True)
    assert stored(table) == {5: expected(0)}


def test_upsert_stores_every_type(table: Table) -> None:
    table.upsert(rows([1, 9], [1, 0]), on="id")
    assert stored(table) == {1: expected(1), 2: expected(1), 3: expected(None), 9: expected(0)}


def test_upsert_stores_frames_of_polars(tmp_path: Path) -> None:
    frame = pl.DataFrame({"id": [1, 2], "text": ["a", "b"], "at": [TIMES[0], None]}).with_columns(
        kind=pl.col("text").cast(pl.Categorical)
    )
    table = Table.create(str(tmp_path / "t"), schema=frame.to_arrow().schema)
    table.upsert(frame, on=["id"])
    table.upsert(frame.with_columns(at=pl.lit(TIMES[1])).head(1), on=["text", "kind"])
    assert sorted((row["id"], row["kind"], row["at"]) for row in table) == [
        (1, "a", TIMES[1]),
        (2, "b", None),
    ]


def test_every_type_that_can_be_compared_is_a_key_of_an_upsert(table: Table) -> None:
    schema = normalize(rows([], []).schema)
    keys = [
        name
        for name in NAMES
        if is_atomic(schema.field(name).type) and not pa.types.is_floating(schema.field(name).type)
    ]
    assert len(keys) > 30
    table.upsert(rows([11], [0]), on=keys)
    assert sorted(stored(table)) == [2, 3, 11]
    for name in set(NAMES) - set(keys):
        with pytest.raises(InvalidInputError, match="cannot be a key"):
            table.upsert(rows([12], [0]), on=name)


@pytest.mark.parametrize("wrap", [lambda scalar: scalar, pc.scalar], ids=["scalar", "expression"])
def test_update_sets_values_of_every_type(table: Table, wrap: Callable[[pa.Scalar], Any]) -> None:
    values = {
        name: wrap(array(kind, [pair[1]])[0])
        for name, (kind, pair) in zip(NAMES, TYPES, strict=True)
    }
    table.update(set=values, where="id = 1")
    assert stored(table) == {1: expected(1), 2: expected(1), 3: expected(None)}


def test_delete_compares_with_values_of_every_type_or_refuses_them(table: Table) -> None:
    refused = []
    condition: Any = pc.scalar(True)
    for name, (kind, pair) in zip(NAMES, TYPES, strict=True):
        part = pc.field(name) == pc.scalar(array(kind, [pair[1]])[0])
        try:
            assert table.count(where=part) == 1, kind
            condition = condition & part
        except InvalidInputError:
            refused.append(normalize(pa.schema([("x", kind)])).field("x").type)
    assert {str(kind) for kind in refused if not pa.types.is_nested(kind)} == {
        "time64[ns]",
        "duration[us]",
        "int8",
        "binary",
    }
    table.delete(where=condition)
    assert sorted(stored(table)) == [1, 3]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.timestamp("ns", "UTC"), 1_700_000_000_000_000_001),
        (pa.timestamp("ns"), 1),
        (pa.duration("ns"), 1),
        (pa.timestamp("s"), 2**62),
        (pa.list_(pa.timestamp("ns")), [1]),
        (pa.struct([("at", pa.timestamp("ns"))]), {"at": 1}),
        (pa.map_(pa.string(), pa.duration("ns")), [("a", 1)]),
        (pa.list_view(pa.timestamp("ns")), [1]),
    ],
    ids=str,
)
def test_a_value_that_would_change_is_refused_with_its_row_and_column(
    tmp_path: Path, kind: pa.DataType, value: Any
) -> None:
    made = Table.create(str(tmp_path / "t"), schema=pa.schema([("id", pa.int64()), ("v", kind)]))
    batches = [
        pa.record_batch([pa.array(ids), pa.array(values, kind)], names=["id", "v"])
        for ids, values in (([1, 2], [None, None]), ([3, 4, 5], [None, value, None]))
    ]
    verbs: list[Callable[[Any], Any]] = [
        made.append,
        made.overwrite,
        lambda data: made.upsert(data, on="id"),
    ]
    for verb in verbs:
        with pytest.raises(
            InvalidInputError, match=r"row 3, .* of column 'v' cannot be stored"
        ) as refused:
            verb(iter(batches))
        assert refused.value.context["row"] == 3 and refused.value.context["column"] == "v"
    with pytest.raises(InvalidInputError, match="Column 'v'"):
        made.update(set={"v": batches[1].column(1)[1]})
    assert made.version == 0


@pytest.mark.parametrize(
    "column",
    [
        pa.array([Decimal(1)], pa.decimal256(50, 2)),
        pa.array([Decimal(1200)], pa.decimal128(5, -2)),
        pa.UnionArray.from_dense(
            pa.array([0], pa.int8()), pa.array([0], pa.int32()), [pa.array([1])]
        ),
        pa.array([pa.MonthDayNano([1, 2, 3])]),
    ],
    ids=lambda column: str(column.type),
)
def test_a_type_that_no_table_holds_is_refused_by_every_verb(
    tmp_path: Path, column: pa.Array
) -> None:
    made = Table.create(
        str(tmp_path / "t"), schema=pa.schema([("id", pa.int64()), ("v", pa.string())])
    )
    data = pa.table({"id": [1], "v": column})
    for verb in (made.append, made.overwrite, lambda rows: made.upsert(rows, on="id")):
        with pytest.raises((InvalidInputError, SchemaMismatchError), match="'v'"):
            verb(data)
    with pytest.raises(InvalidInputError):
        made.update(set={"v": column[0]})
    assert made.version == 0


def test_batches_with_other_columns_are_refused_by_an_upsert(tmp_path: Path) -> None:
    made = Table.create(
        str(tmp_path / "t"), schema=pa.schema([("id", pa.int64()), ("v", pa.string())])
    )
    made.append([{"id": 1, "v": "kept"}])
    batches = [pa.record_batch({"id": [2], "v": ["b"]}), pa.record_batch({"id": [1]})]
    with pytest.raises(
        InvalidInputError, match="Batch 1 has the columns id, and the first batch id, v"
    ):
        made.upsert(iter(batches), on="id")
    assert made.to_polars()["v"].to_list() == ["kept"]

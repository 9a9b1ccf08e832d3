"""Pruning: which files a predicate leaves, which match throughout, and what is made of other
writers' statistics.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from indextables.model.file_list import FILE_SCHEMA
from indextables.model.predicate import bind, parse
from indextables.model.pruning import all_match, manifests_may_match, may_match

SCHEMA = pa.schema(
    [
        ("day", pa.date32()),
        ("hour", pa.int32()),
        ("n", pa.int64()),
        ("s", pa.string()),
        ("small", pa.int16()),
        ("x", pa.float64()),
        ("at", pa.timestamp("us", tz="UTC")),
        ("st", pa.struct([("y", pa.int32())])),
    ]
)
PARTITIONS = ["day", "hour"]


def entry(
    partition: dict[str, str | None] | None = None,
    low: dict[str, str] | None = None,
    high: dict[str, str] | None = None,
    records: int | None = 10,
    stats: str | None = None,
) -> dict[str, Any]:
    maps = {"partition_values": partition, "min_values": low, "max_values": high}
    given = {name: None if texts is None else list(texts.items()) for name, texts in maps.items()}
    return (
        dict.fromkeys(FILE_SCHEMA.names)
        | given
        | {"path": "p", "size": 1, "num_records": records, "stats": stats}
    )


def listed(*entries: dict[str, Any]) -> pa.Table:
    return pa.Table.from_pylist(list(entries), FILE_SCHEMA)


def kept(condition: str, files: pa.Table, **options: Any) -> list[bool]:
    bound = bind(parse(condition), SCHEMA)
    mask: list[bool] = may_match(bound, files, partition_columns=PARTITIONS, **options).to_pylist()
    return mask


def whole(condition: str, files: pa.Table) -> list[bool]:
    mask: list[bool] = all_match(
        bind(parse(condition), SCHEMA), files, partition_columns=PARTITIONS
    ).to_pylist()
    return mask


PARTITIONED = listed(
    entry({"day": "2024-01-01", "hour": "9"}),
    entry({"hour": "10", "day": "2024-01-02"}),
    entry({"day": None, "hour": "10"}),
    entry({"day": "garbled", "hour": "10"}),
    entry({"hour": None, "day": "2024-01-03"}),
    entry({}),
    entry(None),
)


@pytest.mark.parametrize(
    ("condition", "expected", "certain"),
    [
        ("day = '2024-01-02'", [0, 1, 0, 1, 0, 1, 1], [0, 1, 0, 0, 0, 0, 0]),
        ("hour > 9", [0, 1, 1, 1, 0, 1, 1], [0, 1, 1, 1, 0, 0, 0]),
        ("hour < 10", [1, 0, 0, 0, 0, 1, 1], [1, 0, 0, 0, 0, 0, 0]),
        ("day IS NULL", [0, 0, 1, 1, 0, 1, 1], [0, 0, 1, 0, 0, 0, 0]),
        ("day IS NOT NULL", [1, 1, 0, 1, 1, 1, 1], [1, 1, 0, 0, 1, 0, 0]),
        ("NOT (day = '2024-01-01')", [0, 1, 0, 1, 1, 1, 1], [0, 1, 0, 0, 1, 0, 0]),
        ("day NOT IN ('2024-01-01', NULL)", [0, 0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0, 0]),
        ("hour IS NULL OR day = '2024-01-01'", [1, 0, 0, 1, 1, 1, 1], [1, 0, 0, 0, 1, 0, 0]),
        ("hour = 10 AND NULL", [0] * 7, [0] * 7),
        ("TRUE", [1] * 7, [1] * 7),
        ("n = 5", [1] * 7, [0] * 7),
        ("st.y = 5", [1] * 7, [0] * 7),
    ],
)
def test_partition_values_are_exact(
    condition: str, expected: list[int], certain: list[int]
) -> None:
    assert kept(condition, PARTITIONED) == [bool(e) for e in expected]
    assert whole(condition, PARTITIONED) == [bool(c) for c in certain]


OURS = '{{"numRecords":10,"nullCount":{{"n":{0},"s":{0},"x":{0}}}}}'
BOUNDED = listed(
    entry(low={"n": "5", "s": "b"}, high={"n": "9", "s": "d"}, stats=OURS.format(0)),
    entry(low={"n": "9", "s": "d"}, high={"n": "9", "s": "d"}, stats=OURS.format(0)),
    entry(low={"n": "-3"}, high={"s": "c"}, stats=OURS.format(2)),
    entry(stats=OURS.format(10)),
    entry(low={"n": "5"}, high={"n": "9"}),
    entry(low={"n": "5"}, high={"n": "9"}, records=None, stats="not json"),
)


@pytest.mark.parametrize(
    ("condition", "expected", "certain"),
    [
        ("n > 8", [1, 1, 1, 0, 1, 1], [0, 1, 0, 0, 0, 0]),
        ("n >= 5", [1, 1, 1, 0, 1, 1], [1, 1, 0, 0, 0, 0]),
        ("n < 5", [0, 0, 1, 0, 0, 0], [0] * 6),
        ("n <= 9", [1, 1, 1, 0, 1, 1], [1, 1, 0, 0, 0, 0]),
        ("n = 9", [1, 1, 1, 0, 1, 1], [0, 1, 0, 0, 0, 0]),
        ("n != 9", [1, 0, 1, 0, 1, 1], [0] * 6),
        ("n <=> 9", [1, 1, 1, 0, 1, 1], [0, 1, 0, 0, 0, 0]),
        ("n IN (1, 2, 10)", [0, 0, 1, 0, 0, 0], [0] * 6),
        ("n IN (1, 6)", [1, 0, 1, 0, 1, 1], [0] * 6),
        ("n NOT IN (9, 11)", [1, 0, 1, 0, 1, 1], [0] * 6),
        ("n IN (9, 11)", [1, 1, 1, 0, 1, 1], [0, 1, 0, 0, 0, 0]),
        ("n IS NULL", [0, 0, 1, 1, 1, 1], [0, 0, 0, 1, 0, 0]),
        ("n IS NOT NULL", [1, 1, 1, 0, 1, 1], [1, 1, 0, 0, 0, 0]),
        ("n = 2.5", [0] * 6, [0] * 6),
        ("n < 1e30", [1, 1, 1, 0, 1, 1], [1, 1, 0, 0, 0, 0]),
        ("startswith(s, 'c')", [1, 0, 1, 0, 1, 1], [0] * 6),
        ("startswith(s, 'd')", [1, 1, 0, 0, 1, 1], [0, 1, 0, 0, 0, 0]),
        ("NOT startswith(s, 'd')", [1, 0, 1, 0, 1, 1], [0] * 6),
        ("endswith(s, 'd')", [1, 1, 1, 0, 1, 1], [0, 1, 0, 0, 0, 0]),
        ("contains(s, 'z')", [1, 0, 1, 0, 1, 1], [0] * 6),
        ("s LIKE 'e%z_'", [0, 0, 0, 0, 1, 1], [0] * 6),
        ("s IN ('a', 'c', 'e')", [1, 0, 1, 0, 1, 1], [0] * 6),
    ],
)
def test_bounds_and_null_counts(condition: str, expected: list[int], certain: list[int]) -> None:
    assert kept(condition, BOUNDED) == [bool(e) for e in expected]
    assert whole(condition, BOUNDED) == [bool(c) for c in certain]


def test_without_statistics_only_partition_values_count() -> None:
    files = listed(entry({"day": "2024-01-01", "hour": "1"}, {"n": "1"}, {"n": "2"}))
    assert kept("n = 5", files) == [False]
    assert kept("n = 5", files, statistics=False) == [True]
    assert kept("n = 5 AND hour = 2", files, statistics=False) == [False]


def test_both_kinds_of_pruning_meet() -> None:
    files = listed(
        entry({"day": "2024-01-01", "hour": "1"}, {"n": "1"}, {"n": "2"}),
        entry({"day": "2024-01-01", "hour": "2"}, {"n": "1"}, {"n": "9"}),
        entry({"day": "2024-01-02", "hour": "2"}, {"n": "1"}, {"n": "9"}),
    )
    assert kept("n = 5 AND day = '2024-01-01'", files) == [False, True, False]
    assert kept("n = 2 OR day = '2024-01-02'", files) == [True, True, True]
    assert kept("n = 2 AND day = '2025-01-01'", files) == [False, False, False]


def test_chunks_and_slices_of_a_list_are_seen_whole() -> None:
    files = pa.concat_tables(
        [BOUNDED.slice(1, 2), PARTITIONED.slice(0, 2), BOUNDED.slice(0, 1), BOUNDED.slice(0, 0)]
    )
    assert kept("n < 5", files) == [False, True, True, True, False]
    assert kept("hour = 9", files) == [True, True, True, False, True]
    assert kept("n < 5", files.slice(0, 0)) == []


def test_nan_is_the_greatest() -> None:
    files = listed(
        entry(low={"x": "1.0"}, stats=OURS.format(0)),
        entry(low={"x": "1.0"}, high={"x": "NaN"}),
        entry(low={"x": "1.0"}, high={"x": "2.0"}),
        entry(low={"x": "NaN"}, high={"x": "NaN"}, stats=OURS.format(0)),
    )
    assert kept("x > 5", files) == [True, True, False, True]
    assert kept("x = double('NaN')", files) == [True, True, False, True]
    assert kept("x < 5", files) == [True, True, True, False]
    assert whole("x > 5", files) == [False, False, False, True]


def test_a_zero_bounds_both_zeros() -> None:
    files = listed(
        entry(low={"x": "-0.0"}, high={"x": "0.0"}), entry(low={"x": "-5"}, high={"x": "-0.0"})
    )
    assert kept("x = 0.0", files) == [True, True]
    assert kept("x > -0.0", files) == [False, False]


def test_bounds_in_the_wrong_order_are_not_believed() -> None:
    assert kept("n = 50", listed(entry(low={"n": "10"}, high={"n": "9"}))) == [True]


def test_timestamps_as_microseconds_are_read_and_seconds_are_not_guessed() -> None:
    micros = {"at": "1704067200000000"}, {"at": "1704153600000000"}
    seconds = {"at": "1704067200"}, {"at": "1704153600"}
    assert kept("at < '2023-12-31'", listed(entry(None, *micros), entry(None, *seconds))) == [
        False,
        True,
    ]


def test_text_in_utf16_order_cut_without_rounding_is_widened() -> None:
    """The greatest of these in UTF-16 is the second, the least the first; a cut maximum may stand
    for more.
    """
    least = listed(entry(low={"s": "a\U00010000"}, high={"s": "b"}))
    assert kept("s = 'a\uffff'", least) == [True]
    greatest = listed(entry(low={"s": "a"}, high={"s": "b\uffff"}))
    assert kept("s = 'b\U00010000'", greatest) == [True]
    assert kept("s = 'd'", greatest) == [False]
    cut = listed(entry(low={"s": "a"}, high={"s": "b" * 32}))
    assert kept(f"s = '{'b' * 40}'", cut) == [True]
    assert kept("s = 'c'", cut) == [False]
    pairs = listed(entry(low={"s": "a"}, high={"s": "\U00010000" * 16}))
    assert kept(f"s = '{chr(0x10000) * 17}'", pairs) == [True]


def test_our_own_text_bounds_are_taken_as_they_stand() -> None:
    files = listed(entry(low={"s": "a\U00010000"}, high={"s": "b" * 32}, stats=OURS.format(0)))
    assert kept(f"s = '{'b' * 40}'", files) == [False]
    assert kept("s = 'a\uffff'", files) == [False]


def test_the_first_value_of_a_type_that_a_writer_cannot_compare_is_no_bound() -> None:
    files = listed(
        entry(low={"small": "5"}, high={"small": "5"}),
        entry(low={"small": "5"}, high={"small": "5"}, records=1),
        entry(low={"small": "5"}, high={"small": "6"}),
        entry(low={"small": "5"}, high={"small": "5"}, stats=OURS.format(0)),
    )
    assert kept("small = 7", files) == [True, False, False, False]


def manifests(
    condition: str, column: str, *bounds: tuple[str | None, str | None], typed: bool = True
) -> list[bool]:
    bound = bind(parse(condition), SCHEMA)
    found: list[bool] = manifests_may_match(
        bound, {column: bounds}, count=len(bounds), typed=typed
    ).to_pylist()
    return found


def test_manifests_are_ruled_out_by_typed_bounds() -> None:
    bounds = [("1", "9"), ("10", "23"), (None, None), ("x", "12")]
    assert manifests("hour < 10", "hour", *bounds) == [True, False, True, True]
    assert manifests("hour = 15 OR n = 1", "hour", *bounds) == [True, True, True, True]
    assert manifests("hour IS NULL", "hour", *bounds) == [True, True, True, True]
    assert manifests("hour > 12", "hour", *bounds) == [False, True, True, False]
    assert manifests("day = '2024-01-01'", "hour", *bounds) == [True, True, True, True]


def test_untyped_bounds_are_used_only_where_every_order_agrees() -> None:
    assert manifests("hour = 10", "hour", ("1", "9"), ("3", "3"), typed=False) == [True, False]
    assert manifests("day = '2024-06-01'", "day", ("2024-01-01", "2024-03-01"), typed=False) == [
        False
    ]
    assert manifests("s = '10'", "s", ("9", "95"), typed=False) == [True]
    assert manifests("s = 'z'", "s", ("a", "a"), ("a", "c"), typed=False) == [False, True]
    assert manifests("s = ''", "s", ("a", "a"), typed=False) == [True]
    # Escaped, `a/b` sorts below `a0`.
    assert manifests("s = 'a/b'", "s", ("a%2Fb", "a%2Fb"), ("a", "a.c"), typed=False) == [
        True,
        True,
    ]


def test_bounds_of_earlier_releases_leave_out_the_text_that_stands_for_null() -> None:
    assert manifests("s = '__HIVE_DEFAULT_PARTITION__'", "s", ("a", "c")) == [True]

"""The order of a search's rows: by columns, by paths inside them, by score; with Spark's order of
values.

    orders = (OrderBy("level"), OrderBy("ts", descending=True)) rows, keys = first_rows(split, rows,
    orders, 10)          the first ten, and what they are ordered by rows, keys = first_rows(split,
    rows, orders, 10, after=After(keys of the last row, its number))

The keys of rows are a table with a column for each order (`0.0`, `1.0`, …). A path of a json column
holds values of several types and has four: its kind, the number, what a float loses of it, and the
text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct
from msgspec.structs import replace

from indextables.errors import InvalidInputError
from indextables.model.column_ranges import ColumnRange
from indextables.model.schema import SCORE
from indextables.splits.index.values import Leaf, documents, leaves, normal_key
from indextables.splits.query.tree import Target
from indextables.splits.read.searchable import Mask, Rows, Searchable

_NESTED: dict[str, pa.DataType] = {
    "0": pa.int8(),
    "1": pa.float64(),
    "2": pa.int64(),
    "3": pa.string(),
}
"""Keys of a path with values of any type. Sort ranks: 0 numbers, 1 texts, 2 booleans."""


class OrderBy(Struct, frozen=True):
    """A column or path to sort by. Nulls come last in both directions; NaN is greater than every
    number.
    """

    column: str
    descending: bool = False
    path: tuple[str, ...] = ()

    @classmethod
    def parse(
        cls,
        text: str,
        columns: Sequence[str],
        resolve: Callable[[tuple[str, ...]], Target | None] | None = None,
    ) -> OrderBy:
        """Parse `ts`, `ts asc`, `ts desc`, `-ts` or `_score` (best first); with `resolve` also a
        path such as `payload.user.id`.
        """
        if text in columns:
            return cls(text)
        name, _, direction = text.rpartition(" ")
        if text[:1] == "-" and text not in columns:
            return replace(cls.parse(text[1:].strip(), columns, resolve), descending=True)
        if direction.lower() in ("asc", "desc") and (name := name.strip()):
            if name in columns:
                order = cls(name)
            else:
                order = cls.parse(name, columns, resolve)
            return cls(order.column, direction.lower() == "desc", order.path)
        if text == SCORE:
            return cls(SCORE, descending=True)
        if resolve is not None and text:
            target = resolve(tuple(text.split(".")))
        else:
            target = None
        if target is not None:
            return cls(target.column, path=target.path)
        message = f"Rows cannot be ordered by {text!r}."
        raise InvalidInputError(
            message, hint=f"Name a column, with asc or desc: {', '.join(columns)}.", order_by=text
        )

    @property
    def is_plain(self) -> bool:
        """Whether it is a plain column, whose bounds may be known."""
        return not self.path and self.column != SCORE


class After(Struct, frozen=True):
    """A position in an order: after the row with these keys, and after rows with equal keys up to
    this number.
    """

    keys: pa.Table
    row: int


def ranking(
    keys: pa.Table,
    orders: Sequence[OrderBy],
    numbers: Rows | None = None,
    *,
    count: int | None = None,
) -> Rows:
    """Return the positions of the rows in order, or of the first `count`. Ties keep their numbers'
    or their given order.
    """
    plain = _integers(keys) if numbers is None else None
    if plain is not None:
        return _integer_ranking(~plain if orders[0].descending else plain, count)
    columns: dict[str, pa.Array | pa.ChunkedArray] = {}
    sort: list[tuple[str, str]] = []
    names = keys.column_names
    for name in names if len(names) == 1 else sorted(names):
        values, order = keys.column(name), orders[int(name.partition(".")[0])]
        direction = "descending" if order.descending else "ascending"
        if pa.types.is_null(values.type):
            continue
        columns[f"null {name}"], columns[f"value {name}"] = pc.is_null(values), values
        sort.append((f"null {name}", "ascending"))
        if pa.types.is_floating(values.type):
            columns[f"nan {name}"] = pc.fill_null(pc.is_nan(values), False)
            sort.append((f"nan {name}", direction))
        sort.append((f"value {name}", direction))
    columns["place"] = pa.array(np.arange(keys.num_rows) if numbers is None else numbers)
    sort.append(("place", "ascending"))
    try:
        return np.asarray(pc.sort_indices(pa.table(columns), sort_keys=sort), np.int64)[:count]
    except (pa.ArrowNotImplementedError, pa.ArrowTypeError) as e:
        kinds = {name: keys.column(name).type for name in keys.column_names}
        odd = next((n for n, kind in kinds.items() if not _sorts(kind)), next(iter(kinds)))
        message = f"Rows cannot be ordered by {orders[int(odd.partition('.')[0])].column!r}, which is {kinds[odd]}."
        raise InvalidInputError(
            message, hint="Order by a column of numbers, text, dates or times."
        ) from e


def _integers(keys: pa.Table) -> npt.NDArray[np.integer[Any]] | None:
    """Return the values of keys that are one non-null column of integers, dates or timestamps, or
    None.
    """
    values = keys.column(0) if keys.num_columns == 1 else None
    if values is None or values.null_count:
        return None
    kind = values.type
    if not pa.types.is_integer(kind):
        if not pa.types.is_temporal(kind) or pa.types.is_interval(kind):
            return None
        kind = pa.int32() if kind.bit_width == 32 else pa.int64()
    if values.num_chunks == 1:
        array = values.chunk(0)
    else:
        array = pa.concat_arrays([*values.chunks, pa.nulls(0, values.type)])
    integers: npt.NDArray[np.integer[Any]] = array.view(kind).to_numpy()
    return integers


def _integer_ranking(values: npt.NDArray[np.integer[Any]], count: int | None) -> Rows:
    """Return the positions of integers in ascending order; ties keep their order."""
    if count is None or not 0 < count < len(values):
        return np.argsort(values, kind="stable").astype(np.int64, copy=False)[:count]
    near = np.flatnonzero(values <= np.partition(values, count - 1)[count - 1])
    return near[np.argsort(values[near], kind="stable")[:count]].astype(np.int64, copy=False)


def _sorts(kind: pa.DataType) -> bool:
    return not pa.types.is_nested(kind) and not pa.types.is_dictionary(kind)


def order_keys(
    split: Searchable,
    rows: Rows,
    orders: Sequence[OrderBy],
    scores: Callable[[Rows], pa.Array] | None = None,
) -> pa.Table:
    """Return the sort keys of rows of a split; null for missing columns. `scores` are the scores of
    the rows.
    """
    names = dict.fromkeys(order.column for order in orders if order.column in split.schema.names)
    if names:
        table = split.read_rows(rows, columns=list(names))
    else:
        table = pa.table({})
    return keys_of(table, len(rows), orders, None if scores is None else scores(rows))


def keys_of(
    table: pa.Table, num_rows: int, orders: Sequence[OrderBy], scores: pa.Array | None = None
) -> pa.Table:
    """Return the keys of rows whose columns are in memory."""
    keys: dict[str, pa.Array | pa.ChunkedArray] = {}
    for number, order in enumerate(orders):
        if order.column == SCORE and scores is not None:
            keys[f"{number}.0"] = scores
        elif order.column not in table.column_names:
            keys[f"{number}.0"] = pa.nulls(num_rows)
        elif not order.path:
            keys[f"{number}.0"] = table.column(order.column)
        else:
            for name, values in _nested_keys(table.column(order.column), order).items():
                keys[f"{number}.{name}"] = values
    return pa.table(keys)


def key_types(orders: Sequence[OrderBy], schema: pa.Schema) -> dict[str, pa.DataType]:
    """Return the types of the keys of a table's rows by name."""
    types: dict[str, pa.DataType] = {}
    for number, order in enumerate(orders):
        if order.column == SCORE and SCORE not in schema.names:
            types[f"{number}.0"] = pa.float32()
            continue
        kind = schema.field(order.column).type
        field = _struct_field(kind, order.path) if order.path else None
        if not order.path or field is not None:
            types[f"{number}.0"] = kind if field is None else field[1]
        else:
            types.update({f"{number}.{name}": of for name, of in _NESTED.items()})
    return types


def _struct_field(kind: pa.DataType, path: tuple[str, ...]) -> tuple[list[int], pa.DataType] | None:
    """Resolve a path in a struct to its position and type, or None if it is not a scalar in structs
    alone.
    """
    places: list[int] = []
    for key in path:
        if not pa.types.is_struct(kind):
            return None
        found = [n for n in range(kind.num_fields) if normal_key(kind.field(n).name) == key]
        if len(found) != 1:
            return None
        places.append(found[0])
        kind = kind.field(found[0]).type
    if pa.types.is_nested(kind):
        return None
    return (places, kind)


def _nested_keys(
    array: pa.ChunkedArray, order: OrderBy
) -> Mapping[str, pa.Array | pa.ChunkedArray]:
    """Return the keys of a path: a struct field in its type, or the least (descending: greatest)
    value of a document.
    """
    field = _struct_field(array.type, order.path)
    if field is not None:
        return {"0": pc.struct_field(array, field[0])}
    pick = max if order.descending else min
    rows: list[tuple[int | None, float | None, int | None, str | None]] = []
    for document in documents(array):
        if document is None:
            values = []
        else:
            values = [_sortable(v) for path, v in leaves(document) if path == order.path]
        rows.append(pick(values) if values else (None, None, None, None))
    columns = zip(*rows, strict=True) if rows else ([], [], [], [])
    return {
        name: pa.array(list(v), kind)
        for (name, kind), v in zip(_NESTED.items(), columns, strict=True)
    }


def _sortable(value: Leaf) -> tuple[int, float, int, str]:
    if isinstance(value, bool):
        return 2, float(value), 0, ""
    if isinstance(value, str):
        return 1, 0.0, 0, value
    near = float(value)
    # A float cannot tell large integers apart; what it loses of one can.
    return 0, near, value - int(near) if isinstance(value, int) else 0, ""


def first_rows(
    split: Searchable,
    rows: Rows,
    orders: Sequence[OrderBy],
    count: int,
    *,
    after: After | None = None,
    scores: Callable[[Rows], pa.Array] | None = None,
) -> tuple[Rows, pa.Table]:
    """Return the first rows, at least `count` if there are, with their keys; with `after`, those
    after that position.

    Row groups are read in the order of their bounds until no remaining one can hold a better value.
    """
    order = orders[0]
    known = order.is_plain and order.column in split.schema.names
    usable = (
        known and len(rows) > count > 0 and has_usable_bounds(split.schema.field(order.column).type)
    )
    groups = split.group_bounds(order.column) if usable else None
    if groups is None:
        return _rank(rows, order_keys(split, rows, orders, scores), orders, count, after)
    starts, bounds = groups
    group = np.searchsorted(starts, rows, side="right") - 1
    best = best_first(bounds, order)
    sure = np.ones(len(best), np.bool_)
    if after is not None:
        possible, sure = behind(bounds, order, after)
        rows, group = rows[possible[group]], group[possible[group]]
    # As many row groups as surely hold enough rows, the best first; and those that lie on both
    # sides of a place.
    enough = (
        int(
            np.searchsorted(
                np.cumsum((np.bincount(group, minlength=len(best)) * sure)[best]), count
            )
        )
        + 1
    )
    chosen = ~sure
    chosen[best[:enough]] = True
    near = rows[chosen[group]]
    first, keys = _rank(near, order_keys(split, near, orders, scores), orders, count, after)
    if len(first) < count:
        return first, keys
    rest = rows[(~chosen & can_compete(bounds, order, keys.column("0.0")[count - 1]))[group]]
    if not len(rest):
        return first, keys
    # Ascending, so that equal values stay in the order of the rows.
    near = np.sort(np.concatenate([first, rest]))
    return _rank(near, order_keys(split, near, orders, scores), orders, count, after)


_FEWEST_PARTS = 4
"""Minimum number of parts before the ends of a split are tried first."""


def first_at_an_end(
    split: Searchable, ends: Callable[[bool], Rows | None], orders: Sequence[OrderBy], count: int
) -> tuple[Rows, pa.Table] | None:
    """Return the first rows of splits that are roughly sorted, from a few rows at one end, or None
    if not certain.

    `ends` returns the last (True) or the first matching rows without a gap, or None.
    """
    order = orders[0]
    usable = order.is_plain and order.column in split.schema.names and count > 0
    usable = usable and has_usable_bounds(split.schema.field(order.column).type)
    groups = split.group_bounds(order.column) if usable else None
    if groups is None or len(groups[0]) < _FEWEST_PARTS:
        return None
    starts, bounds = groups
    best = int(best_first(bounds, order)[0])
    rows = ends(best > 0) if best in (0, len(starts) - 1) else None
    if rows is None or len(rows) < count:
        return None
    first, keys = first_rows(split, rows, orders, count)
    value, edge = keys.column("0.0")[count - 1], int(rows[0] if best else rows[-1])
    part = int(np.searchsorted(starts, edge, side="right")) - 1
    possible = can_compete(bounds, order, value)
    if (possible[:part] if best else possible[part + 1 :]).any():
        return None
    if possible[part]:
        # Of the part in which these rows end, the others are looked at, whether they match or not.
        if part + 1 < len(starts):
            end = int(starts[part + 1])
        else:
            end = split.num_rows
        if best:
            others = np.arange(starts[part], edge)
        else:
            others = np.arange(edge + 1, end)
        values = order_keys(split, others, orders[:1]).column("0.0")
        if order.descending:
            near = pc.greater_equal(values, value)
        else:
            near = pc.less_equal(values, value)
        if pc.any(near).as_py():
            return None
    return first, keys


def best_first(bounds: ColumnRange, order: OrderBy) -> Rows:
    """Return parts of a table in the order of the best value that each can hold: unknown first,
    nulls last.
    """
    ends = bounds.high if order.descending else bounds.low
    unknown = pc.is_null(ends).to_numpy(zero_copy_only=False)
    key = np.where(~bounds.can_value, 2, np.where(unknown, 0, 1))
    ranks = ranking(pa.table({"0.0": ends}), (order,))
    return ranks[np.argsort(key[ranks], kind="stable")]


def can_compete(bounds: ColumnRange, order: OrderBy, value: pa.Scalar) -> Mask:
    """Return which parts can hold a value that comes before or equals another."""
    if not value.is_valid:
        return np.ones(len(bounds.low), np.bool_)
    if order.descending:
        near = pc.greater_equal(bounds.high, value)
    else:
        near = pc.less_equal(bounds.low, value)
    possible: Mask = pc.fill_null(near, True).to_numpy(zero_copy_only=False)
    return possible & bounds.can_value


def behind(bounds: ColumnRange, order: OrderBy, after: After) -> tuple[Mask, Mask]:
    """Return which parts can hold a row at or after a position by its first key, and which hold
    only such rows.
    """
    value = after.keys.column("0.0")[0]
    if not value.is_valid:
        return bounds.can_null, np.zeros(len(bounds.low), np.bool_)
    descending = order.descending
    if descending:
        near = pc.less_equal(bounds.low, value)
    else:
        near = pc.greater_equal(bounds.high, value)
    if descending:
        beyond = pc.less(bounds.high, value)
    else:
        beyond = pc.greater(bounds.low, value)
    possible: Mask = pc.fill_null(near, True).to_numpy(zero_copy_only=False)
    sure: Mask = pc.fill_null(beyond, False).to_numpy(zero_copy_only=False)
    return (possible & bounds.can_value) | bounds.can_null, sure & bounds.can_value


def has_usable_bounds(kind: pa.DataType) -> bool:
    """Return whether bounds of a type are usable for an order. NaN makes those of floating-point
    columns unusable.
    """
    moment = pa.types.is_date32(kind) or (pa.types.is_timestamp(kind) and kind.unit != "ns")
    return bool(moment or pa.types.is_integer(kind) or pa.types.is_string(kind))


def _rank(
    rows: Rows, keys: pa.Table, orders: Sequence[OrderBy], count: int, after: After | None
) -> tuple[Rows, pa.Table]:
    if after is None:
        best = ranking(keys, orders, count=count)
    else:
        # The place is ranked among the rows: what comes behind it is behind it by every key, nulls
        # and NaN included.
        both = pa.concat_tables([after.keys, keys], promote_options="permissive")
        ranks = ranking(
            both, orders, np.concatenate([[2 * after.row + 1], 2 * rows])
        )  # behind its own row
        best = ranks[int(np.flatnonzero(ranks == 0)[0]) + 1 :] - 1
    best = best[:count]
    return rows[best], keys.take(pa.array(best))

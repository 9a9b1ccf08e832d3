"""Searches by a vector: the rows nearest to it, alone or combined with the ranking of a query.

Both rankings of a hybrid search cover the same version and the same condition. Their best rows are
combined by reciprocal ranks or by weighted scores. Equal scores come in the order of the splits and
of their rows, so that a version always returns the same order.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace

from indextables.errors import InvalidInputError, nearest, show_value
from indextables.handle import TableHandle
from indextables.query.plan import query_fields
from indextables.query.search import TableSearch
from indextables.query.task import ScanTask
from indextables.splits.search.nearest import NearestTo
from indextables.splits.search.scores import Hits
from indextables.splits.search.search import read_best

QueryVector = Mapping[str, Sequence[float] | npt.NDArray[np.floating]]
"""A column of vectors and a vector."""
Hybrid = Literal["rrf"] | Mapping[str, Any]
"""How the order by score and the order by distance are combined."""
_RANK_OFFSET = 60
"""The constant of reciprocal rank fusion: how little the first ranks differ."""
_MIN_CANDIDATES = 100
_CANDIDATES_PER_ROW = 10
"""How many rows of each ranking take part, per requested row and at least."""
_LEGS = ("query", "vector")


def parse_vector(table: TableHandle, vector: object) -> NearestTo:
    """Check the argument `vector`: one column of vectors, and as many finite numbers as it holds."""
    if not isinstance(vector, Mapping) or len(vector) != 1:
        raise InvalidInputError(
            f"vector must name one column and its vector (got {show_value(vector)}).",
            hint='Write vector={"embedding": [0.1, 0.2]}.',
            argument="vector",
        )
    ((name, values),) = vector.items()
    known = [column.name for column in query_fields(table).mapping.columns if column.dimension]
    column = query_fields(table).mapping.find(name)
    if column is None or not column.dimension:
        near = nearest(str(name), known)
        hint = (
            f"Columns of vectors: {', '.join(known)}."
            if known
            else 'Name them when the table is created: vector={"embedding": 384}.'
        )
        raise InvalidInputError(
            f"vector names {name!r}, which is not a column of vectors of {table.path}."
            f"{f' Did you mean {near[0]!r}?' if near else ''}",
            hint=hint,
            column=name,
        )
    numbers = _numbers(name, values)
    if len(numbers) != column.dimension:
        raise InvalidInputError(
            f"Column {name!r} holds vectors of {column.dimension} numbers (got {len(numbers)}).",
            hint="Use the model that made the vectors of the column.",
            column=name,
        )
    if column.metric == "cosine" and not any(numbers):
        raise InvalidInputError(
            f"Column {name!r} is compared by cosine, and a vector of zeros has no direction.",
            hint="Pass another vector.",
            column=name,
        )
    return NearestTo(table.names.column(name), numbers, column.metric)


def _numbers(name: str, values: object) -> tuple[float, ...]:
    try:
        array = np.asarray(values, np.float64)
    except (TypeError, ValueError):
        array = np.empty(0)
    if array.ndim != 1 or not len(array):
        raise InvalidInputError(
            f"The vector for column {name!r} must be a list of numbers (got {show_value(values)}).",
            hint="Pass a list or a one-dimensional array.",
            column=name,
        )
    if not np.isfinite(array).all():
        raise InvalidInputError(
            f"The vector for column {name!r} contains NaN or infinity.",
            hint="Pass finite numbers.",
            column=name,
        )
    return tuple(float(value) for value in array)


class Fusion(Struct, frozen=True):
    """How two rankings become one: by reciprocal ranks, or by scores with these weights."""

    weights: tuple[float, float] | None = None

    @classmethod
    def parse(cls, hybrid: object) -> Fusion:
        """Check the argument `hybrid`."""
        if hybrid == "rrf":
            return cls()
        weights = hybrid.get("weights") if isinstance(hybrid, Mapping) else None
        if (
            not isinstance(hybrid, Mapping)
            or set(hybrid) != {"weights"}
            or not isinstance(weights, Mapping)
            or not weights
            or not set(weights) <= set(_LEGS)
            or not all(_is_weight(value) for value in weights.values())
            or not any(weights.values())
        ):
            raise InvalidInputError(
                f"hybrid cannot be {show_value(hybrid)}.",
                hint='Write hybrid="rrf" or hybrid={"weights": {"query": 0.3, "vector": 0.7}}.',
                argument="hybrid",
            )
        return cls((float(weights.get("query", 0)), float(weights.get("vector", 0))))

    def combine(
        self, ranks: npt.NDArray[np.int64], scores: npt.NDArray[np.float64], leg: int
    ) -> npt.NDArray[np.float64]:
        """Return what the rows of one ranking, best first, add to the combined score."""
        if self.weights is None:
            return 1.0 / (_RANK_OFFSET + 1 + ranks)
        spread = scores[0] - scores[-1] if len(scores) else 0.0
        scaled = (scores - scores[-1]) / spread if spread else np.ones(len(scores))
        return self.weights[leg] * scaled


def _is_weight(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return math.isfinite(value) and value >= 0


def search_hybrid(
    by_words: TableSearch, by_vector: TableSearch, fusion: Fusion, task: ScanTask
) -> pa.Table:
    """Return the best rows of both rankings combined, with the combined `_score`.

    `task` runs the plan of `by_vector`, which covers every split of the other plan.
    """
    request = by_words.request
    wanted = request.wanted or 0
    count = max(_MIN_CANDIDATES, _CANDIDATES_PER_ROW * wanted)
    splits = by_vector.plan.splits
    number_of = {entry.path: number for number, entry in enumerate(splits)}
    combined: dict[tuple[int, int], float] = {}
    for leg, search in enumerate((by_words, by_vector)):
        for (path, row), score in _contributions(search.rank(task.store, count), fusion, leg):
            key = number_of[path], row
            combined[key] = combined.get(key, 0.0) + score
    by_split: dict[int, list[tuple[int, float]]] = {}
    best_first = sorted(combined.items(), key=lambda item: (-item[1], item[0]))
    for (number, row), score in best_first:
        by_split.setdefault(number, []).append((row, score))
    hits = [_hits(by_split.get(number, ())) for number in range(len(splits))]
    read = replace(request, score=True, where=None)
    rows = read_best(
        lambda number: task.open(splits[number]), hits, read, task.schema, each=task.in_order
    )
    return by_vector.plan.names.to_logical(rows)


Ranking = tuple[list[tuple[str, int]], npt.NDArray[np.float64]]
"""Rows by split path and number, best first, and their scores."""


def _contributions(
    ranking: Ranking, fusion: Fusion, leg: int
) -> Sequence[tuple[tuple[str, int], float]]:
    rows, scores = ranking
    parts = fusion.combine(np.arange(len(rows)), scores, leg)
    return list(zip(rows, parts.tolist(), strict=True))


def _hits(rows: Sequence[tuple[int, float]]) -> Hits:
    return Hits(
        np.array([row for row, _ in rows], np.int64),
        np.array([score for _, score in rows], np.float32),
    )

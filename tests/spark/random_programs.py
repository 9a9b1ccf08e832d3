"""Random DataFrame programs over pairs of frames: one of ours and one of plain Parquet that must
give the same rows.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from tests.spark.logs import WORDS

Pair = tuple[DataFrame, DataFrame]
Step = Callable[[DataFrame], DataFrame]

CONDITIONS = [
    "id < {n}",
    "id >= {n} and id <= {n} + 100",
    "id % 7 = {small}",
    "day = date'2024-03-{day:02}'",
    "day > date'2024-03-{day:02}' or day is null",
    "day in (date'2024-03-08', date'2024-03-{day:02}')",
    "level = '{level}'",
    "level != '{level}' or level is null",
    "level is null",
    "ms > {n} / 6.0",
    "ms < {small} or ms is null",
    "isnan(ms)",
    "message like '%{word}%'",
    "message is not null and length(message) < 2{small}",
    "startswith(message, '{word}')",
    "at between timestamp'2024-03-10 00:00:00' and timestamp'2024-03-1{small} 12:00:00'",
    "hour(at) = {small}",
    "not (id > {n} and level = '{level}')",
]
PROJECTIONS = [
    ["id", "day", "level", "message", "ms", "at"],
    ["id", "level", "day", "upper(message) as message", "ms * 2 as ms", "at"],
    ["id + 1 as id", "level", "message", "day", "at", "ms"],
    ["id", "coalesce(level, 'NONE') as level", "day", "message", "coalesce(ms, 0.0) as ms", "at"],
]
AGGREGATES = [
    (["level"], ["count(*) as n", "max(id) as top", "sum(id) as total"]),
    (["day"], ["count(level) as n", "min(message) as first", "count(distinct id) as ids"]),
    (["day", "level"], ["max(at) as newest", "count(ms) as n"]),
    ([], ["count(*) as n", "sum(id) as total", "max(day) as last", "min(at) as oldest"]),
]


@dataclass
class Programs:
    """Makes programs; `searches` gives a pair of frames for the rows that hold a word."""

    rng: random.Random
    everything: Callable[[], Pair]
    searches: Callable[[str], Pair]

    def program(self) -> Pair:
        """One program on both sides."""
        shape = self.rng.choice(
            ["chain", "chain", "join", "union", "searches", "group", "limit", "semi"]
        )
        made: Pair = getattr(self, f"_{shape}")()
        return made

    def _chain(self) -> Pair:
        pair = self._source()
        for _ in range(self.rng.randint(1, 3)):
            pair = _both(pair, self.rng.choice([self._where, self._select])())
        return pair

    def _join(self) -> Pair:
        left, right = (
            self._chain(),
            _both(self._chain(), lambda d: d.selectExpr("id", "level as l2", "ms as m2")),
        )
        how = self.rng.choice(["inner", "left", "full"])
        return left[0].join(right[0], "id", how), left[1].join(right[1], "id", how)

    def _semi(self) -> Pair:
        left, right = self._chain(), _both(self._chain(), lambda d: d.selectExpr("day"))
        how = self.rng.choice(["left_semi", "left_anti"])
        return left[0].join(right[0], "day", how), left[1].join(right[1], "day", how)

    def _union(self) -> Pair:
        one, two = self._chain(), self._chain()
        joined = one[0].unionByName(two[0]), one[1].unionByName(two[1])
        return _both(joined, lambda d: d.distinct()) if self.rng.random() < 0.3 else joined

    def _searches(self) -> Pair:
        one, two = (self.searches(self.rng.choice(WORDS)) for _ in range(2))
        both = one[0].unionAll(two[0]), one[1].unionAll(two[1])
        return _both(both, self._where())

    def _group(self) -> Pair:
        keys, outputs = self.rng.choice(AGGREGATES)
        return _both(self._chain(), lambda d: d.groupBy(*keys).agg(*[f.expr(o) for o in outputs]))

    def _limit(self) -> Pair:
        count = self.rng.randint(0, 50)
        return _both(self._chain(), lambda d: d.orderBy("id", "at").limit(count))

    def _source(self) -> Pair:
        return (
            self.everything() if self.rng.random() < 0.7 else self.searches(self.rng.choice(WORDS))
        )

    def _where(self) -> Step:
        text = self.rng.choice(CONDITIONS).format(
            n=self.rng.randint(-10, 700),
            small=self.rng.randint(0, 6),
            day=self.rng.randint(7, 12),
            level=self.rng.choice(["ERROR", "WARN", "NOPE"]),
            word=self.rng.choice(WORDS),
        )
        return lambda d: d.where(text)

    def _select(self) -> Step:
        columns = self.rng.choice(PROJECTIONS)
        return lambda d: d.selectExpr(*columns)


def _both(pair: Pair, step: Step) -> Pair:
    return step(pair[0]), step(pair[1])

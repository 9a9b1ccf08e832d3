"""Random SQL queries over a table of log lines, as text with a placeholder for the table and one
for a word search.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from tests.spark.logs import WORDS

CONDITIONS = [
    "{a}.id < {n}",
    "{a}.id BETWEEN {n} AND {n} + 90",
    "{a}.id % 5 = {digit}",
    "{a}.id IN ({n}, {n} + 3, {n} + 70, NULL)",
    "{a}.id NOT IN ({n}, {n} + 1)",
    "{a}.day = DATE'2024-03-{day:02}'",
    "{a}.day >= DATE'2024-03-{day:02}'",
    "{a}.day IS NULL",
    "{a}.day <=> NULL",
    "{a}.level = '{level}'",
    "{a}.level <> '{level}'",
    "{a}.level IS NOT NULL",
    "coalesce({a}.level, 'none') IN ('none', '{level}')",
    "lower({a}.level) LIKE '%r%'",
    "{a}.ms > {n} / 7.0",
    "isnan({a}.ms)",
    "{a}.ms IS NULL",
    "{a}.message LIKE '{word}%'",
    "{a}.message RLIKE '{word}$'",
    "length({a}.message) > 2{digit}",
    "{a}.at < TIMESTAMP'2024-03-1{digit} 03:00:00'",
    "minute({a}.at) = 7 * {digit}",
    "[{a}:{word}]",
    "[{a}:{word}]",
]
"""`[alias:word]` is a search for a word in the column `message` of the table with that alias."""

SELECTIONS = [
    "{a}.*",
    "{a}.id, {a}.level",
    "{a}.id, upper({a}.message) AS text, {a}.day",
    "{a}.id, CASE WHEN {a}.ms > 10 THEN 'slow' ELSE 'fast' END AS speed",
    "{a}.id, date_trunc('hour', {a}.at) AS hour, {a}.ms",
    "DISTINCT {a}.day, {a}.level",
]
AGGREGATES = [
    ("{a}.level", "count(*) AS n, min({a}.id) AS low, max({a}.id) AS high"),
    ("{a}.day", "count({a}.ms) AS n, sum({a}.id) AS total"),
    ("{a}.day, {a}.level", "count(DISTINCT {a}.message) AS texts"),
    ("date_trunc('day', {a}.at)", "count(*) AS n, max({a}.message) AS last"),
    ("CUBE ({a}.day, {a}.level)", "count(*) AS n"),
    ("ROLLUP ({a}.level)", "avg({a}.id) AS mean"),
]


@dataclass
class Queries:
    """Makes queries; `{t}` in the text of a query is the table."""

    rng: random.Random

    def query(self) -> str:
        """Return the text of one query."""
        shapes = [
            self._select,
            self._select,
            self._group,
            self._join,
            self._in_subquery,
            self._exists,
            self._scalar_subquery,
            self._window,
            self._set_operation,
            self._top,
            self._nested,
        ]
        return self.rng.choice(shapes)()

    def _select(self, alias: str = "a") -> str:
        columns = self.rng.choice(SELECTIONS).format(a=alias)
        return f"SELECT {columns} FROM {{t}} {alias} WHERE {self._where(alias)}"

    def _group(self) -> str:
        keys, outputs = self.rng.choice(AGGREGATES)
        having = self.rng.choice(["", " HAVING count(*) > 3"])
        return f"SELECT {outputs} FROM {{t}} a WHERE {self._where('a')} GROUP BY {keys}{having}".replace(
            "{a}", "a"
        )

    def _join(self) -> str:
        kind = self.rng.choice(
            ["JOIN", "LEFT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN"]
        )
        right = f"(SELECT b.id + {self.rng.randint(0, 3)} AS id, b.day FROM {{t}} b WHERE {self._where('b')})"
        return f"SELECT a.id, a.level FROM {{t}} a {kind} {right} r ON a.id = r.id WHERE {self._where('a')}"

    def _in_subquery(self) -> str:
        negated = self.rng.choice(["", "NOT "])
        inner = f"SELECT b.id FROM {{t}} b WHERE b.id IS NOT NULL AND {self._where('b')}"
        return f"SELECT a.id, a.day FROM {{t}} a WHERE a.id {negated}IN ({inner}) AND {self._where('a')}"

    def _exists(self) -> str:
        negated = self.rng.choice(["", "NOT "])
        inner = f"SELECT 1 FROM {{t}} b WHERE b.id = a.id + 1 AND {self._where('b')}"
        return f"SELECT a.id FROM {{t}} a WHERE {negated}EXISTS ({inner}) AND {self._where('a')}"

    def _scalar_subquery(self) -> str:
        inner = f"SELECT max(b.id) FROM {{t}} b WHERE b.level = a.level AND {self._condition('b')}"
        return f"SELECT a.id, ({inner}) AS top FROM {{t}} a WHERE {self._where('a')}"

    def _window(self) -> str:
        function = self.rng.choice(["row_number()", "rank()", "lag(a.id)", "sum(a.id)"])
        over = "OVER (PARTITION BY a.level ORDER BY a.id)"
        return f"SELECT a.id, {function} {over} AS w FROM {{t}} a WHERE {self._where('a')}"

    def _set_operation(self) -> str:
        operation = self.rng.choice(["UNION", "UNION ALL", "INTERSECT", "EXCEPT"])
        one, two = (f"SELECT a.id, a.level FROM {{t}} a WHERE {self._where('a')}" for _ in range(2))
        return f"{one} {operation} {two}"

    def _top(self) -> str:
        order = self.rng.choice(
            ["a.id DESC", "a.at, a.id", "a.day NULLS LAST, a.id", "a.level DESC, a.id"]
        )
        limit = self.rng.randint(0, 40)
        return f"SELECT a.id, a.message FROM {{t}} a WHERE {self._where('a')} ORDER BY {order} LIMIT {limit}"

    def _nested(self) -> str:
        inner = f"SELECT a.id, a.level, a.day FROM {{t}} a WHERE {self._where('a')}"
        return f"WITH few AS ({inner}) SELECT level, count(*) AS n, max(day) AS last FROM few GROUP BY level"

    def _where(self, alias: str) -> str:
        first = self._condition(alias)
        shape = self.rng.choice(["one", "and", "or", "not", "mixed"])
        if shape == "one":
            return first
        if shape == "not":
            return f"NOT ({first})"
        second = self._condition(alias)
        if shape == "mixed":
            return f"({first} OR {second}) AND {self._condition(alias)}"
        return f"({first} {shape.upper()} {second})"

    def _condition(self, alias: str) -> str:
        return self.rng.choice(CONDITIONS).format(
            a=alias,
            n=self.rng.randint(-5, 620),
            digit=self.rng.randint(0, 4),
            day=self.rng.randint(7, 12),
            level=self.rng.choice(["ERROR", "WARN", "OTHER"]),
            word=self.rng.choice(WORDS),
        )

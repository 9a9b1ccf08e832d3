"""Random programs of statements that change rows, and a model of them in plain Python: a list of
rows.

The model knows what SQL says about nulls and duplicates and nothing about Spark or tables. A row is
a dict; a column that was added later is null in the rows before it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

Row = dict[str, Any]
Truth = bool | None
"""What a condition is for a row: unknown (None) where it compares a null."""

WORDS = ["timeout", "gateway", "disk", "login", "retry"]
DAYS = ["mon", "tue", "wed", None]
COLUMNS = "id INT, v STRING, day STRING, s STRUCT<a: INT, b: STRING>, n BIGINT"
NAMES = ["id", "v", "day", "s", "n"]


@dataclass(frozen=True)
class Statement:
    """SQL with `{t}` for the table, and what it does to the rows of the model; None where it must
    be refused.
    """

    sql: str
    changes: Callable[[list[Row]], list[Row]] | None
    adds: tuple[str, ...] = ()
    """Columns that the statement adds to the table."""
    default: int | None = None
    """Without SQL: the default of the one column that is added, which the rows before it hold too."""


def literal(value: Any) -> str:
    """Return a value as SQL writes it."""
    if value is None:
        return "NULL"
    if isinstance(value, str):
        return f"'{value}'"
    return str(value)


def typed(name: str, value: Any, *, by_name: bool = False) -> str:
    """Return a value of a column as SQL with its type.

    For a statement that assigns by name, the fields of a struct have another order than in the
    table.
    """
    if name == "s":
        order = ("b", "a") if by_name else ("a", "b")
        parts = [f"'{each}', {typed(f's.{each}', (value or {}).get(each))}" for each in order]
        struct = f"named_struct({', '.join(parts)})"
        return f"if(true, NULL, {struct})" if value is None else struct
    types = {"id": "INT", "v": "STRING", "day": "STRING", "s.a": "INT", "s.b": "STRING"}
    return f"CAST({literal(value)} AS {types.get(name, 'BIGINT')})"


def relation(rows: list[Row], names: list[str], *, by_name: bool = False) -> str:
    """Return rows as a query, with the columns in the order of the names."""
    selects = [
        f"SELECT {', '.join(f'{typed(name, row.get(name), by_name=by_name)} AS {name}' for name in names)}"
        for row in rows
    ]
    return " UNION ALL ".join(selects)


@dataclass
class Model:
    """The rows that a table must have, and one program's choices."""

    rng: random.Random
    rows: list[Row] = field(default_factory=list)
    names: list[str] = field(default_factory=lambda: list(NAMES))
    defaults: Row = field(default_factory=dict)
    """Columns with a default."""
    versions: dict[int, list[tuple[Any, ...]]] = field(default_factory=dict)
    """The rows of each version after which a statement ended."""

    def statements(self, count: int) -> Iterator[Statement]:
        """Yield statements; the caller applies each to the table, and `apply` to the model."""
        yield self._insert()
        for _ in range(count):
            kinds = [self._insert, self._insert_overwrite, self._update, self._update, self._delete]
            kinds += [self._merge] * 5 + [
                self._evolve,
                self._merge_with_new_column,
                self._add_column_with_default,
            ]
            yield self.rng.choice(kinds)()

    def apply(self, statement: Statement) -> None:
        """Do to the model what the statement does to the table."""
        if statement.changes is None:
            return
        self.names += statement.adds
        if statement.default is not None:
            self.defaults[statement.adds[0]] = statement.default
        self.rows = statement.changes(self.rows)

    def table_rows(self) -> list[tuple[Any, ...]]:
        """Return the rows as the table returns them."""
        return sorted(
            (tuple(_value(row.get(name)) for name in self.names) for row in self.rows), key=repr
        )

    # statements

    def _insert(self) -> Statement:
        rows = self._new_rows(self.rng.randint(1, 12))
        shape = self.rng.choice(["position", "name", "list"])
        if shape == "position":
            return Statement(
                f"INSERT INTO {{t}} {relation(rows, self.names)}", lambda old: old + rows
            )
        names = self._some_names()
        kept = [{name: row[name] for name in names} for row in rows]
        complete = [{**self.defaults, **row} for row in kept]
        if shape == "name":
            return Statement(
                f"INSERT INTO {{t}} BY NAME {relation(kept, names, by_name=True)}",
                lambda old: old + complete,
            )
        return Statement(
            f"INSERT INTO {{t}} ({', '.join(names)}) {relation(kept, names)}",
            lambda old: old + complete,
        )

    def _insert_overwrite(self) -> Statement:
        rows = self._new_rows(self.rng.randint(1, 6))
        day = self.rng.choice([day for day in DAYS if day])
        shape = self.rng.choice(["partition", "partition", "condition", "all"])
        if shape == "all" and len(self.rows) > 30:
            return Statement(
                f"INSERT OVERWRITE {{t}} {relation(rows, self.names)}", lambda old: rows
            )
        for row in rows:
            row["day"] = day
        others = [name for name in self.names if name != "day"]
        if shape == "condition":
            sql = f"INSERT INTO {{t}} REPLACE WHERE day = '{day}' {relation(rows, self.names)}"
        else:
            sql = f"INSERT OVERWRITE {{t}} PARTITION (day = '{day}') {relation(rows, others)}"
        return Statement(sql, lambda old: [row for row in old if row.get("day") != day] + rows)

    def _delete(self) -> Statement:
        sql, holds = self._condition("t")
        return Statement(
            f"DELETE FROM {{t}} AS t WHERE {sql}",
            lambda old: [row for row in old if holds(row) is not True],
        )

    def _update(self) -> Statement:
        sql, holds = self._condition("t")
        sets, change = self._assignments("t")
        return Statement(
            f"UPDATE {{t}} AS t SET {sets} WHERE {sql}",
            lambda old: [{**row, **change(row, {})} if holds(row) is True else row for row in old],
        )

    def _evolve(self) -> Statement:
        name = f"x{len(self.names)}"
        rows = self._new_rows(2)
        for row in rows:
            row[name] = self.rng.randint(0, 9)
        query = relation(rows, [*self.names, name], by_name=True)
        sql = f"INSERT WITH SCHEMA EVOLUTION INTO {{t}} BY NAME {query}"
        return self._at_most_two_more(Statement(sql, lambda old: old + rows, (name,)))

    def _add_column_with_default(self) -> Statement:
        name, default = f"x{len(self.names)}", self.rng.randint(10, 19)
        added = Statement("", lambda old: [{**row, name: default} for row in old], (name,), default)
        return self._at_most_two_more(added)

    def _merge_with_new_column(self) -> Statement:
        name = f"x{len(self.names)}"
        source = self._source()
        for row in source:
            row[name] = self.rng.randint(0, 9)
        names = self._shuffled([*self.names, name])
        sql = f"MERGE WITH SCHEMA EVOLUTION INTO {{t}} t USING ({relation(source, names, by_name=True)}) s ON t.id = s.id "
        sql += "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        return self._at_most_two_more(
            self._merged(sql, source, [self._star()], [self._star()], [], (name,))
        )

    def _at_most_two_more(self, statement: Statement) -> Statement:
        return statement if len(self.names) < len(NAMES) + 2 else self._delete()

    def _merge(self) -> Statement:
        source = self._source()
        matched = self._clauses(["update", "delete", "star"])
        missing = self._clauses(["insert", "star"])
        alone = self._clauses(["update", "delete"], alone=True) if self.rng.random() < 0.4 else []
        if not (matched or missing or alone):
            missing = [self._star()]
        clauses = [clause.sql_of("MATCHED", "UPDATE SET *") for clause in matched]
        clauses += [clause.sql_of("NOT MATCHED", "INSERT *") for clause in missing]
        clauses += [clause.sql_of("NOT MATCHED BY SOURCE", "") for clause in alone]
        names = self._shuffled(self.names)
        sql = (
            f"MERGE INTO {{t}} t USING ({relation(source, names, by_name=True)}) s ON t.id = s.id "
        )
        return self._merged(sql + " ".join(clauses), source, matched, missing, alone)

    def _merged(
        self,
        sql: str,
        source: list[Row],
        matched: list[Clause],
        missing: list[Clause],
        alone: list[Clause],
        adds: tuple[str, ...] = (),
    ) -> Statement:
        merge = Merge(source, matched, missing, alone, [*self.names, *adds])
        return Statement(sql, None if merge.changes_twice(self.rows) else merge.rows, adds)

    # parts of statements

    def _new_rows(self, count: int) -> list[Row]:
        return [self._row(self.rng.randint(0, 60)) for _ in range(count)]

    def _row(self, number: int) -> Row:
        rng = self.rng
        row: Row = {
            "id": number if rng.random() > 0.05 else None,
            "v": " ".join(rng.choices(WORDS, k=2)) if rng.random() > 0.1 else None,
            "day": rng.choice(DAYS),
            "s": {"a": rng.choice([None, rng.randint(0, 5)]), "b": rng.choice(WORDS)}
            if rng.random() > 0.1
            else None,
            "n": rng.choice([None, rng.randint(-5, 5)]),
        }
        return {name: row.get(name, rng.randint(0, 9)) for name in self.names}

    def _source(self) -> list[Row]:
        """Return rows of a source: most have the keys of rows, few have a key twice."""
        keys = self.rng.sample(range(70), self.rng.randint(1, 12))
        if self.rng.random() < 0.15:
            keys.append(keys[0])
        return [self._row(key) for key in keys]

    def _some_names(self) -> list[str]:
        names = [name for name in self.names if name == "id" or self.rng.random() < 0.8]
        return self._shuffled(names)

    def _shuffled(self, names: list[str]) -> list[str]:
        return self.rng.sample(names, len(names))

    def _condition(self, alias: str) -> tuple[str, Callable[[Row], Truth]]:
        rng = self.rng
        number, digit, word, day = (
            rng.randint(0, 60),
            rng.randint(0, 5),
            rng.choice(WORDS),
            rng.choice(DAYS[:3]),
        )
        plain: list[tuple[str, Callable[[Row], Truth]]] = [
            (f"{alias}.id < {number}", lambda row: _compare(row.get("id"), lambda x: x < number)),
            (
                f"{alias}.id % 4 = {digit % 4}",
                lambda row: _compare(row.get("id"), lambda x: x % 4 == digit % 4),
            ),
            (f"{alias}.day = '{day}'", lambda row: _compare(row.get("day"), lambda x: x == day)),
            (f"{alias}.v IS NULL", lambda row: row.get("v") is None),
            (f"{alias}.v LIKE '%{word}%'", lambda row: _compare(row.get("v"), lambda x: word in x)),
            (
                f"{alias}.s.a >= {digit}",
                lambda row: _compare((row.get("s") or {}).get("a"), lambda x: x >= digit),
            ),
            (f"coalesce({alias}.n, 0) > {digit - 3}", lambda row: (row.get("n") or 0) > digit - 3),
        ]
        sql, holds = rng.choice(plain)
        if rng.random() < 0.3:
            other, also = rng.choice(plain)
            if rng.random() < 0.5:
                return f"({sql} AND {other})", lambda row: _and(holds(row), also(row))
            return f"({sql} OR NOT {other})", lambda row: _or(holds(row), _not(also(row)))
        return sql, holds

    def _assignments(
        self, alias: str, *, with_source: bool = False
    ) -> tuple[str, Callable[[Row, Row], Row]]:
        rng = self.rng
        digit, word, day = rng.randint(0, 9), rng.choice(WORDS), rng.choice(DAYS)
        choices: list[tuple[str, str, Callable[[Row, Row], Any]]] = [
            ("n", f"coalesce({alias}.n, 0) + {digit}", lambda row, _: (row.get("n") or 0) + digit),
            (
                "v",
                f"concat({alias}.v, ' {word}')",
                lambda row, _: row["v"] + f" {word}" if row.get("v") else row.get("v"),
            ),
            ("day", typed("day", day), lambda row, _: day),
            (
                "s",
                f"named_struct('b', '{word}', 'a', {digit})",
                lambda row, _: {"a": digit, "b": word},
            ),
            ("id", f"{alias}.id", lambda row, _: row.get("id")),
        ]
        for name, default in self.defaults.items():
            choices.append((name, "DEFAULT", _constant(default)))
        if with_source:
            choices += [
                ("n", f"{alias}.n + s.n", lambda row, other: _sum(row.get("n"), other.get("n"))),
                ("s", "s.s", lambda _, other: other.get("s")),
                ("day", "s.day", lambda _, other: other.get("day")),
            ]
        chosen = {name: (sql, value) for name, sql, value in rng.sample(choices, rng.randint(1, 3))}
        text = ", ".join(f"{name} = {sql}" for name, (sql, _) in chosen.items())
        return text, lambda row, other: {
            name: value(row, other) for name, (_, value) in chosen.items()
        }

    def _clauses(self, kinds: list[str], *, alone: bool = False) -> list[Clause]:
        """Return up to three clauses of a kind; all but the last have a condition."""
        count = self.rng.choice([0, 1, 1, 2, 3]) if not alone else self.rng.randint(1, 2)
        return [
            self._clause(self.rng.choice(kinds), last=number == count - 1, alone=alone)
            for number in range(count)
        ]

    def _clause(self, kind: str, *, last: bool, alone: bool) -> Clause:
        source = kind in ("insert", "star")
        condition = None
        if not last or self.rng.random() < 0.5:
            sql, holds = self._condition("s" if source else "t")
            condition = (
                sql,
                (lambda row, other: holds(other)) if source else (lambda row, other: holds(row)),
            )
        if kind == "update":
            sets, change = self._assignments("t", with_source=not alone)
            return Clause(kind, condition, sets, change)
        if kind == "insert":
            names = self._some_names()
            values = ", ".join(f"s.{name}" for name in names)
            sql = f"({', '.join(names)}) VALUES ({values})"
            defaults = dict(self.defaults)
            return Clause(
                kind,
                condition,
                sql,
                lambda _, other: {**defaults, **{name: other.get(name) for name in names}},
            )
        return Clause(kind, condition)

    def _star(self) -> Clause:
        return Clause("star")


@dataclass(frozen=True)
class Clause:
    """A WHEN clause: its kind, its condition over a row and a source row, and the values that it
    gives.
    """

    kind: str
    condition: tuple[str, Callable[[Row, Row], Truth]] | None = None
    sql: str = ""
    change: Callable[[Row, Row], Row] | None = None

    def sql_of(self, words: str, star: str) -> str:
        """Return the clause as SQL writes it."""
        condition = "" if self.condition is None else f" AND {self.condition[0]}"
        what = {
            "update": f"UPDATE SET {self.sql}",
            "insert": f"INSERT {self.sql}",
            "delete": "DELETE",
            "star": star,
        }
        return f"WHEN {words}{condition} THEN {what[self.kind]}"

    def holds(self, row: Row, other: Row) -> bool:
        """Whether the clause applies; an unknown condition does not."""
        return self.condition is None or self.condition[1](row, other) is True


@dataclass(frozen=True)
class Merge:
    """What a MERGE makes of rows."""

    source: list[Row]
    matched: list[Clause]
    missing: list[Clause]
    alone: list[Clause]
    names: list[str]

    def rows(self, old: list[Row]) -> list[Row]:
        """Return the rows after the merge."""
        result: list[Row] = []
        for row in old:
            partners = [other for other in self.source if _is_match(row, other)]
            made: Row | None = row
            for other in partners:
                made = self._made(self.matched, row, other) if made is row else made
            if not partners:
                made = self._made(self.alone, row, {})
            result += [] if made is None else [made]
        for other in self.source:
            if not any(_is_match(row, other) for row in old):
                clause = next((each for each in self.missing if each.holds(other, other)), None)
                if clause is not None:
                    result.append(clause.change({}, other) if clause.change else dict(other))
        return result

    def changes_twice(self, old: list[Row]) -> bool:
        """Whether several source rows change one row, which is an error unless the only clause
        deletes it always.
        """
        if (
            len(self.matched) == 1
            and self.matched[0].kind == "delete"
            and self.matched[0].condition is None
        ):
            return False
        return any(
            sum(
                any(clause.holds(row, other) for clause in self.matched)
                for other in self.source
                if _is_match(row, other)
            )
            > 1
            for row in old
        )

    def _made(self, clauses: list[Clause], row: Row, other: Row) -> Row | None:
        clause = next((each for each in clauses if each.holds(row, other)), None)
        if clause is None:
            return row
        if clause.kind == "delete":
            return None
        return {
            **row,
            **(
                clause.change(row, other)
                if clause.change
                else {name: other.get(name) for name in self.names}
            ),
        }


def _constant(value: Any) -> Callable[[Row, Row], Any]:
    return lambda _row, _other: value


def _is_match(row: Row, other: Row) -> bool:
    return row.get("id") is not None and row.get("id") == other.get("id")


def _compare(value: Any, test: Callable[[Any], bool]) -> Truth:
    return None if value is None else test(value)


def _and(one: Truth, two: Truth) -> Truth:
    if one is False or two is False:
        return False
    return None if one is None or two is None else True


def _or(one: Truth, two: Truth) -> Truth:
    return _not(_and(_not(one), _not(two)))


def _not(one: Truth) -> Truth:
    return None if one is None else not one


def _sum(one: Any, two: Any) -> Any:
    return None if one is None or two is None else one + two


def _value(value: Any) -> Any:
    return tuple(value.values()) if isinstance(value, dict) else value

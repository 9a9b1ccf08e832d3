"""Random programs of changing columns and rows, against plain lists of rows: every version, by
scan, search and count.
"""

from __future__ import annotations

import random
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from indextables import Table

NAMES = ["a", "b", "c", "d", "e"]
WORDS = ["timeout", "gateway", "disk", "login"]
TYPES = {
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "text": pa.string(),
    "string": pa.string(),
    "struct": pa.struct([("user", pa.string()), ("n", pa.int32())]),
}
WIDER = {"int": "long", "float": "double"}


@dataclass
class Field:
    """A column: what it is called now, and its kind; `inside` are the names of a struct's fields,
    by what they mean.
    """

    number: int
    name: str
    kind: str
    default: Any = None
    inside: list[list[str]] = field(default_factory=list)


@dataclass
class Naive:
    """A table as plain values; a row holds its values by the number of the column."""

    dice: random.Random
    fields: list[Field]
    rows: list[dict[int, Any]] = field(default_factory=list)
    numbers: int = 10

    def value(self, one: Field) -> Any:
        dice = self.dice
        if dice.random() < 0.15:
            return None
        if one.kind in ("int", "long"):
            return dice.randrange(20)
        if one.kind in ("float", "double"):
            return float(pa.scalar(dice.choice([1.1, 2.5, 3.3, 0.1]), pa.float32()).as_py())
        if one.kind == "text":
            return " ".join(dice.choices(WORDS, k=2))
        if one.kind == "string":
            return dice.choice(WORDS)
        return {
            meaning: dice.choice(WORDS) if meaning != "n" else dice.randrange(9)
            for _, meaning in one.inside
        }

    def shown(self) -> list[dict[str, Any]]:
        return [
            {one.name: self.seen(one, row.get(one.number, one.default)) for one in self.fields}
            for row in self.rows
        ]

    def seen(self, one: Field, value: Any) -> Any:
        if one.kind != "struct" or value is None:
            return value
        return {name: value.get(meaning) for name, meaning in one.inside}

    def arrow_type(self, one: Field) -> pa.DataType:
        if one.kind != "struct":
            return TYPES[one.kind]
        return pa.struct(
            [(name, pa.int32() if meaning == "n" else pa.string()) for name, meaning in one.inside]
        )


class Program:
    """One run: each step does the same to the table and to the plain rows."""

    def __init__(self, path: Path, seed: int) -> None:
        self.dice = random.Random(seed)
        first = [
            Field(0, "id", "int"),
            Field(1, "a", "text"),
            Field(2, "b", "string"),
            Field(3, "c", "float"),
        ]
        first.append(Field(4, "d", "struct", inside=[["user", "user"], ["n", "n"]]))
        self.naive = Naive(self.dice, first)
        schema = pa.schema([(one.name, TYPES[one.kind]) for one in first])
        self.table = Table.create(
            str(path),
            schema=schema,
            options={"indexing.typemap.a": "text", "indexing.typemap.d": "json"},
        )
        self.past: dict[int, tuple[list[Field], list[dict[str, Any]]]] = {}

    def run(self, steps: int) -> None:
        self.append()
        for _ in range(steps):
            options = [
                self.append,
                self.append,
                self.rename,
                self.rename,
                self.drop,
                self.add,
                self.widen,
            ]
            self.dice.choice(
                [*options, self.reorder, self.merge, self.delete, self.nested, self.checkpoint]
            )()
            if self.dice.random() < 0.3:
                self.table = Table.open(self.table.path)
            self.check(self.table, self.naive.fields, self.naive.shown())
            self.past[self.table.version] = deepcopy(self.naive.fields), self.naive.shown()
        for version, (fields, rows) in self.past.items():
            self.check(Table.open(self.table.path, version=version), fields, rows)
        assert self.table.verify(full=True).healthy

    def pick(self, *kinds: str) -> Field | None:
        chosen = [
            one
            for one in self.naive.fields
            if one.name != "id" and (not kinds or one.kind in kinds)
        ]
        return self.dice.choice(chosen) if chosen else None

    def free_name(self) -> str | None:
        left = [name for name in NAMES if name not in {one.name for one in self.naive.fields}]
        return self.dice.choice(left) if left else None

    def append(self) -> None:
        naive, some = (
            self.naive,
            [one for one in self.naive.fields if one.name == "id" or self.dice.random() < 0.8],
        )
        rows = []
        for _ in range(self.dice.randint(1, 4)):
            row = {one.number: naive.value(one) for one in some}
            row[0] = naive.numbers
            naive.numbers += 1
            rows.append(row)
        data = [{one.name: naive.seen(one, row[one.number]) for one in some} for row in rows]
        self.table.append(
            pa.Table.from_pylist(
                data, schema=pa.schema([(one.name, naive.arrow_type(one)) for one in some])
            )
        )
        missing = {one.number: one.default for one in naive.fields if one not in some}
        naive.rows += [{**row, **missing} for row in rows]

    def rename(self) -> None:
        one, name = self.pick(), self.free_name()
        if one and name:
            self.table.alter.rename_column(one.name, name)
            one.name = name

    def drop(self) -> None:
        one = self.pick()
        if one and len(self.naive.fields) > 2:
            self.table.alter.drop_column(one.name)
            self.naive.fields.remove(one)

    def add(self) -> None:
        name, kind = self.free_name(), self.dice.choice(["int", "text", "string", "double"])
        if name is None:
            return
        one = Field(len(self.past) * 100 + self.naive.numbers + 1_000, name, kind)
        if self.dice.random() < 0.5:
            one.default = None if kind == "double" else self.naive.value(one)
        options = {f"indexing.typemap.{name}": kind} if kind in ("text", "string") else {}
        first = self.dice.random() < 0.3
        self.table.alter.add_column(
            name, TYPES[kind], default=one.default, options=options, first=first
        )
        self.naive.fields.insert(0 if first else len(self.naive.fields), one)

    def widen(self) -> None:
        one = self.pick("int", "float")
        if one:
            one.kind = WIDER[one.kind]
            self.table.alter.widen_column(one.name, TYPES[one.kind])

    def reorder(self) -> None:
        order = self.dice.sample(self.naive.fields, 2)
        self.table.alter.reorder([one.name for one in order])
        self.naive.fields = [*order, *(one for one in self.naive.fields if one not in order)]

    def nested(self) -> None:
        one = self.pick("struct")
        if one is None:
            return
        if self.dice.random() < 0.5:
            inner = self.dice.choice(one.inside)
            name = f"f{self.dice.randrange(1_000)}"
            self.table.alter.rename_column(f"{one.name}.{inner[0]}", name)
            inner[0] = name
        elif len(one.inside) > 1 and self.dice.random() < 0.5:
            inner = self.dice.choice(one.inside)
            self.table.alter.drop_column(f"{one.name}.{inner[0]}")
            one.inside.remove(inner)
        else:
            name, meaning = f"g{self.dice.randrange(1_000)}", f"new{self.dice.random()}"
            self.table.alter.add_column(f"{one.name}.{name}", pa.string())
            one.inside.append([name, meaning])

    def merge(self) -> None:
        self.table.merge(order_by=self.dice.choice([None, "id"]))

    def delete(self) -> None:
        limit = self.dice.randrange(10, self.naive.numbers)
        self.table.delete(where=f"id = {limit}")
        self.naive.rows = [row for row in self.naive.rows if row[0] != limit]

    def checkpoint(self) -> None:
        self.table.checkpoint()

    def check(self, table: Table, fields: list[Field], rows: list[dict[str, Any]]) -> None:
        assert table.schema.names == [one.name for one in fields]
        found = sorted(table.scan().read_all().to_pylist(), key=lambda row: row["id"])
        expected = sorted(rows, key=lambda row: row["id"])
        assert found == expected
        word = self.dice.choice(WORDS)
        for one in fields:
            values = [(row["id"], row[one.name]) for row in expected]
            if one.kind in ("text", "string"):
                query = f"{one.name}:{word}"
                self.same(
                    table, query, [n for n, v in values if v is not None and word in v.split()]
                )
            if one.kind == "struct":
                for name, meaning in one.inside:
                    if meaning != "n":
                        hits = [n for n, v in values if v is not None and v[name] == word]
                        self.same(table, f"{one.name}.{name}:{word}", hits)
            if one.kind in ("int", "long", "float", "double"):
                limit = self.dice.choice([v for _, v in values if v is not None] or [1])
                condition = f"{one.name} >= {limit!r}{'D' if isinstance(limit, float) else ''}"
                assert table.count(where=condition) == sum(
                    1 for _, v in values if v is not None and v >= limit
                )
            if one.kind != "struct":
                keys = {v for _, v in values if v is not None}
                counts = {row["k"]: row["count"] for row in self.counted(table, one)}
                assert counts == {key: sum(1 for _, v in values if v == key) for key in keys}

    def counted(self, table: Table, one: Field) -> list[dict[str, Any]]:
        return list(
            table.aggregate({"k": {"terms": {"field": one.name, "size": 1_000}}}).to_pylist()
        )

    def same(self, table: Table, query: str, ids: list[int]) -> None:
        assert sorted(table.search(query, columns=["id"]).column("id").to_pylist()) == ids, query
        assert table.count(query=query) == len(ids), query


@pytest.mark.parametrize("seed", range(6))
def test_programs(tmp_path: Path, seed: int) -> None:
    Program(tmp_path / "t", seed).run(14)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 300))
def test_many_programs(tmp_path: Path, seed: int) -> None:
    Program(tmp_path / "t", seed).run(25)

"""Random programs of what changes rows, against a plain dict of rows: each version, each answer, each change feed."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from indextables import Table
from tests.support.rows import ROWS, WORDS, table_of

Content = dict[int, dict[str, Any]]
QUICK, ALL = 12, 2_000
LEVELS = ("INFO", "WARN", "ERROR", None)


class Program:
    """A table and what it should hold, version by version."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.random = random.Random(seed)
        self.partitioned = self.random.random() < 0.4
        options: dict[str, object] = {
            "delete.mode": self.random.choice(["auto", "vector", "vector", "rewrite"]),
            "delete.maxVectorShare": self.random.choice([0.1, 0.5]),
            "checkpoint.interval": self.random.choice([2, 10]),
            "state.format": self.random.choice(["avro", "avro", "json", "parquet"]),
        }
        self.table = table_of(folder / f"t{seed}", partitioned=self.partitioned, options=options)
        self.content: Content = {}
        self.versions: dict[int, Content] = {0: {}}
        self.next_id = 0
        self.told: list[str] = []

    def run(self, steps: int) -> None:
        """So many steps, each followed by a comparison."""
        self.append()
        for _ in range(steps):
            step = self.random.choice(STEPS)
            self.told.append(step.__name__)
            step(self)
            self.check()
        self.check_history()

    # -- steps

    def append(self) -> None:
        new = [self.row(self.new_id()) for _ in range(self.random.randint(1, 30))]
        self.table.append(pa.Table.from_pylist(new, ROWS))
        self.content = {**self.content, **{row["id"]: row for row in new}}
        self.keep()

    def delete(self) -> None:
        where, match = self.condition()
        if self.random.random() < 0.4:
            word = self.random.choice(WORDS)
            report = self.table.delete(query=f"message:{word}", where=where)
            match = self.both(match, word)
        else:
            report = self.table.delete(where=where)
        gone = [i for i, row in self.content.items() if match(row)]
        assert report.deleted_rows in (len(gone), None)
        self.content = {i: row for i, row in self.content.items() if i not in gone}
        self.keep()

    def update(self) -> None:
        where, match = self.condition()
        report = self.table.update(
            set={"level": "lower(coalesce(level, 'none'))", "message": "message || ' seen'"}, where=where
        )
        changed = {
            i: {**row, "level": (row["level"] or "none").lower(), "message": f"{row['message']} seen"}
            for i, row in self.content.items()
            if match(row)
        }
        assert report.updated_rows == len(changed)
        self.content = {**self.content, **changed}
        self.keep()

    def upsert(self) -> None:
        known = self.random.sample(sorted(self.content), min(len(self.content), self.random.randint(0, 8)))
        new = {i: self.row(i) for i in [*known, *(self.new_id() for _ in range(self.random.randint(0, 5)))]}
        if not new:
            return
        matched = self.random.choice(["update", "update", "ignore", "delete"])
        unmatched = self.random.choice(["insert", "insert", "ignore"])
        report = self.table.upsert(
            pa.Table.from_pylist(list(new.values()), ROWS),
            on=["id"],
            when_matched=matched,  # type: ignore[arg-type]
            when_not_matched=unmatched,  # type: ignore[arg-type]
        )
        content = dict(self.content)
        for i, row in new.items():
            if i in content and matched == "update":
                content[i] = row
            elif i in content and matched == "delete":
                del content[i]
            elif i not in content and unmatched == "insert":
                content[i] = row
        inserted = sum(i not in self.content for i in new) if unmatched == "insert" else 0
        assert report.inserted_rows == inserted
        self.content = content
        self.keep()

    def merge(self) -> None:
        self.table.merge()
        self.keep()

    def restore(self) -> None:
        version = self.random.choice(sorted(self.versions))
        self.table.restore(version=version)
        self.content = self.versions[version]
        self.keep()

    def overwrite(self) -> None:
        low = self.random.randint(0, max(self.next_id, 1))
        new = [self.row(low + n) for n in range(self.random.randint(0, 3))]
        self.table.overwrite(pa.Table.from_pylist(new, ROWS), where=f"id >= {low} AND id < {low + 5}")
        kept = {i: row for i, row in self.content.items() if not low <= i < low + 5}
        self.content = {**kept, **{row["id"]: row for row in new}}
        self.next_id = max(self.next_id, low + 5)
        self.keep()

    def checkpoint(self) -> None:
        self.table.checkpoint()
        self.keep()

    # -- rows and conditions

    def new_id(self) -> int:
        self.next_id += 1
        return self.next_id - 1

    def row(self, number: int) -> dict[str, Any]:
        words = " ".join(self.random.choices(WORDS, k=self.random.randint(1, 4)))
        return {"id": number, "day": number % 3, "level": self.random.choice(LEVELS), "message": f"{words} n{number}"}

    def condition(self) -> tuple[str, Any]:
        low = self.random.randint(0, max(self.next_id, 1))
        high = low + self.random.choice([1, 3, 10, 40])
        level = self.random.choice(LEVELS[:3])
        return self.random.choice(
            [
                (f"id >= {low} AND id < {high}", lambda row: low <= row["id"] < high),
                (f"level = '{level}'", lambda row: row["level"] == level),
                (f"level IS NULL OR id = {low}", lambda row: row["level"] is None or row["id"] == low),
                (f"day = 1 AND id < {high}", lambda row: row["day"] == 1 and row["id"] < high),
            ]
        )

    @staticmethod
    def both(match: Any, word: str) -> Any:
        return lambda row: match(row) and word in row["message"].split()

    # -- comparisons

    def keep(self) -> None:
        version = self.table.version
        for number in range(max(self.versions) + 1, version + 1):
            self.versions[number] = self.content

    def check(self) -> None:
        table = self.table if self.random.random() < 0.5 else Table.open(self.table.path)
        rows = table.scan().read_all().to_pylist()
        assert sorted(rows, key=lambda row: int(row["id"])) == [self.content[i] for i in sorted(self.content)], (
            self.told
        )
        assert table.count() == len(self.content)
        word = self.random.choice(WORDS)
        having = {i for i, row in self.content.items() if word in row["message"].split()}
        assert table.count(query=f"message:{word}") == len(having), self.told
        best = table.search(f"message:{word}", limit=5, columns=["id"]).column("id").to_pylist()
        assert len(best) == min(5, len(having))
        assert set(best) <= having, self.told
        assert set(table.search(f"message:{word}", columns=["id"]).column("id").to_pylist()) == having
        where, match = self.condition()
        wanted = sorted(i for i, row in self.content.items() if match(row))
        assert table.count(where=where) == len(wanted)
        assert sorted(table.scan(where=where, columns=["id"]).read_all().column("id").to_pylist()) == wanted
        first = table.search(f"message:{word}", limit=2, order_by="id", columns=["id"]).column("id").to_pylist()
        assert first == sorted(having)[:2]
        numbers = table.aggregate({"low": {"min": {"field": "id"}}}).to_pylist()[0]
        assert (numbers["count"], numbers["low"]) == (len(self.content), min(self.content, default=None))

    def check_history(self) -> None:
        path = self.table.path
        for version in self.random.sample(sorted(self.versions), min(3, len(self.versions))):
            rows = Table.open(path, version=version).scan().read_all().to_pylist()
            assert {row["id"]: row for row in rows} == self.versions[version], (version, self.told)
        before: Counter[str] = Counter()
        for version in sorted(self.versions):
            for change in self.table.changes(version, version).read_all().to_pylist():
                row = repr([change[name] for name in ROWS.names])
                before[row] += 1 if change["_change_type"] in ("insert", "update_postimage") else -1
            expected = Counter(repr([row[name] for name in ROWS.names]) for row in self.versions[version].values())
            assert +before == expected, (version, self.told)
        assert self.table.verify(full=True).findings == ()


STEPS = (
    Program.append,
    Program.delete,
    Program.delete,
    Program.update,
    Program.upsert,
    Program.upsert,
    Program.merge,
    Program.restore,
    Program.overwrite,
    Program.checkpoint,
)


@pytest.mark.parametrize("seed", range(QUICK))
def test_a_few_programs(tmp_path: Path, seed: int) -> None:
    Program(seed, tmp_path).run(6)


@pytest.mark.slow
@pytest.mark.parametrize("hundred", range(ALL // 100))
def test_two_thousand_programs(tmp_path: Path, hundred: int) -> None:
    for seed in range(1_000 + hundred * 100, 1_100 + hundred * 100):
        Program(seed, tmp_path).run(10)

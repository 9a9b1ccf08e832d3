"""Random programs of what changes rows and columns, against a plain dict of rows: each version,
answer and change feed.

`make programs PROGRAMS=2000 SEED=1` plays the programs of so many seeds, one after the other, and
says what it found. Each ends with a line of JSON in `bench/results/programs-<seed>.jsonl`; started
again, it goes on where it was stopped. What it finds, it finds again by `PROGRAMS=1` and the seed
that the line names.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import random
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from indextables import Table
from indextables.errors import ConflictError, VersionNotFoundError
from indextables.log.checkpoint.checkpointer import CHECKPOINTS
from tests.support.rows import ROWS, TEXT, WORDS

Content = dict[int, dict[str, Any]]
RESULTS = Path(__file__).parents[2] / "bench" / "results"
LEVELS = ("INFO", "WARN", "ERROR", None)
SCHEMA = ROWS.append(pa.field("ts", pa.timestamp("us")))
BEGIN = dt.datetime(2026, 1, 1)
FREE = {"purge.retentionCheckEnabled": False}
AT_ONCE = {**FREE, "state.gc.minManifestAgeHours": 0}


class Shape(NamedTuple):
    """What a version calls its columns: that of the levels, and one that may have been added."""

    level: str = "level"
    extra: str | None = None


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
        columns = ["day"] if self.partitioned else []
        options |= {**TEXT, "retention.column": "ts", "retention.period": "30 days"}
        self.table = Table.create(
            str(folder / f"t{seed}"), schema=SCHEMA, partition_columns=columns, options=options
        )
        self.content: Content = {}
        self.versions: dict[int, Content] = {0: {}}
        self.shape = Shape()
        self.shapes: dict[int, Shape] = {0: self.shape}
        self.tags: dict[str, int] = {}
        self.feed_from = 0
        self.number = 0
        self.next_id = 0
        self.told: list[str] = []
        self.old: Table | None = None

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
        frame = self.frame(new)
        self.written(lambda table: table.append(frame))
        self.content = {**self.content, **{row["id"]: row for row in new}}
        self.keep()

    def delete(self) -> None:
        where, match = self.condition()
        if self.random.random() < 0.4:
            word = self.random.choice(WORDS)
            report = self.written(lambda table: table.delete(query=f"message:{word}", where=where))
            match = self.both(match, word)
        else:
            report = self.written(lambda table: table.delete(where=where))
        gone = [i for i, row in self.content.items() if match(row)]
        assert report.deleted_rows in (len(gone), None)
        self.content = {i: row for i, row in self.content.items() if i not in gone}
        self.keep()

    def update(self) -> None:
        where, match = self.condition()
        report = self.table.update(
            set={
                self.shape.level: f"lower(coalesce({self.shape.level}, 'none'))",
                "message": "message || ' seen'",
            },
            where=where,
        )
        changed = {
            i: {
                **row,
                "level": (row["level"] or "none").lower(),
                "message": f"{row['message']} seen",
            }
            for i, row in self.content.items()
            if match(row)
        }
        assert report.updated_rows == len(changed)
        self.content = {**self.content, **changed}
        self.keep()

    def upsert(self) -> None:
        known = self.random.sample(
            sorted(self.content), min(len(self.content), self.random.randint(0, 8))
        )
        new = {
            i: self.row(i)
            for i in [*known, *(self.new_id() for _ in range(self.random.randint(0, 5)))]
        }
        if not new:
            return
        matched = self.random.choice(["update", "update", "ignore", "delete"])
        unmatched = self.random.choice(["insert", "insert", "ignore"])
        report = self.table.upsert(
            self.frame(list(new.values())),
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
        names = [name for name, tagged in self.tags.items() if tagged == version]
        self.table.restore(version=names[0] if names else version)
        self.content, self.shape = self.versions[version], self.shapes[version]
        self.keep()

    def overwrite(self) -> None:
        low = self.random.randint(0, max(self.next_id, 1))
        new = [self.row(low + n) for n in range(self.random.randint(0, 3))]
        self.table.overwrite(self.frame(new), where=f"id >= {low} AND id < {low + 5}")
        kept = {i: row for i, row in self.content.items() if not low <= i < low + 5}
        self.content = {**kept, **{row["id"]: row for row in new}}
        self.next_id = max(self.next_id, low + 5)
        self.keep()

    def checkpoint(self) -> None:
        self.table.checkpoint() if self.random.random() < 0.5 else self.table.compact()
        self.keep()

    def drop(self) -> None:
        if not self.partitioned:
            return
        day = self.random.randint(0, 2)
        self.table.drop_partitions(f"day = {day}")
        self.content = {i: row for i, row in self.content.items() if row["day"] != day}
        self.keep()

    def expire(self) -> None:
        edge = self.random.randint(0, max(self.next_id, 1))
        gone = [
            i for i, row in self.content.items() if row["ts"] < BEGIN + dt.timedelta(hours=edge)
        ]
        report = self.table.expire(now=BEGIN + dt.timedelta(hours=edge, days=30))
        assert report.deleted_rows in (len(gone), None)
        self.content = {i: row for i, row in self.content.items() if i not in gone}
        self.keep()

    def reindex(self) -> None:
        column = self.random.choice([self.shape.level, "message"])
        self.table.reindex(
            {column: "text"}
            if column == "message"
            else {column: self.random.choice(["text", "string", "none"])}
        )
        self.keep()

    def alter(self) -> None:
        self.number += 1
        if self.random.random() < 0.4:
            new = f"level{self.number}"
            self.table.alter.rename_column(self.shape.level, new)
            self.shape = self.shape._replace(level=new)
        elif self.shape.extra is None:
            extra, value = f"extra{self.number % 2}", self.random.choice([None, self.number])
            self.table.alter.add_column(extra, "bigint", default=value)
            self.shape = self.shape._replace(extra=extra)
            self.content = {i: {**row, "extra": value} for i, row in self.content.items()}
        else:
            self.table.alter.drop_columns([self.shape.extra])
            self.shape = self.shape._replace(extra=None)
            self.content = {
                i: {name: value for name, value in row.items() if name != "extra"}
                for i, row in self.content.items()
            }
        self.keep()

    def tag(self) -> None:
        self.number += 1
        version = self.random.choice(sorted(self.versions))
        self.table.tag(f"tag-{self.number}", version=version)
        self.tags[f"tag-{self.number}"] = version
        self.keep()

    def untag(self) -> None:
        if self.tags:
            name = self.random.choice(sorted(self.tags))
            self.table.untag(name)
            version = self.tags.pop(name)
            self.keep()
            if version < self.feed_from and version not in self.tags.values():
                del self.versions[version]  # a purge had condemned it, and only the tag kept it

    def clean(self) -> None:
        free = Table.open(self.table.path, options=FREE)
        free.purge(older_than_hours=0, log_retention_hours=0)
        if self.random.random() < 0.5:
            free.truncate_time_travel()
        self.table = Table.open(self.table.path)
        self.keep()
        stays = {*self.tags.values(), self.table.version}
        self.versions = {
            version: content for version, content in self.versions.items() if version in stays
        }
        self.feed_from = self.table.version

    def erase(self) -> None:
        where, match = self.condition()
        report = Table.open(self.table.path, options=AT_ONCE).erase(where=where, retention_hours=0)
        gone = [i for i, row in self.content.items() if match(row)]
        assert report.erased_rows == len(gone)
        assert report.proved or self.tags, report
        self.content = {i: row for i, row in self.content.items() if i not in gone}
        self.table = Table.open(self.table.path)
        self.keep()
        stays = {*self.tags.values(), self.table.version}
        self.versions = {
            version: content for version, content in self.versions.items() if version in stays
        }
        self.feed_from = self.table.version

    # -- rows and conditions

    def written(self, act: Callable[[Table], Any]) -> Any:
        """A change, often through a handle that has not seen the last versions; if they are in its
        way, through a new one.
        """
        old, self.old = self.old, self.table.refresh()
        if old is not None and old.schema == self.table.schema and self.random.random() < 0.5:
            try:
                return act(old)
            except (
                ConflictError,
                VersionNotFoundError,
            ):  # an erasure deletes the manifests of what was read
                assert self.table.refresh().version == self.table.version, self.told
        return act(self.table)

    def frame(self, rows: list[dict[str, Any]]) -> pa.Table:
        """Rows under the names that columns have now."""
        return pa.Table.from_pylist(
            [self.named(row, self.shape) for row in rows], self.table.schema
        )

    @staticmethod
    def named(row: dict[str, Any], shape: Shape) -> dict[str, Any]:
        names = {"level": shape.level, "extra": shape.extra}
        return {names.get(name, name) or name: value for name, value in row.items()}

    def new_id(self) -> int:
        self.next_id += 1
        return self.next_id - 1

    def row(self, number: int) -> dict[str, Any]:
        words = " ".join(self.random.choices(WORDS, k=self.random.randint(1, 4)))
        made: dict[str, Any] = {
            "id": number,
            "day": number % 3,
            "level": self.random.choice(LEVELS),
            "message": f"{words} n{number}",
        }
        made["ts"] = BEGIN + dt.timedelta(hours=number)
        return (
            {**made, "extra": self.random.choice([None, number])}
            if self.shape.extra is not None
            else made
        )

    def condition(self) -> tuple[str, Any]:
        low = self.random.randint(0, max(self.next_id, 1))
        high = low + self.random.choice([1, 3, 10, 40])
        level = self.random.choice(LEVELS[:3])
        return self.random.choice(
            [
                (f"id >= {low} AND id < {high}", lambda row: low <= row["id"] < high),
                (f"{self.shape.level} = '{level}'", lambda row: row["level"] == level),
                (
                    f"{self.shape.level} IS NULL OR id = {low}",
                    lambda row: row["level"] is None or row["id"] == low,
                ),
                (f"day = 1 AND id < {high}", lambda row: row["day"] == 1 and row["id"] < high),
            ]
        )

    @staticmethod
    def both(match: Any, word: str) -> Any:
        return lambda row: match(row) and word in row["message"].split()

    # -- comparisons

    def keep(self) -> None:
        self.table = self.table.refresh()
        version = self.table.version
        for number in range(max(self.versions) + 1, version + 1):
            self.versions[number], self.shapes[number] = self.content, self.shape

    def check(self) -> None:
        table = self.table if self.random.random() < 0.5 else Table.open(self.table.path)
        rows = table.scan().read_all().to_pylist()
        expected = [self.named(self.content[i], self.shape) for i in sorted(self.content)]
        assert sorted(rows, key=lambda row: int(row["id"])) == expected, self.told
        assert table.tags() == self.tags
        assert table.count() == len(self.content)
        word = self.random.choice(WORDS)
        having = {i for i, row in self.content.items() if word in row["message"].split()}
        assert table.count(query=f"message:{word}") == len(having), self.told
        best = table.search(f"message:{word}", limit=5, columns=["id"]).column("id").to_pylist()
        assert len(best) == min(5, len(having))
        assert set(best) <= having, self.told
        assert (
            set(table.search(f"message:{word}", columns=["id"]).column("id").to_pylist()) == having
        )
        where, match = self.condition()
        wanted = sorted(i for i, row in self.content.items() if match(row))
        assert table.count(where=where) == len(wanted)
        assert (
            sorted(table.scan(where=where, columns=["id"]).read_all().column("id").to_pylist())
            == wanted
        )
        first = (
            table.search(f"message:{word}", limit=2, order_by="id", columns=["id"])
            .column("id")
            .to_pylist()
        )
        assert first == sorted(having)[:2]
        self.check_pages(table, f"message:{word}", having)
        numbers = table.aggregate({"low": {"min": {"field": "id"}}}).to_pylist()[0]
        assert (numbers["count"], numbers["low"]) == (
            len(self.content),
            min(self.content, default=None),
        )

    def check_pages(self, table: Table, query: str, having: set[int]) -> None:
        found: list[int] = []
        token = None
        order = self.random.choice([None, "id", f"{self.shape.level} desc"])
        while token is not None or not found:
            size = self.random.randint(1, 40)
            page = table.search_page(
                query, limit=size, order_by=order, columns=["id"], search_after=token
            )
            found += page.rows.column("id").to_pylist()
            token = page.next
            if not having:
                break
        assert sorted(found) == sorted(having), self.told

    def check_history(self) -> None:
        path = self.table.path
        for version in self.random.sample(sorted(self.versions), min(3, len(self.versions))):
            names = [name for name, tagged in self.tags.items() if tagged == version]
            rows = (
                Table.open(path, version=names[0] if names else version)
                .scan()
                .read_all()
                .to_pylist()
            )
            expected_rows = {
                i: self.named(row, self.shapes[version])
                for i, row in self.versions[version].items()
            }
            assert {row["id"]: row for row in rows} == expected_rows, (version, self.told)
        told = [name if name != "level" else self.shape.level for name in SCHEMA.names]
        start = self.versions[self.feed_from] if self.feed_from else {}
        before: Counter[str] = Counter(
            repr([row[name] for name in SCHEMA.names]) for row in start.values()
        )
        for version in sorted(v for v in self.versions if not self.feed_from or v > self.feed_from):
            for change in self.table.changes(version, version).read_all().to_pylist():
                row = repr([change[name] for name in told])
                before[row] += 1 if change["_change_type"] in ("insert", "update_postimage") else -1
            expected = Counter(
                repr([row[name] for name in SCHEMA.names])
                for row in self.versions[version].values()
            )
            assert +before == expected, (version, self.told)
        # A restoration may lead into the midst of a reindexing, which is no damage.
        findings = [
            f for f in self.table.verify(full=True).findings if "It was decided" not in f.message
        ]
        assert findings == [], self.told


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
    Program.drop,
    Program.expire,
    Program.alter,
    Program.alter,
    Program.reindex,
    Program.tag,
    Program.untag,
    Program.clean,
    Program.erase,
)


def played(seed: int, steps: int) -> dict[str, Any]:
    """One program in a folder of its own: what it did, how long it took, and the error that ended
    it, if one did.
    """
    begun = time.process_time()
    error, program = None, None
    with tempfile.TemporaryDirectory(prefix="programs-") as folder:
        try:
            program = Program(seed, Path(folder))
            program.run(steps)
        except Exception:  # whatever ends a program is what is looked for
            error = traceback.format_exc()
        if program is not None:
            CHECKPOINTS.settle(program.table.path)
    told = program.told if program is not None else []
    return {
        "seed": seed,
        "steps": told,
        "error": error,
        "cpu_s": round(time.process_time() - begun, 2),
    }


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.model.row_programs", description=__doc__)
    parser.add_argument("--programs", type=int, default=2_000, help="so many seeds")
    parser.add_argument("--seed", type=int, default=1, help="the first of them")
    parser.add_argument("--steps", type=int, default=10, help="so many steps in each program")
    asked = parser.parse_args()
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / f"programs-{asked.seed}.jsonl"
    lines = (
        [json.loads(line) for line in path.read_text().splitlines()]
        if path.exists() and asked.programs > 1
        else []
    )
    done = {line["seed"] for line in lines}
    with path.open("a") as log:
        for seed in range(asked.seed, asked.seed + asked.programs):
            if seed in done:
                continue
            lines.append(played(seed, asked.steps))
            print(json.dumps(lines[-1]), file=log, flush=True)
            if lines[-1]["error"]:
                print(f"seed {seed}: {lines[-1]['steps']}\n{lines[-1]['error']}", flush=True)
    steps = Counter(step for line in lines for step in line["steps"])
    wrong = [line["seed"] for line in lines if line["error"]]
    seconds = sum(line["cpu_s"] for line in lines)
    print(
        f"{len(lines):,} programs, {steps.total():,} steps, {seconds:,.0f} s of CPU: {dict(steps.most_common())}"
    )
    print(f"{len(wrong)} ended with an error{f': seeds {wrong}' if wrong else ''}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

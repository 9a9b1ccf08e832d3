"""Random histories of a source, interleaved with what is done to its companion.

After every step each reachable version of the source is read through the companion and by the
source's own reader, and a set of queries is answered from both. `run_history(seed)` raises an
AssertionError that names the seed, the step and the query of the first difference.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError

from indextables import Table
from tests.support.delta_tables import HandDelta, read_rows

WORDS = ("alpha", "beta", "gamma", "delta")
Row = dict[str, Any]
TEXTS = ("message", "note")


class Source(Protocol):
    """A source that changes at random."""

    path: str
    options: dict[str, Any]

    def step(self, rng: random.Random) -> str:
        """Change the source; return what was done."""

    def versions(self) -> Sequence[int | None]:
        """Return the versions to compare; None is the newest."""

    def rows(self, version: int | None) -> list[Row]:
        """Return the rows of a version by the source's own reader. Raises OSError if it cannot."""


class Ids:
    """New rows with ids that were never used."""

    def __init__(self) -> None:
        self.next = 0

    def rows(self, rng: random.Random, count: int, names: Sequence[str]) -> list[Row]:
        made = []
        for _ in range(count):
            words = rng.choices(WORDS, k=rng.randint(0, 4))
            row: Row = {"id": self.next, "n": rng.randint(0, 9), "level": rng.choice("AB")}
            for name in TEXTS:
                row[name] = rng.choice([" ".join(words), " ".join(reversed(words)), None])
            row["extra"] = rng.choice([None, 1.5, 2.5])
            self.next += 1
            made.append({name: row.get(name) for name in names})
        return made


class HandSource:
    """A Delta table with deletion vectors and column mapping, written by hand."""

    def __init__(self, folder: Path, rng: random.Random) -> None:
        columns = (("id", "long"), ("message", "string"), ("level", "string"), ("n", "long"))
        self.table = HandDelta.create(folder / "source", columns, maps_columns=rng.random() < 0.7)
        self.path = str(folder / "source")
        self.options = {"format": "delta"}
        self.ids = Ids()
        self.kept_from = 0
        self._append(rng)

    def _names(self) -> list[str]:
        return [column.name for column in self.table.columns]

    def _append(self, rng: random.Random) -> None:
        names = [c.name for c in self.table.columns if c.name not in TEXTS or c.kind == "string"]
        self.table.append(self.ids.rows(rng, rng.randint(1, 6), names))

    def step(self, rng: random.Random) -> str:
        table, live = self.table, list(self.table.live)
        names, maps = self._names(), self.table.maps_columns
        kind = rng.choice(
            ["append"] * 3
            + ["vector"] * 3
            + ["rewrite", "update", "optimize", "restore"]
            + ["overwrite", "add", "rename", "drop", "vacuum"]
        )
        if kind in ("vector", "rewrite", "update", "optimize") and not live:
            kind = "append"
        if kind == "append":
            self._append(rng)
        elif kind == "vector":
            file = table.live[rng.choice(live)]
            gone = [n for n in range(file.rows.num_rows) if rng.random() < 0.4]
            table.delete_by_vector(file.path, gone or [0], on_disk=rng.random() < 0.5)
        elif kind == "rewrite":
            path = rng.choice(live)
            rows = table.logical(table.live[path])
            table.rewrite([path], [row for row in rows if rng.random() < 0.5])
        elif kind == "update":
            path = rng.choice(live)
            changed = [{**r, "level": "B"} for r in table.logical(table.live[path])]
            table.rewrite([path], changed)
        elif kind == "optimize":
            table.rewrite(live)
        elif kind == "restore":
            version = rng.randint(self.kept_from, table.version)
            files = table.history[version][1]
            if all((table.root / path).exists() for path in files):
                table.restore(version)
        elif kind == "overwrite":
            columns = [("id", "long"), ("message", "string"), ("level", "string"), ("n", "long")]
            if rng.random() < 0.5:
                columns = [("id", "long"), ("message", rng.choice(["string", "long"]))]
            names = [name for name, kind in columns if kind != "long" or name != "message"]
            table.overwrite(columns, self.ids.rows(rng, 3, names))
        elif kind == "add":
            if "message" not in names and maps:
                table.add_column("message", "string")
            elif "extra" not in names:
                table.add_column("extra", "double")
        elif kind == "rename" and maps:
            first = next((c for c in table.columns if c.physical == "col-2"), None)
            if first is not None and first.kind == "string":
                other = "note" if first.name == "message" else "message"
                if other not in names:
                    table.rename_column(first.name, other)
        elif kind == "drop" and maps and len(names) > 2:
            table.drop_column(rng.choice([name for name in names if name != "id"]))
        elif kind == "vacuum":
            table.vacuum()
            self.kept_from = table.version
        return kind

    def versions(self) -> Sequence[int | None]:
        return [None, *range(max(0, self.table.version - 5), self.table.version)]

    def rows(self, version: int | None) -> list[Row]:
        files = self.table.live if version is None else self.table.history[version][1]
        for path in files:
            (self.table.root / path).stat()
        return read_rows(self.path, version)


class WrittenSource:
    """A Delta table that delta-rs writes."""

    def __init__(self, folder: Path, rng: random.Random) -> None:
        self.path = str(folder / "source")
        self.options: dict[str, Any] = {}
        self.ids = Ids()
        self._write(rng, "error")

    def _write(self, rng: random.Random, mode: str, names: Sequence[str] = ()) -> None:
        names = names or ("id", "message", "level", "n")
        kinds = {"id": pa.int64(), "n": pa.int64(), "extra": pa.float64()}
        rows = self.ids.rows(rng, rng.randint(1, 6), names)
        columns = {n: pa.array([r[n] for r in rows], kinds.get(n, pa.string())) for n in names}
        options: Any = {"schema_mode": "overwrite" if mode == "overwrite" else "merge"}
        write_deltalake(self.path, pa.table(columns), mode=mode, **options)

    def step(self, rng: random.Random) -> str:
        table = DeltaTable(self.path)
        kind = rng.choice(
            ["append"] * 3
            + ["delete", "update", "optimize", "z-order", "overwrite", "restore", "add", "vacuum"]
        )
        try:
            if kind == "append":
                self._write(rng, "append")
            elif kind == "delete":
                table.delete(f"id % 4 = {rng.randint(0, 3)}")
            elif kind == "update":
                table.update({"level": "'B'"}, predicate=f"id % 3 = {rng.randint(0, 2)}")
            elif kind == "optimize":
                table.optimize.compact()
            elif kind == "z-order":
                table.optimize.z_order(["id"])
            elif kind == "overwrite":
                self._write(rng, "overwrite", ("id", "message", "level"))
            elif kind == "restore":
                table.restore(rng.randint(0, table.version()))
            elif kind == "add":
                self._write(rng, "append", ("id", "message", "extra"))
            else:
                table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
        except DeltaError as error:  # a restoration of files that were vacuumed, and the like
            return f"{kind} ({type(error).__name__})"
        return kind

    def versions(self) -> Sequence[int | None]:
        newest = DeltaTable(self.path).version()
        return [None, *range(max(0, newest - 5), newest)]

    def rows(self, version: int | None) -> list[Row]:
        table = DeltaTable(self.path, version=version)
        for uri in table.file_uris():
            Path(uri).stat()
        return read_rows(self.path, version)


class FolderSource:
    """A folder of Parquet files."""

    def __init__(self, folder: Path, rng: random.Random) -> None:
        self.root = folder / "source"
        self.root.mkdir(parents=True)
        self.path = str(self.root)
        self.options = {"options": {"companion.settleTime": 0}}
        self.ids = Ids()
        self.count = 0
        self._write(rng, "f0")

    def _write(self, rng: random.Random, name: str) -> None:
        names = ["id", "message", "level", "n"]
        if rng.random() < 0.3:
            names.append("extra")
        rng.shuffle(names)
        kinds = {"id": rng.choice([pa.int64(), pa.int32()]), "n": pa.int64()}
        kinds |= {"extra": pa.float64(), "level": rng.choice([pa.string(), pa.large_string()])}
        rows = self.ids.rows(rng, rng.randint(0, 6), names)
        columns = {n: pa.array([r[n] for r in rows], kinds.get(n, pa.string())) for n in names}
        compression = rng.choice(["snappy", "zstd", "none"])
        version = rng.choice(["1.0", "2.0"])
        pq.write_table(
            pa.table(columns),
            self.root / f"{name}.parquet",
            compression=compression,
            data_page_version=version,
            row_group_size=2,
        )

    def step(self, rng: random.Random) -> str:
        files = sorted(self.root.glob("*.parquet"))
        kind = rng.choice(["new", "new", "replaced", "removed"])
        if kind == "removed" and len(files) > 1:
            rng.choice(files).unlink()
        elif kind == "replaced":
            self._write(rng, rng.choice(files).stem)
        else:
            self.count += 1
            self._write(rng, f"f{self.count}")
        return kind

    def versions(self) -> Sequence[int | None]:
        return [None]

    def rows(self, version: int | None) -> list[Row]:
        found = []
        for path in sorted(self.root.glob("*.parquet")):
            found += pq.read_table(path).to_pylist()
        return found


SOURCES: tuple[Callable[[Path, random.Random], Source], ...] = (
    HandSource,
    WrittenSource,
    FolderSource,
)


class CrashError(Exception):
    """The end of a process in the middle of a sync."""


def crash_after(count: int) -> Callable[[Sequence[Any]], Iterator[Any]]:
    """Run some tasks of a sync and stop; one more split is uploaded that no version will name."""

    def execute(tasks: Sequence[Any]) -> Iterator[Any]:
        for task in tasks[:count]:
            yield task.run()
        if len(tasks) > count:
            tasks[count].run()
        raise CrashError

    return execute


def act(companion: str, rng: random.Random) -> str:
    """Do something to the companion."""
    kind = rng.choice(["none", "none", "sync", "sync", "crash", "merge", "purge", "checkpoint"])
    table = Table.open(companion)
    if kind == "sync":
        table.sync()
    elif kind == "crash":
        try:
            table.sync(execute=crash_after(rng.randint(0, 1)))
        except CrashError:
            return "crash"
    elif kind == "merge":
        table.merge()
    elif kind == "purge":
        table.purge(older_than_hours=0, log_retention_hours=0)
    elif kind == "checkpoint":
        table.checkpoint()
    return kind


def run_history(seed: int, folder: Path, *, steps: int = 8) -> int:
    """Run a history; return the number of answers that were compared."""
    rng = random.Random(seed)
    source = rng.choice(SOURCES)(folder, rng)
    companion = str(folder / "index")
    options = {
        "companion.targetInputSize": rng.choice([1, 1 << 30]),
        "purge.retentionCheckEnabled": False,
        **source.options.get("options", {}),
    }
    Table.companion(
        companion,
        source=source.path,
        format=source.options.get("format"),
        text=["message"],
        options=options,
    )
    done, compared = [], 0
    for _ in range(steps):
        done.append(source.step(rng))
        compared += compare(source, companion, f"seed {seed}, {done}")
        done.append(act(companion, rng))
        compared += compare(source, companion, f"seed {seed}, {done}")
    return compared


def compare(source: Source, companion: str, where: str) -> int:
    """Compare every reachable version; return the number of answers."""
    count = 0
    for version in source.versions():
        try:
            expected = source.rows(version)
        except OSError:
            continue  # vacuumed: the source's own reader cannot read it either
        table = Table.open(companion, at="latest" if version is None else version)
        count += compare_rows(table, expected, f"{where}, version {version}")
    return count


def key(row: Row, names: Sequence[str]) -> tuple[Any, ...]:
    return tuple((name, row.get(name)) for name in names)


def compare_rows(table: Table, expected: list[Row], where: str) -> int:
    """Compare all rows and the answers to a set of queries."""
    names = table.schema.names
    own = Counter(key(row, names) for row in table.scan().read_all().to_pylist())
    assert own == Counter(key(row, names) for row in expected), f"{where}: rows"
    assert table.count() == len(expected), f"{where}: count"
    compared = 2
    for query, where_sql, test in queries(table):
        wanted = sorted(row["id"] for row in expected if test(row))
        said = f"{where}: {query} where {where_sql}"
        assert table.count(query=query, where=where_sql) == len(wanted), said
        if query is None:
            found = table.scan(where=where_sql, columns=["id"]).read_all()
            assert sorted(found.column("id").to_pylist()) == wanted, said
            continue
        found = table.search(query, where=where_sql, columns=["id"])
        assert sorted(found.column("id").to_pylist()) == wanted, said
        top = table.search(query, where=where_sql, order_by="-id", limit=3, columns=["id"])
        assert top.column("id").to_pylist() == wanted[::-1][:3], f"{said}, top by id"
        best = table.search(query, where=where_sql, limit=2, columns=["id"])
        ids = best.column("id").to_pylist()
        assert len(ids) == min(2, len(wanted)), f"{said}, best"
        assert set(ids) <= set(wanted), f"{said}, best"
        if "level" in names:
            levels = table.aggregate(
                {"l": {"terms": {"field": "level"}}}, query=query, where=where_sql
            )
            counted = Counter(row["level"] for row in expected if test(row))
            counted.pop(None, None)
            own_levels = {row["l"]: row["count"] for row in levels.to_pylist()}
            assert own_levels == dict(counted), f"{said}, levels"
        compared += 5
    return compared


def words(value: object) -> list[str]:
    return value.split() if isinstance(value, str) else []


@dataclass(frozen=True)
class Holds:
    """Whether the text of a row has words, a phrase, and not another word."""

    column: str
    words: tuple[str, ...]
    phrase: str = ""
    without: str = ""
    above: int | None = None

    def __call__(self, row: Row) -> bool:
        found = words(row[self.column])
        return (
            set(self.words) <= {*found}
            and f" {self.phrase} ".replace("  ", " ") in f" {' '.join(found)} "
            and self.without not in found
            and (self.above is None or (row.get("n") or 0) > self.above)
        )


def queries(table: Table) -> Iterator[tuple[str | None, str | None, Callable[[Row], bool]]]:
    """Yield queries with the test of a row that each means."""
    kinds = {field.name: str(field.type) for field in table.schema}
    for text in TEXTS:
        if kinds.get(text) != "string":
            continue
        yield f"{text}:alpha", None, Holds(text, ("alpha",))
        yield f'{text}:"alpha beta"', None, Holds(text, (), phrase="alpha beta")
        yield f"{text}:gamma NOT {text}:alpha", None, Holds(text, ("gamma",), without="alpha")
        if "n" in kinds:
            yield f"{text}:beta", "n > 4", Holds(text, ("beta",), above=4)
    if kinds.get("level") == "string":
        yield "level:A", None, lambda r: r.get("level") == "A"
    if "n" in kinds:
        yield "n:[2 TO 6]", None, lambda r: r.get("n") is not None and 2 <= r["n"] <= 6
        yield None, "n = 3 OR id < 4", lambda r: r.get("n") == 3 or r["id"] < 4
    if "extra" in kinds:
        yield None, "extra IS NULL", lambda r: r.get("extra") is None

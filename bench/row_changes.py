"""Rows of `make bench-upkeep`: deleting, updating and upserting rows, beside delta-rs and Lance in
the same run.

Neither of the peers has a full-text index to keep; what ours costs more is the index of the new
rows.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bench.clock import Taken, taken
from bench.report import Report
from indextables import Table

ROWS = int(os.environ.get("CHANGED_ROWS", "1000000"))
COUNTS = tuple(int(n) for n in os.environ.get("CHANGES", "1,1000,100000").split(","))
_WORDS = ("disk", "full", "timeout", "login", "failed", "retry", "host", "cache")
_SCHEMA = pa.schema([("id", pa.int64()), ("level", pa.string()), ("message", pa.string())])


def rows_of(numbers: np.ndarray[Any, Any], level: str = "INFO") -> pa.Table:
    """Rows by their numbers; what they say follows from them."""
    words = np.array(_WORDS)
    texts = [
        f"{a} {b} n{n}"
        for a, b, n in zip(words[numbers % 8], words[numbers // 8 % 8], numbers, strict=True)
    ]
    return pa.table(
        {"id": numbers, "level": [level] * len(numbers), "message": texts}, schema=_SCHEMA
    )


def size_of(folder: Path) -> int:
    """Bytes of all files below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def vector_against_rewrite(report: Report, root: Path) -> None:
    """One row of a split, by a deletion vector and by writing the split anew."""
    costs: dict[str, tuple[Taken, int]] = {}
    rows = rows_of(np.arange(ROWS))
    for mode in ("rewrite", "vector"):
        folder = root / f"one-{mode}"
        table = Table.create(
            str(folder),
            schema=_SCHEMA,
            options={"indexing.typemap.message": "text", "delete.mode": mode},
        )
        table.append(rows)
        before = size_of(folder)
        took = taken(lambda: table.delete(where=f"id = {ROWS // 2}"))  # noqa: B023 (called at once)
        costs[mode] = took, size_of(folder) - before
        assert table.count() == ROWS - 1
        shutil.rmtree(folder)
    (vector, vector_bytes), (rewrite, rewrite_bytes) = costs["vector"], costs["rewrite"]
    what = f"delete 1 row of {ROWS:,}"
    targets = (1 / 50, 1 / 100) if ROWS >= 1_000_000 else (None, None)
    report.add(
        f"{what} (CPU)",
        1000 * vector.cpu_s,
        "ms",
        peer="rewrite",
        theirs=1000 * rewrite.cpu_s,
        at_most=targets[0],
    )
    report.add(
        f"{what}, bytes written",
        vector_bytes,
        "bytes",
        peer="rewrite",
        theirs=rewrite_bytes,
        at_most=targets[1],
    )


class _Ours:
    name = "indextables"

    def __init__(self, folder: Path) -> None:
        options = {"indexing.typemap.message": "text"}
        self.table = Table.create(str(folder), schema=_SCHEMA, options=options)

    def append(self, rows: pa.Table) -> None:
        self.table.append(rows)

    def delete(self, low: int, count: int) -> None:
        self.table.delete(where=f"id >= {low} AND id < {low + count}")

    def update(self, low: int, count: int) -> None:
        self.table.update(set={"level": "'WARN'"}, where=f"id >= {low} AND id < {low + count}")

    def upsert(self, rows: pa.Table) -> None:
        self.table.upsert(rows, on=["id"])

    def count(self) -> int:
        return self.table.count()


class _DeltaRs:
    name = "delta-rs"

    def __init__(self, folder: Path) -> None:
        from deltalake import DeltaTable, Schema

        self.table = DeltaTable.create(str(folder), schema=Schema.from_arrow(_SCHEMA))

    def append(self, rows: pa.Table) -> None:
        from deltalake import write_deltalake

        write_deltalake(self.table, rows, mode="append")

    def delete(self, low: int, count: int) -> None:
        self.table.delete(f"id >= {low} AND id < {low + count}")

    def update(self, low: int, count: int) -> None:
        self.table.update(
            updates={"level": "'WARN'"}, predicate=f"id >= {low} AND id < {low + count}"
        )

    def upsert(self, rows: pa.Table) -> None:
        merge = self.table.merge(rows, predicate="t.id = s.id", source_alias="s", target_alias="t")
        merge.when_matched_update_all().when_not_matched_insert_all().execute()

    def count(self) -> int:
        return int(self.table.count())


class _Lance:
    name = "Lance"

    def __init__(self, folder: Path) -> None:
        self.folder = str(folder)

    def append(self, rows: pa.Table) -> None:
        import lance

        self.table = lance.write_dataset(rows, self.folder)

    def delete(self, low: int, count: int) -> None:
        self.table.delete(f"id >= {low} AND id < {low + count}")

    def update(self, low: int, count: int) -> None:
        self.table.update({"level": "'WARN'"}, where=f"id >= {low} AND id < {low + count}")

    def upsert(self, rows: pa.Table) -> None:
        self.table.merge_insert(
            "id"
        ).when_matched_update_all().when_not_matched_insert_all().execute(rows)

    def count(self) -> int:
        return int(self.table.count_rows())


def changes_beside_peers(report: Report, root: Path) -> None:
    """Each engine has the same rows and changes the same ones, by turns."""
    engines = [kind(root / f"changed-{kind.name}") for kind in (_Ours, _DeltaRs, _Lance)]
    rows = rows_of(np.arange(ROWS))
    for engine in engines:
        engine.append(rows)
    at, new = ROWS // 10, ROWS
    for count in COUNTS:
        if 4 * count > ROWS:
            continue
        old = np.linspace(0, at - 1, count - count // 2).astype(np.int64)
        source = rows_of(np.concatenate([old, np.arange(new, new + count // 2)]), "ERROR")
        steps: dict[str, Callable[[Any], None]] = {
            "delete": lambda engine: engine.delete(at, count),  # noqa: B023 (called at once)
            "update": lambda engine: engine.update(at + count, count),  # noqa: B023
            "upsert": lambda engine: engine.upsert(source),  # noqa: B023
        }
        for verb, act in steps.items():
            costs = {engine.name: taken(lambda: act(engine)) for engine in engines}  # noqa: B023
            what = f"{verb} {count:,} of {ROWS:,} rows"
            for peer in ("delta-rs", "Lance"):
                ours, theirs = costs["indextables"], costs[peer]
                report.add(
                    f"{what} (CPU)", 1000 * ours.cpu_s, "ms", peer=peer, theirs=1000 * theirs.cpu_s
                )
                report.add(what, 1000 * ours.wall_s, "ms", peer=peer, theirs=1000 * theirs.wall_s)
        at, new = at + 2 * count, new + count // 2
        assert len({engine.count() for engine in engines}) == 1, "all hold the same rows"

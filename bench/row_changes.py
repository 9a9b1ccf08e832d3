"""Rows of `make bench-upkeep`: deleting, updating and upserting rows, beside delta-rs and Lance in
the same run.

Every step starts with a fresh copy of the same table. delta-rs has no full-text index; Lance is
measured without one, and with a text index that is kept current after every change, as ours is.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bench.clock import Taken, best, taken
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
        if folder.exists():
            self.table = Table.open(str(folder))
        else:
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

        if folder.exists():
            self.table = DeltaTable(str(folder))
        else:
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
        import lance

        self.folder = str(folder)
        if folder.exists():
            self.table = lance.dataset(self.folder)

    def append(self, rows: pa.Table) -> None:
        import lance

        self.table = lance.write_dataset(rows, self.folder, mode="append")

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


class _LanceIndexed(_Lance):
    name = "Lance, index kept current"

    def append(self, rows: pa.Table) -> None:
        indexed = Path(self.folder).exists()
        super().append(rows)
        if indexed:
            self._index_new_rows()
        else:
            self.table.create_scalar_index("message", "INVERTED", with_position=True)

    def delete(self, low: int, count: int) -> None:
        super().delete(low, count)
        self._index_new_rows()

    def update(self, low: int, count: int) -> None:
        super().update(low, count)
        self._index_new_rows()

    def upsert(self, rows: pa.Table) -> None:
        super().upsert(rows)
        self._index_new_rows()

    def _index_new_rows(self) -> None:
        self.table.optimize.optimize_indices()


_ENGINES = (_Ours, _DeltaRs, _Lance, _LanceIndexed)
TURNS = 3
_MOST_OF_AN_APPEND = 1.6


def changes_beside_peers(report: Report, root: Path) -> None:
    """Each engine changes the same rows of a fresh copy of the same table, alternately."""
    rows = rows_of(np.arange(ROWS))
    for kind in _ENGINES:
        kind(_template(root, kind)).append(rows)
    for count in COUNTS:
        if 4 * count > ROWS:
            continue
        old = np.linspace(0, ROWS - 1, count - count // 2).astype(np.int64)
        source = rows_of(np.concatenate([old, np.arange(ROWS, ROWS + count // 2)]), "ERROR")
        new = rows_of(np.arange(ROWS, ROWS + count))
        at = ROWS // 10
        steps: dict[str, tuple[int, Callable[[Any], None]]] = {
            "append": (ROWS + count, lambda engine: engine.append(new)),  # noqa: B023 (called at once)
            "delete": (ROWS - count, lambda engine: engine.delete(at, count)),  # noqa: B023
            "update": (ROWS, lambda engine: engine.update(at, count)),  # noqa: B023
            "upsert": (ROWS + count // 2, lambda engine: engine.upsert(source)),  # noqa: B023
        }
        appended = 0.0
        for verb, (left, act) in steps.items():
            costs = _measure(root, act, left)
            ours = costs[_Ours.name]
            what = f"{verb} {count:,} {'to' if verb == 'append' else 'of'} {ROWS:,} rows"
            for peer in (kind.name for kind in _ENGINES[1:]):
                theirs = costs[peer]
                report.add(
                    f"{what} (CPU)", 1000 * ours.cpu_s, "ms", peer=peer, theirs=1000 * theirs.cpu_s
                )
                report.add(what, 1000 * ours.wall_s, "ms", peer=peer, theirs=1000 * theirs.wall_s)
            if verb == "append":
                appended = ours.cpu_s
            elif count >= 100_000:  # below, finding the rows costs more than appending a few
                report.add(
                    f"{what} (CPU)",
                    1000 * ours.cpu_s,
                    "ms",
                    peer="append of these rows",
                    theirs=1000 * appended,
                    at_most=_MOST_OF_AN_APPEND,
                )


def _template(root: Path, kind: type[Any]) -> Path:
    return root / f"template-{kind.__name__}"


def _measure(root: Path, act: Callable[[Any], None], left: int) -> dict[str, Taken]:
    """Return the best of some turns for each engine; every turn has a table of its own."""
    costs: dict[str, list[Taken]] = {kind.name: [] for kind in _ENGINES}
    for _ in range(TURNS):
        for kind in _ENGINES:
            folder = root / "changed"
            shutil.copytree(_template(root, kind), folder)
            engine = kind(folder)
            engine.count()
            costs[kind.name].append(taken(lambda: act(engine)))  # noqa: B023 (called at once)
            assert engine.count() == left, f"{kind.name} has {engine.count()} rows, not {left}"
            shutil.rmtree(folder)
    return {name: best(runs) for name, runs in costs.items()}

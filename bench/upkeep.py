"""`make bench-upkeep`: merging against writing the rows again, changing rows, and planning a purge
of many files.

SPLITS, ROWS_PER_SPLIT, FILES, CHANGED_ROWS and CHANGES make it smaller.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pyarrow as pa

from bench import row_changes
from bench.clock import best, taken
from bench.report import Report
from indextables import AddAction, Table
from indextables.cli.demo import OPTIONS, SCHEMA, log_lines

SPLITS = int(os.environ.get("SPLITS", "200"))
ROWS_PER_SPLIT = int(os.environ.get("ROWS_PER_SPLIT", "5000"))
FILES = int(os.environ.get("FILES", "100000"))
TURNS = 3


def many_splits(path: Path) -> Table:
    """A table of many small splits of log lines."""
    table = Table.create(str(path), schema=SCHEMA, options=OPTIONS)
    for batch in log_lines(SPLITS * ROWS_PER_SPLIT, days=1, batch_rows=ROWS_PER_SPLIT):
        table.append(pa.Table.from_batches([batch]))
    return table


def merge_against_rebuild(report: Report, root: Path) -> None:
    """The same rows in one split: merged, and read and written again."""
    table = many_splits(root / "many")
    rows = SPLITS * ROWS_PER_SPLIT
    small = table.files()
    version = table.version
    checked = taken(lambda: table.verify(full=True))
    rebuilds, merges = [], []
    for turn in range(TURNS):
        fresh = Table.create(str(root / f"fresh-{turn}"), schema=SCHEMA, options=OPTIONS)
        rebuilds.append(taken(lambda: fresh.append(table.scan())))  # noqa: B023 (called at once)
        merges.append(taken(lambda: table.merge()))
        assert table.files().num_rows == 1
        assert table.count() == fresh.count() == rows
        if turn + 1 < TURNS:
            table.restore(version=version)
    merged, rebuilt = best(merges), best(rebuilds)
    what, peer = f"merge of {SPLITS} splits of {ROWS_PER_SPLIT} rows", "written again"
    report.add(
        f"{what} (CPU)",
        rows / merged.cpu_s,
        "rows/s",
        peer=peer,
        theirs=rows / rebuilt.cpu_s,
        at_least=1.8,
    )
    report.add(what, rows / merged.wall_s, "rows/s", peer=peer, theirs=rows / rebuilt.wall_s)
    before = sum(small.column("size").to_pylist())
    after = sum(table.files().column("size").to_pylist())
    report.add("size of the merged split", after / 1e6, "MB", peer="before", theirs=before / 1e6)
    report.add("verify every byte of the small splits (CPU)", rows / checked.cpu_s, "rows/s")


def purge_plan(report: Report, root: Path) -> None:
    """Half of the files are live, half are orphans."""
    table = Table.create(
        str(root / "purged"),
        schema=SCHEMA,
        options={**OPTIONS, "purge.retentionCheckEnabled": False},
    )
    for folder in range(100):
        (root / "purged" / f"part={folder:03d}").mkdir()
    paths = [f"part={n % 100:03d}/split-{n:08d}.split" for n in range(FILES)]
    for path in paths:
        (root / "purged" / path).touch()
    with table.transaction(check_splits=False) as tx:
        for path in paths[::2]:
            tx.add(AddAction(path=path, size=0, num_records=1, modification_time=1))
    table.checkpoint()

    def plan() -> None:
        Table.open(table.path).invalidate_cache()
        found = Table.open(table.path).purge(
            older_than_hours=0, log_retention_hours=0, dry_run=True
        )
        assert found.orphaned_files_found == FILES // 2

    took = best([taken(plan) for _ in range(TURNS)])
    what, limit = f"plan a purge of {FILES} files", 3_000
    report.add(f"{what} (CPU)", 1000 * took.cpu_s, "ms", at_most=limit, absolute=True)
    report.add(what, 1000 * took.wall_s, "ms", at_most=limit, absolute=True)


def main() -> None:
    """Run all of it."""
    sizes = {
        "splits": SPLITS,
        "rows per split": ROWS_PER_SPLIT,
        "files": FILES,
        "changed rows": row_changes.ROWS,
    }
    report = Report("upkeep", sizes)
    with tempfile.TemporaryDirectory(prefix="bench-upkeep-") as folder:
        with report.part("delete one row"):
            row_changes.vector_against_rewrite(report, Path(folder))
        with report.part("change rows"):
            row_changes.changes_beside_peers(report, Path(folder))
        with report.part("merge"):
            merge_against_rebuild(report, Path(folder))
        with report.part("purge"):
            purge_plan(report, Path(folder))
    report.finish()


if __name__ == "__main__":
    main()

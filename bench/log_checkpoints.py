"""What checkpoints cost: the commit that makes one due, the size of version files, the memory of a
checkpoint by its form.
"""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa

from bench.log_states import create_with_state
from bench.log_tables import create_ours, ours
from bench.report import Report
from indextables import Table
from indextables.log.checkpoint.checkpointer import CHECKPOINTS

ROUNDS = 15
FORMS = ("avro", "json", "parquet")


def run(report: Report, root: Path, *, files: int) -> None:
    """Every figure; the memory is measured over so many files."""
    tenth_commit(report, root / "tenth")
    version_file(report, root / "wide")
    few = files // 5
    for size in (few, files):
        create_with_state(root / str(size), size)
    for form in FORMS:
        checkpoint_memory(report, root, form, few, files)


def tenth_commit(report: Report, root: Path) -> None:
    """The commit that makes a checkpoint due against the one before it, on a table of 10,000 files."""
    table = create_ours(root, [range(10_000)])
    number = 10_000
    ninth, tenth = [], []
    table.checkpoint()
    for _ in range(ROUNDS):
        times = []
        for _ in range(10):
            with_one = time.perf_counter()
            with table.transaction(check_splits=False) as tx:
                tx.add(ours(number))
            times.append(time.perf_counter() - with_one)
            number += 1
        ninth.append(times[-2])
        tenth.append(times[-1])
        CHECKPOINTS.wait()
    mine, before = statistics.median(tenth) * 1000, statistics.median(ninth) * 1000
    report.add(
        "the commit that makes a checkpoint due",
        mine,
        "ms",
        peer="the one before",
        theirs=before,
        at_most=1.5,
    )


def version_file(report: Report, root: Path) -> None:
    """An append of 40 splits of 400 columns."""
    names = [f"column_{n:03d}" for n in range(400)]
    schema = pa.schema([("part", pa.int32()), *((name, pa.string()) for name in names)])
    table = Table.create(str(root), schema=schema, partition_columns=["part"])
    rows = {"part": pa.array(range(40), pa.int32()), **{name: ["x"] * 40 for name in names}}
    table.append(pa.table(rows, schema=schema))
    size = (root / "_transaction_log" / f"{1:020d}.json").stat().st_size
    report.add(
        "version file of 40 splits of 400 columns", size / 1000, "KB", at_most=150, absolute=True
    )


_MEASURED = """
import json, sys, time
from bench.report import peak_mb
from indextables import Table
path, form = sys.argv[1:]
table = Table.open(path, options={"state.format": form})
opened = peak_mb()
began, cpu = time.perf_counter(), time.process_time()
written = table.compact() if form == "avro" else table.checkpoint()
figures = {"seconds": time.perf_counter() - began, "CPU seconds": time.process_time() - cpu, "opened MB": opened}
print(json.dumps({"files": written.num_files, "written": written.written, "peak_mb": peak_mb(), "note": figures}))
"""
"""Every file is written: an Avro state by itself would name the manifests of the one before, and
add one.
"""


def checkpoint_memory(report: Report, root: Path, form: str, few: int, files: int) -> None:
    """The peak of a new process that opens a large table and writes all of it down in a form,
    against fewer files.
    """
    (fewer, _), (peak, note) = (
        _measured(root / str(size), root / form, form, size) for size in (few, files)
    )
    what = f"{form} checkpoint of {files:,} files: peak memory"
    report.add(what, peak, "MB", at_most=500, absolute=True, note=note)
    report.add(what, peak, "MB", peer=f"of {few:,}", theirs=fewer, at_most=1.5)


def _measured(source: Path, root: Path, form: str, files: int) -> tuple[float, dict[str, float]]:
    shutil.copytree(source, root)
    with Table.open(str(root)).transaction(check_splits=False) as tx:
        tx.add(ours(files + 1))
    done = subprocess.run(
        [sys.executable, "-c", _MEASURED, str(root), form],
        check=True,
        capture_output=True,
        text=True,
        timeout=600,
    )
    figures = json.loads(done.stdout)
    assert figures["written"] and figures["files"] == files + 1
    shutil.rmtree(root)
    return figures["peak_mb"], figures["note"]

"""States against delta-rs and against themselves: listing, pruning, writing, at 100,000 and a
million files.
"""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bench.log_tables import COLUMNS, SCHEMA, create_delta, delta_action, ours
from bench.report import Report, timed_ms
from indextables import Table
from indextables.log.checkpoint.legacy import ListedFiles
from indextables.log.context import LogContext
from indextables.log.transaction_log import TransactionLog
from indextables.model.file_list import FILE_SCHEMA, to_actions
from indextables.model.snapshot import Base, Snapshot
from indextables.storage.local import LocalStore
from indextables.wire.manifest import SCHEMA as ENTRY_SCHEMA
from indextables.wire.manifest import encode_file_entries

PARTITIONS = 1000


def file_list(files: int, *, partitions: int = PARTITIONS) -> pa.Table:
    """The file list of `log_tables.entry`, made by columns."""
    numbers = np.arange(files)
    texts = [f"{n:04d}" for n in range(partitions)]
    days = pa.array([texts[n % partitions] for n in range(files)])
    offsets = pa.array(np.arange(files + 1, dtype=np.int32))
    columns: dict[str, Any] = {
        "path": pa.array(
            [f"day={texts[n % partitions]}/splits/split-{n:032x}.split" for n in range(files)]
        ),
        "partition_values": pa.MapArray.from_arrays(offsets, pa.array(["day"] * files), days),
        "size": pa.array(np.full(files, 1_000_000)),
        "modification_time": pa.array(np.full(files, 1)),
        "data_change": pa.array(np.full(files, True)),
        "has_footer_offsets": pa.array(np.full(files, False)),
        "num_records": pa.array(np.full(files, 1_000)),
        "min_values": _bounds(numbers, 0),
        "max_values": _bounds(numbers, 9),
        "added_at_version": pa.array(np.full(files, 1)),
        "added_at_timestamp": pa.array(np.full(files, 1)),
    }
    return pa.table(
        [columns.get(f.name, pa.nulls(files, f.type)) for f in FILE_SCHEMA], schema=FILE_SCHEMA
    )


def _bounds(numbers: np.ndarray, plus: int) -> pa.Array:
    width = len(COLUMNS)
    values = (numbers[:, None] * 10 + np.arange(width)[None, :] + plus).reshape(-1)
    offsets = pa.array(np.arange(0, len(values) + 1, width, dtype=np.int32))
    return pa.MapArray.from_arrays(
        offsets, pa.array(COLUMNS * len(numbers)), pa.array(values).cast(pa.string())
    )


def create_with_state(path: Path, files: int, *, partitions: int = PARTITIONS) -> Table:
    """A table whose state holds so many files; no version file tells of them, as after a clean-up."""
    table = Table.create(str(path), schema=SCHEMA, partition_columns=["day"])
    with table.transaction(check_splits=False) as tx:
        tx.add(ours(0))
    log = TransactionLog(LogContext(LocalStore(str(path))))
    header = log.newest().header
    listed = Snapshot(header, Base(header, ListedFiles(file_list(files, partitions=partitions))))
    log._checkpointer.write(listed)
    for version in (0, 1):
        (path / "_transaction_log" / f"{version:020d}.json").unlink()
    log.invalidate_cache()
    return Table.open(str(path))


def append(table: Table, first: int, count: int) -> None:
    """One commit of some files."""
    with table.transaction(check_splits=False) as tx:
        for n in range(first, first + count):
            tx.add(ours(n))


def cold(path: Path) -> Table:
    """The table as a new process finds it."""
    Table.open(str(path)).invalidate_cache()
    return Table.open(str(path))


def state_and_commits(report: Report, root: Path, files: int) -> None:
    """Files in a state and 10 commits on top: listed cold, pruned cold, as actions."""
    from deltalake import DeltaTable

    table = create_with_state(root / "ours", files, partitions=100)
    for n in range(10):
        append(table, files + n * 10, 10)
    create_delta(root / "delta", [range(files)])
    DeltaTable(str(root / "delta")).create_checkpoint()
    _delta_commits(root / "delta", files)

    def mine() -> None:
        assert cold(root / "ours").files().num_rows == files + 100

    def theirs() -> None:
        assert DeltaTable(str(root / "delta")).get_add_actions().num_rows == files + 100

    where = f"day = '0042' AND c0 BETWEEN {files * 5} AND {files * 5 + 5000}"

    def mine_pruned() -> None:
        assert 0 < cold(root / "ours").files(where=where).num_rows < 10

    def theirs_pruned() -> None:
        found = DeltaTable(str(root / "delta")).file_uris([("day", "=", "0042")])
        assert len(found) >= files // 100

    listed, pruned = timed_ms(theirs), timed_ms(theirs_pruned)
    what = f"list {files:,} files in a state + 10 commits"
    report.add(what, timed_ms(mine), "ms", peer="delta-rs", theirs=listed, at_most=0.4)
    report.add(
        f"the same, one partition and a range of {files:,}",
        timed_ms(mine_pruned),
        "ms",
        peer="delta-rs",
        theirs=min(listed, pruned),
        at_most=0.25,
    )
    everything = Table.open(str(root / "ours")).files()
    report.add(
        f"{everything.num_rows:,} AddActions from the list",
        timed_ms(lambda: to_actions(everything)),
        "ms",
        at_most=300,
        absolute=True,
    )


def _delta_commits(path: Path, files: int) -> None:
    from deltalake import DeltaTable, Schema

    for n in range(10):
        adds = [delta_action(files + n * 10 + i) for i in range(10)]
        DeltaTable(str(path)).create_write_transaction(
            adds, "append", Schema.from_arrow(SCHEMA), ["day"]
        )


def a_million(report: Report, root: Path, files: int) -> None:
    """A million files: one of a thousand partitions against the whole list, and the memory of the
    whole list.
    """
    create_with_state(root / "million", files)
    path = root / "million"
    Table.open(str(path)).compact()

    def one() -> None:
        assert cold(path).files(where="day = '0500'").num_rows == files // PARTITIONS

    def everything() -> None:
        assert cold(path).files().num_rows == files

    report.add(
        f"one of {PARTITIONS:,} partitions of {files:,} files",
        timed_ms(one, repeat=3),
        "ms",
        peer="the whole list",
        theirs=timed_ms(everything, repeat=3),
        at_most=0.1,
    )
    code = "import sys; from indextables import Table; from bench.report import peak_mb; "
    code += "n = Table.open(sys.argv[1]).files().num_rows; print(n, peak_mb())"
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True
    )
    report.add(
        f"peak memory of listing {files:,} files",
        float(done.stdout.split()[1]),
        "MB",
        at_most=2048,
        absolute=True,
    )


def bytes_of_a_checkpoint(report: Report, root: Path, many: int) -> None:
    """Adding 100 files: what the checkpoint writes must not depend on the table."""
    written = {}
    few, *more = (many * 7 // 1_000, many * 7 // 100, many * 7 // 10)
    for files in (few, *more):
        path = root / str(files)
        table = create_with_state(path, files)
        append(table, files, 100)
        before = _log_bytes(path)
        table.checkpoint()
        written[files] = _log_bytes(path) - before
    for files in more:
        report.add(
            f"bytes of a checkpoint: 100 files on {files:,}",
            written[files],
            "bytes",
            peer=f"on {few:,}",
            theirs=written[few],
            at_most=1.2,
        )


def _log_bytes(path: Path) -> int:
    return sum(p.stat().st_size for p in (path / "_transaction_log").rglob("*") if p.is_file())


def encoding(report: Report, files: int) -> None:
    """Writing a manifest of many entries against fastavro, which writes the same records one by
    one.
    """
    import fastavro

    listed = file_list(files)
    rows = list(fastavro.reader(io.BytesIO(encode_file_entries(listed))))

    def theirs() -> None:
        fastavro.writer(
            io.BytesIO(), ENTRY_SCHEMA, rows, codec="zstandard", codec_compression_level=3
        )

    mine_ms = timed_ms(lambda: encode_file_entries(listed), repeat=3)
    theirs_ms = timed_ms(theirs, repeat=3)
    report.add(
        f"write {files:,} entries",
        files / mine_ms,
        "entries/ms",
        peer="fastavro",
        theirs=files / theirs_ms,
        at_least=3,
    )


def run(report: Report, root: Path, *, files: int, many: int) -> None:
    """Every comparison of states."""
    encoding(report, files)
    state_and_commits(report, root / "states", files)
    bytes_of_a_checkpoint(report, root / "bytes", many)
    a_million(report, root / "large", many)

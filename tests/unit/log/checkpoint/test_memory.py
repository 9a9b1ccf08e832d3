"""The memory that a checkpoint takes: that of the batches that pass, and not that of the table."""

from __future__ import annotations

import gc
import tracemalloc
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

from indextables.config.log import CheckpointSettings, StateWriteSettings
from indextables.log.checkpoint import legacy, state_writer, verifier
from indextables.log.checkpoint.legacy import ListedFiles
from indextables.log.checkpoint.manifests import EntrySorter
from indextables.log.checkpoint.state_writer import Compact
from indextables.model.file_list import from_actions
from indextables.model.snapshot import Base, Snapshot
from indextables.storage.local import LocalStore
from indextables.wire import old_checkpoints
from tests.support.state_logs import commit, file, new_state_log, state_log

FEW, MANY = 1_000, 6_000
BATCH = 125
POOLS: list[pa.MemoryPool] = []
"""They outlive what was allocated from them."""
WRITING = StateWriteSettings(entries_per_manifest=500)


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(legacy, "_BATCH_ROWS", BATCH)
    monkeypatch.setattr(verifier, "_BATCH_ROWS", BATCH)
    monkeypatch.setattr(verifier, "_HELD_BYTES", 1 << 16)
    monkeypatch.setattr(old_checkpoints, "ACTIONS_PER_PART", 4 * BATCH)
    monkeypatch.setattr(old_checkpoints, "LINES_PER_SLICE", BATCH)
    monkeypatch.setattr(old_checkpoints, "ROWS_PER_GROUP", BATCH)
    monkeypatch.setattr(state_writer, "EntrySorter", partial(EntrySorter, group_rows=500))


def with_state(path: Path, files: int) -> None:
    """A table whose state lists so many files, and one more version."""
    log = new_state_log(path, state_write=WRITING)
    commit(log, file(0))
    header = log.newest().header
    log.maintenance.checkpointer.write(
        Snapshot(header, Base(header, ListedFiles(from_actions([file(n) for n in range(files)]))))
    )
    commit(state_log(LocalStore(str(path))), file(files), removes=[file(7).path])


def peak_of(path: Path, form: str, *, held: bool) -> int:
    """The most bytes, of Python and of Arrow, that a new process's checkpoint of the table needs at
    a time.
    """
    settings = CheckpointSettings(interval=1000, format=form, max_file_bytes=32 << 10)
    log = state_log(LocalStore(str(path)), checkpoint=settings, state_write=WRITING)
    if held:
        assert log.newest().all_files.num_rows
    before, counted = pa.default_memory_pool(), pa.proxy_memory_pool(pa.default_memory_pool())
    POOLS.append(counted)
    gc.collect()
    pa.set_memory_pool(counted)
    tracemalloc.start()
    try:
        report = log.checkpoint(compact=Compact.ALL)
        return tracemalloc.get_traced_memory()[1] + int(counted.max_memory())
    finally:
        tracemalloc.stop()
        pa.set_memory_pool(before)
        assert report.written and report.format.startswith(form)


@pytest.mark.parametrize(
    "held", [False, True], ids=["fresh process", "process that holds the list"]
)
@pytest.mark.parametrize("form", ["avro", "json", "parquet"])
def test_a_checkpoint_of_six_times_as_many_files_takes_little_more_memory(
    tmp_path: Path, form: str, held: bool
) -> None:
    peaks = {}
    for files in (FEW, MANY):
        with_state(tmp_path / str(files), files)
        peaks[files] = peak_of(tmp_path / str(files), form, held=held)
    assert peaks[MANY] < 1.5 * peaks[FEW], peaks

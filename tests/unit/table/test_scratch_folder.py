"""Folders for unfinished files: one that does not exist is reported as that, not as a full disk;
those of small splits are in memory.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from indextables import Table
from indextables.errors import StorageError
from indextables.splits.index import tantivy_files
from indextables.splits.write import writer
from tests.support.rows import ids, rows, table_of


@pytest.mark.parametrize(
    ("is_file", "reason"), [(False, "does not exist"), (True, "is not a folder")]
)
@pytest.mark.parametrize("key", ["merge.tempDirectoryPath", "indexWriter.tempDirectoryPath"])
def test_a_folder_that_is_not_there_is_named(
    tmp_path: Path, key: str, is_file: bool, reason: str
) -> None:
    table = table_of(tmp_path / "t", appends=3)
    folder = tmp_path / "scratch"
    if is_file:
        folder.write_text("no folder", encoding="utf-8")
    with pytest.raises(StorageError, match=reason) as caught:
        Table.open(table.path, options={key: str(folder)}).merge(target_size="1G")
    assert str(folder) in caught.value.message
    assert "indexWriter.tempDirectoryPath" in (caught.value.hint or "")
    assert "space" not in str(caught.value)
    assert (Table.open(table.path).version, ids(Table.open(table.path))) == (3, list(range(30)))


def test_small_splits_are_built_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    memory, disk = tmp_path / "memory", tmp_path / "disk"
    memory.mkdir()
    disk.mkdir()
    monkeypatch.setattr(tantivy_files, "MEMORY", memory)
    monkeypatch.setattr(tempfile, "tempdir", str(disk))
    made: list[Path] = []
    open_split = writer._OpenSplit.__init__

    def note(self: writer._OpenSplit, folder: Path, *args: object) -> None:
        made.append(folder.parents[1])
        open_split(self, folder, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(writer._OpenSplit, "__init__", note)
    table = table_of(tmp_path / "t", appends=1)
    monkeypatch.setattr(writer, "_SMALL_BYTES", 100)
    table.append(rows(range(10, 20)))
    monkeypatch.undo()
    assert made == [memory, disk]
    assert ids(table) == list(range(20))
    assert list(memory.iterdir()) == list(disk.iterdir()) == [], "removed after use"


def test_folders_of_killed_processes_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = (
        "import os, sys; from pathlib import Path; from indextables.splits.index import tantivy_files as t; "
        "t.MEMORY = Path(sys.argv[1]); t.MemoryFolder.make(); os._exit(9)"
    )
    assert (
        subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False).returncode == 9
    )
    monkeypatch.setattr(tantivy_files, "MEMORY", tmp_path)
    used = tantivy_files.MemoryFolder.make()
    assert used is not None
    left = [path for path in tmp_path.iterdir() if path != used.path]
    assert len(left) == 1
    for path in tmp_path.iterdir():
        os.utime(path, (0, 0))
    tantivy_files._remove_stale_folders.__wrapped__()
    assert list(tmp_path.iterdir()) == [used.path], "one that is in use stays"
    used.remove()

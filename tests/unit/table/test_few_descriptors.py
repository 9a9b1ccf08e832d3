"""A process that may open no more files: a clear error, and what is told as failed did not happen."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from indextables import Table
from indextables.errors import CommitUnknownError, StorageError
from indextables.storage.local import LocalStore
from indextables.storage.store import PutOutcome
from tests.support.rows import ids, rows, table_of


@contextmanager
def descriptors(left: int) -> Iterator[None]:
    """Within it, this process can open so many files more than it has open now, at the lowest
    numbers that are free.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = max(int(entry.name) for entry in Path("/proc/self/fd").iterdir())
    resource.setrlimit(resource.RLIMIT_NOFILE, (used + 1 + left, hard))
    taken = []
    try:
        with suppress(OSError):
            while True:
                taken.append(os.open(os.devnull, os.O_RDONLY))
        for _ in range(left):
            os.close(taken.pop())
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for handle in taken:
            os.close(handle)


@pytest.mark.parametrize("left", range(4))
def test_a_file_has_its_name_or_not_and_that_is_known(tmp_path: Path, left: int) -> None:
    store = LocalStore(tmp_path)
    store.put("before", b"1")
    with descriptors(left):
        try:
            outcome = store.put_if_absent("new", b"2")
        except StorageError as error:
            assert "Too many open files" in str(error)
            outcome = None
    assert outcome == (PutOutcome.CREATED if (tmp_path / "new").exists() else None)


@pytest.mark.parametrize("left", [0, 1, 2, 3, 5, 8, 12])
def test_an_append_says_what_it_did(tmp_path: Path, left: int) -> None:
    """Whatever runs out first: the spill of partitions, the index, the upload, or the commit."""
    table = table_of(tmp_path / "t", appends=1, each=4, partitioned=True)
    data = rows(range(4, 40))
    with descriptors(left):
        try:
            table.append(data)
            done = True
        except CommitUnknownError:
            raise
        except StorageError:
            done = False
    assert ids(Table.open(str(tmp_path / "t"))) == list(range(40 if done else 4))


def test_a_temporary_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=1, each=4)
    missing = str(tmp_path / "nowhere")
    with pytest.raises(StorageError, match=missing) as raised:
        Table.open(str(tmp_path / "t"), options={"indexWriter.tempDirectoryPath": missing}).append(
            rows([4])
        )
    assert "indexWriter.tempDirectoryPath" in raised.value.hint
    assert ids(table) == [0, 1, 2, 3]

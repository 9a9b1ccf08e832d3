"""Counted calls and requests against a stored budget."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from indextables import Table
from indextables.cli.demo import OPTIONS, SCHEMA, log_lines
from tests.support.splits import SCRATCH

SPARE = 1.1

ROWS = 40_000

COLUMNS = ["ts", "message"]

Costs = dict[str, int]


class _Counts:
    """Calls of Python functions, and files that Python opened. A hook of the interpreter can never
    be taken off again.
    """

    def __init__(self) -> None:
        self.active = False
        self.calls = self.files = 0
        sys.addaudithook(self._audit)

    def _audit(self, event: str, _: Any) -> None:
        if self.active and event == "open":
            self.files += 1

    def _profile(self, _frame: Any, event: str, _: Any) -> None:
        self.calls += event == "call"

    @contextmanager
    def counting(self) -> Iterator[None]:
        self.calls = self.files = 0
        before = sys.getprofile()
        self.active = True
        threading.setprofile(self._profile)
        sys.setprofile(self._profile)
        try:
            yield
        finally:
            sys.setprofile(before)
            threading.setprofile(None)
            self.active = False


COUNTS = _Counts()


def make(folder: Path, splits: int) -> None:
    options = {
        **OPTIONS,
        "write.maxRowsPerSplit": ROWS // splits,
        "indexWriter.tempDirectoryPath": SCRATCH.temp_directory,
    }
    table = Table.create(str(folder), schema=SCHEMA, options=options)
    table.append(pa.Table.from_batches(log_lines(ROWS, batch_rows=ROWS // splits)))
    assert table.files().num_rows == splits

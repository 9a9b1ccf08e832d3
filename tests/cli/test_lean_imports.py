"""A module that is loaded when it is used: once, whole, and for whichever thread asks first."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

CODE = """
import sys
from concurrent.futures import ThreadPoolExecutor
from indextables.cli.app import load_less

load_less()
import pyarrow as pa
import pyarrow.compute as pc
assert "pyarrow._compute" not in sys.modules
with ThreadPoolExecutor(16) as pool:
    found = list(pool.map(lambda n: pc.sum(pa.array([n, 1])).as_py(), range(64)))
assert found == [n + 1 for n in range(64)], found
assert pa.table({"a": [3, 1, 2]}).take(pa.array([1])).to_pydict() == {"a": [1]}
assert pc.equal is pa.compute.equal is sys.modules["pyarrow.compute"].equal
try:
    import pandas
except ModuleNotFoundError as error:
    assert error.name == "pandas"
"""


def test_kernels_are_there_when_they_are_called() -> None:
    for _ in range(3):
        shown = subprocess.run(
            [sys.executable, "-c", CODE], capture_output=True, text=True, check=False
        )
        assert shown.returncode == 0, shown.stderr


ROOMS = """
import sys
from concurrent.futures import ThreadPoolExecutor
from indextables.cli.app import load_less

load_less()
import pyarrow as pa
from indextables import Table

def is_loaded(name):
    return type(sys.modules.get(name)).__name__ == "module"

assert not is_loaded("indextables.operations.merge") and not is_loaded("indextables.operations.row_write")
table = Table.create(sys.argv[1], schema=pa.schema([("id", pa.int64())]))
assert not is_loaded("indextables.operations.row_write")
for n in range(4):
    table.append(pa.table({"id": [n]}))
with ThreadPoolExecutor(8) as pool:
    reports = list(pool.map(lambda _: Table.open(sys.argv[1]).merge(dry_run=True), range(16)))
assert {report.merged_files for report in reports} == {4}, reports
from indextables.operations import merge
from indextables.operations import purge
from indextables.operations.merge import MergeReport
assert all(type(report) is MergeReport is merge.MergeReport for report in reports)
assert purge.__name__ == "indextables.operations.purge"
assert table.inspect.partitions().num_rows == 1 and table.merge().version is not None
assert table.aggregate({"n": {"stats": {"field": "id"}}}).num_rows == 1 and table.explain().rows_matched == 4
assert is_loaded("indextables.operations.merge")
"""


def test_rooms_are_there_when_a_verb_needs_them(tmp_path: Path) -> None:
    command = [sys.executable, "-c", ROOMS, str(tmp_path / "t")]
    shown = subprocess.run(command, capture_output=True, text=True, check=False)
    assert shown.returncode == 0, shown.stderr

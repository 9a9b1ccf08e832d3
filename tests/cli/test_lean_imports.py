"""A module that is loaded when it is used: once, whole, and for whichever thread asks first."""

from __future__ import annotations

import subprocess
import sys

CODE = """
import sys
from concurrent.futures import ThreadPoolExecutor
from indextables.cli.lean_imports import load_less

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
        shown = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=False)
        assert shown.returncode == 0, shown.stderr

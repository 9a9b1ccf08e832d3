"""A process whose very first act is a search of many splits at once, as every command line call is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa

from indextables import Table

CODE = """
import sys
from indextables import Table
table = Table.open(sys.argv[1], options={"read.parallelism": 16})
print(table.search("timeout", limit=5).num_rows, table.count(query="timeout"))
"""


def test_many_threads_are_the_first_to_open_splits(tmp_path: Path) -> None:
    schema = pa.schema([("message", pa.string()), ("n", pa.int64())])
    options = {"indexing.typemap.message": "text", "write.maxRowsPerSplit": 10}
    table = Table.create(str(tmp_path / "t"), schema=schema, options=options)
    table.append(pa.table({"message": ["timeout", "ok"] * 100, "n": list(range(200))}))
    assert table.files().num_rows == 20
    for _ in range(6):
        done = subprocess.run([sys.executable, "-c", CODE, table.path], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (0, "5 100\n"), done.stderr

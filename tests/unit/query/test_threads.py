"""A process whose very first act is a search of many splits at once, as every command line call is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa

from indextables import Table
from indextables.splits.read.bundle_files import WHOLE_BYTES

CODE = """
import sys
from indextables import Table
table = Table.open(sys.argv[1], options={"read.parallelism": 16})
print(table.search("timeout", limit=5).num_rows, table.count(query="timeout"))
"""


def test_many_threads_are_the_first_to_open_splits(tmp_path: Path) -> None:
    schema = pa.schema([("message", pa.string()), ("n", pa.int64()), ("noise", pa.binary())])
    options = {
        "indexing.typemap.message": "text",
        "indexing.nonindexed": "noise",
        "write.maxRowsPerSplit": 10,
    }
    table = Table.create(str(tmp_path / "t"), schema=schema, options=options)
    noise = [os.urandom(WHOLE_BYTES // 10) for _ in range(200)]
    table.append(
        pa.table({"message": ["timeout", "ok"] * 100, "n": list(range(200)), "noise": noise})
    )
    sizes = table.files().column("size").to_pylist()
    assert len(sizes) == 20
    assert min(sizes) > WHOLE_BYTES, "of smaller ones the first is opened alone"
    for _ in range(6):
        done = subprocess.run(
            [sys.executable, "-c", CODE, table.path], capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stdout) == (0, "5 100\n"), done.stderr

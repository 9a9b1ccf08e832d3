"""Columns of vectors on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.cli.calls import Call


def test_search_by_a_vector_from_a_file_or_a_list(call: Call, tmp_path: Path) -> None:
    table = tmp_path / "t"
    rows = tmp_path / "rows.jsonl"
    rows.write_text(
        "".join(
            json.dumps({"id": n, "note": note, "v": [float(n), 1.0]}) + "\n"
            for n, note in enumerate(["disk full", "disk slow", "net down"])
        )
    )
    call("create", table, "--schema", "id bigint, note text, v vector(2)")
    call("append", table, rows)
    np.save(tmp_path / "q.npy", np.array([2.0, 1.0], np.float32))
    found = call("search", table, "--vector", f"v=@{tmp_path / 'q.npy'}", "--json").json
    assert [row["id"] for row in found] == [2, 1, 0]
    found = call("search", table, "disk", "--vector", "v=[2, 1]", "--json").json
    assert [row["id"] for row in found] == [1, 0]
    hybrid = call("search", table, "net", "--vector", "v=[2, 1]", "--hybrid", "rrf", "--json").json
    assert hybrid[0]["id"] == 2 and hybrid[0]["_score"] > hybrid[1]["_score"]
    weighted = ("--hybrid", "query=1,vector=0.1", "--json")
    assert call("search", table, "net", "--vector", "v=[0, 1]", *weighted).json[0]["id"] == 2


def test_a_table_like_a_file_has_the_vectors_that_are_named(call: Call, tmp_path: Path) -> None:
    rows = pa.table({"v": pa.array([[1.0, 0.0], [0.0, 1.0]], pa.list_(pa.float32()))})
    pq.write_table(rows, tmp_path / "rows.parquet")
    table = tmp_path / "t"
    call("create", table, "--like", tmp_path / "rows.parquet", "--vector", "v=2")
    call("append", table, tmp_path / "rows.parquet")
    (first, _) = call("search", table, "--vector", "v=[0, 1]", "--json").json
    assert first["v"] == [0.0, 1.0] and first["_distance"] == 0


def test_wrong_vectors_are_refused_with_the_right_form(call: Call, tmp_path: Path) -> None:
    table = tmp_path / "t"
    call("create", table, "--schema", "id bigint, v vector(2)")
    for arguments, message in [
        (("--vector", "v=@missing.npy"), "cannot be read"),
        (("--vector", "v=[1, x]"), "cannot be read"),
        (("--vector", "[1, 2]"), "--vector embedding=@file.npy"),
        (("--vector", "v=[1]"), "vectors of 2 numbers"),
        (("--vector", "v=[1, 2]", "--hybrid", "max"), "--hybrid rrf"),
        ((), "a query or a vector"),
    ]:
        assert message in call("search", table, *arguments, code=2).err
    wrong = call("create", tmp_path / "u", "--schema", "v vector(2)", "--vector", "v", code=2)
    assert "--vector embedding=384" in wrong.err

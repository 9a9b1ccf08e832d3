"""Importing the package is quick because it brings in nothing; the engines come with what uses
them.
"""

from __future__ import annotations

import subprocess
import sys

import pytest


def loaded_after(code: str) -> set[str]:
    shown = subprocess.run(
        [sys.executable, "-c", f"{code}; import sys; print(' '.join(sys.modules))"],
        capture_output=True,
        text=True,
        check=True,
    )
    return {name.partition(".")[0] for name in shown.stdout.split()}


def test_the_bare_import_brings_in_no_engine() -> None:
    loaded = loaded_after("import indextables")
    assert not loaded & {"pyspark", "tantivy", "polars", "pyarrow", "obstore", "fastavro", "numpy"}


def test_a_table_needs_neither_spark_nor_polars() -> None:
    loaded = loaded_after("from indextables import Table")
    assert not loaded & {"pyspark", "polars", "typer", "rich"}


def test_a_long_list_of_files_is_read_without_polars_which_may_come_later() -> None:
    read = (
        "from indextables.wire.manifest import decode_file_entries, encode_file_entries\n"
        "from tests.unit.wire.entries import plain_files\n"
        "data = encode_file_entries(plain_files(3_000))\n"
        "assert decode_file_entries(data, path='x').num_rows == 3_000\n"
    )
    assert "polars" not in loaded_after(f"{read}pass")
    whole = (
        "import io, polars_avro\nassert polars_avro.read_avro(io.BytesIO(data)).height == 3_000\n"
    )
    assert "polars" in loaded_after(
        f"{read}{whole}assert decode_file_entries(data, path='x').num_rows == 3_000"
    )


def test_the_public_names_are_there_and_no_others() -> None:
    import indextables

    for name in indextables.__all__:
        assert getattr(indextables, name) is not None
    assert set(indextables.__all__) <= set(dir(indextables))
    with pytest.raises(AttributeError, match="no attribute 'tabel'"):
        _ = indextables.tabel

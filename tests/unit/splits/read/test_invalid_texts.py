"""Splits whose checksums are right and whose texts are not valid UTF-8."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from indextables import Table
from indextables.errors import BadFileError
from indextables.splits.read.bundle_files import UnknownFormError, term_values
from tests.torture.fuzz_files import text_replaced

ACTS: dict[str, Callable[[Table], Any]] = {
    "a snippet": lambda t: t.search("message:here", snippet="message"),
    "a highlight": lambda t: t.search("message:here", highlight="message"),
    "a phrase of rows": lambda t: t.search('message:"here is"~2', snippet="message"),
    "json at any path": lambda t: t.search("data:1"),
    "a regular expression of rows": lambda t: t.search("long:/.*y{300}/"),
}


@pytest.fixture
def table(tmp_path: Path) -> Table:
    kinds = {"message": "text", "data": "json", "long": "text"}
    names = ["id", *kinds]
    schema = pa.schema([("id", pa.int64()), *((name, pa.string()) for name in kinds)])
    options = {f"indexing.typemap.{name}": kind for name, kind in kinds.items()}
    made = Table.create(str(tmp_path / "t"), schema=schema, options=options)
    made.append(
        pa.table(
            {
                "id": [1, 2],
                "message": ["xyzzy is here", "nothing here"],
                "data": ['{"a": "plugh 1"}', '{"a": 1}'],
                "long": ["quxquux " + "y" * 400, "short"],
            }
        )
    )
    (path,) = tmp_path.rglob("*.split")
    data = path.read_bytes()
    for name, old in (("message", b"xyzzy"), ("data", b"plugh"), ("long", b"quxquux")):
        data = text_replaced(data, names.index(name), old, b"\xff" * len(old))
    path.write_bytes(data)
    return Table.open(made.path)


@pytest.mark.parametrize("act", ACTS)
def test_reading_them_as_python_texts_is_a_damaged_file(table: Table, act: str) -> None:
    with pytest.raises(BadFileError, match="not valid UTF-8"):
        ACTS[act](table)


def test_verify_names_the_split(table: Table) -> None:
    findings = table.verify(full=True).findings
    assert [finding.check for finding in findings] == ["rows"]
    assert "UTF8" in findings[0].message or "UTF-8" in findings[0].message


def test_terms_of_another_engine_that_are_not_utf8_are_an_unknown_form() -> None:
    with pytest.raises(UnknownFormError, match="not valid UTF-8"):
        term_values([b"disk", b"\xff\xfe"], "text")

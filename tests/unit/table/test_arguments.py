"""Arguments of the wrong kind: each is refused with what was expected and what was given."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from indextables import Table
from indextables.errors import InvalidInputError
from indextables.handle import open_log
from indextables.log.create import create_table
from indextables.model.actions import MetadataAction
from indextables.model.schema import schema_to_json

ROWS = pa.table({"id": [1, 2], "message": ["disk full", "disk empty"]})
OPEN: Any = Table.open
CREATE: Any = Table.create


@pytest.fixture
def table(tmp_path: Path) -> Table:
    made = Table.create(
        str(tmp_path / "t"), schema=ROWS.schema, options={"indexing.typemap.message": "text"}
    )
    made.append(ROWS)
    return made


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda t: t.search(None), "A search needs a query or a vector."),
        (lambda t: t.search(5), "query is a text, not 5 (int)."),
        (lambda t: t.count(query=5), "query is a text, not 5 (int)."),
        (lambda t: t.delete(query=5), "query is a text, not 5 (int)."),
        (
            lambda t: t.search("disk", limit="3"),
            "limit is a whole number from 0 up, not '3' (str).",
        ),
        (lambda t: t.search("disk", limit=-1), "limit is a whole number from 0 up, not -1 (int)."),
        (
            lambda t: t.search("disk", limit=True),
            "limit is a whole number from 0 up, not True (bool).",
        ),
        (
            lambda t: t.search("disk", limit=1, offset=1.5),
            "offset is a whole number from 0 up, not 1.5 (float).",
        ),
        (lambda t: t.search("disk", snippet=5), "snippet is a text, not 5 (int)."),
        (lambda t: t.search("disk", order_by=5), "order_by is a text, not 5 (int)."),
        (lambda t: t.scan(limit="3"), "limit is a whole number from 0 up, not '3' (str)."),
        (lambda t: t.scan(limit=-1), "limit is a whole number from 0 up, not -1 (int)."),
        (lambda t: t.scan(columns=5), "columns is a list of names, not 5 (int)."),
        (lambda t: t.scan(columns=[5]), "The name of a column is a text, not 5 (int)."),
        (lambda t: t.history(limit=-1), "limit is a whole number from 0 up, not -1 (int)."),
        (lambda t: t.restore(version="1"), "version is a whole number, not '1' (str)."),
        (lambda t: OPEN(None), "The path of a table is a text or a pathlib.Path, not None."),
        (lambda t: OPEN(t.path, version=1.5), "version is a whole number, not 1.5 (float)."),
        (lambda t: OPEN(t.path, version="1"), "version is a whole number, not '1' (str)."),
        (lambda t: OPEN(t.path, version=True), "version is a whole number, not True (bool)."),
        (
            lambda t: CREATE("x", schema={"a": "int"}),
            "schema is a pyarrow.Schema, not {'a': 'int'} (dict).",
        ),
        (
            lambda t: CREATE("x", schema=[("a", "int")]),
            "schema is a pyarrow.Schema, not [('a', 'int')] (list).",
        ),
    ],
)
def test_what_was_expected_and_what_was_given(
    table: Table, call: Callable[[Any], Any], message: str
) -> None:
    with pytest.raises(InvalidInputError) as caught:
        call(table)
    assert caught.value.message == message
    assert table.refresh().version == 1


def test_the_numbers_of_numpy_are_numbers(table: Table) -> None:
    one = pa.array([1]).to_numpy()[0]
    assert table.search("disk", limit=one).num_rows == 1
    assert Table.open(table.path, version=one).version == 1


def test_a_column_is_asked_for_once(table: Table) -> None:
    for call in (table.scan, lambda **kw: table.search("disk", **kw)):
        with pytest.raises(InvalidInputError, match="'id' is asked for more than once"):
            call(columns=["id", "message", "ID"])


@pytest.mark.parametrize("name", ["_score", "_Snippet"])
def test_names_of_search_results_are_reserved(table: Table, tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidInputError, match=f"'{name}': _score and _snippet are reserved"):
        Table.create(
            str(tmp_path / "other"), schema=pa.schema([("id", pa.int64()), (name, pa.string())])
        )
    with pytest.raises(InvalidInputError, match="reserved for the results of searches"):
        table.append(ROWS.append_column(name, pa.array(["a", "b"])), merge_schema=True)


def test_a_table_that_has_a_reserved_name_already_is_read_and_written(tmp_path: Path) -> None:
    rows = pa.table({"id": [1], "_score": [0.5]})
    log = open_log(str(tmp_path / "t"), None)
    metadata = MetadataAction(id="old", schema_string=schema_to_json(rows.schema))
    create_table(log, metadata, exist_ok=False, engine_info="an older release")
    table = Table.open(str(tmp_path / "t"))
    table.append(rows)
    table.append(rows.append_column("more", pa.array([1])), merge_schema=True)
    assert table.scan(columns=["id", "_score"]).read_all().to_pylist() == rows.to_pylist() * 2

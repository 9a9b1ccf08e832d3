"""What a new user types first, mistakes included: each answer leads to the call that works."""

from __future__ import annotations

from pathlib import Path

import pytest

import indextables
from indextables import Table
from indextables.errors import IndexTablesError
from tests.cli.calls import Call

ROWS = """id,city,comment
1,London,"The parcel arrived late and the box was damaged"
2,Paris,"Wrong size delivered, asked for a refund twice"
"""


def test_a_csv_is_found_by_a_word_after_three_hints(call: Call, tmp_path: Path) -> None:
    file, path = tmp_path / "orders.csv", str(tmp_path / "orders")
    file.write_text(ROWS)
    assert "indextables append PATH FILE --create" in call("append", path, str(file), code=3).err
    made = call("append", path, str(file), "--create").err
    assert (
        "The column comment looks like prose" in made
        and f"indextables reindex {path} comment=text" in made
    )
    assert "indextables reindex PATH comment=text" in call("search", path, "refund", code=2).err
    call("reindex", path, "comment=text")
    assert "asked for a refund" in call("search", path, "refund").out


def test_a_column_of_words_is_not_suggested_again(call: Call, tmp_path: Path) -> None:
    file, path = tmp_path / "orders.csv", str(tmp_path / "orders")
    file.write_text(ROWS)
    assert (
        "looks like prose"
        not in call("append", path, str(file), "--create", "--text", "comment").err
    )
    assert "looks like prose" not in call("append", path, str(file)).err


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("open", "indextables.open_table(path)"),
        ("DeltaTable", "indextables.open_table(path)"),
        ("create_table", "indextables.write_table(path, rows)"),
    ],
)
def test_functions_of_other_libraries_name_the_call(name: str, instead: str) -> None:
    with pytest.raises(AttributeError) as caught:
        getattr(indextables, name)
    assert str(caught.value).endswith(f"Use {instead}")


def test_habits_of_other_libraries_name_the_parameter(tmp_path: Path) -> None:
    table = indextables.write_table(
        str(tmp_path / "t"), [{"n": 1, "body": "a refund"}], text=["body"]
    )
    for wrong, right in {
        "size": "limit",
        "filter": "where",
        "sort": "order_by",
        "_source": "columns",
    }.items():
        with pytest.raises(IndexTablesError, match=f"Did you mean '{right}'"):
            table.search("refund", **{wrong: 1})  # type: ignore[call-overload]
    with pytest.raises(IndexTablesError, match=r"Use Table\.open"):
        Table("t")  # type: ignore[arg-type]
    with pytest.raises(IndexTablesError, match="For SELECT use spark"):
        indextables.sql("SELECT * FROM t")
    with pytest.raises(IndexTablesError, match="Read a file first"):
        indextables.write_table(str(tmp_path / "u"), "rows.csv")
    assert table.count() == 1

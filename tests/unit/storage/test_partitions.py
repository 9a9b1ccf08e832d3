"""Partition folders are named as Spark names them, and read back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indextables.errors import InvalidInputError
from indextables.storage.location import (
    NULL_PARTITION,
    check,
    escape,
    partition_folder,
    partition_values,
    unescape,
)

# What Spark 4's ExternalCatalogUtils.escapePathName makes of these.
AS_SPARK = {
    "2024-01-01": "2024-01-01",
    "a b": "a b",
    "Köln/Bonn": "Köln%2FBonn",
    "50%": "50%25",
    "a=b:c": "a%3Db%3Ac",
    "x\ty\x7f": "x%09y%7F",
    "\"#'*?\\": "%22%23%27%2A%3F%5C",
    "{}[]^": "%7B}%5B%5D%5E",
    "a+b&c<d>|~`!@$(),;-_.": "a+b&c<d>|~`!@$(),;-_.",
}


@pytest.mark.parametrize(("value", "escaped"), AS_SPARK.items())
def test_escaped_as_spark_does(value: str, escaped: str) -> None:
    assert escape(value) == escaped
    assert unescape(escaped) == value


def test_a_percent_that_starts_no_escape_stands_for_itself() -> None:
    assert unescape("100%") == "100%"
    assert unescape("%zz%2") == "%zz%2"
    assert unescape("%2f") == "/"


def test_folders_both_ways() -> None:
    values = {"date": "2024-01-01", "a=b": "x/y", "none": None}
    folder = partition_folder(values)
    assert folder == f"date=2024-01-01/a%3Db=x%2Fy/none={NULL_PARTITION}"
    assert partition_values(f"{folder}/part-0.split") == values
    assert partition_values("part-0.split") == partition_values("no/partition/part.split") == {}
    assert partition_folder({}) == ""


def test_an_empty_value_shares_the_folder_of_null() -> None:
    assert partition_folder({"p": ""}) == partition_folder({"p": None})


@pytest.mark.parametrize("path", ["=1/x", "a=1/a=2/x"])
def test_folders_that_make_no_sense(path: str) -> None:
    with pytest.raises(InvalidInputError, match="names no column"):
        partition_values(path)


@given(
    st.dictionaries(
        st.text(min_size=1), st.none() | st.just(NULL_PARTITION) | st.text(min_size=1), max_size=3
    )
)
def test_every_value_survives_and_makes_a_safe_path(values: dict[str, str | None]) -> None:
    path = f"{partition_folder(values)}/x".lstrip("/")
    assert check(path) == path
    read = partition_values(path)
    assert read == values


def test_the_text_that_stands_for_null_is_another_folder_than_null() -> None:
    folder = partition_folder({"p": NULL_PARTITION})
    assert folder == "p=%5F_HIVE_DEFAULT_PARTITION__"
    assert partition_values(f"{folder}/x") == {"p": NULL_PARTITION}
    assert partition_values(f"{partition_folder({'p': None})}/x") == {"p": None}

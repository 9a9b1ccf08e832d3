"""Statements that users of Delta write do what is expected, on a table by its name and on one by
its path.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.cases import CASES, Case, Place

_numbers = count()


@pytest.fixture(scope="module")
def database(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("cases")
    spark.sql(f"CREATE DATABASE cases LOCATION '{folder}/cases'")
    yield folder
    spark.sql("DROP DATABASE cases CASCADE")


def place(folder: Path, kind: str) -> Place:
    number = next(_numbers)
    names = [f"t{number}", f"u{number}"]
    if kind == "name":
        paths = [f"{folder}/cases/{name}" for name in names]
        tables = [f"cases.{name}" for name in names]
    else:
        paths = [f"{folder}/paths/{name}" for name in names]
        tables = [f"indextables.`{path}`" for path in paths]
    return Place(tables[0], paths[0], tables[1], paths[1], f"s{number}")


def _parameters() -> Iterator[object]:
    for case in CASES:
        for kind in ("name", "path"):
            if case.only in ("", kind):
                marks = (
                    []
                    if case.quick and kind == ("name", "path")[len(case.name) % 2]
                    else [pytest.mark.slow]
                )
                yield pytest.param(case, kind, id=f"{case.name}, by {kind}", marks=marks)


@pytest.mark.parametrize(("case", "kind"), list(_parameters()))
def test_a_statement_does_what_is_expected(
    spark: SparkSession, database: Path, case: Case, kind: str
) -> None:
    case.run(spark, place(database, kind))

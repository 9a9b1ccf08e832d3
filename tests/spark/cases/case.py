"""One case: a table, statements, and what they must return, leave behind or refuse."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from indextables import Table

Rows = list[tuple[Any, ...]]

HIDDEN = (
    "Traceback",
    "INTERNAL_ERROR",
    "Py4J",
    "__row",
    "__file",
    "__source",
    "__action",
    "__deletion_vector",
)
"""What no message may show: stack traces and the names of columns that exist inside the package
only.
"""


@dataclass(frozen=True)
class Place:
    """Where the tables of a case are: `table` and `other` as SQL names them, `path` and
    `other_path` as folders.
    """

    table: str
    path: str
    other: str
    other_path: str
    view: str

    def fill(self, text: str) -> str:
        """Return a statement with its placeholders replaced: {t}, {u}, {s}, {path}, {other_path}."""
        names = {
            "t": self.table,
            "u": self.other,
            "s": self.view,
            "path": self.path,
            "other_path": self.other_path,
        }
        for name, value in names.items():
            text = text.replace("{" + name + "}", value)
        return text


Call = Callable[[SparkSession, Place], Any]


@dataclass(frozen=True)
class Case:
    """Statements on the table {t}, and what must be true afterwards.

    Without `columns` the case starts without a table. `source` is a query; its rows are the
    temporary view {s}. The last statement is the one that returns `returns` or raises `raises`, an
    error condition; a statement that raises must leave the table at its version.
    """

    name: str
    does: str | Call | list[str | Call]
    columns: str = "k INT, v STRING"
    partitioned_by: str = ""
    properties: str = ""
    rows: str = ""
    source: str = ""
    then: Rows | None = None
    """The rows of {t} afterwards."""
    returns: Rows | None = None
    checks: Mapping[str, Rows] = field(default_factory=dict)
    """Queries and their rows."""
    raises: str = ""
    says: tuple[str, ...] = ()
    """Words of the message."""
    only: str = ""
    """"name" or "path" where the other has no such statement."""
    conf: Mapping[str, str] = field(default_factory=dict)
    quick: bool = False
    """Whether every change must pass it, or only the slow suite."""

    def run(self, spark: SparkSession, place: Place) -> None:
        """Carry the case out at a place and check what it expects."""
        for key, value in self.conf.items():
            spark.conf.set(key, value)
        try:
            self._prepare(spark, place)
            self._act(spark, place)
        finally:
            for key in self.conf:
                spark.conf.unset(key)
        if self.then is not None:
            _check("{t}", _rows(spark.sql(place.fill("SELECT * FROM {t}"))), self.then)
        for query, rows in self.checks.items():
            _check(query, _rows(spark.sql(place.fill(query))), rows)

    def _prepare(self, spark: SparkSession, place: Place) -> None:
        if self.source:
            spark.sql(place.fill(self.source)).createOrReplaceTempView(place.view)
        if not self.columns:
            return
        partitions = f" PARTITIONED BY ({self.partitioned_by})" if self.partitioned_by else ""
        properties = f" TBLPROPERTIES ({self.properties})" if self.properties else ""
        spark.sql(
            f"CREATE TABLE {place.table} ({self.columns}) USING indextables{partitions}{properties}"
        )
        if self.rows:
            spark.sql(f"INSERT INTO {place.table} VALUES {self.rows}")

    def _act(self, spark: SparkSession, place: Place) -> None:
        statements = self.does if isinstance(self.does, list) else [self.does]
        for statement in statements[:-1]:
            _do(spark, place, statement)
        if not self.raises:
            returned = _rows(_do(spark, place, statements[-1]))
            if self.returns is not None:
                _check("the last statement", returned, self.returns)
            return
        before = _version(place)
        with pytest.raises(PySparkException) as raised:
            pytest.fail(f"no error, but {_rows(_do(spark, place, statements[-1]))}")
        message = str(raised.value)
        assert (raised.value.getCondition() or "").startswith(self.raises), message
        for hidden in HIDDEN:
            assert hidden not in message, message
        for words in self.says:
            assert place.fill(words) in message, message
        assert _version(place) == before, (
            f"the statement raised an error and the table is at version {_version(place)}"
        )


def _check(what: str, returned: Rows, expected: Rows) -> None:
    assert returned == _sorted(expected), f"{what} returned {returned}, not {_sorted(expected)}"


def _version(place: Place) -> int | None:
    return (
        Table.open(place.path).version if (Path(place.path) / "_transaction_log").exists() else None
    )


def _do(spark: SparkSession, place: Place, statement: str | Call) -> Any:
    return (
        spark.sql(place.fill(statement)) if isinstance(statement, str) else statement(spark, place)
    )


def _rows(result: Any) -> Rows:
    return _sorted(
        result.collect()
        if isinstance(result, DataFrame)
        else result
        if isinstance(result, list)
        else []
    )


def _sorted(rows: Any) -> Rows:
    return sorted((_plain(row) for row in rows), key=repr)


def _plain(value: Any) -> Any:
    """Return a value with its structs as tuples, so that rows can be compared with tuples."""
    if isinstance(value, tuple):
        return tuple(_plain(each) for each in value)
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return {_plain(key): _plain(each) for key, each in value.items()}
    return value

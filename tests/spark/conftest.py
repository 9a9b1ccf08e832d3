"""Tests of the one small Spark session share a process."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from indextables import Table
from indextables.spark.compat import SPARK
from tests.spark.refusals import refusal

RESULTS = "SPARK_TEST_RESULTS"
"""The environment variable with the file that gets a line of JSON for each test."""


def pytest_configure(config: pytest.Config) -> None:
    """PySpark 4.0 and 4.1 leave closing the socket of a collect() to the garbage collector."""
    if SPARK < (4, 2):
        config.addinivalue_line("filterwarnings", "ignore:unclosed <socket:ResourceWarning")


def pytest_collection_finish(session: pytest.Session) -> None:
    """Write down how many tests there are, where somebody counts."""
    if file := os.environ.get(RESULTS):
        with Path(file).open("a") as out:
            out.write(json.dumps({"collected": len(session.items)}) + "\n")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Write down what became of a test, where somebody counts."""
    counts = report.when == "call" or report.outcome != "passed"
    if counts and (file := os.environ.get(RESULTS)) and not hasattr(report, "node"):
        with Path(file).open("a") as out:
            reason = (
                report.longrepr[2]
                if isinstance(report.longrepr, tuple)
                else report.longreprtext[-1500:]
            )
            out.write(
                json.dumps({"test": report.nodeid, "outcome": report.outcome, "reason": reason})
                + "\n"
            )


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the tests of the one session in one process: a second one would start a second JVM.

    Tests that start servers and drivers of their own are free to run beside it.
    """
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents and "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("spark"))
        reason = refusal(item.nodeid, SPARK)
        if reason is not None:
            item.add_marker(pytest.mark.skip(reason=reason))


def pytest_runtest_makereport(call: pytest.CallInfo[None]) -> None:
    """Give up the connection to Java on which a test was broken off while it waited for an answer:
    by its timeout.

    The traceback keeps that connection alive, py4j would go on with it, and every later call of
    every later test would get the answer to the one before. (An Exception, or the interrupt of the
    keyboard, is py4j's own business, and it does that.)
    """
    broken = call.excinfo is not None and not isinstance(
        call.excinfo.value, Exception | pytest.skip.Exception
    )
    if broken:
        drop_connection()


def drop_connection() -> None:
    """Close this thread's connection to Java; its next call opens another, in a thread that must be
    told the session.
    """
    gateway: Any = SparkContext._gateway
    connection = None if gateway is None else gateway._gateway_client.get_thread_connection()
    if connection is not None:
        connection.close()
        session = SparkSession.getActiveSession() or SparkSession._instantiatedSession
        if session is not None:
            gateway.jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(
                session._jsparkSession
            )


@pytest.fixture
def table_of_another_engine(tmp_path: Path) -> Table:
    """A copy of a table that another implementation wrote; skips where those tables are not at
    hand.
    """
    golden = (
        Path(__file__).parents[3]
        / "shared"
        / "golden"
        / "indextables_spark_v0.5.4"
        / "02_five_appends"
    )
    if not golden.exists():
        pytest.skip("the tables of other engines are not here")
    shutil.copytree(golden, tmp_path / "t")
    return Table.open(str(tmp_path / "t"))

"""`indextables doctor`: what is installed, and what works with it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyspark

from indextables import sql
from indextables.spark.compat import capabilities
from tests.cli.calls import Call

OLD_SPARK = "SparkConf = SparkContext = None\n__version__ = '3.5.7'\n"
"""A PySpark without the modules that Spark 4.0 brought."""


def by_kind(rows: list[dict[str, str]], kind: str) -> dict[str, str]:
    """The names and values of a kind of rows."""
    return {row["name"]: row["value"] for row in rows if row["kind"] == kind}


def run_doctor(python_path: Path, environ: dict[str, str]) -> list[dict[str, str]]:
    """The rows of the command in a process that finds these modules first."""
    done = subprocess.run(
        [sys.executable, "-m", "indextables.cli", "doctor", "--json"],
        env={**os.environ, "PYTHONPATH": str(python_path), **environ},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [dict(row) for row in json.loads(done.stdout)]


def test_it_shows_versions_extras_java_and_what_this_spark_can_do(call: Call) -> None:
    rows = call("doctor", "--json").json
    versions = by_kind(rows, "version")
    assert versions["pyspark"] == pyspark.__version__ and versions["pyarrow"] == pa.__version__
    assert versions["java"].split(" ")[0] in ("17", "21", "25")
    assert by_kind(rows, "extra")["cli"] == "installed"
    assert by_kind(rows, "capability") == capabilities()


def test_the_statement_shows_the_same_extras(call: Call) -> None:
    found = sql("DESCRIBE INDEXTABLES ENVIRONMENT").to_pylist()
    extras = {
        r["property_name"]: r["property_value"] for r in found if r["property_type"] == "extra"
    }
    assert extras == by_kind(call("doctor", "--json").json, "extra")


def test_a_spark_that_is_too_old_and_a_missing_java_are_named(tmp_path: Path) -> None:
    (tmp_path / "pyspark").mkdir()
    (tmp_path / "pyspark" / "__init__.py").write_text(OLD_SPARK)
    rows = run_doctor(tmp_path, {})
    told = by_kind(rows, "capability")
    assert list(told) == ["spark"]
    assert "needs Spark 4.0 to 4.3, and PySpark 3.5.7 is installed" in told["spark"]
    (tmp_path / "bin").mkdir()
    without = run_doctor(tmp_path / "bin", {"PATH": str(tmp_path / "bin"), "JAVA_HOME": ""})
    assert "Spark needs Java 17" in by_kind(without, "version")["java"]

"""Spark 4.0, the oldest that is supported: statements and verbs in an environment of its own."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from indextables.spark.compat import NEWEST, OLDEST, SPARK, capabilities, minor_version
from indextables.spark.jvm import java_sources
from tests.spark.refusals import REFUSED, refusal

ROOT = Path(__file__).parents[2]
OLD = ROOT / ".venv" / "spark-4.0"


@pytest.fixture(scope="module")
def old_spark() -> Path:
    """The Python of the environment with Spark 4.0; skips where it is not there and cannot be made."""
    make = shutil.which("make")
    if not (OLD / ".ready").exists():
        if make is None:
            pytest.skip("Spark 4.0 is not installed, and there is no make to install it")
        try:
            done = subprocess.run(
                [make, "-s", "spark", "VERSION=4.0"],
                cwd=ROOT,
                capture_output=True,
                text=True,
                timeout=240,
                check=False,
            )
        except subprocess.TimeoutExpired:
            pytest.skip("Spark 4.0 cannot be installed: no answer within 240 s")
        if done.returncode != 0:
            pytest.skip(f"Spark 4.0 cannot be installed: {done.stderr.strip()[-300:]}")
    return OLD / "bin" / "python"


@pytest.mark.timeout(900)
def test_statements_and_verbs_on_spark_4_0(old_spark: Path, tmp_path: Path) -> None:
    program = [str(old_spark), "-m", "tests.support.spark_checks", str(tmp_path / "checks.json")]
    done = subprocess.run(
        program, cwd=ROOT, capture_output=True, text=True, timeout=800, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    run = json.loads((tmp_path / "checks.json").read_text())
    assert run["pyspark"].startswith("4.0.")
    assert len(run["checks"]) >= 40
    assert {name: outcome for name, outcome in run["checks"].items() if outcome != "passed"} == {
        "tables by name: CREATE TABLE LIKE": "refused: needs Spark 4.2",
        "streams: maxFilesPerTrigger": "refused: needs Spark 4.2",
    }


def test_each_spark_gets_the_newest_java_file_that_it_can_use() -> None:
    assert "TableInfo" not in java_sources((4, 1))["CatalogApi.java"]
    for spark in ((4, 2), (4, 3), (4, 9)):
        assert "TableInfo" in java_sources(spark)["CatalogApi.java"]
    assert set(java_sources(OLDEST)) == set(java_sources(NEWEST))


def test_versions_are_read_from_their_text() -> None:
    assert minor_version("4.1.4") == minor_version("since_4_1") == (4, 1)
    assert minor_version("4.2.0.dev1") == (4, 2)
    assert OLDEST <= SPARK <= NEWEST


def test_a_refusal_names_what_is_missing_and_the_version_that_has_it() -> None:
    for capability, (since, tests) in REFUSED.items():
        assert all(refusal(f"tests/spark/{name}", since) is None for name in tests)
        reason = refusal(f"tests/spark/{tests[0]}", (since[0], since[1] - 1))
        assert reason == f"refused by design: {capability} needs Spark {since[0]}.{since[1]}"


def test_the_environment_tells_what_this_spark_can_do(spark: SparkSession) -> None:
    rows = (
        spark.sql("DESCRIBE INDEXTABLES ENVIRONMENT")
        .where("property_type = 'capability'")
        .collect()
    )
    assert {row["property_name"]: row["property_value"] for row in rows} == capabilities(SPARK)
    assert capabilities((4, 1))["CREATE TABLE LIKE"] == "needs Spark 4.2"
    assert capabilities((4, 2))["CREATE TABLE LIKE"] == "yes"

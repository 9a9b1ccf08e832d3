"""The story of `make demo`, with fewer lines; and the commands it leaves with the user."""

from __future__ import annotations

import json
import shlex
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

import indextables.spark as its
from indextables import Table
from indextables.cli.app import app
from indextables.cli.demo import tell
from indextables.errors import RefusedError


class Kept:
    """The session of the tests, which outlives the story."""

    def __init__(self, spark: SparkSession) -> None:
        self.createDataFrame = spark.createDataFrame

    def stop(self) -> None:
        """Stays."""


def test_the_story_is_told_and_its_commands_work(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    shown = SimpleNamespace(
        session=lambda: Kept(spark), write=its.write, table=lambda _, path: its.table(spark, path)
    )
    table = tell(shown, tmp_path / "demo-table", rows=6_000)
    told = capsys.readouterr().out
    assert table.count() == 6_000
    for word in (
        "Search",
        "contains()",
        "Typed conditions",
        "Aggregate",
        "Merge",
        "Time travel",
        "History",
    ):
        assert word in told
    assert told.count("are damaged") == 2
    assert "mended: 0 findings" in told
    commands = [
        shlex.split(line)[1:]
        for line in told.splitlines()
        if "indextables " in line and "demo-table" in line
    ]
    assert {words[0] for words in commands} == {"search", "count", "aggregate", "diff", "report"}
    for words in commands:
        result = CliRunner().invoke(app, words)
        assert result.exit_code == 0, f"{words}: {result.output}"


def test_the_story_replaces_nothing_that_is_not_its_own(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    Table.create(str(tmp_path / "logs"), schema=pa.schema([("a", pa.int64())]))
    for name in ("mine", "logs"):
        with pytest.raises(RefusedError, match="not made by the demo"):
            tell(its, tmp_path / name, rows=1_000)
    assert Table.open(str(tmp_path / "logs")).version == 0


def test_the_jar_is_written(spark: SparkSession, tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["jar", "--out", str(tmp_path / "its.jar"), "--json"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout) == {"path": str(tmp_path / "its.jar")}
    names = zipfile.ZipFile(tmp_path / "its.jar").namelist()
    assert any(name.endswith(".class") for name in names)

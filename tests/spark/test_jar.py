"""The jar: what is in it, and servers that no Python process has started run with it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pyspark
import pytest
from pyspark.sql import SparkSession

import indextables
from indextables import Table
from indextables.spark.compat import SPARK
from indextables.spark.jvm import PROVIDERS, VERSION_FILE, build_jar, java_sources
from tests.spark.logs import make_logs
from tests.spark.programs import run_program

STATEMENTS = """
DESCRIBE INDEXTABLES HISTORY '{path}' LIMIT 1;
CREATE TEMP VIEW t USING indextables OPTIONS (path '{path}');
SELECT 'found', count(*) FROM t WHERE message TEXTSEARCH 'timeout' AND level = 'ERROR';
SET spark.indextables.purge.retentionCheckEnabled=false;
PURGE INDEXTABLE t OLDER THAN 1 HOURS DRY RUN;
"""
CONNECT = """
import logging, os, sys
os.environ["PYSPARK_PYTHON"] = sys.executable
from pyspark.sql import SparkSession
import indextables.spark as its
from indextables.spark.sessions import local_defaults

said = []
logging.getLogger("indextables").addHandler(type("Kept", (logging.Handler,), {"emit": lambda self, r: said.append(r)})())
builder = SparkSession.builder.remote("local[2]").config("spark.jars", os.path.abspath("indextables.jar"))
for key, value in local_defaults().items():
    builder = builder.config(key, value)
spark = builder.getOrCreate()
its.install(spark)
spark.read.format("indextables").load(os.path.abspath("logs")).createOrReplaceTempView("t")
print(len(said), spark.sql("SELECT id FROM t WHERE message TEXTSEARCH 'timeout' AND level = 'ERROR'").count())
print(spark.sql("DESCRIBE INDEXTABLES STATE t").collect()[0].num_files)
spark.stop()
"""


def test_what_is_in_it(spark: SparkSession, tmp_path: Path) -> None:
    assert spark.sparkContext._jvm is not None
    path = build_jar(tmp_path / "indextables.jar")
    with ZipFile(path) as jar:
        names = jar.namelist()
        assert jar.read(PROVIDERS) == b"indextables.Extension\n"
        assert jar.read(VERSION_FILE).decode() == indextables.__version__
        assert all(
            jar.read(n).startswith(b"\xca\xfe\xba\xbe") for n in names if n.endswith(".class")
        )
    assert {
        f"indextables/{name.removesuffix('.java')}.class" for name in java_sources(SPARK)
    } <= set(names)
    assert build_jar(tmp_path / "again.jar").read_bytes() == path.read_bytes()


@pytest.mark.slow
def test_the_spark_sql_command_line(tmp_path: Path) -> None:
    logs = make_logs(tmp_path)
    jar = build_jar(tmp_path / "indextables.jar")
    command = [
        str(Path(pyspark.__file__).parent / "bin" / "spark-sql"),
        "--master",
        "local[1]",
        "--jars",
        str(jar),
    ]
    command += [
        "--conf",
        "spark.ui.enabled=false",
        "--conf",
        "spark.sql.catalogImplementation=in-memory",
    ]
    clean = {
        k: v for k, v in os.environ.items() if not k.startswith(("PYSPARK_", "SPARK_", "PYTEST_"))
    }
    done = subprocess.run(
        [*command, "-e", STATEMENTS.format(path=logs.path)],
        cwd=tmp_path,
        env={**clean, "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-8000:]
    lines = [line.split("\t") for line in done.stdout.splitlines()]
    assert [line[0] for line in lines if line[2:3] == ["WRITE"]] == ["3"]
    wanted = Table.open(logs.path).count(query="message:timeout AND level:ERROR")
    assert ["found", str(wanted)] in lines
    assert [line[5] for line in lines if line[:2] == [logs.path, "no_action"]] == ["1"]


@pytest.mark.slow
def test_a_connect_server(tmp_path: Path) -> None:
    logs = make_logs(tmp_path)
    build_jar(tmp_path / "indextables.jar")
    told = run_program(CONNECT, tmp_path)
    wanted = Table.open(logs.path).count(query="message:timeout AND level:ERROR")
    assert told.split() == ["0", str(wanted), "15"]

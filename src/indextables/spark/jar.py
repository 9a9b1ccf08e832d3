"""The extension as a jar, for drivers that no Python process starts: the spark-sql CLI, Thrift and Connect servers.

    spark-sql --jars indextables.jar

Spark finds the extension in it by itself. The package must be installed for the Python that Spark's workers use.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from pyspark import SparkContext
from pyspark.java_gateway import launch_gateway

from indextables.config.release import VERSION
from indextables.spark.java_classes import PACKAGE, VERSION_FILE, compiled
from indextables.spark.java_home import java_home

PROVIDERS = "META-INF/services/org.apache.spark.sql.SparkSessionExtensionsProvider"
_LONG_AGO = (1980, 1, 1, 0, 0, 0)


def build_jar(out: str | os.PathLike[str]) -> Path:
    """Write the jar, compiled by the compiler that Spark brings along; the same classes give the same bytes."""
    path = Path(out)
    classes = class_files()
    with ZipFile(path, "w", ZIP_DEFLATED) as jar:
        for name, content in {
            "META-INF/MANIFEST.MF": b"Manifest-Version: 1.0\r\n\r\n",
            VERSION_FILE: VERSION.encode(),
            PROVIDERS: f"{PACKAGE}.Extension\n".encode(),
            **{f"{name.replace('.', '/')}.class": content for name, content in sorted(classes.items())},
        }.items():
            # Without a time: the same classes make the same jar.
            jar.writestr(ZipInfo(name, _LONG_AGO), content, ZIP_DEFLATED)
    return path


def class_files() -> dict[str, bytes]:
    """The compiled classes by name."""
    with _java() as jvm:
        compiler = compiled(jvm, jvm.java.lang.ClassLoader.getSystemClassLoader())
        found = compiler.getBytecodes()
        return {str(name): bytes(found.get(name)) for name in found.keySet().toArray()}


@contextmanager
def _java() -> Iterator[Any]:
    """The JVM of a running session, or one for the occasion."""
    running: Any = SparkContext._active_spark_context
    if running is not None:
        yield running._gateway.jvm
        return
    home = java_home()
    if home is not None:
        os.environ["JAVA_HOME"] = home
    gateway: Any = launch_gateway()  # type: ignore[no-untyped-call]
    try:
        yield gateway.jvm
    finally:
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(60)

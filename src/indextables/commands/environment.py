"""What a process runs with: versions, the machine, settings, and which of the variables that reach a store are set.

A value that could hold a secret is never shown: of environment variables only those named here are, and of settings all
but the secret ones.
"""

from __future__ import annotations

import os
import platform
import socket
import sys
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from indextables import config
from indextables.config.release import VERSION

HIDDEN = "<hidden>"
_PACKAGES = ("pyarrow", "numpy", "msgspec", "obstore", "fastavro", "polars", "polars-avro", "tantivy", "pyspark")
_STORE_VARIABLES = ("AWS_", "AZURE_", "GOOGLE_", "GCP_")
_SHOWN_VARIABLES = (
    "AWS_DEFAULT_REGION",
    "AWS_PROFILE",
    "AWS_REGION",
    "AZURE_STORAGE_ACCOUNT_NAME",
    "JAVA_HOME",
    "PYSPARK_PYTHON",
    "SPARK_HOME",
)


def environment(options: Mapping[str, object] | None = None, *, role: str = "driver") -> list[dict[str, Any]]:
    """One row for each thing worth knowing of this process; a Spark worker calls it with a role of its own."""
    host = socket.gethostname()
    found = [("version", _versions()), ("system", _system()), *_settings(options), ("variable", _variables())]
    return [
        {"host": host, "role": role, "property_type": kind, "property_name": name, "property_value": value}
        for kind, properties in found
        for name, value in properties
    ]


def _versions() -> Iterator[tuple[str, str]]:
    yield "indextables", VERSION
    yield "python", platform.python_version()
    for package in _PACKAGES:
        try:
            yield package, version(package)
        except PackageNotFoundError:
            continue


def _system() -> Iterator[tuple[str, str]]:
    yield "platform", platform.platform()
    yield "cpus", str(os.cpu_count())
    yield "executable", sys.executable
    yield "process", str(os.getpid())


def _settings(options: Mapping[str, object] | None) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """What was set, and what is left at its default."""
    resolved = config.resolve(options=options)
    given = resolved.given()
    yield "setting", [(key, str(value)) for key, value in sorted(given.items())]
    defaults = {key: s.default for key, s in config.REGISTRY.settings.items() if key not in given and not s.per_column}
    yield "default", [(key, "" if value is None else str(value)) for key, value in sorted(defaults.items())]


def _variables() -> Iterator[tuple[str, str]]:
    for name in sorted(os.environ):
        if name in _SHOWN_VARIABLES:
            yield name, os.environ[name]
        elif name.startswith(_STORE_VARIABLES):
            yield name, HIDDEN

"""The Python environments of a cluster's workers: whether they have what our tasks need, found out before a task runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from weakref import WeakSet

from pyspark import SparkContext
from pyspark.sql import SparkSession

from indextables.config.release import VERSION
from indextables.errors import UnsupportedError
from indextables.spark.settings import has_jvm

_NEEDED = ("msgspec", "numpy", "obstore", "pyarrow", "tantivy")
_checked: WeakSet[SparkContext] = WeakSet()


def check_workers(spark: SparkSession) -> None:
    """Raise UnsupportedError, before anything else runs there, if the Python of a worker lacks what tasks need.

    It says which interpreter on which host lacks what. Looked at once; workers on this machine are this very Python.
    """
    context = spark.sparkContext if has_jvm(spark) else None
    if context is None or context in _checked:
        return
    if not str(context.master).startswith(("local[", "local-cluster")) and str(context.master) != "local":
        places = max(2, int(context.defaultParallelism))
        found = context.parallelize(range(places), places).mapPartitions(_look_for(_NEEDED)).collect()
        lacking = {f"{python} on {host} {_lacks(versions)}" for host, python, versions in found if _lacks(versions)}
        if lacking:
            raise UnsupportedError(
                f"Workers cannot run tasks of IndexTables {VERSION}: {'; '.join(sorted(lacking))}.",
                hint="Send an environment along (--archives env.tar.gz#env, PYSPARK_PYTHON=./env/bin/python), or install "
                "indextables for the Python that spark.pyspark.python names on every host.",
                workers=sorted(lacking),
            )
    _checked.add(context)


def _look_for(names: tuple[str, ...]) -> Callable[[Iterable[int]], Iterator[tuple[str, str, dict[str, str | None]]]]:
    def look(_: Iterable[int]) -> Iterator[tuple[str, str, dict[str, str | None]]]:
        # It travels by value: what it needs must be in any Python.
        import socket  # noqa: PLC0415
        import sys  # noqa: PLC0415
        from importlib import import_module  # noqa: PLC0415
        from importlib.util import find_spec  # noqa: PLC0415

        versions = {name: "" if find_spec(name) else None for name in names}
        ours = find_spec("indextables") and import_module("indextables.config.release").VERSION
        yield socket.gethostname(), sys.executable, {"indextables": ours or None, **versions}

    return look


def _lacks(versions: Mapping[str, str | None]) -> str:
    missing = [name for name, version in versions.items() if version is None]
    other = versions["indextables"]
    told = [f"has no {', '.join(missing)}"] if missing else []
    told += [f"has indextables {other}"] if other not in (None, VERSION) else []
    return " and ".join(told)

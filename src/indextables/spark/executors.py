"""Work on the executors of a cluster: caches are filled and described where tasks run.

Spark has no call that reaches every executor. Each part of a job names the executor, or the host,
that should run it; Spark waits for it (`spark.locality.wait`) and then takes another. Each result
says which executor it came from, so an executor that was missed is asked again.
"""

from __future__ import annotations

import hashlib
import logging
import os
import pickle
import socket
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from msgspec import Struct
from pyspark import RDD
from pyspark.serializers import CPickleSerializer
from pyspark.sql import SparkSession

from indextables.metrics import Sample
from indextables.spark.jvm import java_classes
from indextables.spark.settings import check_workers, has_jvm
from indextables.spark.worker_metrics import FOLDERS, executor_samples, store_metrics

logger = logging.getLogger(__name__)
R = TypeVar("R")
_ROUNDS = 3


class Executor(Struct, frozen=True, order=True):
    """An executor by its id, and the host that it runs on."""

    id: str
    host: str

    @property
    def location(self) -> str:
        """The executor as Spark names it for the placement of tasks."""
        return f"executor_{self.host}_{self.id}"


def executors(spark: SparkSession) -> list[Executor]:
    """Return the executors of a cluster, by id. None on one machine, where tasks share the driver's
    caches.

    A client of Spark Connect cannot see them.
    """
    if not has_jvm(spark) or str(spark.sparkContext.master).startswith("local["):
        return []
    found = list(java_classes(spark).call("Executors", "of", spark._jsparkSession))
    return sorted(Executor(*each) for each in zip(found[::2], found[1::2], strict=True))


def run_located(
    spark: SparkSession,
    parts: Sequence[bytes],
    locations: Sequence[str],
    work: Callable[[bytes], R],
) -> list[R]:
    """Run the work on each part in a task of its own, which Spark starts at the location of the
    part if it can.
    """

    def run(rows: Iterable[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
        for number, part in rows:
            yield number, pickle.dumps(work(part))
        store_metrics()

    if not parts:
        return []
    check_workers(spark)
    gateway: Any = spark.sparkContext._gateway
    rows, places = gateway.jvm.java.util.ArrayList(), gateway.jvm.java.util.ArrayList()
    for number, (part, location) in enumerate(zip(parts, locations, strict=True)):
        rows.add(bytearray(pickle.dumps((number, part))))
        places.add(location)
    located = java_classes(spark).call("Executors", "located", spark._jsparkSession, rows, places)
    rdd: RDD[tuple[int, bytes]] = RDD(located, spark.sparkContext, CPickleSerializer())
    return [pickle.loads(result) for _, result in sorted(rdd.mapPartitions(run).collect())]


def run_on_executors(
    spark: SparkSession, chosen: Sequence[Executor], work: Callable[[list[Sample]], R]
) -> list[tuple[Executor, R]]:
    """Run work once on each executor, with the metrics of all its Python processes; an executor
    that is gone is left out.
    """

    def here(_: bytes) -> tuple[tuple[str, str], R]:
        return (socket.gethostname(), os.environ.get(FOLDERS, "")), work(executor_samples())

    found: dict[tuple[str, str], tuple[Executor, R]] = {}
    pending = list(chosen)
    for _ in range(_ROUNDS):
        results = run_located(
            spark, [b""] * len(pending), [each.location for each in pending], here
        )
        missed = []
        for executor, (place, result) in zip(pending, results, strict=True):
            if place in found:
                missed.append(executor)
            else:
                found[place] = executor, result
        pending = missed
        if not pending:
            break
    if pending:
        logger.warning(
            "No task ran on the executors %s: they are busy or gone.",
            ", ".join(e.id for e in pending),
        )
    return sorted(found.values(), key=lambda each: each[0])


def choose_locations(paths: Sequence[str], chosen: Sequence[Executor]) -> list[str]:
    """Return where each split should be read: always at the same host, or executor if there is one
    host only.

    The choice depends on the path and on the hosts alone (rendezvous hashing), so a host that comes
    or goes moves only the splits that it has.
    """
    hosts = sorted({executor.host for executor in chosen})
    if len(hosts) > 1:
        places = hosts
    else:
        places = [executor.location for executor in chosen]
    return [max(places, key=lambda place: _weight(path, place)) for path in paths]


def _weight(path: str, place: str) -> bytes:
    return hashlib.blake2b(f"{place}\n{path}".encode(), digest_size=8).digest()

"""Time of one run, by the clock and by the processor."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple


class Taken(NamedTuple):
    """The time of one run: by the clock, and CPU time of all threads, in which what else the
    machine does plays no part.
    """

    wall_s: float
    cpu_s: float


def taken(work: Callable[[], Any]) -> Taken:
    """Run it once."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return Taken(time.perf_counter() - wall, time.process_time() - cpu)


def best(runs: Sequence[Taken]) -> Taken:
    """The least of each: what disturbs a run only ever makes it longer."""
    return Taken(min(run.wall_s for run in runs), min(run.cpu_s for run in runs))

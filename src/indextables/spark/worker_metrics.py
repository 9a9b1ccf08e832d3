"""The metrics of the Python processes of an executor, which one of them can add up.

Each stores its own after a task, in the executor's folder for temporary files.
"""

from __future__ import annotations

import os
from pathlib import Path

from indextables.metrics import METRICS, Sample, read_samples, write_samples

FOLDERS = "SPARK_LOCAL_DIRS"
"""Where Spark names the folders of an executor for its Python processes."""
_METRICS = "indextables-metrics"


def store_metrics() -> None:
    """Store the metrics of this process of an executor for tasks that describe the executor."""
    folder = _metrics_folder()
    if folder is not None:
        write_samples(folder, METRICS.samples())


def executor_samples() -> list[Sample]:
    """Return the metrics of all processes of this executor, those that have ended included."""
    store_metrics()
    folder = _metrics_folder()
    if folder is None:
        return METRICS.samples()
    return read_samples(folder)


def _metrics_folder() -> Path | None:
    folders = os.environ.get(FOLDERS, "").split(",")
    if folders[0]:
        return Path(folders[0]) / _METRICS
    return None

"""What a process has done, in numbers: commits, checkpoints, loads, requests, cache hits, rows.

METRICS.samples()            every value: name, labels, number
METRICS.prometheus()         the same as text for a scraper (`indextables ui` serves it at /metrics)
to_opentelemetry()           the same as instruments of OpenTelemetry (extra `otel`)

Names, kinds and labels are declared below and documented in docs/how-to/monitor.md. Labels hold the
place of a table as it is shown everywhere, never a credential. A process that was forked begins
with its parent's numbers at that moment.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

PREFIX = "indextables_"
T = TypeVar("T")


class Family(Struct, frozen=True):
    """A metric by its name: what it counts, and which labels tell its values apart."""

    name: str
    help: str
    labels: tuple[str, ...] = ("table",)
    timer: bool = False
    """Whether it measures seconds: it has then a sum and a count."""


FAMILIES = {
    family.name: family
    for family in (
        Family("commits_total", "Versions committed."),
        Family(
            "commit_retries_total",
            "Attempts of commits after the first: another writer was quicker.",
        ),
        Family("commit_conflicts_total", "Commits given up because of what others committed."),
        Family(
            "checkpoint_seconds", "Time to write a checkpoint.", ("table", "format"), timer=True
        ),
        Family(
            "checkpoint_entries_total",
            "Files listed in checkpoints that were written.",
            ("table", "format"),
        ),
        Family(
            "checkpoint_bytes_total", "Bytes of checkpoints that were written.", ("table", "format")
        ),
        Family(
            "checkpoint_text_bytes_total",
            "The same as text, or in memory: before compression.",
            ("table", "format"),
        ),
        Family(
            "checkpoint_failures_total", "Checkpoints and clean-ups after a commit that failed."
        ),
        Family(
            "replica_bytes_total",
            "Bytes of states and manifests copied to checkpoint.replica.location.",
        ),
        Family(
            "replica_failures_total",
            "Copies to checkpoint.replica.location, and clean-ups there, that failed.",
        ),
        Family("load_seconds", "Time to read a table's log.", ("table", "base"), timer=True),
        Family(
            "log_files_cleaned_total",
            "Files of the log that were deleted, by kind.",
            ("table", "kind"),
        ),
        Family(
            "skips_recorded_total",
            "Splits that an operation could not process.",
            ("table", "operation"),
        ),
        Family(
            "cooldown_filtered_total", "Splits that a merge left alone because they failed lately."
        ),
        Family("splits_merged_total", "Splits that merges wrote into larger ones."),
        Family("splits_purged_total", "Splits that purges deleted."),
        Family("splits_opened_total", "Splits that were opened.", ()),
        Family(
            "split_cache_hits_total", "Parts of indexes found in the disk cache.", ("directory",)
        ),
        Family("split_cache_misses_total", "The same that had to be fetched.", ("directory",)),
        Family("rows_read_total", "Rows that scans and searches returned.", ()),
        Family(
            "store_seconds",
            "Requests to a store, and their time.",
            ("table", "store", "verb"),
            timer=True,
        ),
        Family(
            "store_failures_total", "Requests to a store that failed.", ("table", "store", "verb")
        ),
        Family(
            "store_bytes_total",
            "Bytes read from and written to a store.",
            ("table", "store", "verb"),
        ),
        Family("ingest_rows_total", "Rows that were committed for requests over HTTP."),
        Family("ingest_refused_rows_total", "Documents of such requests that were refused."),
        Family("ingest_commit_seconds", "Time to write a batch of requests.", timer=True),
        Family("ingest_busy_total", "Requests that were answered with status 429.", ()),
        Family(
            "log_cache_hits_total",
            "Log files and snapshots found in memory, by kind.",
            ("table", "kind"),
        ),
        Family("log_cache_misses_total", "The same that were not there.", ("table", "kind")),
    )
}
"""Every metric, by its name without the prefix."""

Labels = tuple[str, ...]


class Sample(Struct, frozen=True):
    """A value of a metric: its name, its labels, the number."""

    name: str
    labels: Mapping[str, str]
    value: float


Collector = Callable[[], Iterable[tuple[str, Labels, float]]]


class MetricRegistry:
    """The metrics of a process, safe under threads."""

    def __init__(self) -> None:
        self._values: dict[tuple[str, Labels], float] = {}
        self._counts: dict[tuple[str, Labels], int] = {}
        self._lock = threading.Lock()
        self.collectors: list[Collector] = []
        """Called when values are read, for values that are counted elsewhere."""

    def count(self, name: str, *labels: str, by: float = 1) -> None:
        """Add to a counter; the labels are in the order that its family declares."""
        with self._lock:
            key = (name, labels)
            self._values[key] = self._values.get(key, 0) + by

    def observe(self, name: str, seconds: float, *labels: str) -> None:
        """Add a measured time to a timer."""
        with self._lock:
            key = (name, labels)
            self._values[key] = self._values.get(key, 0.0) + seconds
            self._counts[key] = self._counts.get(key, 0) + 1

    @contextmanager
    def measure(self, name: str, *labels: str) -> Iterator[None]:
        """Measure what happens within, whether it succeeds or not."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self.observe(name, time.perf_counter() - began, *labels)

    def samples(self, *, table: str | None = None) -> list[Sample]:
        """Every value, sorted; of one table if it is named. A timer has two: its sum and its count."""
        return self._samples(FAMILIES, table)

    def _samples(self, families: Collection[str], table: str | None = None) -> list[Sample]:
        with self._lock:
            values = {key: value for key, value in self._values.items() if key[0] in families}
            counts = {key: count for key, count in self._counts.items() if key[0] in families}
        for collect in self.collectors:
            values.update(
                {(name, labels): value for name, labels, value in collect() if name in families}
            )
        found = []
        for (name, labels), value in sorted(values.items()):
            family = FAMILIES[name]
            named = dict(zip(family.labels, labels, strict=True))
            if table is None or named.get("table") == table:
                suffix = "_sum" if family.timer else ""
                found.append(Sample(PREFIX + name + suffix, named, value))
                if family.timer:
                    found.append(
                        Sample(f"{PREFIX}{name}_count", named, counts.get((name, labels), 0))
                    )
        return found

    def value(self, name: str, **labels: str) -> float:
        """The sum of the values that have these labels; the name is as `samples()` shows it."""
        chosen = (
            s.value
            for s in self.samples()
            if s.name == name and labels.items() <= dict(s.labels).items()
        )
        return sum(chosen)

    def prometheus(self) -> str:
        """The values as text in the form that Prometheus scrapes."""
        by_name: dict[str, list[Sample]] = {}
        for sample in self.samples():
            by_name.setdefault(sample.name, []).append(sample)
        lines: list[str] = []
        for name, family in FAMILIES.items():
            suffixes = ("_count", "_sum") if family.timer else ("",)
            samples = [s for suffix in suffixes for s in by_name.get(PREFIX + name + suffix, ())]
            if samples:
                lines.append(f"# HELP {PREFIX}{name} {family.help}")
                lines.append(f"# TYPE {PREFIX}{name} {'summary' if family.timer else 'counter'}")
                lines += [f"{s.name}{_label_text(s.labels)} {s.value:g}" for s in samples]
        return "\n".join(lines) + "\n"

    def renew_lock(self) -> None:
        """Replace the lock in a forked child, because a thread of the parent may hold it."""
        self._lock = threading.Lock()


def _label_text(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escape(value)}"' for name, value in labels.items()) + "}"


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def write_samples(folder: Path, samples: Sequence[Sample]) -> None:
    """Store the values of this process in a folder that several processes share, in place of those
    that it has stored.
    """
    content = msgspec.json.encode(samples)
    path = folder / f"{os.getpid()}.json"
    folder.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".part")
    partial.write_bytes(content)
    partial.replace(path)


def read_samples(folder: Path) -> list[Sample]:
    """Return the sums of the values that processes have stored in a folder."""
    sums: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
    for path in folder.glob("*.json"):
        for sample in msgspec.json.decode(path.read_bytes(), type=list[Sample]):
            key = (sample.name, tuple(sorted(sample.labels.items())))
            sums[key] = sums.get(key, 0.0) + sample.value
    return [Sample(name, dict(labels), value) for (name, labels), value in sorted(sums.items())]


METRICS = MetricRegistry()
"""The metrics of this process."""
os.register_at_fork(after_in_child=METRICS.renew_lock)


class Section(Struct):
    """A part of a search's work: how often it was entered, and for how long."""

    calls: int = 0
    seconds: float = 0.0
    shortest: float = math.inf
    longest: float = 0.0


_UNMEASURED = nullcontext()


class Profiler:
    """Where the time of scans and searches of this process goes, while it is on; off, it costs a
    look at a flag.

    Sections lie within one another: `test_rows` contains the `read_rows` of what it tests.
    """

    def __init__(self) -> None:
        self.enabled = False
        self._sections: dict[str, Section] = {}
        self._lock = threading.Lock()

    def enable(self) -> None:
        """Begin to measure, from nothing."""
        self.reset()
        self.enabled = True

    def disable(self) -> None:
        """Measure no more; what was measured stays."""
        self.enabled = False

    def sections(self) -> dict[str, Section]:
        """What was measured, by section."""
        with self._lock:
            return {
                name: msgspec.structs.replace(section)
                for name, section in sorted(self._sections.items())
            }

    def reset(self) -> dict[str, Section]:
        """Forget what was measured, and return it."""
        with self._lock:
            known, self._sections = self._sections, {}
        return dict(sorted(known.items()))

    def section(self, name: str) -> AbstractContextManager[None]:
        """Measure what happens within."""
        if self.enabled:
            return self._measure(name)
        return _UNMEASURED

    @contextmanager
    def _measure(self, name: str) -> Iterator[None]:
        began = time.perf_counter()
        try:
            yield
        finally:
            self._add(name, time.perf_counter() - began)

    def steps(self, name: str, items: Iterator[T]) -> Iterator[T]:
        """The same items; what it takes to come to each of them is measured, not what is done with
        it.
        """
        if self.enabled:
            return self._measured_steps(name, items)
        return items

    def _measured_steps(self, name: str, items: Iterator[T]) -> Iterator[T]:
        while True:
            with self.section(name):
                try:
                    item = next(items)
                except StopIteration:
                    return
            yield item

    def _add(self, name: str, seconds: float) -> None:
        with self._lock:
            section = self._sections.setdefault(name, Section())
            section.calls += 1
            section.seconds += seconds
            section.shortest = min(section.shortest, seconds)
            section.longest = max(section.longest, seconds)


PROFILER = Profiler()
"""The profiler of this process; the statement ENABLE INDEXTABLES PROFILER turns it on."""


class SplitsSkipped:
    """How many splits the scans and searches of this process looked at, and why they left others
    alone.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Begin anew."""
        self.considered = self.by_partition = self.by_statistics = self.left = 0

    def add(self, *, considered: int, by_partition: int, by_statistics: int, left: int) -> None:
        """Count one plan."""
        self.considered += considered
        self.by_partition += by_partition
        self.by_statistics += by_statistics
        self.left += left


SKIPPED = SplitsSkipped()
"""Close the indexes of this process."""


def to_opentelemetry(meter_provider: Any = None, *, registry: MetricRegistry = METRICS) -> None:
    """Offer every metric to OpenTelemetry, as observable counters of a meter named `indextables`.

    Nothing is exported unless the application has set up an exporter. This needs the extra `otel`.

    Args:
        meter_provider: The provider of the application. None takes the provider of the process.
        registry: The metrics to offer.

    Raises:
        ModuleNotFoundError: OpenTelemetry is not installed.

    Example:
        indextables.metrics.to_opentelemetry()
    """
    try:
        otel: Any = import_module("opentelemetry.metrics")  # an extra: loaded only by this function
    except ModuleNotFoundError as error:
        message = "OpenTelemetry is not installed. Install it: pip install 'indextables[otel]'."
        raise ModuleNotFoundError(message, name=error.name) from error
    meter = otel.get_meter("indextables", meter_provider=meter_provider)
    for family in FAMILIES.values():
        for suffix in ("_sum", "_count") if family.timer else ("",):
            name = PREFIX + family.name + suffix

            def observe(_options: Any, name: str = name, family: str = family.name) -> list[Any]:
                chosen = [s for s in registry._samples({family}) if s.name == name]
                return [otel.Observation(s.value, dict(s.labels)) for s in chosen]

            unit = "s" if suffix == "_sum" else "1"
            meter.create_observable_counter(
                name, callbacks=[observe], unit=unit, description=family.help
            )

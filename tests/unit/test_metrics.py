"""What a process counts of itself, seen by each of the doors: the table, SQL, a scraper,
OpenTelemetry, the log.
"""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from starlette.testclient import TestClient

from indextables import Table, sql
from indextables.errors import ConflictError
from indextables.metrics import FAMILIES, METRICS, PREFIX, MetricRegistry, Sample, to_opentelemetry
from indextables.web.explorer import Explorer, Limits
from indextables.web.service import application
from indextables.web.warehouse import Warehouse
from tests.support.rows import ids, rows, table_of

LINE = re.compile(r'^([a-z_]+)(?:\{((?:[a-z_]+="(?:[^"\\]|\\.)*",?)*)\})? (\S+)$')
MONITOR = Path(__file__).parents[2] / "docs/how-to/monitor.md"


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Four appends with a checkpoint at the second, a merge, a conflict, a skip, a search."""
    table = table_of(
        tmp_path / "table", appends=4, partitioned=True, options={"checkpoint.interval": 2}
    )
    stale = Table.open(table.path)
    table.merge(target_size="100M")
    with pytest.raises(ConflictError), stale.transaction() as tx:
        tx.remove(stale.files().to_pylist()[0]["path"])
    table.admin.record_skipped_file(table.refresh().files().to_pylist()[0]["path"], "for the test")
    Table.open(table.path).invalidate_cache()
    assert len(ids(Table.open(table.path))) == 40
    return table


def test_a_table_tells_what_was_done_with_it(table: Table) -> None:
    figures = table.metrics()
    value = figures.value
    assert (
        value("indextables_commits_total") == 6 and value("indextables_commit_conflicts_total") == 1
    )
    assert value("indextables_checkpoint_seconds_count", format="avro-state") >= 2
    assert (
        value("indextables_checkpoint_entries_total") > 0
        and value("indextables_checkpoint_bytes_total") > 0
    )
    assert value("indextables_load_seconds_count", base="avro-state") >= 1
    assert (
        value("indextables_splits_merged_total") == 12
        and value("indextables_skips_recorded_total", operation="merge") == 1
    )
    assert value("indextables_store_seconds_count", store="local", verb="put_if_absent") >= 6
    assert value("indextables_store_bytes_total", verb="get") > 0
    assert value("indextables_log_cache_hits_total") > 0 and value("indextables_no_such_thing") == 0
    assert (
        "indextables_commits_total" in str(figures)
        and figures.to_dict()["table_path"] == table.path
    )
    untouched = table_of(Path(table.path).parent / "other", appends=1)
    assert untouched.metrics().value("indextables_commits_total") == 1


def test_sql_tells_what_was_asked_of_the_store(table: Table) -> None:
    every = sql("DESCRIBE INDEXTABLES STORAGE STATS").to_pylist()
    stats = {row["verb"]: row for row in every if row["table_path"] == table.path}
    assert stats["put_if_absent"]["requests"] >= 6 and stats["put_if_absent"]["bytes"] > 0
    assert stats["list"]["requests"] > 0 and all(
        row["failures"] == 0 and row["store"] == "local" for row in stats.values()
    )


def test_a_scraper_reads_the_metrics_of_the_page(table: Table) -> None:
    client = TestClient(
        application(
            Explorer(Warehouse([table.path]), Limits()), "secret", names=frozenset({"testserver"})
        )
    )
    answer = client.get("/secret/metrics")
    assert answer.status_code == 200 and answer.headers["content-type"].startswith(
        "text/plain; version=0.0.4"
    )
    assert client.get("/metrics").status_code == 403
    samples = [LINE.match(line) for line in answer.text.splitlines() if not line.startswith("#")]
    assert all(samples) and len(samples) > 20
    by_name = {(m[1], table.path in (m[2] or "")): float(m[3]) for m in samples if m is not None}
    assert by_name["indextables_commits_total", True] == 6
    named = re.findall(r"`(indextables_[a-z_]+)", MONITOR.read_text(encoding="utf-8"))
    known = {
        PREFIX + name + suffix
        for name, f in FAMILIES.items()
        for suffix in (("", "_sum", "_count") if f.timer else ("",))
    }
    assert len(named) > 10 and set(named) <= known
    typed = {line.split(" ")[2] for line in answer.text.splitlines() if line.startswith("# TYPE")}
    assert {"indextables_checkpoint_seconds", "indextables_store_bytes_total"} <= typed


def test_opentelemetry_sees_the_same(table: Table) -> None:
    reader = InMemoryMetricReader()
    to_opentelemetry(MeterProvider([reader]))
    data = reader.get_metrics_data()
    assert data is not None
    (scope,) = data.resource_metrics[0].scope_metrics
    points: dict[str, list[Any]] = {
        metric.name: list(metric.data.data_points) for metric in scope.metrics
    }
    ours = [
        p
        for p in points["indextables_commits_total"]
        if (p.attributes or {}).get("table") == table.path
    ]
    assert [getattr(p, "value", None) for p in ours] == [6]


def test_opentelemetry_makes_each_value_once() -> None:
    registry, reader, made = MetricRegistry(), InMemoryMetricReader(), Counter[str]()
    for name, family in FAMILIES.items():
        for number in range(3):
            registry.count(name, *[f"{label}-{number}" for label in family.labels])

    class Counted(MetricRegistry):
        def _samples(self, families: Collection[str], table: str | None = None) -> list[Sample]:
            samples = registry._samples(families, table)
            made.update(sample.name for sample in samples)
            return samples

    to_opentelemetry(MeterProvider([reader]), registry=Counted())
    data = reader.get_metrics_data()
    assert data is not None
    (scope,) = data.resource_metrics[0].scope_metrics
    assert {metric.name for metric in scope.metrics} == {
        sample.name for sample in registry.samples()
    }
    assert max(made.values()) <= 6  # a sum and a count are made together


def test_labels_cannot_break_the_text() -> None:
    registry = MetricRegistry()
    registry.count("commits_total", 'a"b\\c\nd')
    (line,) = [line for line in registry.prometheus().splitlines() if not line.startswith("#")]
    assert LINE.match(line) and line.endswith("} 1")


def test_the_log_says_what_happened(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="indextables"):
        table = table_of(tmp_path / "t", appends=3, options={"checkpoint.interval": 2})
        Table.open(table.path).invalidate_cache()
        Table.open(table.path)
        table.admin.record_skipped_file(table.files().to_pylist()[0]["path"], "broken")
        table.append(rows([100]))
        table.merge(target_size="100M")
    for said in (
        "created a checkpoint of version 2",
        "loaded version 3",
        "skipped splits/",
        "left 1 splits alone",
        "merged ",
    ):
        assert said in caplog.text, said
    assert all(record.name.startswith("indextables.") for record in caplog.records)
    assert METRICS.value("indextables_cooldown_filtered_total", table=table.path) == 1

"""Realistic log lines from a seed: the data of the demo, the benchmarks and the examples."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa

SCHEMA = pa.schema(
    [
        pa.field("ts", pa.timestamp("us", tz="UTC"), nullable=False),
        pa.field("day", pa.date32(), nullable=False),
        pa.field("level", pa.string(), nullable=False),
        pa.field("service", pa.string(), nullable=False),
        pa.field("host", pa.string(), nullable=False),
        pa.field("client_ip", pa.string()),
        pa.field("status", pa.int32()),
        pa.field("latency_ms", pa.float64()),
        pa.field("message", pa.string(), nullable=False),
    ]
)
OPTIONS = {"indexing.typemap.message": "text", "indexing.typemap.client_ip": "ip"}
FIRST_DAY = datetime(2026, 11, 1, tzinfo=UTC)

_LEVELS = np.array(["DEBUG", "INFO", "WARN", "ERROR"])
_SERVICES = np.array(["gateway", "checkout", "search", "auth", "billing", "inventory", "mailer", "reports"])
_TEMPLATES = {
    "DEBUG": [
        "cache {hit} for key user:{n} in {ms} ms",
        "acquired connection {n} from pool {service} after {ms} ms",
        "parsed {n} rows of request {id}",
    ],
    "INFO": [
        "{method} {url} completed with {status} in {ms} ms for request {id}",
        "user {n} logged in from session {id}",
        "job {id} processed {n} records in {ms} ms",
        "published event order.created for order {n}",
    ],
    "WARN": [
        "slow query took {ms} ms on table orders, request {id}",
        "retrying call to {service} after attempt {small}, request {id}",
        "queue depth {n} above threshold for {service}",
        "disk usage at {percent} percent on volume data{small}",
    ],
    "ERROR": [
        "timeout while waiting for upstream {service} after {ms} ms, request {id}",
        "connection refused by {service} on port {port}, request {id}",
        "failed to charge card for order {n}: gateway rejected the payment",
        "unhandled exception in handler {url}: null pointer at frame {small}",
        "deadlock detected between transactions {n} and {id}",
    ],
}
_URLS = ["/api/orders", "/api/cart", "/api/search", "/login", "/health", "/api/invoices", "/api/users"]


def log_lines(rows: int, *, seed: int = 7, days: int = 3, batch_rows: int = 50_000) -> Iterator[pa.RecordBatch]:
    """Batches of log lines in the order of time, the same for the same seed."""
    rng = np.random.default_rng(seed)
    start_us = int(FIRST_DAY.timestamp() * 1_000_000)
    step_us = timedelta(days=days) / timedelta(microseconds=1) / max(rows, 1)
    for first in range(0, rows, batch_rows):
        count = min(batch_rows, rows - first)
        times = start_us + ((np.arange(first, first + count) + rng.random(count)) * step_us).astype(np.int64)
        yield _batch(rng, times)


def _batch(rng: np.random.Generator, times: np.ndarray) -> pa.RecordBatch:
    count = len(times)
    levels = _LEVELS[rng.choice(4, count, p=[0.2, 0.66, 0.1, 0.04])]
    services = _SERVICES[rng.choice(8, count, p=[0.3, 0.2, 0.15, 0.1, 0.08, 0.07, 0.05, 0.05])]
    latency = np.round(rng.lognormal(3.2, 1.1, count), 2)
    status = np.where(
        levels == "ERROR", rng.choice([500, 502, 503, 504], count), rng.choice([200, 200, 200, 201, 304, 404], count)
    )
    messages = _messages(rng, levels, services, latency, status)
    octets = rng.integers(1, 255, (count, 3))
    ips = [f"10.{a}.{b}.{c}" for a, b, c in octets.tolist()]
    stamps = pa.array(times, pa.timestamp("us", tz="UTC"))
    return pa.RecordBatch.from_arrays(
        [
            stamps,
            stamps.cast(pa.date32()),
            pa.array(levels, pa.string()),
            pa.array(services, pa.string()),
            pa.array(
                [f"{s}-{h:02d}" for s, h in zip(services.tolist(), rng.integers(1, 13, count).tolist(), strict=True)]
            ),
            pa.array(ips),
            pa.array(status.astype(np.int32)),
            pa.array(latency),
            pa.array(messages),
        ],
        schema=SCHEMA,
    )


def _messages(
    rng: np.random.Generator, levels: np.ndarray, services: np.ndarray, latency: np.ndarray, status: np.ndarray
) -> list[str]:
    count = len(levels)
    numbers = rng.integers(1, 1_000_000, count)
    ids = rng.integers(0, 1 << 48, count)
    choices = rng.integers(0, 60, count)
    out = []
    columns = (levels, services, latency, status, numbers, ids, choices)
    for level, service, ms, code, n, ident, choice in zip(*(c.tolist() for c in columns), strict=True):
        template = _TEMPLATES[level][choice % len(_TEMPLATES[level])]
        out.append(
            template.format(
                hit="hit" if choice % 3 else "miss",
                n=n,
                ms=ms,
                id=f"{ident:012x}",
                service=service,
                method="POST" if choice % 4 == 0 else "GET",
                url=_URLS[choice % len(_URLS)],
                status=code,
                small=choice % 5,
                percent=70 + choice % 30,
                port=8000 + choice % 50,
            )
        )
    return out

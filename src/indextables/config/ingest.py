"""Settings of ingestion over HTTP: how requests become commits, and how documents become rows."""

from __future__ import annotations

from indextables.config.registry import SettingsGroup, setting
from indextables.config.values import duration_ms, integer, size, text, word_of

STRICT, JSON, EVOLVE = "strict", "json", "evolve"
"""What happens to fields of a document that the table has no column for."""


class IngestSettings(SettingsGroup, frozen=True):
    """How `indextables serve --write` writes."""

    max_rows: int = setting(
        "ingest.maxRows",
        integer(1),
        50_000,
        "Number of waiting rows from which a commit does not wait for more.",
    )
    max_bytes: int = setting(
        "ingest.maxBytes",
        size(1024),
        32 << 20,
        "Bytes of waiting requests from which a commit does not wait for more.",
    )
    max_delay_ms: int = setting(
        "ingest.maxDelayMs",
        duration_ms(),
        500,
        "How long a request waits for others to share its commit.",
    )
    max_queued_bytes: int = setting(
        "ingest.maxQueuedBytes",
        size(1024),
        128 << 20,
        "Bytes of unpacked requests that a process holds; it answers further requests with status 429.",
    )
    max_body_bytes: int = setting(
        "ingest.maxBodyBytes",
        size(1024),
        16 << 20,
        "Maximum bytes of one unpacked request.",
    )
    timeout_ms: int = setting(
        "ingest.timeoutMs",
        duration_ms(1),
        30_000,
        "How long a client may take to send a request, and a commit to be acknowledged.",
    )
    schema: str = setting(
        "ingest.schema",
        word_of(STRICT, JSON, EVOLVE),
        STRICT,
        "What happens to fields without a column: the document is refused (strict), they go to "
        "ingest.jsonColumn (json), or they become columns (evolve).",
        in_table=True,
    )
    json_column: str = setting(
        "ingest.jsonColumn",
        text(),
        "",
        "Column that holds fields without a column if ingest.schema is json.",
        in_table=True,
        names_columns=True,
    )

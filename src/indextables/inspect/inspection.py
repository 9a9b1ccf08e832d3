"""`table.inspect`: what a table and its splits are made of, and what happened to it. Nothing is
changed, and no row is read.

It says what the bytes of splits are spent on, and fetches their indexes ahead of a search.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from indextables.config.log import CompactionSettings, StateWriteSettings
from indextables.config.upkeep import MergeSettings
from indextables.errors import InvalidInputError
from indextables.handle import TableHandle
from indextables.log import history as log_history
from indextables.log.checkpoint.checkpointer import StateReport, state_report
from indextables.log.live_files import pruned_files
from indextables.log.transaction_log import TransactionLog
from indextables.metrics import METRICS
from indextables.model.actions import skipped_table
from indextables.model.arguments import text as argument_text
from indextables.model.arguments import whole_number
from indextables.model.calls import checked_calls
from indextables.model.predicate import Where
from indextables.model.report import Report
from indextables.model.schema import find_column, is_atomic
from indextables.model.schema_registry import without_registry
from indextables.model.snapshot import Snapshot
from indextables.operations import clustering
from indextables.query.plan import plan_scan
from indextables.query.task import ScanTask
from indextables.splits.format.source import open_source
from indextables.splits.index.analyzers import tokens_table
from indextables.splits.query.fields import QueryFields
from indextables.splits.read.split_description import component_sizes
from indextables.splits.read.table_split import SplitEntry

COMPONENT_SCHEMA = pa.schema(
    [
        pa.field("split_path", pa.string(), nullable=False),
        pa.field("partition_values", pa.string()),
        pa.field("component", pa.string(), nullable=False),
        pa.field("field", pa.string()),
        pa.field("size_bytes", pa.int64(), nullable=False),
    ]
)


def sizes_of_components(task: ScanTask) -> pa.Table:
    """The components of every split of a plan, a row each; partition values are JSON."""

    def look(entry: SplitEntry) -> list[tuple[str, str, str, str | None, int]]:
        source = open_source(task.store, entry.path, size=entry.size, ranges=task.plan.ranges)
        values = msgspec.json.encode(entry.partition_values).decode()
        components = component_sizes(source, footer_start=entry.footer_start)
        names = task.plan.names
        return [
            (
                entry.path,
                values,
                size.component,
                None if size.field is None else names.logical_name(size.field),
                size.size_bytes,
            )
            for size in components
        ]

    rows = [
        dict(zip(COMPONENT_SCHEMA.names, row, strict=True))
        for rows in task.each(look)
        for row in rows
    ]
    return pa.Table.from_pylist(rows, schema=COMPONENT_SCHEMA)


PARTITIONS = pa.schema(
    [
        pa.field("partition", pa.map_(pa.string(), pa.string())),
        pa.field("splits", pa.int64()),
        pa.field("rows", pa.int64()),
        pa.field("size_bytes", pa.int64()),
    ]
)
CLUSTERING = pa.schema(
    [
        pa.field("column", pa.string()),
        *(pa.field(name, pa.int64()) for name in ("splits", "without_bounds", "alone")),
        pa.field("depth", pa.float64()),
        pa.field("max_depth", pa.int64()),
    ]
)


class DetailReport(Report, frozen=True):
    """What a table is: identity, place, partitioning, size, properties and protocol, at the version
    that is shown.
    """

    format: str
    id: str
    name: str | None
    description: str | None
    location: str
    created_at: datetime | None
    last_modified: datetime | None
    partition_columns: Sequence[str]
    num_files: int
    num_records: int
    size_in_bytes: int
    properties: Mapping[str, str]
    min_reader_version: int
    min_writer_version: int
    table_features: Sequence[str]
    version: int


class MetricsReport(Report, frozen=True):
    """What a process has done with a table, in numbers."""

    table_path: str
    metrics: tuple[dict[str, Any], ...]

    def value(self, metric: str, **labels: str) -> float:
        """The sum of the values of a metric that have these labels."""
        rows = (row for row in self.metrics if row["metric"] == metric)
        return float(sum(row["value"] for row in rows if labels.items() <= row["labels"].items()))


@checked_calls
class Inspection:
    """What can be looked at in a table, by the version that it shows."""

    def __init__(self, table: TableHandle) -> None:
        self.table = table

    @property
    def log(self) -> TransactionLog:
        """The log of the table."""
        return self.table.log

    @property
    def snapshot(self) -> Snapshot:
        """The content of the version that the table shows."""
        return self.table.snapshot

    def files(self, *, where: Where | None = None) -> pa.Table:
        """The live splits, a row each; with `where` only those that may hold a matching row. As
        `Table.files`.
        """
        predicate = self.table.bind_physical(where)
        if predicate is not None:
            return pruned_files(self.snapshot, predicate)
        return self.snapshot.all_files

    def history(self, *, limit: int | None = None) -> pa.Table:
        """What was committed, newest first, at most `limit` versions. As `Table.history`."""
        return log_history.history(
            self.log, limit=None if limit is None else whole_number("limit", limit)
        )

    def state(self) -> StateReport:
        """What the newest state or checkpoint holds, or the one that a pinned version is read from.
        As `Table.state`.
        """
        settings = self.table.settings
        return state_report(
            self.snapshot if self.table.is_pinned else self.log.reload(),
            store=self.log.store,
            compaction=settings.group(CompactionSettings),
            writing=settings.group(StateWriteSettings),
        )

    def detail(self) -> DetailReport:
        """What the table is, in one report: identity, place, partitioning, size, properties and
        protocol.

        Rows of splits that do not say how many count as none. `last_modified` is when the version
        was committed.
        """
        header, files = self.snapshot.header, self.snapshot.files(columns=["size", "num_records"])
        metadata, protocol = without_registry(self.snapshot.metadata), header.protocol
        features = {*(protocol.reader_features or ()), *(protocol.writer_features or ())}
        return DetailReport(
            format=metadata.format.provider,
            id=metadata.id,
            name=metadata.name,
            description=metadata.description,
            location=self.table.path,
            created_at=_moment(metadata.created_time),
            last_modified=_moment(header.timestamp_ms),
            partition_columns=tuple(metadata.partition_columns or ()),
            num_files=files.num_rows,
            num_records=pc.sum(files.column("num_records")).as_py() or 0,
            size_in_bytes=pc.sum(files.column("size")).as_py() or 0,
            properties=dict(metadata.configuration or {}),
            min_reader_version=protocol.min_reader_version,
            min_writer_version=protocol.min_writer_version,
            table_features=tuple(sorted(features)),
            version=self.snapshot.version,
        )

    def metrics(self) -> MetricsReport:
        """What this process has done with this table, in numbers. As `Table.metrics`."""
        samples = METRICS.samples(table=self.table.path)
        rows = tuple(
            {
                "metric": s.name,
                "labels": {k: v for k, v in s.labels.items() if k != "table"},
                "value": s.value,
            }
            for s in samples
        )
        return MetricsReport(self.table.path, rows)

    def partitions(self) -> pa.Table:
        """Each partition with its splits, rows and bytes, in the order of their values.

        A table that is not partitioned is one partition. Rows of splits that do not say how many
        count as none.
        """
        names, files = self.table.partition_columns, self.snapshot.all_files
        physical = self.table.names.columns(names)
        totals: dict[tuple[str | None, ...], list[int]] = {}
        columns = (
            files.column(name).to_pylist() for name in ("partition_values", "num_records", "size")
        )
        for values, records, size in zip(*columns, strict=True):
            partition = dict(values or [])
            total = totals.setdefault(tuple(partition.get(name) for name in physical), [0, 0, 0])
            for place, count in enumerate((1, records or 0, size)):
                total[place] += count
        return pa.Table.from_pylist(
            [
                {"partition": list(zip(names, key, strict=True))}
                | dict(zip(PARTITIONS.names[1:], totals[key], strict=True))
                for key in sorted(totals, key=in_order)
            ],
            schema=PARTITIONS,
        )

    def clustering(self, columns: Sequence[str] | None = None) -> pa.Table:
        """How well the splits are separated by each of `columns`, by their bounds in the log.

        A row per column: `splits`, those `without_bounds`, those `alone` (no other overlaps with
        them), and `depth`, the mean number of splits that may hold a value of a split's range: 1.0
        is perfect. Without `columns`, those that merges sort by (`merge.clusterBy`), or every
        column that has bounds.
        """
        partitions = self.table.partition_columns
        body = self.table.logical_columns.stored
        sorts = self.table.settings.group(MergeSettings).cluster_by
        chosen = clustering.sort_columns(body, columns if columns is not None else sorts)
        every = columns is None and not chosen
        names = [field.name for field in body if is_atomic(field.type)] if every else chosen
        known = self.table.names
        rows = clustering.overview(
            self.snapshot.all_files, known.columns(names), known.physical, known.columns(partitions)
        )
        shown = [{**row, "column": known.logical_name(row["column"])} for row in rows]
        return pa.Table.from_pylist(
            [row for row in shown if not every or row["without_bounds"] < row["splits"]],
            schema=CLUSTERING,
        )

    def component_sizes(self, *, where: Where | None = None) -> pa.Table:
        """How many bytes each component of each split takes; `where` chooses splits. As
        `Table.component_sizes`.
        """
        table = self.table
        plan = plan_scan(table, where=where)
        return sizes_of_components(ScanTask(plan, self.log.store))

    def analyze(self, column: str, text: str) -> pa.Table:
        """The terms that a `text` becomes in the index of a `column`, a row each: term, position,
        start and end.

        Raises InvalidInputError for a column that is not there, or has no terms.

            t.inspect.analyze("message", "Gateway timeout")
        """
        table = self.table
        fields = QueryFields.of(table.logical_columns, table.search_settings)
        mapping = fields.column(find_column(table.schema, argument_text("column", column)))
        if not mapping.tokenizer:
            message = f"Column {mapping.name!r} is of kind {mapping.shown_kind}, which has no terms of text."
            raise InvalidInputError(
                message, hint="Name a column of kind text, string or json.", column=mapping.name
            )
        return tokens_table(argument_text("text", text), mapping)

    def skipped_files(self) -> pa.Table:
        """Splits that an operation could not process: why, how often, and until when they are left
        alone.
        """
        return skipped_table(self.snapshot.header.skips, now_ms=self.log.now_ms())


def _moment(milliseconds: int | None) -> datetime | None:
    if milliseconds is None:
        return None
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


def in_order(values: Sequence[str | None]) -> list[tuple[bool, float, str]]:
    """The key that sorts partitions: numbers by their value, texts as they are, no value last."""
    return [(value is None, _number(value), value or "") for value in values]


def _number(value: str | None) -> float:
    try:
        return float(value or "")
    except ValueError:
        return 0.0

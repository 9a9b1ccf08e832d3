"""Rebuild a lost log from the splits, or read it back from a replica.

Splits record their schema, statistics, partition and mapping. They do not record which of them were
removed before the log was lost. A split that was merged or rewritten into an existing one is left
out; one that was overwritten or dropped and not yet purged comes back. `salvage.py` repairs a
damaged log.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

import pyarrow as pa
from msgspec import Struct

from indextables.config.indexing import DEFAULT_OPERATOR
from indextables.errors import (
    CorruptTableError,
    NotFoundError,
    RefusedError,
    TableNotFoundError,
    UnsupportedError,
)
from indextables.log.create import FirstVersion, create_table
from indextables.log.log_files import list_log
from indextables.log.replica import Replica
from indextables.log.transaction_log import TransactionLog
from indextables.model import protocol as protocols
from indextables.model.actions import AddAction, MetadataAction
from indextables.model.column_names import DEFAULT_KEY, NAME_KEY
from indextables.model.conflicts import Operation
from indextables.model.report import Progress, Report, silent
from indextables.model.schema import (
    merge_schemas,
    normalize,
    schema_differences,
    schema_from_json,
    schema_to_json,
)
from indextables.model.snapshot import Snapshot
from indextables.operations.jobs import DRY_RUN, NO_ACTION, SUCCESS
from indextables.operations.purge import own_files
from indextables.operations.tags import lost_tags
from indextables.pools import SPLITS
from indextables.splits.format.section_table import path_mark
from indextables.splits.format.source import open_source
from indextables.splits.index.mapping import settings_of
from indextables.splits.index.table_schema import TableSchema
from indextables.splits.read.split_description import SplitDescription, describe_split
from indextables.storage.location import partition_values
from indextables.storage.store import ObjectInfo, Store


class LeftOut(Struct, frozen=True):
    """A split that is not in the new log, and why."""

    path: str
    reason: str


class RepairReport(Report, frozen=True):
    """Result of a repair. `source_version` is None if there was no readable log."""

    source_path: str
    target_path: str
    source_version: int | None
    total_splits: int
    valid_splits: int
    missing_splits: int
    status: str
    message: str = ""
    left_out: tuple[LeftOut, ...] = ()
    missing_versions: tuple[int, ...] = ()
    """Versions that are lost or unreadable; every other one was kept."""


class DescribedSplit(Struct, frozen=True):
    """A split in the store and its description of itself."""

    path: str
    modified_ms: int
    description: SplitDescription

    @property
    def replaces(self) -> tuple[str, ...]:
        """Hashes of the splits whose rows it holds."""
        if self.description.origin:
            return self.description.origin.replaces
        return ()


class TableLayout(Struct, frozen=True):
    """The table that splits form."""

    schema_json: str
    partition_columns: tuple[str, ...]
    configuration: Mapping[str, str]
    splits: tuple[DescribedSplit, ...]

    def values_of(self, split: DescribedSplit) -> dict[str, str | None] | None:
        """Return the partition of a split: as recorded in it, or as its folders spell it; None if
        it fits no partition.
        """
        origin = split.description.origin
        if origin:
            values = dict(origin.partition_values)
        else:
            values = partition_values(split.path)
        if set(values) != set(self.partition_columns):
            return None
        return {name: values[name] for name in self.partition_columns}


def layout_of(splits: Sequence[DescribedSplit], *, url: str) -> TableLayout:
    """Return the layout of the table that these splits, the oldest first, form. The newest takes
    precedence.
    """
    if not splits:
        raise TableNotFoundError(f"None of the splits at {url} can be read.", path=url)
    newest_first = [*reversed(splits)]
    origin = next(
        (split.description.origin for split in newest_first if split.description.origin), None
    )
    if origin:
        columns = origin.partition_columns
    else:
        columns = tuple(partition_values(newest_first[0].path))
    schema = _schema(newest_first)
    missing = [pa.field(name, pa.string()) for name in columns if name not in schema.names]
    schema = pa.schema([*schema, *missing])
    body = TableSchema(schema, columns).stored
    mapping = next(
        (split.description.mapping for split in newest_first if split.description.mapping), None
    )
    return TableLayout(
        schema_json=schema_to_json(schema),
        partition_columns=columns,
        configuration={**(settings_of(mapping, body) if mapping else {}), **_operator(splits)},
        splits=tuple(splits),
    )


def _operator(splits: Sequence[DescribedSplit]) -> dict[str, str]:
    """Return the default operator: AND if another engine wrote a split of the table."""
    if any(split.description.info is None for split in splits):
        return {DEFAULT_OPERATOR: "and"}
    return {}


def _schema(newest_first: Sequence[DescribedSplit]) -> pa.Schema:
    """Return every column of every split, in the columns and order of a split that records the
    table's schema.
    """
    texts = dict.fromkeys(
        split.description.origin.schema for split in newest_first if split.description.origin
    )
    schemas = [schema_from_json(text) for text in texts]
    if schemas:
        schema = schemas[0]
    else:
        schema = normalize(newest_first[0].description.schema)
    if _were_altered(texts):
        return schema  # what an older split has and the newest has not was dropped
    for other in schemas[1:]:
        schema = merge_schemas(schema, other)
    for split in newest_first:
        if split.description.origin is None:
            names = {name.lower() for name in schema.names}
            more = [f for f in normalize(split.description.schema) if f.name.lower() not in names]
            if more:
                schema = merge_schemas(schema, pa.schema([*schema, *more]))
            else:
                schema = schema
    return schema


def _were_altered(texts: Iterable[str]) -> bool:
    """Return whether schemas, newest first, show columns that were renamed, dropped, widened or
    given a default.
    """
    schemas = list(texts)
    if any(NAME_KEY in text or DEFAULT_KEY in text for text in schemas):
        return True
    newest = schema_from_json(schemas[0]) if schemas else None
    return newest is not None and any(
        difference.kind == "type"
        for text in schemas[1:]
        for difference in schema_differences(newest, schema_from_json(text))
    )


class RebuildPlan(Report, frozen=True):
    """The content of the new log."""

    table_path: str
    total_splits: int
    valid_splits: int
    left_out: tuple[LeftOut, ...]
    unreadable_splits: int
    layout: TableLayout
    adds: tuple[AddAction, ...]
    hidden: ClassVar[tuple[str, ...]] = ("layout", "adds")

    def report(self, status: str) -> RepairReport:
        """Return the counts."""
        replaced = len(self.left_out) - self.unreadable_splits
        return RepairReport(
            source_path=self.table_path,
            target_path=self.table_path,
            source_version=None,
            total_splits=self.total_splits,
            valid_splits=self.valid_splits,
            missing_splits=self.unreadable_splits,
            status=status,
            message=f"{self.valid_splits} splits make up the table; {replaced} had been replaced by others. "
            "Splits that had been overwritten or dropped, and not yet purged, are part of it again.",
            left_out=self.left_out,
        )

    def preview(self) -> RepairReport:
        """Return the report of a dry run."""
        return self.report(DRY_RUN)


def heal(log: TransactionLog, *, dry_run: bool) -> RepairReport:
    """Repair a readable log: rewrite a damaged checkpoint next to it."""
    snapshot, damage = log.fresh(), log.damage()
    if damage is not None:
        protocols.check_writable(snapshot.header.protocol, path=log.store.url)
    message = "The table can be opened, and its newest checkpoint matches the versions. verify() checks the rest."
    status = NO_ACTION
    if damage is not None:
        status = DRY_RUN if dry_run else SUCCESS
        if dry_run:
            version = log.checkpoint_version(snapshot)
        else:
            version = log.checkpoint().version
        message = f"{damage.message} The checkpoint {'is' if dry_run else 'was'} rewritten at version {version}."
    files = snapshot.files(columns=["path"]).num_rows
    return RepairReport(
        source_path=log.store.url,
        target_path=log.store.url,
        source_version=snapshot.version,
        total_splits=files,
        valid_splits=files,
        missing_splits=0,
        status=status,
        message=message,
    )


class RecoveryPlan(Report, frozen=True):
    """The table according to its replica."""

    table_path: str
    replica_path: str
    snapshot: Snapshot
    total_splits: int
    unnamed_splits: int
    """Splits that the replica does not name: replaced, dropped, or written after its newest
    version.
    """
    left_out: tuple[LeftOut, ...]
    lost_tags: tuple[str, ...]
    """Tags of versions that no longer exist."""
    hidden: ClassVar[tuple[str, ...]] = ("snapshot",)

    def report(self, status: str, version: int) -> RepairReport:
        """Return the counts."""
        missing = len(self.left_out)
        message = (
            f"Version {self.snapshot.version} by the replica at {self.replica_path}, goes on as version {version}. "
            f"{self.unnamed_splits} splits that are there are not part of it: they were replaced or dropped, or are of "
            "versions that are lost."
        )
        named = ", ".join(
            f"{name!r} (version {self.snapshot.header.tags[name]})" for name in self.lost_tags
        )
        if named:
            message += f" The tags {named} name versions that are lost: untag(name) gives them up, and lets purges run."
        return RepairReport(
            source_path=self.replica_path,
            target_path=self.table_path,
            source_version=self.snapshot.version,
            total_splits=self.total_splits,
            valid_splits=self.total_splits - missing,
            missing_splits=missing,
            status=status,
            message=message,
            left_out=self.left_out,
        )

    def preview(self) -> RepairReport:
        """Return the report of a dry run."""
        return self.report(DRY_RUN, self.snapshot.version + 1)


def plan_recovery(
    log: TransactionLog, replica: Replica, *, is_readable: bool
) -> RecoveryPlan | None:
    """Read and verify what a replica holds of a table. Returns None if the log is readable and the
    replica is not newer.

    Changes nothing. Raises RefusedError if the replica is of another table, or older than what is
    lost.
    """
    settings, newest = log.settings, list_log(log.store).newest
    plans = []
    try:
        candidates = replica.recover(log.reader, settings.read, settings.state_read)
    except RefusedError:
        if is_readable:
            return None
        raise
    if is_readable and all(found.snapshot.version <= newest for found in candidates):
        return None
    sizes = {info.path: info.size for info in own_files(log.store.list())}
    for found in candidates:
        files = found.snapshot.files(columns=["path", "size"])
        named = dict(
            zip(files.column("path").to_pylist(), files.column("size").to_pylist(), strict=True)
        )
        left_out = [
            LeftOut(p, "it is missing, or has another size")
            for p, size in named.items()
            if sizes.get(p) != size
        ]
        if len(left_out) < len(named) or (found.is_known and not named):
            unnamed = sum(1 for path in sizes if path.endswith(".split") and path not in named)
            lost = tuple(lost_tags(log, found.snapshot.header.tags))
            plans.append(
                RecoveryPlan(
                    log.store.url,
                    found.url,
                    found.snapshot,
                    len(named),
                    unnamed,
                    tuple(left_out),
                    lost,
                )
            )
    if len(plans) != 1:
        if not plans:
            why = "none of the splits that it names is there"
        else:
            why = "several tables in it have splits there"
        raise RefusedError(
            f"The replica at {replica.url} is not used for {log.store.url}: {why}.",
            hint="Name the folder where the splits of the table lie, and its replica. Nothing was changed.",
            path=log.store.url,
        )
    return plans[0]


def recover(planned: RecoveryPlan, log: TransactionLog) -> RepairReport:
    """Write the state of a plan into the log, next to the damaged files, and open the table."""
    version = log.adopt(planned.snapshot).version
    log.reload()
    return planned.report(SUCCESS, version)


def plan_rebuild(
    log: TransactionLog, *, parallelism: int, progress: Progress = silent
) -> RebuildPlan:
    """Read every split below a folder. Changes nothing."""
    store = log.store
    if not list_log(store).is_empty:
        raise RefusedError(
            f"There is a log at {store.url}; it is rebuilt only where it is lost.",
            hint="Table.repair(path) mends it in place, and Table.repair(path, at='another place') writes a clean copy.",
            path=store.url,
        )
    files = [info for info in own_files(store.list()) if info.path.endswith(".split")]
    if not files:
        raise TableNotFoundError(
            f"There are no splits at {store.url} to rebuild a table from.", path=store.url
        )
    splits, unreadable = _describe_splits(store, files, parallelism, progress)
    marks = {mark for split in splits for mark in split.replaces}
    replaced = [split for split in splits if path_mark(split.path) in marks]
    layout = layout_of([split for split in splits if split not in replaced], url=store.url)
    left_out = [
        *unreadable,
        *(LeftOut(split.path, "its rows are in another split") for split in replaced),
    ]
    adds = []
    for split in layout.splits:
        values = layout.values_of(split)
        if values is None:
            unreadable.append(
                LeftOut(split.path, "it belongs to a table with other partition columns")
            )
            left_out.append(unreadable[-1])
        else:
            adds.append(split.description.add_action(values, modification_time=split.modified_ms))
    return RebuildPlan(
        store.url, len(files), len(adds), tuple(left_out), len(unreadable), layout, tuple(adds)
    )


def rebuild(planned: RebuildPlan, log: TransactionLog, *, engine_info: str) -> RepairReport:
    """Write the log: one version with everything, and its state."""
    layout = planned.layout
    metadata = MetadataAction(
        id=log.new_id(),
        schema_string=layout.schema_json,
        partition_columns=layout.partition_columns,
        configuration=dict(layout.configuration),
        created_time=log.now_ms(),
    )
    # A name that was dropped must not be given to another column as it is: in doubt the feature
    # stays.
    doubtful = (
        len(
            {split.description.origin.schema for split in layout.splits if split.description.origin}
        )
        > 1
    )
    features = protocols.EVOLUTION if doubtful or _were_altered([layout.schema_json]) else ()
    first = FirstVersion(
        operation=Operation.REPAIR,
        protocol=protocols.add_features(protocols.NEW_TABLE_PROTOCOL, *features),
        actions=planned.adds,
        parameters={"splits": planned.valid_splits},
    )
    create_table(log, metadata, exist_ok=False, engine_info=engine_info, first=first)
    return planned.report(SUCCESS)


def splits_described(
    store: Store, files: Sequence[ObjectInfo], parallelism: int
) -> list[DescribedSplit]:
    """Return the description of each readable split, the oldest first."""
    return _describe_splits(store, files, parallelism, silent)[0]


def _describe_splits(
    store: Store, files: Sequence[ObjectInfo], parallelism: int, progress: Progress
) -> tuple[list[DescribedSplit], list[LeftOut]]:
    """Return the description of each split, the oldest first, and the unreadable splits."""

    def look(info: ObjectInfo) -> DescribedSplit | LeftOut:
        try:
            description = describe_split(open_source(store, info.path, size=info.size))
            return DescribedSplit(info.path, info.last_modified_ms or 0, description)
        except (CorruptTableError, UnsupportedError, NotFoundError) as error:
            return LeftOut(info.path, error.message)

    splits: list[DescribedSplit] = []
    unreadable: list[LeftOut] = []
    for done, split in enumerate(SPLITS.each(look, files, parallelism=parallelism), start=1):
        if isinstance(split, DescribedSplit):
            splits.append(split)
        else:
            unreadable.append(split)
        progress(done, len(files), "splits")
    return sorted(splits, key=lambda split: (split.modified_ms, split.path)), unreadable

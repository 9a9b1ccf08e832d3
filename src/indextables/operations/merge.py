"""Merge small splits into large ones: plan, execute the groups, commit them in batches.

A merge changes no row. Its commit names the replaced splits; if one of them is no longer live its
group is dropped, and the others are committed. Of two merges of the same splits only one can
succeed.

A group is small splits of one partition, oldest first, up to the target size; they become one new
split. A `MergeTask` is picklable and opens the store where it runs. A source that cannot be read is
left out and reported with the reason.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from itertools import groupby
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct, field

from indextables.config import Settings
from indextables.config.log import SkipSettings
from indextables.config.upkeep import MIN_SOURCES, MIN_TARGET_BYTES, MergeSettings
from indextables.errors import (
    CommitUnknownError,
    ConflictError,
    CorruptTableError,
    IndexTablesError,
    InvalidInputError,
    SchemaMismatchError,
    StorageError,
    UnsupportedError,
)
from indextables.handle import ENGINE_INFO, TableHandle
from indextables.log.live_files import every_file, files_of_matching_partitions
from indextables.log.transaction import Changes, SkipRequest
from indextables.log.transaction_log import TransactionLog
from indextables.metrics import METRICS
from indextables.model.actions import MAX_LONG, AddAction, paths_in_cooldown, without_cooling
from indextables.model.arguments import byte_size, whole_number
from indextables.model.conflicts import Operation, layout
from indextables.model.predicate import Predicate, Where
from indextables.model.report import Progress, Report, pluralize, silent, was
from indextables.model.snapshot import Snapshot
from indextables.operations import clustering
from indextables.operations.companion_merge import MergeOfCompanion
from indextables.operations.jobs import DRY_RUN, NO_ACTION, SUCCESS, Execute, collect, in_threads
from indextables.operations.rewrite import (
    ListedSplit,
    Naming,
    SourceSplit,
    SplitRewriter,
    discard,
    source_splits,
    to_be_rewritten,
)
from indextables.splits.format.section_table import MAX_ROWS
from indextables.splits.format.source import open_source
from indextables.splits.index.live_indexing import Disputes, live_indexing
from indextables.splits.index.table_schema import TableSchema
from indextables.splits.read.foreign import ForeignReader
from indextables.splits.read.table_split import open_split, row_mask
from indextables.splits.write.merge import MergeSource
from indextables.storage.spec import StoreSpec, open_table_store
from indextables.storage.store import Store

logger = logging.getLogger(__name__)


class MergeReport(Report, frozen=True):
    """Result of a merge. `version` is the last committed one; groups may be committed in several
    versions.
    """

    table_path: str
    status: str
    merged_files: int
    merge_groups: int
    original_size_bytes: int
    merged_size_bytes: int
    skipped_files: int
    version: int | None
    message: str
    sources: tuple[dict[str, Any], ...] = ()
    """In a dry run, the splits that would be merged."""
    skipped: tuple[dict[str, Any], ...] = ()
    """Splits that could not be read, with the reasons. They stay in the table and are in cooldown.
    """
    dropped: tuple[dict[str, Any], ...] = ()
    """Groups dropped because another writer had changed or removed their splits."""


class MergeGroup(Struct, frozen=True):
    """Splits of one partition that become one."""

    partition_values: dict[str, str | None]
    sources: tuple[SourceSplit, ...]

    @property
    def size_bytes(self) -> int:
        """Total size of the sources."""
        return sum(source.size for source in self.sources)

    @property
    def num_records(self) -> int:
        """Total rows of the sources, if recorded."""
        return sum(source.num_records or 0 for source in self.sources)


class MergeBounds(Struct, frozen=True):
    """The validated options of a merge."""

    target_bytes: int
    max_source_splits: int
    skip_threshold: float
    max_dest_splits: int | None = None
    deleted_share: float = 1.0
    order_by: tuple[str, ...] = ()
    """Sort columns. Large overlapping splits are sorted again only with `resort`."""
    resort: bool = False

    def __post_init__(self) -> None:
        whole_number("max_source_splits", self.max_source_splits, low=None)
        if self.max_dest_splits is not None:
            whole_number("max_dest_splits", self.max_dest_splits, low=None)
        if self.target_bytes < MIN_TARGET_BYTES:
            raise InvalidInputError(
                f"A target size of {self.target_bytes} bytes is too small.",
                hint=f"Give at least {MIN_TARGET_BYTES} bytes (1M).",
                target_size=self.target_bytes,
            )
        if self.max_source_splits < MIN_SOURCES:
            message = f"{self.max_source_splits} source splits cannot be merged; at least {MIN_SOURCES} are needed."
            raise InvalidInputError(message, max_source_splits=self.max_source_splits)
        if self.max_dest_splits is not None and self.max_dest_splits < 1:
            message = f"A merge into {self.max_dest_splits} splits makes no sense."
            raise InvalidInputError(
                message, hint="Give 1 or more.", max_dest_splits=self.max_dest_splits
            )

    @classmethod
    def of(
        cls,
        settings: MergeSettings,
        *,
        target_bytes: int | None = None,
        max_source_splits: int | None = None,
        max_dest_splits: int | None = None,
        order_by: str | Sequence[str] | None = None,
    ) -> MergeBounds:
        """Return the settings with the options of this merge applied."""
        columns = settings.cluster_by if order_by is None else order_by
        return cls(
            target_bytes=settings.target_bytes if target_bytes is None else target_bytes,
            max_source_splits=settings.max_source_splits
            if max_source_splits is None
            else max_source_splits,
            skip_threshold=settings.skip_threshold,
            max_dest_splits=max_dest_splits,
            deleted_share=settings.deleted_share,
            order_by=(columns,) if isinstance(columns, str) else tuple(columns),
            resort=bool(order_by),
        )


class MergePlan(Report, frozen=True):
    """The groups to merge, in order."""

    table_path: str
    version: int
    target_bytes: int
    where: Predicate | None
    groups: tuple[MergeGroup, ...]
    groups_left: int
    """Number of groups that `max_dest_splits` leaves for later."""
    cooling_files: int
    """Splits left out because an earlier merge failed to read them."""
    read: Snapshot
    decided: tuple[str, ...] = ()
    """Columns that splits index in several ways, and that follow the table's configuration after
    the merge.
    """
    order_by: tuple[str, ...] = ()
    """Columns by which the rows of new splits are sorted."""
    hidden: ClassVar[tuple[str, ...]] = ("read", "decided")

    def details(self) -> dict[str, list[dict[str, Any]]]:
        """Return the groups and the splits of each."""
        groups = [
            {
                "group": number,
                "partition_values": dict(group.partition_values),
                "splits": len(group.sources),
                "num_records": group.num_records,
                "size_bytes": group.size_bytes,
            }
            for number, group in enumerate(self.groups, start=1)
        ]
        sources = [
            {
                "group": number,
                "path": source.path,
                "size": source.size,
                "num_records": source.num_records,
            }
            for number, group in enumerate(self.groups, start=1)
            for source in group.sources
        ]
        return {"groups": groups, "sources": sources}

    def left_alone(self) -> str:
        """Return a note on the splits in cooldown, if there are any."""
        if not self.cooling_files:
            return ""
        where = f"DESCRIBE INDEXTABLES SKIPPED FILES '{self.table_path}'"
        return f" {pluralize(self.cooling_files, 'split')} left alone, because reading failed lately: {where} names them."

    def preview(self) -> MergeReport:
        """Return the report of a dry run."""
        files = sum(len(group.sources) for group in self.groups)
        size = sum(group.size_bytes for group in self.groups)
        if self.order_by:
            how = f"sorted by {', '.join(self.order_by)} in {len(self.groups)} group(s)"
        else:
            how = "merged into"
        how = how if self.order_by else f"{how} {len(self.groups)}"
        if files:
            message = f"{files} splits would be {how}."
        else:
            message = "There is nothing to merge."
        message += self.left_alone()
        return MergeReport(
            table_path=self.table_path,
            status=DRY_RUN if files else NO_ACTION,
            merged_files=files,
            merge_groups=len(self.groups),
            original_size_bytes=size,
            merged_size_bytes=size,
            skipped_files=self.cooling_files,
            version=None,
            message=message,
            sources=tuple(self.details()["sources"]),
        )


def _log_cooldowns(snapshot: Snapshot, url: str, now_ms: int) -> None:
    """Log each split that is in cooldown."""
    skips = snapshot.header.skips
    for path, until in sorted(paths_in_cooldown(skips, now_ms=now_ms).items()):
        text = "%s of %s is left alone until %s: %s"
        logger.debug(text, path, url, datetime.fromtimestamp(until / 1000, UTC), skips[path].reason)


def plan(
    snapshot: Snapshot,
    *,
    url: str,
    bounds: MergeBounds,
    now_ms: int,
    where: Predicate | None = None,
    only_wrong: bool = False,
    cooling: bool = False,
) -> MergePlan:
    """Group the small splits of a snapshot; those in cooldown only with `cooling`.

    `only_wrong` selects only splits with an index that contradicts the table's decision, or of
    another engine.
    """
    if where is None:
        chosen = every_file(snapshot)
    else:
        chosen = files_of_matching_partitions(where)(snapshot)
    disputes = live_indexing(snapshot).disputes
    registry = snapshot.schema_registry
    if only_wrong:
        chosen = chosen.filter(pa.array(to_be_rewritten(chosen, registry, disputes), pa.bool_()))
    if cooling:
        eligible = chosen
    else:
        eligible = without_cooling(chosen, snapshot.header.skips, now_ms=now_ms)
    _log_cooldowns(snapshot, url, now_ms)
    columns = TableSchema.of(snapshot.metadata)
    order = clustering.sort_columns(columns.stored, bounds.order_by)
    if order and bounds.resort:
        worthwhile = eligible
    else:
        worthwhile = _worthwhile(eligible, registry, bounds, disputes)
    listed = source_splits(worthwhile, registry, disputes)
    if order:
        extents = clustering.extents(
            worthwhile, order[0], columns.schema, columns.partition_columns
        )
    else:
        extents = None
    groups = sorted(
        _groups(listed, bounds, extents),
        key=lambda group: (group.sources[0].modification_time, group.sources[0].path),
    )
    return MergePlan(
        table_path=url,
        version=snapshot.version,
        target_bytes=bounds.target_bytes,
        where=where,
        groups=tuple(groups[: bounds.max_dest_splits]),
        groups_left=len(groups[bounds.max_dest_splits :])
        if bounds.max_dest_splits is not None
        else 0,
        cooling_files=chosen.num_rows - eligible.num_rows,
        read=snapshot,
        decided=() if disputes is None else tuple(sorted(disputes.right)),
        order_by=order,
    )


def _worthwhile(
    files: pa.Table, registry: Mapping[str, str], bounds: MergeBounds, disputes: Disputes | None
) -> pa.Table:
    """Return the splits that are worth merging: small, of another engine, wrongly indexed, or with
    many deleted rows.
    """
    # Compared as whole numbers: a size that no float can hold would end the comparison.
    limit = min(math.ceil(bounds.skip_threshold * bounds.target_bytes), MAX_LONG)
    small = pc.less(files.column("size"), pa.scalar(limit, pa.int64()))
    to_rewrite = pa.array(to_be_rewritten(files, registry, disputes), pa.bool_())
    worn = _exceed_deleted_share(files, bounds)
    return files.filter(pc.or_(worn, pc.or_(small, pa.chunked_array([to_rewrite]))))


def _exceed_deleted_share(files: pa.Table, bounds: MergeBounds) -> pa.ChunkedArray:
    deleted = pc.fill_null(files.column("deleted_records"), 0)
    stored = pc.add(deleted, pc.fill_null(files.column("num_records"), 0))
    return pc.greater(
        deleted, pc.multiply(pc.cast(stored, pa.float64(), safe=False), bounds.deleted_share)
    )


def plan_if_due(
    snapshot: Snapshot, bounds: MergeBounds, *, url: str, min_splits: int, now_ms: int
) -> tuple[MergeGroup, ...]:
    """Return the groups of an automatic merge, or none if it is not worth its cost: fewer than
    `min_splits` splits can be merged, and none has lost more rows than
    `merge.deletedShareThreshold` allows.
    """
    files = snapshot.files(columns=["num_records", "deleted_records"])
    has_worn = bool(pc.any(_exceed_deleted_share(files, bounds)).as_py())
    if files.num_rows < min_splits and not has_worn:
        return ()
    groups = plan(snapshot, url=url, bounds=bounds, now_ms=now_ms).groups
    sources = [source for group in groups for source in group.sources]
    worn = (source.deleted_share > bounds.deleted_share for source in sources)
    return groups if len(sources) >= min_splits or any(worn) else ()


def _groups(
    listed: Sequence[ListedSplit],
    bounds: MergeBounds,
    extents: Mapping[str, clustering.Extent] | None,
) -> Iterator[MergeGroup]:
    limit = bounds.skip_threshold * bounds.target_bytes
    for (values, _), entries in groupby(
        sorted(listed, key=lambda f: f[1].side), key=lambda f: (f[0], f[1].side)
    ):
        sources = [source for _, source in entries]
        alone = {
            source.path
            for source in sources
            if source.foreign or source.deleted_share > bounds.deleted_share
        }
        if extents is not None:
            for group in _in_order(sources, bounds, extents):
                if len(group) >= MIN_SOURCES or group[0].path in alone:
                    yield MergeGroup(dict(values), tuple(group))
            continue
        for source in sources:
            if source.path in alone and source.size >= limit:
                yield MergeGroup(dict(values), (source,))
        for group in _pack([source for source in sources if source.size < limit], bounds):
            # A split of another engine, or with many deleted rows, is rewritten even if it stands
            # alone.
            if len(group) >= MIN_SOURCES or group[0].path in alone:
                yield MergeGroup(dict(values), tuple(group))


def _in_order(
    sources: Sequence[SourceSplit], bounds: MergeBounds, extents: Mapping[str, clustering.Extent]
) -> Iterator[list[SourceSplit]]:
    """Return sources that are adjacent by the first sort column, overlapping ones together."""
    limit = bounds.skip_threshold * bounds.target_bytes
    layout_of = [
        clustering.Extended(
            s.size,
            s.num_records or 0,
            extents.get(s.path),
            s.size >= limit and not s.foreign and s.deleted_share <= bounds.deleted_share,
        )
        for s in sources
    ]
    groups = clustering.pack_groups(
        layout_of,
        target_bytes=bounds.target_bytes,
        limit_bytes=bounds.target_bytes
        * (1 if bounds.max_dest_splits is not None else clustering.FAN),
        limit_splits=bounds.max_source_splits,
        limit_rows=MAX_ROWS,
    )
    return ([sources[number] for number in group] for group in groups)


def _pack(sources: Sequence[SourceSplit], bounds: MergeBounds) -> Iterator[list[SourceSplit]]:
    """Divide sources in order into groups below the size limit."""
    group: list[SourceSplit] = []
    size = rows = 0
    for source in sources:
        full = (
            size + source.size > bounds.target_bytes or rows + (source.num_records or 0) > MAX_ROWS
        )
        if group and (full or len(group) >= bounds.max_source_splits):
            yield group
            group, size, rows = [], 0, 0
        group.append(source)
        size += source.size
        rows += source.num_records or 0
    if group:
        yield group


class FailedSource(Struct, frozen=True):
    """A split that could not be read, and why."""

    path: str
    reason: str


class MergeOutcome(Struct, frozen=True):
    """Result for a group. No entry and no error: too few of its splits could be read, or they have
    no rows.
    """

    group: MergeGroup
    merged: tuple[SourceSplit, ...] = ()
    added: tuple[AddAction, ...] = ()
    failed: tuple[FailedSource, ...] = ()
    error: IndexTablesError | None = None


class MergeTask(Struct, frozen=True):
    """Everything a worker needs to merge a group."""

    rewriter: SplitRewriter
    group: MergeGroup
    order_by: tuple[str, ...] = ()
    target_bytes: int | None = None
    """Size at which a sorted merge starts the next split; None for a single one."""

    def run(self, *, store: Store | None = None, naming: Naming | None = None) -> MergeOutcome:
        """Merge the group. Errors are part of the outcome; uploaded files are deleted then."""
        merging = _GroupMerge(
            self, store or open_table_store(self.rewriter.spec), naming or Naming()
        )
        try:
            return merging.run()
        except IndexTablesError as error:
            return MergeOutcome(self.group, failed=tuple(merging.failed), error=error)


class _GroupMerge:
    """One execution of a task: the remaining sources, and those that were left out."""

    def __init__(self, task: MergeTask, store: Store, naming: Naming) -> None:
        self.failed: list[FailedSource] = []
        self._task = task
        self._store = store
        self._naming = naming
        self._doubted: set[str] = set()

    def run(self) -> MergeOutcome:
        sources = list(self._task.group.sources)
        enough = min(MIN_SOURCES, len(sources))
        # A split that is rewritten even alone is rewritten, too, where its neighbours could not be
        # read.
        while len(sources) >= enough or any(source.foreign for source in sources):
            try:
                added = self._merge(sources)
                return MergeOutcome(self._task.group, tuple(sources), added, tuple(self.failed))
            except (
                CorruptTableError,
                UnsupportedError,
                SchemaMismatchError,
                StorageError,
            ) as error:
                culprit = next(
                    (source for source in sources if source.path == error.context.get("path")), None
                )
                if culprit is None or not self._is_to_blame(culprit, error):
                    raise
                if isinstance(error, StorageError) and culprit.path not in self._doubted:
                    self._doubted.add(culprit.path)
                    continue
                self.failed.append(FailedSource(culprit.path, error.message))
                sources.remove(culprit)
        return MergeOutcome(self._task.group, failed=tuple(self.failed))

    def _is_to_blame(self, source: SourceSplit, error: IndexTablesError) -> bool:
        """Return whether the split is bad rather than the store: a store that fails for several
        splits is down.
        """
        return not isinstance(error, StorageError) or self._doubted <= {source.path}

    def _merge(self, sources: Sequence[SourceSplit]) -> tuple[AddAction, ...]:
        task, merges = self._task, max(source.num_merge_ops for source in sources) + 1
        with ExitStack() as resources:
            opened = [(source, self._open(source, resources)) for source in sources]
            if task.order_by:
                return task.rewriter.rewrite_in_order(
                    opened,
                    task.group.partition_values,
                    order=task.order_by,
                    target_bytes=task.target_bytes,
                    store=self._store,
                    naming=self._naming,
                    num_merge_ops=merges,
                )
            added = task.rewriter.rewrite(
                opened,
                task.group.partition_values,
                store=self._store,
                naming=self._naming,
                num_merge_ops=merges,
                data_change=False,
            )
            if added is None:
                return ()
            return (added,)

    def _open(self, source: SourceSplit, resources: ExitStack) -> MergeSource:
        place = open_source(self._store, source.path, size=source.size)
        body = self._task.rewriter.body
        reader = open_split(
            place, body, footer_start=source.footer_start, num_records=source.stored_records
        )
        if isinstance(reader, ForeignReader):
            resources.enter_context(closing(reader))
        mask = row_mask(self._store, source.path, source.vector, source.deleted, reader.num_rows)
        return MergeSource(reader, None if mask is None else mask.alive)


def tasks(planned: MergePlan, *, spec: StoreSpec, settings: Settings) -> list[MergeTask]:
    """Return the plan's groups as tasks."""
    rewriter = SplitRewriter.of(
        planned.read.metadata, spec=spec, settings=settings, decided=planned.decided
    )
    return [
        MergeTask(
            rewriter,
            group,
            planned.order_by,
            planned.target_bytes if group.size_bytes > planned.target_bytes else None,
        )
        for group in planned.groups
    ]


def run(
    planned: MergePlan,
    log: TransactionLog,
    *,
    spec: StoreSpec,
    settings: Settings,
    execute: Execute[MergeTask, MergeOutcome] | None = None,
    progress: Progress = silent,
    engine_info: str | None = None,
) -> MergeReport:
    """Merge the groups of a plan in batches with one commit each.

    If the store fails within a batch, the finished groups are committed before the error is raised.
    """
    chosen = settings.group(MergeSettings)
    work = tasks(planned, spec=spec, settings=settings)
    merging = _Merge(planned, log, settings.group(SkipSettings).cooldown_hours, engine_info)
    executing = execute or in_threads(log.store, parallelism=chosen.parallelism)
    for at in range(0, len(work), chosen.batch_groups):
        outcomes: list[MergeOutcome] = []
        try:
            collect(
                executing(work[at : at + chosen.batch_groups]),
                outcomes,
                lambda: progress(at + len(outcomes), len(work), "groups"),  # noqa: B023 - called in this round
            )
        except BaseException:
            discard(log.store, _paths(outcomes))
            raise
        merging.finish(outcomes)
    report, url = merging.report(), log.store.url
    METRICS.count("splits_merged_total", url, by=report.merged_files)
    METRICS.count("cooldown_filtered_total", url, by=planned.cooling_files)
    if planned.cooling_files:
        logger.info(
            "a merge of %s left %d splits alone that failed lately", url, planned.cooling_files
        )
    logger.info(
        "merged %d splits of %s in %d groups", report.merged_files, url, report.merge_groups
    )
    return report


class _Merge(Struct):
    """A running merge: what was committed, skipped and dropped so far."""

    planned: MergePlan
    log: TransactionLog
    cooldown_hours: float
    engine_info: str | None
    done: list[MergeOutcome] = field(default_factory=list)
    dropped: list[dict[str, Any]] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    version: int | None = None

    def finish(self, outcomes: Sequence[MergeOutcome]) -> None:
        """Commit a batch; raise afterwards if the store failed for one of its groups."""
        self._commit([outcome for outcome in outcomes if outcome.merged or outcome.failed])
        failure = next((outcome.error for outcome in outcomes if outcome.error is not None), None)
        if failure is not None:
            raise failure

    def _commit(self, outcomes: Sequence[MergeOutcome]) -> None:
        read, live = self.planned.read, _live(self.log.fresh())
        while outcomes:
            try:
                committed = self.log.commit(read, self._changes(outcomes, live))
            except ConflictError as conflict:
                read = self.log.fresh()
                live = _live(read)
                outcomes = self._without_conflicts(outcomes, read, live, conflict)
                continue
            except CommitUnknownError:
                raise
            except IndexTablesError:
                self._discard(outcomes)
                raise
            self.version = committed.version if committed.version is not None else self.version
            self.done += [outcome for outcome in outcomes if outcome.merged]
            self.skipped |= {
                failed.path: failed.reason for failed in _report_failure(outcomes, live)
            }
            return

    def _changes(self, outcomes: Sequence[MergeOutcome], live: Container[str]) -> Changes:
        sources = [source for outcome in outcomes for source in outcome.merged]
        skips = [
            SkipRequest(f.path, f.reason, "merge", self.cooldown_hours)
            for f in _report_failure(outcomes, live)
        ]
        parameters: dict[str, Any] = (
            {} if self.planned.where is None else {"where": str(self.planned.where)}
        )
        if self.planned.order_by:
            parameters["orderBy"] = list(self.planned.order_by)
        return Changes(
            Operation.MERGE if sources else Operation.SKIP,
            adds=[added for outcome in outcomes for added in outcome.added],
            removes=[source.path for source in sources],
            vectors={source.path: source.vector for source in sources},
            removes_change_data=False,
            skips=skips,
            parameters={"targetSize": self.planned.target_bytes, **parameters},
            metrics={
                "numMergeGroups": sum(1 for o in outcomes if o.merged),
                "numSkippedFiles": len(skips),
            },
            engine_info=self.engine_info,
        )

    def _without_conflicts(
        self,
        outcomes: Sequence[MergeOutcome],
        newest: Snapshot,
        live: Container[str],
        conflict: ConflictError,
    ) -> list[MergeOutcome]:
        """Return the groups whose splits are all live with the rows that were merged, or none if
        that was not the conflict.
        """
        vectors = _vectors(newest)
        current = [
            outcome
            for outcome in outcomes
            if all(
                source.path in live and vectors[source.path] == source.vector
                for source in outcome.merged
            )
        ]
        if len(current) == len(outcomes) or layout(newest.metadata) != layout(
            self.planned.read.metadata
        ):
            current = []
        gone = [outcome for outcome in outcomes if outcome not in current]
        self._discard(gone)
        for outcome in gone:
            context = {
                "partition_values": outcome.group.partition_values,
                "splits": len(outcome.merged),
            }
            self.dropped.append({**context, "reason": conflict.message})
        return current

    def _discard(self, outcomes: Iterable[MergeOutcome]) -> None:
        self.log.discard(_paths(outcomes), since=self.planned.read.version)

    def report(self) -> MergeReport:
        """Return the report."""
        files = sum(len(outcome.merged) for outcome in self.done)
        made = [added for outcome in self.done for added in outcome.added]
        if self.planned.order_by:
            how = f", sorted by {', '.join(self.planned.order_by)}"
        else:
            how = ""
        if self.skipped:
            nothing = "Nothing was merged."
        else:
            nothing = "There was nothing to merge."
        if files:
            message = f"{files} splits were merged into {len(made)}{how}."
        else:
            message = nothing
        if self.skipped:
            left, reason = len(self.skipped), next(iter(self.skipped.values()))
            first = ": " if left == 1 else "; the first: "
            message += (
                f" {pluralize(left, 'split')} could not be read and {was(left)} left{first}{reason}"
            )
        if self.dropped:
            message += f" {len(self.dropped)} group(s) gave way to other writers."
        if self.planned.groups_left:
            message += f" {self.planned.groups_left} group(s) are left."
        message += self.planned.left_alone()
        return MergeReport(
            table_path=self.planned.table_path,
            status=SUCCESS if self.done else NO_ACTION,
            merged_files=files,
            merge_groups=len(self.done),
            original_size_bytes=sum(
                source.size for outcome in self.done for source in outcome.merged
            ),
            merged_size_bytes=sum(added.size for added in made),
            skipped_files=self.planned.cooling_files + len(self.skipped),
            version=self.version,
            message=message,
            skipped=tuple(
                {"path": path, "reason": reason} for path, reason in self.skipped.items()
            ),
            dropped=tuple(self.dropped),
        )


def _paths(outcomes: Iterable[MergeOutcome]) -> list[str]:
    return [added.path for outcome in outcomes for added in outcome.added]


def _live(snapshot: Snapshot) -> set[str]:
    return set(snapshot.files(columns=["path"]).column("path").to_pylist())


def _vectors(snapshot: Snapshot) -> dict[str, str | None]:
    files = snapshot.files(columns=["path", "deletion_vector"])
    return dict(
        zip(
            files.column("path").to_pylist(),
            files.column("deletion_vector").to_pylist(),
            strict=True,
        )
    )


def _report_failure(outcomes: Iterable[MergeOutcome], live: Container[str]) -> list[FailedSource]:
    """Return the splits that could not be read, without those that are no longer part of the table."""
    return [failed for outcome in outcomes for failed in outcome.failed if failed.path in live]


def merge(
    table: TableHandle,
    *,
    target_size: int | str | None,
    where: Where | None,
    max_dest_splits: int | None,
    max_source_splits: int | None,
    order_by: str | Sequence[str] | None,
    rewrite: bool,
    dry_run: bool,
    progress: Progress,
    execute: Execute[MergeTask, MergeOutcome] | None,
) -> MergeReport:
    """Merge small splits into larger ones. See `Table.merge`."""
    table.check_maintainable()
    newest = table.read_newest()
    if table.companion is not None:
        size = None if target_size is None else byte_size("target_size", target_size)
        wants_rows = order_by is not None or rewrite
        return _merge_companion(
            table, size, where, wants_rows=wants_rows, dry_run=dry_run, progress=progress
        )
    bounds = MergeBounds.of(
        newest.physical_settings.group(MergeSettings),
        target_bytes=None if target_size is None else byte_size("target_size", target_size),
        max_source_splits=max_source_splits,
        max_dest_splits=max_dest_splits,
        order_by=None if order_by is None else _physical_order(newest, order_by),
    )
    planned = plan(
        newest.snapshot,
        url=table.path,
        bounds=bounds,
        now_ms=table.log.now_ms(),
        where=newest.bind_partitions(where),
        only_wrong=rewrite,
        cooling=rewrite,  # a split that failed lately can be whole again; the report of a rewrite lists what is left
    )
    if dry_run or not planned.groups:
        return planned.preview()
    report = run(
        planned,
        table.log,
        spec=newest.spec,
        settings=newest.search_settings,
        execute=execute,
        progress=progress,
        engine_info=ENGINE_INFO,
    )
    return table.show_newest_after(report)


def _merge_companion(
    table: TableHandle,
    target_bytes: int | None,
    where: Where | None,
    *,
    wants_rows: bool,
    dry_run: bool,
    progress: Progress,
) -> MergeReport:
    """Merge the small splits of a companion, which has no rows to sort or to index again."""
    if wants_rows:
        raise UnsupportedError(
            f"{table.path} is a companion: a merge stacks its indexes and cannot sort or rewrite.",
            hint="Leave out order_by and rewrite.",
            path=table.path,
        )
    bytes_wanted = target_bytes or table.settings.group(MergeSettings).target_bytes
    work = MergeOfCompanion(table, bytes_wanted, where)
    added: list[AddAction] = []
    version = None
    if not dry_run:
        added, version = work.run(progress)
    status, message = work.outcome(added, dry_run=dry_run)
    merged = [split.action for group in work.groups for split in group]
    report = MergeReport(
        table_path=table.path,
        status=status,
        merged_files=len(merged),
        merge_groups=len(work.groups),
        original_size_bytes=sum(action.size for action in merged),
        merged_size_bytes=sum(action.size for action in added),
        skipped_files=0,
        version=version,
        message=message,
    )
    if version is None:
        return report
    return table.show_newest_after(report)


def _physical_order(table: TableHandle, order_by: str | Sequence[str]) -> tuple[str, ...]:
    """Return the columns to sort by, by their physical names."""
    return table.names.columns(clustering.sort_columns(table.logical_columns.stored, order_by))

"""Merging small splits into large ones: plan, run the groups somewhere, commit them batch by batch.

A merge changes no row. Its commit names the splits it replaces; if another writer was faster and one of them is no longer
live, its group drops out and the others go on. Two merges of the same splits cannot both succeed.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import Any

from msgspec import Struct, field

from indextables.config import Settings
from indextables.config.log import SkipSettings
from indextables.config.upkeep import MergeSettings
from indextables.errors import CommitUnknownError, ConflictError, IndexTablesError
from indextables.log.transaction import Changes, SkipRequest
from indextables.log.transaction_log import TransactionLog
from indextables.model.conflicts import Operation, layout
from indextables.model.snapshot import Snapshot
from indextables.storage.spec import StoreSpec
from indextables.upkeep.execution import Execute, in_threads
from indextables.upkeep.merge_plan import MergePlan
from indextables.upkeep.merge_report import MergeReport
from indextables.upkeep.merge_task import FailedSource, MergeOutcome, MergeTask
from indextables.upkeep.progress import Progress, silent
from indextables.upkeep.rewriting import SplitRewriter, discard
from indextables.upkeep.status import NO_ACTION, SUCCESS


def tasks(planned: MergePlan, *, spec: StoreSpec, settings: Settings) -> list[MergeTask]:
    """The plan's groups as work that travels."""
    rewriter = SplitRewriter.of(planned.read.metadata, spec=spec, settings=settings, decided=planned.decided)
    return [MergeTask(rewriter, group) for group in planned.groups]


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
    """Merge the groups of a plan, a batch at a time, one commit per batch.

    A batch in which the store failed commits what it has, and then raises.
    """
    chosen = settings.group(MergeSettings)
    work = tasks(planned, spec=spec, settings=settings)
    merging = _Merge(planned, log, settings.group(SkipSettings).cooldown_hours, engine_info)
    executing = execute or in_threads(log.store, parallelism=chosen.parallelism)
    for at in range(0, len(work), chosen.batch_groups):
        outcomes: list[MergeOutcome] = []
        try:
            for outcome in executing(work[at : at + chosen.batch_groups]):
                outcomes.append(outcome)
                progress(at + len(outcomes), len(work), "groups")
        except BaseException:
            discard(log.store, _paths(outcomes))
            raise
        merging.finish(outcomes)
    return merging.report()


class _Merge(Struct):
    """A merge under way: what was committed so far, what was skipped, what dropped out."""

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
            self.skipped |= {failed.path: failed.reason for failed in _failed(outcomes, live)}
            return

    def _changes(self, outcomes: Sequence[MergeOutcome], live: Container[str]) -> Changes:
        sources = [source for outcome in outcomes for source in outcome.merged]
        skips = [SkipRequest(f.path, f.reason, "merge", self.cooldown_hours) for f in _failed(outcomes, live)]
        told = {} if self.planned.where is None else {"where": str(self.planned.where)}
        return Changes(
            Operation.MERGE if sources else Operation.SKIP,
            adds=[outcome.added for outcome in outcomes if outcome.added is not None],
            removes=[source.path for source in sources],
            removes_change_data=False,
            skips=skips,
            parameters={"targetSize": self.planned.target_bytes, **told},
            metrics={"numMergeGroups": sum(1 for o in outcomes if o.merged), "numSkippedFiles": len(skips)},
            engine_info=self.engine_info,
        )

    def _without_conflicts(
        self, outcomes: Sequence[MergeOutcome], newest: Snapshot, live: Container[str], conflict: ConflictError
    ) -> list[MergeOutcome]:
        """The groups whose splits are all live still. If that is not what stood in the way, none is left."""
        kept = [outcome for outcome in outcomes if all(source.path in live for source in outcome.merged)]
        if len(kept) == len(outcomes) or layout(newest.metadata) != layout(self.planned.read.metadata):
            kept = []
        gone = [outcome for outcome in outcomes if outcome not in kept]
        self._discard(gone)
        for outcome in gone:
            told = {"partition_values": outcome.group.partition_values, "splits": len(outcome.merged)}
            self.dropped.append({**told, "reason": conflict.message})
        return kept

    def _discard(self, outcomes: Iterable[MergeOutcome]) -> None:
        self.log.discard(_paths(outcomes), since=self.planned.read.version)

    def report(self) -> MergeReport:
        """What came of it all."""
        files = sum(len(outcome.merged) for outcome in self.done)
        message = f"{files} splits were merged into {len(self.done)}." if files else "There was nothing to merge."
        if self.dropped:
            message += f" {len(self.dropped)} group(s) gave way to other writers."
        if self.planned.groups_left:
            message += f" {self.planned.groups_left} group(s) are left."
        return MergeReport(
            table_path=self.planned.table_path,
            status=SUCCESS if self.version is not None else NO_ACTION,
            merged_files=files,
            merge_groups=len(self.done),
            original_size_bytes=sum(source.size for outcome in self.done for source in outcome.merged),
            merged_size_bytes=sum(outcome.added.size for outcome in self.done if outcome.added is not None),
            skipped_files=self.planned.cooling_files + len(self.skipped),
            version=self.version,
            message=message,
            skipped=tuple({"path": path, "reason": reason} for path, reason in self.skipped.items()),
            dropped=tuple(self.dropped),
        )


def _paths(outcomes: Iterable[MergeOutcome]) -> list[str]:
    return [outcome.added.path for outcome in outcomes if outcome.added is not None]


def _live(snapshot: Snapshot) -> set[str]:
    return set(snapshot.files(columns=["path"]).column("path").to_pylist())


def _failed(outcomes: Iterable[MergeOutcome], live: Container[str]) -> list[FailedSource]:
    """The splits that could not be read, but for those that are not part of the table any more."""
    return [failed for outcome in outcomes for failed in outcome.failed if failed.path in live]

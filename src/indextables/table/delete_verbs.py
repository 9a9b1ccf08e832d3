"""Rows leave a table: those that match a condition, deleted or replaced."""

from __future__ import annotations

from indextables.config.upkeep import MergeSettings
from indextables.errors import InvalidInputError
from indextables.model.predicate import Predicate
from indextables.scan.plan import parse_query, plan_scan
from indextables.scan.task import ScanTask
from indextables.table.handle import ENGINE_INFO, TableHandle
from indextables.table.predicates import Where, bound_predicate
from indextables.upkeep import delete
from indextables.upkeep.delete import DeleteOutcome, DeletePlan, DeleteReport, DeleteTask, Rewritten
from indextables.upkeep.operation import Execute, Progress, in_threads, silent


class DeleteVerbs(TableHandle):
    """Deleting rows."""

    def delete(
        self,
        *,
        where: Where | None = None,
        query: str | None = None,
        dry_run: bool = False,
        progress: Progress = silent,
        execute: Execute[DeleteTask, DeleteOutcome] | None = None,
    ) -> DeleteReport:
        """Delete the rows that match a condition, a search, or both, in one version.

        Splits that hold some of them are written anew; whole splits and partitions are just removed. Rows that others
        append meanwhile stay. `execute` rewrites splits elsewhere than in threads of this process.
        """
        self._refuse_if_pinned()
        if where is None and query is None:
            hint = "Give where=..., query=..., or both; overwrite() replaces every row."
            raise InvalidInputError("Nothing says which rows to delete.", hint=hint)
        snapshot = self._log.fresh()
        parsed = None if query is None else parse_query(query, self.schema, self.partition_columns, self.settings)
        bound = bound_predicate(where, self.schema)
        planned = delete.plan(snapshot, url=self.path, where=bound, query=parsed)
        if dry_run:
            asked = plan_scan(snapshot, self._spec, self.settings, query=parsed, where=bound, columns=())
            return planned.preview(ScanTask(asked, self._log.store).count())
        report = delete.run(
            planned,
            self._log,
            spec=self._spec,
            settings=self.settings,
            execute=execute or self._in_threads(),
            progress=progress,
            engine_info=ENGINE_INFO,
        )
        self._show(self._log.fresh())
        return report

    def _without_matches(self, where: Predicate) -> tuple[DeletePlan, Rewritten]:
        """The splits that hold rows which match and others too, written anew with the others only; not committed."""
        planned = delete.plan(self._snapshot, url=self.path, where=where)
        done = delete.rewrite(
            planned, store=self._log.store, spec=self._spec, settings=self.settings, execute=self._in_threads()
        )
        return planned, done

    def _in_threads(self) -> Execute[DeleteTask, DeleteOutcome]:
        return in_threads(self._log.store, parallelism=self.settings.group(MergeSettings).parallelism)

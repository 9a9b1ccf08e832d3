"""`Table.update`: set columns of the rows that match, in one version.

First the rows are found and what they become is planned; then the new rows are written, the old
ones removed, and both committed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from msgspec.structs import replace

from indextables.errors import InvalidInputError
from indextables.handle import TableHandle
from indextables.model.arguments import argument_error
from indextables.model.conflicts import Operation
from indextables.model.expression import Compute, assignment
from indextables.model.predicate import Where
from indextables.model.report import Report, pluralize, was
from indextables.model.schema import find_column
from indextables.operations.jobs import DRY_RUN, NO_ACTION, SUCCESS
from indextables.operations.row_change import RowChange, SplitRows, count_rows, find_split_rows
from indextables.operations.table_write import plan_write
from indextables.operations.write_request import WriteRequest
from indextables.query.change_feed import CHANGE_TAG, UPDATED
from indextables.query.plan import bind_condition, plan_scan
from indextables.query.task import ScanTask


class UpdateReport(Report, frozen=True):
    """What was updated, or would be."""

    table_path: str
    status: str
    updated_rows: int
    splits_changed: int
    version: int | None
    message: str


def update(
    table: TableHandle,
    assignments: Mapping[str, Any],
    *,
    where: Where | None,
    query: str | None,
    dry_run: bool,
    user_metadata: str | None,
) -> UpdateReport:
    """Set columns of the rows that match. See `Table.update`."""
    table.check_writable()
    newest = table.read_newest()
    computes = _parse_assignments(assignments, newest.schema)
    tree, predicate = bind_condition(newest, where=where, query=query)
    plan = plan_scan(newest, query=tree, where=predicate)
    task = ScanTask(plan, newest.log.store)
    if dry_run:
        return _report(newest, task.count(), len(plan.splits), None, dry_run=True)
    write = plan_write(newest, newest.schema, WriteRequest(operation=Operation.UPDATE))
    changed = find_split_rows(task, plan)
    rows = count_rows(changed)
    condition = {"where": predicate, "query": tree}
    parameters = {name: str(value) for name, value in condition.items() if value is not None}
    change = RowChange(
        newest,
        Operation.UPDATE,
        changed,
        parameters={**parameters, "set": {name: str(value) for name, value in assignments.items()}},
        metrics={"numUpdatedRecords": rows},
        user_metadata=user_metadata,
    )
    added = write.run(_updated_rows(newest, changed, computes), store=newest.log.store)
    version = change.commit(
        table, [replace(a, tags={**(a.tags or {}), CHANGE_TAG: UPDATED}) for a in added]
    )
    return _report(newest, rows, len(changed), version)


def _parse_assignments(given: Mapping[str, Any], schema: pa.Schema) -> dict[str, Compute]:
    if not isinstance(given, Mapping):
        raise argument_error("set", "a mapping of columns to values", given)
    if not given:
        raise InvalidInputError(
            "Nothing says what to set.", hint='Give set={"column": "expression"}.'
        )
    computes: dict[str, Compute] = {}
    for name, value in given.items():
        column = find_column(schema, name)
        if column in computes:
            raise InvalidInputError(f"Column {column!r} is set twice.", column=column)
        computes[column] = assignment(value, column, schema)
    return computes


def _updated_rows(
    table: TableHandle, changed: Sequence[SplitRows], computes: Mapping[str, Compute]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows with their new values, split after split, by logical column names."""
    for each in changed:
        for batch in each.split.iter_rows(each.rows):
            old = table.names.to_logical(pa.Table.from_batches([batch]))
            new = old
            for name, compute in computes.items():
                new = new.set_column(
                    old.schema.get_field_index(name), old.schema.field(name), compute(old)
                )
            yield from new.combine_chunks().to_batches()


def _report(
    table: TableHandle, rows: int, splits: int, version: int | None, *, dry_run: bool = False
) -> UpdateReport:
    if not rows:
        return UpdateReport(table.path, NO_ACTION, rows, splits, version, "No row matches.")
    if dry_run:
        return UpdateReport(
            table.path,
            DRY_RUN,
            rows,
            splits,
            version,
            f"{pluralize(rows, 'row')} would be updated.",
        )
    return UpdateReport(
        table.path, SUCCESS, rows, splits, version, f"{pluralize(rows, 'row')} {was(rows)} updated."
    )

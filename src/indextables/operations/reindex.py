"""`Table.reindex`: index columns in another way. The decision is one version; then the splits are
rewritten.

Until a split is rewritten, its rows are tested one by one. After an interruption the same call
continues.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from indextables import config
from indextables.config.upkeep import MergeSettings
from indextables.errors import InvalidInputError
from indextables.handle import ENGINE_INFO, TableHandle
from indextables.log.transaction import Changes
from indextables.model import protocol as protocols
from indextables.model.actions import MetadataAction
from indextables.model.arguments import text
from indextables.model.column_names import column_names, dump_schema
from indextables.model.conflicts import Operation
from indextables.model.predicate import Where
from indextables.model.report import Progress, Report, pluralize, was
from indextables.model.schema import find_column, schema_from_json
from indextables.model.schema_registry import without_registry
from indextables.operations import definition, jobs, merge
from indextables.splits.index.mapping import INDEX_KEY, decided_columns, decision

if TYPE_CHECKING:
    from indextables.operations.jobs import Execute
    from indextables.operations.merge import MergeOutcome, MergeTask


class ReindexReport(Report, frozen=True):
    """What a reindex did. The rows of splits that are left are tested one by one until they are
    rewritten.
    """

    table_path: str
    status: str
    columns: tuple[str, ...]
    splits_rewritten: int
    splits_left: int
    version: int | None
    message: str


def reindex(
    table: TableHandle,
    columns: Mapping[str, str] | Sequence[str],
    *,
    tokenizer: str | None,
    where: Where | None,
    dry_run: bool,
    progress: Progress,
    execute: Execute[MergeTask, MergeOutcome] | None,
) -> ReindexReport:
    """Record how columns are indexed, then rewrite the splits that index them in another way. See
    `Table.reindex`.
    """
    newest = table.read_newest()
    names = _decided_names(newest, columns)
    metadata = _redefine(newest, names, tokenizer)
    old = without_registry(newest.snapshot.metadata)
    if dry_run:
        return _rewritten(
            newest, tuple(names), metadata, where, dry_run=True, progress=progress, execute=execute
        )
    table.show(newest.snapshot)
    if metadata != old:
        exact = any(c.exact for c in decided_columns(schema_from_json(metadata.schema_string)))
        features = (
            (protocols.DECISIONS, protocols.EXACT_FIELDS) if exact else (protocols.DECISIONS,)
        )
        protocol = protocols.add_features(table.protocol, *features)
        table.commit(
            Changes(
                Operation.REINDEX,
                metadata=metadata,
                protocol=None if protocol == table.protocol else protocol,
                parameters={"columns": dict(names), "tokenizer": tokenizer or ""},
                engine_info=ENGINE_INFO,
            )
        )
    return _rewritten(
        table, tuple(names), metadata, where, dry_run=False, progress=progress, execute=execute
    )


def _decided_names(
    table: TableHandle, columns: Mapping[str, str] | Sequence[str]
) -> dict[str, str | None]:
    given: Mapping[str, str | None] = (
        columns
        if isinstance(columns, Mapping)
        else dict.fromkeys([columns] if isinstance(columns, str) else columns)
    )
    if not given:
        raise InvalidInputError(
            "Nothing says which columns to index.", hint='Give columns={"message": "text"}.'
        )
    return {
        find_column(table.schema, text("The name of a column", name)): kind
        for name, kind in given.items()
    }


def _redefine(
    table: TableHandle, columns: Mapping[str, str | None], tokenizer: str | None
) -> MetadataAction:
    """The metadata that says how the columns are indexed from now on; what does not fit is an
    error.
    """
    old = without_registry(table.snapshot.metadata)
    names = table.names
    physical = {names.column(name): kind for name, kind in columns.items()}
    known = dict(table.indexing.configuration)
    configuration: dict[str, str] = {}
    for key, value in known.items():
        match = config.REGISTRY.lookup(key)
        if (
            match is not None
            and match[1] in physical
            and (physical[match[1]] is not None or "tokenizer" in key.lower())
        ):
            continue
        if match is not None and match[0].key == "indexing.nonindexed":
            value = ",".join(n for n in match[0].type.parse(value) if n not in physical)
        configuration[key] = value
    for name, kind in physical.items():
        if kind is not None:
            configuration[f"indexing.typemap.{name}"] = kind
        if tokenizer is not None:
            configuration[f"indexing.tokenizer.{name}"] = tokenizer
    definition.check_indexing(table.physical_columns, configuration)
    mapping = table.physical_columns.mapping(config.resolve(table=configuration))
    schema = json.loads(old.schema_string)
    for field in schema["fields"]:
        if field["name"] in physical:
            column = mapping.find(field["name"])
        else:
            column = None
        if column is not None:
            field["metadata"] = {**(field.get("metadata") or {}), INDEX_KEY: decision(column)}
    if column_names(dump_schema(schema)).schema_json != old.schema_string:
        schema_json = dump_schema(schema)
    else:
        schema_json = old.schema_string
    return replace(old, schema_string=schema_json, configuration=configuration)


def _rewritten(
    table: TableHandle,
    columns: tuple[str, ...],
    metadata: MetadataAction,
    where: Where | None,
    *,
    dry_run: bool,
    progress: Progress,
    execute: Execute[MergeTask, MergeOutcome] | None,
) -> ReindexReport:
    """Rewrite the splits in `where` that index a column in another way than decided."""
    snapshot = table.log.fresh()
    if dry_run:
        snapshot = replace(snapshot, header=replace(snapshot.header, metadata=metadata))
    bounds = merge.MergeBounds.of(table.physical_settings.group(MergeSettings))
    now_ms = table.log.now_ms()
    physical = table.bind_partitions(where)
    plan = merge.plan(
        snapshot, url=table.path, bounds=bounds, now_ms=now_ms, where=physical, only_wrong=True
    )
    files = sum(len(group.sources) for group in plan.groups)
    if dry_run or not files:
        if files:
            message = f"{pluralize(files, 'split')} would be rewritten."
        else:
            message = "Every split is indexed so."
        status = jobs.DRY_RUN if dry_run and files else jobs.NO_ACTION
        return ReindexReport(table.path, status, columns, 0, files, None, message)
    report = merge.run(
        plan,
        table.log,
        spec=table.spec,
        settings=table.search_settings,
        execute=execute,
        progress=progress,
        engine_info=ENGINE_INFO,
    )
    table.show_newest_after(report)
    left = merge.plan(
        table.log.fresh(),
        url=table.path,
        bounds=bounds,
        now_ms=now_ms,
        only_wrong=True,
        cooling=True,
    )
    rest = sum(len(group.sources) for group in left.groups)
    message = f"{pluralize(report.merged_files, 'split')} {was(report.merged_files)} rewritten; {rest} are left."
    return ReindexReport(
        table.path, jobs.SUCCESS, columns, report.merged_files, rest, report.version, message
    )

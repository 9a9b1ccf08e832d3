"""Change rows in one version: DELETE, UPDATE and MERGE INTO, from SQL and from Python.

Spark finds the rows: its scan of the splits knows the row number of each row in its file, and so
does the data source, which reads the splits of another engine. Conditions mean the same as in every
Spark query, and the commit is checked against the version that was read. Workers remove the rows
from their splits (`row_vectors`) and write the changed rows as new splits; the driver receives one
line per split. Everything is one commit.

A target row may be changed by one source row only, counted by row numbers and never by keys.
Several source rows for one target row are an error, unless the row is only deleted.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property, reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace as with_fields
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import LongType, StringType, StructField, StructType

from indextables.errors import InvalidInputError, UnsupportedError
from indextables.model.actions import AddAction
from indextables.model.conflicts import Operation
from indextables.model.predicate import Constant
from indextables.model.report import Report
from indextables.operations.auto_upkeep import run_after_write
from indextables.operations.row_removal import removal_changes
from indextables.operations.row_write import RowWrite
from indextables.operations.table_write import abandon_write, plan_write
from indextables.operations.write_request import WriteRequest
from indextables.query.change_feed import CHANGE_TAG, UPDATED
from indextables.spark.reads import native_scan, through_source, why_not_native, with_names
from indextables.spark.row_plans import (
    Clause,
    RowAction,
    RowPlan,
    check_columns,
    merge_plan,
    update_plan,
)
from indextables.spark.row_vectors import ACTION, FILE, ROW, RowsGone, kept, take_out
from indextables.spark.schemas import arrow_schema, quoted, readable
from indextables.spark.settings import has_jvm, session_of, with_session
from indextables.spark.source.reader import parquet_splits
from indextables.spark.writes import task_splits
from indextables.storage.spec import StoreSpec, open_table_store
from indextables.table import Table

SOURCE = "__indextables_source"
_BROADCAST_BYTES = 32 << 20
_PLACE_FIELDS = (StructField("file_name", StringType()), StructField("row_index", LongType()))


class RowChangeReport(Report, frozen=True):
    """Number of changed rows and the committed version; None if nothing changed."""

    table_path: str
    operation: str
    updated_rows: int
    deleted_rows: int
    inserted_rows: int
    version: int | None


@dataclass
class MergeTarget:
    """A table whose rows change, at the version that was read."""

    spark: SparkSession
    table: Table
    options: Mapping[str, object] = field(default_factory=dict)

    @classmethod
    def open(cls, spark: SparkSession, path: str, options: Mapping[str, object]) -> MergeTarget:
        """Open the table. Tables that Spark cannot read itself are refused, because only its scan
        knows row numbers.
        """
        table = Table.open(path, options=options)
        table.handle.check_has_rows()
        table.handle.check_writable()
        if has_jvm(spark):
            reason = why_not_native(spark, table)
        else:
            reason = "this session has no access to Spark's driver"
        if reason:
            raise UnsupportedError(
                f"Spark cannot find the places of rows of {table.path}: {reason}.",
                hint="Use Table.delete, Table.update and Table.upsert.",
                path=table.path,
            )
        return cls(spark, table, options)

    @property
    def schema(self) -> StructType:
        """Return the columns as a Spark schema."""
        return readable(self.table.metadata.schema_string)

    @cached_property
    def files(self) -> pa.Table:
        """Return the splits of the version that was read."""
        return self.table.files()

    @cached_property
    def _ours(self) -> pa.BooleanArray:
        """Return which of them Spark reads itself; splits of another engine are read to decide."""
        return parquet_splits(self.table, self.files)

    def rows(self, files: pa.Table | None = None, *, metadata: bool = False) -> DataFrame:
        """Return the rows of all or some splits with file and row number; with `metadata` also
        Spark's.
        """
        chosen = self.files if files is None else files
        # Spark reads the splits by the names that these have; what people call the columns is laid
        # over it.
        view = Table(self.table.handle.physical_view())
        places = [f.col("_metadata.file_name").alias(FILE), f.col("_metadata.row_index").alias(ROW)]
        if files is None:
            ours = self._ours
        else:
            ours = parquet_splits(self.table, files)
        rows = native_scan(self.spark, view, chosen.filter(ours), {}).select("*", *places)
        theirs = chosen.filter(pc.invert(ours))
        if metadata and theirs.num_rows:
            raise UnsupportedError(
                f"{self.table.path} has splits of another engine, whose rows have no _metadata.",
                hint="Merge them first: MERGE SPLITS 'path'.",
            )
        if metadata:
            rows = rows.select(*rows.columns, "_metadata")
        if theirs.num_rows:
            if files is None:
                only = "foreign"
            else:
                only = json.dumps(theirs["path"].to_pylist())
            foreign = through_source(
                self.spark, view, self.options, only=only, places=_PLACE_FIELDS
            )
            foreign = foreign.select(*[quoted(name) for name in foreign.columns[:-1]], *places)
            if len(theirs) == len(chosen):
                rows = foreign
            else:
                rows = rows.unionByName(foreign)
        return with_names(rows, self.schema)


def without_places(rows: DataFrame, places: DataFrame) -> DataFrame:
    """Return rows without those at some locations."""
    other = places.select(f.col(FILE).alias("__other_file"), f.col(ROW).alias("__other_row"))
    return rows.join(
        other,
        (f.col(FILE) == f.col("__other_file")) & (f.col(ROW) == f.col("__other_row")),
        "left_anti",
    )


def plan_rows(target: MergeTarget, plan: RowPlan) -> DataFrame:
    """Return the rows of the target as the statement's expressions read them, with file and row
    number.
    """
    return plan.rows(target.rows(metadata=plan.reads_metadata), (FILE, ROW))


def delete_rows(target: MergeTarget, plan: RowPlan) -> RowChangeReport:
    """Delete the rows that match the condition of a DELETE, or all."""
    if plan.condition is None:
        return _delete_everything(target)
    found = plan_rows(target, plan).filter(plan.condition).select(FILE, ROW, f.lit(0).alias(ACTION))
    gone = take_out(target.table, found, actions=1, may_repeat=False)
    return commit_rows(target, Operation.DELETE, gone, NewRows(), counts={"delete": gone.rows})


def _delete_everything(target: MergeTarget) -> RowChangeReport:
    """Remove every split from the table. No row is read, unless the log lacks row counts."""
    rows = None
    if target.files.num_rows and target.files["num_records"].null_count:
        rows = target.rows().count()
    report = target.table.delete(where="true")
    deleted = report.deleted_rows if report.deleted_rows is not None else rows
    return RowChangeReport(
        target.table.path, str(Operation.DELETE), 0, deleted or 0, 0, report.version
    )


def update_rows(target: MergeTarget, plan: RowPlan) -> RowChangeReport:
    """Update columns of the rows that match the condition of an UPDATE, or of all."""
    rows = plan_rows(target, plan)
    if plan.condition is None:
        matching = rows
    else:
        matching = rows.filter(plan.condition)
    with kept(matching.select(FILE, ROW, *plan.values)) as new:
        gone = take_out(
            target.table, new.select(FILE, ROW, f.lit(0).alias(ACTION)), actions=1, may_repeat=False
        )
        updated = NewRows(new.select(*[quoted(name) for name in target.schema.names]))
        return commit_rows(target, Operation.UPDATE, gone, updated, counts={"update": gone.rows})


@dataclass(frozen=True)
class RowMerge:
    """A MERGE INTO: its target, source and clauses."""

    target: MergeTarget
    plan: RowPlan
    merge_schema: bool = False

    @cached_property
    def matched(self) -> list[RowAction]:
        """The WHEN MATCHED clauses."""
        return self.plan.matched

    @cached_property
    def not_matched(self) -> list[RowAction]:
        """The WHEN NOT MATCHED clauses."""
        return self.plan.not_matched

    @cached_property
    def not_matched_by_source(self) -> list[RowAction]:
        """The WHEN NOT MATCHED BY SOURCE clauses."""
        return self.plan.not_matched_by_source

    def run(self) -> RowChangeReport:
        """Execute the merge."""
        self._check()
        # Read once: a source that answers differently a second time would lose rows or double them.
        source = self.plan.source.withColumn(
            SOURCE, f.monotonically_increasing_id()
        ).localCheckpoint()
        other = f.broadcast(source) if is_broadcast(source) else source
        pairs = plan_rows(self.target, self.plan).join(other, self.plan.on, "inner")
        pairs = pairs.select("*", action(self.matched).alias(ACTION))
        # What is kept is all that is asked for later, so that the scan leaves out the columns that
        # no clause takes.
        with ExitStack() as ended:
            matches = ended.enter_context(
                kept(pairs.select(FILE, ROW, SOURCE, ACTION, *self._compute_columns(self.matched)))
            )
            rest = None
            if self.not_matched_by_source:
                others = without_places(
                    plan_rows(self.target, self.plan), matches.select(FILE, ROW)
                )
                rest = ended.enter_context(
                    kept(self._select_acted(others, self.not_matched_by_source))
                )
            return self._commit(source, matches, rest)

    def _commit(
        self, source: DataFrame, matches: DataFrame, rest: DataFrame | None
    ) -> RowChangeReport:
        found = matches.filter(f.col(ACTION) >= 0).select(FILE, ROW, ACTION)
        if rest is not None:
            later = (f.col(ACTION) + len(self.matched)).alias(ACTION)
            found = found.unionByName(rest.select(FILE, ROW, later))
        actions = [*self.matched, *self.not_matched_by_source]
        gone = take_out(
            self.target.table, found, actions=len(actions), may_repeat=self._only_deletes
        )
        self._check_once(gone.doubled)
        counts = {"update": 0, "delete": 0}
        for each, rows in zip(actions, gone.counts, strict=True):
            counts[each.kind] += rows
        # A row that several source rows delete was found several times, and goes once.
        counts["delete"] -= sum(gone.counts) - gone.rows
        updated = [self._new_rows(matches, self.matched)]
        if rest is not None:
            updated.append(self._new_rows(rest, self.not_matched_by_source))
        inserted = None
        if self.not_matched:
            ids = matches.select(f.col(SOURCE).alias("__matched"))
            alone = source.join(ids, f.col(SOURCE) == f.col("__matched"), "left_anti")
            inserted = self._new_rows(self._select_acted(alone, self.not_matched), self.not_matched)
        return commit_rows(
            self.target,
            Operation.MERGE_INTO,
            gone,
            NewRows(_union(updated), inserted),
            counts=counts,
            reads_all=bool(self.not_matched_by_source),
            merge_schema=self.merge_schema,
        )

    def _select_acted(self, rows: DataFrame, clauses: Sequence[RowAction]) -> DataFrame:
        """Return the rows of a clause with their locations, if they have any, and their new values."""
        places = [name for name in (FILE, ROW) if name in rows.columns]
        chosen = rows.select("*", action(clauses).alias(ACTION)).filter(f.col(ACTION) >= 0)
        return chosen.select(*places, ACTION, *self._compute_columns(clauses))

    def _check(self) -> None:
        if not (self.matched or self.not_matched or self.not_matched_by_source):
            raise InvalidInputError("A merge needs at least one WHEN clause.")
        for clauses in (self.matched, self.not_matched, self.not_matched_by_source):
            for clause in clauses[:-1]:
                if clause.condition is None:
                    raise InvalidInputError(
                        "Only the last WHEN clause of its kind may be without a condition.",
                        hint="Rows take the first clause that fits.",
                    )

    @property
    def _only_deletes(self) -> bool:
        """Return whether several source rows may match one target row, which is then deleted once."""
        return (
            len(self.matched) == 1
            and self.matched[0].kind == "delete"
            and self.matched[0].condition is None
        )

    def _check_once(self, doubled: int) -> None:
        if doubled and not self._only_deletes:
            raise InvalidInputError(
                f"{doubled} rows of {self.target.table.path} match several rows of the source, which would change them "
                "several times.",
                hint="Nothing was changed. Give the source one row for each key: SELECT key, max_by(value, time) ... "
                "GROUP BY key.",
                rows=doubled,
            )

    def _new_rows(self, rows: DataFrame, clauses: Sequence[RowAction]) -> DataFrame | None:
        """Return the new rows of the clauses; None if these only delete."""
        made = [place for place, clause in enumerate(clauses) if clause.kind != "delete"]
        if not made:
            return None
        return rows.filter(f.col(ACTION).isin(made)).select(
            *[quoted(name) for name in self.plan.schema.names]
        )

    def _compute_columns(self, clauses: Sequence[RowAction]) -> list[Column]:
        """Return every column as the clauses compute it; empty if these only delete."""
        makers = [
            (f.col(ACTION) == place, clause.values)
            for place, clause in enumerate(clauses)
            if clause.values
        ]
        if not makers:
            return []
        columns = []
        for place, name in enumerate(self.plan.schema.names):
            # Only the values of the clause that a row takes are worked out: those of another may be
            # an error.
            chosen = f.when(makers[0][0], makers[0][1][place])
            for condition, values in makers[1:]:
                chosen = chosen.when(condition, values[place])
            columns.append(chosen.alias(name))
        return columns


def is_broadcast(source: DataFrame) -> bool:
    """Return whether every task receives all rows of a stored source, so that the target is not
    shuffled.

    The limit is `spark.sql.autoBroadcastJoinThreshold`, but at least 32 MB; -1 disables it.
    """
    spark = source.sparkSession
    context: Any = spark.sparkContext._jsc.sc()
    threshold = int(spark._jsparkSession.sessionState().conf().autoBroadcastJoinThreshold())
    if threshold < 0:
        return False
    rdd = source._jdf.queryExecution().logical().rdd().id()
    stored = [info for info in context.getRDDStorageInfo() if info.id() == rdd]
    return bool(stored) and stored[0].memSize() + stored[0].diskSize() <= max(
        threshold, _BROADCAST_BYTES
    )


def action(clauses: Sequence[RowAction]) -> Column:
    """Return the number of the first clause whose condition is true, or -1. NULL is not true."""
    result: Column = f.lit(-1)
    for place in reversed(range(len(clauses))):
        condition = clauses[place].condition
        if condition is None:
            result = f.lit(place)
        else:
            result = f.when(f.coalesce(condition, f.lit(False)), f.lit(place)).otherwise(result)
    return result


def _union(frames: Sequence[DataFrame | None]) -> DataFrame | None:
    some = [frame for frame in frames if frame is not None]
    if some:
        return reduce(DataFrame.unionByName, some)
    return None


@dataclass(frozen=True)
class NewRows:
    """New rows: replacements of others, and inserted rows."""

    updated: DataFrame | None = None
    inserted: DataFrame | None = None


def commit_rows(
    target: MergeTarget,
    operation: Operation,
    gone: RowsGone,
    new: NewRows,
    *,
    counts: Mapping[str, int],
    reads_all: bool = False,
    merge_schema: bool = False,
) -> RowChangeReport:
    """Remove rows from their splits and add others in one version; files of a failed commit are
    deleted.

    `reads_all` means that a row which another writer adds could have been one to change.
    """
    table = target.table
    try:
        plan, adds, inserted = _write_rows(target, new, counts, merge_schema=merge_schema)
    except BaseException:
        gone.discard(table)
        raise
    store = open_table_store(StoreSpec.from_url(table.path, table.settings))
    changes = removal_changes(
        operation,
        gone.result,
        store=store,
        vectors=gone.vectors,
        adds=adds,
        # A row that comes in at the same time could have a key that is inserted here, or be one
        # that the source lacks.
        keys=Constant(True) if inserted or reads_all else None,
        metadata=None if plan is None else plan.new_metadata,
        metrics={
            f"num{kind.capitalize()}dRecords": counts.get(kind, 0) for kind in ("update", "delete")
        }
        | {"numInsertedRecords": inserted},
    )
    version = table.handle.commit(changes, changes.adds)
    if version is not None:
        run_after_write(table.handle, version)
    return RowChangeReport(
        table_path=table.path,
        operation=str(operation),
        updated_rows=counts.get("update", 0),
        deleted_rows=counts.get("delete", 0),
        inserted_rows=inserted,
        version=version,
    )


def _write_rows(
    target: MergeTarget, new: NewRows, counts: Mapping[str, int], *, merge_schema: bool
) -> tuple[RowWrite | None, list[AddAction], int]:
    """Write the new rows as splits that record which of these they hold, and return them with the
    number of inserted rows.

    The change feed depends on it: a row that replaces another is its next version. If a merge also
    deletes rows, both kinds of removed rows cannot be distinguished, so it is recorded as deletions
    and insertions.
    """
    table = target.table
    tags = {} if counts.get("delete") else {CHANGE_TAG: UPDATED}
    frames = [(new.updated if counts.get("update") else None, tags), (new.inserted, {})]
    rows = [frame for frame, _ in frames if frame is not None]
    if not rows:
        return None, [], 0
    # Planned once, for the columns of all: those that a merged schema adds belong to the one
    # commit.
    columns = reduce(
        lambda one, other: one.unionByName(other, allowMissingColumns=merge_schema), rows
    ).schema
    plan = plan_write(table.handle, arrow_schema(columns), WriteRequest(merge_schema=merge_schema))
    adds: list[AddAction] = []
    inserted = 0
    try:
        for frame, tag in frames:
            if frame is not None:
                splits = task_splits(frame, plan, table.handle.options or {})
                adds += [
                    with_fields(a, tags={**(a.tags or {}), **tag}, data_change=True) for a in splits
                ]
                inserted += sum(a.num_records or 0 for a in splits) if frame is new.inserted else 0
    except BaseException:
        abandon_write(table.handle, plan, adds)
        raise
    return plan, adds, inserted


def update(
    spark: SparkSession,
    path: str,
    *,
    set: Mapping[str, str | Column],  # noqa: A002
    where: str | Column | None = None,
    options: Mapping[str, object] | None = None,
) -> RowChangeReport:
    """Set columns to new values in the rows that match a condition, in one version.

    Args:
        spark: The session.
        path: A local path or a URL.
        set: The new value of each column, as SQL of Spark.
        where: A condition over typed columns.
        options: Settings, over those of the session.

    Raises:
        InvalidInputError: A column does not exist.
        ConflictError: Another writer changed the same rows.

    Example:
        its.update(spark, "/data/logs", set={"level": "'WARN'"}, where="level = 'WARNING'")
    """
    target = MergeTarget.open(spark, path, with_session(spark, options))
    check_columns(list(set), target.schema, target.table.path)
    parsed = update_plan(spark, "target", _columns(set), _condition(where))
    return update_rows(target, RowPlan.of(spark, parsed, target.table.path, target.schema))


class MergeBuilder:
    """A merge that is being described: `merge_into(...)`, the clauses, then `execute()`. Rows take
    the first that fits.
    """

    def __init__(
        self, target: MergeTarget, source: _MergeSource, clauses: Mapping[str, Sequence[Clause]]
    ) -> None:
        self._target = target
        self._source = source
        self._clauses = clauses

    def when_matched_update(
        self,
        *,
        set: Mapping[str, str | Column],  # noqa: A002
        condition: str | Column | None = None,
    ) -> MergeBuilder:
        """Give columns of matching rows new values, where `condition` holds."""
        return self._with("matched", Clause("update", _condition(condition), _columns(set)))

    def when_matched_update_all(self, *, condition: str | Column | None = None) -> MergeBuilder:
        """Give matching rows the values of the source, by name, where `condition` holds."""
        return self._with("matched", Clause("update", _condition(condition)))

    def when_matched_delete(self, *, condition: str | Column | None = None) -> MergeBuilder:
        """Delete matching rows, where `condition` holds."""
        return self._with("matched", Clause("delete", _condition(condition)))

    def when_not_matched_insert(
        self, *, values: Mapping[str, str | Column], condition: str | Column | None = None
    ) -> MergeBuilder:
        """Insert rows of the source that match nothing, with these values, where `condition` holds."""
        return self._with("not_matched", Clause("insert", _condition(condition), _columns(values)))

    def when_not_matched_insert_all(self, *, condition: str | Column | None = None) -> MergeBuilder:
        """Insert rows of the source that match nothing, by name, where `condition` holds."""
        return self._with("not_matched", Clause("insert", _condition(condition)))

    def when_not_matched_by_source_update(
        self,
        *,
        set: Mapping[str, str | Column],  # noqa: A002
        condition: str | Column | None = None,
    ) -> MergeBuilder:
        """Give rows that no row of the source matches new values, where `condition` holds."""
        return self._with(
            "not_matched_by_source", Clause("update", _condition(condition), _columns(set))
        )

    def when_not_matched_by_source_delete(
        self, *, condition: str | Column | None = None
    ) -> MergeBuilder:
        """Delete rows that no row of the source matches, where `condition` holds."""
        return self._with("not_matched_by_source", Clause("delete", _condition(condition)))

    def execute(self) -> RowChangeReport:
        """Carry the merge out, in one version."""
        given, target = self._source, self._target
        for clauses in self._clauses.values():
            for clause in clauses:
                if given.evolves or clause.values is None:
                    continue
                check_columns(list(clause.values), target.schema, target.table.path)
        parsed = merge_plan(given.rows, (given.target, given.name), given.on, self._clauses)
        plan = RowPlan.of(
            target.spark, parsed, target.table.path, target.schema, evolves=given.evolves
        )
        return RowMerge(target, plan, merge_schema=given.evolves).run()

    def _with(self, kind: str, clause: Clause) -> MergeBuilder:
        return MergeBuilder(
            self._target, self._source, {**self._clauses, kind: [*self._clauses[kind], clause]}
        )


@dataclass(frozen=True)
class _MergeSource:
    """The rows of a merge, the condition, and the names of both sides in it."""

    rows: DataFrame
    on: Column
    target: str
    name: str
    evolves: bool


def merge_into(
    df: DataFrame,
    path: str,
    *,
    on: str | Column,
    target: str = "target",
    source: str = "source",
    merge_schema: bool = False,
    options: Mapping[str, object] | None = None,
) -> MergeBuilder:
    """Start a merge of the rows of `df` into a table; its clauses decide what happens to the rows.

    Args:
        df: The new rows.
        path: A local path or a URL.
        on: The condition for rows that belong together, as SQL or a Column.
        target: The name of the table in conditions and values.
        source: The name of `df` in conditions and values.
        merge_schema: Whether `*` adds columns of `df` to the table.
        options: Settings, over those of the session.

    Returns:
        A builder: add clauses, then call `execute()`.

    Raises:
        InvalidInputError: Several rows of `df` would change one row.
        ConflictError: Another writer changed the same rows.

    Example:
        its.merge_into(df, "/data/users", on="target.id = source.id").when_matched_update_all().execute()
    """
    spark = session_of(df)
    opened = MergeTarget.open(spark, path, with_session(spark, options))
    rows = _MergeSource(df, _column(on), target, source, evolves=merge_schema)
    return MergeBuilder(
        opened, rows, {"matched": [], "not_matched": [], "not_matched_by_source": []}
    )


def _column(value: str | Column) -> Column:
    if isinstance(value, str):
        return f.expr(value)
    return value


def _condition(value: str | Column | None) -> Column | None:
    if value is None:
        return None
    return _column(value)


def _columns(values: Mapping[str, str | Column]) -> dict[str, Column]:
    return {name: _column(value) for name, value in values.items()}

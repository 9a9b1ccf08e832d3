"""`Table.prewarm`: fetch the indexes of columns into the local cache, ahead of searches."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from msgspec import Struct

from indextables.config.splits import PrewarmSettings, ReadSettings
from indextables.errors import InvalidInputError
from indextables.handle import TableHandle
from indextables.model.predicate import Where
from indextables.model.report import Report
from indextables.model.schema import find_column
from indextables.query.plan import plan_scan
from indextables.query.task import ScanTask
from indextables.splits.read.foreign import ForeignReader
from indextables.splits.read.table_split import SplitEntry


class Prewarmed(Report, frozen=True):
    """What was fetched into the local cache."""

    splits: int
    bytes: int
    message: str = ""
    """What was not fetched, and why; empty if everything was."""


class _Fetched(Struct, frozen=True):
    """What prewarming found in a split."""

    indexed: set[str]
    bytes: int
    foreign: bool


def _columns_to_fetch(
    schema: pa.Schema, columns: Sequence[str], otherwise: Sequence[str]
) -> list[str]:
    """The columns that are to be warmed: those that are named, which must be there, or else those
    that settings name.

    Settings are those of a session for all of its tables: what this one does not have stays as it
    is written.
    """
    if columns:
        return [find_column(schema, name) for name in columns]
    spelt = {name.lower(): name for name in schema.names}
    return [spelt.get(name.lower(), name) for name in otherwise]


def fetch_indexes(task: ScanTask, columns: Sequence[str], *, strict: bool = False) -> Prewarmed:
    """Fetch the indexes of these columns (of all, where none is named) of every split of a plan
    into the local cache.

    A column that none of the splits has indexed is passed over and named, or refused where
    `strict`. Nothing is kept of a split of another engine: the message says how many there are.
    """

    def fetch(entry: SplitEntry) -> _Fetched:
        split = task.open_alone(entry)
        names = split.prewarm(columns)
        if isinstance(split.reader, ForeignReader):
            return _Fetched(names, 0, foreign=True)
        return _Fetched(names if split.indexed else set(), split.stats.bytes, foreign=False)

    results = list(task.each(fetch))
    indexed = {name for each in results for name in each.indexed}
    missing = [
        task.plan.names.logical_name(name) for name in columns if results and name not in indexed
    ]
    if missing and strict:
        raise InvalidInputError(
            f"No split of {task.store.url} has an index of {', '.join(map(repr, missing))}.",
            hint="Name columns that are indexed, or leave out ON FIELDS (all of them) or prewarm.failOnMissingField.",
            columns=missing,
        )
    warmed = [each for each in results if each.indexed and not each.foreign]
    foreign = sum(each.foreign for each in results)
    message = _not_fetched(task, missing, foreign, len(results))
    return Prewarmed(len(warmed), sum(each.bytes for each in results), message)


def _not_fetched(task: ScanTask, missing: Sequence[str], foreign: int, splits: int) -> str:
    """What prewarming left alone, and why; nothing if it left nothing."""
    if not splits:
        if task.plan.where is None:
            reason = "The table has no splits"
        else:
            reason = "No split holds rows that fit the condition"
        return f"{reason}: nothing was fetched."
    said = []
    if missing:
        said.append(f"No index to fetch: {', '.join(missing)} (read from the rows of a split).")
    if foreign:
        said.append(
            f"{foreign} of {splits} splits were written by IndexTables for the JVM, of which nothing is kept "
            f"locally: a search reads them where they are. MERGE SPLITS '{task.store.url}' REWRITE makes them "
            "splits that can be warmed."
        )
    return " ".join(said)


def prewarm(table: TableHandle, *, columns: Sequence[str], where: Where | None) -> Prewarmed:
    """Fetch the indexes of columns, or of those that the settings name. See `Table.prewarm`."""
    defaults = table.settings.group(PrewarmSettings)
    names = table.names.columns(_columns_to_fetch(table.schema, columns, defaults.fields))
    if where is None:
        where = defaults.partition_filter or None
    task = ScanTask(plan_scan(table, where=where), table.log.store)
    return fetch_indexes(
        task, names, strict=table.settings.group(ReadSettings).fail_on_missing_field
    )

"""Which live files a commit removes, decided on the snapshot it meets: all, those of a predicate, those of partitions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from indextables.errors import ConflictError, TableExistsError
from indextables.log.transaction import LiveSelection
from indextables.model.predicate import Predicate
from indextables.model.pruning import all_match, manifests_may_match, may_match
from indextables.model.snapshot import Snapshot
from indextables.model.state import Bounds


class _PartsThatMayMatch(Struct, frozen=True):
    """Rules out parts of a file list by a predicate over their bounds."""

    where: Predicate

    def keeps(self, bounds: Mapping[str, Sequence[Bounds]], *, count: int, typed: bool) -> Sequence[bool]:
        return list(manifests_may_match(self.where, bounds, count=count, typed=typed).to_pylist())


def files_in_parts(snapshot: Snapshot, where: Predicate | None) -> pa.Table:
    """Live files, without those in parts of the list that the predicate rules out unread."""
    return snapshot.all_files if where is None else snapshot.files(_PartsThatMayMatch(where))


def pruned_files(snapshot: Snapshot, where: Predicate) -> pa.Table:
    """Live files that may hold a matching row."""
    files = files_in_parts(snapshot, where)
    columns = tuple(snapshot.metadata.partition_columns or ())
    return files.filter(may_match(where, files, partition_columns=columns))


def files_not_in(one: Snapshot, other: Snapshot) -> pa.Table:
    """The live files of one snapshot that another does not have."""
    known = pc.is_in(one.all_files.column("path"), value_set=other.files(columns=["path"]).column("path").unique())
    return one.all_files.filter(pc.invert(known))


def every_file(snapshot: Snapshot) -> pa.Table:
    """All live files."""
    return snapshot.all_files


def no_file_of_a_new_table(snapshot: Snapshot) -> pa.Table:
    """Nothing is removed, and nothing may be there: rows of a writer that wants to be the table's first."""
    if snapshot.version > 0:
        raise TableExistsError(
            f"Another writer was first: the new table is at version {snapshot.version} already.",
            hint="Append to it, or overwrite it. Nothing of this write was committed.",
            version=snapshot.version,
        )
    return snapshot.all_files


def files_within(
    where: Predicate, partition_columns: Sequence[str], *, looked_into: Collection[str] = ()
) -> LiveSelection:
    """Files all of whose rows match. A file of which some rows may match must have been looked into before.

    One that has not been came in meanwhile: its rows cannot be replaced unseen, and the write must be repeated.
    """

    def select(snapshot: Snapshot) -> pa.Table:
        files = snapshot.all_files
        whole = all_match(where, files, partition_columns=partition_columns)
        known = pc.is_in(files.column("path"), value_set=pa.array(sorted(looked_into), pa.string()))
        partly = pc.and_not(may_match(where, files, partition_columns=partition_columns), whole)
        unseen = files.filter(pc.and_not(partly, known)).column("path").to_pylist()
        if unseen:
            raise ConflictError(
                f"{len(unseen)} file(s) that may match `{where}` in part were added meanwhile, such as {unseen[0]}.",
                path=unseen[0],
                version=snapshot.version,
                retry_helps=True,
            )
        return files.filter(pc.and_not(whole, known))

    return select


def files_of_partitions(partitions: Iterable[Mapping[str, str | None]]) -> LiveSelection:
    """Files of exactly these partitions (dynamic partition overwrite)."""
    wanted = {tuple(sorted(values.items(), key=lambda item: item[0])) for values in partitions}

    def select(snapshot: Snapshot) -> pa.Table:
        files = snapshot.all_files
        values = files.column("partition_values").to_pylist()
        return files.filter(pa.array([tuple(sorted(v or [])) in wanted for v in values], pa.bool_()))

    return select


def files_of_matching_partitions(where: Predicate) -> LiveSelection:
    """Files of the partitions that match a predicate over partition columns only."""

    def select(snapshot: Snapshot) -> pa.Table:
        files = snapshot.all_files
        columns = tuple(snapshot.metadata.partition_columns or ())
        return files.filter(all_match(where, files, partition_columns=columns))

    return select

"""Select live files of a snapshot: for reads those that a predicate may match, for commits those to
remove.

A selection for a commit (`LiveSelection`) is a function of the snapshot. The committer calls it
again when another writer commits first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

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

    def keeps(
        self, bounds: Mapping[str, Sequence[Bounds]], *, count: int, typed: bool
    ) -> Sequence[bool]:
        return list(manifests_may_match(self.where, bounds, count=count, typed=typed).to_pylist())


def files_in_parts(snapshot: Snapshot, where: Predicate | None) -> pa.Table:
    """Live files, without those in parts of the list that the predicate rules out unread."""
    if where is None:
        return snapshot.all_files
    return snapshot.files(_PartsThatMayMatch(where))


def pruned_files(snapshot: Snapshot, where: Predicate) -> pa.Table:
    """Live files that may hold a matching row."""
    files = files_in_parts(snapshot, where)
    columns = tuple(snapshot.metadata.partition_columns or ())
    return files.filter(may_match(where, files, partition_columns=columns))


def every_file(snapshot: Snapshot) -> pa.Table:
    """Return all live files."""
    return snapshot.all_files


def no_file_of_a_new_table(snapshot: Snapshot) -> pa.Table:
    """Require an empty table: used by a writer that must be the first."""
    if snapshot.version > 0:
        raise TableExistsError(
            f"Another writer was first: the new table is at version {snapshot.version} already.",
            hint="Append to it, or overwrite it. Nothing of this write was committed.",
            version=snapshot.version,
        )
    return snapshot.all_files


def files_within(
    where: Predicate, partition_columns: Sequence[str], *, inspected: Mapping[str, str | None]
) -> LiveSelection:
    """Return files whose rows all match.

    A file with some matching rows must have been read before with its current deletion vector. A
    file that was added meanwhile has not, so the write must be repeated.
    """

    def select(snapshot: Snapshot) -> pa.Table:
        files = snapshot.all_files
        certain = all_match(where, files, partition_columns=partition_columns)
        own = zip(
            files.column("path").to_pylist(),
            files.column("deletion_vector").to_pylist(),
            strict=True,
        )
        excluded = pa.array(
            [path in inspected and inspected[path] == vector for path, vector in own], pa.bool_()
        )
        partly = pc.and_not(may_match(where, files, partition_columns=partition_columns), certain)
        undecided = files.filter(pc.and_not(partly, excluded)).column("path").to_pylist()
        if undecided:
            raise ConflictError(
                f"{len(undecided)} file(s) that may match `{where}` in part were added since, such as {undecided[0]}.",
                path=undecided[0],
                version=snapshot.version,
                retry_helps=True,
            )
        return files.filter(pc.and_not(certain, excluded))

    return select


def files_of_partitions(partitions: Iterable[Mapping[str, str | None]]) -> LiveSelection:
    """Return files of exactly these partitions (dynamic partition overwrite)."""
    keys = {tuple(sorted(values.items(), key=lambda item: item[0])) for values in partitions}

    def select(snapshot: Snapshot) -> pa.Table:
        files = snapshot.all_files
        values = files.column("partition_values").to_pylist()
        return files.filter(pa.array([tuple(sorted(v or [])) in keys for v in values], pa.bool_()))

    return select


def files_of_matching_partitions(where: Predicate) -> LiveSelection:
    """Return files of the partitions that match a predicate over partition columns."""

    def select(snapshot: Snapshot) -> pa.Table:
        files = snapshot.all_files
        columns = tuple(snapshot.metadata.partition_columns or ())
        return files.filter(all_match(where, files, partition_columns=columns))

    return select

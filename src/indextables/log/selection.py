"""Which live files a commit removes, decided on the snapshot it meets: all, those of a predicate, those of partitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from indextables.errors import InvalidInputError
from indextables.log.transaction import LiveSelection
from indextables.model.predicate import Predicate
from indextables.model.pruning import all_match, manifests_may_match, may_match
from indextables.model.snapshot import Snapshot
from indextables.model.state import Bounds


@dataclass(frozen=True)
class _PartsThatMayMatch:
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


def every_file(snapshot: Snapshot) -> pa.Table:
    """All live files."""
    return snapshot.all_files


def files_within(where: Predicate, partition_columns: Sequence[str]) -> LiveSelection:
    """Files all of whose rows match. A file of which only some rows match is refused: it cannot be removed whole."""

    def select(snapshot: Snapshot) -> pa.Table:
        files = snapshot.all_files
        whole = all_match(where, files, partition_columns=partition_columns)
        partly = files.filter(pc.and_not(may_match(where, files, partition_columns=partition_columns), whole))
        if partly.num_rows:
            path = partly.column("path")[0].as_py()
            raise InvalidInputError(
                f"{partly.num_rows} file(s) may match `{where}` only in part, such as {path}.",
                hint="Use a condition over partition columns, or delete the rows first.",
                path=path,
            )
        return files.filter(whole)

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

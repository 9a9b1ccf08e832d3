"""The bounds of a whole manifest: for each column the least and greatest value over all its files, right or absent."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from indextables.model.actions import MetadataAction
from indextables.model.column_ranges import FileRanges
from indextables.model.file_values import TextMaps
from indextables.model.predicate.tree import Column
from indextables.model.schema import is_atomic, schema_from_json
from indextables.model.stat_text import decode_value, encode_value
from indextables.model.state import Bounds


class BoundsFinder:
    """Finds the bounds of file lists of one table, by the types of its schema."""

    def __init__(self, metadata: MetadataAction) -> None:
        schema = schema_from_json(metadata.schema_string)
        self._types = {f.name: f.type for f in schema if is_atomic(f.type)}
        self._partition_columns = tuple(metadata.partition_columns or ())

    def of(self, files: pa.Table) -> tuple[dict[str, Bounds], dict[str, Bounds]]:
        """The bounds that every reader understands (partition columns), and those found by type (all columns).

        Other readers compare partition bounds as text or as what looks like numbers: a partition column is bounded for
        them only where the order of its texts agrees with that of its values.
        """
        ranges = FileRanges(files, self._partition_columns)
        by_type = self._partitions(ranges) | self._statistics(files, ranges)
        for_all = {
            name: bounds
            for name in self._partition_columns
            if name in by_type and (bounds := self._agreeing(files, name, by_type[name])) is not None
        }
        return for_all, by_type

    def _partitions(self, ranges: FileRanges) -> dict[str, Bounds]:
        found = {}
        for name in self._partition_columns:
            if name not in self._types:
                continue
            spread = ranges.range_of(Column((name,), self._types[name]), nulls=False)
            unreadable = pc.is_null(spread.low).to_numpy(zero_copy_only=False) & spread.can_value
            if not unreadable.any():
                found[name] = (_end(spread.low, "min"), _end(spread.high, "max"))
        return {name: bounds for name, bounds in found.items() if bounds != (None, None)}

    def _statistics(self, files: pa.Table, ranges: FileRanges) -> dict[str, Bounds]:
        # A column is bounded only if it is in every file, so the first file names all that can be.
        first = {key for side in ("min_values", "max_values") for key, _ in files.column(side)[0].as_py() or ()}
        found = {}
        for name in sorted(first - set(self._partition_columns)):
            if name not in self._types:
                continue
            spread = ranges.range_of(Column((name,), self._types[name]), nulls=False)
            low = None if spread.low.null_count else _end(spread.low, "min")
            high = None if spread.high.null_count else _end(spread.high, "max")
            found[name] = (low, high)
        return {name: bounds for name, bounds in found.items() if bounds != (None, None)}

    def _agreeing(self, files: pa.Table, name: str, typed: Bounds) -> Bounds | None:
        texts, _ = TextMaps(files.column("partition_values")).lookup(name)
        ends = pc.min_max(texts)
        kind = self._types[name]
        low, high = ends["min"].as_py(), ends["max"].as_py()
        if low is None or high is None or None in typed:
            return None
        same_low = decode_value(low, kind) == decode_value(str(typed[0]), kind)
        same_high = decode_value(high, kind) == decode_value(str(typed[1]), kind)
        return (low, high) if same_low and same_high else None


def _end(values: Any, which: str) -> str | None:
    """The least or greatest value as text; None if there is none or it is no number."""
    if pa.types.is_floating(values.type) and pc.any(pc.is_nan(values)).as_py():
        return None
    if pa.types.is_binary(values.type) or pa.types.is_null(values.type):
        return None
    end = pc.min_max(values)[which]
    return encode_value(end) if end.is_valid else None

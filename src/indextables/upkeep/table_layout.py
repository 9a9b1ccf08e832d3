"""What a table must have been like, from what its splits say: schema, partitioning, indexing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
from msgspec import Struct

from indextables.errors import TableNotFoundError
from indextables.model.schema import normalize, schema_from_json, schema_to_json
from indextables.model.schema_changes import merge_schemas
from indextables.splits.description import SplitDescription
from indextables.splits.mapping_settings import settings_of
from indextables.storage.partitions import partition_values


class FoundSplit(Struct, frozen=True):
    """A split that was found, and what it says of itself."""

    path: str
    modified_ms: int
    said: SplitDescription

    @property
    def replaces(self) -> tuple[str, ...]:
        """Marks of the splits whose rows it holds."""
        return self.said.origin.replaces if self.said.origin else ()


class TableLayout(Struct, frozen=True):
    """The table that splits make up."""

    schema_json: str
    partition_columns: tuple[str, ...]
    configuration: Mapping[str, str]
    splits: tuple[FoundSplit, ...]

    def values_of(self, split: FoundSplit) -> dict[str, str | None] | None:
        """The partition of a split: as it says itself, else as its folders spell it; None if it fits no partition."""
        origin = split.said.origin
        found = dict(origin.partition_values) if origin else partition_values(split.path)
        if set(found) != set(self.partition_columns):
            return None
        return {name: found[name] for name in self.partition_columns}


def layout_of(splits: Sequence[FoundSplit], *, url: str) -> TableLayout:
    """The layout of the table that these splits, the oldest first, make up. The newest has the last word."""
    if not splits:
        raise TableNotFoundError(f"None of the splits at {url} can be read.", path=url)
    newest_first = [*reversed(splits)]
    origin = next((split.said.origin for split in newest_first if split.said.origin), None)
    columns = origin.partition_columns if origin else tuple(partition_values(newest_first[0].path))
    schema = _schema(newest_first)
    missing = [pa.field(name, pa.string()) for name in columns if name not in schema.names]
    schema = pa.schema([*schema, *missing])
    body = pa.schema([f for f in schema if f.name not in columns])
    mapping = next((split.said.mapping for split in newest_first if split.said.mapping), None)
    return TableLayout(
        schema_json=schema_to_json(schema),
        partition_columns=columns,
        configuration=settings_of(mapping, body) if mapping else {},
        splits=tuple(splits),
    )


def _schema(newest_first: Sequence[FoundSplit]) -> pa.Schema:
    """Every column of every split; where a split tells the table's schema, its columns and their order as it says."""
    told = dict.fromkeys(split.said.origin.schema for split in newest_first if split.said.origin)
    schemas = [schema_from_json(text) for text in told]
    known = schemas[0] if schemas else normalize(newest_first[0].said.schema)
    for other in schemas[1:]:
        known = merge_schemas(known, other)
    for split in newest_first:
        if split.said.origin is None:
            names = {name.lower() for name in known.names}
            more = [f for f in normalize(split.said.schema) if f.name.lower() not in names]
            known = merge_schemas(known, pa.schema([*known, *more])) if more else known
    return known

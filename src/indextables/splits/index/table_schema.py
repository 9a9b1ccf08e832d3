"""The columns of a table: which of them are stored in splits, and how each of these is indexed."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
from msgspec import Struct

from indextables.config import Settings
from indextables.config.indexing import IndexingSettings
from indextables.model.actions import MetadataAction
from indextables.model.schema import schema_from_json
from indextables.splits.index.mapping import DocMapping


class TableSchema(Struct, frozen=True):
    """The columns of a table, and by which of them it is partitioned."""

    schema: pa.Schema
    partition_columns: tuple[str, ...] = ()

    @classmethod
    def of(cls, metadata: MetadataAction) -> TableSchema:
        """Return the columns that the metadata defines, by their physical names."""
        return cls(
            schema_from_json(metadata.schema_string), tuple(metadata.partition_columns or ())
        )

    @property
    def stored(self) -> pa.Schema:
        """The columns that splits store: all but the partition columns."""
        if not self.partition_columns:
            return self.schema
        return self.without(self.partition_columns)

    def without(self, columns: Iterable[str]) -> pa.Schema:
        """Return the schema without some columns and without metadata of its own."""
        left_out = set(columns)
        return pa.schema([field for field in self.schema if field.name not in left_out])

    def mapping(self, settings: Settings | IndexingSettings) -> DocMapping:
        """Return how the settings index the stored columns. Raise InvalidInputError for settings
        that do not fit.
        """
        if isinstance(settings, IndexingSettings):
            indexing = settings
        else:
            indexing = settings.group(IndexingSettings)
        return DocMapping.from_settings(self.stored, indexing)

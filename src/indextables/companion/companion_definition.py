"""What a companion is of, as its metadata records it: the source, the columns, and how they are
indexed.

Settings of the index name columns as the source did when the companion first saw them. A column is
recorded with that name (`columns`), so that a rename in the source does not change its index, and a
column that is dropped and added again is indexed as its name says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace

from indextables import config
from indextables.config.indexing import IndexingSettings
from indextables.errors import CorruptTableError, InvalidInputError, nearest
from indextables.model.actions import MetadataAction
from indextables.model.column_names import ColumnNames
from indextables.model.schema_registry import without_registry
from indextables.splits.index.mapping import DocMapping, is_nested, is_text
from indextables.splits.index.table_schema import TableSchema

FORMATS = ("delta", "parquet")
_PREFIX = "indextables.companion."
_ENABLED = f"{_PREFIX}enabled"
_TEXT_KINDS = ("text", "string", "ip", "text_and_string", "exact_only")


class CompanionDefinition(Struct, frozen=True):
    """The source of a companion and what of it is indexed."""

    format: str
    source: str
    """Path or URL of the source."""
    source_id: str = ""
    """Identifier of the source table; empty for a folder."""
    include: tuple[str, ...] = ()
    """The only columns that are indexed; all if empty."""
    exclude: tuple[str, ...] = ()
    """Columns that are not indexed."""
    where: str = ""
    """Condition of the partitions that the companion shows; all if empty."""
    columns: Mapping[str, str] = {}
    """The name of each column by its physical name, when the companion first saw it."""
    synced_version: str = ""
    """The version of the source at the last sync; a digest of the files of a folder."""
    syncs: int = 0
    """Number of syncs, so that two concurrent ones conflict."""

    @classmethod
    def of(cls, metadata: MetadataAction) -> CompanionDefinition | None:
        """Return the definition in a table's metadata; None for a table that is not a companion."""
        configuration = metadata.configuration or {}
        if configuration.get(_ENABLED) != "true":
            return None
        try:
            return cls(
                format=configuration[f"{_PREFIX}sourceFormat"],
                source=configuration[f"{_PREFIX}sourceTablePath"],
                source_id=configuration.get(f"{_PREFIX}sourceId", ""),
                include=_names(configuration, "includeColumns"),
                exclude=_names(configuration, "excludeColumns"),
                where=configuration.get(f"{_PREFIX}whereClause", ""),
                columns=msgspec.json.decode(
                    configuration.get(f"{_PREFIX}columns", "{}"), type=dict[str, str]
                ),
                synced_version=configuration.get(f"{_PREFIX}lastSyncedVersion", ""),
                syncs=int(configuration.get(f"{_PREFIX}syncs", "0")),
            )
        except (KeyError, ValueError) as error:
            raise CorruptTableError(
                f"The metadata of the companion does not say what its source is: {error!r}."
            ) from error

    def to_configuration(self) -> dict[str, str]:
        """Return the entries of a table's configuration."""
        optional = {
            "sourceId": self.source_id,
            "includeColumns": _list(self.include),
            "excludeColumns": _list(self.exclude),
            "whereClause": self.where,
            "lastSyncedVersion": self.synced_version,
        }
        return {
            _ENABLED: "true",
            f"{_PREFIX}sourceFormat": self.format,
            f"{_PREFIX}sourceTablePath": self.source,
            f"{_PREFIX}columns": msgspec.json.encode(dict(self.columns)).decode(),
            f"{_PREFIX}syncs": str(self.syncs),
            **{f"{_PREFIX}{name}": value for name, value in optional.items() if value},
        }

    def known_name(self, physical: str, logical: str) -> str:
        """Return the name by which settings of the index mean a column."""
        return self.columns.get(physical, logical)

    def with_columns(self, names: ColumnNames) -> CompanionDefinition:
        """Return the definition that also records these columns."""
        seen = dict(zip(names.physical.names, names.logical.names, strict=True))
        return replace(self, columns={**seen, **self.columns})


def _names(configuration: Mapping[str, str], key: str) -> tuple[str, ...]:
    return tuple(msgspec.json.decode(configuration.get(f"{_PREFIX}{key}", "[]"), type=list[str]))


def _list(names: Sequence[str]) -> str:
    if not names:
        return ""
    return msgspec.json.encode(list(names)).decode()


def metadata_with(
    metadata: MetadataAction,
    definition: CompanionDefinition,
    schema_json: str,
    partition_columns: tuple[str, ...],
) -> MetadataAction:
    """Return the metadata of a companion with another definition and other columns."""
    own = {
        key: value
        for key, value in (metadata.configuration or {}).items()
        if not key.startswith(_PREFIX)
    }
    configuration = {**own, **definition.to_configuration()}
    return replace(
        metadata,
        configuration=configuration,
        schema_string=schema_json,
        partition_columns=partition_columns,
    )


def check_named_columns(schema: pa.Schema, argument: str, names: Sequence[str]) -> None:
    """Refuse a name that is not a column of the source."""
    for name in names:
        if name not in schema.names:
            near = nearest(name, schema.names)
            hint = f"Columns: {', '.join(schema.names)}."
            if near:
                hint = f"Did you mean {near[0]!r}?"
            raise InvalidInputError(
                f"{argument} names {name!r}, which is not a column of the source.",
                hint=hint,
                column=name,
            )


def shown_configuration(
    metadata: MetadataAction,
    definition: CompanionDefinition,
    columns: ColumnNames,
    partition_columns: Sequence[str],
) -> dict[str, str]:
    """Return a companion's configuration for the columns of one version of its source, by their
    physical names.
    """
    physical, logical = columns.physical, columns.logical
    known = {
        own.name: definition.known_name(own.name, shown.name)
        for own, shown in zip(physical, logical, strict=True)
    }
    by_name: dict[str, list[str]] = {}
    for own, name in known.items():
        by_name.setdefault(name, []).append(own)
    first = {name: owns[0] for name, owns in by_name.items()}
    result: dict[str, str] = {}
    for key, value in (without_registry(metadata).configuration or {}).items():
        match = config.REGISTRY.lookup(key)
        if match is None or (match[1] is None and not match[0].names_columns):
            result[key] = value
        elif match[1] is None:
            renamed = config.with_columns({key: value}, lambda name: first.get(name, name))
            gone = {name.partition("^")[0] for name in _split_names(renamed[key])} - {
                *physical.names
            }
            result |= config.without_columns({key: str(renamed[key])}, gone)
        else:
            family = key[: len(key) - len(match[1])]
            for own in by_name.get(match[1], ()):
                if own not in partition_columns and _fits(physical.field(own).type, value, family):
                    result[family + own] = value
    for own, name in known.items():
        is_left_out = name in definition.exclude or (
            bool(definition.include) and name not in definition.include
        )
        if is_left_out and own not in partition_columns:
            result = config.without_columns(result, {own})
            result[f"indexing.typemap.{own}"] = "none"
    return result


def _split_names(value: object) -> list[str]:
    return [part.strip() for part in str(value).split(",") if part.strip()]


def _fits(kind: pa.DataType, word: str, family: str) -> bool:
    """Return whether a setting of the index fits the type that a column has in this version."""
    if not family.endswith("indexing.typemap."):
        return is_text(kind) or is_nested(kind)
    if word.strip().lower() in _TEXT_KINDS:
        return is_text(kind)
    if word.strip().lower() == "json":
        return is_text(kind) or is_nested(kind)
    return True


def doc_mapping(columns: TableSchema, configuration: Mapping[str, str]) -> DocMapping:
    """Return how a configuration indexes columns."""
    return columns.mapping(config.resolve(table=configuration).group(IndexingSettings))

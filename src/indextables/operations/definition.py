"""What a table is to be: its columns, partitions and settings, as the metadata of a new table or of
a changed one.

What a configuration says of the index must fit the columns, and the rows that are there.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

import pyarrow as pa
from msgspec.structs import replace

from indextables import config
from indextables.config.indexing import IndexingSettings
from indextables.config.registry import is_news, list_settings
from indextables.config.upkeep import ExpirySettings, MergeSettings
from indextables.errors import InvalidInputError, nearest
from indextables.handle import ENGINE_INFO, TableHandle
from indextables.log.transaction import Changes
from indextables.model import protocol as protocols
from indextables.model.actions import MetadataAction
from indextables.model.arguments import argument_error, names_list, whole_number
from indextables.model.conflicts import Operation, layout
from indextables.model.schema import (
    check_partition_columns,
    check_schema,
    check_storable,
    check_without_collation,
    normalize,
    schema_from_json,
    schema_to_json,
)
from indextables.model.schema_registry import KEY_PREFIX, without_registry
from indextables.operations import clustering
from indextables.operations.expire import check_retention
from indextables.splits.index.live_indexing import LiveIndexing, same_terms
from indextables.splits.index.mapping import DocMapping, check_compatible
from indextables.splits.index.table_schema import TableSchema
from indextables.splits.query.fields import QueryFields

logger = logging.getLogger(__name__)


def new_metadata(
    schema: pa.Schema,
    partition_columns: Sequence[str],
    options: Mapping[str, object] | None,
    *,
    table_id: str,
    created_time: int,
    name: str | None = None,
    description: str | None = None,
) -> MetadataAction:
    """The metadata of a new table: its columns and settings, checked."""
    _check_is_schema(schema)
    columns = normalize(schema)
    check_schema(columns)
    check_storable(columns)
    partitions = check_partition_columns(
        columns, names_list("partition_columns", partition_columns)
    )
    check_without_collation(columns, partitions)
    with config.named_as_given(options):
        configuration = by_column(config.table_configuration(options or {}), columns)
        check_indexing(TableSchema(columns, partitions), configuration)
    return MetadataAction(
        id=table_id,
        name=name,
        description=description,
        schema_string=schema_to_json(columns),
        partition_columns=partitions,
        configuration=configuration,
        created_time=created_time,
    )


def _check_is_schema(schema: object) -> None:
    if not isinstance(schema, pa.Schema):
        hint = (
            'Write it as pyarrow.schema([("id", pyarrow.int64()), ("message", pyarrow.string())]).'
        )
        raise argument_error("schema", "a pyarrow.Schema", schema, hint=hint)


def changed_metadata(
    old: MetadataAction,
    *,
    name: str | None,
    description: str | None,
    options: Mapping[str, object],
    unset: Sequence[str],
) -> MetadataAction:
    """The metadata with another name, description or configuration; `unset` names settings to drop."""
    config.refuse_settings_of_callers(options)
    before = old.configuration or {}
    unset = names_list("unset", unset)
    for key in unset:
        is_there = {key, config.bare_key(key)} & {*before, *map(config.bare_key, before)}
        if not is_there and not key.startswith(KEY_PREFIX):
            config.REGISTRY.find(key)  # what is no setting and is not there is a slip
    configuration = {k: v for k, v in before.items() if not {k, config.bare_key(k)} & {*unset}}
    return replace(
        old,
        name=old.name if name is None else name,
        description=old.description if description is None else description,
        configuration={
            **configuration,
            **by_column(config.table_configuration(options), schema_from_json(old.schema_string)),
        },
    )


def by_column(configuration: Mapping[str, str], schema: pa.Schema) -> dict[str, str]:
    """A configuration as a table keeps it: how columns are indexed by their names, never as lists
    of a kind.
    """
    _tell_of_ambiguity(configuration, schema.names)
    indexing = config.resolve(table=configuration).group(IndexingSettings).for_columns(schema.names)
    families = {
        s.key[:-1]: getattr(indexing, s.field_name)
        for s in list_settings(IndexingSettings)
        if s.per_column
    }
    columns = {
        family + column: str(word)
        for family, words in families.items()
        for column, word in words.items()
    }
    others = {
        key: value for key, value in configuration.items() if config.REGISTRY.find(key)[1] is None
    }
    return others | columns


def index_options(
    options: Mapping[str, object] | None,
    schema: pa.Schema,
    *,
    text: Sequence[str] = (),
    substring: Sequence[str] = (),
    vector: Mapping[str, int] | Sequence[str] = (),
) -> dict[str, object]:
    """Return options with the columns of the arguments `text`, `substring` and `vector` as settings
    of the index.
    """
    _check_is_schema(schema)
    families = (("text", "indexing.typemap", "text"), ("substring", "indexing.substring", "True"))
    chosen: dict[str, object] = {}
    given = by_column(config.table_configuration(options or {}), schema)
    for name, dimension in _dimensions(vector, schema).items():
        key = f"indexing.vectorDimension.{name}"
        if given.get(key, str(dimension)) != str(dimension):
            message = (
                f"vector gives {name!r} {dimension} numbers, but the option {key} is {given[key]}."
            )
            raise InvalidInputError(message, hint="Leave one of them out.", column=name)
        chosen[key] = dimension
    for (argument, family, word), names in zip(families, (text, substring), strict=True):
        for name in names_list(argument, names):
            check_is_column(argument, name, schema)
            key = f"{family}.{name}"
            if given.get(key, word).lower() not in (word.lower(), f"{word}_and_string"):
                message = f"{argument} names {name!r}, but the option {key} is {given[key]!r}."
                raise InvalidInputError(message, hint="Leave one of them out.", column=name)
            if key not in given:
                chosen[key] = word
    return {**(options or {}), **chosen}


def check_is_column(argument: str, name: str, schema: pa.Schema) -> None:
    """Refuse a name that an argument gives and that is not a column."""
    if name in schema.names:
        return
    near = nearest(name, schema.names)
    if near:
        hint = f"Did you mean {near[0]!r}?"
    else:
        hint = f"The columns are {', '.join(schema.names)}."
    raise InvalidInputError(
        f"{argument} names {name!r}, which is not a column.", hint=hint, column=name
    )


def _dimensions(vector: Mapping[str, int] | Sequence[str], schema: pa.Schema) -> dict[str, int]:
    """Return how many numbers the vectors of each named column have."""
    if isinstance(vector, Mapping):
        given = {str(name): whole_number("vector", size) for name, size in vector.items()}
    else:
        given = dict.fromkeys(names_list("vector", vector), 0)
    for name, dimension in given.items():
        check_is_column("vector", name, schema)
        kind, fixed = schema.field(name).type, 0
        if pa.types.is_fixed_size_list(kind):
            fixed = kind.list_size
        if dimension and fixed and dimension != fixed:
            raise InvalidInputError(
                f"vector gives {name!r} {dimension} numbers, but its lists have {fixed}.",
                hint="Name the column alone.",
                column=name,
            )
        given[name] = dimension or fixed
        if not given[name]:
            raise InvalidInputError(
                f"vector names {name!r} without the number of components, and its type {kind} does not fix it.",
                hint=f'Write vector={{"{name}": 384}} with the dimension of your model.',
                column=name,
            )
    return given


def has_text_column(schema: pa.Schema, options: Mapping[str, object]) -> bool:
    """Return whether a table with these columns and options would search a column by its words."""
    configuration = by_column(config.table_configuration(options), schema)
    return bool(TableSchema(schema).mapping(config.resolve(table=configuration)).of_kind("text"))


def _tell_of_ambiguity(configuration: Mapping[str, str], columns: Sequence[str]) -> None:
    """Warn where column and kind are called alike, each on its side: `indexing.typemap.text =
    string` may mean either.
    """
    for key, value in configuration.items():
        setting, column = config.REGISTRY.find(key)
        if (
            setting.is_word is None
            or column is None
            or column == value
            or not {column, value} <= {*columns}
        ):
            continue
        if (
            setting.is_word(column.lower())
            and setting.is_word(value.lower())
            and is_news(key, value)
        ):
            logger.warning(
                "%s = %s is taken to be about the column %r, not about %r.",
                key,
                value,
                column,
                value,
            )


def check_change(table: TableHandle, metadata: MetadataAction) -> None:
    """Refuse metadata that does not fit the table's columns, or the way in which its rows are
    indexed.
    """
    configuration = metadata.configuration or {}
    check_indexing(table.physical_columns, configuration)
    if table.snapshot.all_files.num_rows:
        check_same_index(table.physical_columns, table.indexing, configuration)


def sort_columns(table: TableHandle, order_by: str | Sequence[str]) -> tuple[str, ...]:
    """What a merge is asked to sort by, in the splits' names."""
    return table.names.columns(clustering.sort_columns(table.logical_columns.stored, order_by))


def check_indexing(columns: TableSchema, configuration: Mapping[str, str]) -> None:
    """Refuse settings of the index that every reader of the table would stumble over."""
    settings = config.resolve(table=configuration)
    indexing = settings.group(IndexingSettings)
    named = {*indexing.typemap, *indexing.tokenizer, *indexing.record_option, *indexing.nonindexed}
    for column in columns.partition_columns:
        if column in named:
            raise InvalidInputError(
                f"{column!r} is a partition column, which has no index.",
                hint=f"Leave the indexing settings of {column!r} out; its values prune whole splits as they are.",
                column=column,
            )
    QueryFields.of(columns, settings)
    clustering.sort_columns(columns.stored, settings.group(MergeSettings).cluster_by)
    check_retention(columns.schema, settings.group(ExpirySettings))


def check_same_index(columns: TableSchema, before: LiveIndexing, after: Mapping[str, str]) -> None:
    """Refuse a configuration under which rows that are there would have to be indexed in another
    way.

    What it leaves out the splits tell; and a column that they index in several ways may be settled
    on one of them.
    """
    try:
        old_mapping = columns.mapping(config.resolve(table=before.configuration))
    except InvalidInputError:
        return  # no row was ever written under it, and mending it must be possible
    indexing = config.resolve(table=after).group(IndexingSettings)
    named = {*indexing.typemap, *indexing.tokenizer, *indexing.record_option, *indexing.nonindexed}
    new_mapping = columns.mapping(indexing)
    for column in new_mapping.columns:
        ways = before.disputed.get(column.name, ())
        if ways and column.name in named and not any(same_terms(way, column) for way in ways):
            kinds = " or ".join(way.terms for way in ways)
            raise InvalidInputError(
                f"Column {column.name!r} is indexed as {kinds}; it cannot be {column.terms}.",
                column=column.name,
            )
    undecided = {*before.disputed, *(before.followed - named)}
    check_compatible(
        old_mapping, DocMapping(tuple(c for c in new_mapping.columns if c.name not in undecided))
    )


def set_properties(
    table: TableHandle,
    *,
    options: Mapping[str, object],
    properties: Mapping[str, str],
    unset: Sequence[str] = (),
    description: str | None = None,
) -> int | None:
    """Change settings and user properties. Return the version, None if nothing changed."""
    known = {*(table.metadata.configuration or {})}
    forgotten = [key for key in unset if key in known or config.is_setting(key)]
    with config.named_as_given(options):
        changed = changed_definition(
            table, description=description, options=options, unset=forgotten
        )
        return commit_definition(
            table, replace(changed, configuration={**(changed.configuration or {}), **properties})
        )


def changed_definition(
    table: TableHandle,
    *,
    name: str | None = None,
    description: str | None = None,
    options: Mapping[str, object],
    unset: Sequence[str],
) -> MetadataAction:
    """The metadata of a table with another name, description or settings, which name columns as
    people do.
    """
    names = table.names
    return changed_metadata(
        without_registry(table.snapshot.metadata),
        name=name,
        description=description,
        options=names.options(options),
        unset=tuple(names.options(dict.fromkeys(unset))),
    )


def commit_definition(table: TableHandle, metadata: MetadataAction) -> int | None:
    """Commit metadata that fits the rows that are there; returns the version, None if nothing
    changed.
    """
    old = without_registry(table.snapshot.metadata)
    if metadata == old:
        return None
    check_change(table, metadata)
    reindexes = layout(metadata) != layout(old)
    return table.commit(
        Changes(Operation.METADATA, metadata=metadata, reindexes=reindexes, engine_info=ENGINE_INFO)
    )


def update_metadata(
    table: TableHandle,
    *,
    name: str | None,
    description: str | None,
    options: Mapping[str, object] | None,
    unset: Sequence[str],
) -> int | None:
    """Change the name, the description or the configuration. See `Table.update_metadata`."""
    given, forgotten = options or {}, names_list("unset", unset)
    with config.named_as_given(given):
        metadata = changed_definition(
            table, name=name, description=description, options=given, unset=forgotten
        )
        version = commit_definition(table, metadata)
    # The table defines from now on how columns are indexed; what the handle was opened with is
    # older.
    table.forget_index_options(given)
    return version


def upgrade_protocol(
    table: TableHandle, *, min_reader_version: int, min_writer_version: int, features: Sequence[str]
) -> int | None:
    """Raise the protocol. See `Table.upgrade_protocol`."""
    protocol = protocols.raise_protocol(
        table.protocol,
        min_reader_version=min_reader_version,
        min_writer_version=min_writer_version,
        features=tuple(features),
    )
    if protocol == table.protocol:
        return None
    return table.commit(Changes(Operation.PROTOCOL, protocol=protocol, engine_info=ENGINE_INFO))

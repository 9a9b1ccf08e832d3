"""Whether a table can have a configuration: what it says of the index must fit the columns, and the rows that are there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from indextables import config
from indextables.config.indexing import IndexingSettings
from indextables.errors import InvalidInputError
from indextables.scan.plan import query_fields
from indextables.splits.index.live_indexing import LiveIndexing, same_terms
from indextables.splits.index.mapping import DocMapping, check_compatible


def check_indexing(schema: pa.Schema, partition_columns: Sequence[str], configuration: Mapping[str, str]) -> None:
    """Refuse settings of the index that every reader of the table would stumble over."""
    settings = config.resolve(table=configuration)
    indexing = settings.group(IndexingSettings)
    named = {*indexing.typemap, *indexing.tokenizer, *indexing.record_option, *indexing.nonindexed}
    for column in partition_columns:
        if column in named:
            raise InvalidInputError(
                f"{column!r} is a partition column, which has no index.",
                hint=f"Leave the indexing settings of {column!r} out; its values prune whole splits as they are.",
                column=column,
            )
    query_fields(schema, partition_columns, settings)


def check_same_index(
    schema: pa.Schema, partition_columns: Sequence[str], before: LiveIndexing, after: Mapping[str, str]
) -> None:
    """Refuse a configuration under which rows that are there would have to be indexed in another way.

    What it leaves out the splits tell; and a column that they index in several ways may be settled on one of them.
    """
    body = pa.schema([f for f in schema if f.name not in partition_columns])
    try:
        known = DocMapping.from_settings(body, config.resolve(table=before.configuration).group(IndexingSettings))
    except InvalidInputError:
        return  # no row was ever written under it, and mending it must be possible
    wanted = config.resolve(table=after).group(IndexingSettings)
    named = {*wanted.typemap, *wanted.tokenizer, *wanted.record_option, *wanted.nonindexed}
    asked = DocMapping.from_settings(body, wanted)
    for column in asked.columns:
        ways = before.disputed.get(column.name, ())
        if ways and column.name in named and not any(same_terms(way, column) for way in ways):
            shown = " or ".join(way.terms for way in ways)
            raise InvalidInputError(
                f"Column {column.name!r} is indexed as {shown}; it cannot be {column.terms}.", column=column.name
            )
    told = {*before.disputed, *(before.followed - named)}
    check_compatible(known, DocMapping(tuple(c for c in asked.columns if c.name not in told)))

"""The settings that lead to a doc mapping: what a table must have been told for its splits to be as they are."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import pyarrow as pa

from indextables.config import REGISTRY, is_setting, resolve
from indextables.config.indexing import IndexingSettings
from indextables.splits.mapping import DocMapping, same_index


def settings_of(mapping: DocMapping, schema: pa.Schema) -> dict[str, str]:
    """Settings under which the schema is mapped in the same way; what is the default anyway is left out."""
    kinds = DocMapping.from_settings(schema, IndexingSettings())
    typemap = {c.name: c.kind for c in mapping.columns if (d := kinds.find(c.name)) and d.kind != c.kind}
    typed = DocMapping.from_settings(schema, IndexingSettings(typemap=typemap))
    found = {f"indexing.typemap.{name}": kind for name, kind in typemap.items()}
    for column in mapping.columns:
        implied = typed.find(column.name)
        if implied is None:
            continue
        if column.tokenizer != implied.tokenizer:
            found[f"indexing.tokenizer.{column.name}"] = column.tokenizer
        if column.record != implied.record:
            found[f"indexing.indexrecordoption.{column.name}"] = column.record
        if column.max_token_length != implied.max_token_length:
            found["indexing.maxTokenLength"] = str(column.max_token_length)
    return found


def recorded_as(
    mapping: DocMapping, schema: pa.Schema, columns: Collection[str], configuration: Mapping[str, str]
) -> dict[str, str]:
    """The configuration of a table some of whose columns are from now on indexed like this, and the others as before."""
    kept = {key: left for key, value in configuration.items() if (left := _without(key, value, columns)) is not None}
    chosen = DocMapping(tuple(c for c in mapping.columns if c.name in columns))
    told = {**kept, **settings_of(chosen, schema)}
    before = DocMapping.from_settings(schema, resolve(table=configuration).group(IndexingSettings))
    changed = [c for c in chosen.columns if (old := before.find(c.name)) is None or not same_index(old, c)]
    return told if changed else dict(configuration)


def _without(key: str, value: str, columns: Collection[str]) -> str | None:
    """A setting without what it says of some columns; None if nothing is left of it."""
    if not is_setting(key):
        return value
    found, column, parsed = REGISTRY.parse(key, value)
    if found.group is not IndexingSettings:
        return value
    if found.field_name == "nonindexed":
        return ",".join(name for name in parsed if name not in columns) or None
    return None if column is None or column in columns else value

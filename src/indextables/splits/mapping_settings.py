"""The settings that lead to a doc mapping: what a table must have been told for its splits to be as they are."""

from __future__ import annotations

import pyarrow as pa

from indextables.config.indexing import IndexingSettings
from indextables.splits.mapping import DocMapping


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

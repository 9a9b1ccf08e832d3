"""Settings of what is indexed and how a bare word is searched."""

from __future__ import annotations

from collections.abc import Mapping

from indextables.config.registry import SettingsGroup, setting
from indextables.config.values import integer, names, text


class IndexingSettings(SettingsGroup, frozen=True):
    """How columns are indexed. Words are checked together with the schema, so that one error names every fault."""

    typemap: Mapping[str, str] = setting(
        "indexing.typemap.*", text(), {}, "Kind of index of a column: string, text, json, ip or none.", in_table=True
    )
    tokenizer: Mapping[str, str] = setting(
        "indexing.tokenizer.*",
        text(),
        {},
        "How the text of a column is cut into terms: default, raw, en_stem, ngram and others.",
        in_table=True,
    )
    record_option: Mapping[str, str] = setting(
        "indexing.indexrecordoption.*",
        text(),
        {},
        "What is kept of each term of a column: basic, freq or position.",
        in_table=True,
    )
    nonindexed: tuple[str, ...] = setting(
        "indexing.nonindexed", names(), (), "Columns that get no index.", in_table=True
    )
    max_token_length: int = setting(
        "indexing.maxTokenLength",
        integer(1, 32_000),
        255,
        "Longest term that is indexed, in bytes of UTF-8; longer ones are answered from the rows.",
        in_table=True,
    )


class SearchSettings(SettingsGroup, frozen=True):
    """How a query is understood."""

    default_fields: tuple[str, ...] = setting(
        "indexing.defaultSearchFields",
        names(),
        (),
        "Columns that a bare word searches; empty: every text column.",
        in_table=True,
    )
    max_default_fields: int = setting(
        "indexing.maxDefaultSearchFields",
        integer(1),
        32,
        "Most text columns that a bare word searches when no default fields are set; more is an error.",
        in_table=True,
    )

"""Settings of what is indexed and how a bare word is searched."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from msgspec.structs import replace

from indextables.config.jvm_names import REFUSED_KINDS
from indextables.config.registry import SettingsGroup, setting
from indextables.config.values import ValueType, boolean, integer, names, text, time_zone, word_of

KINDS = ("string", "text", "json", "ip", "none")
EXACT_KINDS = ("text_and_string", "exact_only")
"""The kinds with a field for whole values."""
RECORD_OPTIONS = ("basic", "freq", "position")
METRICS = ("cosine", "l2", "dot")
"""How the distance of two vectors is measured; the first is the default."""
MAX_DIMENSION = 65_536
STEMMERS = {
    "ar_stem": "arabic",
    "da_stem": "danish",
    "nl_stem": "dutch",
    "en_stem": "english",
    "fi_stem": "finnish",
    "fr_stem": "french",
    "de_stem": "german",
    "el_stem": "greek",
    "hu_stem": "hungarian",
    "it_stem": "italian",
    "no_stem": "norwegian",
    "pt_stem": "portuguese",
    "ro_stem": "romanian",
    "ru_stem": "russian",
    "es_stem": "spanish",
    "sv_stem": "swedish",
    "ta_stem": "tamil",
    "tr_stem": "turkish",
}
TOKENIZERS = ("default", "raw", "lowercase_raw", "whitespace", "ngram", *STEMMERS)
CHAIN = "|"
"""Separator of the parts of a chain, which occurs in no tokenizer name."""
MAX_TOKEN_LENGTH = 32_000
TOKEN_LENGTHS = {"legacy": 40, "default": 255, "tantivy_max": MAX_TOKEN_LENGTH, "min_limit": 1}
"""The words of IndexTables for the JVM for lengths. The longest term leaves space for the path of a
json value.
"""
_OTHER_NAMES = {"ipaddress": "ip", "ipaddr": "ip"}


def _is_kind(word: str) -> bool:
    return word in (*KINDS, *EXACT_KINDS, *_OTHER_NAMES, *REFUSED_KINDS)


def _kind(value: object) -> str:
    """Return a kind under our name. Unknown kinds are returned unchanged and refused with the
    columns.
    """
    return _OTHER_NAMES.get(str(value).strip().lower(), str(value))


def _is_tokenizer(word: str) -> bool:
    return word in TOKENIZERS or CHAIN in word


def _is_length(word: str) -> bool:
    return word in TOKEN_LENGTHS or word.isdecimal()


_LISTS: Mapping[str, Callable[[str], bool]] = {
    "typemap": _is_kind,
    "tokenizer": _is_tokenizer,
    "record_option": RECORD_OPTIONS.__contains__,
    "token_length": _is_length,
}
"""Settings that may list the columns of a word, and their words."""


class IndexingSettings(SettingsGroup, frozen=True):
    """How columns are indexed. Values are checked together with the schema, so one error names
    every fault.
    """

    typemap: Mapping[str, str] = setting(
        "indexing.typemap.*",
        ValueType("text", "any text", _kind),
        {},
        "Kind of index of a column: string, text, text_and_string, exact_only, json, ip or none.",
        in_table=True,
        is_word=_is_kind,
    )
    tokenizer: Mapping[str, str] = setting(
        "indexing.tokenizer.*",
        text(),
        {},
        "How a column is split into terms: default, raw, en_stem, ngram and others, or a chain "
        "such as words|lowercase|ascii.",
        in_table=True,
        is_word=_is_tokenizer,
    )
    record_option: Mapping[str, str] = setting(
        "indexing.indexrecordoption.*",
        text(),
        {},
        "What the index stores of each term of a column: basic, freq or position.",
        in_table=True,
        is_word=RECORD_OPTIONS.__contains__,
    )
    text_record: str = setting(
        "indexing.text.indexRecordOption",
        word_of(*RECORD_OPTIONS),
        "position",
        "What the index stores of each term of text columns without a setting of their own.",
        in_table=True,
    )
    token_length: Mapping[str, str] = setting(
        "indexing.tokenLength.*",
        text(),
        {},
        "Longest term of a column that is indexed, in bytes of UTF-8, or legacy (40), tantivy_max, min_limit (1).",
        in_table=True,
        is_word=_is_length,
    )
    substring: Mapping[str, bool] = setting(
        "indexing.substring.*",
        boolean(),
        {},
        "Whether every three neighbouring characters of a column are indexed too, so that "
        "`LIKE '%x%'` does not read all rows.",
        in_table=True,
    )
    nonindexed: tuple[str, ...] = setting(
        "indexing.nonindexed",
        names(),
        (),
        "Columns that get no index.",
        in_table=True,
        names_columns=True,
    )
    vector_dimension: Mapping[str, int] = setting(
        "indexing.vectorDimension.*",
        integer(1, MAX_DIMENSION),
        {},
        "How many numbers each vector of a column has. The column is then searched by similarity, "
        "and vectors of another length, NaN and infinity are refused.",
        in_table=True,
    )
    vector_metric: Mapping[str, str] = setting(
        "indexing.vectorMetric.*",
        word_of(*METRICS),
        {},
        "How the distance of two vectors of a column is measured; cosine if it is not set.",
        in_table=True,
    )
    max_token_length: int = setting(
        "indexing.maxTokenLength",
        integer(1, MAX_TOKEN_LENGTH),
        255,
        "Longest term that is indexed, in bytes of UTF-8; longer ones are answered from the rows.",
        in_table=True,
    )

    def for_columns(self, columns: Collection[str]) -> IndexingSettings:
        """Return the same settings by column: `indexing.typemap.text = a,b` has the kind first and
        lists its columns.

        Most such lists are detected by their words when settings are read (`Setting.lists`). This
        method handles words that are also columns: a column with the name of a kind wins over the
        kind. Other entries are unchanged and refused with the columns.
        """
        return replace(
            self,
            **{
                name: _by_column(getattr(self, name), columns, is_word)
                for name, is_word in _LISTS.items()
            },
        )


def _by_column(
    words: Mapping[str, str], columns: Collection[str], is_word: Callable[[str], bool]
) -> dict[str, str]:
    """Return words by column from entries `column = word` and `word = column, column`. The former
    take precedence.

    A misspelt word of a list wins, so that the validation of columns reports it.
    """
    particular = {key: value for key, value in words.items() if key in columns}
    listed: dict[str, str] = {}
    for key, value in words.items():
        names = [name for part in value.split(",") if (name := part.strip())]
        if key in columns:
            continue
        if any(name in columns for name in names):
            word = key.lower()
            known = [name for name in names if name in listed and not is_word(listed[name])]
            listed.update({name: word for name in names if name not in known})
        else:
            particular[key] = value
    misspelt = {name: word for name, word in listed.items() if not is_word(word)}
    chosen = listed | particular | misspelt
    return {key: _OTHER_NAMES.get(word.strip().lower(), word) for key, word in chosen.items()}


def _pushdown(key: str, what: str) -> Any:
    """Return a setting that decides whether one kind of condition uses the index."""
    how = "uses the index to find candidate rows (`indexing.substring`); if not, every row is read."
    return setting(
        f"filter.string{key}.pushdown", boolean(), True, f"Whether {what} {how}", in_table=True
    )


class FilterSettings(SettingsGroup, frozen=True):
    """Which conditions over parts of texts use the index. The result is the same."""

    pattern: bool = _pushdown(
        "Pattern", "a LIKE pattern that is none of the following, or a regular expression (RLIKE),"
    )
    starts_with: bool = _pushdown(
        "StartsWith", "a condition `startswith(column, 'x')` or `column LIKE 'x%'`"
    )
    ends_with: bool = _pushdown(
        "EndsWith", "a condition `endswith(column, 'x')` or `column LIKE '%x'`"
    )
    contains: bool = _pushdown(
        "Contains", "a condition `contains(column, 'x')` or `column LIKE '%x%'`"
    )

    @property
    def by_rows(self) -> frozenset[str]:
        """Return the kinds of conditions that are evaluated on rows only."""
        return frozenset(name for name in self.__struct_fields__ if not getattr(self, name))


DEFAULT_OPERATOR = "query.defaultOperator"
TIME_ZONE = "condition.timeZone"


class SearchSettings(SettingsGroup, frozen=True):
    """How a query is parsed."""

    default_fields: tuple[str, ...] = setting(
        "indexing.defaultSearchFields",
        names(),
        (),
        "Columns that a bare word searches, with optional weights (`subject^3,body`); empty: every text column.",
        in_table=True,
        names_columns=True,
    )
    max_default_fields: int = setting(
        "indexing.maxDefaultSearchFields",
        integer(1),
        32,
        "Maximum number of text columns that a bare word searches when no default fields are set; more is an error.",
        in_table=True,
    )
    default_operator: str = setting(
        DEFAULT_OPERATOR,
        word_of("or", "and"),
        "or",
        "Whether bare words next to each other, such as `disk full`, must match all (`and`) or "
        "any (`or`). The default is `and` in tables of IndexTables for the JVM.",
        in_table=True,
    )
    time_zone: str = setting(
        TIME_ZONE,
        time_zone(),
        "UTC",
        "The zone of days and times in conditions (`where`) that name none. In Spark it is that of the session "
        "(`spark.sql.session.timeZone`).",
    )
    max_terms: int = setting(
        "query.maxMatchedTerms",
        integer(0),
        0,
        "Maximum number of terms per split that a prefix, wildcard or regular expression may "
        "match in a text or string column; more is an error. Counting takes about 5 "
        "microseconds per term with the same beginning. 0: no limit.",
    )

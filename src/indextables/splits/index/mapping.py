"""The doc mapping: which column is indexed, as what kind, with which tokenizer. It is part of every
split.

| kind | columns | index |
|---|---|---|
| `string` | text columns unless said otherwise | the whole value as one term: exact match |
| `text` | text columns | cut into terms by a tokenizer, with positions |
| `json` | struct, map and array columns, not arrays of floats by default; text with JSON | one term per path and value |
| `ip` | text columns | addresses: exact, CIDR, range |
| `text_and_string` | text columns | as `text`, plus the whole value as one term |
| `exact_only` | text columns | a hash of the whole value, for equality; the rows confirm |
| `none` | everything else, and what is left out on purpose | no index: Parquet answers |

Tantivy fields are named by the column's place (`c0`, `c1`, …), so that any column name works.

A mapping can be converted back to the settings that lead to it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping
from functools import cached_property, lru_cache
from typing import Any

import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace

from indextables.config import REGISTRY, is_setting
from indextables.config.indexing import (
    CHAIN,
    EXACT_KINDS,
    KINDS,
    MAX_TOKEN_LENGTH,
    METRICS,
    RECORD_OPTIONS,
    STEMMERS,
    TOKEN_LENGTHS,
    TOKENIZERS,
    IndexingSettings,
)
from indextables.config.jvm_names import REFUSED_KINDS
from indextables.errors import BadFileError, InvalidInputError, nearest
from indextables.model.schema import METADATA_KEY

EXACT_VALUE, EXACT_HASH = "value", "hash"
_EXACT_KINDS = dict(zip(EXACT_KINDS, (("text", EXACT_VALUE), ("none", EXACT_HASH)), strict=True))
"""Kinds with a field for whole values: the base kind of the column, and the content of that field.
"""
GRAM_TOKENIZER = "gram3"
"""Trigrams in lower case. Tokenizer of the second field of a column; settings cannot name it."""
WHOLE_TOKENIZERS = ("raw", "lowercase_raw")
CHAIN_SOURCES = ("words", "whitespace", "entities", "code")
CODE_PARTS = "code2"
"""The source that cuts names in code: `HTTPServer` is `http`, `server`, and `0xFF` stays whole."""
CODE_NAMES = "code3"
"""How splits record the source `code`: the parts of a name, and after the text its lower-case
spelling, `httpserver`.
"""
_OLD_CODE, _OLD_CODE_SETTING = "code", "code1"
"""How splits of 0.1.0 record the source `code`, and the setting that requests it."""
_RECORDED = {"code": CODE_NAMES, _OLD_CODE_SETTING: _OLD_CODE}
_SPELLED = {recorded: spelled for spelled, recorded in _RECORDED.items()}
CHAIN_FILTERS = ("lowercase", "ascii", "stop:<language>", "stem:<language>")
LANGUAGES = tuple(sorted(set(STEMMERS.values())))
_DEFAULT_TOKENIZER = {"string": "raw", "text": "default", "json": "default"}
_DEFAULT_RECORD = {"string": "basic", "text": "position", "json": "position"}
_FORMAT = 1


def chain_fault(text: str) -> str:
    """Return the fault in a chain such as `words|lowercase|ascii|stop:english|stem:english`, or an
    empty text.
    """
    source, *filters = text.split(CHAIN)
    if source not in (*CHAIN_SOURCES, _OLD_CODE_SETTING, CODE_PARTS):
        return f"a chain starts with {', '.join(CHAIN_SOURCES)}, not {source!r}"
    for part in filters:
        kind, _, language = part.partition(":")
        if part not in ("lowercase", "ascii") and kind not in ("stop", "stem"):
            return f"{part!r} is none of {', '.join(CHAIN_FILTERS)}"
        if kind in ("stop", "stem") and language not in LANGUAGES:
            return f"{part!r} names none of the languages {', '.join(LANGUAGES)}"
    if len(set(filters)) < len(filters):
        return "a filter occurs twice"
    return ""


def recorded_chain(setting: str) -> str:
    """Return the recorded form of a chain in a setting."""
    return _with_source(setting, _RECORDED)


def _with_source(chain: str, names: Mapping[str, str]) -> str:
    source, separator, filters = chain.partition(CHAIN)
    if separator:
        return f"{names.get(source, source)}{separator}{filters}"
    return chain


def _keeps_old_code(old: ColumnMapping, new: ColumnMapping) -> bool:
    """Whether a column is recorded with an earlier form of the source `code`, and a setting
    requests `code`.
    """
    chain = _with_source(old.tokenizer, {_OLD_CODE: CODE_NAMES, CODE_PARTS: CODE_NAMES})
    return chain != old.tokenizer and chain == new.tokenizer and old.kind == new.kind


def keep_old_code(recorded: Iterable[ColumnMapping], mapping: DocMapping) -> DocMapping:
    """The mapping in which columns that are recorded with an earlier form of the source `code` keep
    it.
    """
    old = {column.name: column for column in recorded}
    return DocMapping(
        tuple(
            replace(new, tokenizer=old[new.name].tokenizer)
            if new.name in old and _keeps_old_code(old[new.name], new)
            else new
            for new in mapping.columns
        )
    )


def query_tokenizer(tokenizer: str) -> str:
    """The tokenizer for the words of a query: a name in a query is its parts, next to each other."""
    return _with_source(tokenizer, {CODE_NAMES: CODE_PARTS})


def keeps_case(tokenizer: str) -> bool:
    """Return whether the terms of a tokenizer are case-sensitive."""
    if CHAIN in tokenizer:
        return "lowercase" not in tokenizer.split(CHAIN)
    return tokenizer in ("raw", "whitespace")


def before_stems(tokenizer: str) -> str:
    """Return the tokenizer without stemmer and stop words, for comparing parts of words."""
    if CHAIN not in tokenizer:
        if tokenizer in STEMMERS:
            return "default"
        return tokenizer
    parts = [part for part in tokenizer.split(CHAIN) if not part.startswith(("stop:", "stem:"))]
    if len(parts) > 1:
        return CHAIN.join(parts)
    return f"{parts[0]}{CHAIN}"


UNINDEXED = "-"
"""Placeholder for the tantivy field of a split that lacks the index which the table declares."""
INDEX_KEY = "indextables.index"
"""Field metadata key for the index of a column that some splits index differently or not at all."""


class ColumnMapping(Struct, frozen=True):
    """How one column is indexed. `tokenizer` and `record` are empty for kinds without text terms."""

    name: str
    field: str
    kind: str
    tokenizer: str = ""
    record: str = ""
    max_token_length: int = 255
    substring: bool = False
    """Whether there is a second field with the trigrams of the text."""
    exact: str = ""
    """Content of the field for whole values, if there is one: `value` or `hash`."""
    dimension: int = 0
    """How many numbers each vector of the column has; 0 if it does not hold vectors."""
    metric: str = ""
    """How the distance of two vectors is measured."""

    @property
    def whole(self) -> ColumnMapping | None:
        """The field for whole values as a column mapping, or None."""
        if not self.exact or self.is_unindexed_here:
            return None
        name = f"w{self.field[1:]}"
        if self.exact == EXACT_HASH:
            return ColumnMapping(self.name, name, "hash")
        return ColumnMapping(self.name, name, "whole", "raw", "basic", self.max_token_length)

    @property
    def shown_kind(self) -> str:
        """The kind under its setting name."""
        kinds = (
            word for word, meaning in _EXACT_KINDS.items() if meaning == (self.kind, self.exact)
        )
        return next(kinds, self.kind)

    @property
    def grams(self) -> ColumnMapping:
        """The trigram field as a column mapping."""
        return ColumnMapping(self.name, f"g{self.field[1:]}", "grams", GRAM_TOKENIZER, "basic")

    @property
    def indexed(self) -> bool:
        """Whether tantivy has a field for the column."""
        return self.kind != "none"

    @property
    def is_unindexed_here(self) -> bool:
        """Whether the table indexes the column but this split does not. Its rows are then analyzed
        as the table declares.
        """
        return self.field == UNINDEXED

    @property
    def terms(self) -> str:
        """The kind with its details, for messages and `explain`."""
        details = [d for d in (self.tokenizer, self.record) if d]
        if self.dimension:
            return f"vectors of {self.dimension} numbers ({self.metric})"
        if details:
            return f"{self.shown_kind} ({', '.join(details)})"
        return self.shown_kind


class DocMapping(Struct, frozen=True, dict=True):
    """The mapping of every column, in schema order. Frozen, picklable, with a JSON form."""

    columns: tuple[ColumnMapping, ...]

    @classmethod
    def from_settings(
        cls, schema: pa.Schema, settings: IndexingSettings, *, recorded: DocMapping | None = None
    ) -> DocMapping:
        """Build the mapping of a schema from settings. Raises one error that lists every fault and
        the known columns.

        With `recorded` (the existing mapping of the table), columns keep their recorded index, and
        a setting that contradicts it is a fault.
        """
        settings = settings.for_columns(schema.names)
        faults = [*_unknown_columns(schema, settings)]
        old = {c.name: c for c in recorded.columns} if recorded else {}
        taken = max((int(c.field[1:]) + 1 for c in old.values()), default=0)
        columns = []
        for field in schema:
            previous = old.get(field.name)
            name = previous.field if previous else f"c{taken}"
            taken += previous is None
            column, column_faults = _column(field, name, settings, previous)
            faults += column_faults
            columns.append(column)
        if faults:
            message = f"The indexing settings have {len(faults)} fault(s): {' '.join(faults)}"
            raise InvalidInputError(
                message,
                hint=f"Known columns: {', '.join(schema.names)}.",
                faults=faults,
                columns=schema.names,
            )
        return cls(tuple(columns))

    def find(self, name: str) -> ColumnMapping | None:
        """Return the mapping of a column by its exact name."""
        return self._by_name.get(name)

    @cached_property
    def _by_name(self) -> dict[str, ColumnMapping]:
        return {column.name: column for column in reversed(self.columns)}

    def of_kind(self, *kinds: str) -> tuple[ColumnMapping, ...]:
        """Return the columns of some kinds in schema order."""
        return tuple(c for c in self.columns if c.kind in kinds)

    @property
    def indexed(self) -> tuple[ColumnMapping, ...]:
        """The columns with a tantivy field, followed by the fields for trigrams and whole values."""
        grams = tuple(c.grams for c in self.columns if c.substring)
        wholes = tuple(whole for c in self.columns if (whole := c.whole) is not None)
        return (*(c for c in self.columns if c.indexed), *grams, *wholes)

    def to_json(self) -> str:
        """Return the mapping as canonical JSON: equal mappings give equal text."""
        columns = [
            {
                "name": c.name,
                "field": c.field,
                "kind": c.kind,
                "tokenizer": c.tokenizer,
                "record": c.record,
                "maxTokenLength": c.max_token_length,
                **({"substring": True} if c.substring else {}),
                **({"exact": c.exact} if c.exact else {}),
                **({"dimension": c.dimension, "metric": c.metric} if c.dimension else {}),
            }
            for c in self.columns
        ]
        return json.dumps(
            {"version": _FORMAT, "columns": columns}, separators=(",", ":"), ensure_ascii=False
        )

    @classmethod
    def from_json(cls, text: str) -> DocMapping:
        """Parse the mapping of a split or a log entry. Equal texts return the same object."""
        return _recorded_mapping(text)

    @property
    def ref(self) -> str:
        """Hash of the JSON form (`docMappingRef` in the log)."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()[:16]


@lru_cache(maxsize=256)
def _recorded_mapping(text: str) -> DocMapping:
    try:
        value = json.loads(text)
        if value["version"] != _FORMAT:
            raise ValueError(f"version {value['version']}")
        return DocMapping(tuple(_column_from_json(c) for c in value["columns"]))
    except (ValueError, KeyError, TypeError) as e:
        raise BadFileError(f"A doc mapping cannot be read: {e}.", text=text[:200]) from e


def check_compatible(recorded: DocMapping, requested: DocMapping) -> None:
    """Raise an error that names a recorded column which a mapping indexes differently."""
    faults = [
        _differs(old, new)
        for new in requested.columns
        if (old := recorded.find(new.name)) is not None
        and not same_index(old, new)
        and not _keeps_old_code(old, new)
    ]
    if faults:
        raise InvalidInputError(" ".join(faults), hint=_KEEP, faults=faults)


def compatible_mapping(recorded: DocMapping, requested: DocMapping) -> DocMapping:
    """Return the mapping of new splits. Recorded columns keep their tokenizer; a contradiction is
    an error.
    """
    check_compatible(recorded, requested)
    return keep_old_code(recorded.columns, requested)


_KEEP = "Leave the setting out to keep what is recorded; reindex() indexes existing rows again."


def is_text(kind: pa.DataType) -> bool:
    """Return whether a column holds text, in any Arrow layout."""
    if pa.types.is_dictionary(kind):
        return is_text(kind.value_type)
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )


def is_nested(kind: pa.DataType) -> bool:
    """Return whether a column holds structs, maps or arrays."""
    return bool(pa.types.is_nested(kind))


def is_list_of_floats(kind: pa.DataType) -> bool:
    """Return whether a column holds lists of floating-point numbers, such as embeddings."""
    lists = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    return any(is_list(kind) for is_list in lists) and pa.types.is_floating(kind.value_type)


def same_index(one: ColumnMapping, other: ColumnMapping) -> bool:
    """Return whether two columns are indexed in the same way, apart from field names."""
    return _shape(one) == _shape(other)


def _shape(column: ColumnMapping) -> tuple[str | int, ...]:
    return (
        column.kind,
        column.tokenizer,
        column.record,
        column.max_token_length if column.tokenizer else 0,
        column.dimension,
        column.metric,
    )


def _differs(old: ColumnMapping, new: ColumnMapping) -> str:
    if old.terms == new.terms:
        requested = f"{new.terms}, terms up to {new.max_token_length} bytes"
    else:
        requested = new.terms
    return f"Column {old.name!r} is recorded as {old.terms}; it cannot be {requested}."


def _unknown_columns(schema: pa.Schema, settings: IndexingSettings) -> Iterable[str]:
    families: dict[str, Iterable[str]] = {
        "indexing.typemap": settings.typemap,
        "indexing.tokenizer": settings.tokenizer,
        "indexing.indexrecordoption": settings.record_option,
        "indexing.tokenLength": settings.token_length,
        "indexing.nonindexed": settings.nonindexed,
        "indexing.substring": settings.substring,
        "indexing.vectorDimension": settings.vector_dimension,
        "indexing.vectorMetric": settings.vector_metric,
    }
    for key, columns in families.items():
        for column in columns:
            if column not in schema.names:
                near = nearest(column, schema.names)
                yield f"{key} names {column!r}, which is no column.{f' Did you mean {near[0]!r}?' if near else ''}"


def _column(
    field: pa.Field, name: str, settings: IndexingSettings, recorded: ColumnMapping | None
) -> tuple[ColumnMapping, list[str]]:
    """Return one column's mapping, and the faults in its settings."""
    faults: list[str] = []
    kind, exact = _kind(field, settings, recorded, faults)
    tokenizer = _tokenizer(field.name, settings, faults)
    record = _word(field.name, "indexrecordoption", settings.record_option, RECORD_OPTIONS, faults)
    for key, option in (("tokenizer", tokenizer), ("indexrecordoption", record)):
        if option and kind in ("ip", "none"):
            shown = "exact_only" if exact else kind
            faults.append(f"Column {field.name!r} is of kind {shown}, which has no {key}.")
    if kind == "string" and tokenizer and tokenizer not in WHOLE_TOKENIZERS:
        faults.append(
            f"Column {field.name!r} is a string (whole values, tokenizer {' or '.join(WHOLE_TOKENIZERS)}); "
            f"tokenizer {tokenizer!r} needs indexing.typemap.{field.name} = text."
        )
    if kind == "json" and tokenizer == "ngram":
        faults.append(f"Column {field.name!r} is json, which cannot have the ngram tokenizer.")
    if recorded is not None and recorded.kind == kind:
        same = recorded
    else:
        same = None
    mapping = ColumnMapping(
        field.name,
        name,
        kind,
        tokenizer or (same.tokenizer if same else _DEFAULT_TOKENIZER.get(kind, "")),
        record or (same.record if same else _default_record(kind, settings)),
        _token_length(field.name, settings, same, faults),
        _has_grams(field, kind, settings, recorded, faults),
        exact,
        *_vectors(field, kind, settings, recorded, faults),
    )
    if recorded is not None and not faults and not same_index(recorded, mapping):
        faults.append(_differs(recorded, mapping))
    return mapping, faults


def _tokenizer(column: str, settings: IndexingSettings, faults: list[str]) -> str:
    """Return the tokenizer of a column: by name, or a chain."""
    text = settings.tokenizer.get(column, "").strip().lower()
    if CHAIN not in text:
        return _word(column, "tokenizer", settings.tokenizer, TOKENIZERS, faults)
    chain = CHAIN.join(part.strip() for part in text.split(CHAIN))
    fault = chain_fault(chain)
    if fault:
        faults.append(f"indexing.tokenizer.{column} is {text!r}: {fault}.")
    if fault:
        return ""
    return recorded_chain(chain)


def _has_grams(
    field: pa.Field,
    kind: str,
    settings: IndexingSettings,
    recorded: ColumnMapping | None,
    faults: list[str],
) -> bool:
    """Return whether trigrams of a column are indexed. This can change later: splits without them
    are scanned.
    """
    asked = settings.substring.get(field.name, recorded is not None and recorded.substring)
    if asked and kind not in ("string", "text"):
        faults.append(
            f"Column {field.name!r} is of kind {kind}; indexing.substring needs string or text."
        )
    return asked and kind in ("string", "text")


def _vectors(
    field: pa.Field,
    kind: str,
    settings: IndexingSettings,
    recorded: ColumnMapping | None,
    faults: list[str],
) -> tuple[int, str]:
    """Return the dimension of a column's vectors and their metric."""
    metric, dimension = METRICS[0], 0
    if recorded is not None and recorded.dimension:
        metric, dimension = recorded.metric, recorded.dimension
    dimension = settings.vector_dimension.get(field.name, dimension)
    metric = settings.vector_metric.get(field.name, metric)
    if dimension and (kind != "none" or not is_list_of_floats(field.type)):
        faults.append(
            f"Column {field.name!r} is {field.type} of kind {kind}; indexing.vectorDimension needs a list of "
            "floating-point numbers of kind none."
        )
    if field.name in settings.vector_metric and not dimension:
        faults.append(
            f"indexing.vectorMetric.{field.name} is set without indexing.vectorDimension.{field.name}."
        )
    if dimension:
        return dimension, metric
    return 0, ""


def _default_record(kind: str, settings: IndexingSettings) -> str:
    if kind == "text":
        return settings.text_record
    return _DEFAULT_RECORD.get(kind, "")


def _token_length(
    column: str, settings: IndexingSettings, recorded: ColumnMapping | None, faults: list[str]
) -> int:
    """Return the maximum term length of a column, from its setting, the recorded mapping, or the
    table's setting.
    """
    text = settings.token_length.get(column, "").strip().lower()
    if not text:
        if recorded:
            return recorded.max_token_length
        return settings.max_token_length
    length = TOKEN_LENGTHS.get(text) or (int(text) if text.isdecimal() else 0)
    if not 1 <= length <= MAX_TOKEN_LENGTH:
        words = ", ".join(TOKEN_LENGTHS)
        faults.append(
            f"indexing.tokenLength.{column} cannot be {text!r}, only 1 to {MAX_TOKEN_LENGTH}, {words}."
        )
        return settings.max_token_length
    return length


def _kind(
    field: pa.Field, settings: IndexingSettings, recorded: ColumnMapping | None, faults: list[str]
) -> tuple[str, str]:
    """Return the kind of a column, and the content of its field for whole values.

    The kind comes from the settings, the recorded mapping, or the type. The field for whole values
    can be added and removed: splits without it are scanned.
    """
    allowed = _allowed_kinds(field.type)
    asked = settings.typemap.get(field.name, "").strip().lower()
    if asked in REFUSED_KINDS:
        faults.append(
            f"indexing.typemap.{field.name} cannot be {asked!r}; write {REFUSED_KINDS[asked]}."
        )
        return "none", ""
    kind = _word(field.name, "typemap", settings.typemap, (*KINDS, *_EXACT_KINDS), faults)
    left_out = field.name in settings.nonindexed
    if left_out and kind not in ("", "none"):
        faults.append(
            f"Column {field.name!r} is in indexing.nonindexed and has indexing.typemap {kind!r}."
        )
    if kind and kind not in allowed:
        faults.append(
            f"Column {field.name!r} of type {field.type} cannot be {kind!r}, only {' or '.join(allowed)}."
        )
        kind = ""
    if left_out:
        return "none", ""
    if not kind and recorded is not None:
        return recorded.kind, recorded.exact
    return _EXACT_KINDS.get(kind, (kind or allowed[0], ""))


def _allowed_kinds(kind: pa.DataType) -> tuple[str, ...]:
    if is_text(kind):
        return ("string", "text", "json", "ip", "none", *_EXACT_KINDS)
    if is_list_of_floats(kind):
        return ("none", "json")
    if is_nested(kind):
        return ("json", "none")
    return ("none",)


def _word(
    column: str, key: str, words: Mapping[str, str], allowed: Iterable[str], faults: list[str]
) -> str:
    word = words.get(column, "").strip().lower()
    if word and word not in allowed:
        faults.append(
            f"indexing.{key}.{column} cannot be {words[column]!r}, only {', '.join(allowed)}."
        )
        return ""
    return word


def _column_from_json(value: Mapping[str, Any]) -> ColumnMapping:
    if value["kind"] not in KINDS:
        raise ValueError(f"kind {value['kind']!r}")
    return ColumnMapping(
        value["name"],
        value["field"],
        value["kind"],
        value["tokenizer"],
        value["record"],
        value["maxTokenLength"],
        bool(value.get("substring", False)),
        str(value.get("exact", "")),
        int(value.get("dimension", 0)),
        str(value.get("metric", "")),
    )


def settings_of(mapping: DocMapping, schema: pa.Schema) -> dict[str, str]:
    """Return settings that give the schema the same mapping, without defaults."""
    kinds = DocMapping.from_settings(schema, IndexingSettings())
    typemap = {
        c.name: c.shown_kind
        for c in mapping.columns
        if (d := kinds.find(c.name)) and d.shown_kind != c.shown_kind
    }
    typed = DocMapping.from_settings(schema, IndexingSettings(typemap=typemap))
    settings = {f"indexing.typemap.{name}": kind for name, kind in typemap.items()}
    for column in mapping.columns:
        implied = typed.find(column.name)
        if implied is None:
            continue
        if column.tokenizer != implied.tokenizer:
            settings[f"indexing.tokenizer.{column.name}"] = _with_source(column.tokenizer, _SPELLED)
        if column.substring:
            settings[f"indexing.substring.{column.name}"] = "true"
        if column.dimension:
            settings[f"indexing.vectorDimension.{column.name}"] = str(column.dimension)
            settings[f"indexing.vectorMetric.{column.name}"] = column.metric
        if column.record != implied.record:
            settings[f"indexing.indexrecordoption.{column.name}"] = column.record
    usual = IndexingSettings().max_token_length
    lengths = {
        c.name: str(c.max_token_length) for c in mapping.columns if c.max_token_length != usual
    }
    if len(lengths) == len(mapping.columns) and len(set(lengths.values())) == 1:
        return settings | {"indexing.maxTokenLength": next(iter(lengths.values()))}
    return settings | {f"indexing.tokenLength.{name}": length for name, length in lengths.items()}


def recorded_as(
    mapping: DocMapping,
    schema: pa.Schema,
    columns: Collection[str],
    configuration: Mapping[str, str],
    before: DocMapping,
) -> dict[str, str]:
    """Return the configuration of a table after some of its columns change their index."""
    others = {
        key: left
        for key, value in configuration.items()
        if (left := _without(key, value, columns)) is not None
    }
    chosen = DocMapping(tuple(c for c in mapping.columns if c.name in columns))
    configured = {**others, **settings_of(chosen, schema)}
    changed = [
        c
        for c in chosen.columns
        if (old := before.find(c.name)) is None or not same_index(old, c) or old.exact != c.exact
    ]
    if changed:
        return configured
    return dict(configuration)


def _without(key: str, value: str, columns: Collection[str]) -> str | None:
    """Return a setting without its entries for some columns, or None if nothing is left."""
    if not is_setting(key):
        return value
    setting, column, parsed = REGISTRY.parse(key, value)
    if setting.group is not IndexingSettings:
        return value
    if setting.field_name == "nonindexed":
        return ",".join(name for name in parsed if name not in columns) or None
    if column is None or column in columns:
        return None
    return value


def decided_columns(schema: pa.Schema) -> tuple[ColumnMapping, ...]:
    """Return the columns whose index is decided by the schema, whatever a split contains."""
    decided = []
    for field in schema:
        recorded = (field.metadata or {}).get(METADATA_KEY)
        if recorded is not None and INDEX_KEY.encode() in recorded:
            word, tokenizer, record, longest = json.loads(recorded)[INDEX_KEY].split(",")
            kind, exact = _EXACT_KINDS.get(word, (word, ""))
            decided.append(
                ColumnMapping(
                    field.name, UNINDEXED, kind, tokenizer, record, int(longest), exact=exact
                )
            )
    return tuple(decided)


def decision(column: ColumnMapping) -> str:
    """Return the index of a column from its field metadata."""
    return f"{column.shown_kind},{column.tokenizer},{column.record},{column.max_token_length}"


@lru_cache(maxsize=256)
def under_decisions(own: DocMapping, decided: tuple[ColumnMapping, ...]) -> DocMapping:
    """Return a split's mapping in which columns that contradict the decision have no index."""
    if not decided:
        return own
    others = {c.name: c for c in decided if not _same_way(own.find(c.name), c)}
    columns = [others.pop(column.name, column) for column in own.columns]
    return DocMapping((*columns, *others.values()))


@lru_cache(maxsize=256)
def decisions_of(mapping: DocMapping) -> tuple[ColumnMapping, ...]:
    """Return how columns are indexed, as a decision for splits that may lack the index."""
    return tuple(replace(column, field=UNINDEXED, substring=False) for column in mapping.columns)


def _same_way(own: ColumnMapping | None, decided: ColumnMapping) -> bool:
    return own is not None and (own.kind, own.tokenizer) == (decided.kind, decided.tokenizer)

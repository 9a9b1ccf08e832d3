"""Analyzers: convert text to terms with tantivy's analyzer objects, for indexing and for scanning
rows.

The maximum term length is that of the mapping (255 bytes by default), whereas tantivy's `default`
silently drops terms of 40 bytes and more. A longer term is not indexed but keeps its position; rows
with such terms are found by scanning (`index_values` counts them at write time).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import tantivy

from indextables.config.indexing import CHAIN, STEMMERS
from indextables.splits.index.mapping import (
    CODE_NAMES,
    CODE_PARTS,
    GRAM_TOKENIZER,
    ColumnMapping,
    DocMapping,
    keeps_case,
)

ROW_FIELD = "_row"
"""Fast field with a row's number, for writers that sort by it."""
NGRAM_MIN, NGRAM_MAX = 1, 2
"""N-gram lengths: single characters and pairs. A longer text is found by its pairs and then checked
in the rows.
"""
GRAM_SIZE = 3
_UNLIMITED = 1 << 40


class TextToken(NamedTuple):
    """A term with its position among the terms and its character offsets."""

    text: str
    position: int
    start: int
    end: int


def analyzer_name(column: ColumnMapping) -> str:
    """Return the name under which a column's analyzer is registered. It encodes everything that
    determines its terms.
    """
    return f"it_{column.tokenizer}_{column.max_token_length}"


@lru_cache(maxsize=256)
def build_analyzer(tokenizer: str, max_token_length: int | None = None) -> tantivy.TextAnalyzer:
    """Build the analyzer of a tokenizer. Without a length limit it yields every term, for scanning."""
    if CHAIN in tokenizer:
        return _chain(tokenizer, max_token_length)
    one_term = tokenizer in ("raw", "lowercase_raw")
    if one_term:
        source = tantivy.Tokenizer.raw()
    elif tokenizer == "whitespace":
        source = tantivy.Tokenizer.whitespace()
    elif tokenizer == "ngram":
        source = tantivy.Tokenizer.ngram(NGRAM_MIN, NGRAM_MAX, False)
    elif tokenizer == GRAM_TOKENIZER:
        source = tantivy.Tokenizer.ngram(GRAM_SIZE, GRAM_SIZE, False)
    else:
        source = tantivy.Tokenizer.simple()
    # remove_long keeps what is shorter than its limit, measured before any other filter changes the
    # length.
    if max_token_length is None:
        limit = _UNLIMITED
    else:
        limit = max_token_length + 1
    builder = tantivy.TextAnalyzerBuilder(source).filter(tantivy.Filter.remove_long(limit))
    if tokenizer not in ("raw", "whitespace"):
        builder = builder.filter(tantivy.Filter.lowercase())
    if tokenizer in STEMMERS:
        builder = builder.filter(tantivy.Filter.stemmer(STEMMERS[tokenizer]))
    return builder.build()


_URL = r"(?:https?|ftps?|file|s3a?)://[^\s\"'<>()\[\]{}]*[^\s\"'<>()\[\]{}.,;:!?]"
_MAIL = r"[\p{L}\p{N}._%+-]+@[\p{L}\p{N}-]+(?:\.[\p{L}\p{N}-]+)+"
_UUID = r"[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}"
_ENTITIES = rf"{_URL}|{_MAIL}|{_UUID}|[\p{{L}}\p{{N}}]+"
_CODE = r"\p{Lu}?\p{Ll}+|\p{Lu}+|\p{N}+|\p{L}"
_GAP = "\x1e\x1f"
"""Term between a text and the names that follow it. It is not indexed but keeps its position."""
_PARTS = rf"0[xX][0-9A-Fa-f]+|{_CODE}"
_CUT = "\x1f"
"""Separator that is inserted where a name is split and the analyzer's expression cannot detect it.
It is not part of a term.
"""
_HIDDEN_CUTS = r"(0[xX][0-9A-Fa-f]+)|(\p{Lu})(\p{Lu}\p{Ll})"
"""A hexadecimal number, which is not split, and the last capital before a lower-case letter."""
_RUN = r"[\p{L}\p{N}_]"
_NAME = rf"{_RUN}*(?:\p{{Ll}}\p{{Lu}}|\p{{Lu}}\p{{Lu}}\p{{Ll}}){_RUN}*"
"""An identifier whose parts are other terms than those of its lower-case spelling."""
_NAME_RUNS = rf"0[xX]([0-9A-Fa-f]+)|({_NAME})|{_RUN}+"
_SEPARATORS = r"[^\p{L}\p{N}_]+"
_HAS_NAME = r"\p{Ll}\p{Lu}|\p{Lu}\p{Lu}\p{Ll}|0[xX][0-9A-Fa-f]"


def _chain(text: str, max_token_length: int | None) -> tantivy.TextAnalyzer:
    """Build the analyzer of a chain: a tokenizer, then filters in order."""
    source, *filters = text.split(CHAIN)
    cut = {
        "words": tantivy.Tokenizer.simple,
        "whitespace": tantivy.Tokenizer.whitespace,
        "entities": lambda: tantivy.Tokenizer.regex(_ENTITIES),
        "code": lambda: tantivy.Tokenizer.regex(_CODE),
        CODE_PARTS: lambda: tantivy.Tokenizer.regex(_PARTS),
        CODE_NAMES: lambda: tantivy.Tokenizer.regex(rf"{_GAP}|{_PARTS}"),
    }[source]()
    if max_token_length is None:
        limit = _UNLIMITED
    else:
        limit = max_token_length + 1
    builder = tantivy.TextAnalyzerBuilder(cut).filter(tantivy.Filter.remove_long(limit))
    if source == CODE_NAMES:
        builder = builder.filter(tantivy.Filter.custom_stopword([_GAP]))
    for part in filters:
        kind, _, language = part.partition(":")
        if kind == "lowercase":
            builder = builder.filter(tantivy.Filter.lowercase())
        elif kind == "ascii":
            builder = builder.filter(tantivy.Filter.ascii_fold())
        elif kind == "stop":
            builder = builder.filter(tantivy.Filter.stopword(language))
        elif kind == "stem":
            builder = builder.filter(tantivy.Filter.stemmer(language))
    return builder.build()


class CutToken(NamedTuple):
    """A term of a text with separators, in place of the analyzer's own object."""

    text: str
    char_offset_from: int
    char_offset_to: int


def is_cut(tokenizer: str) -> bool:
    """Return whether texts are changed before analysis."""
    return tokenizer.startswith((f"{CODE_PARTS}{CHAIN}", f"{CODE_NAMES}{CHAIN}"))


def has_spellings(tokenizer: str) -> bool:
    """Return whether the lower-case spellings of names follow a text."""
    return tokenizer.startswith(f"{CODE_NAMES}{CHAIN}") and not keeps_case(tokenizer)


def cut_texts(texts: pa.Array, tokenizer: str) -> pa.Array:
    """Return texts with separators as the analyzer of a tokenizer expects them, in the index and in
    rows alike.
    """
    if not is_cut(tokenizer):
        return texts
    parts = pc.replace_substring_regex(texts, _HIDDEN_CUTS, rf"\1\2{_CUT}\3")
    if not has_spellings(tokenizer):
        return parts
    return pc.binary_join_element_wise(parts, pc.utf8_lower(_names(texts)), "")


def cut_text(text: str, tokenizer: str) -> str:
    """Return one text with separators as the analyzer of a tokenizer expects it."""
    if is_cut(tokenizer):
        return str(cut_texts(pa.array([text]), tokenizer)[0].as_py())
    return text


def _names(texts: pa.Array) -> pa.Array:
    """Return the names and the hexadecimal digits of each text, with a gap before each."""
    few = pc.if_else(pc.match_substring_regex(texts, _HAS_NAME), texts, "")
    runs = pc.replace_substring_regex(few, f"{_NAME_RUNS}|{_SEPARATORS}", rf"{_GAP}\1\2")
    return pc.utf8_rtrim(pc.replace_substring_regex(runs, f"(?:{_GAP})+", _GAP), _GAP)


def _origins(text: str, cut: str, names: str) -> list[int]:
    """Return the position in the text for each position in the cut text, including its end."""
    body, *lowered = cut.rsplit(_GAP, names.count(_GAP)) if names else [cut]
    origins: list[int] = []
    at = 0
    for character in body:
        origins.append(at)
        at += text[at : at + 1] == character
    runs = iter(_name_runs().pre_tokenize(text).tokens if names else ())
    for spelling, name in zip(lowered, names.split(_GAP)[1:], strict=True):
        origins += [at] * len(_GAP)
        run = next(
            r
            for r in runs
            if name in (r.text, r.text[2:]) and (name == r.text or r.text[:2] in ("0x", "0X"))
        )
        start, at = run.char_offset_to - len(name), run.char_offset_to
        origins += range(start, at) if len(spelling) == len(name) else [start] * len(spelling)
    return [*origins, at]


@cache
def _name_runs() -> tantivy.TextAnalyzer:
    return tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.regex(_NAME_RUNS)).build()


def analyze(text: str, tokenizer: str, max_token_length: int | None = None) -> list[TextToken]:
    """Return the terms of a text. Terms above the length limit (in bytes) are left out; positions
    are kept.
    """
    cut = cut_text(text, tokenizer)
    analyzed = build_analyzer(tokenizer, max_token_length).pre_tokenize(cut)
    tokens = [
        TextToken(t.text, t.position, t.char_offset_from, t.char_offset_to) for t in analyzed.tokens
    ]
    if cut == text:
        return tokens
    if has_spellings(tokenizer):
        names = str(_names(pa.array([text]))[0].as_py())
    else:
        names = ""
    origins = _origins(text, cut, names)
    return [token._replace(start=origins[token.start], end=origins[token.end]) for token in tokens]


def tokens_of(text: str, tokenizer: str) -> Sequence[tantivy.Token | CutToken]:
    """Return the terms of a text as the analyzer's objects with `char_offset_from` and
    `char_offset_to`.
    """
    if is_cut(tokenizer):
        return [CutToken(t.text, t.start, t.end) for t in analyze(text, tokenizer)]
    tokens: list[tantivy.Token] = build_analyzer(tokenizer).pre_tokenize(text).tokens
    return tokens


TOKENS = pa.schema(
    [("term", pa.string()), ("position", pa.int64()), ("start", pa.int64()), ("end", pa.int64())]
)


def tokens_table(text: str, column: ColumnMapping) -> pa.Table:
    """Return the terms of a text in a column's index with positions and character offsets."""
    found = analyze(text, column.tokenizer, column.max_token_length)
    return pa.Table.from_pylist(
        [dict(zip(TOKENS.names, token, strict=True)) for token in found], TOKENS
    )


def terms_of(text: str, tokenizer: str, max_token_length: int | None = None) -> list[str]:
    """Return the terms of a text without positions. Faster than `analyze`."""
    return list(build_analyzer(tokenizer, max_token_length).analyze(cut_text(text, tokenizer)))


def register(index: tantivy.Index, columns: Iterable[ColumnMapping]) -> None:
    """Register the analyzers of the columns with an index. Required after every `Index(...)` and
    `Index.open(...)`.
    """
    analyzers = {
        analyzer_name(c): (c.tokenizer, c.max_token_length) for c in columns if c.tokenizer
    }
    for name, (tokenizer, limit) in analyzers.items():
        index.register_tokenizer(name, build_analyzer(tokenizer, limit))


def schema_for(mapping: DocMapping, *, row_field: bool = False) -> tantivy.Schema:
    """Return the tantivy schema of a mapping. No field is stored or fast; `row_field` adds `_row`
    for sorted merges.
    """
    builder = tantivy.SchemaBuilder()
    for column in mapping.indexed:
        if column.kind == "ip":
            builder.add_ip_addr_field(column.field, indexed=True)
            continue
        if column.kind == "hash":
            builder.add_unsigned_field(column.field, indexed=True)
            continue
        if column.kind == "json":
            add = builder.add_json_field
        else:
            add = builder.add_text_field
        add(column.field, tokenizer_name=analyzer_name(column), index_option=column.record)
    if row_field:
        builder.add_unsigned_field(ROW_FIELD, fast=True)
    return builder.build()

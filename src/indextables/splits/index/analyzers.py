"""How text becomes terms. Tantivy's own analyzer objects do it, both while indexing and while scanning rows.

Our analyzers differ from tantivy's of the same name in one thing: the longest term is the mapping's (255 bytes unless
set), where tantivy's `default` drops terms of 40 bytes and more in silence. A term that is too long is not indexed, but
it keeps its position, and rows are searched for it by scanning (`index_values` counts such values at write time).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import tantivy

from indextables.config.indexing import CHAIN, STEMMERS
from indextables.splits.index.mapping import GRAM_TOKENIZER, NAMES_IN_CODE, ColumnMapping, DocMapping

ROW_FIELD = "_row"
"""The fast field that holds a row's number, where a writer needs one to sort by."""
NGRAM_MIN, NGRAM_MAX = 1, 2
"""Single characters and pairs: a longer text is found by its pairs and then checked in the rows."""
GRAM_SIZE = 3
_UNLIMITED = 1 << 40


class TextToken(NamedTuple):
    """A term with its position among the terms and its place among the characters."""

    text: str
    position: int
    start: int
    end: int


def analyzer_name(column: ColumnMapping) -> str:
    """The name under which a column's analyzer is registered; it says all that decides its terms."""
    return f"it_{column.tokenizer}_{column.max_token_length}"


@lru_cache(maxsize=256)
def build_analyzer(tokenizer: str, max_token_length: int | None = None) -> tantivy.TextAnalyzer:
    """The analyzer of a tokenizer. Without a length limit it yields every term, as scanning needs."""
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
    # remove_long keeps what is shorter than its limit, measured before any other filter changes the length.
    limit = _UNLIMITED if max_token_length is None else max_token_length + 1
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
_NAMES = rf"0[xX][0-9A-Fa-f]+|{_CODE}"
_CUT = "\x1f"
"""What is put into a text where a name is cut and no expression of the analyzer can see it: it is part of no term."""
_HIDDEN_CUTS = r"(0[xX][0-9A-Fa-f]+)|(\p{Lu})(\p{Lu}\p{Ll})"
"""A number in hexadecimal digits, which stays whole, and the last capital before a lower-case letter."""


def _chain(text: str, max_token_length: int | None) -> tantivy.TextAnalyzer:
    """The analyzer of a chain: a source of terms, then filters in their order."""
    source, *filters = text.split(CHAIN)
    cut = {
        "words": tantivy.Tokenizer.simple,
        "whitespace": tantivy.Tokenizer.whitespace,
        "entities": lambda: tantivy.Tokenizer.regex(_ENTITIES),
        "code": lambda: tantivy.Tokenizer.regex(_CODE),
        NAMES_IN_CODE: lambda: tantivy.Tokenizer.regex(_NAMES),
    }[source]()
    limit = _UNLIMITED if max_token_length is None else max_token_length + 1
    builder = tantivy.TextAnalyzerBuilder(cut).filter(tantivy.Filter.remove_long(limit))
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
    """A term of a text that was cut, in place of the analyzer's own object."""

    text: str
    char_offset_from: int
    char_offset_to: int


def is_cut(tokenizer: str) -> bool:
    """Whether texts are cut before the analyzer gets them."""
    return tokenizer.startswith(f"{NAMES_IN_CODE}{CHAIN}")


def cut_texts(texts: pa.Array, tokenizer: str) -> pa.Array:
    """Texts as the analyzer of a tokenizer gets them, in the index and in rows alike."""
    if not is_cut(tokenizer):
        return texts
    return pc.replace_substring_regex(texts, _HIDDEN_CUTS, rf"\1\2{_CUT}\3")


def cut_text(text: str, tokenizer: str) -> str:
    """One text as the analyzer of a tokenizer gets it."""
    return str(cut_texts(pa.array([text]), tokenizer)[0].as_py()) if is_cut(tokenizer) else text


def _insertions(text: str, cut: str) -> list[int]:
    """The positions in a cut text of what was put into it."""
    found: list[int] = []
    at = 0
    for position, character in enumerate(cut):
        if at < len(text) and text[at] == character:
            at += 1
        else:
            found.append(position)
    return found


def analyze(text: str, tokenizer: str, max_token_length: int | None = None) -> list[TextToken]:
    """The terms of a text; terms longer than the limit (in bytes) are left out, positions stay."""
    cut = cut_text(text, tokenizer)
    analyzed = build_analyzer(tokenizer, max_token_length).pre_tokenize(cut)
    tokens = [TextToken(t.text, t.position, t.char_offset_from, t.char_offset_to) for t in analyzed.tokens]
    if cut == text:
        return tokens
    put = _insertions(text, cut)
    return [t._replace(start=t.start - bisect_left(put, t.start), end=t.end - bisect_left(put, t.end)) for t in tokens]


def tokens_of(text: str, tokenizer: str) -> Sequence[tantivy.Token | CutToken]:
    """The terms of a text as the analyzer's own objects, whose `char_offset_from` and `char_offset_to` are their place."""
    if is_cut(tokenizer):
        return [CutToken(t.text, t.start, t.end) for t in analyze(text, tokenizer)]
    tokens: list[tantivy.Token] = build_analyzer(tokenizer).pre_tokenize(text).tokens
    return tokens


TOKENS = pa.schema([("term", pa.string()), ("position", pa.int64()), ("start", pa.int64()), ("end", pa.int64())])


def tokens_table(text: str, column: ColumnMapping) -> pa.Table:
    """The terms of a text in a column's index, with their positions and their places among the characters."""
    found = analyze(text, column.tokenizer, column.max_token_length)
    return pa.Table.from_pylist([dict(zip(TOKENS.names, token, strict=True)) for token in found], TOKENS)


def terms_of(text: str, tokenizer: str, max_token_length: int | None = None) -> list[str]:
    """The terms of a text without positions; quicker than `analyze`."""
    return list(build_analyzer(tokenizer, max_token_length).analyze(cut_text(text, tokenizer)))


def register(index: tantivy.Index, columns: Iterable[ColumnMapping]) -> None:
    """Make the analyzers of the columns known to an index. Needed after every `Index(...)` and `Index.open(...)`."""
    analyzers = {analyzer_name(c): (c.tokenizer, c.max_token_length) for c in columns if c.tokenizer}
    for name, (tokenizer, limit) in analyzers.items():
        index.register_tokenizer(name, build_analyzer(tokenizer, limit))


def schema_for(mapping: DocMapping, *, row_field: bool = False) -> tantivy.Schema:
    """The tantivy schema of a mapping: nothing stored, nothing fast; `row_field` adds `_row` for sorted merges."""
    builder = tantivy.SchemaBuilder()
    for column in mapping.indexed:
        if column.kind == "ip":
            builder.add_ip_addr_field(column.field, indexed=True)
            continue
        if column.kind == "hash":
            builder.add_unsigned_field(column.field, indexed=True)
            continue
        add = builder.add_json_field if column.kind == "json" else builder.add_text_field
        add(column.field, tokenizer_name=analyzer_name(column), index_option=column.record)
    if row_field:
        builder.add_unsigned_field(ROW_FIELD, fast=True)
    return builder.build()

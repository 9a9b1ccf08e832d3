"""What tantivy is given for a column, and how many values it cannot hold completely.

The writer indexes what this module returns, scanning reads rows through the same functions, and the count decides
whether a filter that looks at terms (wildcard, fuzzy, a very long word) can trust the index alone.
"""

from __future__ import annotations

import ipaddress
import math
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from indextables.splits.analyzers import terms_of
from indextables.splits.json_values import index_text, leaves, parse_json
from indextables.splits.mapping import WHOLE_TOKENIZERS, ColumnMapping, is_text

# The longest repetition that Arrow's regular expressions allow is 1000.
_MAX_REPEAT = 1000
_IPV4_MAPPED = 0xFFFF << 32
_OCTET = r"(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_PLAIN_IPV4 = rf"^{_OCTET}\.{_OCTET}\.{_OCTET}\.{_OCTET}\z"
_ASCII_SEPARATORS = r"\x00-\x2f\x3a-\x40\x5b-\x60\x7b-\x7f"


class IndexValues(Struct, frozen=True):
    """One column of a batch for tantivy: texts (JSON texts where `is_json`), null where there is nothing to index."""

    texts: pa.Array
    is_json: bool
    incomplete: int
    """How many values hold a term that is too long, or are no address in an ip column."""


def index_values(column: ColumnMapping, array: pa.Array | pa.ChunkedArray) -> IndexValues:
    """What the index gets for a column's values."""
    if column.kind == "json":
        return _index_json(column, array)
    texts = plain_texts(array)
    if column.kind == "ip":
        addresses = _addresses(texts)
        return IndexValues(addresses, False, addresses.null_count - texts.null_count)
    return IndexValues(texts, False, _count_long(column, texts))


def plain_texts(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    """A text column as one plain string array, whatever its layout."""
    joined = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
    if pa.types.is_dictionary(joined.type):
        joined = joined.dictionary_decode()
    return joined if pa.types.is_string(joined.type) else joined.cast(pa.string())


def documents(array: pa.Array | pa.ChunkedArray) -> Iterator[Any]:
    """The JSON documents of a json column: parsed texts, or nested values as they are; None for null."""
    if is_text(array.type):
        for text in plain_texts(array).to_pylist():
            yield None if text is None else parse_json(text)
    else:
        yield from array.to_pylist(maps_as_pydicts="lossy")


def parse_address(text: str) -> ipaddress.IPv6Address | None:
    """An address as IPv6 (IPv4 in its mapped form), so that both kinds compare; None if the text is none."""
    try:
        found = ipaddress.ip_address(text) if "%" not in text else None
    except ValueError:
        return None
    if isinstance(found, ipaddress.IPv4Address):
        return ipaddress.IPv6Address(_IPV4_MAPPED | int(found))
    return found


def has_long_term(text: str, column: ColumnMapping) -> bool:
    """Whether a text holds a term that the column's index leaves out."""
    limit = column.max_token_length
    if len(text.encode()) <= limit or column.tokenizer == "ngram":
        return False
    if column.tokenizer in WHOLE_TOKENIZERS:
        return True
    return len(terms_of(text, column.tokenizer)) > len(terms_of(text, column.tokenizer, limit))


def _count_long(column: ColumnMapping, texts: pa.Array) -> int:
    long = texts.filter(pc.greater(pc.binary_length(texts), column.max_token_length))
    if column.tokenizer == "ngram" or len(long) == 0:
        return 0
    if column.tokenizer in WHOLE_TOKENIZERS:
        return len(long)
    # A term of n bytes has at least n/4 characters without a separator: that leaves few texts to look at closely.
    run = min(math.ceil((column.max_token_length + 1) / 4), _MAX_REPEAT)
    separators = r"\s" if column.tokenizer == "whitespace" else _ASCII_SEPARATORS
    suspects = long.filter(pc.match_substring_regex(long, f"[^{separators}]{{{run}}}"))
    return sum(has_long_term(text, column) for text in suspects.to_pylist())


def _index_json(column: ColumnMapping, array: pa.Array | pa.ChunkedArray) -> IndexValues:
    texts: list[str | None] = []
    incomplete = 0
    for document in documents(array):
        text = None if document is None else index_text(document)
        texts.append(text)
        if text is not None and len(text) * 4 > column.max_token_length:
            incomplete += any(has_long_term(v, column) for _, v in leaves(document) if isinstance(v, str))
    return IndexValues(pa.array(texts, pa.string()), True, incomplete)


def _addresses(texts: pa.Array) -> pa.Array:
    """The texts that are addresses. Plain IPv4 is known by its look; only the rest is parsed one by one."""
    others = pc.invert(pc.match_substring_regex(texts, _PLAIN_IPV4)).fill_null(False)
    if not pc.any(others).as_py():
        return texts
    doubtful = texts.filter(others).dictionary_encode()
    bad = [text for text in doubtful.dictionary.to_pylist() if parse_address(text) is None]
    return pc.if_else(pc.is_in(texts, pa.array(bad, pa.string())), None, texts)

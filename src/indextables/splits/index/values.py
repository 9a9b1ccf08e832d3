"""Index values of columns: the searchable form of JSON values, and the values passed to tantivy.

Indexing, scanning and query words share one form. Every value is a JSON document under one root
key, so `tags:x` finds an element of an array as `user.name:x` finds a struct field. Nulls and
non-finite numbers have no term. A text that is not valid JSON is one string. Whole numbers are
integers however they are written (`1.0` is `1`).

The writer indexes the values that this module returns and counts those that tantivy cannot hold
completely. The count decides whether a filter on terms (wildcard, fuzzy, a very long word) can rely
on the index alone.
"""

from __future__ import annotations

import base64
import datetime
import decimal
import hashlib
import ipaddress
import json
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from indextables.errors import BadFileError
from indextables.splits.index.analyzers import cut_text, cut_texts, has_spellings, is_cut, terms_of
from indextables.splits.index.mapping import WHOLE_TOKENIZERS, ColumnMapping, is_text

ROOT = "r"
MAX_DEPTH = 100
"""Values nested deeper are not searchable; tantivy's parser stops at 128."""
MAX_PATH_BYTES = 4_096
"""Keys below a longer path are not searchable; a term of tantivy holds path and value together."""
TEXT_MARK = "\x0c"
_PATH_MARKS = {0: "\ufffd", 1: "\ufffd"}

Leaf = bool | int | float | str
Path = tuple[str, ...]


def parse_json(text: str) -> Any:
    """Parse a JSON text. A text that is not valid JSON is returned unchanged."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def normal_leaf(value: Any) -> Leaf | None:
    """Return a scalar in its compared form, or None if it has no term."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, decimal.Decimal):
        if value == value.to_integral_value():
            value = int(value)
        else:
            value = float(value)
    if isinstance(value, int):
        return _normal_integer(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        if value.is_integer():
            return _normal_integer(int(value))
        return value
    return _text_of(value)


def searchable_text(text: str) -> str:
    """Return a string as passed to tantivy. A prefix marks texts that look like times, which
    tantivy would convert.

    Times in the index have whole seconds only and are not words. Tokenizers that split text drop
    the prefix.
    """
    looks_like_time = len(text) >= 20 and text[0].isdigit() and text[4] == "-" and text[10] in "Tt "
    if looks_like_time or text.startswith(TEXT_MARK):
        return TEXT_MARK + text
    return text


def normal_key(key: Any) -> str:
    """Return a key as a path segment, without the two characters that tantivy uses as path markers."""
    return _valid(str(key)).translate(_PATH_MARKS)


def leaves(document: Any) -> Iterator[tuple[Path, Leaf]]:
    """Yield every path and value of a document in order. Elements of an array have the path of the
    array.
    """
    yield from _walk(document, (), 0, 0)


def index_text(document: Any, tokenizer: str = "") -> str | None:
    """Return the JSON object that tantivy indexes for a document, or None if nothing in it is
    searchable.
    """
    value = _normal(document, 0, 0)
    if is_cut(tokenizer):
        value = _cut(value, tokenizer)
    if value is None:
        return None
    return json.dumps({ROOT: value}, ensure_ascii=False, separators=(",", ":"))


def field_path(field: str, path: Path) -> str:
    """Return the tantivy name of a path in a JSON field."""
    keys = [key.replace("\\", "\\\\").replace(".", "\\.") for key in path]
    return ".".join([field, ROOT, *keys])


def _walk(value: Any, path: Path, depth: int, size: int) -> Iterator[tuple[Path, Leaf]]:
    if isinstance(value, dict):
        for key, below in _entries(value, depth, size):
            yield from _walk(below, (*path, key), depth + 1, size + len(key.encode()))
    elif isinstance(value, list | tuple):
        if depth < MAX_DEPTH:
            for below in value:
                yield from _walk(below, path, depth + 1, size)
    elif (leaf := normal_leaf(value)) is not None:
        yield path, leaf


def _normal(value: Any, depth: int, size: int) -> Any:
    if isinstance(value, dict):
        members = {}
        for key, below in _entries(value, depth, size):
            if (member := _normal(below, depth + 1, size + len(key.encode()))) is not None:
                members[key] = member
        return members or None
    if isinstance(value, list | tuple):
        if depth >= MAX_DEPTH:
            return None
        items = [item for below in value if (item := _normal(below, depth + 1, size)) is not None]
        return items or None
    leaf = normal_leaf(value)
    if isinstance(leaf, str):
        return searchable_text(leaf)
    return leaf


def _cut(value: Any, tokenizer: str) -> Any:
    """Return a value with its texts prepared for the analyzer of a tokenizer."""
    if isinstance(value, dict):
        return {key: _cut(below, tokenizer) for key, below in value.items()}
    if isinstance(value, list):
        return [_cut(below, tokenizer) for below in value]
    if isinstance(value, str):
        return cut_text(value, tokenizer)
    return value


def _entries(value: dict[Any, Any], depth: int, size: int) -> Iterator[tuple[str, Any]]:
    """Return the searchable entries of an object. Of keys that become equal, the last one wins."""
    if depth >= MAX_DEPTH:
        return
    for key, below in {normal_key(key): below for key, below in value.items()}.items():
        if size + len(key.encode()) <= MAX_PATH_BYTES:
            yield key, below


def _normal_integer(value: int) -> Leaf | None:
    if -(1 << 63) <= value < 1 << 64:
        return value
    try:
        return float(value)
    except OverflowError:
        return None


def _text_of(value: Any) -> str:
    if isinstance(value, str):
        return _valid(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    return str(value)


def _valid(text: str) -> str:
    """Replace unpaired surrogates, which JSON can express and UTF-8 cannot, by question marks."""
    if text.isascii():
        return text
    return text.encode("utf-8", "replace").decode()


# The longest repetition that Arrow's regular expressions allow is 1000.
_MAX_REPEAT = 1000
_IPV4_MAPPED = 0xFFFF << 32
_OCTET = r"(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_PLAIN_IPV4 = rf"^{_OCTET}\.{_OCTET}\.{_OCTET}\.{_OCTET}\z"
_ASCII_SEPARATORS = r"\x00-\x2f\x3a-\x40\x5b-\x60\x7b-\x7f"


class IndexValues(Struct, frozen=True):
    """One column of a batch for tantivy: texts (JSON if `is_json`) or hashes, null for values that
    are not indexed.
    """

    texts: pa.Array
    is_json: bool
    incomplete: npt.NDArray[np.int64]
    """Positions of values with a term that is too long, or that are not an address in an ip column.
    """


class IncompleteValues(Struct, frozen=True):
    """Values of a column that the index of a split holds only partly."""

    count: int
    rows: npt.NDArray[np.int64] | None = None
    """Their row numbers, ascending; None if the split records only the count."""


def keep_living(values: IncompleteValues, alive: npt.NDArray[np.bool_] | None) -> IncompleteValues:
    """Return the values of living rows, which are numbered without the deleted ones."""
    if alive is None or values.rows is None:
        return values
    rows = values.rows[alive[values.rows]]
    numbers = np.cumsum(alive)[rows] - 1
    return IncompleteValues(len(numbers), numbers.astype(np.int64))


_NO_POSITIONS: npt.NDArray[np.int64] = np.empty(0, np.int64)


def index_values(column: ColumnMapping, array: pa.Array | pa.ChunkedArray) -> IndexValues:
    """Return the values of a column as passed to the index."""
    if column.kind == "json":
        return _index_json(column, array)
    texts = plain_texts(array)
    if column.kind == "ip":
        addresses = _addresses(texts)
        return IndexValues(
            addresses, False, _positions(pc.and_(addresses.is_null(), texts.is_valid()))
        )
    if column.kind == "hash":
        hashes = [None if text is None else value_hash(text) for text in text_list(texts)]
        return IndexValues(pa.array(hashes, pa.uint64()), False, _NO_POSITIONS)
    incomplete = _NO_POSITIONS
    if column.kind not in ("grams", "whole"):
        incomplete = _find_long_terms(column, texts)
    return IndexValues(cut_texts(texts, column.tokenizer), False, incomplete)


def value_hash(text: str) -> int:
    """Return the 64-bit hash of a value in the index of an `exact_only` column. It is part of the
    file format.
    """
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")


def is_encodable(text: str) -> bool:
    """Return whether a text can be encoded; a text of Python may have unpaired surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def whole_term(text: str, whole: ColumnMapping) -> str | int | None:
    """Return the term of a whole value, or None if it has none."""
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        return None
    if whole.kind == "hash":
        return value_hash(text)
    if size <= whole.max_token_length:
        return text
    return None


def plain_texts(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return a text column as one plain string array, whatever its layout."""
    if isinstance(array, pa.ChunkedArray):
        joined = array.combine_chunks()
    else:
        joined = array
    if pa.types.is_dictionary(joined.type):
        joined = joined.dictionary_decode()
    if pa.types.is_string(joined.type):
        return joined
    return joined.cast(pa.string())


def text_list(texts: pa.Array) -> list[str | None]:
    """Return the texts as Python strings. Raises BadFileError for a text that is not valid UTF-8."""
    try:
        found: list[str | None] = texts.to_pylist()
    except UnicodeDecodeError as error:
        raise BadFileError(
            f"The rows of a split hold a text that is not valid UTF-8: {error}.",
            hint="verify(full=True) names the split.",
        ) from error
    return found


def documents(array: pa.Array | pa.ChunkedArray) -> Iterator[Any]:
    """Return the JSON documents of a JSON column: parsed texts or nested values; None for null."""
    if is_text(array.type):
        for text in text_list(plain_texts(array)):
            yield None if text is None else parse_json(text)
    else:
        yield from array.to_pylist(maps_as_pydicts="lossy")


def parse_address(text: str) -> ipaddress.IPv6Address | None:
    """Parse an address as IPv6 (IPv4 in mapped form), so that both compare. Returns None for other
    texts.
    """
    try:
        if "%" not in text:
            address = ipaddress.ip_address(text)
        else:
            address = None
    except ValueError:
        return None
    if isinstance(address, ipaddress.IPv4Address):
        return ipaddress.IPv6Address(_IPV4_MAPPED | int(address))
    return address


def has_long_term(text: str, column: ColumnMapping) -> bool:
    """Return whether a text has a term that the column's index leaves out."""
    limit = column.max_token_length
    if len(text.encode()) <= _harmless_bytes(column) or column.tokenizer == "ngram":
        return False
    if column.tokenizer in WHOLE_TOKENIZERS:
        return True
    return len(terms_of(text, column.tokenizer)) > len(terms_of(text, column.tokenizer, limit))


def _harmless_bytes(column: ColumnMapping) -> int:
    """The size of a text up to which none of its terms is too long. Lower case can take half as
    many bytes again.
    """
    limit = column.max_token_length
    if has_spellings(column.tokenizer):
        return limit * 2 // 3
    return limit


def _positions(mask: pa.Array) -> npt.NDArray[np.int64]:
    """Return the positions at which a Boolean array is true."""
    return np.flatnonzero(np.asarray(mask.fill_null(False))).astype(np.int64)


def _find_long_terms(column: ColumnMapping, texts: pa.Array) -> npt.NDArray[np.int64]:
    """Return the positions of the texts with a term that is too long for the index."""
    if column.tokenizer == "ngram":
        return _NO_POSITIONS
    positions = _positions(pc.greater(pc.binary_length(texts), _harmless_bytes(column)))
    if not len(positions) or column.tokenizer in WHOLE_TOKENIZERS:
        return positions
    long = texts.take(pa.array(positions))
    # A term of n bytes has at least n/4 characters without a separator: that leaves few texts to
    # look at closely.
    run = min(math.ceil((column.max_token_length + 1) / 4), _MAX_REPEAT)
    if column.tokenizer.startswith(("whitespace", "entities")):
        separators = r"\s"
    else:
        separators = _ASCII_SEPARATORS
    candidates = _positions(pc.match_substring_regex(long, f"[^{separators}]{{{run}}}"))
    kept = [at for at in candidates.tolist() if has_long_term(long[at].as_py(), column)]
    return positions[kept]


def _index_json(column: ColumnMapping, array: pa.Array | pa.ChunkedArray) -> IndexValues:
    texts: list[str | None] = []
    incomplete: list[int] = []
    for position, document in enumerate(documents(array)):
        if document is None:
            text = None
        else:
            text = index_text(document, column.tokenizer)
        texts.append(text)
        if text is not None and len(text) * 4 > column.max_token_length:
            strings = (value for _, value in leaves(document) if isinstance(value, str))
            if any(has_long_term(value, column) for value in strings):
                incomplete.append(position)
    return IndexValues(pa.array(texts, pa.string()), True, np.array(incomplete, np.int64))


def _addresses(texts: pa.Array) -> pa.Array:
    """Return the texts that are addresses. Plain IPv4 is matched by pattern; only the rest is
    parsed one by one.
    """
    others = pc.invert(pc.match_substring_regex(texts, _PLAIN_IPV4)).fill_null(False)
    if not pc.any(others).as_py():
        return texts
    doubtful = texts.filter(others).dictionary_encode()
    bad = [text for text in doubtful.dictionary.to_pylist() if parse_address(text) is None]
    return pc.if_else(pc.is_in(texts, pa.array(bad, pa.string())), None, texts)

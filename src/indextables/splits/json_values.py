"""What a json column's value means to a search: one form for indexing, for scanning and for the words of a query.

Every value is searched as a JSON document under one root key, so that `tags:x` finds an element of an array and
`user.name:x` a key of a struct in the same way. Nulls and numbers that are not finite have no term. A text that is not
valid JSON is one string. Whole numbers are integers however they are written (`1.0` is `1`).
"""

from __future__ import annotations

import base64
import datetime
import decimal
import json
import math
from collections.abc import Iterator
from typing import Any

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
    """The document a text holds, or the text itself where it is not valid JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def normal_leaf(value: Any) -> Leaf | None:
    """A scalar as it is compared; None for what has no term."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, decimal.Decimal):
        value = int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, int):
        return _normal_integer(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        return _normal_integer(int(value)) if value.is_integer() else value
    return _text_of(value)


def searchable_text(text: str) -> str:
    """A string as tantivy is given it: what looks like a time gets a mark before it, or it would be taken as one.

    Times in the index have whole seconds only, and are no words. Tokenizers that split drop the mark.
    """
    looks_like_time = len(text) >= 20 and text[0].isdigit() and text[4] == "-" and text[10] in "Tt "
    return TEXT_MARK + text if looks_like_time or text.startswith(TEXT_MARK) else text


def normal_key(key: Any) -> str:
    """A key as a path segment; the two characters by which tantivy marks paths cannot be part of one."""
    return _valid(str(key)).translate(_PATH_MARKS)


def leaves(document: Any) -> Iterator[tuple[Path, Leaf]]:
    """Every path and value of a document, in its order; elements of an array share their array's path."""
    yield from _walk(document, (), 0, 0)


def index_text(document: Any) -> str | None:
    """The JSON object that tantivy indexes for a document; None where nothing of it is searchable."""
    value = _normal(document, 0, 0)
    return None if value is None else json.dumps({ROOT: value}, ensure_ascii=False, separators=(",", ":"))


def field_path(field: str, path: Path) -> str:
    """The name by which tantivy knows a path of a json field."""
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
        made = {}
        for key, below in _entries(value, depth, size):
            if (kept := _normal(below, depth + 1, size + len(key.encode()))) is not None:
                made[key] = kept
        return made or None
    if isinstance(value, list | tuple):
        if depth >= MAX_DEPTH:
            return None
        kept_items = [kept for below in value if (kept := _normal(below, depth + 1, size)) is not None]
        return kept_items or None
    leaf = normal_leaf(value)
    return searchable_text(leaf) if isinstance(leaf, str) else leaf


def _entries(value: dict[Any, Any], depth: int, size: int) -> Iterator[tuple[str, Any]]:
    """The entries of an object that are searchable; of keys that become equal the last one counts."""
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
    """JSON can spell half of a surrogate pair, which no UTF-8 text can hold: it becomes a question mark."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()

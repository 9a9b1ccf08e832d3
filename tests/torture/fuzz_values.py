"""Odd values and odd texts: what a careless or a hostile writer puts where something else belongs."""

from __future__ import annotations

import json
import random
from typing import Any

DEEP = 5_000
NUMBERS: tuple[Any, ...] = (
    *(
        0,
        -1,
        1,
        2**31 - 1,
        2**31,
        2**53,
        2**63 - 1,
        2**63,
        -(2**63),
        -(2**63) - 1,
        2**64,
        10**30,
        10**4000,
    ),
    *(0.5, -0.0, 1e308, 5e-324, True, False, None),
)
TEXTS = (
    *(
        "",
        " ",
        ".",
        "..",
        "/",
        "../x",
        "../../../../etc/passwd",
        "/etc/passwd",
        "file:///etc/passwd",
        "s3://other/x",
    ),
    *(
        "a\x00b",
        "\ufeff",
        "\U0001f600" * 3,
        "é" * 40,
        "x" * 300,
        "x" * 100_000,
        "%2e%2e%2f",
        "C:\\x",
        "\n",
        "'",
        '"',
        "`",
    ),
    *(
        "NaN",
        "Infinity",
        "-0",
        "1e999",
        "9" * 400,
        "2026-13-45",
        "null",
        "true",
        "{}",
        "[]",
        '{"a":',
        "decimal(99,98)",
    ),
    *(
        "decimal(38,-2)",
        "struct<a:int>",
        "__HIVE_DEFAULT_PARTITION__",
        "99999999999999999999",
        "long",
        "binary",
        "array",
    ),
)


def odd_value(rng: random.Random, depth: int = 0) -> Any:
    """Something of any type."""
    kind = rng.randrange(8 if depth < 3 else 5)
    if kind < 2:
        return rng.choice(NUMBERS)
    if kind < 5:
        return rng.choice(TEXTS)
    if kind == 5:
        return [odd_value(rng, depth + 1) for _ in range(rng.choice([0, 1, 2, 50]))]
    return {
        rng.choice(TEXTS) or "k": odd_value(rng, depth + 1) for _ in range(rng.choice([0, 1, 3]))
    }


def places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The way to every value inside of a value."""
    found = [at]
    if isinstance(value, dict):
        found += [way for key, below in value.items() for way in places(below, (*at, key))]
    elif isinstance(value, list):
        found += [way for number, below in enumerate(value) for way in places(below, (*at, number))]
    return found


def changed(value: Any, rng: random.Random) -> Any:
    """A JSON value with one thing inside of it changed: another value, gone, twice, or under
    another name.

    Texts that are JSON themselves (schemas, mappings, statistics) are changed inside as often as
    they are replaced.
    """
    copy = json.loads(json.dumps(value))
    way = rng.choice([way for way in places(copy) if way] or [()])
    if not way:
        return odd_value(rng)
    holder = copy
    for step in way[:-1]:
        holder = holder[step]
    last = way[-1]
    old = holder[last]
    action = rng.randrange(7)
    if isinstance(old, str) and old[:1] in "{[" and old and rng.random() < 0.7:
        holder[last] = json_changed(old, rng)
    elif action < 3:
        holder[last] = odd_value(rng)
    elif action == 3:
        del holder[last]
    elif action == 4 and isinstance(holder, list):
        holder.extend([old] * rng.choice([1, 5]))
    elif action == 4 and isinstance(holder, dict):
        holder[rng.choice(TEXTS)] = old
    elif action == 5 and isinstance(old, int):
        holder[last] = rng.choice([old + 1, old - 1, -old, old * 1000, old + 2**40])
    elif action == 5 and isinstance(old, str):
        holder[last] = text_changed(old, rng)
    else:
        holder[last] = nested(rng, rng.choice([3, 60, 150]))
    return copy


def json_changed(text: str, rng: random.Random) -> str:
    """A JSON text with one thing changed, or nested without end, or with a key twice."""
    choice = rng.random()
    if choice < 0.1:
        depth = rng.choice([200, DEEP, 100_000])
        return '{"type":"struct","fields":' + "[" * depth + "]" * depth + "}"
    if choice < 0.2:
        depth = rng.choice([120, DEEP])
        return (
            '{"type":"struct","fields":[{"name":"a","type":'
            + '{"type":"array","elementType":' * depth
            + '"int"'
            + "}" * depth
            + "}]}"
        )
    try:
        return json.dumps(changed(json.loads(text), rng))
    except ValueError:
        return text_changed(text, rng)


def nested(rng: random.Random, depth: int) -> Any:
    """Lists in lists, or objects in objects."""
    value: Any = rng.choice(NUMBERS)
    for _ in range(depth):
        value = [value] if rng.random() < 0.5 else {"type": "array", "elementType": value}
    return value


def text_changed(text: str, rng: random.Random) -> str:
    """A text with letters gone, doubled or replaced."""
    letters = list(text) or ["x"]
    for _ in range(rng.choice([1, 1, 2, 5])):
        at = rng.randrange(len(letters))
        letters[at] = rng.choice(
            ["", letters[at] * 2, rng.choice(TEXTS)[:20], chr(rng.randrange(1, 0x3000)), "0", "9"]
        )
    return "".join(letters)


def bytes_changed(
    data: bytes, rng: random.Random, *, start: int = 0, stop: int | None = None
) -> bytes:
    """Bytes of the same length with some of them changed: flipped bits, zeros, ones, a stretch from
    elsewhere.
    """
    stop = len(data) if stop is None else stop
    if stop <= start:
        return data
    out = bytearray(data)
    for _ in range(rng.choice([1, 1, 1, 2, 4, 16])):
        at = rng.randrange(start, stop)
        action = rng.randrange(5)
        if action < 2:
            out[at] ^= 1 << rng.randrange(8)
        elif action == 2:
            out[at] = rng.choice([0, 1, 0x7F, 0x80, 0xFF])
        else:
            length = min(rng.choice([2, 4, 8, 32]), stop - at)
            source = rng.randrange(start, stop)
            piece = bytes(out[source : min(source + length, stop)])
            out[at : at + len(piece)] = piece if action == 3 else b"\xff" * len(piece)
    return bytes(out)

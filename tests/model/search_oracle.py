"""Random rows, and random queries each with a slow, obvious meaning: a Python function of one row.

Nothing here comes from the package. The text of a query goes through the real parser; its meaning
is written out beside it, in the plainest way there is.
"""

from __future__ import annotations

import datetime as dt
import decimal
import functools
import ipaddress
import itertools
import json
import math
import random
import re
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

Row = dict[str, Any]
Meaning = Callable[[Row], bool]
Case = tuple[str, Meaning]

WORDS = [
    "a",
    "b",
    "ab",
    "abc",
    "time",
    "timeout",
    "timer",
    "error",
    "x1",
    "éa",
    "foo",
    "bar",
    "longlonglong",
    "2024",
]
LEVELS = [
    "ERROR",
    "WARN",
    "error",
    "",
    "two words",
    "a-very-long-level-name",
    "a-very-long-level-none",
    "日本",
]
NETS = [
    "10.0.0.1",
    "10.0.0.2",
    "10.0.7.9",
    "10.1.0.1",
    "192.168.0.1",
    "::1",
    "fe80::1",
    "::ffff:10.0.0.1",
    "no address",
]
CJK = "東京都京東語Ab"
MAX_TOKEN_LENGTH = 8
NOW = dt.datetime(2024, 1, 3, 1, tzinfo=dt.UTC)
SCHEMA = pa.schema(
    [
        ("message", pa.string()),
        ("bare", pa.string()),
        ("spaced", pa.string()),
        ("cjk", pa.string()),
        ("level", pa.string()),
        ("folded", pa.string()),
        ("plain", pa.string()),
        ("hashed", pa.string()),
        ("ip", pa.string()),
        ("js", pa.string()),
        ("tags", pa.list_(pa.string())),
        ("st", pa.struct([("name", pa.string()), ("n", pa.int32())])),
        ("n", pa.int64()),
        ("f", pa.float64()),
        ("d", pa.date32()),
        ("ts", pa.timestamp("us", "UTC")),
        ("dec", pa.decimal128(9, 2)),
        ("ok", pa.bool_()),
    ]
)
TYPEMAP = {
    "message": "text_and_string",
    "bare": "text",
    "spaced": "text",
    "cjk": "text",
    "hashed": "exact_only",
    "ip": "ip",
    "js": "json",
}
WHOLE = ("level", "folded", "plain", "hashed")
"""Columns of whole values."""
TOKENIZER = {"spaced": "whitespace", "cjk": "ngram", "folded": "lowercase_raw"}
RECORD = {"bare": "basic"}


# ---- rows


def make_rows(rng: random.Random, count: int) -> list[Row]:
    return [
        {name: None if rng.random() < 0.1 else value for name, value in _full_row(rng).items()}
        for _ in range(count)
    ]


def _full_row(rng: random.Random) -> Row:
    def text() -> str:
        glue = rng.choice([" ", "-", " , ", "_"])
        return glue.join(rng.choice([*WORDS, "Foo", "BAR"]) for _ in range(rng.randint(0, 6)))

    return {
        "message": text(),
        "bare": text(),
        "spaced": text(),
        "cjk": "".join(rng.choice(CJK) for _ in range(rng.randint(0, 6))),
        "level": rng.choice(LEVELS),
        "folded": rng.choice(LEVELS),
        "plain": rng.choice(LEVELS),
        "hashed": rng.choice(LEVELS),
        "ip": rng.choice(NETS),
        "js": _json_text(rng),
        "tags": [rng.choice(WORDS) for _ in range(rng.randint(0, 3))],
        "st": {"name": rng.choice([*WORDS, None]), "n": rng.choice([1, 2, None])},
        "n": rng.randint(-3, 6),
        "f": rng.choice([0.0, -0.0, 1.5, -2.0, math.nan, math.inf]),
        "d": dt.date(2024, 1, rng.randint(1, 5)),
        "ts": dt.datetime(2024, 1, rng.randint(1, 3), rng.randint(0, 2), tzinfo=dt.UTC),
        "dec": decimal.Decimal(rng.randint(-3, 3)) / 4,
        "ok": rng.random() < 0.5,
    }


def _json_text(rng: random.Random) -> str:
    leaf = [
        1,
        1.0,
        2.5,
        -3,
        True,
        False,
        None,
        "abc",
        "foo bar",
        "1",
        "true",
        "2024-01-01T00:00:00Z",
        "longlonglong x",
    ]

    def value(depth: int) -> Any:
        pick = rng.random()
        if depth and pick < 0.4:
            return {
                rng.choice(["a", "b", "c.d", ""]): value(depth - 1)
                for _ in range(rng.randint(0, 3))
            }
        if depth and pick < 0.6:
            return [value(depth - 1) for _ in range(rng.randint(0, 3))]
        return rng.choice(leaf)

    return "not json foo" if rng.random() < 0.05 else json.dumps(value(3))


# ---- meanings


def simple_words(text: str) -> list[str]:
    return re.findall(r"[^\W_]+", text.lower())


SPLITTERS: dict[str, Callable[[str], list[str]]] = {
    "message": simple_words,
    "bare": simple_words,
    "spaced": str.split,
    "level": lambda text: [text],
    "folded": lambda text: [text.lower()],
    "plain": lambda text: [text],
    "hashed": lambda text: [text],
}


def phrase_at(found: list[str], wanted: Sequence[Callable[[str], bool]]) -> bool:
    return any(
        all(test(found[at + i]) for i, test in enumerate(wanted))
        for at in range(len(found) - len(wanted) + 1)
    )


def phrase_near(found: list[str], wanted: list[str], slop: int) -> bool:
    for places in itertools.permutations(range(len(found)), len(wanted)):
        shifted = [p - i for i, p in enumerate(places)]
        if max(shifted) - min(shifted) <= slop and all(
            found[p] == w for p, w in zip(places, wanted, strict=True)
        ):
            return True
    return False


def like(pattern: str) -> Callable[[str], bool]:
    expression = re.compile(
        "".join({"*": ".*", "?": "."}.get(c, re.escape(c)) for c in pattern), re.DOTALL
    )
    return lambda text: expression.fullmatch(text) is not None


@functools.lru_cache(maxsize=100_000)
def distance(one: str, other: str) -> int:
    """Edits between two words, by plain recursion: no part is edited twice."""
    if not one or not other:
        return len(one) + len(other)
    best = min(
        distance(one[1:], other) + 1,
        distance(one, other[1:]) + 1,
        distance(one[1:], other[1:]) + (one[0] != other[0]),
    )
    if len(one) > 1 and len(other) > 1 and one[0] == other[1] and one[1] == other[0]:
        best = min(best, distance(one[2:], other[2:]) + 1)
    return best


def json_values(value: Any, path: list[str]) -> list[Any]:
    """Every scalar at a path; arrays are looked through."""
    if isinstance(value, list):
        return [found for below in value for found in json_values(below, path)]
    if isinstance(value, dict):
        return json_values(value[path[0]], path[1:]) if path and path[0] in value else []
    return [] if path or value is None else [value]


def json_has(value: Any, path: list[str]) -> bool:
    """Whether anything but null is at a path; an empty object or list is something."""
    if not path:
        return value is not None
    if isinstance(value, list):
        return any(json_has(below, path) for below in value)
    if isinstance(value, dict):
        return json_has(value.get(path[0]), path[1:])
    return False


def json_groups(value: Any, path: list[str]) -> list[list[Any]]:
    """The scalars of each path, at a path or (for a column named alone) at every path."""
    if path:
        return [json_values(value, path)]
    groups: dict[tuple[str, ...], list[Any]] = {}

    def walk(value: Any, at: tuple[str, ...]) -> None:
        if isinstance(value, dict):
            for key, below in value.items():
                walk(below, (*at, key))
        elif isinstance(value, list):
            for below in value:
                walk(below, at)
        elif value is not None:
            groups.setdefault(at, []).append(value)

    walk(value, ())
    return list(groups.values())


def json_document(row: Row, column: str) -> Any:
    if column != "js" or row["js"] is None:
        return row[column]
    try:
        return json.loads(row["js"])
    except ValueError:
        return row["js"]


# ---- queries


def make_query(rng: random.Random, depth: int = 3) -> Case:
    """A random query and what it means."""
    if depth == 0 or rng.random() < 0.3:
        return rng.choice(LEAVES)(rng)
    parts = [make_query(rng, depth - 1) for _ in range(rng.randint(2, 3))]
    texts, tests = [f"({text})" for text, _ in parts], [test for _, test in parts]
    kind = rng.choice(["AND", "OR", " ", "NOT", "signs", "mixed", "boost", "minimum"])
    if kind == "minimum":
        least = rng.randint(1, len(parts))
        return f"({' '.join(texts)})~{least}", lambda row: sum(t(row) for t in tests) >= least
    if kind == "AND":
        return " AND ".join(texts), lambda row: all(t(row) for t in tests)
    if kind in ("OR", " "):
        return f" {kind} ".join(texts), lambda row: any(t(row) for t in tests)
    if kind == "NOT":
        return f"NOT {texts[0]}", lambda row: not tests[0](row)
    if kind == "boost":
        return f"{texts[0]}^2.5", tests[0]
    if kind == "signs":
        return (
            f"+{texts[0]} {texts[1]} -{texts[-1]}",
            lambda row: tests[0](row) and not tests[-1](row),
        )
    return (
        f"{texts[0]} AND {texts[1]} OR NOT {texts[-1]}",
        lambda row: (tests[0](row) and tests[1](row)) or not tests[-1](row),
    )


def quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def word_leaf(rng: random.Random) -> Case:
    column = rng.choice(list(SPLITTERS))
    split = SPLITTERS[column]
    if column in WHOLE:
        text = rng.choice(LEVELS)
        wanted = split(text)
    else:
        text = rng.choice([" ", "-"] if column != "spaced" else [" "]).join(
            rng.choice([*WORDS, "Foo"]) for _ in range(rng.choice([1, 1, 1, 2, 2, 3]))
        )
        wanted = split(text)
    tests = [w.__eq__ for w in wanted]
    return (
        f"{column}:{quoted(text)}",
        lambda row: row[column] is not None and phrase_at(split(row[column]), tests),
    )


def slop_leaf(rng: random.Random) -> Case:
    column = rng.choice(["message", "bare", "spaced"])
    split, slop = SPLITTERS[column], rng.randint(1, 3)
    wanted = [rng.choice(WORDS) for _ in range(rng.randint(2, 3))]
    text = f"{column}:{quoted(' '.join(wanted))}~{slop}"
    return (
        text,
        lambda row: row[column] is not None and phrase_near(split(row[column]), wanted, slop),
    )


def wildcard_leaf(rng: random.Random) -> Case:
    column = rng.choice(list(SPLITTERS))
    word = rng.choice(LEVELS[:3] + LEVELS[5:7] if column in WHOLE else WORDS)
    at, end = sorted((rng.randint(0, len(word)), rng.randint(0, len(word))))
    pattern = rng.choice(
        [
            word[:at] + "*",
            "*" + word[at:],
            word[:at] + "?" + word[at + 1 :],
            word[:at] + "*" + word[end:],
        ]
    )
    if not pattern.strip("*"):
        pattern = "?" + pattern
    split = SPLITTERS[column]
    wanted = [
        like(p) for p in (pattern.lower() if column in ("message", "bare", "folded") else pattern,)
    ]
    if column in ("message", "bare") and rng.random() < 0.3:
        first = rng.choice(WORDS)
        text, wanted = f"{column}:{first}-{pattern}", [first.__eq__, *wanted]
        return text, lambda row: row[column] is not None and phrase_at(split(row[column]), wanted)
    return (
        f"{column}:{pattern}",
        lambda row: row[column] is not None and phrase_at(split(row[column]), wanted),
    )


def prefix_leaf(rng: random.Random) -> Case:
    column = rng.choice(["message", "bare", "spaced"])
    split = SPLITTERS[column]
    words = [rng.choice(WORDS) for _ in range(rng.randint(1, 3))]
    last = words[-1][: rng.randint(1, 4)]
    tests = [*(w.__eq__ for w in words[:-1]), lambda text: text.startswith(last)]
    text = quoted(" ".join([*words[:-1], last]))
    return (
        f"{column}:{text}*",
        lambda row: row[column] is not None and phrase_at(split(row[column]), tests),
    )


def fuzzy_leaf(rng: random.Random) -> Case:
    column = rng.choice(["message", "bare", "spaced", "level", "plain", "hashed"])
    split = SPLITTERS[column]
    word = rng.choice(["ERROR", "WARN"] if column in ("level", "plain", "hashed") else WORDS)
    letters = list(word)
    at = rng.randrange(len(letters))
    edit = rng.choice(["drop", "add", "change", "swap", "none"])
    if edit == "drop" and len(letters) > 1:
        del letters[at]
    elif edit == "add":
        letters.insert(at, "z")
    elif edit == "change":
        letters[at] = "z"
    elif edit == "swap" and at:
        letters[at - 1], letters[at] = letters[at], letters[at - 1]
    wanted, most = "".join(letters), rng.randint(0, 2)

    def near(text: str) -> bool:
        return abs(len(text) - len(wanted)) <= most and (
            text == wanted or distance(text, wanted) <= most
        )

    return (
        f"{column}:{wanted}~{most}",
        lambda row: row[column] is not None and any(map(near, split(row[column]))),
    )


def cjk_leaf(rng: random.Random) -> Case:
    wanted = "".join(rng.choice(CJK) for _ in range(rng.randint(1, 4)))
    if rng.random() < 0.3:
        at = rng.randrange(len(wanted))
        expression = re.compile(
            re.escape(wanted[:at].lower()) + "." + re.escape(wanted[at + 1 :].lower())
        )
        pattern = wanted[:at] + "?" + wanted[at + 1 :]
        return (
            f"cjk:{pattern}",
            lambda row: row["cjk"] is not None and bool(expression.search(row["cjk"].lower())),
        )
    return (
        f"cjk:{wanted}",
        lambda row: row["cjk"] is not None and wanted.lower() in row["cjk"].lower(),
    )


def default_leaf(rng: random.Random) -> Case:
    word = rng.choice(WORDS)
    return word, lambda row: any(
        row[c] is not None and (word in SPLITTERS[c](row[c])) for c in ("message", "bare")
    )


def set_leaf(rng: random.Random) -> Case:
    column = rng.choice([*WHOLE, "n", "message", "ip"])
    if column == "n":
        numbers = [rng.randint(-4, 7) for _ in range(3)]
        return f"n:IN [{' '.join(map(str, numbers))}]", lambda row: row["n"] in numbers
    if column == "ip":
        nets = rng.sample(NETS[:-1], 2)
        wanted = [address(n) for n in nets]
        return (
            f"ip:IN [{' '.join(nets)}]",
            lambda row: row["ip"] is not None and address(row["ip"]) in wanted,
        )
    texts = rng.sample(WORDS if column == "message" else LEVELS, 2)
    split = SPLITTERS[column]
    tests = [[w.__eq__ for w in split(text)] for text in texts]
    shown = " ".join(quoted(t) for t in texts)
    return (
        f"{column}:IN [{shown}]",
        lambda row: (
            row[column] is not None and any(phrase_at(split(row[column]), t) for t in tests)
        ),
    )


def exists_leaf(rng: random.Random) -> Case:
    if rng.random() < 0.3:
        path = rng.choice([["a"], ["a", "b"], ["c.d"], ["b"]])
        name = ".".join(key.replace(".", "\\.") for key in path)
        return f"js.{name}:*", lambda row: json_has(json_document(row, "js"), path)
    column = rng.choice(SCHEMA.names)
    return f"{column}:*", lambda row: row[column] is not None


def address(text: str) -> int | None:
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        return None
    return int(found) if found.version == 6 else 0xFFFF << 32 | int(found)


def ip_leaf(rng: random.Random) -> Case:
    kind = rng.choice(["one", "net", "octets", "range"])
    if kind == "one":
        wanted = rng.choice(NETS[:-1])
        return (
            f"ip:{wanted}",
            lambda row: row["ip"] is not None and address(row["ip"]) == address(wanted),
        )
    if kind == "net":
        text, low, high = rng.choice(
            [
                ("10.0.0.0/8", "10.0.0.0", "10.255.255.255"),
                ("10.0.0.0/31", "10.0.0.0", "10.0.0.1"),
                ("::/120", "::", "::ff"),
            ]
        )
        return f"ip:{text}", lambda row: between_addresses(row["ip"], low, high)
    if kind == "range":
        low, high = "10.0.0.2", rng.choice(["10.0.7.9", "192.168.0.1"])
        return f"ip:[{low} TO {high}]", lambda row: between_addresses(row["ip"], low, high)
    parts = rng.choice([["10", "0", "*", "*"], ["10", "*", "0", "1"], ["*", "*", "0", "*"]])

    def fits(row: Row) -> bool:
        number = None if row["ip"] is None else address(row["ip"])
        if number is None or number >> 32 != 0xFFFF:
            return False
        octets = [str(number >> shift & 255) for shift in (24, 16, 8, 0)]
        return all(p in ("*", o) for p, o in zip(parts, octets, strict=True))

    return f"ip:{'.'.join(parts)}", fits


def between_addresses(text: str | None, low: str, high: str) -> bool:
    number = None if text is None else address(text)
    return number is not None and (address(low) or 0) <= number <= (address(high) or 0)


def range_leaf(rng: random.Random) -> Case:
    column = rng.choice(["n", "f", "d", "ts", "dec", "level", "plain", "hashed", "message"])
    values: dict[str, list[tuple[str, Any]]] = {
        "n": [(str(i), i) for i in range(-3, 6)] + [("1.5", 1.5)],
        "f": [("0", 0.0), ("1.5", 1.5), ("-2", -2.0)],
        "d": [(f"2024-01-0{i}", dt.date(2024, 1, i)) for i in range(1, 6)],
        "ts": [
            ("2024-01-02", dt.datetime(2024, 1, 2, tzinfo=dt.UTC)),
            ("2024-01-01T01:00:00Z", dt.datetime(2024, 1, 1, 1, tzinfo=dt.UTC)),
            ("2024-01-01T03:00:00+02:00", dt.datetime(2024, 1, 1, 1, tzinfo=dt.UTC)),
            ("1704074400", dt.datetime(2024, 1, 1, 2, tzinfo=dt.UTC)),
            ("1704160800000", dt.datetime(2024, 1, 2, 2, tzinfo=dt.UTC)),
            ("2024/01/02", dt.datetime(2024, 1, 2, tzinfo=dt.UTC)),
            ("now-1d/d", dt.datetime(2024, 1, 2, tzinfo=dt.UTC)),
            ("now-47h", dt.datetime(2024, 1, 1, 2, tzinfo=dt.UTC)),
        ],
        "dec": [("0.25", decimal.Decimal("0.25")), ("-0.5", decimal.Decimal("-0.5"))],
    }
    options = values.get(column, [(quoted(t), t) for t in ["ERROR", "a", "b", "", "日"]])
    (low_text, low), (high_text, high) = rng.choice(options), rng.choice(options)
    shape = rng.choice(["both", "above", "below", "equal"])

    def value_of(row: Row) -> Any:
        value = row[column]
        return value.encode() if isinstance(value, str) else value

    low, high = (v.encode() if isinstance(v, str) else v for v in (low, high))
    if shape == "equal" and column in values:
        return f"{column}:{low_text}", lambda row: row[column] is not None and row[column] == low
    if shape in ("above", "equal"):
        return (
            f"{column}:>{low_text}",
            lambda row: row[column] is not None and greater(value_of(row), low),
        )
    if shape == "below":
        return (
            f"{column}:<={high_text}",
            lambda row: row[column] is not None and not greater(value_of(row), high),
        )
    return (
        f"{column}:[{low_text} TO {high_text}}}",
        lambda row: (
            row[column] is not None
            and (
                (value_of(row) == low or greater(value_of(row), low))
                and greater(high, value_of(row))
            )
        ),
    )


def greater(one: Any, other: Any) -> bool:
    """Spark's order: NaN is above everything."""
    if isinstance(one, float) and math.isnan(one):
        return not (isinstance(other, float) and math.isnan(other))
    if isinstance(other, float) and math.isnan(other):
        return False
    return bool(one > other)


def json_leaf(rng: random.Random) -> Case:
    column, path = rng.choice(
        [
            ("js", ["a"]),
            ("js", ["a", "b"]),
            ("js", ["c.d"]),
            ("js", []),
            ("js", ["a", ""]),
            ("tags", []),
            ("st", ["name"]),
        ]
    )
    name = ".".join([column, *(key.replace(".", "\\.") for key in path)])
    kind = rng.choice(["word", "word", "phrase", "number", "range", "wildcard", "regex"])

    def values(row: Row) -> list[Any]:
        return [v for group in json_groups(json_document(row, column), path) for v in group]

    if kind == "range":
        return f"{name}:[1 TO 2.5]", lambda row: any(
            not isinstance(v, bool | str) and 1 <= v <= 2.5 for v in values(row)
        )
    if kind == "number":
        text = rng.choice(["1", "2.5", "-3", "true"])
        wanted = json.loads(text)
        tests = [w.__eq__ for w in simple_words(text)]

        def same(value: Any) -> bool:
            if isinstance(value, str):
                return phrase_at(simple_words(value), tests)
            return isinstance(value, bool) == isinstance(wanted, bool) and value == wanted

        return f"{name}:{text}", lambda row: any(map(same, values(row)))
    if kind == "phrase":
        shown = rng.choice(["foo bar", "bar foo", "longlonglong x"])
        tests = [w.__eq__ for w in shown.split()]
        return f"{name}:{quoted(shown)}", lambda row: any(
            isinstance(v, str) and phrase_at(simple_words(v), tests) for v in values(row)
        )
    word = rng.choice([*WORDS, "bar", "00z"])
    if kind == "regex":
        text, test = rng.choice(REGEXES)
    elif kind == "wildcard":
        text, test = word[:1] + "*", like(word[:1] + "*")
    else:
        text, test = quoted(word), word.__eq__
    return f"{name}:{text}", lambda row: any(
        isinstance(v, str) and any(map(test, simple_words(v))) for v in values(row)
    )


def regex_leaf(rng: random.Random) -> Case:
    column = rng.choice([*SPLITTERS, "cjk"])
    text, test = rng.choice(REGEXES)
    if column == "cjk":
        inside = re.compile(rng.choice(["京.", "[東京]都", "a(b|語)", "b{2}"]))
        return (
            f"cjk:/{inside.pattern}/",
            lambda row: row["cjk"] is not None and bool(inside.search(row["cjk"].lower())),
        )
    if column in ("level", "plain", "hashed"):
        pattern = rng.choice(["ERR.*", ".*", "(?i)err.*", "[a-z].*level.*"])
        text, test = f"/{pattern}/", _whole(pattern)
    split = SPLITTERS[column]
    return (
        f"{column}:{text}",
        lambda row: row[column] is not None and any(map(test, split(row[column]))),
    )


def _whole(pattern: str) -> Callable[[str], bool]:
    return lambda text: re.fullmatch(pattern, text, re.DOTALL) is not None


REGEXES: list[tuple[str, Callable[[str], bool]]] = [
    ("/time.*|foo/", _whole("time.*|foo")),
    ("/tim(e|er)/", _whole("tim(e|er)")),
    ("/[a-c]+/", _whole("[a-c]+")),
    ("/[^a]../", _whole("[^a]..")),
    (r"/.*\d+/", _whole("[^\x00]*[0-9]+")),
    ("/(long){3}/", _whole("(long){3}")),
    ("/é?a/", _whole("é?a")),
    ("/x.{0,3}/", _whole("x.{0,3}")),
    ("/^bar$/", _whole("bar")),
    ("/.*/", _whole(".*")),
]


def everything(rng: random.Random) -> Case:
    return "*", lambda row: True


LEAVES = [
    word_leaf,
    word_leaf,
    slop_leaf,
    wildcard_leaf,
    prefix_leaf,
    fuzzy_leaf,
    cjk_leaf,
    default_leaf,
    set_leaf,
    exists_leaf,
    ip_leaf,
    range_leaf,
    range_leaf,
    json_leaf,
    json_leaf,
    regex_leaf,
    everything,
]

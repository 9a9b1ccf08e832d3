"""Translate the Elasticsearch query DSL to queries of a table.

A part that is not supported is refused by name. A leaf becomes a text of the query language and is
parsed by it, so types, times, addresses and paths mean the same in both. Leaves are combined as a
tree. Clauses of `filter` do not contribute to the score.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
from msgspec.structs import replace

from indextables.errors import InvalidInputError, QuerySyntaxError, nearest, show_value
from indextables.model.values import parse_float
from indextables.splits.index.analyzers import analyze
from indextables.splits.index.mapping import query_tokenizer
from indextables.splits.query import tree
from indextables.splits.query.fields import MAX_WEIGHT, QueryFields
from indextables.splits.query.parser import parse

_LUCENE_OWN = {"analyze_wildcard", "lenient", "auto_generate_synonyms_phrase_query"}
"""Options without effect here: wildcards are always analyzed, and a value of another type is an
error.
"""
_BOUNDS = {"gt": "{", "gte": "[", "from": "[", "lt": "}", "lte": "]", "to": "]"}
_DAY = re.compile(r"\d{4}([-/])\d\d\1\d\d")
_ROUNDED = re.compile(r"now([+-]\d+\w)*/\w")
_DEEPEST = 50
_UNITS = {"epoch_millis": 1000, "epoch_second": 1}
_READ_FORMATS = (
    *(
        "strict_date_optional_time_nanos",
        "strict_date_optional_time",
        "date_optional_time",
        "iso8601",
    ),
    *(
        "yyyy-MM-dd",
        "yyyy-MM-dd HH:mm:ss",
        "yyyy-MM-dd'T'HH:mm:ss",
        "yyyy/MM/dd",
        "yyyy/MM/dd HH:mm:ss",
    ),
)
"""Time formats whose texts are read as they are."""
_REWRITES = ("constant_score", "constant_score_blended", "constant_score_boolean")


def refuse(what: str, *, known: Sequence[str] = ()) -> InvalidInputError:
    """Return the error for an unsupported part."""
    near = nearest(what, known)
    hint = f"Did you mean {near[0]!r}? " if near else ""
    listed = f"Known: {', '.join(known)}." if known else "Leave it out."
    return InvalidInputError(f"{what!r} is not supported.", hint=hint + listed, part=what)


def options(given: Any, known: Sequence[str], where: str) -> dict[str, Any]:
    """Return the options of a part; unknown ones raise an error."""
    if not isinstance(given, Mapping):
        raise InvalidInputError(
            f"{where} must be an object, not {show_value(given)}.",
            hint=f"Known: {', '.join(known)}.",
        )
    unknown = next((key for key in given if key not in known), None)
    if unknown is not None:
        near = nearest(str(unknown), known)
        hint = f"Did you mean {near[0]!r}? " if near else ""
        message = f"{unknown!r} in {where} is not supported."
        raise InvalidInputError(
            message, hint=f"{hint}Known: {', '.join(known)}.", part=str(unknown)
        )
    return dict(given)


class QueryDsl:
    """Query DSL over the columns of one table."""

    def __init__(self, fields: QueryFields, *, now_ms: int | None = None) -> None:
        self.fields = fields
        self.now = None if now_ms is None else dt.datetime.fromtimestamp(now_ms / 1000, dt.UTC)
        self._now_ms = now_ms
        self._kinds: dict[str, Callable[[Any, int], tree.Query]] = {
            "match_all": lambda body, _: self._all(body),
            "match_none": lambda body, _: self._none(body),
            "bool": self._bool,
            "match": lambda body, _: self._match(body),
            "match_phrase": lambda body, _: self._phrase(body, prefix=False),
            "match_phrase_prefix": lambda body, _: self._phrase(body, prefix=True),
            "multi_match": lambda body, _: self._multi_match(body),
            "term": lambda body, _: self._term(body),
            "terms": lambda body, _: self._terms(body),
            "range": lambda body, _: self._range(body),
            "prefix": lambda body, _: self._pattern(body, "prefix"),
            "wildcard": lambda body, _: self._pattern(body, "wildcard"),
            "regexp": lambda body, _: self._pattern(body, "regexp"),
            "fuzzy": lambda body, _: self._fuzzy(body),
            "exists": lambda body, _: self._parse(
                f"{self.name(_one(options(body, ['field'], 'exists'), 'field'))}:*"
            ),
            "query_string": lambda body, _: self._query_string(body),
            "simple_query_string": lambda body, _: self._simple(body),
        }

    def query(self, body: Any, depth: int = 0) -> tree.Query:
        """Translate a query to a tree."""
        if depth > _DEEPEST:
            raise InvalidInputError(
                f"The query is nested deeper than {_DEEPEST} times.", hint="Make it flatter."
            )
        if not isinstance(body, Mapping) or len(body) != 1:
            raise InvalidInputError(
                f"A query is an object with one key, not {str(body)[:80]!r}.",
                hint="Use bool for several.",
            )
        kind = next(iter(body))
        if kind not in self._kinds:
            raise refuse(str(kind), known=list(self._kinds))
        return self._kinds[kind](body[kind], depth)

    def column(self, field: Any) -> str:
        """Return the column of a field; `level.keyword` is the column `level`."""
        name = str(field)
        names = self.fields.schema.names
        if name in names:
            return name
        base = name.removesuffix(".keyword")
        if base in names:
            return base
        raise InvalidInputError(
            f"There is no column {name!r}.", hint=f"Columns: {', '.join(names)}.", field=name
        )

    def name(self, field: Any) -> str:
        """Return a field's name in the query language. A path inside a JSON column is its own name."""
        name = str(field)
        if (
            self.fields.resolve(tuple(name.split("."))) is not None
            and name not in self.fields.schema.names
        ):
            return name
        return str(tree.Target(self.column(name)))

    def _parse(self, text: str, fields: QueryFields | None = None) -> tree.Query:
        return parse(text, fields or self.fields, now_ms=self._now_ms)

    def _all(self, body: Any) -> tree.Query:
        return _boost(tree.AllRows(), options(body, ["boost"], "match_all"))

    def _none(self, body: Any) -> tree.Query:
        options(body, ["boost"], "match_none")
        return tree.Bool(must_not=(tree.AllRows(),))

    def _bool(self, body: Any, depth: int) -> tree.Query:
        known = ["must", "filter", "should", "must_not", "minimum_should_match", "boost"]
        given = options(body, known, "bool")
        parts = {
            key: tuple(self.query(part, depth + 1) for part in _several(given.get(key)))
            for key in ("must", "filter", "should", "must_not")
        }
        must = parts["must"] + tuple(tree.Boost(part, 0.0) for part in parts["filter"])
        should, minimum = (
            parts["should"],
            _minimum(given.get("minimum_should_match"), len(parts["should"])),
        )
        if minimum is None or (should and not must):
            minimum = max(
                minimum or 0, 0 if must else int(bool(should))
            )  # of should alone, one must match in any case
        if minimum > len(should):
            return tree.Bool(must_not=(tree.AllRows(),))
        if not must and not should and not parts["must_not"]:
            return _boost(tree.AllRows(), given)
        return _boost(
            tree.Bool(
                must,
                should,
                parts["must_not"],
                minimum=minimum if (should and minimum > 1) or (must and minimum) else 0,
            ),
            given,
        )

    def _match(self, body: Any) -> tree.Query:
        field, given = _field_body(
            body, "match", "query", ["operator", "minimum_should_match", "boost"]
        )
        words = self._words(field, given["query"])
        return _boost(_combine(words, given), given)

    def _words(self, field: Any, value: Any) -> tuple[tree.Query, ...]:
        """Analyze a text as its column does. The text is one term in a value column."""
        if "." not in str(field) or field in self.fields.schema.names:
            column = self.fields.column(self.column(field))
        else:
            column = None
        if column is None or column.kind != "text" or not isinstance(value, str):
            return (self._value(field, value),)
        tokens = analyze(value, query_tokenizer(column.tokenizer or "default"))
        found = dict.fromkeys(value[token.start : token.end] for token in tokens)
        return tuple(self._value(field, word) for word in found)

    def _value(self, field: Any, value: Any) -> tree.Query:
        after = self._day_after(field, value)
        if after is None:
            wanted = _quote(value)
        else:
            wanted = f"[{_quote(value)} TO {_quote(after)}}}"
        return self._parse(f"{self.name(field)}:{wanted}")

    def _day_after(self, field: Any, value: Any) -> str | None:
        """Return the end of a day given as a date or `now/d`.

        Elasticsearch rounds such bounds to the whole day: `lte` includes the day and `gt` excludes
        it.
        """
        target = self.fields.resolve(tuple(str(field).split(".")))
        if (
            target is None
            or target.path
            or not pa.types.is_timestamp(self.fields.schema.field(target.column).type)
        ):
            return None
        text = str(value)
        if _ROUNDED.fullmatch(text):
            start, unit = text.rsplit("/", 1)
            return f"{start}+1{unit}/{unit}"
        try:
            if _DAY.fullmatch(text):
                day = dt.date.fromisoformat(text.replace("/", "-"))
            else:
                day = None
            if day is None:
                return None
            return (day + dt.timedelta(days=1)).isoformat()
        except (ValueError, OverflowError):
            return None

    def _phrase(self, body: Any, *, prefix: bool) -> tree.Query:
        kind = "match_phrase_prefix" if prefix else "match_phrase"
        field, given = _field_body(body, kind, "query", ["slop", "boost"])
        number = _whole_option(given, "slop", 0)
        slop = f"~{number}" if number else ""
        return _boost(
            self._parse(
                f"{self.name(field)}:{_quote(given['query'])}{'*' if prefix else ''}{slop}"
            ),
            given,
        )

    def _multi_match(self, body: Any) -> tree.Query:
        known = ["query", "fields", "type", "operator", "minimum_should_match", "boost", "lenient"]
        given = options(body, known, "multi_match")
        kind = given.get("type", "best_fields")
        if kind not in ("best_fields", "most_fields", "phrase"):
            raise refuse(str(kind), known=["best_fields", "most_fields", "phrase"])
        names = [str(f) for f in _several(given.get("fields"))]
        if not names or names == ["*"]:
            names = [target.column for target in self.fields.default_targets()]
        parts = []
        for name in names:
            field, _, weight = name.partition("^")
            text = _single(_one(given, "query"), "query of multi_match")
            if kind == "phrase":
                one = self._value(field, text)
            else:
                one = _combine(self._words(field, text), given)
            parts.append(_boost(one, {"boost": _weight(weight, name)}) if weight else one)
        return _boost(tree.any_of(tuple(parts)), given)

    def _term(self, body: Any) -> tree.Query:
        field, given = _field_body(body, "term", "value", ["boost"])
        return _boost(self._value(field, given["value"]), given)

    def _terms(self, body: Any) -> tree.Query:
        given = dict(body) if isinstance(body, Mapping) else {}
        if "boost" in given:
            boost = {"boost": given.pop("boost")}
        else:
            boost = {}
        if len(given) != 1:
            raise InvalidInputError(
                "terms needs one field with a list of values.", hint='Write {"level": ["a", "b"]}.'
            )
        field, values = next(iter(given.items()))
        if not isinstance(values, list):
            raise InvalidInputError(
                "terms needs a list of values.", hint='Write {"level": ["a", "b"]}.', field=field
            )
        if not values:
            return tree.Bool(must_not=(tree.AllRows(),))
        parts = tuple(self._value(field, _single(value, f"terms of {field!r}")) for value in values)
        return _boost(tree.any_of(parts), boost)

    def _range(self, body: Any) -> tree.Query:
        field, given = _field_body(body, "range", None, [*_BOUNDS, "format", "time_zone", "boost"])
        if str(given.get("time_zone", "UTC")).upper() not in ("UTC", "Z", "+00:00"):
            raise refuse(f"time_zone {given['time_zone']}")
        scale = _scale(given.get("format"), field)
        low, high = (
            _find_bound(given, ("gt", "gte", "from")),
            _find_bound(given, ("lt", "lte", "to")),
        )
        if low is None and high is None:
            return _boost(self._parse(f"{self.name(field)}:*"), given)
        start, end = (None if key is None else _moment(given[key], scale) for key in (low, high))
        opening = "*" if low is None else _quote(start)
        closing = "*" if high is None else _quote(end)
        brackets = [_BOUNDS[low or "gte"], _BOUNDS[high or "lte"]]
        if low == "gt" and (after := self._day_after(field, start)):
            brackets[0], opening = "[", _quote(after)
        if high in ("lte", "to") and (after := self._day_after(field, end)):
            brackets[1], closing = "}", _quote(after)
        return _boost(
            self._parse(f"{self.name(field)}:{brackets[0]}{opening} TO {closing}{brackets[1]}"),
            given,
        )

    def _pattern(self, body: Any, kind: str) -> tree.Query:
        field, given = _field_body(
            body, kind, "value", ["boost", "wildcard", "flags", "case_insensitive", "rewrite"]
        )
        if "value" in given and "wildcard" in given:
            raise refuse(f"wildcard next to value in {kind} of {field}")
        pattern = str(_single(given.get("value", given.get("wildcard")), f"{kind} of {field!r}"))
        if given.get("rewrite") not in (None, *_REWRITES):
            raise refuse(f"rewrite {given['rewrite']}", known=_REWRITES)
        if kind == "regexp":
            _check_operators(pattern, given.get("flags", "ALL"))
            slashes = re.sub(r"(?<!\\)/", r"\\/", pattern)
            flag = "i" if given.get("case_insensitive") else ""
            return _boost(self._parse(f"{self.name(field)}:/{slashes}/{flag}"), given)
        if "flags" in given:
            raise refuse(f"flags of {kind}")
        if given.get("case_insensitive"):
            raise refuse("case_insensitive")
        target = self._parse(f"{self.name(field)}:*")
        if not isinstance(target, tree.Exists):
            raise refuse(f"{kind} of {field}")
        if kind == "prefix":
            shown = re.sub(r"([*?\\])", r"\\\1", pattern) + "*"
        else:
            shown = pattern
        return _boost(tree.Wildcard(target.target, shown), given)

    def _fuzzy(self, body: Any) -> tree.Query:
        field, given = _field_body(body, "fuzzy", "value", ["fuzziness", "boost"])
        word, fuzziness = str(given["value"]), str(given.get("fuzziness", "AUTO"))
        if fuzziness.upper() not in ("AUTO", "0", "1", "2"):
            raise refuse(f"fuzziness {fuzziness}", known=["AUTO", "0", "1", "2"])
        if len(word) < 3:
            auto = 0
        elif len(word) < 6:
            auto = 1
        else:
            auto = 2
        if fuzziness.upper() == "AUTO":
            distance = auto
        else:
            distance = int(fuzziness)
        if not distance:
            return _boost(self._value(field, word), given)
        return _boost(self._parse(f"{self.name(field)}:{_escape(word)}~{distance}"), given)

    def _query_string(self, body: Any) -> tree.Query:
        known = ["query", "default_field", "fields", "default_operator", "boost", *_LUCENE_OWN]
        given = options(body, known, "query_string")
        all_words = self._all_words(given)
        text = str(_single(_one(given, "query"), "query of query_string")).strip() or "*"
        return _boost(self._parse(text, replace(self._within(given), all_words=all_words)), given)

    def _all_words(self, given: Mapping[str, Any]) -> bool:
        """Return whether adjacent words must all match: the request decides, then the default of
        the table.
        """
        if "default_operator" not in given:
            return self.fields.all_words
        operator = str(given["default_operator"]).lower()
        if operator not in ("and", "or"):
            raise refuse(f"default_operator {operator}", known=["and", "or"])
        return operator == "and"

    def _within(self, given: Mapping[str, Any]) -> QueryFields:
        names = [str(f) for f in _several(given.get("fields") or given.get("default_field"))]
        if not names or names == ["*"]:
            return self.fields
        return self.fields.within(*(self.column(name) for name in names))

    def _simple(self, body: Any) -> tree.Query:
        known = ["query", "fields", "default_operator", "boost", *_LUCENE_OWN]
        given = options(body, known, "simple_query_string")
        query = str(_single(_one(given, "query"), "query of simple_query_string"))
        text = _simple_text(query, " AND " if self._all_words(given) else " OR ")
        if not text:
            return tree.Bool(must_not=(tree.AllRows(),))
        try:
            return _boost(self._parse(text, self._within(given)), given)
        except QuerySyntaxError as error:
            message = error.message.partition("\n")[0].rstrip(":.")
            raise InvalidInputError(f"{message}.", hint=error.hint) from None


def _simple_text(query: str, between: str) -> str:
    """Translate a simple query string to the query language. Special characters in words are
    literal.
    """
    text, joint = "", ""
    for token in re.findall(r'"[^"]*"(?:~\d+)?|[()|+]|-(?=\S)|[^\s()"|+]+', query):
        if token in ("|", "+"):
            joint = {"|": " OR ", "+": " AND "}[token]
        elif token == ")":
            text, joint = text + ")", ""
        else:
            lead = joint or between
            text += "" if not text or text.endswith(("(", "NOT ")) else lead
            joint = ""
            if token in ("(", "-"):
                text += "(" if token == "(" else "NOT "
            elif token.startswith('"') or token == "*":
                text += token
            else:
                text += _simple_word(token)
    return text


def _simple_word(token: str) -> str:
    """Translate a word of a simple query string: a prefix, a fuzzy word or a plain word."""
    if token.endswith("*"):
        return f"{_escape(token[:-1])}*"
    fuzzy = re.fullmatch(r"(\w+)~([0-9]?)", token)
    if fuzzy is None:
        return _quote(token)
    edits = min(int(fuzzy[2] or 2), 2)
    if edits:
        return f"{_escape(fuzzy[1])}~{edits}"
    return _quote(fuzzy[1])


def _combine(words: tuple[tree.Query, ...], given: Mapping[str, Any]) -> tree.Query:
    if not words:
        return tree.Bool(must_not=(tree.AllRows(),))
    operator = str(given.get("operator", "or")).lower()
    if operator not in ("and", "or"):
        raise refuse(f"operator {show_value(operator)}", known=["and", "or"])
    if operator == "and":
        return tree.all_of(words)
    minimum = _minimum(given.get("minimum_should_match"), len(words))
    if minimum is not None and minimum > 1:
        return tree.Bool(should=words, minimum=min(minimum, len(words)))
    return tree.any_of(words)


def _minimum(value: Any, count: int) -> int | None:
    if value is None:
        return None
    text = str(value).strip()
    match = re.fullmatch(r"(-?\d+)(%?)", text)
    if match is None:
        raise refuse(f"minimum_should_match {text}")
    number = int(match[1])
    if match[2]:
        if number >= 0:
            number = count * number // 100
        else:
            number = count - count * -number // 100
    return max(0, number if number >= 0 else count + number)


def _boost(query: tree.Query, given: Mapping[str, Any]) -> tree.Query:
    boost = given.get("boost", 1)
    if (
        not isinstance(boost, int | float)
        or isinstance(boost, bool)
        or not 0 <= boost <= MAX_WEIGHT
    ):
        raise InvalidInputError(
            f"A boost is a number from 0 to {MAX_WEIGHT:g}, not {show_value(boost)}.",
            hint="Leave it out.",
        )
    if boost == 1:
        return query
    return tree.Boost(query, float(boost))


def _field_body(
    body: Any, kind: str, value: str | None, known: Sequence[str]
) -> tuple[Any, dict[str, Any]]:
    """Return the field of a leaf and its options. `{"field": text}` is the short form of its value."""
    if not isinstance(body, Mapping) or len(body) != 1:
        raise InvalidInputError(
            f"{kind} needs one field.", hint=f'Write {{"{kind}": {{"message": ...}}}}.'
        )
    field, given = next(iter(body.items()))
    if not isinstance(given, Mapping):
        if value is None:
            raise InvalidInputError(
                f"{kind} of {field!r} needs an object.", hint='Write {"gte": 1}.'
            )
        return field, {value: _single(given, f"{kind} of {field!r}")}
    found = options(given, [*([value] if value else []), *known], f"{kind} of {field!r}")
    if value is not None and value not in found and "wildcard" not in found:
        raise InvalidInputError(f"{kind} of {field!r} has no {value!r}.", hint=f"Give {value!r}.")
    if value is not None and value in found:
        _single(found[value], f"{kind} of {field!r}")
    return field, found


def _single(value: Any, where: str) -> str | int | float:
    """Return a scalar to search for: a text, a number or a boolean."""
    if isinstance(value, str | int | float):
        return value
    if value is None:
        hint = "Search rows without a value by exists in must_not."
    else:
        hint = "Name one value, or use terms."
    raise InvalidInputError(f"{where} needs a value, not {show_value(value)}.", hint=hint)


def _whole_option(given: Mapping[str, Any], key: str, default: int) -> int:
    value = given.get(key, default)
    if isinstance(value, int | str) and not isinstance(value, bool):
        digits = str(value)
    else:
        digits = ""
    if not (digits.isascii() and digits.isdigit() and len(digits) < 10):
        raise InvalidInputError(
            f"{key} is a whole number from 0 up, not {show_value(value)}.", hint="Leave it out."
        )
    return int(digits)


def _weight(text: str, field: str) -> float:
    try:
        return parse_float(text)
    except ValueError:
        raise InvalidInputError(
            f"The weight of {show_value(field)} is not a number.", hint="Write title^3."
        ) from None


def _scale(text: Any, field: Any) -> int | None:
    """Return the units per second of numeric range bounds, or None if bounds are read as they are."""
    if text is None:
        return None
    formats = str(text).split("||")
    unknown = next((part for part in formats if part not in (*_UNITS, *_READ_FORMATS)), None)
    if unknown is not None:
        raise refuse(f"format {unknown} in the range of {field}", known=[*_UNITS, *_READ_FORMATS])
    return next((_UNITS[part] for part in formats if part in _UNITS), None)


def _check_operators(pattern: str, flags: Any) -> None:
    """Refuse characters that are operators of Lucene's regular expressions, unless `flags` disables
    them.
    """
    if flags not in ("ALL", "NONE"):
        raise refuse(f"flags {show_value(flags)}", known=["ALL", "NONE"])
    own = re.search(r'(?<!\\)(?:\\\\)*([~#@&<"])', re.sub(r"\[[^\]]*\]", "", pattern))
    if own is not None and flags == "ALL":
        hint = f'Write it as [{own[1]}], or give "flags": "NONE".'
        raise InvalidInputError(
            f"The operator {own[1]} of a regexp is not supported.", hint=hint, part=own[1]
        )


def _one(given: Mapping[str, Any], key: str) -> Any:
    if key not in given:
        raise InvalidInputError(f"{key!r} is missing.", hint=f"Give {key!r}.")
    return given[key]


def _several(value: Any) -> list[Any]:
    if value is None:
        return []
    if isinstance(value, list):
        return list(value)
    return [value]


def _find_bound(given: Mapping[str, Any], keys: Sequence[str]) -> str | None:
    """Return which of the given keys bounds a range. More than one is an error."""
    found = [key for key in keys if given.get(key) is not None]
    if found:
        _single(given[found[0]], f"{found[0]} of a range")
    if len(found) > 1:
        message = f"A range has {' and '.join(found)}, of which only one can hold."
        raise InvalidInputError(message, hint="Leave one of them out.", part=found[1])
    if found:
        return found[0]
    return None


def _moment(value: Any, scale: int | None) -> Any:
    text = str(value).removeprefix("-")
    if scale is None or not (text.isascii() and text.isdigit()):
        return value
    try:
        moment = dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(
            microseconds=int(value) * 1_000_000 // scale
        )
    except OverflowError:
        raise InvalidInputError(
            f"{show_value(value)} is outside the years 1 to 9999.", hint="Check its unit."
        ) from None
    return moment.isoformat()


def _quote(value: Any) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _escape(word: str) -> str:
    return re.sub(r"([\\:\"'()\[\]{}^~*?+\-!<>/\s])", r"\\\1", word)

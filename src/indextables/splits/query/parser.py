"""Query text -> tree. Boolean structure here; what one clause of a column means is `clauses`.

    query   := chain
    chain   := operand ((AND | OR | nothing) operand)*
    operand := (+ | - | NOT)* atom (^number)?
    atom    := ( chain ) (~number)? | column: atom | clause

Operands joined by AND form one required group. Everything else stands side by side: plain ones are
alternatives, `+` is required, `-` and NOT are forbidden. Next to OR, a negated operand is an
alternative of its own. Where a table means AND by words side by side they are joined too, but in a
group with a number behind it, `(a b c)~2`, they are what is counted.
"""

from __future__ import annotations

import re

from msgspec import Struct
from msgspec.structs import replace

from indextables.errors import show_value
from indextables.splits.index.mapping import is_text
from indextables.splits.query.clauses import BREAKS, BareWord, Characters, Clauses
from indextables.splits.query.fields import MAX_WEIGHT, QueryFields
from indextables.splits.query.tree import Bool, Boost, Query, Target, all_of, any_of, with_targets

MAX_DEPTH = 100
MAX_LENGTH = 1_000_000
_SURROGATE = re.compile("[\ud800-\udfff]")


def parse(text: str, fields: QueryFields, *, now_ms: int | None = None) -> Query:
    """Parse a query to a tree. Raises `QuerySyntaxError` with the position and the known fields.

    `now_ms` is the clock for times such as `now-15m`.
    """
    parser = _QueryParser(Characters(text, tuple(fields.schema.names)), fields, now_ms)
    if len(text) > MAX_LENGTH:
        raise parser.source.fail(
            f"The query has {len(text)} characters; {MAX_LENGTH} are the most", at=0
        )
    if broken := _SURROGATE.search(text):
        raise parser.source.fail(
            "There is half of a surrogate pair, which is no character", at=broken.start()
        )
    query = parser.chain(None, 0)
    if parser.source.peek():
        raise parser.source.fail(
            "A closing parenthesis without an opening one", hint="Remove it, or escape it with \\."
        )
    most = fields.max_terms
    if most:
        return with_targets(query, lambda target: replace(target, max_terms=most))
    return query


class _Operand(Struct, frozen=True):
    query: Query
    occur: str
    """`+` required, `-` forbidden, empty for plain."""
    joint: str = ""
    """The operator in front of it: AND, OR or empty."""


class _QueryParser:
    """Recursive descent parser. Its depth is bounded so that no query can exhaust the stack."""

    def __init__(self, source: Characters, fields: QueryFields, now_ms: int | None) -> None:
        self.source = source
        self.clauses = Clauses(source, fields, now_ms)
        self._all_words = fields.all_words

    def chain(self, target: tuple[Target, ...] | None, depth: int) -> Query:
        """Parse operands and operators up to a closing parenthesis or the end."""
        return _combine(*_groups(self._operands(target, depth), self._all_words))

    def _operands(self, target: tuple[Target, ...] | None, depth: int) -> list[_Operand]:
        source = self.source
        operands: list[_Operand] = []
        operator = ""
        while True:
            source.skip_space()
            if source.peek() in ("", ")"):
                break
            keyword = self._operator()
            if keyword:
                if operator or not operands:
                    raise source.fail(
                        f"{keyword} has nothing before it",
                        at=source.at - len(keyword),
                        hint=_WORD_HINT,
                    )
                operator = keyword
                continue
            operands.append(replace(self._operand(target, depth), joint=operator))
            operator = ""
        if operator:
            raise source.fail(f"{operator} has nothing after it", hint=_WORD_HINT)
        if not operands:
            raise source.fail(
                "The query is empty" if depth == 0 else "The group is empty",
                hint="Use * for every row.",
            )
        return operands

    def _operator(self) -> str:
        for word in ("AND", "OR"):
            if self.source.take_keyword(word):
                return word
        for sign, word in (("&&", "AND"), ("||", "OR"), ("!", "NOT")):
            if self.source.text.startswith(sign, self.source.at):
                raise self.source.fail(
                    f"{sign} is no operator", hint=f"Write {word}, or quote it to search for it."
                )
        return ""

    def _operand(self, target: tuple[Target, ...] | None, depth: int) -> _Operand:
        source, start = self.source, self.source.at
        if depth >= MAX_DEPTH:
            raise source.fail(f"The query is nested deeper than {MAX_DEPTH} levels")
        for sign in ("+", "-", "NOT"):
            if not (source.take_keyword(sign) if sign == "NOT" else source.take(sign)):
                continue
            if sign == "NOT":
                source.skip_space()
            if source.peek() in ("", ")") or source.peek().isspace() or self._operator():
                raise source.fail(f"{sign} has nothing after it", at=start, hint=_WORD_HINT)
            inner = self._operand(target, depth + 1)
            if sign == "+":
                return _Operand(inner.query, inner.occur or "+")
            return _Operand(inner.query, "" if inner.occur == "-" else "-")
        return _Operand(self._parse_boost(self._atom(target, depth)), "")

    def _atom(self, target: tuple[Target, ...] | None, depth: int) -> Query:
        source = self.source
        opening = source.at
        if source.take("("):
            operands = self._operands(target, depth + 1)
            if not source.take(")"):
                raise source.fail(
                    "The parenthesis is not closed", at=opening, hint="Add a closing )."
                )
            counted = source.peek() == "~"
            groups = _groups(operands, self._all_words and not counted)
            return self._at_least(_combine(*groups, simplify=not counted))
        self._refuse_sql()
        named = self._field(target)
        if named is None:
            return self.clauses.clause(target)
        source.skip_space()
        if source.peek() in ("", ")"):
            raise source.fail(
                "The column has nothing to look for",
                at=opening,
                hint="Write column:word or column:*.",
            )
        if source.peek() == "(":
            return self._atom((named,), depth + 1)
        return self.clauses.clause((named,))

    def _at_least(self, query: Query) -> Query:
        """Apply the number of alternatives that must match, if one follows the group."""
        source, at = self.source, self.source.at
        minimum = source.number(
            "~", MAX_LENGTH, "the number of alternatives that must match, as in (a b c)~2"
        )
        if minimum is None:
            return query
        most = len(query.should) if isinstance(query, Bool) else 0
        if not isinstance(query, Bool) or not 1 <= minimum <= most:
            hint = "Write (a b c)~2 for at least two of three; what AND joins is one alternative."
            raise source.fail(
                f"The group has {most} alternatives, so ~{minimum} makes no sense", at=at, hint=hint
            )
        return Bool(query.must, query.should, query.must_not, minimum)

    def _field(self, target: tuple[Target, ...] | None) -> Target | None:
        """Parse the column before a colon, if the next word has one, and consume the colon.

        Inside `column:(…)` an address or a time may contain a colon; otherwise the text before a
        colon must be a column.
        """
        source, start = self.source, self.source.at
        target = self.clauses.about(target)
        if source.peek() in "\"'" + BREAKS or source.regex_end() is not None:
            return None
        word = source.bare()
        colon = word.find(":")
        if colon < 0:
            source.skip_space()
            if source.take(":"):
                return self._resolve(word)
            source.at = start
            return None
        source.at = start
        name, rest = word.split(colon)
        resolved = self.clauses.fields.resolve(name.parts("."))
        if resolved is None and target is not None and not any(self._has_words(t) for t in target):
            return None
        source.at = rest.start
        return resolved or self._resolve(name)

    def _has_words(self, target: Target) -> bool:
        """Return whether a column holds words or texts rather than addresses, numbers or times."""
        fields = self.clauses.fields
        kind = fields.column(target.column).kind
        return kind in ("text", "string", "json") or (
            kind == "none" and is_text(fields.schema.field(target.column).type)
        )

    def _refuse_sql(self) -> None:
        """Refuse SQL: parsed as words it would return rows that the user did not request."""
        found = _SQL.match(self.source.text, self.source.at)
        if found is None:
            return
        name, sign = found["name"], (found["sign"] or found["word"]).strip()
        column = self.clauses.fields.resolve(tuple(name.split(".")))
        if column is None and (found["word"] or sign in ("=", "==") or not found["number"]):
            return
        instead = name + _INSTEAD.get(sign.upper(), ":value")
        hint = f"In a query write {instead}; SQL goes into a condition (where=…). Quote it to search for it as words."
        raise self.source.fail(f"{show_value(f'{name} {sign}')} is SQL, not a query", hint=hint)

    def _resolve(self, name: BareWord) -> Target:
        fields = self.clauses.fields
        target = fields.resolve(name.parts("."))
        if target is not None:
            return target
        instead = self._lucene_hint(name.text)
        if instead:
            raise self.source.fail(
                f"There is no column {show_value(name.text)}", at=name.start, hint=instead
            )
        near = fields.nearest(name.parts(".")[0])
        guess = f"Did you mean {' or '.join(near)}? " if near else ""
        hint = f"{guess}Known columns: {', '.join(fields.schema.names)}. A colon inside a word is written \\: or quoted."
        raise self.source.fail(
            f"There is no column {show_value(name.text)}", at=name.start, hint=hint, nearest=near
        )

    def _lucene_hint(self, name: str) -> str:
        """Return a hint for a Lucene construct whose name is not a column; the cursor is after its
        colon.
        """
        rest = self.source.text[self.source.at :].split(maxsplit=1)
        value = rest[0].rstrip(")") if rest else "column"
        if name == "*":
            every, word = (
                "Write * for every row.",
                "A word without a column is looked for in every column of text.",
            )
            if value == "*":
                return every
            return word
        if name == "_exists_":
            return f"Write column:* for the rows that have a value, as in {value}:*."
        if name == "_missing_":
            return f"Write NOT column:* for the rows that have no value, as in NOT {value}:*."
        return ""

    def _parse_boost(self, query: Query) -> Query:
        source, start = self.source, self.source.at
        if not source.take("^"):
            return query
        number = source.bare().text
        try:
            factor = float(number)
        except ValueError:
            factor = -1.0
        if not 0 <= factor <= MAX_WEIGHT or "_" in number:
            hint = (
                f"Write a number from 0 to {MAX_WEIGHT:g} after ^, or escape it with a backslash."
            )
            raise source.fail("^ needs a weight", at=start, hint=hint)
        if source.peek() == "^":
            raise source.fail("A clause has one weight only")
        return Boost(query, factor)


_SQL = re.compile(
    r"""(?P<name>[^\W\d][\w.]*)
    (?:(?P<sign>\s*(?:<=>|<>|!=|==|<=|>=|=|<|>))(?P<number>\s*[-+'"]?\d)?
    |\s+(?:NOT\s+)?(?P<word>IN(?=\s*[(\[])|(?:LIKE|ILIKE|RLIKE|REGEXP)(?=\s*['"])|BETWEEN(?=\s.*\sAND\s)|IS(?=\s+(?:NOT\s+)?NULL\b)))""",
    re.VERBOSE | re.IGNORECASE,
)
"""A column followed by an operator of SQL."""
_INSTEAD = {
    ">": ":>5",
    ">=": ":>=5",
    "<": ":<5",
    "<=": ":<=5",
    "IN": ":IN [a b]",
    "BETWEEN": ":[1 TO 5]",
    "IS": ":* (or NOT before it)",
    "LIKE": ":*part*",
}
_WORD_HINT = "Add what is missing, or quote the operator to search for it as a word."


def _groups(operands: list[_Operand], all_words: bool) -> tuple[list[list[_Operand]], set[int]]:
    """Group adjacent operands by AND, and return which groups are next to an OR."""
    groups: list[list[_Operand]] = []
    after_or = set[int]()
    for operand in operands:
        if operand.joint == "AND" or (not operand.joint and groups and all_words):
            groups[-1].append(operand)
        else:
            groups.append([operand])
            after_or |= {len(groups) - 2, len(groups) - 1} if operand.joint == "OR" else set()
    return groups, after_or


def _combine(groups: list[list[_Operand]], after_or: set[int], *, simplify: bool = True) -> Query:
    """Build the tree of adjacent operands, grouped by AND."""
    must: list[Query] = []
    should: list[Query] = []
    must_not: list[Query] = []
    for place, group in enumerate(groups):
        if len(group) > 1:
            (should if len(groups) > 1 else must).append(_require(group))
        elif place in after_or and group[0].occur == "-":
            should.append(_negate(group[0].query))
        else:
            operand = group[0]
            {"+": must, "-": must_not, "": should}[operand.occur].append(operand.query)
    if not simplify:
        return Bool(tuple(must), tuple(should), tuple(must_not))
    if len(must) == 1 and not should and not must_not:
        return must[0]
    if not must and not must_not:
        return any_of(tuple(should))
    return Bool(tuple(must), tuple(should), tuple(must_not))


def _require(group: list[_Operand]) -> Query:
    must = tuple(o.query for o in group if o.occur != "-")
    must_not = tuple(o.query for o in group if o.occur == "-")
    if must_not:
        return Bool(must, (), must_not)
    return all_of(must)


def _negate(query: Query) -> Query:
    return Bool(must_not=(query,))

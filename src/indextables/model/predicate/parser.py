"""SQL text to a predicate tree: recursive descent over the words, in Spark's dialect.

    or      := and (OR and)*
    and     := not (AND not)*
    not     := (NOT | !) not | test
    test    := operand [ comparison operand | [NOT] IN (literals) | [NOT] BETWEEN a AND b
                       | [NOT] LIKE string [ESCAPE string] | IS [NOT] NULL ]
    operand := literal | column | ( or ) | startswith(column, string) | CAST(literal AS type) | ...

A column is compared with literals only. A boolean column may stand alone.

What a predicate may call: tests written as functions, casts of literals, comparisons of two
literals.
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

from indextables.errors import InvalidInputError
from indextables.model.predicate.tokens import Cursor, Token, nearest, syntax_error, tokenize
from indextables.model.predicate.tree import (
    RESERVED,
    And,
    Column,
    Comparison,
    Constant,
    In,
    IsNotNull,
    IsNull,
    Literal,
    Not,
    Or,
    Predicate,
    RLike,
    TextMatch,
    like,
)
from indextables.model.values import (
    micros_of,
    parse_date,
    parse_decimal,
    parse_float,
    parse_timestamp,
)

FUNCTIONS: dict[str, tuple[Callable[[Column, str], Predicate], bool]] = {
    "startswith": (lambda column, text: TextMatch("starts_with", column, text), True),
    "endswith": (lambda column, text: TextMatch("ends_with", column, text), True),
    "contains": (lambda column, text: TextMatch("contains", column, text), True),
    "isnull": (lambda column, _: IsNull(column), False),
    "isnotnull": (lambda column, _: IsNotNull(column), False),
    "isnan": (lambda column, _: Comparison("<=>", column, Literal(math.nan)), False),
}
"""Functions by name: constructor, and whether it takes a text in addition to the column."""


def is_cast(name: str) -> bool:
    """Return whether a word is a type that a literal can be cast to, as in `double('NaN')`."""
    return name in _CASTS


def cast_literal(literal: Literal, kind: str) -> Literal:
    """Cast a literal; NULL stays NULL. A timestamp without a zone gets none until it is compared."""
    cast = _CASTS.get(kind)
    if cast is None:
        raise InvalidInputError(
            f"A literal cannot be cast to {kind!r}.", hint=f"Types: {', '.join(sorted(_CASTS))}."
        )
    if literal.value is None:
        return literal
    try:
        return Literal(cast(literal.value))
    except (ValueError, TypeError, ArithmeticError):
        raise InvalidInputError(
            f"{literal} is not a {kind}.", hint=f"Write a valid {kind}."
        ) from None


def compare_literals(operator: str, left: Literal, right: Literal) -> Constant:
    """Evaluate a comparison without a column, such as `1 = 1`."""
    a, b = left.value, right.value
    if operator == "<=>" and (a is None or b is None):
        return Constant(a is b)
    if a is None or b is None:
        return Constant(None)
    kinds = {_kind(a), _kind(b)}
    if len(kinds) > 1:
        raise InvalidInputError(
            f"{left} and {right} cannot be compared.", hint="Compare values of one kind."
        )
    x, y = _key(a), _key(b)
    outcomes = {"<": x < y, "<=": x <= y, ">": x > y, ">=": x >= y, "!=": x != y}
    return Constant(outcomes.get(operator, x == y))


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, (int, float, decimal.Decimal)):
        return "number"
    if isinstance(value, dt.date):
        return "time"
    return type(value).__name__


def _key(value: Any) -> Any:
    """Return a sort key in SQL order: NaN greatest, times by their instant."""
    if isinstance(value, dt.date):
        return micros_of(value)
    if isinstance(value, (float, decimal.Decimal)) or _kind(value) == "number":
        nan = isinstance(value, float) and math.isnan(value)
        return (nan, 0 if nan else value)
    return value


def _to_integer(value: Any) -> int:
    number = parse_decimal(value) if isinstance(value, str) else value
    if isinstance(number, (dt.date, bytes)):
        raise TypeError(value)
    return int(number)


def _to_float(value: Any) -> float:
    if isinstance(value, str):
        return parse_float(value)
    return float(value)


def _to_decimal(value: Any) -> decimal.Decimal:
    return parse_decimal(
        value if isinstance(value, str) else repr(value) if isinstance(value, float) else str(value)
    )


def _to_date(value: Any) -> dt.date:
    if isinstance(value, dt.datetime):
        return value.date()
    if isinstance(value, dt.date):
        return value
    if len(value.strip()) > 10:
        return parse_timestamp(value).date()
    return parse_date(value)


def _to_timestamp(value: Any) -> dt.datetime:
    if isinstance(value, dt.datetime):
        return value
    return parse_timestamp(str(value))


def _to_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    raise TypeError(value)


_CASTS: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("tinyint", "smallint", "int", "integer", "bigint", "long"), _to_integer),
    **dict.fromkeys(("float", "double"), _to_float),
    "decimal": _to_decimal,
    "date": _to_date,
    "timestamp": _to_timestamp,
    "timestamp_ntz": lambda value: _to_timestamp(value).replace(tzinfo=None),
    "string": _to_text,
}


_SPELLINGS = {"==": "=", "<>": "!="}
_FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_COMPARISONS = ("=", "==", "<=>", "!=", "<>", "<", "<=", ">", ">=")
_TYPED = {
    "DATE": "date",
    "TIMESTAMP": "timestamp",
    "TIMESTAMP_LTZ": "timestamp",
    "TIMESTAMP_NTZ": "timestamp_ntz",
}
Operand = Column | Literal
Node = Predicate | Operand


def parse(text: str) -> Predicate:
    """Parse a SQL condition. Raises `QuerySyntaxError` with the position and what was expected."""
    return _Parser(text, tokenize(text)).complete_predicate()


def parse_among(text: str, tokens: Sequence[Token], index: int) -> tuple[Predicate, int]:
    """Parse the predicate that begins at a word of a statement, and return it with the index of the
    next word.
    """
    parser = _Parser(text, tokens, index)
    return parser.condition(), parser.index


class _Parser(Cursor):
    """Parser of a predicate."""

    def condition(self) -> Predicate:
        start = self.token
        return self.predicate(self.any_of(), start)

    def complete_predicate(self) -> Predicate:
        tree = self.condition()
        if self.token.kind != "end":
            self.fail("the end, AND or OR")
        return tree

    # -- logic

    def any_of(self) -> Node:
        return self.chain(self.every_of, "OR", Or)

    def every_of(self) -> Node:
        return self.chain(self.negation, "AND", And)

    def chain(self, part: Callable[[], Node], word: str, join: type[And] | type[Or]) -> Node:
        start = self.token
        first = part()
        if not self.token.is_word(word):
            return first
        children = [self.predicate(first, start)]
        while self.token.is_word(word):
            self.advance()
            start = self.token
            children.append(self.predicate(part(), start))
        return join(tuple(children))

    def negation(self) -> Node:
        if not (self.token.is_word("NOT") or self.token.is_sign("!")):
            return self.test()
        self.advance()
        start = self.token
        return Not(self.predicate(self.deeper(self.negation), start))

    def predicate(self, node: Node, start: Token) -> Predicate:
        """Parse a condition where the grammar requires one. A boolean column or literal counts."""
        if isinstance(node, Column):
            return Comparison("=", node, Literal(True))
        if isinstance(node, Literal):
            if node.value is None or isinstance(node.value, bool):
                return Constant(node.value)
            raise syntax_error(self.text, start.start, f"{node} is a value, not a condition")
        return node

    # -- tests

    def test(self) -> Node:
        start = self.token
        left = self.operand()
        if self.token.is_sign(*_COMPARISONS):
            return self.comparison(self.value(left, start))
        if self.token.is_word("IS"):
            return self.null_test(self.column(left, start))
        negated = self.token.is_word("NOT")
        word = self.tokens[self.index + 1] if negated else self.token
        tests = {"IN": self.in_list, "BETWEEN": self.between, "LIKE": self.like}
        tests |= dict.fromkeys(("RLIKE", "REGEXP"), self.rlike)
        test_parser = next((t for name, t in tests.items() if word.is_word(name)), None)
        if test_parser is None:
            if word.is_word("ILIKE"):
                hint = "Use LIKE, or RLIKE '(?i)...'."
                raise syntax_error(
                    self.text, word.start, f"{word.value.upper()} is not supported", hint=hint
                )
            return left
        self.index += 2 if negated else 1
        tree = test_parser(self.column(left, start))
        if negated:
            return Not(tree)
        return tree

    def comparison(self, left: Operand) -> Predicate:
        sign = self.advance()
        operator = _SPELLINGS.get(sign.value, sign.value)
        start = self.token
        right = self.value(self.operand(), start)
        if isinstance(left, Column) and isinstance(right, Column):
            problem = f"column {left.dotted_path!r} is compared with column {right.dotted_path!r}"
            raise syntax_error(
                self.text, start.start, problem, hint="Compare a column with a value."
            )
        if isinstance(left, Column) and isinstance(right, Literal):
            return Comparison(operator, left, right)
        if isinstance(right, Column) and isinstance(left, Literal):
            return Comparison(_FLIPPED.get(operator, operator), right, left)
        assert isinstance(left, Literal) and isinstance(right, Literal)
        return self.build_at(sign, lambda: compare_literals(operator, left, right))

    def null_test(self, column: Column) -> Predicate:
        self.advance()
        negated = self.token.is_word("NOT")
        if negated:
            self.advance()
        if not self.token.is_word("NULL"):
            self.fail("NULL" if negated else "NULL or NOT NULL")
        self.advance()
        if negated:
            return IsNotNull(column)
        return IsNull(column)

    def in_list(self, column: Column) -> Predicate:
        self.expect("(")
        literals = [self.literal()]
        while self.token.is_sign(","):
            self.advance()
            literals.append(self.literal())
        self.expect(")", "',' or ')'")
        return In(column, tuple(literals))

    def between(self, column: Column) -> Predicate:
        low = self.literal()
        if not self.token.is_word("AND"):
            self.fail("AND and the upper end of BETWEEN")
        self.advance()
        return And((Comparison(">=", column, low), Comparison("<=", column, self.literal())))

    def like(self, column: Column) -> Predicate:
        pattern = self.string("a pattern in quotes")
        escape = "\\"
        if self.token.is_word("ESCAPE"):
            self.advance()
            mark = self.token
            escape = self.string("an escape character in quotes").value
            if len(escape) != 1:
                raise syntax_error(self.text, mark.start, "ESCAPE takes one character")
        return self.build_at(pattern, lambda: like(column, pattern.value, escape))

    def rlike(self, column: Column) -> Predicate:
        pattern = self.string("a regular expression in quotes")
        return self.build_at(pattern, lambda: RLike(column, pattern.value))

    # -- operands

    def operand(self) -> Node:
        token = self.token
        if token.is_sign("("):
            self.advance()
            inner = self.deeper(self.any_of)
            self.expect(")", "')', AND or OR")
            return inner
        if token.is_sign("-", "+"):
            return self.signed_number()
        if token.kind in ("string", "bytes", "number"):
            return Literal(self.advance().value)
        if token.kind == "quoted":
            return self.path()
        if token.kind != "name":
            self.fail("a column, a value or '('")
        return self.parse_name()

    def parse_name(self) -> Node:
        """Parse a word: TRUE, FALSE, NULL, a typed literal, a call, or a column."""
        token = self.token
        word = token.value.upper()
        following = self.tokens[self.index + 1]
        if word in ("TRUE", "FALSE", "NULL"):
            self.advance()
            return Literal({"TRUE": True, "FALSE": False}.get(word))
        if word in _TYPED and following.kind == "string":
            self.index += 2
            return self.build_at(
                following, lambda: cast_literal(Literal(following.value), _TYPED[word])
            )
        if following.is_sign("("):
            return self.call(token)
        if word in RESERVED:
            self.fail("a column, a value or '('")
        return self.path()

    def path(self) -> Column:
        names = [self.advance().value]
        while self.token.is_sign("."):
            self.advance()
            if self.token.kind not in ("name", "quoted"):
                self.fail("the name of a field")
            names.append(self.advance().value)
        return Column(tuple(names))

    def signed_number(self) -> Literal:
        negative = self.advance().value == "-"
        if self.token.is_sign("-", "+"):
            value = self.deeper(self.signed_number).value
        elif self.token.kind == "number":
            value = self.advance().value
        else:
            self.fail("a number")
        if not negative:
            return Literal(value)
        # Decimal's own minus rounds to the precision of the context.
        return Literal(value.copy_negate() if isinstance(value, Decimal) else -value)

    def call(self, token: Token) -> Node:
        """Parse `startswith(column, 'x')` and similar, `CAST(literal AS type)`, `double('NaN')`."""
        name = token.value.lower()
        if name == "cast":
            self.index += 2
            literal = self.literal()
            if not self.token.is_word("AS"):
                self.fail("AS and a type")
            self.advance()
            return self.cast(literal, self.token, self.advance().value)
        if is_cast(name):
            self.index += 2
            return self.cast(self.literal(), token, name)
        if name not in FUNCTIONS:
            names = [*FUNCTIONS, "cast"]
            hint = nearest(name, names) or f"Known functions: {', '.join(names)}."
            raise syntax_error(
                self.text, token.start, f"there is no function {token.value!r}", hint=hint
            )
        self.index += 2
        start = self.token
        column = self.column(self.operand(), start)
        build, takes_text = FUNCTIONS[name]
        text = ""
        if takes_text:
            self.expect(",")
            text = self.string("a text in quotes").value
        self.expect(")")
        return build(column, text)

    def cast(self, literal: Literal, place: Token, kind: object) -> Literal:
        if place.kind != "name":
            raise syntax_error(self.text, place.start, "expected the name of a type")
        self.expect(")")
        return self.build_at(place, lambda: cast_literal(literal, str(kind).lower()))

    # -- the parts that must be of one kind

    def value(self, node: Node, start: Token) -> Operand:
        if isinstance(node, Predicate):
            raise syntax_error(
                self.text, start.start, "a condition stands where a column or a value is expected"
            )
        return node

    def column(self, node: Node, start: Token) -> Column:
        if not isinstance(node, Column):
            raise syntax_error(self.text, start.start, f"expected a column, found {node}")
        return node

    def literal(self) -> Literal:
        start = self.token
        node = self.operand()
        if not isinstance(node, Literal):
            raise syntax_error(self.text, start.start, f"expected a value, found {node}")
        return node

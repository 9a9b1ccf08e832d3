"""Values computed from a row, as `UPDATE ... SET column = ...` writes them: SQL text, evaluated by
Arrow's kernels.

    sum     := product ((+ | - | ||) product)*
    product := unary ((* | / | %) unary)*
    unary   := - unary | value
    value   := literal | column | ( sum ) | function(sum, ...) | CAST(sum AS type)
             | CASE WHEN condition THEN sum ... [ELSE sum] END

Conditions are those of a predicate. Null in, null out, as everywhere in SQL; `/` of whole numbers
is a division of doubles.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from indextables.errors import InvalidInputError
from indextables.model.exact_values import UNFIT, array_of, exact_cast, exact_scalar
from indextables.model.predicate.binding import bind
from indextables.model.predicate.evaluation import evaluate
from indextables.model.predicate.parser import parse_among
from indextables.model.predicate.tokens import Cursor, Reader, Token, nearest
from indextables.model.predicate.tree import RESERVED, Predicate
from indextables.model.schema import field_from_json, find_column, normalize

Compute = Callable[[pa.Table], Any]
"""The values of an expression for the rows of a table: an array, or one scalar for all rows."""


def _texts(*values: Any) -> list[Any]:
    return [pc.cast(value, pa.string()) for value in values]


def _concat(*values: Any) -> Any:
    return pc.binary_join_element_wise(*_texts(*values), "")


def _substring(text: Any, start: Any, length: Any = None) -> Any:
    """Return a substring. The first character has number 1; a negative start counts from the end."""
    first, count = (
        _constant(start, "substring"),
        None if length is None else _constant(length, "substring"),
    )
    begin = first - 1 if first > 0 else first
    if count is None or (begin < 0 and begin + count >= 0):
        stop = None
    else:
        stop = begin + max(count, 0)
    return pc.utf8_slice_codeunits(text, begin, stop)


def _constant(value: Any, name: str) -> int:
    if not isinstance(value, pa.Scalar):
        raise InvalidInputError(f"{name} takes whole numbers that are the same for every row.")
    return int(value.as_py())


def _round(value: Any, digits: Any = None) -> Any:
    return pc.round(
        value,
        0 if digits is None else _constant(digits, "round"),
        round_mode="half_towards_infinity",
    )


def _null_if(value: Any, other: Any) -> Any:
    return pc.if_else(
        pc.fill_null(pc.equal(value, other), False), pa.scalar(None, value.type), value
    )


FUNCTIONS: Mapping[str, tuple[Callable[..., Any], int, int]] = {
    "abs": (pc.abs, 1, 1),
    "ceil": (pc.ceil, 1, 1),
    "coalesce": (lambda *values: pc.coalesce(*values), 1, 100),
    "concat": (_concat, 1, 100),
    "floor": (pc.floor, 1, 1),
    "length": (pc.utf8_length, 1, 1),
    "lower": (pc.utf8_lower, 1, 1),
    "ltrim": (pc.utf8_ltrim_whitespace, 1, 1),
    "nullif": (_null_if, 2, 2),
    "replace": (
        lambda text, old, new: pc.replace_substring(
            text, pattern=str(old.as_py()), replacement=str(new.as_py())
        ),
        3,
        3,
    ),
    "round": (_round, 1, 2),
    "rtrim": (pc.utf8_rtrim_whitespace, 1, 1),
    "substring": (_substring, 2, 3),
    "trim": (pc.utf8_trim_whitespace, 1, 1),
    "upper": (pc.utf8_upper, 1, 1),
}
"""Functions by name: implementation, and minimum and maximum number of arguments."""


def assignment(value: Any, column: str, schema: pa.Schema) -> Compute:
    """Compile an assignment: SQL text, a `pyarrow.compute` expression, or a constant.

    The result has the column's type. A value that does not fit raises an error when it is computed.
    """
    field = schema.field(column)
    if isinstance(value, pc.Expression):
        compute: Compute = _ArrowValue(value).of
    elif isinstance(value, str):
        compute = _Expression(value, _Words(value).all(), schema=schema).complete()
    else:
        compute = _literal(value, field)

    def fit(rows: pa.Table) -> pa.ChunkedArray:
        try:
            found = compute(rows)
            if isinstance(found, pa.Scalar):
                found = pa.repeat(exact_scalar(found, field.type), rows.num_rows)
            if isinstance(found, pa.Array):
                parts = [found]
            else:
                parts = found.chunks
            return pa.chunked_array([exact_cast(part, field.type) for part in parts], field.type)
        except (*UNFIT, NotImplementedError) as error:
            raise InvalidInputError(
                f"Column {column!r} cannot be set to {value!r}: {error}.",
                hint=f"It is {field.type}. A text is an expression of SQL: a literal in it is quoted, as in \"'x'\".",
                column=column,
            ) from error

    return fit


class _ArrowValue:
    """An expression of `pyarrow.compute`."""

    def __init__(self, expression: Any) -> None:
        self._expression = expression

    def of(self, rows: pa.Table) -> pa.ChunkedArray:
        # Loads the file systems of all clouds, which few need.
        from pyarrow.dataset import dataset  # noqa: PLC0415

        return dataset(rows).to_table(columns={"value": self._expression}).column("value")


def _literal(value: Any, field: pa.Field) -> Compute:
    try:
        if isinstance(value, pa.Scalar) and normalize(
            pa.schema([field.with_type(value.type)])
        ).types == [field.type]:
            scalar = exact_scalar(value, field.type)
        else:
            if isinstance(value, pa.Scalar):
                plain = value.as_py()
            else:
                plain = value
            scalar = array_of([plain], field.type)[0]
    except (*UNFIT, NotImplementedError) as error:
        message = (
            f"Column {field.name!r}, which is {field.type}, cannot be set to {value!r}: {error}."
        )
        raise InvalidInputError(message, column=field.name) from error
    return lambda _: scalar


class _Words(Reader):
    """Tokens of an expression: those of a predicate, and arithmetic operators."""

    signs = ("||", "*", "/", "%", *Reader.signs)


class _Expression(Cursor):
    """Parser of an expression."""

    subject = "Expression"
    keywords = ("CASE", "WHEN", "THEN", "ELSE", "END", "CAST", "AS", "NULL", "TRUE", "FALSE")

    def __init__(self, text: str, tokens: Sequence[Token], *, schema: pa.Schema) -> None:
        super().__init__(text, tokens)
        self._schema = schema

    def complete(self) -> Compute:
        if self.token.kind == "end":
            self.fail(
                "a value", hint="A text is an expression of SQL; an empty text is written \"''\"."
            )
        value = self.sum()
        if self.token.kind != "end":
            self.fail(
                "the end, or an operator",
                hint="Quote a text value within the expression: \"'x y'\".",
            )
        return value

    def sum(self) -> Compute:
        return self._chain(
            self.product, {"+": pc.add_checked, "-": pc.subtract_checked, "||": _concat}
        )

    def product(self) -> Compute:
        return self._chain(self.unary, {"*": pc.multiply_checked, "/": _divide, "%": _remainder})

    def _chain(
        self, part: Callable[[], Compute], operators: Mapping[str, Callable[[Any, Any], Any]]
    ) -> Compute:
        value = part()
        while self.token.is_sign(*operators):
            value = _apply(operators[self.advance().value], (value, part()))
        return value

    def unary(self) -> Compute:
        if self.token.is_sign("-"):
            self.advance()
            return _apply(pc.negate_checked, (self.deeper(self.unary),))
        return self.value()

    def value(self) -> Compute:
        token = self.token
        if token.is_sign("("):
            self.advance()
            inner = self.deeper(self.sum)
            self.expect(")")
            return inner
        if token.kind in ("string", "bytes", "number"):
            scalar = _constant_scalar(self.advance().value)
            return lambda _: scalar
        if token.kind == "quoted" or (
            token.kind == "name" and not self.tokens[self.index + 1].is_sign("(")
        ):
            return self.parse_name()
        if token.kind != "name":
            self.fail("a value")
        if token.is_word("CAST"):
            return self.cast()
        return self.call()

    def parse_name(self) -> Compute:
        token = self.token
        word = token.value.upper() if token.kind == "name" else ""
        if word in ("TRUE", "FALSE", "NULL"):
            self.advance()
            scalar = pa.scalar(
                {"TRUE": True, "FALSE": False}.get(word), None if word == "NULL" else pa.bool_()
            )
            return lambda _: scalar
        if word == "CASE":
            return self.case()
        if word in RESERVED:
            self.fail("a value")
        name = self.build_at(self.advance(), lambda: find_column(self._schema, token.value))
        return lambda rows: rows.column(name)

    def call(self) -> Compute:
        token = self.advance()
        name = {
            "substr": "substring",
            "char_length": "length",
            "ucase": "upper",
            "lcase": "lower",
        }.get(token.value.lower(), token.value.lower())
        if name not in FUNCTIONS:
            hint = nearest(name, list(FUNCTIONS)) or f"Known functions: {', '.join(FUNCTIONS)}."
            self.refuse(token, f"there is no function {token.value!r}", hint=hint)
        function, least, most = FUNCTIONS[name]
        self.expect("(")
        values = [self.deeper(self.sum)]
        while self.token.is_sign(","):
            self.advance()
            values.append(self.deeper(self.sum))
        self.expect(")", "',' or ')'")
        if not least <= len(values) <= most:
            self.refuse(
                token,
                f"{name} takes {least if least == most else f'{least} to {most}'} values, not {len(values)}",
            )
        return _apply(function, values)

    def cast(self) -> Compute:
        self.advance()
        self.expect("(")
        value = self.deeper(self.sum)
        if not self.token.is_word("AS"):
            self.fail("AS and a type")
        self.advance()
        first, depth = self.token, 0
        while self.token.kind != "end" and not (depth == 0 and self.token.is_sign(")")):
            depth += self.token.is_sign("(") - self.token.is_sign(")")
            self.advance()
        text = self.text[first.start : self.token.start].strip()
        kind = self.build_at(first, lambda: _type(text))
        self.expect(")")
        return lambda rows: _cast(value(rows), kind)

    def case(self) -> Compute:
        self.advance()
        branches: list[tuple[Compute, Compute]] = []
        while self.token.is_word("WHEN"):
            self.advance()
            tree, self.index = parse_among(self.text, self.tokens, self.index)
            self._word("THEN")
            branches.append((_condition(bind(tree, self._schema)), self.deeper(self.sum)))
        if not branches:
            self.fail("WHEN and a condition")
        otherwise: Compute = lambda _: pa.scalar(None)  # noqa: E731
        if self.token.is_word("ELSE"):
            self.advance()
            otherwise = self.deeper(self.sum)
        self._word("END")

        def choose(rows: pa.Table) -> Any:
            result = otherwise(rows)
            for condition, value in reversed(branches):
                result = pc.if_else(pc.fill_null(condition(rows), False), value(rows), result)
            return result

        return choose

    def _word(self, word: str) -> None:
        if not self.token.is_word(word):
            self.fail(word)
        self.advance()


_SPELLINGS = {
    "int": "integer",
    "bigint": "long",
    "smallint": "short",
    "tinyint": "byte",
    "real": "float",
}


def _type(text: str) -> pa.DataType:
    """Return a type by its SQL name."""
    name = "".join(text.lower().split())
    return field_from_json(
        {"name": "x", "type": _SPELLINGS.get(name, name), "nullable": True, "metadata": {}}
    ).type


def _cast(value: Any, kind: pa.DataType) -> Any:
    """Cast a value to another type. A text without a zone is a timestamp in UTC."""
    if pa.types.is_timestamp(kind) and kind.tz and pa.types.is_string(value.type):
        try:
            return pc.assume_timezone(value.cast(pa.timestamp("us")), "UTC").cast(kind)
        except pa.ArrowInvalid:
            return value.cast(kind)
    return value.cast(kind)


def _constant_scalar(value: Any) -> pa.Scalar:
    try:
        return pa.scalar(value)
    except pa.ArrowInvalid:  # more digits than a decimal of Arrow has, as in 1e300
        return pa.scalar(float(value))


def _condition(bound: Predicate) -> Compute:
    return lambda rows: evaluate(bound, rows)


def _apply(function: Callable[..., Any], parts: Sequence[Compute]) -> Compute:
    return lambda rows: function(*(part(rows) for part in parts))


def _divide(left: Any, right: Any) -> Any:
    """Divide; null for a division by zero."""
    below = _null_if(pc.cast(right, pa.float64()), pa.scalar(0.0))
    return pc.divide(pc.cast(left, pa.float64()), below)


def _remainder(left: Any, right: Any) -> Any:
    below = _null_if(right, pa.scalar(0, right.type))
    return pc.subtract(left, pc.multiply(pc.divide(left, below), below))

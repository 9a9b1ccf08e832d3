"""Evaluate bound predicates on Arrow data, and convert pyarrow compute expressions to predicates.

A pyarrow expression is decoded from the form in which pyarrow serializes it: a list of calls, field
names and typed literals. Unsupported parts (arithmetic, casts of columns, fields by position, ...)
are refused by name.

Evaluation follows SQL's three-valued logic and Spark's order: NaN equals NaN and is greater than
everything else, -0.0 equals 0.0, text and binary compare by bytes, decimals are exact, timestamps
are microseconds. Arrow's own comparisons with NaN are false.
"""

from __future__ import annotations

import ctypes
import math
import struct
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from indextables.errors import InvalidInputError
from indextables.model.predicate.tree import (
    And,
    Column,
    ColumnTest,
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
    any_of,
    like,
    like_expression,
)
from indextables.model.regular_expression import regular_expression
from indextables.model.schema import is_atomic

_OPERATORS = {
    "equal": "=",
    "not_equal": "!=",
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
}
_FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_TEXT = {"starts_with": "starts_with", "ends_with": "ends_with", "match_substring": "contains"}
_MATCH, _SKIP, _EMIT_NULL, _INCONCLUSIVE = range(4)
Node = Predicate | Column | Literal


def from_arrow_expression(expression: pc.Expression) -> Predicate:
    """Convert a pyarrow expression to a predicate. Raises InvalidInputError for unsupported parts."""
    try:
        _, (content,) = expression.__reduce__()
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid) as error:
        raise _refusal(f"{expression}", str(error)) from None
    reader = pa.ipc.open_file(content)
    values = reader.get_batch(0) if reader.num_record_batches else None
    walk = _ExpressionWalk(iter(_pairs(reader.schema)), values)
    return _condition(walk.node())


class _ExpressionWalk(Struct, frozen=True):
    """Walks over the parts of a serialized expression in prefix order."""

    parts: Iterator[tuple[str, str]]
    values: Any

    def node(self) -> Node:
        return self._node(*next(self.parts))

    def _node(self, key: str, value: str) -> Node:
        if key == "literal":
            return Literal(_plain(self._value(value)))
        if key == "field_ref":
            return Column((value,))
        if key == "nested_field_ref":
            return Column(tuple(next(self.parts)[1] for _ in range(int(value))))
        if key == "call":
            return self._call(value)
        raise _refusal(f"{key} {value}", "it is not part of any known expression")

    def _call(self, name: str) -> Node:
        arguments: list[Node] = []
        options: dict[str, Any] = {}
        for key, value in self.parts:
            if key == "end":
                break
            if key == "options":
                options = dict(self._value(value).items())
            else:
                arguments.append(self._node(key, value))
        build = _CALLS.get(name)
        if build is None:
            raise _refusal(name, "predicates do not have this function")
        return build(name, arguments, options)

    def _value(self, index: str) -> Any:
        return self.values.column(int(index))[0]


def _pairs(schema: pa.Schema) -> list[tuple[str, str]]:
    """Return the schema's metadata with repeated keys, which pyarrow's mapping would drop.

    The C data interface stores a count, then for each entry the lengths and bytes of key and value.
    """
    capsule = schema.__arrow_c_schema__()
    get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
    get_pointer.restype, get_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    _format, _name, metadata = (ctypes.c_void_p * 3).from_address(
        get_pointer(capsule, b"arrow_schema") or 0
    )
    if not metadata:
        return []
    position = int(metadata)

    def number() -> int:
        nonlocal position
        position += 4
        value: int = struct.unpack("=i", ctypes.string_at(position - 4, 4))[0]
        return value

    def text() -> str:
        nonlocal position
        length = number()
        position += length
        return ctypes.string_at(position - length, length).decode()

    return [(text(), text()) for _ in range(number())]


def _plain(scalar: pa.Scalar) -> Any:
    """Return a literal as a plain value. A value that a predicate cannot hold without loss is
    refused.
    """
    arrow = scalar.type
    if not scalar.is_valid:
        return None
    try:
        if isinstance(scalar, pa.DictionaryScalar):
            return _plain(scalar.value)
        if pa.types.is_timestamp(arrow):
            return scalar.cast(pa.timestamp("us", tz=arrow.tz and "UTC")).as_py()
        return Literal(scalar.as_py()).value
    except (pa.ArrowInvalid, OverflowError, InvalidInputError):
        raise _refusal(
            f"the literal {scalar} of type {arrow}", "predicates have no such value"
        ) from None


def _condition(node: Node) -> Predicate:
    if isinstance(node, Column):
        return Comparison("=", node, Literal(True))
    if isinstance(node, Literal):
        if node.value is None or isinstance(node.value, bool):
            return Constant(node.value)
        raise _refusal(str(node), "it is a value, not a condition")
    return node


def _column(name: str, node: Node) -> Column:
    if not isinstance(node, Column):
        raise _refusal(f"{name}({node})", "the argument is not a column")
    return node


def _compare(name: str, arguments: list[Node], _options: dict[str, Any]) -> Predicate:
    operator = _OPERATORS[name]
    left, right = arguments
    if isinstance(left, Column) and isinstance(right, Literal):
        return Comparison(operator, left, right)
    if isinstance(left, Literal) and isinstance(right, Column):
        return Comparison(_FLIPPED.get(operator, operator), right, left)
    raise _refusal(f"{name}({left}, {right})", "a column can be compared with a literal only")


def _logic(name: str, arguments: list[Node], _options: dict[str, Any]) -> Predicate:
    children = tuple(_condition(a) for a in arguments)
    if name == "invert":
        return Not(children[0])
    if name == "and_kleene":
        return And(children)
    return Or(children)


def _null_test(name: str, arguments: list[Node], options: dict[str, Any]) -> Predicate:
    column = _column(name, arguments[0])
    if name == "is_valid":
        return IsNotNull(column)
    if name == "is_nan":
        return Comparison("=", column, Literal(float("nan")))
    if "nan_is_null" in options and options["nan_is_null"].as_py():
        return Or((IsNull(column), Comparison("<=>", column, Literal(float("nan")))))
    return IsNull(column)


def _membership(name: str, arguments: list[Node], options: dict[str, Any]) -> Predicate:
    column = _column(name, arguments[0])
    values = [Literal(_plain(v)) for v in options["value_set"].values]
    literals = tuple(v for v in values if v.value is not None)
    has_null = len(literals) < len(values)
    listed: Predicate = In(column, literals) if literals else Constant(False)
    behavior = options["null_matching_behavior"].as_py()
    if behavior == _INCONCLUSIVE:
        if values:
            return In(column, tuple(values))
        return Constant(False)
    if behavior == _EMIT_NULL:
        if literals:
            return listed
        return And((IsNull(column), Constant(None)))
    if behavior == _MATCH and has_null:
        if literals:
            return any_of([IsNull(column), listed])
        return IsNull(column)
    if behavior in (_MATCH, _SKIP):
        # A NULL is not in the list, and Arrow says so with FALSE where SQL would say NULL.
        return And((IsNotNull(column), listed))
    raise _refusal(name, f"its null matching behavior {behavior} is unknown")


def _text_match(name: str, arguments: list[Node], options: dict[str, Any]) -> Predicate:
    column = _column(name, arguments[0])
    if options["ignore_case"].as_py():
        raise _refusal(f"{name}({column}, ignore_case=True)", "predicates do not ignore case")
    pattern = options["pattern"].as_py()
    if isinstance(pattern, bytes):
        pattern = pattern.decode()
    else:
        pattern = pattern
    if name == "match_substring_regex":
        return RLike(column, pattern)
    if name == "match_like":
        return like(column, pattern)
    return TextMatch(_TEXT[name], column, pattern)


def _refusal(what: str, why: str) -> InvalidInputError:
    return InvalidInputError(
        f"The Arrow expression cannot be understood: {what}: {why}.",
        hint="Write the condition as SQL text, or filter the rows after reading them.",
        expression=what,
    )


_CALLS: dict[str, Callable[[str, list[Node], dict[str, Any]], Predicate]] = {
    **dict.fromkeys(_OPERATORS, _compare),
    **dict.fromkeys(("and_kleene", "or_kleene", "invert"), _logic),
    **dict.fromkeys(("is_null", "is_valid", "is_nan"), _null_test),
    **dict.fromkeys((*_TEXT, "match_like", "match_substring_regex"), _text_match),
    "is_in": _membership,
}


_KERNELS = {"=": "equal", "<": "less", "<=": "less_equal", ">": "greater", ">=": "greater_equal"}
_TEXT_KERNELS = {
    "starts_with": "starts_with",
    "ends_with": "ends_with",
    "contains": "match_substring",
}


def evaluate(bound: Predicate, batch: pa.Table | pa.RecordBatch) -> pa.BooleanArray:
    """Return TRUE, FALSE or NULL for every row. A filter keeps the rows that are TRUE."""
    result = _evaluate(bound, batch)
    if isinstance(result, pa.ChunkedArray):
        return result.combine_chunks()
    return result


def _evaluate(tree: Predicate, batch: pa.Table | pa.RecordBatch) -> Any:
    if isinstance(tree, And):
        return reduce(pc.and_kleene, [_evaluate(c, batch) for c in tree.children])
    if isinstance(tree, Or):
        return reduce(pc.or_kleene, [_evaluate(c, batch) for c in tree.children])
    if isinstance(tree, Not):
        return pc.invert(_evaluate(tree.child, batch))
    if isinstance(tree, Constant):
        return pa.repeat(pa.scalar(tree.value, pa.bool_()), batch.num_rows)
    assert isinstance(tree, ColumnTest)
    return outcome_of(tree, column_of(tree.column, batch))


def outcome_of(leaf: ColumnTest, values: Any) -> Any:
    """Evaluate one test over the values of its column."""
    if isinstance(leaf, IsNull):
        return pc.is_null(values)
    if isinstance(leaf, IsNotNull):
        return pc.is_valid(values)
    if isinstance(leaf, Comparison):
        return compare(leaf.operator, values, leaf.literal.value, leaf.column.type)
    if isinstance(leaf, In):
        return _is_in(values, leaf.literals, leaf.column.type)
    if isinstance(leaf, TextMatch):
        return getattr(pc, _TEXT_KERNELS[leaf.kind])(values, leaf.text)
    if isinstance(leaf, RLike):
        return regular_expression(leaf.pattern).matching(values)
    return pc.match_substring_regex(values, like_expression(leaf.pattern))


def compare(operator: str, values: Any, value: Any, arrow: pa.DataType) -> Any:
    """Compare values with one value of the same type in Spark's order."""
    if not pa.types.is_floating(arrow):
        return getattr(pc, _KERNELS[operator])(values, pa.scalar(value, arrow))
    nan = pc.is_nan(values)
    if not math.isnan(value):
        result = getattr(pc, _KERNELS[operator])(values, pa.scalar(value, arrow))
        if operator in (">", ">="):
            return pc.or_(result, nan)
        return result
    other = pc.invert(nan)
    return {"=": nan, ">=": nan, "<": other, "<=": pc.or_(nan, other), ">": pc.and_(nan, other)}[
        operator
    ]


def _is_in(values: Any, literals: Sequence[Literal], arrow: pa.DataType) -> Any:
    members = [v.value for v in literals]
    if pa.types.is_floating(arrow):
        # The set is looked up by its bits: give every zero the same sign, and NaN its own test.
        values = pc.add(values, pa.scalar(0.0, arrow))
        numbers = [v for v in members if not math.isnan(v)]
        result = pc.is_in(values, pa.array(numbers, arrow))
        if len(numbers) < len(members):
            result = pc.or_(result, pc.is_nan(values))
    else:
        result = pc.is_in(values, pa.array(members, arrow))
    return pc.if_else(pc.is_valid(values), result, pa.scalar(None, pa.bool_()))


def column_of(column: Column, batch: pa.Table | pa.RecordBatch) -> Any:
    """Return the values of a bound column in the type it was bound to. A field of a NULL struct is
    NULL.
    """
    if column.type is None:
        raise InvalidInputError(
            f"Column {column.dotted_path!r} has no type yet.",
            hint="Bind the predicate to a schema.",
        )
    index = batch.schema.get_field_index(column.name)
    if index < 0:
        raise InvalidInputError(
            f"The data has no column {column.name!r}.",
            hint=f"It has {', '.join(map(repr, batch.schema.names))}.",
        )
    values = batch.column(index)
    if len(column.path) > 1:
        values = pc.struct_field(values, list(column.path[1:]))
    if values.type == column.type or not is_atomic(column.type):
        return values
    return pc.cast(values, column.type)

"""Which rows are meant: a typed predicate tree, from text or Arrow expressions, evaluated with SQL's logic.

parse("level = 'ERROR' AND day >= '2024-05-01'")     SQL text -> tree
from_arrow_expression(pc.field("n") > 5)             Arrow expression -> tree
bind(tree, schema)                                   tree -> bound tree: typed, checked
evaluate(bound, batch)                               bound tree, rows -> TRUE, FALSE or NULL per row
"""

from indextables.model.predicate.arrow_expression import from_arrow_expression
from indextables.model.predicate.binding import bind, resolve
from indextables.model.predicate.evaluation import evaluate
from indextables.model.predicate.like import like
from indextables.model.predicate.parser import parse, parse_among
from indextables.model.predicate.tree import (
    And,
    Column,
    Comparison,
    Constant,
    In,
    IsNotNull,
    IsNull,
    Like,
    Literal,
    Not,
    Or,
    Predicate,
    RLike,
    TextMatch,
    all_of,
    any_of,
    columns_of,
)

__all__ = [
    "And",
    "Column",
    "Comparison",
    "Constant",
    "In",
    "IsNotNull",
    "IsNull",
    "Like",
    "Literal",
    "Not",
    "Or",
    "Predicate",
    "RLike",
    "TextMatch",
    "all_of",
    "any_of",
    "bind",
    "columns_of",
    "evaluate",
    "from_arrow_expression",
    "like",
    "parse",
    "parse_among",
    "resolve",
]

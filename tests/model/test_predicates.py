"""Predicates: text and tree say the same, and the fast evaluator agrees with the obvious one."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indextables.model.predicate import Column, TextMatch, bind, evaluate, parse
from tests.model.predicates import (
    ROWS,
    SMALL_TREES,
    TREES,
    TYPES,
    pools,
    predicate_of,
    rows_of,
    table_of,
)
from tests.model.slow_evaluation import holds

NAMES = tuple(sorted(TYPES))


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_what_a_tree_prints_parses_back_to_it(data: st.DataObject) -> None:
    names = data.draw(st.sampled_from([NAMES[i : i + 3] for i in range(0, len(NAMES), 3)]))
    tree = predicate_of(data.draw(TREES), data.draw(pools(names)))
    assert parse(str(tree)) == tree
    assert pickle.loads(pickle.dumps(tree)) == tree


@settings(max_examples=100, deadline=None)
@given(st.lists(st.text(min_size=1), min_size=1, max_size=3), st.text())
def test_any_name_and_any_text_survive_printing(path: list[str], text: str) -> None:
    tree = TextMatch("contains", Column(tuple(path)), text)
    assert parse(str(tree)) == tree


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_evaluation_agrees_with_the_obvious_one(name: str, data: st.DataObject) -> None:
    pool = data.draw(pools((name, "flag")))
    tree = predicate_of(data.draw(SMALL_TREES), pool)
    columns = rows_of(data.draw(ROWS), pool)
    table = table_of(columns)
    bound = bind(tree, table.schema)
    expected = [holds(tree, {n: columns[n][i] for n in columns}) for i in range(table.num_rows)]
    assert evaluate(bound, table).to_pylist() == expected
    assert evaluate(bound, table.to_batches()[0]).to_pylist() == expected
    assert evaluate(pickle.loads(pickle.dumps(bound)), table).to_pylist() == expected

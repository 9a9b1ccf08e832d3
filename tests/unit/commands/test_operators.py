"""Search operators become function calls; strings, comments, quoted names and everything else stay
as they are.
"""

from __future__ import annotations

import random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from indextables.spark.extension import rewrite_operators
from tests.support.operator_words import LEFT_ALONE, OPERATIONS, SHARDS, SIGNS


@pytest.mark.parametrize(
    ("sql", "rewritten"),
    [
        ("message TEXTSEARCH 'a AND b'", "textsearch(message , 'a AND b')"),
        ("message textsearch 'a'", "textsearch(message , 'a')"),
        ("level FIELDMATCH 'ERROR'", "fieldmatch(level , 'ERROR')"),
        ("message indexquery 'a'", "indexquery(message , 'a')"),
        ("* TEXTSEARCH 'a'", "indexqueryall(  'a')"),
        ("* indexquery 'a'", "indexqueryall(  'a')"),
        ("* FIELDMATCH 'a'", "fieldmatchall(  'a')"),
        ("_indexall fieldmatch 'a'", "fieldmatchall(  'a')"),
        ("_indexall indexquery 'a'", "indexqueryall(  'a')"),
        ("_IndexAll TEXTSEARCH 'a'", "indexqueryall(  'a')"),
        ("t.message TEXTSEARCH 'a'", "textsearch(t.message , 'a')"),
        ("`my table`.`a.b` TEXTSEARCH 'a'", "textsearch(`my table`.`a.b` , 'a')"),
        ("a . b . c TEXTSEARCH 'a'", "textsearch(a . b . c , 'a')"),
        ("`TEXTSEARCH` TEXTSEARCH 'a'", "textsearch(`TEXTSEARCH` , 'a')"),
        ("textsearch TEXTSEARCH 'TEXTSEARCH'", "textsearch(textsearch , 'TEXTSEARCH')"),
        ('message TEXTSEARCH "a"', 'textsearch(message , "a")'),
        ("message TEXTSEARCH 'it''s' 'two'", "textsearch(message , 'it''s' 'two')"),
        (r"message TEXTSEARCH 'a\'b'", r"textsearch(message , 'a\'b')"),
        (r"message TEXTSEARCH r'\d\' AND x", r"textsearch(message , r'\d\') AND x"),
        ("message TEXTSEARCH $$a'b$$", "textsearch(message , $$a'b$$)"),
        ("message TEXTSEARCH :q", "textsearch(message , :q)"),
        ("message TEXTSEARCH ?", "textsearch(message , ?)"),
        ("message TEXTSEARCH'a'", "textsearch(message ,'a')"),
        (
            "message/* TEXTSEARCH 'x' */TEXTSEARCH--'y'\n'a'",
            "textsearch(message/* TEXTSEARCH 'x' */,--'y'\n'a')",
        ),
        ("größe TEXTSEARCH 'a'", "textsearch(größe , 'a')"),
        ("NOT m TEXTSEARCH 'a'", "NOT textsearch(m , 'a')"),
        ("(m TEXTSEARCH 'a')", "(textsearch(m , 'a'))"),
        ("(* TEXTSEARCH 'a')", "(indexqueryall(  'a'))"),
        ("x = 1 AND NOT * TEXTSEARCH 'a'", "x = 1 AND NOT indexqueryall(  'a')"),
        ("a TEXTSEARCH 'x' OR b = 1", "textsearch(a , 'x') OR b = 1"),
        (
            "WITH c AS (SELECT * FROM t WHERE a TEXTSEARCH 'x') SELECT * FROM c JOIN u ON c.i = u.i AND u.b FIELDMATCH 'y'",
            "WITH c AS (SELECT * FROM t WHERE textsearch(a , 'x')) "
            "SELECT * FROM c JOIN u ON c.i = u.i AND fieldmatch(u.b , 'y')",
        ),
    ],
)
def test_operators_become_calls(sql: str, rewritten: str) -> None:
    assert rewrite_operators(sql) == rewritten


@pytest.mark.parametrize(
    "sql",
    [
        "",
        "SELECT 1",
        "SELECT 'col TEXTSEARCH ''x''' -- indexquery",
        "SELECT \"col TEXTSEARCH 'x'\"",
        r"SELECT 'it\'s col TEXTSEARCH' 'x'",
        "SELECT `col TEXTSEARCH 'x'`",
        "SELECT `a``b TEXTSEARCH 'x'`",
        "-- col TEXTSEARCH 'x'",
        "-- one \\\n col TEXTSEARCH 'x'",
        "/* col TEXTSEARCH 'x' */",
        "/* /* nested */ col TEXTSEARCH 'x' */",
        "SELECT /*+ BROADCAST(t) col TEXTSEARCH 'x' */ 1",
        "SELECT $$ col TEXTSEARCH 'x' $$",
        "SELECT $body$ col TEXTSEARCH 'x' $$ $body$",
        "indexquery(col, 'x') AND indexqueryall('x')",
        "textsearch(col, 'x')",
        "SELECT col AS textsearch, 'x'",
        "SELECT textsearch FROM t",
        "col `TEXTSEARCH` 'x'",
        "col TEXTSEARCH other",
        "col TEXTSEARCH 5",
        "col TEXTSEARCH concat('a', 'b')",
        "col TEXTSEARCHES 'x'",
        "WHERE TEXTSEARCH 'x'",
        "SELECT TEXTSEARCH 'x'",
        "TEXTSEARCH 'x'",
        "5 TEXTSEARCH 'x'",
        "a[0] TEXTSEARCH 'x'",
        "f(a) TEXTSEARCH 'x'",
        "f(a).b TEXTSEARCH 'x'",
        "v:a TEXTSEARCH 'x'",
        "a::string TEXTSEARCH 'x'",
        "2 * TEXTSEARCH 'x'",
        "n * TEXTSEARCH 'x'",
        "(n) * TEXTSEARCH 'x'",
        "t.* TEXTSEARCH 'x'",
        "col TEXTSEARCH 'open",
        "col TEXTSEARCH 'x' AND 'open",
        "col TEXTSEARCH 'x' /* open",
        "col TEXTSEARCH 'x' `open",
        "col TEXTSEARCH 'x' $$ open",
        "ﬁeldmatch ﬁeldmatch 'x'",
    ],
)
def test_everything_else_stays_as_it_is(sql: str) -> None:
    assert rewrite_operators(sql) == sql


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**32), st.integers(0, 12))
def test_only_operators_change_wherever_they_stand(seed: int, length: int) -> None:
    rng = random.Random(seed)
    before, after = [], []
    for _ in range(length):
        if rng.random() < 0.5:
            piece = rng.choice(LEFT_ALONE)
            before.append(piece)
            after.append(piece)
        else:
            written, called = rng.choice(OPERATIONS)
            joint = rng.choice(["WHERE", "AND", "or", "NOT", "("])
            before += [joint, written, ";"]
            after += [joint, called, ";"]
    assert rewrite_operators(" ".join(before)) == " ".join(after)


@settings(max_examples=500, deadline=None)
@given(st.lists(st.sampled_from([*SHARDS, *SIGNS]), max_size=14).map("".join))
@example("a TEXTSEARCH 'q' TEXTSEARCH 'q'")
def test_any_text_is_survived_and_rewriting_twice_is_rewriting_once(sql: str) -> None:
    once = rewrite_operators(sql)
    assert rewrite_operators(once) == once

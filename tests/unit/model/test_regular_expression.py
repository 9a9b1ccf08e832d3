"""Regular expressions: the same meaning in the term dictionary, in Arrow and as plainly as Python
says it.
"""

from __future__ import annotations

import random
import re

import pyarrow as pa
import pytest
import tantivy

from indextables.model.regular_expression import RegexFaultError, regular_expression

TEXTS = [
    "",
    "a",
    "ab",
    "abc",
    "aab",
    "bbb",
    "a1",
    "1",
    "c-d",
    "ca",
    "éa",
    "aé",
    "cab",
    "bca1",
    "aaaa",
    "A",
    "aB",
    "É",
]


def made(rng: random.Random, depth: int = 3) -> str:
    """A random expression that Python understands in the same way."""
    atoms = ["a", "b", "c", "1", "é", ".", "[ab]", "[^a]", "[a-c1]", r"\-", "[^b-c]"]
    if depth == 0:
        return rng.choice(atoms)
    kind = rng.choice(["atom", "two", "two", "or", "repeat", "group"])
    one, other = made(rng, depth - 1), made(rng, depth - 1)
    if kind == "two":
        return one + other
    if kind == "or":
        return f"({one}|{other})"
    if kind == "repeat":
        return f"(?:{one}){rng.choice(['*', '+', '?', '{2}', '{1,2}', '{2,}', '*?'])}"
    return f"({one})" if kind == "group" else rng.choice(atoms)


@pytest.mark.parametrize("ignore_case", [False, True])
def test_every_engine_finds_the_same(ignore_case: bool) -> None:
    schema = tantivy.SchemaBuilder().add_text_field("t", tokenizer_name="raw").build()
    index = tantivy.Index(schema)
    writer = index.writer(15_000_000, 1)
    for text in TEXTS:
        writer.add_document(tantivy.Document(t=text))
    writer.commit()
    index.reload()
    searcher, rng = index.searcher(), random.Random(5)
    for _ in range(300):
        pattern = made(rng)
        plain = re.compile(pattern, re.DOTALL | (re.IGNORECASE if ignore_case else 0))
        whole = regular_expression(pattern, ignore_case=ignore_case, whole=True)
        expected = [text for text in TEXTS if plain.fullmatch(text)]
        assert pa.array(TEXTS).filter(whole.matching(pa.array(TEXTS))).to_pylist() == expected, (
            pattern
        )
        hits = searcher.search(
            tantivy.Query.regex_query(schema, "t", whole.automaton()), limit=100
        ).hits
        assert sorted(TEXTS[place.doc] for _, place in hits) == sorted(expected), pattern
        inside = regular_expression(pattern)
        if not ignore_case:
            found = pa.array(TEXTS).filter(inside.matching(pa.array(TEXTS))).to_pylist()
            assert found == [text for text in TEXTS if plain.search(text)], pattern
            assert all(run in text for text in found for run in inside.literals()), pattern


@pytest.mark.parametrize(
    ("pattern", "value", "found"),
    [
        (r"^a.c$", "abc", True),
        (r"^a.c$", "abc\n", True),
        (r"a.c", "a\nc", False),
        (r"\d", "٣", False),
        (r"\btime\b", "the time is", True),
        (r"\btime\b", "timer", False),
        ("(?i)TIME", "a timer", True),
        ("(?i)É", "é", False),
        (r"\x41\u00e9", "xAé", True),
        (r"a\.b", "axb", False),
    ],
)
def test_inside_a_value_expressions_mean_what_java_says(
    pattern: str, value: str, found: bool
) -> None:
    assert regular_expression(pattern).matching(pa.array([value])).to_pylist() == [found]


@pytest.mark.parametrize(
    ("pattern", "at"),
    [
        ("a**", 2),
        ("(a", 0),
        ("a)", 1),
        ("x[a", 1),
        ("a{9999}", 1),
        (r"(a)\1", 3),
        ("a(?=b)", 1),
        ("a\\", 1),
        ("*a", 0),
        ("[b-a]", 2),
        (r"a\q", 1),
        ("[[:alpha:]]", 1),
        ("a$b", 1),
        ("a{2", 1),
        (r"\u12", 0),
        ("(" * 60, 51),
    ],
)
def test_what_is_not_understood_is_named_with_its_place(pattern: str, at: int) -> None:
    with pytest.raises(RegexFaultError) as error:
        regular_expression(pattern, whole=True)
    assert error.value.at == at

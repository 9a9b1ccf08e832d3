"""Words in places: phrases with slop, patterns, edits."""

from __future__ import annotations

import pytest

from indextables.splits.query.terms import (
    Word,
    edits,
    has_phrase,
    joined,
    parse_pattern,
    pattern_search,
    pattern_test,
)


def phrase(text: str, wanted: str, slop: int) -> bool:
    return has_phrase(
        list(enumerate(text.split())), [Word(i, w) for i, w in enumerate(wanted.split())], slop
    )


@pytest.mark.parametrize(
    ("text", "wanted", "slop", "found"),
    [
        ("a b", "a b", 0, True),
        ("a x b", "a b", 0, False),
        ("a x b", "a b", 1, True),
        ("b a", "a b", 1, False),
        ("b a", "a b", 2, True),
        ("a", "a a", 5, False),
        ("a a", "a a", 1, True),
        ("a x x b x x c", "a b c", 3, False),
        ("a x x b x x c", "a b c", 4, True),
        (" ".join(["a"] * 14), " ".join(["a"] * 15), 30, False),
        (" ".join(["a"] * 15), " ".join(["a"] * 15), 30, True),
    ],
)
def test_phrases_with_slop(text: str, wanted: str, slop: int, found: bool) -> None:
    assert phrase(text, wanted, slop) is found


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("a*b", "axxb", True),
        ("a*b", "axxbx", False),
        ("*a*a", "xaya", True),
        ("a?c", "a\nc", True),
        ("a\\*", "a*", True),
        ("a\\*", "ab", False),
        ("?*", "", False),
        ("a.c", "abc", False),
        ("*ab*ba*", "aba", False),
        ("*ab*ba*", "abba", True),
        ("*a" * 30 + "b", "a" * 3000, False),
    ],
)
def test_patterns_are_settled_in_no_time(pattern: str, text: str, found: bool) -> None:
    assert pattern_test(parse_pattern(pattern))(text) is found


def test_patterns_inside_a_text() -> None:
    assert pattern_test(parse_pattern("b?d"), anywhere=True)("abcde")
    assert pattern_search(parse_pattern("b?d"))("abcdbxd") == [(1, 4), (4, 7)]


@pytest.mark.parametrize(
    ("one", "other", "count"),
    [
        ("", "ab", 2),
        ("ab", "ba", 1),
        ("abc", "ca", 3),
        ("abcd", "acbd", 1),
        ("kitten", "sitting", 3),
    ],
)
def test_edits(one: str, other: str, count: int) -> None:
    assert edits(one, other) == edits(other, one) == count


def test_values_of_one_path_are_a_step_apart() -> None:
    assert joined([[(0, "a"), (1, "b")], [(0, "c")], []]) == [(0, "a"), (1, "b"), (3, "c")]

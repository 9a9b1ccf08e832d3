"""Whatever is typed: a command, None (not ours), or an InvalidInputError that shows the place.
Nothing else, ever.
"""

from __future__ import annotations

import random

import pytest

from indextables.commands import Command, parse
from indextables.errors import InvalidInputError
from tests.support.typed_words import typed


def _survive(count: int, seed: int) -> dict[str, int]:
    rng = random.Random(seed)
    outcomes = {"command": 0, "not ours": 0, "error": 0}
    for _ in range(count):
        text = typed(rng)
        try:
            found = parse(text)
        except InvalidInputError as error:
            assert "^" in error.message and "line" in error.context, text
            outcomes["error"] += 1
            continue
        assert found is None or (isinstance(found, Command) and parse(str(found)) == found), text
        outcomes["not ours" if found is None else "command"] += 1
    return outcomes


def test_fuzzed_statements() -> None:
    outcomes = _survive(4_000, seed=1)
    assert min(outcomes.values()) > 300, outcomes


@pytest.mark.slow
def test_a_hundred_thousand_fuzzed_statements() -> None:
    outcomes = _survive(100_000, seed=2)
    assert min(outcomes.values()) > 5_000, outcomes

"""The part of the torture that every change must pass: the quick rounds of every suite."""

from __future__ import annotations

import time

import pytest

from tests.torture.suite import Suite, Tally, all_suites, played

ROUNDS = [
    pytest.param(suite, seed, id=f"{name}-{seed}")
    for name, suite in all_suites().items()
    for seed in suite.quick
]


@pytest.mark.parametrize(("suite", "seed"), ROUNDS)
def test_a_round(suite: Suite, seed: int) -> None:
    tally = played(suite, seed, time.monotonic() + suite.quick_seconds)
    print(dict(tally.counts))
    assert tally.violations == [], "\n".join(map(str, tally.violations))


class _Broken:
    name, quick, quick_seconds = "broken", (), 1.0

    def run(self, seed: int, deadline: float) -> Tally:
        raise RuntimeError("broken")


def test_a_round_that_fails_is_a_violation() -> None:
    (violation,) = played(_Broken(), 3, time.monotonic()).violations
    assert (violation.kind, violation.seed) == ("error", 3)
    assert "broken" in str(violation)

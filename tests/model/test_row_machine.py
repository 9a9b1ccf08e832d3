"""A part of the random programs of `tests.model.row_programs`: a few, and 2,000 among the slow
suites.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.model.row_programs import Program

QUICK, ALL = 12, 2_000


@pytest.mark.parametrize("seed", range(QUICK))
def test_a_few_programs(tmp_path: Path, seed: int) -> None:
    Program(seed, tmp_path).run(6)


@pytest.mark.slow
@pytest.mark.parametrize("hundred", range(ALL // 100))
def test_two_thousand_programs(tmp_path: Path, hundred: int) -> None:
    for seed in range(1_000 + hundred * 100, 1_100 + hundred * 100):
        Program(seed, tmp_path).run(10)

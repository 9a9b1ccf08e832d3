"""The catalogue of planted bugs: every bug fits the source, and its tests find it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.torture import planted
from tests.torture.planted import BUGS, ROOT, MissingTargetError
from tests.torture.rules import RULES


@pytest.mark.parametrize("name", BUGS)
def test_a_bug_fits_the_source_and_names_tests_that_exist(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    BUGS[name].plant(monkeypatch)
    assert all((ROOT / path).exists() for path in BUGS[name].tests)


@pytest.mark.parametrize(
    "change", [{"old": "is not there"}, {"function": "indextables.model.conflicts:_gone"}]
)
def test_a_bug_whose_place_is_gone_is_an_error(
    change: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(MissingTargetError):
        replace(BUGS["K1"], **change).plant(monkeypatch)


def test_the_catalogue_has_sixty_bugs_of_every_kind() -> None:
    assert len(BUGS) + len(RULES) >= 60
    kinds = {bug.kind for bug in BUGS.values()}
    assert kinds == {
        "vector arithmetic",
        "masks",
        "pruning",
        "null handling",
        "conflict rules",
        "id comparison",
        "cache invalidation",
        "identity checks",
        "ordering of deletes",
        "cover proofs",
        "search",
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_found(name: str) -> None:
    assert planted.find(name).found_by is not None

"""The public face changes only on purpose: what is in the snapshot stays, and what is new is seen
in a review.
"""

from __future__ import annotations

import re
from difflib import unified_diff

from indextables.config import VERSION
from tests.api.face import SNAPSHOT, face


def test_the_public_face_is_the_one_that_was_agreed_on() -> None:
    agreed = SNAPSHOT.read_text(encoding="utf-8").splitlines()
    changes = list(unified_diff(agreed, face().splitlines(), "agreed", "now", lineterm="", n=0))
    told = (
        "The public face has changed. If that is meant, run `make api` and say it in CHANGELOG.md."
    )
    assert not changes, "\n".join([told, *changes])


def test_the_release_is_a_semantic_version() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+", VERSION)

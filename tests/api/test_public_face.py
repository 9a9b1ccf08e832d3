"""The public face changes only on purpose: what is in the snapshot stays, and what is new is seen in a review."""

from __future__ import annotations

import re

from indextables.config.release import VERSION
from tests.api.face import SNAPSHOT, face


def test_the_public_face_is_the_one_that_was_agreed_on() -> None:
    told = "The public face has changed. If that is meant, run `make api` and say it in CHANGELOG.md."
    assert face() == SNAPSHOT.read_text(encoding="utf-8"), told


def test_the_release_is_a_semantic_version() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+", VERSION)

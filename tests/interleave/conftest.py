"""Nothing that one test has read is taken for what another one would read."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.interleave import stepped_logs


@pytest.fixture(autouse=True)
def nothing_remembered() -> Iterator[None]:
    """Contents are read anew in every test."""
    stepped_logs.forget()
    yield
    stepped_logs.forget()

"""Tests that share a server or a session share a process: a second one would start it a second
time.
"""

from __future__ import annotations

import os

import pytest


@pytest.mark.xdist_group("together")
@pytest.mark.parametrize("half", ["one", "other"])
def test_a_group_holds(request: pytest.FixtureRequest, half: str) -> None:
    """pytest-xdist names the group in the id of a test; with a pytest that it does not fit, it
    silently does not.
    """
    if "PYTEST_XDIST_WORKER" in os.environ and request.config.option.loadgroup:
        assert request.node.nodeid.endswith("@together")

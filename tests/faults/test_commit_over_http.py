"""Commits through the real S3 client to a server that loses answers, says 409 or fails: 200
commits, 200 versions.
"""

from __future__ import annotations

import random

from indextables import Table
from tests.support.fault_server import FaultServer, HttpFault
from tests.support.tables import SCHEMA, append, live

FAULTS = (
    HttpFault("PUT", path_contains=".json", takes_effect=True),
    HttpFault("PUT", path_contains=".json", status=409, code="ConditionalRequestConflict"),
    HttpFault("PUT", path_contains=".json", status=500),
    HttpFault("PUT", path_contains=".json", status=500, takes_effect=True),
    HttpFault("PUT", path_contains=".json", status=503, code="SlowDown"),
)


def test_two_hundred_commits_each_with_a_fault(fault_server: FaultServer) -> None:
    place = fault_server.s3.below("table")
    options = {**place.options, "transaction.retry.baseDelayMs": 1}
    table = Table.create(place.url, schema=SCHEMA, options=options)
    rng = random.Random(5)
    for n in range(200):
        fault_server.plan(rng.choice(FAULTS))
        assert append(table, f"n{n}") == n + 1
        fault_server.forgive()
    again = Table.open(place.url, options=options)
    assert again.version == 200
    assert live(again) == {f"n{n}" for n in range(200)}

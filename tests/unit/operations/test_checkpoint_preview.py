"""A dry run of a checkpoint says what the real one then is, and writes nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from indextables import Table
from tests.support.rows import rows, table_of
from tests.support.stores import contents


@pytest.mark.parametrize("compact", [False, True])
@pytest.mark.parametrize("prepare", ["nothing", "state", "removed", "legacy"])
def test_it_tells_what_comes(tmp_path: Path, compact: bool, prepare: str) -> None:
    options: dict[str, object] = {"state.format": "json"} if prepare == "legacy" else {}
    table = table_of(tmp_path / "t", appends=3, options=options)
    if prepare in ("state", "removed"):
        table.checkpoint()
    if prepare == "removed":
        table.append(rows([77]))
        table.checkpoint()
    before = contents(table.path)
    fresh = Table.open(table.path)
    told = fresh.compact(dry_run=True) if compact else fresh.checkpoint(dry_run=True)
    assert contents(table.path) == before
    real = fresh.compact() if compact else fresh.checkpoint()
    assert replace(told, written=real.written, size_bytes=real.size_bytes) == real

"""Whatever takes long tells its steps: they never go back, and the last of them is the whole."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from indextables import Table

Steps = list[tuple[int, int, str]]
VERBS: dict[str, Callable[[Table, Any], object]] = {
    "verify": lambda t, progress: t.verify(full=True, progress=progress),
    "merge": lambda t, progress: t.merge(progress=progress),
    "delete": lambda t, progress: t.delete(where="n > 3 AND n < 35", progress=progress),
    "purge": lambda t, progress: (t.merge(), t.purge(older_than_hours=0, progress=progress)),
    "erase": lambda t, progress: t.erase(where="n = 3", retention_hours=0, progress=progress),
    "truncate": lambda t, progress: t.truncate_time_travel(progress=progress),
    "reindex": lambda t, progress: t.reindex({"word": "text"}, progress=progress),
}


@pytest.mark.parametrize("verb", VERBS)
def test_the_last_step_is_the_whole(verb: str, tmp_path: Path) -> None:
    options = {"checkpoint.interval": 3, "purge.retentionCheckEnabled": "false"}
    table = Table.create(
        str(tmp_path / "t"),
        schema=pa.schema([("n", pa.int64()), ("word", pa.string())]),
        options=options,
    )
    for turn in range(7):
        table.append([{"n": n, "word": f"w{n}"} for n in range(turn * 10, turn * 10 + 10)])
    steps: Steps = []
    VERBS[verb](table, lambda done, total, what: steps.append((done, total, what)))
    assert steps and steps[-1][0] == steps[-1][1] > 0, steps
    assert [done for done, _, _ in steps] == sorted(done for done, _, _ in steps)
    assert len({total for _, total, _ in steps}) == 1

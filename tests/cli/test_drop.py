"""`indextables drop`: the plan is shown first, and what is no table is an error."""

from __future__ import annotations

from pathlib import Path

from tests.cli.calls import Call


def test_a_table_is_dropped_after_it_was_agreed_to(call: Call, logs: Path) -> None:
    planned = call("drop", logs, "--dry-run", "--json").json
    assert planned["files_deleted"] > 3
    call("drop", logs, code=9)
    assert call("count", logs).out == "3\n"
    assert call("drop", logs, "--yes", "--json").json["files_deleted"] == planned["files_deleted"]
    assert not Path(logs).exists()
    assert "There is no table" in call("drop", logs, "--yes", code=3).err

"""Writers, a compacting and cleaning process and readers at once, as real processes: no wrong list,
nothing lost.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from indextables.log.cache import LogCache
from indextables.storage.local import LocalStore
from tests.support.state_logs import live, new_state_log, state_log


def start(role: str, path: Path, seed: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.faults.state_worker", role, str(path), str(seed)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_readers_see_whole_versions_or_are_told(tmp_path: Path) -> None:
    table = tmp_path / "table"
    new_state_log(table, partitioned=False)
    others = [
        (role, start(role, table, seed)) for seed, role in enumerate(["upkeep", "read", "read"], 10)
    ]
    writers = [("write", start("write", table, seed)) for seed in range(2)]
    results: dict[str, list[dict[str, Any]]] = {"write": [], "upkeep": [], "read": []}
    try:
        for role, worker in [*writers, *others]:
            out, err = worker.communicate(timeout=240)
            assert worker.returncode == 0, err
            results[role].append(json.loads(out.splitlines()[-1]))
            if len(results["write"]) == len(writers):
                (tmp_path / "table.stop").touch()
    finally:
        for _, worker in [*writers, *others]:
            with worker:
                worker.kill()
    assert [wrong for reader in results["read"] for wrong in reader["wrong"]] == []
    assert sum(reader["seen"] for reader in results["read"]) > 0
    assert results["upkeep"][0]["rounds"] > 0
    log = state_log(LocalStore(str(table)))
    log.cache = LogCache(1)
    assert live(log.newest()) == sorted(writer["last"] for writer in results["write"])

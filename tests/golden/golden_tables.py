"""Where the golden tables are, and what a right reader finds in them. The folder lies beside the
repository.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

_BESIDE = Path(__file__).parents[2].parent / "shared" / "golden"
GOLDEN = _BESIDE / "indextables_spark_v0.5.4"
JVM = _BESIDE / "jvm_v0.5.3"


@dataclass(frozen=True)
class GoldenTable:
    """A table on disk and its expected content."""

    path: Path

    @property
    def log(self) -> Path:
        return self.path / "_transaction_log"

    @property
    def expected(self) -> dict[str, Any]:
        content: dict[str, Any] = json.loads(Path(f"{self.path}.expected.json").read_bytes())
        return content

    @property
    def newest_state(self) -> Path:
        return max(self.log.glob("state-v*"))


def golden_tables(folder: Path = GOLDEN) -> list[GoldenTable]:
    """Every golden table; none where the folder is absent."""
    return [
        GoldenTable(Path(str(p).removesuffix(".expected.json")))
        for p in sorted(folder.glob("*.expected.json"))
    ]


def jvm_table(name: str) -> GoldenTable:
    """A table of IndexTables for the JVM with all its rows; the test is skipped where the folder is
    absent.
    """
    if not JVM.is_dir():
        pytest.skip("the folder of IndexTables for the JVM's tables is absent")
    return GoldenTable(JVM / name)


for_each_table = pytest.mark.parametrize("table", golden_tables(), ids=lambda t: t.path.name)
for_each_jvm_table = pytest.mark.parametrize("table", golden_tables(JVM), ids=lambda t: t.path.name)

"""Golden tables, and copies of them that can be changed."""

from __future__ import annotations

import shutil
from pathlib import Path

from indextables.log.cache import LogCache
from indextables.log.context import LogContext
from indextables.log.transaction_log import TransactionLog
from indextables.storage.local import LocalStore
from tests.golden.golden_tables import GoldenTable


def open_log(path: Path) -> TransactionLog:
    return TransactionLog(
        LogContext(LocalStore(str(path)), cache=LogCache(1 << 26), sleep=lambda _: None)
    )


def copy_of(table: GoldenTable, tmp_path: Path) -> Path:
    target = tmp_path / table.path.name
    shutil.copytree(
        table.path / "_transaction_log",
        target / "_transaction_log",
        ignore=shutil.ignore_patterns("*.crc"),
    )
    return target

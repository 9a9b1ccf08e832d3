"""Settings of companions: indexes of tables that other programs write."""

from __future__ import annotations

from indextables.config.registry import SettingsGroup, setting
from indextables.config.values import integer, number, size


class CompanionSettings(SettingsGroup, frozen=True):
    """How a companion follows its source."""

    max_scan_rows: int = setting(
        "companion.maxScanRows",
        integer(0),
        5_000_000,
        "Number of rows in files that the index does not cover yet up to which a search reads them; "
        "above it the search fails and names sync().",
        in_table=True,
    )
    settle_seconds: float = setting(
        "companion.settleTime",
        number(0),
        2.0,
        "Age in seconds from which a file of a Parquet folder is indexed; a younger file may still "
        "be written, and is read instead.",
        in_table=True,
    )
    target_input_bytes: int = setting(
        "companion.targetInputSize",
        size(1),
        1 << 30,
        "Bytes of source files that sync() indexes in one split.",
        in_table=True,
    )

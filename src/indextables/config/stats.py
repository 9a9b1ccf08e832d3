"""Settings of the statistics that the log keeps of each split."""

from __future__ import annotations

from indextables.config.registry import SettingsGroup, setting
from indextables.config.values import boolean, integer, names


class StatsSettings(SettingsGroup, frozen=True):
    """Which columns have minima and maxima in the log, and how long a text among them may be."""

    truncate: bool = setting(
        "stats.truncation.enabled", boolean(), True, "Shorten long texts in the statistics.", in_table=True
    )
    max_length: int = setting(
        "stats.truncation.maxLength", integer(1), 32, "Characters of a text that the statistics keep.", in_table=True
    )
    indexed_columns: int = setting(
        "dataSkippingNumIndexedCols",
        integer(-1),
        32,
        "Number of columns, from the first, that have statistics; -1 for all.",
        in_table=True,
    )
    named_columns: tuple[str, ...] = setting(
        "dataSkippingStatsColumns",
        names(),
        (),
        "Columns that have statistics; if given, their number does not count.",
        in_table=True,
    )

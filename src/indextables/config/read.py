"""Settings of reading rows."""

from __future__ import annotations

from indextables.config.registry import SettingsGroup, setting
from indextables.config.values import integer


class ReadSettings(SettingsGroup, frozen=True):
    """How splits are read."""

    parallelism: int = setting("read.parallelism", integer(1, 256), 8, "Splits that one process searches at a time.")

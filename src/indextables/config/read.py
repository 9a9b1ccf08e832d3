"""Settings of reading rows."""

from __future__ import annotations

from dataclasses import dataclass

from indextables.config.registry import setting
from indextables.config.values import integer


@dataclass(frozen=True)
class ReadSettings:
    """How splits are read."""

    parallelism: int = setting("read.parallelism", integer(1, 256), 8, "Splits that one process searches at a time.")

"""Column names as Spark reads them."""

from __future__ import annotations


def quoted(name: str) -> str:
    """A column name that Spark takes as it stands, whatever characters it holds."""
    return "`" + name.replace("`", "``") + "`"

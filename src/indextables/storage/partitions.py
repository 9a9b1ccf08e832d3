"""Partition folders, `column=value/...`, escaped as Hive and Spark escape them."""

from __future__ import annotations

from collections.abc import Mapping

from indextables.errors import InvalidInputError
from indextables.model.partition_text import NULL_PARTITION, escape, folder_value, unescape

__all__ = ["NULL_PARTITION", "escape", "partition_folder", "partition_values", "unescape"]


def partition_folder(values: Mapping[str, str | None]) -> str:
    """The folder of a partition, columns in the order given."""
    return "/".join(f"{escape(column)}={folder_value(value)}" for column, value in values.items())


def partition_values(path: str) -> dict[str, str | None]:
    """The partition values that the folders of a path spell; folders without `=` and the file name say nothing."""
    found: dict[str, str | None] = {}
    for folder in path.split("/")[:-1]:
        column, equals, value = folder.partition("=")
        if not equals:
            continue
        name = unescape(column)
        if not name or name in found:
            raise InvalidInputError(f"Folder {folder!r} of {path!r} names no column of its own.", path=path)
        found[name] = None if value == NULL_PARTITION else unescape(value)
    return found

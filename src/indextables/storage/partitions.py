"""Partition folders, `column=value/...`, escaped as Hive and Spark escape them."""

from __future__ import annotations

import re
from collections.abc import Mapping

from indextables.errors import InvalidInputError

NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"
_SPECIAL = re.compile(r"""[\x00-\x1f\x7f"#%'*/:=?\\{\[\]^]""")
_ESCAPED = re.compile(r"%([0-9A-Fa-f]{2})")


def escape(text: str) -> str:
    """A column name or value as it stands in a folder name."""
    return _SPECIAL.sub(lambda match: f"%{ord(match[0]):02X}", text)


def unescape(text: str) -> str:
    """What `escape` was given; a `%` that starts no escape stands for itself."""
    return _ESCAPED.sub(lambda match: chr(int(match[1], 16)), text)


def partition_folder(values: Mapping[str, str | None]) -> str:
    """The folder of a partition, columns in the order given.

    A null and an empty value share one folder, as in Spark: a folder name cannot be empty. The log tells them apart.
    """
    folders = ((escape(column), escape(value) if value else NULL_PARTITION) for column, value in values.items())
    return "/".join(f"{column}={value}" for column, value in folders)


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

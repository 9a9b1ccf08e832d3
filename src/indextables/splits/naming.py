"""Where new splits are put: `<column>=<value>/splits/split-<uuid>.split`."""

from __future__ import annotations

import uuid
from collections.abc import Mapping

from indextables.storage.partitions import partition_folder
from indextables.storage.paths import join


def new_split_name() -> str:
    """A name no other split has."""
    return f"split-{uuid.uuid4()}.split"


def split_path(partition_values: Mapping[str, str | None], name: str) -> str:
    """The path of a split of a partition, from the table's root."""
    return join(partition_folder(partition_values), "splits", name)

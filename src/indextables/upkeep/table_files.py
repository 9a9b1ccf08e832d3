"""Which files of a folder belong to the table in it."""

from __future__ import annotations

from collections.abc import Iterable

from indextables.log import names
from indextables.storage.store import ObjectInfo


def other_tables(objects: Iterable[ObjectInfo]) -> tuple[str, ...]:
    """The folders of tables that lie inside this one's folder, which are not ours to touch."""
    marker = f"/{names.LOG}/"
    return tuple(sorted({o.path[: o.path.index(marker) + 1] for o in objects if marker in o.path}))


def own_files(objects: Iterable[ObjectInfo]) -> list[ObjectInfo]:
    """The objects without those of other tables."""
    listed = [*objects]
    others = other_tables(listed)
    return [o for o in listed if not o.path.startswith(others)] if others else listed

"""Listing a folder of the local disk as an object store would list it: files only, deep, sorted by path."""

from __future__ import annotations

import os
from collections.abc import Iterator
from operator import itemgetter

from indextables.storage.store import ObjectInfo

TEMP_PREFIX = ".indextables-tmp-"


def list_files(root: str, folder: str, start_after: str) -> Iterator[ObjectInfo]:
    """The files below `folder` whose paths come after `start_after`, one folder read at a time.

    What vanishes meanwhile is left out. Unfinished writes are not shown. A symbolic link to a folder inside is not
    followed, so that nothing outside the root is ever listed (and then perhaps purged). One that leads nowhere is shown: it
    can be read no more than a file on a broken disk, which is something else than a file that is absent.
    """
    for path, entry in _sorted_entries(root, folder, start_after):
        if path.endswith("/"):
            yield from list_files(root, path[:-1], start_after)
        else:
            info = _file_info(path, entry)
            if info is not None:
                yield info


def list_unfinished(root: str) -> Iterator[ObjectInfo]:
    """The temporary files of writes that are under way, or that died."""
    for folder, _, names in os.walk(root):
        for name in sorted(names):
            if name.startswith(TEMP_PREFIX):
                full = os.path.join(folder, name)
                try:
                    stat = os.stat(full)
                except FileNotFoundError:
                    continue
                yield info_of(os.path.relpath(full, root), stat)


def info_of(path: str, stat: os.stat_result) -> ObjectInfo:
    """A file as a listing or a look at it shows it."""
    return ObjectInfo(path, stat.st_size, stat.st_mtime_ns // 1_000_000, f"{stat.st_ino:x}-{stat.st_mtime_ns:x}")


def _sorted_entries(root: str, folder: str, start_after: str) -> list[tuple[str, os.DirEntry[str]]]:
    """What a folder holds that can come after `start_after`, in the order of the paths: a folder sorts as `name/`.

    Nothing is asked of the disk about the rest, so that the end of a long log is found quickly.
    """
    base = f"{folder}/" if folder else ""
    found = []
    try:
        with os.scandir(os.path.join(root, folder)) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    path = f"{base}{entry.name}/"
                    if path > start_after or start_after.startswith(path):
                        found.append((path, entry))
                elif (path := base + entry.name) > start_after and not entry.name.startswith(TEMP_PREFIX):
                    found.append((path, entry))
    except (FileNotFoundError, NotADirectoryError):
        return []
    found.sort(key=itemgetter(0))
    return found


def _file_info(path: str, entry: os.DirEntry[str]) -> ObjectInfo | None:
    try:
        if entry.is_file():
            stat = entry.stat()
        elif entry.is_symlink() and not os.path.exists(entry.path):
            stat = entry.stat(follow_symlinks=False)  # what it leads to may be there again later: it was not deleted
        else:
            return None
    except FileNotFoundError:
        return None
    return info_of(path, stat)

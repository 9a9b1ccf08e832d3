"""Locations of stores, and paths inside them: joined with `/`, relative to the root, and never
outside of it.

Partition folders, `column=value/...`, are escaped as in Hive and Spark.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Literal
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from indextables.errors import InvalidInputError
from indextables.model.arguments import argument_error
from indextables.model.values import NULL_PARTITION, escape, folder_value, unescape

# An empty, `.` or `..` segment leads out of the root; control characters and, on Azure, `\` cannot
# be kept in a name.
_UNSAFE = re.compile(r"(?:^|/)\.{0,2}(?:/|$)|[\x00-\x1f\x7f\\]")


def is_path(path: str) -> bool:
    """Return whether a text names an object inside the root."""
    return not _UNSAFE.search(path)


def check(path: str) -> str:
    """Return the path if it names an object inside the root. Raises InvalidInputError."""
    if not is_path(path):
        message = f"{path!r} is not a path inside the store."
        hint = "A path is relative, has no empty, '.' or '..' segment, no backslash and no control characters."
        raise InvalidInputError(message, hint=hint, path=path)
    return path


def check_folder(prefix: str) -> str:
    """Return a folder inside the root without its trailing slash; the empty text is the root."""
    if prefix:
        return check(prefix.removesuffix("/"))
    return ""


def join(*parts: str) -> str:
    """Join parts with one `/`; empty parts are left out."""
    return "/".join(
        part.strip("/") if i else part.rstrip("/") for i, part in enumerate(parts) if part
    )


def relative_to_root(root: str, path: str) -> str:
    """Return a path relative to the root: a relative path is checked, an absolute path or URL must
    begin with the root.
    """
    if "://" not in path and not path.startswith("/"):
        return check(path)
    folder = root.rstrip("/") + "/"
    inside = path.removeprefix(folder)
    if inside == path or not is_path(inside):
        message = f"{path!r} lies outside the table at {root!r}."
        raise InvalidInputError(
            message, hint="Only files under the table's own folder can be named.", path=path
        )
    return inside


Kind = Literal["local", "s3", "azure", "gcs", "hdfs", "memory"]
_KINDS: dict[str, Kind] = {
    "file": "local",
    **dict.fromkeys(("s3", "s3a", "s3n"), "s3"),
    **dict.fromkeys(("abfss", "abfs", "wasbs", "wasb", "az"), "azure"),
    "gs": "gcs",
    **dict.fromkeys(("hdfs", "viewfs"), "hdfs"),
    "memory": "memory",
}
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(//)?")


class Location(Struct, frozen=True):
    """A location: kind of store, bucket or container (or memory's name), Azure's host, and the
    folder inside.
    """

    kind: Kind
    url: str
    container: str = ""
    folder: str = ""
    host: str = ""


def parse_location(url: str | os.PathLike[str]) -> Location:
    """Parse a local path or a URL. The path of a remote URL is not unescaped; that of `file://` is."""
    if not isinstance(url, str | os.PathLike):
        raise argument_error("The path of a table", "a text or a pathlib.Path", url)
    text = os.fspath(url)
    if not text:
        raise InvalidInputError(
            "The path of the table is empty.", hint="Give a local path or a URL."
        )
    check_characters(text)
    match = _SCHEME.match(text)
    if match is None or (match[2] is None and match[1].lower() != "file"):
        _check_local(text, None if match is None else match[1])
        return _local(text)
    kind = _KINDS.get(match[1].lower())
    if kind is None:
        schemes = ", ".join(f"{scheme}://" for scheme in _KINDS)
        raise InvalidInputError(
            f"There is no store for {match[1]}:// URLs.", hint=f"Known are local paths, {schemes}."
        )
    if kind == "local":
        return _local(_path_of_file_url(text))
    return _remote(kind, match[1].lower(), text[match.end() :])


def _check_local(path: str, scheme: str | None) -> None:
    """Refuse texts that only look like a local path, such as `s3:` or `~`."""
    if scheme is not None and scheme.lower() in _KINDS and path[len(scheme) + 1 :].startswith("/"):
        meant = f"{scheme}://{path[len(scheme) + 1 :].lstrip('/')}"
        message = f"{path!r} is neither a URL nor a local path."
        raise InvalidInputError(
            message, hint=f"Write {meant}, or ./{path} for a folder of that name.", path=path
        )
    expanded = os.path.expanduser(path)  # noqa: PTH111
    if expanded != path:
        message = f"{path!r} is not expanded as a shell does it."
        raise InvalidInputError(
            message, hint=f"Write {expanded}, or ./{path} for a folder of that name.", path=path
        )


def check_characters(path: str) -> str:
    """Return the path, or raise an error if it contains a NUL character."""
    if "\0" in path:
        message = (
            f"The path {path!r} holds a NUL character, with which no file or folder can be named."
        )
        raise InvalidInputError(
            message, hint="Take it out of the path. Nothing was changed.", path=path
        )
    return path


def _path_of_file_url(url: str) -> str:
    parts = urlsplit(url)
    if parts.netloc and parts.netloc.lower() != "localhost":
        path = unquote(parts.path)
        message = f"{url!r} names the host {parts.netloc!r}; files of another host cannot be reached by a file:// URL."
        hint = f"Write file:///{parts.netloc}{path} or file://{path} for a folder here; for a share, where it is mounted."
        raise InvalidInputError(message, hint=hint, url=url)
    return check_characters(unquote(parts.path))


def _local(path: str) -> Location:
    """Return an absolute path, because a worker that opens the store may have another working
    folder.
    """
    return Location("local", os.path.abspath(path))  # noqa: PTH100 (Path.absolute keeps `..`)


def _remote(kind: Kind, scheme: str, rest: str) -> Location:
    authority, _, folder = rest.partition("/")
    folder = check_folder(folder.strip("/"))
    container, _, host = authority.partition("@") if kind == "azure" else (authority, "", "")
    if kind == "hdfs" and not folder:
        hint = f"Write {scheme}://host:port/folder, or {scheme}:///folder for the file system that Hadoop is set to."
        raise InvalidInputError(
            f"The URL {scheme}://{rest} names no folder.", hint=hint, url=f"{scheme}://{rest}"
        )
    if "@" in container or (":" in container and kind != "hdfs") or "?" in rest:
        message = f"A {scheme}:// URL holds a bucket or container and a path, nothing else."
        raise InvalidInputError(
            message, hint="Give credentials as options, such as aws.secretKey or azure.sasToken."
        )
    if not container and kind not in ("memory", "hdfs"):
        raise InvalidInputError(
            f"The URL {scheme}://{rest} names no bucket or container.", url=f"{scheme}://{rest}"
        )
    return Location(
        kind, f"{scheme}://{authority}" + (f"/{folder}" if folder else ""), container, folder, host
    )


def inside(root: str, path: str) -> str:
    """Return a path recorded by another writer relative to the table. Schemes of one store (s3,
    s3a, s3n) are equal.
    """
    theirs = _SCHEME.match(path)
    if theirs is None:
        return relative_to_root(root, path)
    kind = _KINDS.get(theirs[1].lower())
    if kind == "local":
        return relative_to_root(root, unquote(urlsplit(path).path))
    ours = _SCHEME.match(root)
    if ours is not None and kind == _KINDS.get(ours[1].lower()):
        path = ours[0] + path[theirs.end() :]
    return relative_to_root(root, path)


__all__ = ["NULL_PARTITION", "escape", "partition_folder", "partition_values", "unescape"]


def partition_folder(values: Mapping[str, str | None]) -> str:
    """Return the folder of a partition, with the columns in the given order."""
    return "/".join(f"{escape(column)}={folder_value(value)}" for column, value in values.items())


def partition_values(path: str) -> dict[str, str | None]:
    """Return the partition values in the folders of a path. Folders without `=` and the file name
    are ignored.
    """
    values: dict[str, str | None] = {}
    for folder in path.split("/")[:-1]:
        column, equals, value = folder.partition("=")
        if not equals:
            continue
        name = unescape(column)
        if not name or name in values:
            raise InvalidInputError(
                f"Folder {folder!r} of {path!r} names no column of its own.", path=path
            )
        values[name] = None if value == NULL_PARTITION else unescape(value)
    return values

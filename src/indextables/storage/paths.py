"""Paths inside a store: joined with `/`, relative to its root, and never out of it."""

from __future__ import annotations

import re

from indextables.errors import InvalidInputError

# An empty, `.` or `..` segment leads out of the root; control characters and, on Azure, `\` cannot be kept in a name.
_UNSAFE = re.compile(r"(?:^|/)\.{0,2}(?:/|$)|[\x00-\x1f\x7f\\]")


def is_path(path: str) -> bool:
    """Whether a text names an object inside the root."""
    return not _UNSAFE.search(path)


def check(path: str) -> str:
    """The path itself if it names an object inside the root; InvalidInputError otherwise."""
    if not is_path(path):
        message = f"{path!r} is not a path inside the store."
        hint = "A path is relative, has no empty, '.' or '..' segment, no backslash and no control characters."
        raise InvalidInputError(message, hint=hint, path=path)
    return path


def check_folder(prefix: str) -> str:
    """A folder inside the root without its trailing slash; the empty text is the root itself."""
    return check(prefix.removesuffix("/")) if prefix else ""


def join(*parts: str) -> str:
    """Parts joined with one `/`; empty parts are left out."""
    return "/".join(part.strip("/") if i else part.rstrip("/") for i, part in enumerate(parts) if part)


def relative_to_root(root: str, path: str) -> str:
    """A path as it lies under the root: a relative one is checked, an absolute path or URL must begin with the root."""
    if "://" not in path and not path.startswith("/"):
        return check(path)
    folder = root.rstrip("/") + "/"
    inside = path.removeprefix(folder)
    if inside == path or not is_path(inside):
        message = f"{path!r} lies outside the table at {root!r}."
        raise InvalidInputError(message, hint="Only files under the table's own folder can be named.", path=path)
    return inside

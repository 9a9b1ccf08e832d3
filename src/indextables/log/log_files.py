"""Names of the log's files, and one listing of the folder as versions, states, and checkpoints of
older forms.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice

from msgspec import Struct

from indextables.errors import BadFileError, TableNotFoundError, UnsupportedError
from indextables.storage.store import ObjectInfo, Store

LOG = "_transaction_log"
POINTER = f"{LOG}/_last_checkpoint"
CLOCK = f"{LOG}/_clock"
"""An empty file that a cleaner writes to read the store's clock."""
DROPPED = f"{LOG}/DROPPED"
"""The marker of a table that is being dropped. It sorts after the version files and before
everything else.
"""
MANIFESTS = f"{LOG}/manifests"
_SHARED = f"{MANIFESTS}/"
STATE_PREFIX = "state-v"
STATE_FILES = ("_manifest.avro", "_manifest.json")
PARQUET_CHECKPOINTS = f"{LOG}/_checkpoints"
_DIGITS = 20
MAX_VERSION = 10**18
"""Highest valid version, supported by every engine. A file with a higher number is not part of the
log.
"""


def version_path(version: int) -> str:
    """Return the version file of a version."""
    if version > MAX_VERSION:
        raise UnsupportedError(
            f"There is no version {version}: versions end at {MAX_VERSION}.", version=version
        )
    return f"{LOG}/{version:0{_DIGITS}d}.json"


def before_version(version: int) -> str:
    """Return a name that sorts before every file of this version and after every file of the
    previous one.
    """
    return f"{LOG}/{version:0{_DIGITS}d}"


def state_dir(version: int) -> str:
    """Return the state directory of a version."""
    return f"{LOG}/{STATE_PREFIX}{version:0{_DIGITS}d}"


def state_path(version: int) -> str:
    """Return the manifest file of a state."""
    return f"{state_dir(version)}/{STATE_FILES[0]}"


def manifest_path(path: str, state_file: str) -> str:
    """Return the path of a manifest from its name in `state_file`.

    Shared manifests and those of a named state directory are relative to the log; a bare name is
    relative to the state's directory. A path outside the log is a BadFileError.
    """
    if path.startswith(("manifests/", STATE_PREFIX)):
        folder = LOG
    else:
        folder = state_file.rpartition("/")[0]
    if path.startswith("/") or "://" in path or ".." in path.split("/"):
        raise BadFileError(
            f"{state_file} names a manifest outside the log: {path!r}.", path=state_file
        )
    return f"{folder}/{path}"


def json_checkpoint_path(version: int) -> str:
    """Return the JSON checkpoint of a version, or the manifest of its parts."""
    return f"{LOG}/{version:0{_DIGITS}d}.checkpoint.json"


def json_part_name(version: int, checkpoint_id: str, part: int) -> str:
    """Return the name of one part of a multi-part checkpoint, counted from 1."""
    return f"{version:0{_DIGITS}d}.checkpoint.{checkpoint_id}.{part:05d}.json"


def parquet_checkpoint_path(version: int) -> str:
    """Return the Parquet checkpoint of a version. A small JSON file of the same name is next to it."""
    return f"{PARQUET_CHECKPOINTS}/{version:0{_DIGITS}d}.checkpoint.parquet"


def parquet_part_name(version: int, checkpoint_id: str, part: int) -> str:
    """Return the name of one further part of a Parquet checkpoint, counted from 1."""
    return f"{version:0{_DIGITS}d}.checkpoint.{checkpoint_id}.{part:05d}.parquet"


def version_of(path: str) -> int | None:
    """Return the version of a version file, or None for other paths."""
    name = path.removeprefix(f"{LOG}/")
    digits, dot, rest = name.partition(".")
    if dot and rest == "json" and _is_number(digits):
        return int(digits)
    return None


def legacy_checkpoint_version_of(path: str) -> int | None:
    """Return the version of a JSON or Parquet checkpoint, or None.

    Parts of a multi-part JSON checkpoint are None. A Parquet checkpoint is one file, or a folder of
    files as Spark writes it.
    """
    digits, rest, in_folder = _checkpoint_name(path)
    if in_folder:
        is_checkpoint = rest == "checkpoint.parquet" or (
            rest.startswith("checkpoint.parquet/") and rest.endswith(".parquet")
        )
    else:
        is_checkpoint = rest == "checkpoint.json"
    if is_checkpoint and digits:
        return int(digits)
    return None


def legacy_note_version_of(path: str) -> int | None:
    """Return the version of a small file next to a Parquet checkpoint, or None."""
    digits, rest, in_folder = _checkpoint_name(path)
    is_note = in_folder and (rest == "checkpoint.json" or rest.startswith("checkpoint.parquet/_"))
    if is_note and digits:
        return int(digits)
    return None


def is_checkpoint_part(path: str) -> bool:
    """Return whether the file is a part of a checkpoint of several files."""
    digits, rest, in_folder = _checkpoint_name(path)
    words, suffix = rest.split("."), "parquet" if in_folder else "json"
    return bool(digits) and len(words) == 4 and words[0] == "checkpoint" and words[3] == suffix


def _checkpoint_name(path: str) -> tuple[str, str, bool]:
    """Split a checkpoint's name into its digits (empty if none) and the rest, and return whether it
    is in the Parquet folder.
    """
    in_folder = path.startswith(f"{PARQUET_CHECKPOINTS}/")
    name = path.removeprefix(f"{PARQUET_CHECKPOINTS}/" if in_folder else f"{LOG}/")
    digits, _, rest = name.partition(".")
    return digits if _is_number(digits) else "", rest, in_folder


def _is_number(digits: str) -> bool:
    return _is_digits(digits) and int(digits) <= MAX_VERSION


def _is_digits(digits: str) -> bool:
    return len(digits) == _DIGITS and digits.isascii() and digits.isdecimal()


def is_impossible_version(path: str) -> bool:
    """Return whether a file is named like a version file or a state of an invalid version."""
    name = path.removeprefix(f"{LOG}/").removeprefix(STATE_PREFIX)
    digits = name[:_DIGITS]
    return _is_digits(digits) and not _is_number(digits) and name[_DIGITS:].startswith((".", "/"))


def state_version_of(path: str) -> int | None:
    """Return the version of a state directory from the path of its manifest, or None for other
    paths.
    """
    folder, _, name = path.removeprefix(f"{LOG}/").partition("/")
    digits = folder.removeprefix(STATE_PREFIX)
    # Other writers leave out the zeros before the number; a longer one than ours is no version.
    is_state = (
        name in STATE_FILES
        and folder.startswith(STATE_PREFIX)
        and _is_number(digits.zfill(_DIGITS))
    )
    if is_state and digits:
        return int(digits)
    return None


MOST_HOLES = 1_000
"""Maximum number of missing versions listed one by one."""


class LogListing(Struct, frozen=True):
    """The content of a listing. Versions below `first_version` were not requested."""

    versions: Mapping[int, ObjectInfo]
    states: Mapping[int, ObjectInfo]
    legacy_checkpoints: Mapping[int, ObjectInfo]
    first_version: int = 0
    is_dropped: bool = False
    """Whether the table is being dropped."""
    impossible: tuple[str, ...] = ()
    """Files named like invalid versions. They are ignored."""

    @property
    def newest(self) -> int:
        """The highest version of any file in the log; -1 for no table."""
        return max([*self.versions, *self.states, *self.legacy_checkpoints], default=-1)

    @property
    def is_empty(self) -> bool:
        """Whether there is no table."""
        return self.newest < 0

    def missing(self, after: int, until: int) -> list[int]:
        """Return the versions in (after, until] without a version file, at most the first of very
        many.

        File names can contain any number, so the length of a hole is computed rather than
        enumerated.
        """
        holes = (v for v in range(after + 1, until + 1) if v not in self.versions)
        return list(islice(holes, MOST_HOLES))


def list_versions(store: Store, first: int, until: int) -> dict[int, ObjectInfo]:
    """Return the files of versions `first` to `until - 1`. The listing ends where the names of
    versions end.

    TableNotFoundError if the table is being dropped.
    """
    numbers = {f"{LOG}/{number:0{_DIGITS}d}.json": number for number in range(first, until)}
    last_name = f"{LOG}/:"  # the character after the digits
    found: dict[int, ObjectInfo] = {}
    for info in store.list(LOG, start_after=before_version(first)):
        path = info.path
        if path in numbers:
            found[numbers[path]] = info
        elif path == DROPPED:
            raise being_dropped(store.url)
        elif path > last_name:
            break
    return found


def being_dropped(url: str) -> TableNotFoundError:
    """Return the error for a table of which only the marker and some files may be left."""
    return TableNotFoundError(
        f"The table at {url} is being dropped.",
        hint="If the process that drops it has died, Table.drop(path) finishes it.",
        path=url,
    )


def list_log(store: Store, *, first_version: int = 0) -> LogListing:
    """List the log from a version. States and checkpoints are always listed, because their names
    sort after the versions.
    """
    if first_version:
        start_after = before_version(first_version)
    else:
        start_after = None
    return listing_of(store.list(LOG, start_after=start_after), first_version=first_version)


def listing_of(objects: Iterable[ObjectInfo], *, first_version: int = 0) -> LogListing:
    """Build the listing of a log's files that were listed from a version."""
    versions: dict[int, ObjectInfo] = {}
    states: dict[int, ObjectInfo] = {}
    checkpoints: dict[int, ObjectInfo] = {}
    impossible: list[str] = []
    is_dropped = False
    for info in objects:
        if info.path == DROPPED:
            is_dropped = True
            continue
        version = version_of(info.path)
        if version is not None:
            versions[version] = info
            continue
        if info.path.startswith(_SHARED):
            continue
        if is_impossible_version(info.path):
            impossible.append(info.path)
            continue
        version = state_version_of(info.path)
        if version is not None:
            # `_manifest.avro` sorts before `_manifest.json` and wins where both are there.
            states.setdefault(version, info)
            continue
        version = legacy_checkpoint_version_of(info.path)
        if version is not None:
            checkpoints.setdefault(version, info)
    return LogListing(versions, states, checkpoints, first_version, is_dropped, tuple(impossible))

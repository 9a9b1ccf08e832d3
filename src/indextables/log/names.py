"""The names of the log's files, and what a name says."""

from __future__ import annotations

LOG = "_transaction_log"
POINTER = f"{LOG}/_last_checkpoint"
MANIFESTS = f"{LOG}/manifests"
STATE_PREFIX = "state-v"
STATE_FILES = ("_manifest.avro", "_manifest.json")
_DIGITS = 20


def version_path(version: int) -> str:
    """The version file of a version."""
    return f"{LOG}/{version:0{_DIGITS}d}.json"


def before_version(version: int) -> str:
    """A name that sorts before every file of this version and after every file of the one before."""
    return f"{LOG}/{version:0{_DIGITS}d}"


def state_dir(version: int) -> str:
    """The state directory of a version."""
    return f"{LOG}/{STATE_PREFIX}{version:0{_DIGITS}d}"


def version_of(path: str) -> int | None:
    """The version of a version file, or None if the path is not one."""
    name = path.removeprefix(f"{LOG}/")
    digits, dot, rest = name.partition(".")
    return int(digits) if dot and rest == "json" and len(digits) == _DIGITS and digits.isdecimal() else None


def checkpoint_version_of(path: str) -> int | None:
    """The version of a JSON or Parquet checkpoint's first file, or None. Parts of a multi-part checkpoint are None."""
    name = path.removeprefix(f"{LOG}/").removeprefix("_checkpoints/")
    digits, _, rest = name.partition(".")
    kinds = ("checkpoint.json", "checkpoint.parquet")
    return int(digits) if rest in kinds and len(digits) == _DIGITS and digits.isdecimal() else None


def state_version_of(path: str) -> int | None:
    """The version of a state directory, from the path of its manifest; None for any other path."""
    folder, _, name = path.removeprefix(f"{LOG}/").partition("/")
    digits = folder.removeprefix(STATE_PREFIX)
    known = name in STATE_FILES and folder.startswith(STATE_PREFIX) and digits.isdecimal()
    return int(digits) if known else None

"""The options of the data source: a few of its own, and every setting. Spark hands them over with lower-case keys."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, TypeVar

from msgspec import Struct

from indextables import config
from indextables.config.values import integer, parse_bool, parse_size
from indextables.errors import InvalidInputError, UnknownOptionError
from indextables.spark.session_settings import bare

T = TypeVar("T")

SPARKS_OWN = frozenset({"path", "checkpointlocation", "queryname"}) | {
    *("owner", "provider", "location", "external", "is_managed_location", "comment", "collation", "table_type"),
}
"""Options that Spark itself reads and passes on, and the properties that it gives to catalog tables."""
OWN = (
    "query",
    "where",
    "columns",
    "limit",
    "versionAsOf",
    "timestampAsOf",
    "score",
    "snippet",
    "only",
    "frame",
    "limitPerTask",
    "partitionColumns",
    "mergeSchema",
    "replaceWhere",
    "partitionOverwriteMode",
    "userMetadata",
    "txnAppId",
    "txnVersion",
    "startingVersion",
    "maxFilesPerTrigger",
    "maxBytesPerTrigger",
    "ignoreChanges",
    "searches",
    "filters",
    "statement",
    "statementTable",
)
_OWN = {name.lower(): name for name in OWN}


class SourceOptions(Struct, frozen=True):
    """The options of one read or write, told apart. Settings may hold credentials: they stay out of the repr."""

    path: str | None
    own: Mapping[str, str]
    settings: Mapping[str, str] = {}

    def __repr__(self) -> str:
        return f"SourceOptions(path={self.path!r}, own={self.own!r})"

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> SourceOptions:
        """Sort options; one that is neither ours nor a setting is an error with the nearest known names."""
        own: dict[str, str] = {}
        settings: dict[str, str] = {}
        for key, value in options.items():
            name = bare(key)
            if name.lower() in _OWN:
                own[_OWN[name.lower()]] = value
            elif name.lower() not in SPARKS_OWN and not name.lower().startswith("option."):
                settings[name] = value
        _check_known(settings)
        return cls(options.get("path") or options.get("location"), own, settings)

    def required_path(self, schema_path: str | None = None) -> str:
        """The table's path, or an error that says how to give one."""
        if self.path or schema_path:
            return str(self.path or schema_path)
        raise InvalidInputError(
            "The table's path is not known here: Spark does not keep it for tables of its catalog.",
            hint="Use CREATE TEMPORARY VIEW v USING indextables OPTIONS (path '...') to read and to INSERT INTO. "
            "A table that is only read can be CREATE TABLE t USING indextables OPTIONS (path '...'), without columns.",
        )

    def text(self, name: str) -> str | None:
        """An option as it stands; an empty one counts as not given."""
        return self.own.get(name) or None

    def number(self, name: str, low: int = 0) -> int | None:
        """A whole number."""
        return self._parsed(name, integer(low).parse, f"a whole number, at least {low}")

    def version(self, name: str) -> int | Literal["latest"] | None:
        """A version by its number, or the word `latest`."""
        if (self.text(name) or "").strip().lower() == "latest":
            return "latest"
        return self._parsed(name, integer(0).parse, "a version from 0 up, or latest")

    def flag(self, name: str) -> bool:
        """True or false, false if not given."""
        return bool(self._parsed(name, parse_bool, "true or false"))

    def size(self, name: str) -> int | None:
        """A number of bytes."""
        return self._parsed(name, parse_size, "bytes, or a text such as 512M")

    def names(self, name: str) -> tuple[str, ...] | None:
        """A list of names: a JSON list, or names separated by commas."""
        return self._parsed(name, parse_names, "names separated by commas, or a JSON list of names")

    def _parsed(self, name: str, parse: Callable[[Any], T], allowed: str) -> T | None:
        given = self.text(name)
        if given is None:
            return None
        try:
            return parse(given)
        except ValueError:
            message = f"Option {name!r} cannot be {given!r}."
            raise InvalidInputError(message, hint=f"Allowed: {allowed}.", key=name) from None


def parse_names(text: str) -> tuple[str, ...]:
    """Names from a JSON list or a comma-separated text."""
    if text.lstrip().startswith("["):
        listed = json.loads(text)
        if not all(isinstance(name, str) for name in listed):
            raise ValueError(text)
        return tuple(listed)
    return tuple(name.strip() for name in text.split(",") if name.strip())


def spelled(settings: Mapping[str, str], columns: Iterable[str]) -> dict[str, str]:
    """The settings with the column names of per-column keys as the schema spells them: Spark has lowered their case."""
    known = {name.lower(): name for name in columns}
    result = {}
    for key, value in settings.items():
        found, column = config.REGISTRY.find(key)
        if column is not None:
            key = found.key[:-1] + known.get(column.lower(), column)
        result[key] = value
    return result


def _check_known(settings: Mapping[str, str]) -> None:
    for key in settings:
        try:
            config.REGISTRY.find(key)
        except UnknownOptionError as error:
            near = [name for name in OWN if name.lower().startswith(key.lower()[:4])]
            hint = f"Did you mean {' or '.join(map(repr, near))}?" if near else error.hint
            raise UnknownOptionError(
                f"There is no option or setting {key!r}.", hint=hint, key=key, nearest=near or error.context["nearest"]
            ) from None

"""Typed registry of settings. A setting is a field of a frozen struct that some package uses, so
there are no dead keys.

A key has the prefix `spark.indextables.` in a Spark session; elsewhere the prefix is optional. If a
key is given in several places the order is: option > session > table > default.
"""

from __future__ import annotations

import builtins
import hashlib
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from msgspec import Struct, StructMeta, field
from msgspec.structs import replace

from indextables.config.jvm_names import ALIASES, NO_EFFECT, REFUSED
from indextables.config.values import ValueType, boolean, text
from indextables.errors import (
    LONGEST_NAME,
    InvalidInputError,
    UnknownOptionError,
    nearest,
    show_value,
)

PREFIX = "spark.indextables."
logger = logging.getLogger(__name__)


class Setting(Struct, frozen=True):
    """One setting: key, parser, description. A key that ends in `.*` holds one value per column."""

    key: str
    type: ValueType
    default: Any
    doc: str
    secret: bool = False
    in_table: bool = False
    """Whether a table's metadata may carry it, so that the table's writer decides. Never true for
    locations, credentials, classes, or threads and memory of the reader.
    """
    field_name: str = ""
    group: builtins.type = object
    names_columns: bool = False
    """Whether its value is one or several column names."""
    is_word: Callable[[str], bool] | None = None
    """Whether a text is one of the values, for a family that accepts word first, then columns."""

    @property
    def per_column(self) -> bool:
        """Whether the key is a family such as `indexing.typemap.<column>`."""
        return self.key.endswith(".*")

    def lists(self, column: str, value: object) -> bool:
        """Return whether the key ends in a word and the value lists its columns: `typemap.text =
        a,b`.
        """
        if self.is_word is None or not isinstance(value, str) or not value.strip():
            return False
        return self.is_word(column.strip().lower()) and not self.is_word(value.strip().lower())

    def by_column(self, column: str, value: Any) -> dict[str, Any]:
        """Return the value by column, if it lists columns of a word."""
        if not self.lists(column, value):
            return {column: value}
        word = self.type.parse(column.strip().lower())
        return {name: word for part in value.split(",") if (name := part.strip())}


def setting(
    key: str,
    type: ValueType,  # noqa: A002
    default: Any,
    doc: str,
    *,
    secret: bool = False,
    in_table: bool = False,
    names_columns: bool = False,
    is_word: Callable[[str], bool] | None = None,
) -> Any:
    """Declare a field of a group as a setting.

    Per-column families (`x.*`) have a mapping as their value. Only settings with `in_table` can be
    stored in a table's metadata and are read from there.
    """
    return Setting(
        key, type, default, doc, secret, in_table, names_columns=names_columns, is_word=is_word
    )


class _SettingsMeta(StructMeta):
    """Metaclass of groups: a struct whose fields have the settings' defaults, and the list of its
    settings.
    """

    def __new__(
        cls, name: str, bases: tuple[type, ...], body: dict[str, Any], **options: Any
    ) -> _SettingsMeta:
        settings = {key: value for key, value in body.items() if isinstance(value, Setting)}
        defaults = {
            key: field(default_factory=dict) if s.per_column else s.default
            for key, s in settings.items()
        }
        return super().__new__(
            cls, name, bases, {**body, **defaults, "declared": settings}, **options
        )


class SettingsGroup(Struct, frozen=True, metaclass=_SettingsMeta):
    """The settings of one package. Its repr shows no secret."""

    declared: ClassVar[Mapping[str, Setting]] = {}

    def __repr__(self) -> str:
        shown = (
            f"{name}={getattr(self, name)!r}" for name, s in self.declared.items() if not s.secret
        )
        return f"{type(self).__name__}({', '.join(shown)})"


def list_settings(group: type[SettingsGroup]) -> Iterator[Setting]:
    """Yield the settings of a group in order."""
    return (replace(s, field_name=name, group=group) for name, s in group.declared.items())


G = TypeVar("G", bound=SettingsGroup)


class WithoutEffect:
    """The group of settings without effect: names of IndexTables for the JVM."""


_WITHOUT_EFFECT = {
    key: Setting(key, text(), None, f"{reason}.", group=WithoutEffect)
    for key, reason in NO_EFFECT.items()
} | {
    key: Setting(key, boolean(), True, f"It cannot be switched off: {reason}.", group=WithoutEffect)
    for key, reason in REFUSED.items()
}
_JVM_NAMES = {key.lower(): key for key in (*_WITHOUT_EFFECT, *ALIASES)}
_mentioned: set[tuple[str, ...]] = set()
_shared_folder = ""


class Registry:
    """Every setting of every group, by key, and by their names in IndexTables for the JVM."""

    def __init__(self, groups: Iterable[type[SettingsGroup]]) -> None:
        self.settings = {s.key: s for g in groups for s in list_settings(g)}
        self._lower = {key.lower(): key for key in self.settings if not key.endswith(".*")}
        self._families = {key[:-1].lower(): key for key in self.settings if key.endswith(".*")}

    def lookup(self, key: str) -> tuple[Setting, str | None] | None:
        """Return the setting of a key, and the column of a per-column key. Keys ignore case,
        columns do not.
        """
        if not isinstance(key, str):
            raise InvalidInputError(
                f"A setting is named by a text, not by {key!r}.", hint="Write it in quotes."
            )
        bare = bare_key(key)
        exact = self._lower.get(bare.lower())
        if exact is not None:
            return self.settings[exact], None
        foreign = _JVM_NAMES.get(bare.lower())
        if foreign is not None:
            return _WITHOUT_EFFECT.get(foreign) or self.settings[ALIASES[foreign].target], None
        for family, full in self._families.items():
            if bare.lower().startswith(family) and len(bare) > len(family):
                return self.settings[full], bare[len(family) :]
        return None

    def find(self, key: str) -> tuple[Setting, str | None]:
        """Return the setting of a key. An unknown key is an error with the nearest known ones."""
        match = self.lookup(key)
        if match is not None:
            return match
        bare = bare_key(key)
        near = nearest(bare.lower(), [*self._lower, *self._families], count=3)
        names = [self._lower.get(n) or self._families[n] for n in near]
        if names:
            hint = f"Did you mean {' or '.join(repr(n) for n in names)}?"
        else:
            hint = None
        raise UnknownOptionError(
            f"There is no setting {show_value(bare)}.",
            hint=hint,
            key=bare[:LONGEST_NAME],
            nearest=names,
        )

    def name_of(self, key: str) -> str:
        """The correct spelling of the caller's name for a setting, here or in IndexTables for the
        JVM.
        """
        name = bare_key(key)
        return self._lower.get(name.lower()) or _JVM_NAMES.get(name.lower(), name)

    def convert(self, key: str, value: object) -> Any:
        """The value of the target of an alias; None means no value."""
        name = _JVM_NAMES.get(bare_key(key).lower(), "")
        if name in ALIASES:
            return ALIASES[name].convert(value)
        return value

    def parse(self, key: str, value: object) -> tuple[Setting, str | None, Any]:
        """Parse the text of a key, or raise an error with key, value and allowed values."""
        entry, column = self.find(key)
        name = _JVM_NAMES.get(bare_key(key).lower(), entry.key)
        try:
            given = self.convert(key, value)
            parsed = None if given is None else entry.type.parse(given)
        except (ValueError, TypeError, OverflowError):
            text = "<hidden>" if entry.secret else show_value(value)
            message = f"Setting {name!r} cannot be {text}."
            allowed = (ALIASES[name].allowed if name in ALIASES else "") or entry.type.allowed
            raise InvalidInputError(
                message, hint=f"Allowed: {allowed}.", key=name, allowed=allowed
            ) from None
        if name in REFUSED and not parsed:
            message = f"Setting {name!r} cannot be false: {REFUSED[name]}."
            raise InvalidInputError(message, hint="Leave it out.", key=name)
        return entry, column, parsed


def weighed_name(rename: Callable[[str], str]) -> Callable[[str], str]:
    """Rename a column name with an optional weight, `subject^3`."""

    def renamed(name: str) -> str:
        column, mark, weight = name.partition("^")
        return rename(column) + mark + weight

    return renamed


def renamed_entry(
    entry: Setting, column: str, value: Any, rename: Callable[[str], str]
) -> tuple[str, Any]:
    """Rename column and value of a per-column key. If a kind comes first, the value lists columns."""
    is_list = entry.lists(column, value)
    if not isinstance(value, str) or entry.is_word is None or entry.is_word(value.strip().lower()):
        return rename(column), value
    if not is_list and rename(column) != column:
        return rename(column), value
    return column, ",".join(rename(part.strip()) for part in value.split(","))


def bare_key(key: str) -> str:
    """Return a key without its optional prefix."""
    if key[: len(PREFIX)].lower() == PREFIX:
        return key[len(PREFIX) :]
    return key


def is_news(*words: str) -> bool:
    """Return whether no process has logged this yet: this one, or another of the same Spark driver
    or executor.

    Spark plans every read and write in a process of its own, which receives a folder of the
    application.
    """
    if words in _mentioned:
        return False
    _mentioned.add(words)
    folder = shared_folder()
    if not folder:
        return True
    name = hashlib.sha256("\0".join(words).encode("utf-8", "replace")).hexdigest()[:32]
    try:
        Path(folder, f"indextables-said-{name}").touch(exist_ok=False)
    except FileExistsError:
        return False
    except OSError:
        pass  # rather twice than never
    return True


def share_folder(folder: str) -> None:
    """The folder that the processes of the application share, passed to a process that Spark did
    not start.
    """
    global _shared_folder
    _shared_folder = folder


def shared_folder() -> str:
    """Return the folder that all processes of this Spark application share; empty outside Spark."""
    return _shared_folder or _folder_of_worker()


def _folder_of_worker() -> str:
    """Return the block folder of Spark's Python processes, unless it outlives applications."""
    folder = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0]
    if Path(folder).name.startswith("blockmgr-"):
        return folder
    return ""


def mention(entry: Setting, value: object) -> None:
    """Log once that a setting has no effect, and why."""
    if entry.group is not WithoutEffect or entry.key in REFUSED:
        return
    if is_news("no effect", entry.key, "" if entry.secret else str(value)):
        logger.warning("Setting %s has no effect here: %s", entry.key, entry.doc)


def _check_lists(lists: Iterable[tuple[Setting, str, Any]]) -> None:
    """Refuse a column in two lists of one source, because the order of keys would decide."""
    named: dict[tuple[str, str], str] = {}
    for entry, word, parsed in lists:
        for column in entry.by_column(word, parsed):
            other = named.setdefault((entry.key, column), word)
            if other.lower() != word.lower():
                family = entry.key.removesuffix("*")
                raise InvalidInputError(
                    f"{family}{other} and {family}{word} both name {column!r}.",
                    hint="Name each column once.",
                    column=column,
                )


class Settings:
    """The settings in effect: parsed values of everything given, over the defaults."""

    def __init__(self, registry: Registry, layers: Iterable[Mapping[str, object]] = ()) -> None:
        """`layers` are ordered from weakest to strongest."""
        self._registry = registry
        self._values: dict[str, Any] = {}
        self.without_effect: dict[str, str] = {}
        """Settings of IndexTables for the JVM that were set and have no effect."""
        for layer in layers:
            lists: list[tuple[Setting, str, Any]] = []
            particular: list[tuple[Setting, str, Any]] = []
            for key, value in layer.items():
                if value is None:
                    continue
                entry, column, parsed = registry.parse(key, value)
                if entry.group is WithoutEffect:
                    self.without_effect[entry.key] = "<hidden>" if entry.secret else str(value)
                    mention(entry, value)
                elif parsed is None:
                    continue
                elif column is None:
                    self._values[entry.key] = parsed
                elif entry.lists(column, parsed):
                    lists.append((entry, column, parsed))
                else:
                    particular.append((entry, column, parsed))
            _check_lists(lists)
            for entry, column, parsed in (*lists, *particular):
                self._values[entry.key] = self._values.get(entry.key, {}) | entry.by_column(
                    column, parsed
                )

    def with_columns(self, rename: Callable[[str], str]) -> Settings:
        """Return the same settings with renamed columns in keys and values."""
        renamed = Settings(self._registry)
        for key, value in self._values.items():
            if key.endswith(".*"):
                entry = self._registry.settings[key]
                renamed._values[key] = dict(
                    renamed_entry(entry, c, each, rename) for c, each in value.items()
                )
            elif self._registry.settings[key].names_columns:
                weighed = weighed_name(rename)
                if isinstance(value, str):
                    renamed._values[key] = rename(value)
                else:
                    renamed._values[key] = tuple(map(weighed, value))
            else:
                renamed._values[key] = value
        return renamed

    def group(self, group: type[G]) -> G:
        """Return the settings of a group as its frozen struct."""
        values = {
            s.field_name: self._values[s.key] for s in list_settings(group) if s.key in self._values
        }
        return group(**values)

    def __getitem__(self, key: str) -> Any:
        entry, column = self._registry.find(key)
        value = self._values.get(entry.key, {} if entry.per_column else entry.default)
        if column is None:
            return value
        return value.get(column)

    def given(self) -> dict[str, Any]:
        """Return the explicitly given settings without secrets."""
        return {
            k: "<hidden>" if self._registry.settings[k].secret else v
            for k, v in self._values.items()
        }

    def __repr__(self) -> str:
        return f"Settings({self.given()!r})"

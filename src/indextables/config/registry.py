"""One typed registry of settings. A setting is a field of a frozen struct that some room receives: no dead keys.

A key is written `spark.indextables.<key>` in a Spark session and with or without that prefix everywhere else. Where the
same key is given in several places the order is: option > session > table > default.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar, TypeVar

from msgspec import Struct, StructMeta, field
from msgspec.structs import replace

from indextables.config.values import ValueType
from indextables.errors import LONGEST_NAME, InvalidInputError, UnknownOptionError, nearest, shown

PREFIX = "spark.indextables."


class Setting(Struct, frozen=True):
    """One setting: its key, how it is read, what it does. A key that ends in `.*` holds one value per column."""

    key: str
    type: ValueType
    default: Any
    doc: str
    secret: bool = False
    in_table: bool = False
    """Whether a table's metadata may carry it. Whoever wrote the table decides then, not whoever opens it: never a place,
    a credential, a class, threads or memory of the process that reads."""
    field_name: str = ""
    group: builtins.type = object

    @property
    def per_column(self) -> bool:
        """Whether the key is a family such as `indexing.typemap.<column>`."""
        return self.key.endswith(".*")


def setting(
    key: str,
    type: ValueType,  # noqa: A002
    default: Any,
    doc: str,
    *,
    secret: bool = False,
    in_table: bool = False,
) -> Any:
    """Declare a field of a group as a setting. Per-column families (`x.*`) have a mapping as their value.

    Only those declared with `in_table` may be kept in a table's metadata and are taken from there.
    """
    return Setting(key, type, default, doc, secret, in_table)


class _SettingsMeta(StructMeta):
    """Makes a group: a struct whose fields have the settings' defaults, and which remembers what they declared."""

    def __new__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any], **options: Any) -> _SettingsMeta:
        settings = {key: value for key, value in body.items() if isinstance(value, Setting)}
        defaults = {key: field(default_factory=dict) if s.per_column else s.default for key, s in settings.items()}
        return super().__new__(cls, name, bases, {**body, **defaults, "declared": settings}, **options)


class SettingsGroup(Struct, frozen=True, metaclass=_SettingsMeta):
    """The settings that one room receives. What it shows of itself holds no secret."""

    declared: ClassVar[Mapping[str, Setting]] = {}

    def __repr__(self) -> str:
        shown = (f"{name}={getattr(self, name)!r}" for name, s in self.declared.items() if not s.secret)
        return f"{type(self).__name__}({', '.join(shown)})"


def declared(group: type[SettingsGroup]) -> Iterator[Setting]:
    """The settings a group declares, in order."""
    return (replace(s, field_name=name, group=group) for name, s in group.declared.items())


G = TypeVar("G", bound=SettingsGroup)


class Registry:
    """Every setting of every group, by key."""

    def __init__(self, groups: Iterable[type[SettingsGroup]]) -> None:
        self.settings = {s.key: s for g in groups for s in declared(g)}
        self._lower = {key.lower(): key for key in self.settings if not key.endswith(".*")}
        self._families = {key[:-1].lower(): key for key in self.settings if key.endswith(".*")}

    def lookup(self, key: str) -> tuple[Setting, str | None] | None:
        """The setting a key names, and the column if it is a per-column key. Keys ignore case, columns do not."""
        if not isinstance(key, str):
            raise InvalidInputError(f"A setting is named by a text, not by {key!r}.", hint="Write it in quotes.")
        bare = bare_key(key)
        exact = self._lower.get(bare.lower())
        if exact is not None:
            return self.settings[exact], None
        for family, full in self._families.items():
            if bare.lower().startswith(family) and len(bare) > len(family):
                return self.settings[full], bare[len(family) :]
        return None

    def find(self, key: str) -> tuple[Setting, str | None]:
        """The setting a key names; one that does not exist is an error with the nearest that do."""
        match = self.lookup(key)
        if match is not None:
            return match
        bare = bare_key(key)
        near = nearest(bare.lower(), [*self._lower, *self._families], count=3)
        names = [self._lower.get(n) or self._families[n] for n in near]
        hint = f"Did you mean {' or '.join(repr(n) for n in names)}?" if names else None
        raise UnknownOptionError(
            f"There is no setting {shown(bare)}.", hint=hint, key=bare[:LONGEST_NAME], nearest=names
        )

    def parse(self, key: str, value: object) -> tuple[Setting, str | None, Any]:
        """A key and its text as a typed value, or an error that names key, value and what is allowed."""
        entry, column = self.find(key)
        try:
            return entry, column, entry.type.parse(value)
        except (ValueError, TypeError, OverflowError):
            text = "<hidden>" if entry.secret else shown(value)
            message = f"Setting {entry.key!r} cannot be {text}."
            hint = f"Allowed: {entry.type.allowed}."
            raise InvalidInputError(message, hint=hint, key=entry.key, allowed=entry.type.allowed) from None


def bare_key(key: str) -> str:
    """A key without the prefix that it may have."""
    return key[len(PREFIX) :] if key[: len(PREFIX)].lower() == PREFIX else key


class Settings:
    """The settings in force: typed values of everything that was given, over the defaults."""

    def __init__(self, registry: Registry, layers: Iterable[Mapping[str, object]] = ()) -> None:
        """`layers` come weakest first; later ones win."""
        self._registry = registry
        self._values: dict[str, Any] = {}
        for layer in layers:
            for key, value in layer.items():
                if value is None:
                    continue
                entry, column, parsed = registry.parse(key, value)
                if column is None:
                    self._values[entry.key] = parsed
                else:
                    self._values[entry.key] = {**self._values.get(entry.key, {}), column: parsed}

    def with_layer(self, layer: Mapping[str, object]) -> Settings:
        """The same settings with a stronger layer on top."""
        stronger = Settings(self._registry, [layer])
        merged = Settings(self._registry)
        merged._values = dict(self._values)
        for key, value in stronger._values.items():
            merged._values[key] = {**merged._values.get(key, {}), **value} if key.endswith(".*") else value
        return merged

    def group(self, group: type[G]) -> G:
        """One room's settings as its frozen struct."""
        values = {s.field_name: self._values[s.key] for s in declared(group) if s.key in self._values}
        return group(**values)

    def __getitem__(self, key: str) -> Any:
        entry, column = self._registry.find(key)
        value = self._values.get(entry.key, {} if entry.per_column else entry.default)
        return value if column is None else value.get(column)

    def given(self) -> dict[str, Any]:
        """What was set explicitly, secrets hidden."""
        return {k: "<hidden>" if self._registry.settings[k].secret else v for k, v in self._values.items()}

    def __repr__(self) -> str:
        return f"Settings({self.given()!r})"

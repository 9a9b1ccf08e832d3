"""The public face as text: every name that stays, with its signature. `make api` writes it anew."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import indextables
import indextables.spark
from indextables import AddAction, Table, errors
from indextables.model.report import Report

SNAPSHOT = Path(__file__).with_name("public_face.txt")


def face() -> str:
    """All of it, a line a name."""
    parts = {
        "indextables": _module(indextables),
        "Table": _class(Table),
        "AddAction": (f"  {name}" for name in AddAction.__struct_fields__),
        "errors": _errors(errors.IndexTablesError, 1),
        "reports, their fields in JSON": _reports(),
        "indextables.spark": _module(indextables.spark),
    }
    return "\n".join(line for title, lines in parts.items() for line in (f"{title}:", *lines, ""))


def _module(module: ModuleType) -> Iterator[str]:
    for name in sorted(module.__all__):
        found = getattr(module, name)
        yield f"  {name}{_signature(found) if inspect.isfunction(found) else ''}"


def _class(found: type) -> Iterator[str]:
    for name in sorted(n for n in dir(found) if not n.startswith("_")):
        member = inspect.getattr_static(found, name)
        if isinstance(member, property):
            yield f"  {name}"
        elif isinstance(member, classmethod):
            yield f"  classmethod {name}{_signature(member.__func__)}"
        else:
            yield f"  {name}{_signature(member)}"


class _Bare(str):
    """Text that is shown without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _signature(found: object) -> str:
    signature = inspect.signature(found)  # type: ignore[arg-type]
    given = [p for p in signature.parameters.values() if p.name not in ("self", "cls")]
    shown = [p.replace(annotation=_Bare(p.annotation), default=_default(p.default)) for p in given]
    return str(
        signature.replace(parameters=shown, return_annotation=_Bare(signature.return_annotation))
    )


def _default(value: object) -> object:
    if inspect.isfunction(value):
        return _Bare(value.__name__)
    return str(value) if isinstance(value, str) else value


def _errors(kind: type[errors.IndexTablesError], depth: int) -> Iterator[str]:
    yield f"{'  ' * depth}{kind.__name__} ({kind.kind})"
    for below in sorted(kind.__subclasses__(), key=lambda k: k.__name__):
        yield from _errors(below, depth + 1)


def _reports() -> Iterator[str]:
    seen = {name for name in dir(Table) if not name.startswith("_")}
    kinds = {
        str(inspect.signature(getattr(Table, name)).return_annotation)
        for name in seen
        if callable(getattr(Table, name))
    }
    for report in sorted(Report.__subclasses__(), key=lambda k: k.__name__):
        if report.__name__ in kinds:
            yield f"  {report.__name__}: {', '.join(f for f in report.__struct_fields__ if f not in report.hidden)}"


if __name__ == "__main__":
    SNAPSHOT.write_text(face(), encoding="utf-8")

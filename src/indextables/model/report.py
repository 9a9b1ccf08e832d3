"""Reports: the result of an operation as a value that prints as a table and displays as one in a
notebook.

A report is a frozen struct. Its plain fields are the summary, in order; fields with several items
(files, groups, findings) are its details, one table each. Running operations report their progress
step by step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from html import escape
from typing import Any, ClassVar, Protocol

from msgspec import Struct

_SHOWN = 20
"""Number of printed rows of a detail; `to_dict()` has all of them."""


class Progress(Protocol):
    """Called after every step. The steps of one operation count to the same total."""

    def __call__(self, done: int, total: int, what: str) -> None:
        """`done` of `total` steps are complete; `what` names the kind of step."""
        ...


def silent(done: int, total: int, what: str) -> None:
    """Ignore the progress."""


class Report(Struct, frozen=True):
    """Base of the reports. `hidden` names fields for programs that are not printed."""

    hidden: ClassVar[tuple[str, ...]] = ()

    def summary(self) -> dict[str, Any]:
        """Return the plain fields and their values."""
        return {name: value for name, value in self._fields().items() if not _is_detail(value)}

    def details(self) -> dict[str, list[dict[str, Any]]]:
        """Return the fields with several items, each as rows of plain values."""
        details = {name: value for name, value in self._fields().items() if _is_detail(value)}
        return {name: [_row(item) for item in value] for name, value in details.items()}

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain values."""
        return {**{name: plain(value) for name, value in self.summary().items()}, **self.details()}

    def __str__(self) -> str:
        width = max((len(name) for name in self.summary()), default=0)
        lines = [f"{name:<{width}}  {_text(value)}" for name, value in self.summary().items()]
        for name, rows in self.details().items():
            if rows:
                lines += ["", f"{name} ({len(rows)})", text_table(rows[:_SHOWN])]
            if len(rows) > _SHOWN:
                lines.append(f"... and {len(rows) - _SHOWN} more")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        parts = [html_table([{"": name, "value": value} for name, value in self.summary().items()])]
        for name, rows in self.details().items():
            if rows:
                parts.append(f"<p>{escape(name)} ({len(rows)})</p>{html_table(rows[:_SHOWN])}")
        return "".join(parts)

    def _fields(self) -> dict[str, Any]:
        return {
            name: getattr(self, name) for name in self.__struct_fields__ if name not in self.hidden
        }


def plain(value: Any) -> Any:
    """Return a value as JSON can represent it."""
    if isinstance(value, Report):
        return value.to_dict()
    if isinstance(value, Struct):
        if type(value).__str__ is not object.__str__:  # it has words of its own, as a predicate has
            return str(value)
        return {name: plain(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    if isinstance(value, datetime):
        return value.isoformat()
    return value


def pluralize(number: int, noun: str) -> str:
    """Format a count with its noun: 1 row, 2 rows."""
    if number == 1:
        return f"{number} {noun}"
    return f"{number} {noun}s"


def was(number: int) -> str:
    """Return the verb after a count."""
    if number == 1:
        return "was"
    return "were"


def text_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Format rows as text columns: numbers right-aligned, everything else left-aligned."""
    if not rows:
        return ""
    names = list(rows[0])
    cells = [[_text(row.get(name)) for name in names] for row in rows]
    widths = [max(len(name), *(len(row[i]) for row in cells)) for i, name in enumerate(names)]
    right = [all(_is_number(row.get(name)) for row in rows) for name in names]

    def line(texts: Sequence[str]) -> str:
        placed = (
            t.rjust(w) if r else t.ljust(w) for t, w, r in zip(texts, widths, right, strict=True)
        )
        return "  ".join(placed).rstrip()

    return "\n".join([line(names), line(["-" * width for width in widths]), *map(line, cells)])


def html_table(
    rows: Sequence[Mapping[str, Any]], *, markup: Mapping[str, Callable[[Any], str]] | None = None
) -> str:
    """Format rows as an HTML table. `markup` renders some columns; everything else is escaped."""
    names = list(rows[0]) if rows else []
    renderers = markup or {}
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    body = "".join(
        "<tr>" + "".join(f"<td>{_cell(row.get(n), renderers.get(n))}</td>" for n in names) + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(value: Any, render: Callable[[Any], str] | None) -> str:
    if render:
        return render(value)
    return escape(_text(value))


def _is_detail(value: Any) -> bool:
    return isinstance(value, list | tuple)


def _row(item: Any) -> dict[str, Any]:
    value = plain(item)
    if isinstance(value, dict):
        return value
    return {"value": value}


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        if value:
            return "true"
        return "false"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={_text(item)}" for key, item in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(_text, value))
    return str(value)


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))

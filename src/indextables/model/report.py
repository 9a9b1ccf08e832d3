"""Reports: values that print as a small table, turn into plain values for JSON, and show themselves in a notebook."""

from __future__ import annotations

import html
from collections.abc import Mapping
from dataclasses import fields
from typing import Any


class Report:
    """Base of report dataclasses: two columns, the name of a figure and its value."""

    def to_dict(self) -> dict[str, Any]:
        """The report as plain values."""
        return {f.name: _plain(getattr(self, f.name)) for f in fields(self)}  # type: ignore[arg-type]

    def __str__(self) -> str:
        rows = [(name.replace("_", " "), shown(value)) for name, value in self.to_dict().items()]
        width = max(len(name) for name, _ in rows)
        return "\n".join(f"{name:<{width}}  {value}" for name, value in rows)

    def _repr_html_(self) -> str:
        cells = (
            f"<tr><th style='text-align:left'>{html.escape(name.replace('_', ' '))}</th>"
            f"<td style='text-align:left'>{html.escape(shown(value))}</td></tr>"
            for name, value in self.to_dict().items()
        )
        return f"<table>{''.join(cells)}</table>"


def _plain(value: Any) -> Any:
    if isinstance(value, Report):
        return value.to_dict()
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, tuple | list | set | frozenset):
        return [_plain(v) for v in value]
    return value


def shown(value: Any) -> str:
    """A figure as a person reads it."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.3f}"
    if isinstance(value, list):
        return ", ".join(shown(v) for v in value) or "-"
    return str(value)

"""Whoever asks for help is told what each parameter is: the public face, walked."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any

import pytest

import indextables.spark
from indextables import Table, sql
from indextables.inspect.figures import Plots
from indextables.inspect.inspection import Inspection
from indextables.table import verify_table


def _functions() -> Iterator[tuple[str, Any]]:
    """Every public function and method, by its full name."""
    yield "indextables.sql", sql
    yield "indextables.table.verify_table", verify_table
    for name in indextables.spark.__all__:
        yield f"indextables.spark.{name}", getattr(indextables.spark, name)
    for kind in (Table, Inspection, Plots):
        for name in (name for name in dir(kind) if not name.startswith("_")):
            member = inspect.getattr_static(kind, name)
            yield f"{kind.__name__}.{name}", getattr(member, "__func__", member)


FACE = dict(_functions())


def named_in(text: str) -> set[str]:
    """The parameters that a docstring describes: in its `Args` section, or between backticks
    (`txn=(app_id, version)`).
    """
    _, _, section = text.partition("\nArgs:\n")
    arguments = re.findall(r"^    (\w+): ", section.partition("\n\n")[0], re.MULTILINE)
    return {part.partition("=")[0] for part in text.split("`")[1::2]} | {*arguments}


@pytest.mark.parametrize("name", FACE)
def test_every_parameter_is_named_in_its_docstring(name: str) -> None:
    member = FACE[name]
    text = inspect.getdoc(member.fget if isinstance(member, property) else member)
    assert text, f"{name} has no docstring"
    if inspect.isfunction(member):
        parameters = set(inspect.signature(member).parameters) - {"self", "cls"}
        assert parameters <= named_in(text), (
            f"{name} does not say what {sorted(parameters - named_in(text))} is"
        )


def test_a_parameter_that_is_not_named_is_noticed() -> None:
    assert named_in("Open `path`; `txn=(app_id, version)` is kept, limit is not.") == {
        "path",
        "txn",
    }

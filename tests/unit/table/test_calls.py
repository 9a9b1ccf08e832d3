"""Public functions that are called with arguments which do not fit: the error shows how to write
the call.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from indextables import Table, sql
from indextables.errors import InvalidInputError
from indextables.inspect.figures import Plots
from indextables.inspect.inspection import Inspection
from indextables.log.transaction import Transaction
from indextables.model.calls import checked_call
from indextables.operations.alter import Alteration
from indextables.table.administration import Administration

ANY_TABLE: Any = Table
any_sql: Any = sql
SCHEMA = pa.schema([("id", pa.int64())])


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table.create(str(tmp_path / "t"), schema=SCHEMA)


@pytest.mark.parametrize(
    ("call", "message", "hint"),
    [
        (
            lambda t: ANY_TABLE.create(t.path, SCHEMA),
            "takes 1 argument by position, not 2",
            "Table.create(..., schema=...)",
        ),
        (
            lambda t: ANY_TABLE.create(t.path),
            "Table.create needs schema",
            "Parameters: path, schema",
        ),
        (lambda t: ANY_TABLE.open(), "Table.open needs path", "Parameters: path"),
        (lambda t: t.search("*", 5), "takes 1 argument by position, not 2", "By name: "),
        (lambda t: t.search("*", limt=5), "no parameter 'limt'", "Did you mean 'limit'?"),
        (lambda t: t.count("x"), "takes no arguments by position, not 1", "query=..."),
        (lambda t: t.merge("id = 1"), "takes no arguments by position", "By name: "),
        (lambda t: t.refresh(1), "Table.refresh takes no arguments, not 1", "Known: []"),
        (lambda t: t.inspect.analyze("id"), "Inspection.analyze needs ", "Parameters: "),
        (lambda t: t.alter.add_column(), "add_column needs ", "Parameters: "),
        (lambda t: any_sql(), "sql needs text", "Parameters: text, options"),
    ],
)
def test_the_error_names_what_does_not_fit_and_shows_the_call(
    table: Table, call: Callable[[Any], Any], message: str, hint: str
) -> None:
    with pytest.raises(InvalidInputError) as refused:
        call(table)
    assert message in refused.value.message and hint in refused.value.hint, str(refused.value)


def public_functions() -> Iterator[Any]:
    yield sql
    for cls in (Table, Alteration, Inspection, Administration, Plots, Transaction):
        for name, member in inspect.getmembers(cls, callable):
            if not name.startswith("_") and inspect.isroutine(member):
                yield pytest.param(member, id=f"{cls.__name__}.{name}")


@pytest.mark.parametrize("function", list(public_functions()))
def test_every_public_function_explains_a_wrong_call(function: Callable[..., Any]) -> None:
    with pytest.raises(InvalidInputError, match="no parameter 'nothing_like_it'"):
        function(*[None] * needed(function), nothing_like_it=1)


def needed(function: Callable[..., Any]) -> int:
    """How many arguments a function needs by position, its object included."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(
        p.kind in kinds and p.default is p.empty
        for p in inspect.signature(function).parameters.values()
    )


def test_an_error_of_types_inside_a_function_stays_what_it_is() -> None:
    @checked_call
    def add(one: int, other: int) -> int:
        return one + other

    with pytest.raises(TypeError, match=r"unsupported operand"):
        add(1, None)  # type: ignore[arg-type]
    assert add(1, other=2) == 3

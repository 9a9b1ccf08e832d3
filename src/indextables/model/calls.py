"""Errors for calls of public functions with wrong arguments that show the right call.

    @checked_calls
    class Table: ...

Python's own error for `Table.create(path, schema)` counts arguments; this one names the parameter.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from indextables.errors import InvalidInputError, nearest

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C", bound=type)
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


if TYPE_CHECKING:
    class_only = classmethod
else:

    class class_only(classmethod):  # noqa: N801 - used as a decorator
        """A class method that instances do not have: `t.drop("column")` must not delete a table of
        that name.
        """

        def __get__(self, instance: object, owner: type | None = None) -> Any:
            """Return the method of the class; AttributeError for an instance."""
            if instance is not None:
                name = self.__func__.__qualname__
                raise AttributeError(f"{name} is called on the class, not on an instance.")
            return super().__get__(instance, owner)


def checked_calls(cls: C) -> C:
    """Class decorator: wrong arguments of public methods raise an error with a hint."""
    for name, member in list(vars(cls).items()):
        if name.startswith("_"):
            continue
        if inspect.isfunction(member):
            setattr(cls, name, checked_call(member))
        elif isinstance(member, classmethod):
            setattr(cls, name, type(member)(checked_call(member.__func__)))
    return cls


def checked_call(function: Callable[P, R]) -> Callable[P, R]:
    """Function decorator: wrong arguments raise an error with a hint."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except TypeError as error:
            # An error of the call itself has no frame of the function.
            if error.__traceback__ is None or error.__traceback__.tb_next is not None:
                raise
            raise _wrong_call(function, args, kwargs, error) from None

    return call


def _wrong_call(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], error: TypeError
) -> InvalidInputError:
    """Return the error for arguments that do not match the parameters of a function."""
    parameters = inspect.signature(function).parameters
    name = function.__qualname__
    is_method = next(iter(parameters), "") in ("self", "cls")
    own = list(parameters.values())[is_method:]
    by_position = [p.name for p in own if p.kind in _POSITIONAL]
    by_name = [p.name for p in own if p.kind is inspect.Parameter.KEYWORD_ONLY]
    extra = len(args) - is_method - len(by_position)
    unknown = next((key for key in kwargs if key not in parameters), None)
    known = [p.name for p in own]
    missing = [
        p.name
        for p in own
        if p.default is p.empty and p.name not in kwargs and p.kind in _POSITIONAL
    ]
    if extra < 0:
        missing = missing[max(0, len(args) - is_method) :]
    else:
        missing = []
    missing += [
        p.name for p in own if p.default is p.empty and p.name in by_name and p.name not in kwargs
    ]
    call = ", ".join(
        ["...", *(f"{p}=..." for p in (missing or by_name[:1]) if p not in by_position)]
    )
    if extra > 0 and by_name:
        message = f"{name} takes {_count_arguments(len(by_position))} by position, not {len(args) - is_method}."
        hint = f"Give the others by name: {name}({call}). By name: {', '.join(by_name)}."
    elif extra > 0:
        message, hint = (
            f"{name} takes {_count_arguments(len(by_position))}, not {len(args) - is_method}.",
            f"Known: {known}.",
        )
    elif unknown is not None:
        if OTHER_NAMES.get(unknown) in known:
            near = [OTHER_NAMES[unknown]]
        else:
            near = nearest(unknown, known)
        message = f"{name} has no parameter {unknown!r}."
        hint = (
            f"{f'Did you mean {near[0]!r}? ' if near else ''}Known: {', '.join(known) or 'none'}."
        )
    elif missing:
        message = f"{name} needs {' and '.join(missing)}."
        hint = f"Parameters: {', '.join(known)}."
    else:
        message, hint = (
            f"{name} cannot be called so: {error}.",
            f"Parameters: {', '.join(known) or 'none'}.",
        )
    return InvalidInputError(message, hint=hint, function=name)


OTHER_NAMES = {
    **dict.fromkeys(("size", "k", "n", "top", "rows"), "limit"),
    **dict.fromkeys(("filter", "filters", "predicate", "condition"), "where"),
    **dict.fromkeys(("sort", "sort_by", "sort_values"), "order_by"),
    **dict.fromkeys(("fields", "select", "_source"), "columns"),
    **dict.fromkeys(("partition_columns", "partitioning", "partitionBy"), "partition_by"),
    **dict.fromkeys(("key", "keys", "by"), "on"),
    **dict.fromkeys(("q", "match"), "query"),
    "from_": "offset",
}
"""Parameters of other libraries, and the parameter that has the meaning here."""


def _count_arguments(number: int) -> str:
    return f"{number or 'no'} argument{'' if number == 1 else 's'}"

"""Help of every verb: it fits a screen and has one example, which is a call that the verb
understands.
"""

from __future__ import annotations

import inspect
import shlex

import pytest
from typer.main import get_command

from indextables import Table
from indextables.cli.app import VERBS, app
from tests.cli.calls import Call
from tools.command_line import help_of

SCREEN = 40
"""Lines of a screen; its columns are the 100 of `help_of`."""


def example_of(verb: str) -> list[str]:
    """The words of the example in the help of a verb, without `indextables`; a pipe or redirection
    ends them.
    """
    lines = [
        line.strip() for line in help_of(verb).splitlines() if line.strip().startswith("Example:")
    ]
    assert len(lines) == 1
    words = shlex.split(lines[0])
    assert words[:3] == ["Example:", "indextables", verb]
    end = next((place for place, word in enumerate(words) if word in ("|", ">")), len(words))
    return words[2:end]


@pytest.mark.parametrize("verb", VERBS)
def test_help_fits_a_screen_and_has_one_example(verb: str) -> None:
    shown = help_of(verb)
    assert len(shown.splitlines()) <= SCREEN
    assert shown.count("Example:") == 1
    assert sum("indextables " in line for line in shown.splitlines()) == 2, (
        "the usage and the example"
    )


@pytest.mark.parametrize("verb", VERBS)
def test_the_example_is_a_call_that_the_verb_understands(verb: str) -> None:
    name, *words = example_of(verb)
    command = get_command(app).commands[name]  # type: ignore[attr-defined]
    with command.make_context(name, words):
        pass


METHODS = {
    verb: verb.replace("-", "_")
    for verb in VERBS
    if callable(getattr(Table, verb.replace("-", "_"), None))
}
"""The verbs that are methods of `Table`."""
OTHER_NAMES = {
    "format": "source_format",
    "options": "option",
    "user_metadata": "note",
    "partition_columns": "partition_by",
    "exist_ok": "if_not_exists",
    "from_version": "first",
    "to_version": "last",
    "set": "assignments",
    "data": "files",
    "schema": "like",
}
"""Parameters of methods that an option has another name for."""
ONLY_PYTHON = {
    "append": {"txn"},
    "overwrite": {"dynamic_partitions", "overwrite_schema"},
    "search": {"score", "search_after", "highlight"},
    "purge": {"delete"},
    "expire": {"now"},
}
"""Parameters that a verb leaves out: scores are always shown, and pages, callables and clocks are
for programs.
"""
CALLBACKS = {"self", "cls", "progress", "execute"}


@pytest.mark.parametrize("verb", METHODS)
def test_a_verb_has_the_parameters_and_defaults_of_its_method(verb: str) -> None:
    """All but one: a terminal shows the ten best matches, and `--all` shows every match."""
    method = inspect.signature(getattr(Table, METHODS[verb])).parameters
    command = get_command(app).commands[verb]  # type: ignore[attr-defined]
    options = {option.name: option.default for option in command.params}
    shared = options.keys() & method.keys()
    differing = {
        name for name in shared if (options[name] or None) != (plain_default(method[name]) or None)
    }
    assert differing == ({"limit"} if verb == "search" else set())
    left_out = {
        name
        for name in method
        if OTHER_NAMES.get(name, name) not in options and name not in options
    }
    assert left_out - CALLBACKS == ONLY_PYTHON.get(verb, set())


def plain_default(parameter: inspect.Parameter) -> object:
    return None if parameter.default is inspect.Parameter.empty else parameter.default


def test_an_error_is_one_paragraph(call: Call, tmp_path: object) -> None:
    for words in (
        ["count", f"{tmp_path}/none"],
        ["search", f"{tmp_path}/none", "x"],
        ["merge", f"{tmp_path}/none"],
    ):
        shown = call(*words, code=3).err.splitlines()
        assert [line.split(":")[0] for line in shown] == ["Error", "Hint"]

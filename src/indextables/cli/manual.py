"""The manual page of the command line, as `man` reads it, made from the verbs themselves: it cannot be out of date."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any

from indextables.cli.output import meanings
from indextables.config.release import VERSION

_MARKUP = re.compile(r"\[/?[a-z ]+\]")


def manual(group: Any) -> str:
    """The page of a group of verbs, in the roff of man pages."""
    lines = [
        f'.TH INDEXTABLES 1 "" "indextables {VERSION}" "User Commands"',
        ".SH NAME",
        "indextables \\- tables of full\\-text search indexes, on disk and on object stores",
        ".SH SYNOPSIS",
        ".B indextables",
        "\\fIVERB\\fR \\fIPATH\\fR [\\fIOPTIONS\\fR]",
        ".SH DESCRIPTION",
        _roff(inspect.cleandoc(group.help or "")),
        ".PP",
        "Every verb has \\fB\\-\\-help\\fR with an example, and \\fB\\-\\-json\\fR for programs.",
        ".SH VERBS",
    ]
    for name in group.commands:
        lines += _verb(name, group.commands[name])
    lines += [".SH EXIT STATUS"]
    for row in meanings():
        lines += [".TP", f".B {row['code']}", _roff(str(row["meaning"]))]
    return "\n".join(lines) + "\n"


def _verb(name: str, command: Any) -> Iterator[str]:
    parameters = [p for p in command.params if not getattr(p, "hidden", False)]
    arguments = " ".join(f"\\fI{_value(p)}\\fR" for p in parameters if p.param_type_name == "argument")
    yield f".SS {_roff(name)} {arguments}"
    yield _roff(inspect.cleandoc(command.help or "").replace("\n\n", "\n"))
    for parameter in parameters:
        if parameter.param_type_name == "option":
            names = ", ".join(f"\\fB{_roff(n)}\\fR" for n in (*parameter.opts, *parameter.secondary_opts))
            value = "" if parameter.is_flag else f" \\fI{_value(parameter)}\\fR"
            yield ".TP"
            yield f"{names}{value}"
            yield _roff(parameter.help or "")
    examples = [line.strip() for line in (command.epilog or "").splitlines() if line.strip().startswith("indextables ")]
    for example in examples:
        yield ".PP"
        yield ".nf"
        yield _roff(example)
        yield ".fi"


def _value(parameter: Any) -> str:
    return _roff(parameter.metavar or str(parameter.name).upper())


def _roff(text: str) -> str:
    """A text as roff has it: nothing in it is a command."""
    plain = _MARKUP.sub("", text).replace("\\", "\\e").replace("-", "\\-")
    return "\n".join(f"\\&{line}" if line.startswith((".", "'")) else line for line in plain.splitlines())

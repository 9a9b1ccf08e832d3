"""Output for a terminal, for pipes and as JSON, and the exit codes of errors.

Rows as JSON are a list of objects, one row per line; a report is an object. Times are ISO text,
decimals text, binary base64; non-finite numbers are null. Errors go to stderr, as `{"error":
{...}}` with --json. `DATE` and `TIME` recognise times in files without types.
"""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from typing import Any

import msgspec
import pyarrow as pa
import typer

from indextables import errors
from indextables.metrics import METRICS
from indextables.model.report import Report, plain, pluralize, was


def is_terminal() -> bool:
    """Return whether stdout is a terminal."""
    return sys.stdout.isatty()


def is_closed() -> bool:
    """Return whether the reader of the output has closed it."""
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))


def drop() -> None:
    """Discard buffered and further output."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def report_interruption(*, as_json: bool) -> None:
    """Print one line for a command that Ctrl-C ended, with what it had committed."""
    commits = [
        sample
        for sample in METRICS.samples()
        if sample.name.endswith("commits_total") and sample.value
    ]
    done = [
        f"{pluralize(int(sample.value), 'version')} of {sample.labels['table']}"
        for sample in commits
    ]
    if done:
        message = f"Interrupted after {' and '.join(done)} {was(sum(int(s.value) for s in commits))} committed."
    else:
        message = "Interrupted before a commit was completed."
    if as_json:
        hint = "`indextables history PATH` lists what is in the table."
        error(
            {
                "kind": "interrupted",
                "message": message,
                "hint": hint,
                "context": {"committed": done},
            },
            as_json=True,
        )
    else:
        note(message)


def has_colour() -> bool:
    """Return whether to print colour: on a terminal, unless NO_COLOR is set."""
    return is_terminal() and not os.environ.get("NO_COLOR")


def note(text: str) -> None:
    """Print a note on stderr, which programs that read stdout do not see."""
    typer.echo(text, err=True)


def rows(table: pa.Table, *, as_json: bool, header: bool = True) -> None:
    """Print the rows of an Arrow table."""
    batches(table.schema.names, table.to_batches(), as_json=as_json, header=header)


def batches(
    names: list[str], parts: Iterable[pa.RecordBatch], *, as_json: bool, header: bool = True
) -> None:
    """Print rows as they arrive: a JSON list, a table on a terminal, or tab-separated lines."""
    rows = _rows(parts)
    if as_json:
        _json_list(rows)
    elif is_terminal():
        _terminal().rows(names, rows)
    else:
        if header:
            typer.echo("\t".join(names))
        for row in rows:
            typer.echo("\t".join(_cell(row[name]) for name in names))


def report(outcome: Report, *, as_json: bool) -> None:
    """Print a report."""
    if as_json:
        value(outcome.to_dict(), as_json=True)
    elif is_terminal():
        _terminal().report(outcome)
    else:
        typer.echo(str(outcome))


def value(figures: Mapping[str, Any], *, as_json: bool) -> None:
    """Print named values: an object, or lines of names and values."""
    if as_json:
        typer.echo(msgspec.json.format(_encode(plain(figures)), indent=2).decode())
        return
    width = max(map(len, figures), default=0)
    for name, item in figures.items():
        typer.echo(f"{name:<{width}}  {text_of(item)}".rstrip())


def error(problem: Mapping[str, Any], *, as_json: bool) -> None:
    """Print an error and its hint."""
    if as_json:
        typer.echo(_encode({"error": problem}).decode(), err=True)
        return
    colour = sys.stderr.isatty() and not os.environ.get("NO_COLOR")
    for name, text, style in (
        ("Error", problem["message"], "red"),
        ("Hint", problem["hint"], "yellow"),
    ):
        if colour:
            label = typer.style(f"{name}:", fg=style, bold=True)
        else:
            label = f"{name}:"
        typer.echo(f"{label} {text.rstrip()}", err=True)


def _rows(parts: Iterable[pa.RecordBatch]) -> Iterator[dict[str, Any]]:
    for part in parts:
        yield from part.to_pylist(maps_as_pydicts="lossy")


def _json_list(rows: Iterator[dict[str, Any]]) -> None:
    before = "["
    for row in rows:
        typer.echo(f"{before}\n{_encode(row).decode()}", nl=False)
        before = ","
    typer.echo("[]" if before == "[" else "\n]")


def _encode(value: Any) -> bytes:
    return msgspec.json.encode(value, enc_hook=str)


def _cell(item: Any) -> str:
    text = text_of(item)
    return text.replace("\\", "\\\\").replace("\t", "\\t").replace("\r", "\\r").replace("\n", "\\n")


def text_of(item: Any) -> str:
    """Return a value as text for tab-separated lines."""
    if item is None:
        return ""
    if isinstance(item, bool):
        if item:
            return "true"
        return "false"
    if isinstance(item, Mapping):
        return ", ".join(f"{key}={text_of(inner)}" for key, inner in item.items())
    if isinstance(item, list | tuple):
        return ", ".join(map(text_of, item))
    if isinstance(item, bytes):
        return item.hex()
    return str(item)


def _terminal() -> Any:
    """Load the module that draws with rich."""
    return import_module("indextables.cli.terminal")


FAILED, USAGE, CORRUPT, NOT_PROVED, INTERRUPTED = 1, 2, 8, 13, 130
CODES: dict[type[errors.IndexTablesError], int] = {
    errors.IndexTablesError: FAILED,
    errors.InvalidInputError: USAGE,
    errors.NotFoundError: 3,
    errors.AlreadyExistsError: 4,
    errors.ConflictError: 5,
    errors.CommitUnknownError: 6,
    errors.UnsupportedError: 7,
    errors.CorruptTableError: CORRUPT,
    errors.RefusedError: 9,
    errors.StorageError: 10,
    errors.CleanupError: 11,
    errors.CheckpointError: 12,
    errors.SourceChangedError: 14,
}
_MEANINGS = {
    0: "done",
    FAILED: "something went wrong that no other code names",
    USAGE: "the request is wrong: a misspelt option, a query that cannot be parsed, data that does not fit",
    3: "there is no such table, version or file",
    4: "there is a table already",
    5: "another writer was first; nothing was committed",
    6: "it is not known whether the commit landed; look into the history",
    7: "the table needs another release",
    CORRUPT: "the table is damaged, or `verify` found something",
    9: "the request is unsafe, or was not confirmed; nothing was changed",
    10: "the store failed",
    11: "the commit landed, but cleaning up after it failed",
    12: "a checkpoint could not be written; the table is what its versions say",
    NOT_PROVED: "`erase` is done, and files that retention or a tag keeps still hold the rows",
    14: "a file of a companion's source is missing or was replaced; open the companion again",
    INTERRUPTED: "interrupted",
}


def code_of(error: errors.IndexTablesError) -> int:
    """Return the exit code of an error: that of its nearest base class."""
    return next(CODES[kind] for kind in type(error).__mro__ if kind in CODES)


def meanings() -> list[dict[str, object]]:
    """Return every exit code with its meaning and its errors."""
    kinds: dict[int, list[str]] = {}
    for kind, code in CODES.items():
        kinds.setdefault(code, []).append(kind.__name__)
    return [
        {"code": c, "meaning": text, "errors": ", ".join(kinds.get(c, []))}
        for c, text in _MEANINGS.items()
    ]


DATE = r"\d{4}-\d\d-\d\d"
TIME = DATE + r"[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?"

"""Before anything is destroyed: the plan is shown, and a person agrees."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, Protocol, TypeVar

import typer

from indextables.cli import output, progress
from indextables.errors import RefusedError
from indextables.model.report import Progress, Report, silent

R = TypeVar("R", bound=Report, covariant=True)


class Act(Protocol[R]):
    """A verb that can say what it would do."""

    def __call__(self, *, dry_run: bool, progress: Progress) -> R:
        """Do it, or only say what it would do."""
        ...


def carried_out(title: str, act: Act[R], *, dry_run: bool, as_json: bool) -> R:
    """Do something that destroys nothing, or plan it, and print the report."""
    with progress.shown(title) as told:
        report = act(dry_run=dry_run, progress=told)
    output.report(report, as_json=as_json)
    return report


def confirmed(title: str, act: Act[R], *, dry_run: bool, yes: bool, as_json: bool) -> R:
    """Do something that cannot be taken back, after its plan was shown and agreed to."""
    if not dry_run and not yes:
        planned: Report = act(dry_run=True, progress=silent)
        agree(str(planned), f"{title}?", plan=planned.to_dict(), as_json=as_json)
    return carried_out(title, act, dry_run=dry_run, as_json=as_json)


def agree(shown: str, question: str, *, plan: Mapping[str, Any], as_json: bool) -> None:
    """Show a plan on stderr and ask. Where nobody can answer it is refused, with the plan shown: as JSON, in the error."""
    asked = sys.stdin.isatty() and sys.stderr.isatty()
    if asked or not as_json:
        output.note(shown)
    if not asked:
        message = "Nobody is there to confirm this; nothing was changed."
        raise RefusedError(message, hint="Pass --yes if you are sure.", plan=plan)
    if not _confirmed(question):
        raise RefusedError("Not confirmed; nothing was changed.", hint="Pass --yes to go on without being asked.")


def _confirmed(question: str) -> bool:
    try:
        return typer.confirm(question, err=True)
    except typer.Abort:  # Ctrl-C or the end of the input is an answer, too
        return False

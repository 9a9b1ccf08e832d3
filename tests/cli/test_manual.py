"""The manual page and the completion of a shell: every verb and option is there, and `man` has
nothing to say against it.
"""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from indextables.cli.app import VERBS
from tests.cli.calls import COMMAND, Call


def test_every_verb_is_in_the_manual(call: Call) -> None:
    page = call("man").out
    verbs = list(VERBS)
    assert [name for name in verbs if f".SS {name.replace('-', chr(92) + '-')} " not in page] == []
    assert (
        "\\fB\\-\\-follow\\fR" in page
        and page.startswith(".TH INDEXTABLES 1")
        and ".SH EXIT STATUS" in page
    )


@pytest.mark.skipif(shutil.which("man") is None, reason="man is not installed")
def test_man_reads_the_page(call: Call) -> None:
    shown = subprocess.run(
        ["man", "-l", "-"], input=call("man").out, capture_output=True, text=True, check=True
    )
    assert "--continuation" in shown.stdout.replace("‐", "-") and "cannot" not in shown.stderr


def test_a_shell_completes_verbs_and_options() -> None:
    def completed(words: str, place: int) -> list[str]:
        environment = {
            **os.environ,
            "_INDEXTABLES_COMPLETE": "complete_bash",
            "COMP_WORDS": words,
            "COMP_CWORD": str(place),
        }
        shown = subprocess.run(
            [COMMAND], env=environment, capture_output=True, text=True, check=False
        )
        return shown.stdout.split()

    assert set(completed("indextables se", 1)) == {"search", "settings", "serve"}
    assert "--follow" in completed("indextables append --fo", 2)

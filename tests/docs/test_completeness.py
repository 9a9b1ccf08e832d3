"""Nothing public is undocumented: settings, errors, statements, verbs and commands; and rules name
tests that exist.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path

import pytest

import indextables
import indextables.spark as its
from indextables import Table, errors
from indextables.commands.parser import STATEMENTS
from indextables.config import REGISTRY, is_setting
from indextables.model.report import Report
from indextables.spark.extension import JVM_EXTENSION
from indextables.spark.source.datasource import FORMATS
from tests.support.code_blocks import blocks_of
from tools.command_line import commands, help_of
from tools.reference import MARK, PARTS, REPORTS, with_parts

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def page(name: str) -> str:
    """A page as it is built."""
    return with_parts((DOCS / name).read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def cli() -> str:
    return page("reference/cli.md")


def test_generated_parts_are_on_their_pages_as_they_are_now() -> None:
    pages = [path for path in DOCS.rglob("*.md") if MARK.search(path.read_text("utf-8"))]
    stale = [
        path.name
        for path in pages
        if with_parts(path.read_text("utf-8")) != path.read_text("utf-8")
    ]
    assert len(pages) >= 6 and stale == [], "run `make api`"


def test_every_generated_part_is_on_a_page() -> None:
    used = {
        name
        for path in DOCS.rglob("*.md")
        for name in MARK.findall(path.read_text(encoding="utf-8"))
    }
    assert used == set(PARTS)


def test_every_setting_is_documented() -> None:
    text = page("reference/settings.md")
    assert [key for key in REGISTRY.settings if f"| `{key}` |" not in text] == []
    assert [s.key for s in REGISTRY.settings.values() if not s.doc.strip().endswith(".")] == []


def test_settings_that_pages_name_exist() -> None:
    groups = "aws|azure|gcp|storage|indexing|merge|mergeOnWrite|purge|purgeOnWrite|read|write|state|checkpoint|cache|cleanup"
    named = re.compile(rf"`((?:{groups})\.[A-Za-z.]+?)(?:\.<column>)?`")
    for path in [ROOT / "README.md", *DOCS.rglob("*.md")]:
        for key in named.findall(path.read_text(encoding="utf-8")):
            assert is_setting(key) or is_setting(f"{key}.column"), f"{path.name} names {key}"


def test_every_error_is_documented() -> None:
    text = page("reference/errors.md")
    found = [
        c
        for _, c in inspect.getmembers(errors, inspect.isclass)
        if issubclass(c, errors.IndexTablesError)
    ]
    assert [
        c.__name__ for c in found if f"| `{c.__name__}` |" not in text or f"`{c.kind}`" not in text
    ] == []


def test_every_statement_is_documented_and_run_by_the_page() -> None:
    text = page("reference/sql.md")
    runs = "\n".join(
        block.text
        for block in blocks_of(DOCS / "reference/sql.md")
        if block.language in ("sql", "python")
    )
    offered = [lead for lead, kind in STATEMENTS.items() if kind.offered]
    assert [lead for lead in offered if f"### {lead}\n" not in text or lead not in runs] == []
    assert [
        lead for lead in STATEMENTS if lead not in offered and f"| `{lead}` |" not in text
    ] == []


def test_every_command_is_documented_with_an_example(cli: str) -> None:
    assert [name for name in commands() if f"### {name}\n" not in cli] == []
    assert [name for name in commands() if "Example:" not in help_of(name)] == []


def test_every_verb_and_function_is_documented() -> None:
    text = page("reference/api.md")
    verbs = [name for name in dir(Table) if not name.startswith("_")]
    assert [
        name for name in verbs if f"#### `{name}`" not in text and f"#### `t.{name}`" not in text
    ] == []
    spark = page("reference/spark.md")
    assert [name for name in its.__all__ if f"### `{name}`" not in spark] == []


def test_the_names_that_jobs_of_the_jvm_engine_have_are_on_its_page() -> None:
    text = (DOCS / "how-to/upgrade.md").read_text(encoding="utf-8")
    functions = (
        "indextables_histogram",
        "indextables_date_histogram",
        "indextables_range",
        "_indexall indexquery",
    )
    named = (*FORMATS[1:], JVM_EXTENSION, *functions)
    assert [name for name in named if name not in text] == []


FUNCTIONS = [
    *(
        (f"indextables.{name}", getattr(indextables, name))
        for name in ("open_table", "sql", "write_table")
    ),
    *((f"its.{name}", getattr(its, name)) for name in its.__all__),
]


@pytest.mark.parametrize(("name", "function"), FUNCTIONS, ids=[name for name, _ in FUNCTIONS])
def test_every_parameter_of_a_public_function_has_a_line(
    name: str, function: Callable[..., object]
) -> None:
    text = inspect.getdoc(function) or ""
    arguments = text.partition("Args:\n")[2].partition("\n\n")[0]
    documented = re.findall(r"^    (\w+): \S", arguments, re.MULTILINE)
    assert documented == [
        parameter for parameter in inspect.signature(function).parameters if parameter != "cls"
    ]


def test_every_report_that_a_verb_returns_is_documented() -> None:
    returned = {
        str(inspect.signature(m).return_annotation)
        for _, m in inspect.getmembers(Table, inspect.isfunction)
    }
    named = {name for name in returned if name.endswith("Report")}
    assert named - {cls.__name__ for cls in REPORTS} == set()
    assert all(issubclass(cls, Report) for cls in REPORTS)


RULES = re.findall(
    r"^\| ([A-Z]\d+) \|.*?\| `(tests/[^`]+)` \|$",
    (DOCS / "reference/protocol.md").read_text("utf-8"),
    re.M,
)


@pytest.mark.parametrize(("rule", "held_by"), RULES, ids=[rule for rule, _ in RULES])
def test_a_rule_of_the_protocol_names_a_test_that_exists(rule: str, held_by: str) -> None:
    file, _, name = held_by.partition("::")
    assert f"def {name or 'test_'}" in (ROOT / file).read_text(encoding="utf-8"), rule


def test_the_rules_are_numbered_without_holes() -> None:
    by_letter: dict[str, list[int]] = {}
    for rule, _ in RULES:
        by_letter.setdefault(rule[0], []).append(int(rule[1:]))
    assert sum(map(len, by_letter.values())) > 40
    assert all(numbers == list(range(1, len(numbers) + 1)) for numbers in by_letter.values())

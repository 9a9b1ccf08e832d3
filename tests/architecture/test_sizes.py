"""Layout rules: one meaning per class name, module names recur only with a reason, no style count
rises.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from tools.code_style import compare_with_baseline

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "indextables"
SOURCES = sorted((ROOT / "src").rglob("*.py"))
MAX_IGNORED_TYPES = 8
DRAWERS = {"utils", "util", "helpers", "helper", "common", "misc", "manager", "managers"}
RECURRING = {
    "cache": "what a log's process remembers; what a machine keeps of splits",
    "merge": "of a table's splits; of two splits",
    "parser": "of predicates; of statements; of queries",
    "reader": "of a split; of a data source",
    "report": "what verbs return; the page of a table",
    "search": "of a split; of a table; the verb of the command line",
    "spec": "of a store; of an aggregation",
    "state": "a state as a value, on the wire, its settings; of an aggregation",
    "tree": "of predicates; of queries",
    "upkeep": "settings, statements, verbs and Spark jobs of the room of that name",
    "values": "of settings; as text; of an index",
    "writer": "of a split; of a data source",
}
"""Module names that occur in several rooms, and what the room makes of each."""


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def dotted(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__")


@cache
def trees() -> dict[Path, ast.Module]:
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in SOURCES}


def rooms() -> Iterator[Path]:
    return (p for p in SOURCES if p.is_relative_to(PACKAGE) and p.name != "__init__.py")


def test_a_class_name_stands_for_one_thing() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path, tree in trees().items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                places[node.name].append(name(path))
    assert {known: where for known, where in places.items() if len(where) > 1} == {}


def test_a_module_name_recurs_only_with_a_reason() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path in rooms():
        places[path.stem].append(dotted(path))
    recurring = {known: where for known, where in places.items() if len(where) > 1}
    assert {known: where for known, where in recurring.items() if known not in RECURRING} == {}
    assert set(RECURRING) <= set(recurring), "a reason for a name that does not recur any more"


@pytest.mark.parametrize("path", SOURCES, ids=name)
def test_no_room_is_a_drawer(path: Path) -> None:
    parts = {p.removesuffix(".py") for p in path.relative_to(ROOT / "src").parts}
    assert not parts & DRAWERS, f"{name(path)}: name the module after its subject"


def test_what_types_cannot_say_is_rare_and_has_its_reason() -> None:
    ignored = [
        f"{name(path)}: {line.strip()}"
        for path in SOURCES
        for line in path.read_text(encoding="utf-8").splitlines()
        if "# type: ignore" in line
    ]
    assert len(ignored) <= MAX_IGNORED_TYPES, ignored
    assert [
        line for line in ignored if not re.search(r"# type: ignore\[[a-z-]+\]  # \w", line)
    ] == []


def test_no_count_of_the_style_guide_rises_above_its_baseline() -> None:
    higher, _ = compare_with_baseline()
    assert not higher, "\n".join(higher)


@pytest.mark.parametrize("path", SOURCES, ids=name)
def test_every_module_says_what_it_is(path: Path) -> None:
    assert ast.get_docstring(trees()[path]), f"{name(path)} has no docstring"


def test_what_every_module_imports_is_declared() -> None:
    """Tests run with all that development needs: a package that only a tool brings would be missing
    for everybody else.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = [
        *project["dependencies"],
        *(one for group in project["optional-dependencies"].values() for one in group),
    ]
    ours = {"indextables", "py4j"}  # and what PySpark itself needs
    declared = {_distribution(one) for one in asked} | ours
    sources = packages_distributions()
    tools = PACKAGE / "testing"  # for those who test, with what they test with
    missing = {
        f"{path.relative_to(ROOT)} imports {name}"
        for path in SOURCES
        for name in _imported(path)
        if name in sources
        and tools not in path.parents
        and not declared & set(map(_distribution, sources[name]))
    }
    assert missing == set()


def _distribution(requirement: str) -> str:
    return re.sub(r"[-_.]+", "-", re.split(r"[^\w.-]", requirement, maxsplit=1)[0]).lower()


def _imported(path: Path) -> set[str]:
    """The packages that a module imports when it is loaded or when a function runs."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names |= {
        node.module
        for node in nodes
        if isinstance(node, ast.ImportFrom) and node.module and not node.level
    }
    return {name.split(".")[0] for name in names}


CATALOGUES = {"tests/torture/rules.py", "tests/torture/switches.py", "tests/torture/planted.py"}
"""Modules that run tests with a rule switched off, and so import them."""


def test_no_test_module_is_imported_by_another() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {line}"
        for path in sorted((ROOT / "tests").rglob("*.py"))
        if path.relative_to(ROOT).as_posix() not in CATALOGUES
        for line in path.read_text("utf-8").splitlines()
        if re.match(r"(from|import) tests\.\S*\btest_\w|from tests[\w.]* import .*\btest_\w", line)
    ]
    assert not found, f"move what tests share into tests/support: {found}"

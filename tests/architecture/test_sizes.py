"""The ceilings of the house: a file, a function and a class stay small, and no drawer is called 'utils'."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
TESTS = sorted(p for room in ("tests", "bench") for p in (ROOT / room).rglob("*.py"))
MAX_FILE, MAX_FUNCTION, MAX_CLASS = 500, 60, 250
DRAWERS = {"utils", "util", "helpers", "helper", "common", "misc", "manager", "managers"}


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", SOURCES + TESTS, ids=name)
def test_a_file_stays_small(path: Path) -> None:
    lines = len(path.read_text(encoding="utf-8").splitlines())
    assert lines <= MAX_FILE, f"{name(path)} has {lines} lines (at most {MAX_FILE}): which noun wants its own module?"


@pytest.mark.parametrize("path", SOURCES, ids=name)
def test_functions_and_classes_stay_small(path: Path) -> None:
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            ceiling = MAX_CLASS if isinstance(node, ast.ClassDef) else MAX_FUNCTION
            if lines > ceiling:
                found.append(f"{name(path)}:{node.lineno} {node.name} has {lines} lines (at most {ceiling})")
    assert not found, "\n".join(found)


@pytest.mark.parametrize("path", SOURCES, ids=name)
def test_no_room_is_a_drawer(path: Path) -> None:
    parts = {p.removesuffix(".py") for p in path.relative_to(ROOT / "src").parts}
    assert not parts & DRAWERS, f"{name(path)}: name the module after its subject"


@pytest.mark.parametrize("path", SOURCES, ids=name)
def test_every_module_says_what_it_is(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))), f"{name(path)} has no docstring"

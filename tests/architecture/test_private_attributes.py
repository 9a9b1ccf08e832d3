"""Other modules use a table through its public members."""

from __future__ import annotations

import ast
from pathlib import Path

import indextables
from indextables.handle import TableHandle
from indextables.table import Table

SOURCES = Path(indextables.__file__).parent
DEFINED_IN = {"handle.py", "table/table.py"}


def private_members() -> set[str]:
    """The private methods and attributes of the classes of an open table."""
    found = {"_handle", "_resolved"}
    for kind in (Table, TableHandle):
        found |= {name for name in vars(kind) if name.startswith("_") and not name.startswith("__")}
    return found - {"_repr_html_"}


def test_no_module_uses_private_attributes_of_a_table() -> None:
    private = private_members()
    uses = []
    for path in sorted(SOURCES.rglob("*.py")):
        name = str(path.relative_to(SOURCES))
        if name in DEFINED_IN:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and node.attr in private:
                receiver = ast.unparse(node.value)
                if receiver.rpartition(".")[2] in {
                    "table",
                    "_table",
                    "handle",
                    "newest",
                    "view",
                    "origin",
                }:
                    uses.append(f"{name}:{node.lineno} {receiver}.{node.attr}")
    assert not uses


def test_a_handle_keeps_its_state_in_public_attributes() -> None:
    # `_resolved` caches the settings of the log; whatever another module needs has a plain name.
    tree = ast.parse((SOURCES / "handle.py").read_text(encoding="utf-8"))
    assigned = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and ast.unparse(node.value) == "self"
    }
    assert {name for name in assigned if name.startswith("_")} == {"_resolved"}

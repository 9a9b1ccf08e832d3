"""The page of walks: every hop is a link to a function, and the table above them counts hops and files.

`python -m tools.walks` brings the lines of the links and the table up to date; a hop that does not exist is an error.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tools import reference

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "explain" / "walks.md"
WANTED = {
    "`Table.append` to the version file": 25,
    "`Table.search` to Arrow": 28,
    "`its.write`: driver, worker, commit": 32,
    "`spark.sql` with `indexquery`": 45,
    "`Table.purge`": 15,
    "The checkpoint at the tenth commit": 16,
}
"""How many files each walk may lead through."""
_HOP = re.compile(r"\[`([\w.]+)`\]\(\.\./\.\./(src/[\w/]+\.(?:py|java))#L\d+\)")
_JAVA = re.compile(r"^ *(?:(?:public|private|static|final|abstract) )*(?:class (\w+)|[\w.\[\]]+ (\w+)\()", re.M)
_BETWEEN = re.compile(r"(?<=<!-- table of walks -->\n).*?(?=<!-- end of table -->)", re.S)


class Hop(NamedTuple):
    """A function on the way, and the file it is in."""

    function: str
    file: str


def walks(page: str) -> dict[str, list[Hop]]:
    """The hops under each heading."""
    parts = re.split(r"^## (.*)$", page, flags=re.M)
    return {
        title: [Hop(*hop) for hop in _HOP.findall(text)] for title, text in zip(parts[1::2], parts[2::2], strict=True)
    }


@cache
def lines(file: str) -> dict[str, int]:
    """The functions, methods and classes of a file, and the line on which each begins."""
    text = (ROOT / file).read_text(encoding="utf-8")
    if file.endswith(".java"):
        declared = list(_JAVA.finditer(text))
        return {found[1] or found[2]: text.count("\n", 0, found.end()) + 1 for found in reversed(declared)}
    places: dict[str, int] = {}

    def visit(node: ast.AST, prefix: str) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.ClassDef):
                places[f"{prefix}{child.name}"] = child.lineno
                visit(child, f"{prefix}{child.name}.")

    visit(ast.parse(text), "")
    return places


def up_to_date(page: str) -> str:
    """The page with the lines as they are now, and the table counted anew."""

    def link(found: re.Match[str]) -> str:
        function, file = found[1], found[2]
        if function not in lines(file):
            raise SystemExit(f"{PAGE.name}: {file} has no {function}")
        return f"[`{function}`](../../{file}#L{lines(file)[function]})"

    page = _HOP.sub(link, page)
    rows = ["| walk | hops | files | at most |", "|---|---:|---:|---:|"]
    for title, hops in walks(page).items():
        if title in WANTED:
            rows.append(f"| {title} | {len(hops)} | {len({hop.file for hop in hops})} | {WANTED[title]} |")
    return _BETWEEN.sub(lambda _: "\n" + "\n".join(rows) + "\n\n", page)


def main() -> None:
    """Rewrite the page, and what is generated on the others."""
    PAGE.write_text(up_to_date(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    reference.main()


if __name__ == "__main__":
    main()

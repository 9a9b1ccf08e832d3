"""Count what the style guide wants less of, and compare the counts with a committed baseline that
may only fall.

`python -m tools.code_style` prints large modules, large functions and every count that differs from
the baseline. `python -m tools.code_style --write` stores lower counts as the new baseline.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
BASELINE = ROOT / "tests" / "architecture" / "style_baseline.json"
MAX_MODULE = 700
MAX_FUNCTION = 60
LINE_LENGTH = 100
AREAS = {
    "src": ("src/**/*.py", "src/**/*.java"),
    "docs": ("docs/**/*.md",),
    "readme": ("README.md",),
}
"""The glossary is counted in each of these areas by itself."""
GLOSSARY = (
    *("told", "tells", "whoever", "somebody", "nobody", "who", "anew", "so many", "as many as"),
    *(
        "beside",
        "meanwhile",
        "by itself",
        "by turns",
        "a moment",
        "moments",
        "a look",
        "looks at",
        "stands for",
    ),
    *(
        "stands in",
        "stands there",
        "room",
        "rooms",
        "house",
        "crumb",
        "ledger",
        "the JVM engine",
        "their engine",
    ),
)
"""Words that the style guide replaces. `room` and `house` mean a package and the project."""
IRREGULAR_PARTICIPLES = (
    *("asked", "begun", "bound", "broken", "built", "chosen", "done", "drawn", "fed", "found"),
    *("given", "gone", "grown", "hidden", "held", "kept", "known", "laid", "led", "left"),
    *("lost", "made", "meant", "met", "own", "paid", "said", "seen", "sent", "shown"),
    *("sold", "spent", "taken", "thrown", "told", "understood", "won", "worn", "written"),
)
VERBS_IN_ED = frozenset({"embed", "feed", "need", "seed", "shed", "speed"})


@cache
def read_sources() -> dict[Path, str]:
    """Return the text of every Python module of the package."""
    return {path: path.read_text(encoding="utf-8") for path in sorted((ROOT / "src").rglob("*.py"))}


@cache
def parse_sources() -> dict[Path, ast.Module]:
    """Return the syntax tree of every Python module of the package."""
    return {path: ast.parse(text) for path, text in read_sources().items()}


def find_functions() -> Iterator[tuple[Path, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Yield every function of the package with its module."""
    for path, tree in parse_sources().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield path, node


def is_bare_participle(name: str) -> bool:
    """Return whether a function name is a single participle, such as `counted`."""
    word = name.strip("_")
    if "_" in word or word in VERBS_IN_ED:
        return False
    return word.endswith("ed") or word in IRREGULAR_PARTICIPLES


def count_style() -> dict[str, float | dict[str, int]]:
    """Return every count of the baseline for the working tree."""
    texts = read_sources().values()
    lines = [line for text in texts for line in text.splitlines()]
    conditionals = sum(
        isinstance(node, ast.IfExp) for tree in parse_sources().values() for node in ast.walk(tree)
    )
    participles = sum(is_bare_participle(function.name) for _, function in find_functions())
    counts: dict[str, float | dict[str, int]] = {
        "conditional expressions per 100 lines": round(conditionals / len(lines) * 100, 2),
        f"percentage of lines over {LINE_LENGTH} columns": round(
            sum(len(line) > LINE_LENGTH for line in lines) / len(lines) * 100, 2
        ),
        "functions named by a bare participle": participles,
    }
    counts.update({f"glossary words in {area}": count_glossary(area) for area in AREAS})
    return counts


def count_glossary(area: str) -> dict[str, int]:
    """Return how often each glossary word occurs in an area; words that do not occur are left out."""
    files = {path for pattern in AREAS[area] for path in ROOT.glob(pattern)}
    text = "\n".join(path.read_text(encoding="utf-8") for path in sorted(files)).lower()
    found = Counter(
        {word: len(re.findall(rf"\b{re.escape(word.lower())}\b", text)) for word in GLOSSARY}
    )
    return {word: count for word, count in sorted(found.items()) if count}


def flatten_counts(counts: dict[str, float | dict[str, int]]) -> dict[str, float]:
    """Return counts with the words of a glossary as entries of their own."""
    flat: dict[str, float] = {}
    for name, value in counts.items():
        if isinstance(value, dict):
            flat.update({f"{name}: {word}": count for word, count in value.items()})
        else:
            flat[name] = value
    return flat


def read_baseline() -> dict[str, float]:
    """Return the committed baseline, flattened."""
    return flatten_counts(json.loads(BASELINE.read_text(encoding="utf-8")))


def compare_with_baseline() -> tuple[list[str], list[str]]:
    """Return one line for each count above the baseline and one for each count below it."""
    baseline, current = read_baseline(), flatten_counts(count_style())
    higher, lower = [], []
    for name in sorted(baseline.keys() | current.keys()):
        before, now = baseline.get(name, 0), current.get(name, 0)
        if now > before:
            higher.append(f"{name}: {now} (baseline {before})")
        elif now < before:
            lower.append(f"{name}: {now} (baseline {before})")
    return higher, lower


def find_large_code() -> list[str]:
    """Return one line for each module and function above the size that is easy to read."""
    large = []
    for path, text in read_sources().items():
        if (lines := len(text.splitlines())) > MAX_MODULE:
            large.append(f"{path.relative_to(ROOT)}: {lines} lines (limit {MAX_MODULE})")
    for path, function in find_functions():
        lines = (function.end_lineno or function.lineno) - function.lineno + 1
        if lines > MAX_FUNCTION:
            where = f"{path.relative_to(ROOT)}:{function.lineno}"
            large.append(f"{where}: {function.name} has {lines} lines (limit {MAX_FUNCTION})")
    return large


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Compare the style of the code with the committed baseline."
    )
    parser.add_argument(
        "--write", action="store_true", help="store counts that fell as the new baseline"
    )
    write = parser.parse_args().write
    for line in find_large_code():
        sys.stdout.write(f"warning: {line}\n")
    higher, lower = compare_with_baseline()
    if write and not higher:
        BASELINE.write_text(
            json.dumps(count_style(), indent=1, sort_keys=True) + "\n", encoding="utf-8"
        )
        return 0
    for line in higher:
        sys.stdout.write(f"error: {line}; reword it, see CONTRIBUTING.md\n")
    for line in lower:
        sys.stdout.write(f"note: {line}; store it with `python -m tools.code_style --write`\n")
    return 1 if higher else 0


if __name__ == "__main__":
    sys.exit(main())

"""Names on pages exist: modules, functions and their arguments, settings, statements, commands,
flags, files and extras.

Each kind of name has one test, which lists the names that do not exist. A name of another product
goes into one of the sets of foreign names.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import inspect
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import click
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, DataFrameReader, DataFrameWriter, DataFrameWriterV2, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter
from typer.main import get_command

import indextables
import indextables.spark as its
from indextables import Table, errors, metrics, table
from indextables.cli.app import app
from indextables.commands.parser import STATEMENTS
from indextables.config import REGISTRY, is_setting
from indextables.config.jvm_names import ALIASES, NO_EFFECT, REFUSED
from indextables.inspect.figures import Plots
from indextables.inspect.inspection import Inspection
from indextables.log.transaction import Transaction
from indextables.operations.alter import Alteration
from indextables.spark.jvm import SUPPORTED
from indextables.spark.row_changes import MergeBuilder
from indextables.table.administration import Administration
from indextables.web import report

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")]
PAGES += sorted((ROOT / "docs").rglob("*.md"))
_SPAN = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
_FENCE = re.compile(r"^ *```(\S*)[^\n]*\n(.*?)^ *```$", re.S | re.M)
OFFERED = (
    Table,
    its,
    indextables,
    Alteration,
    Transaction,
    Administration,
    Inspection,
    Plots,
    MergeBuilder,
    table,
    metrics,
    report,
)
"""Owners of the functions of the library."""
SPARK = (
    SparkSession,
    DataFrame,
    DataFrameReader,
    DataFrameWriter,
    DataFrameWriterV2,
    DataStreamWriter,
    PySparkException,
)
"""Owners of the functions of Spark."""
SQL_TYPES = frozenset({"CHAR", "DECIMAL", "TIME", "VARCHAR"})
FOREIGN_FUNCTIONS = frozenset(
    {
        "OPTIONS",
        "contains",
        "current_timestamp",
        "displayHTML",
        "endswith",
        "maximumSize",
        "name_search",
        "rate",
        "startswith",
        "tantivy4spark_indexquery",
    }
)
"""Functions of SQL and of other libraries, and the clause `OPTIONS (...)`."""
FOREIGN_ERRORS = frozenset({"NoSuchPartitionsException", "ParseException", "Py4JJavaError"})
"""Errors of other libraries."""
FOREIGN_FLAGS = frozenset({"--conf", "--jars"})
"""Flags of other programs."""
CLAUSES = frozenset(
    {"INDEXTABLE", "INDEXTABLES", "MAX DEST SPLITS n", "TANTIVY4SPARK", "TRANSACTION LOG CACHE"}
)
"""Words and clauses within statements, which no statement begins with."""


@cache
def spans(page: Path) -> tuple[str, ...]:
    """The pieces of code within the prose and the tables of a page."""
    return tuple(
        _SPAN.findall(_FENCE.sub("", page.read_text(encoding="utf-8")).replace("\\|", "|"))
    )


def shell_lines(page: Path) -> Iterator[str]:
    """The commands in the blocks of a page that show a terminal."""
    for language, text in _FENCE.findall(page.read_text(encoding="utf-8")):
        if language in ("bash", "console"):
            lines = text.replace("\\\n", " ").splitlines()
            yield from (
                line.removeprefix("$ ")
                for line in lines
                if language == "bash" or line.startswith("$ ")
            )


def label(page: Path, name: str) -> str:
    """A name that does not exist, as the failure lists it."""
    return f"{page.relative_to(ROOT)}: {name}"


@cache
def source() -> str:
    """The text of the library."""
    files = [
        path for ending in ("py", "java") for path in sorted((ROOT / "src").rglob(f"*.{ending}"))
    ]
    return "\n".join(path.read_text(encoding="utf-8") for path in files)


def is_in_source(*names: str) -> bool:
    """Whether the library has a name as a quoted text, or a class of Java."""
    return any(f'"{name}"' in source() or f"class {name} " in source() for name in names)


def has_path(root: Any, names: list[str]) -> bool:
    """Whether attributes or submodules lead from a module to a name."""
    for name in names:
        if inspect.ismodule(root) and not hasattr(root, name):
            try:
                root = importlib.import_module(f"{root.__name__}.{name}")
            except ModuleNotFoundError:
                return False
        elif not hasattr(root, name):
            return False
        else:
            root = getattr(root, name)
    return True


def test_modules_and_their_names_exist() -> None:
    dotted = re.compile(r"(?<![\w./])(indextables|its)((?:\.[A-Za-z_]\w*)+)(?![\w/-])")
    roots = {"indextables": indextables, "its": its}
    strange = [
        label(page, root + rest)
        for page in PAGES
        for span in spans(page)
        if "spark.indextables." not in span and not span.startswith("io.indextables")
        for root, rest in dotted.findall(span)
        if not has_path(roots[root], rest[1:].split("."))
        and not is_in_source(root + rest, rest[1:])
    ]
    assert strange == []


def calls_in(span: str) -> Iterator[ast.Call]:
    """The calls in a piece of code that reads as Python; `...` takes the place of arguments."""
    try:
        tree = ast.parse(span.replace(", ...", "").strip(), mode="eval")
    except (SyntaxError, ValueError):
        return
    yield from (node for node in ast.walk(tree) if isinstance(node, ast.Call))


def functions_called(name: str) -> list[Any]:
    """The functions of the library that have this name."""
    return [getattr(owner, name) for owner in OFFERED if callable(getattr(owner, name, None))]


def is_known_elsewhere(name: str) -> bool:
    """Whether a function is one of SQL, of Spark or of another library."""
    if name in SQL_TYPES | FOREIGN_FUNCTIONS or is_in_source(name):
        return True
    return any(hasattr(owner, name) for owner in SPARK)


def refused_keywords(call: ast.Call, functions: list[Any]) -> list[str]:
    """The keywords of a call that none of the functions takes."""
    signatures = [inspect.signature(function).parameters for function in functions]
    return [
        keyword.arg
        for keyword in call.keywords
        if keyword.arg and not any(keyword.arg in parameters for parameters in signatures)
    ]


def test_functions_and_their_arguments_exist() -> None:
    strange = []
    for page in PAGES:
        for span in spans(page):
            for call in calls_in(span):
                name = (
                    call.func.attr
                    if isinstance(call.func, ast.Attribute)
                    else getattr(call.func, "id", "")
                )
                functions = functions_called(name)
                if not functions and not hasattr(builtins, name) and not is_known_elsewhere(name):
                    strange.append(label(page, f"{name} in {span}"))
                elif functions:
                    refused = refused_keywords(call, functions)
                    strange += [label(page, f"{keyword}= in {span}") for keyword in refused]
    assert strange == []


def test_settings_exist() -> None:
    groups = {key.split(".")[0] for key in REGISTRY.settings if "." in key}
    known = {*ALIASES, *NO_EFFECT, *REFUSED}
    key = re.compile(
        r"(?<![\w./'\"-])((?:spark\.indextables\.)?[a-z]\w*(?:\.[A-Za-z<>*]\w*>?)+)(?![\w(/-])"
    )
    strange = []
    for page in PAGES:
        for span in spans(page):
            for found in key.findall(span):
                plain = found.removeprefix("spark.indextables.")
                if plain.split(".")[0] not in groups and plain == found:
                    continue
                concrete = re.sub(r"<\w+>", "column", plain)
                if concrete == "column":
                    continue
                is_group = concrete.endswith("*") and any(
                    k.startswith(concrete[:-1]) for k in REGISTRY.settings
                )
                concrete_column = is_setting(f"{concrete}.column")
                if (
                    not is_setting(concrete)
                    and not concrete_column
                    and not is_group
                    and plain not in known
                ):
                    strange.append(label(page, found))
    assert strange == []


def test_statements_exist() -> None:
    leads = sorted(STATEMENTS, key=len, reverse=True)
    strange = []
    for page in PAGES:
        for span in spans(page):
            if not re.search(r"\b(INDEXTABLES?|TANTIVY4SPARK|SPLITS|TRANSACTION LOG)\b", span):
                continue
            plain = span.replace("TANTIVY4SPARK", "INDEXTABLES")
            if not any(plain.startswith(lead) for lead in leads) and span not in CLAUSES:
                strange.append(label(page, span))
    assert strange == []


COMMANDS: dict[str, click.Command] = get_command(app).commands  # type: ignore[attr-defined]
FLAGS = {
    name: {flag for p in command.params for flag in (*p.opts, *p.secondary_opts)}
    for name, command in COMMANDS.items()
}


def wrong_words(line: str) -> Iterator[str]:
    """The verbs and flags of `indextables` that a command line names and that do not exist."""
    for verb, rest in re.findall(r"(?:^|[|(] *|&& *|; *)indextables +([a-z-]+)([^|&;]*)", line):
        if verb.startswith("-"):
            continue
        if verb not in COMMANDS:
            yield f"indextables {verb}"
            continue
        unquoted = re.sub(r"'[^']*'|\"[^\"]*\"", "", rest)
        known = FLAGS[verb] | {"--help"}
        yield from (
            f"{flag} of indextables {verb}"
            for flag in re.findall(r"(?<!\S)--[a-z-]+", unquoted)
            if flag not in known
        )


def test_commands_and_their_flags_exist() -> None:
    every = set().union(*FLAGS.values(), {"--help", "--version", "--show-completion"})
    strange = []
    for page in PAGES:
        for line in (*spans(page), *shell_lines(page)):
            strange += [label(page, word) for word in wrong_words(line)]
        lone = [
            span.split()[0].split("=")[0]
            for span in spans(page)
            if span.startswith("--") and len(span) > 2
        ]
        strange += [
            label(page, flag) for flag in lone if flag not in every and flag not in FOREIGN_FLAGS
        ]
    assert strange == []


def test_errors_exist() -> None:
    named = re.compile(r"\b[A-Z]\w+(?:Error|Exception)\b")
    strange = [
        label(page, name)
        for page in PAGES
        for span in spans(page)
        for name in named.findall(span)
        if not hasattr(errors, name) and not hasattr(builtins, name) and name not in FOREIGN_ERRORS
    ]
    assert strange == []


def test_files_targets_and_extras_exist() -> None:
    path = re.compile(
        r"(?<![\w/.{<])((?:src|tests|tools|docs|bench|examples|lock|\.ci|\.github)/[\w./-]*\w)(?![\w*{<])"
    )
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M))
    strange = []
    for page in PAGES:
        for span in (*spans(page), *shell_lines(page)):
            strange += [label(page, name) for name in path.findall(span) if not exists(name)]
            strange += [
                label(page, f"make {name}")
                for name in re.findall(r"^make ([a-z-]+)", span)
                if name not in targets
            ]
            for extras in re.findall(r"(?:indextables|\.)\[([a-z,]+)\]", span):
                strange += [
                    label(page, f"[{name}]")
                    for name in extras.split(",")
                    if name not in project["optional-dependencies"]
                ]
    assert strange == []


def test_source_files_exist() -> None:
    """A file may be named by the end of its path, such as `log/commit.py`."""
    files = [
        f"/{path.relative_to(ROOT)}"
        for top in ("src", "tests", "tools", "bench")
        for path in (ROOT / top).rglob("*.*")
    ]
    named = re.compile(r"(?<![\w/<*])((?:[\w.-]+/)*\w+\.(?:py|java))\b")
    strange = [
        label(page, name)
        for page in PAGES
        for span in spans(page)
        for name in named.findall(span)
        if not any(file.endswith(f"/{name}") for file in files)
    ]
    assert strange == []


def exists(name: str) -> bool:
    """Whether a path of the checkout exists; a test may be named without its ending, and with `::` and its function."""
    return (ROOT / name).exists() or (ROOT / f"{name}.py").exists()


def test_pages_name_the_version_and_what_it_runs_on() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"Version {indextables.__version__} " in text
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pythons = re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"]))
    assert f"Python {pythons[0]} to {pythons[-1]}" in text
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    assert re.findall(r"\d\.\d+", re.findall(r"python: \[(.*)\]", workflow)[0]) == pythons
    spark = re.search(r"pyspark>=([\d.]+)", "".join(project["optional-dependencies"]["spark"]))
    assert spark is not None
    for name in ("README.md", "docs/how-to/cluster.md", "docs/how-to/search-from-spark.md"):
        page = (ROOT / name).read_text(encoding="utf-8")
        assert (
            f"Spark {spark[1]}" in page
            and f"Java {', '.join(map(str, SUPPORTED[:-1]))} or {SUPPORTED[-1]}" in page
        ), name
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.findall(r"^## ([\d.]+)", changelog, re.M)[0] == indextables.__version__

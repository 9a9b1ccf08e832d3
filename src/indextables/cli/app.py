"""`indextables VERB PATH ...`: the verbs, their modules, and the imports that are deferred until
they are used.

Deferred imports keep a cold search fast:

- pandas: pyarrow imports it for the first array of Python values, to recognise a Series or NaT.
That takes longer than the rest of a search. No verb passes such values, so `import pandas` fails in
this process.
- `pyarrow.compute` creates a Python function for each of 300 kernels, and `pyarrow.parquet` loads
the file systems of all clouds: a tenth of a cold search each. A placeholder replaces them until the
first use.
- Packages of this project that a search does not need, such as the maintenance operations behind
`Table`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from threading import Lock
from types import ModuleType
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_group

from indextables.config import VERSION
from indextables.errors import InvalidInputError

_SOURCE = Path(__file__).parents[1]
_LATER = (
    "pyarrow.compute",
    "pyarrow.parquet",
    "indextables.inspect",
    "indextables.inspect.figures",
    "indextables.inspect.inspection",
    "indextables.operations",
    "indextables.operations.alter",
    "indextables.operations.append",
    "indextables.operations.auto_upkeep",
    "indextables.operations.checkpoint",
    "indextables.operations.clustering",
    "indextables.operations.companion_merge",
    "indextables.operations.companion_sync",
    "indextables.operations.definition",
    "indextables.operations.delete",
    "indextables.operations.drop_partitions",
    "indextables.operations.drop_table",
    "indextables.operations.erase",
    "indextables.operations.expire",
    "indextables.operations.first_write",
    "indextables.operations.incoming",
    "indextables.operations.jobs",
    "indextables.operations.merge",
    "indextables.operations.overwrite",
    "indextables.operations.purge",
    "indextables.operations.rebuild",
    "indextables.operations.reindex",
    "indextables.operations.repair",
    "indextables.operations.restore",
    "indextables.operations.rewrite",
    "indextables.operations.row_change",
    "indextables.operations.row_removal",
    "indextables.operations.row_write",
    "indextables.operations.salvage",
    "indextables.operations.table_transaction",
    "indextables.operations.table_write",
    "indextables.operations.tags",
    "indextables.operations.traces",
    "indextables.operations.truncate",
    "indextables.operations.update",
    "indextables.operations.upsert",
    "indextables.operations.verify",
    "indextables.query.aggregate",
    "indextables.query.aggregate.result",
    "indextables.query.change_feed",
    "indextables.query.explain",
    "indextables.query.prewarm",
    "indextables.query.search_pages",
    "indextables.table.frames",
)
"""Modules that load on first use. A package is listed before its modules."""


class _WithoutPandas(MetaPathFinder):
    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        if fullname == "pandas":
            raise ModuleNotFoundError("pandas is not used by the command line", name="pandas")
        return None


class _LoadedWhenUsed(ModuleType):
    """Placeholder of a module until the first access to one of its names; then the module replaces
    it.

    A placeholder of one of our packages can import its modules, which may be placeholders too.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._lock = Lock()
        path = name.removeprefix("indextables.").replace(".", "/")
        if (_SOURCE / path / "__init__.py").exists():
            self.__path__ = [str(_SOURCE / path)]

    def __getattr__(self, attribute: str) -> Any:
        name = self.__name__
        with self._lock:
            if sys.modules.get(name) is self:
                del sys.modules[name]
        return getattr(import_module(name), attribute)


def load_less() -> None:
    """Make `import pandas` fail in this process, and defer the modules listed above."""
    sys.meta_path.insert(0, _WithoutPandas())
    for name in _LATER:
        if name in sys.modules:
            continue
        sys.modules[name] = stand_in = _LoadedWhenUsed(name)
        package, _, module = name.rpartition(".")
        if isinstance(sys.modules.get(package), _LoadedWhenUsed):
            setattr(sys.modules[package], module, stand_in)


_VERBS_OF = (
    ("search", "search"),
    ("read", "scan count aggregate explain prewarm query changes to-parquet-view"),
    ("write", "create append overwrite delete update upsert alter"),
    ("read", "describe history files partitions analyze state skipped-files component-sizes diff"),
    (
        "upkeep",
        "merge reindex checkpoint compact tag verify repair purge erase expire truncate drop-partitions drop restore",
    ),
    ("sources", "companion sync source-status"),
    ("other", "configure settings sql man exit-codes doctor report ui serve mcp jar pack-env demo"),
)
"""The modules of verbs, in the order of the help."""
VERBS = {name: module for module, names in _VERBS_OF for name in names.split()}
"""The module of each verb. It loads when one of its verbs is called."""
_WrongCall: Any = typer.BadParameter.__mro__[1]
"""The exception that typer raises for a wrong call. Some releases have no public name for it."""
_ELSEWHERE = {
    "vacuum": "purge",
    "optimize": "merge",
    "untag": "tag PATH NAME --remove",
    "insert": "append",
    "load": "append",
    "import": "append",
    "select": "query",
    "rows": "scan",
    "head": "scan PATH --limit 5",
    "schema": "describe",
    "info": "describe",
    "log": "history",
    "rollback": "restore",
}
"""Names of verbs in other tools, mapped to ours."""
_NEED_EVERYTHING = {"query", "doctor", "report", "ui", "serve", "mcp", "jar", "pack-env", "demo"}


class LoadedOnCall(Mapping[str, Any]):
    """The verbs by name. Each command is created when it is requested."""

    def __getitem__(self, name: str) -> Any:
        return get_group(import_module(f"indextables.cli.verbs.{VERBS[name]}").app).commands[name]

    def __iter__(self) -> Iterator[str]:
        return iter(VERBS)

    def __len__(self) -> int:
        return len(VERBS)


class Verbs(TyperGroup):
    """The group of verbs. With --json, a wrong call is reported as JSON."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**{**attributes, "commands": LoadedOnCall()})

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
        """Return the names in the order of their modules."""
        return list(self.commands)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the verb of a call. A name from another tool raises an error with our name for it."""
        if args and args[0] in _ELSEWHERE:
            ctx.fail(
                f"No such command {args[0]!r}. Here it is `indextables {_ELSEWHERE[args[0]]}`."
            )
        return super().resolve_command(ctx, args)

    def main(self, args: Sequence[str] | None = None, *rest: Any, **options: Any) -> Any:
        """Parse the arguments and call a verb."""
        words = sys.argv[1:] if args is None else list(args)
        if "--json" not in words:
            return super().main(words, *rest, **options)
        try:
            code = super().main(words, *rest, **{**options, "standalone_mode": False})
        except _WrongCall as error:
            context = getattr(error, "ctx", None)
            if context is None:
                command = "indextables"
            else:
                command = context.command_path
            problem = InvalidInputError(
                error.format_message(),
                hint=f"`{command} --help` shows how it is called.",
            )
            output = import_module("indextables.cli.output")
            output.error(problem.to_dict(), as_json=True)
            code = output.USAGE
        sys.exit(code or 0)


app = typer.Typer(
    cls=Verbs,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Every verb has --help with an example, and --json: rows are a list of objects, one a line; a report is an "
    "object; an error goes to stderr as {'error': {kind, message, hint, context}}. "
    "`indextables exit-codes` lists the exit codes.",
)


def _version(flag: bool) -> None:
    if flag:
        typer.echo(f"indextables {VERSION}")
        raise typer.Exit


@app.callback()
def indextables(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the release.")
    ] = False,
) -> None:
    """Tables of full-text search indexes, on disk and on object stores: write, search, travel in
    time, maintain.
    """


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    if not words or words[0] not in _NEED_EVERYTHING:
        load_less()
    app(words, prog_name="indextables")

"""`indextables VERB PATH ...`: the verbs, where each of them is, and what a process does not load before it is used.

Where pandas is installed, pyarrow imports it the first time it makes an array of Python values, to recognise a Series or
a NaT among them. That takes longer than everything else a search does. No verb of ours hands it such a value, so pandas
is declared absent before pyarrow looks.

`pyarrow.compute` makes a Python function of each of its 300 kernels when it is loaded, and `pyarrow.parquet` loads the file
systems of all clouds: a tenth of a cold search each, which as a rule uses neither. So their names stand for them until
somebody does. So do the names of our own rooms that a search has no use for: `Table` has every verb, and with all the
engines of upkeep behind them it would load half as much again.
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
    "indextables.query.aggregate",
    "indextables.query.aggregate.result",
    "indextables.query.explain",
    "indextables.table.alter",
    "indextables.table.frames",
    "indextables.table.row_changes",
    "indextables.upkeep",
    "indextables.operations.clustering",
    "indextables.operations.delete",
    "indextables.operations.drop_partitions",
    "indextables.operations.drop_table",
    "indextables.operations.erase",
    "indextables.operations.jobs",
    "indextables.operations.merge",
    "indextables.operations.purge",
    "indextables.operations.repair",
    "indextables.operations.restore",
    "indextables.operations.salvage",
    "indextables.operations.tags",
    "indextables.operations.traces",
    "indextables.operations.truncate",
    "indextables.operations.verify",
    "indextables.write",
    "indextables.operations.incoming",
    "indextables.operations.row_write",
)
"""What is loaded when it is used; a package stands before its modules."""


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
    """Stands for a module until one of its names is asked for; then the module takes its place.

    One of our packages knows its modules, which may stand for themselves, and can import the others.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._lock = Lock()
        room = name.removeprefix("indextables.").replace(".", "/")
        if (_SOURCE / room / "__init__.py").exists():
            self.__path__ = [str(_SOURCE / room)]

    def __getattr__(self, attribute: str) -> Any:
        name = self.__name__
        with self._lock:
            if sys.modules.get(name) is self:
                del sys.modules[name]
        return getattr(import_module(name), attribute)


def load_less() -> None:
    """From now on `import pandas` fails in this process, and what is named above is loaded when it is used."""
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
    ("other", "configure settings sql man exit-codes report ui serve mcp jar pack-env demo"),
)
"""The modules of verbs, in the order in which help shows their verbs."""
VERBS = {name: module for module, names in _VERBS_OF for name in names.split()}
"""The module of each verb. It is loaded when one of its verbs is called, so that a search waits for nothing else."""
_WrongCall: Any = typer.BadParameter.__mro__[1]
"""What typer raises for a call that it cannot understand; not every release has a public name for it."""
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
"""What other tools call our verbs, which nobody would find by their letters."""
_NEED_EVERYTHING = {"query", "report", "ui", "serve", "mcp", "jar", "pack-env", "demo"}


class LoadedOnCall(Mapping[str, Any]):
    """The verbs by name, each made when it is asked for."""

    def __getitem__(self, name: str) -> Any:
        return get_group(import_module(f"indextables.cli.verbs.{VERBS[name]}").app).commands[name]

    def __iter__(self) -> Iterator[str]:
        return iter(VERBS)

    def __len__(self) -> int:
        return len(VERBS)


class Verbs(TyperGroup):
    """The verbs as a group. With --json a call that cannot be understood is told as JSON, too."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**{**attributes, "commands": LoadedOnCall()})

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
        """The names, in the order of their modules."""
        return list(self.commands)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The verb of a call. One that has another name here is refused with that name."""
        if args and args[0] in _ELSEWHERE:
            ctx.fail(f"No such command {args[0]!r}. Here it is `indextables {_ELSEWHERE[args[0]]}`.")
        return super().resolve_command(ctx, args)

    def main(self, args: Sequence[str] | None = None, *rest: Any, **options: Any) -> Any:
        """Parse, and call a verb."""
        words = sys.argv[1:] if args is None else list(args)
        if "--json" not in words:
            return super().main(words, *rest, **options)
        try:
            code = super().main(words, *rest, **{**options, "standalone_mode": False})
        except _WrongCall as error:
            context = getattr(error, "ctx", None)
            command = "indextables" if context is None else context.command_path
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
    """Tables of full-text search indexes, on disk and on object stores: write, search, travel in time, keep in order."""


def main(arguments: Sequence[str] | None = None) -> None:
    """The entry point of the process."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    if not words or words[0] not in _NEED_EVERYTHING:
        load_less()
    app(words, prog_name="indextables")

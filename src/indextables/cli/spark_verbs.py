"""The verbs that need Spark: jar and demo."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Annotated

import typer

from indextables.cli import options, output
from indextables.cli.demo import tell
from indextables.cli.verb import verb
from indextables.errors import UnsupportedError

app = typer.Typer()
_MORE = "More"


@verb(app, "jar", panel=_MORE, example="jar --out indextables.jar")
def jar(
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="Where to write it.")] = Path("indextables.jar"),
    json: options.Json = False,
) -> None:
    """Write the JAR that teaches Spark SQL the statements of IndexTables, for --jars and spark.jars."""
    written = _with_spark("indextables.spark.jar").build_jar(out)
    if json:
        output.value({"path": str(written)}, as_json=True)
    else:
        typer.echo(f"{written}: pass it to Spark with --jars")


@verb(app, "demo", panel=_MORE, example="demo\ndemo --path /tmp/demo-table --rows 50000")
def demo(
    path: Annotated[
        Path, typer.Option(metavar="PATH", help="Where the table goes; an older demo there is replaced.")
    ] = Path("demo-table"),
    rows: Annotated[int, typer.Option(min=1000, help="How many log lines.")] = 200_000,
    json: Annotated[bool, typer.Option("--json", help="Tell the story on stderr, and print JSON at its end.")] = False,
) -> None:
    """Show the product at work with Spark: write, search, merge, travel in time, find damage. Under two minutes."""
    table = tell(_with_spark("indextables.spark"), path.absolute(), rows=rows, on_stderr=json)
    if json:
        output.value(table.to_dict(), as_json=True)


def _with_spark(module: str) -> ModuleType:
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("indextables"):
            raise
        hint = "Install it: pip install 'indextables[spark]'."
        raise UnsupportedError(f"This needs Spark, and {error.name} is not installed.", hint=hint) from None

"""What a search from the command line loads: a process that answers in half a second cannot afford
anything else.
"""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pyarrow as pa

from indextables import Table

HEAVY = {
    "pandas",
    "pyspark",
    "polars",
    "polars_avro",
    "matplotlib",
    "rich",
    "starlette",
    "uvicorn",
    "http",
    "IPython",
}
HEAVY |= {"pyarrow._compute", "pyarrow.fs", "numpy.ma"}
ROOMS = {"upkeep", "write", "commands", "web", "spark", "testing"}
MOST_MODULES = 640
"""Modules in all, those of Python among them; 590 when this was written."""


def modules_after(*words: str) -> set[str]:
    """The modules that are loaded, not only stood for, when a command has ended, whatever its exit
    code.
    """
    code = (
        "import sys\nfrom indextables.cli.app import main\n"
        "try:\n    main(sys.argv[1:])\nfinally:\n"
        "    loaded = (n for n, m in sys.modules.items() if type(m).__name__ != '_LoadedWhenUsed')\n"
        "    print(' '.join(loaded), file=sys.stderr)\n"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, text=True, check=False
    )
    assert "Traceback" not in shown.stderr, shown.stderr
    return set(shown.stderr.split())


def test_a_search_loads_what_it_needs(tmp_path: Path) -> None:
    schema = pa.schema([("level", pa.string()), ("message", pa.string())])
    table = Table.create(
        str(tmp_path / "t"), schema=schema, options={"indexing.typemap.message": "text"}
    )
    table.append(pa.table({"level": ["INFO"], "message": ["one two"]}))
    table.checkpoint()
    loaded = modules_after("search", str(tmp_path / "t"), "two", "--json")
    assert "tantivy" in loaded
    assert not loaded & HEAVY
    rooms = {name.split(".")[1] for name in loaded if name.startswith("indextables.")}
    assert not rooms & ROOMS
    assert len(loaded) < MOST_MODULES
    specs = (find_spec(name) for name in loaded if name.startswith("indextables"))
    sources = [Path(spec.origin) for spec in specs if spec is not None and spec.origin is not None]
    # A dataclass costs a millisecond when it is made: docs/adr/0010-values-are-structs.md.
    assert not [source for source in sources if "@dataclass" in source.read_text(encoding="utf-8")]


def test_an_option_that_does_not_exist_loads_no_table() -> None:
    assert not modules_after("--versoin") & {"pyarrow", "numpy", "tantivy"}

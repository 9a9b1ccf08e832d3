"""What a process of the command line does not load, or not before it is used.

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
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from threading import Lock
from types import ModuleType
from typing import Any

_SOURCE = Path(__file__).parents[1]
_LATER = (
    "pyarrow.compute",
    "pyarrow.parquet",
    "indextables.inspect",
    "indextables.inspect.figures",
    "indextables.inspect.inspection",
    "indextables.scan.aggregate",
    "indextables.scan.aggregate.result",
    "indextables.scan.explain",
    "indextables.table.alter",
    "indextables.table.frames",
    "indextables.table.row_changes",
    "indextables.upkeep",
    "indextables.upkeep.clustering",
    "indextables.upkeep.delete",
    "indextables.upkeep.drop_partitions",
    "indextables.upkeep.jobs",
    "indextables.upkeep.merge",
    "indextables.upkeep.purge",
    "indextables.upkeep.repair",
    "indextables.upkeep.restore",
    "indextables.upkeep.tags",
    "indextables.upkeep.truncate",
    "indextables.upkeep.verify",
    "indextables.write",
    "indextables.write.incoming",
    "indextables.write.row_write",
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

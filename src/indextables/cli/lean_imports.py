"""What a process of the command line does not load, or not before it is used.

Where pandas is installed, pyarrow imports it the first time it makes an array of Python values, to recognise a Series or
a NaT among them. That takes longer than everything else a search does. No verb of ours hands it such a value, so pandas
is declared absent before pyarrow looks.

`pyarrow.compute` makes a Python function of each of its 300 kernels when it is loaded, and `pyarrow.parquet` loads the file
systems of all clouds: a tenth of a cold search each, which as a rule uses neither. So their names stand for them until
somebody does.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from threading import Lock
from types import ModuleType
from typing import Any


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
    """Stands for a module until one of its names is asked for; then the module takes its place."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._lock = Lock()

    def __getattr__(self, attribute: str) -> Any:
        name = self.__name__
        with self._lock:
            if sys.modules.get(name) is self:
                del sys.modules[name]
        return getattr(import_module(name), attribute)


def load_less() -> None:
    """From now on `import pandas` fails in this process, and parts of pyarrow are not loaded before they are used."""
    sys.meta_path.insert(0, _WithoutPandas())
    for name in ("pyarrow.compute", "pyarrow.parquet"):
        sys.modules.setdefault(name, _LoadedWhenUsed(name))

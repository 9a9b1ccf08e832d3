"""A process of the command line does without pandas.

Where pandas is installed, pyarrow imports it the first time it makes an array of Python values, to recognise a Series or
a NaT among them. That takes longer than everything else a search does. No verb of ours hands it such a value, so pandas
is declared absent before pyarrow looks.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType


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


def do_without_pandas() -> None:
    """From now on `import pandas` fails in this process, as if it were not installed."""
    sys.meta_path.insert(0, _WithoutPandas())

"""The product at work, as `make demo` and `indextables demo` show it; the story itself is in `indextables.cli.demo`."""

from __future__ import annotations

from pathlib import Path

import indextables.spark as its
from indextables.cli.demo import tell

if __name__ == "__main__":
    tell(its, Path("demo-table").absolute(), rows=200_000)

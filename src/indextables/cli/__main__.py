"""`python -m indextables.cli`: the entry point of the process, optimized for a quick start.

The garbage collector is off while modules load; the verb enables it again. No code path multiplies
matrices, so numpy's thread pool is not started.
"""

from __future__ import annotations

import gc
import os

gc.disable()
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

try:
    from indextables.cli.app import main
except ModuleNotFoundError as error:
    if error.name not in ("typer", "rich"):
        raise
    raise SystemExit("The command line is an extra: pip install 'indextables[cli]'") from None

__all__ = ["main"]


if __name__ == "__main__":
    main()

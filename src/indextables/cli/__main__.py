"""`python -m indextables.cli`: the entry point of the process, made for a quick start.

The garbage collector rests while modules load; the verb turns it on again. Nothing here multiplies matrices, so numpy need
not start threads that would.
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

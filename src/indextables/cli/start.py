"""The entry point of the process. The garbage collector rests while modules load; the verb turns it on again."""

import gc

gc.disable()

from indextables.cli.app import main  # noqa: E402

__all__ = ["main"]

"""The entry point of the process. The garbage collector rests while modules load; the verb turns it on again."""

import gc

gc.disable()

try:
    from indextables.cli.app import main
except ModuleNotFoundError as error:
    if error.name not in ("typer", "rich"):
        raise
    raise SystemExit("The command line is an extra: pip install 'indextables[cli]'") from None

__all__ = ["main"]

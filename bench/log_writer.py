"""One of the processes that commit at once: `python -m bench.log_writer ours|delta PATH NUMBER`."""

from __future__ import annotations

import sys

from bench.log_tables import SCHEMA, delta_action, ours
from indextables import Table

COMMITS = 25
RETRIES = 1_000
"""What either side may try; ours has no time limit here either."""
PATIENCE = {
    "transaction.retry.maxAttempts": RETRIES + 1,
    "transaction.retry.maxElapsedMs": 3_600_000,
}


def main() -> None:
    """Wait for the word, commit, and say so when the last commit has been acknowledged."""
    kind, path, number = sys.argv[1], sys.argv[2], int(sys.argv[3])
    numbers = range(1_000 + number * COMMITS, 1_000 + (number + 1) * COMMITS)
    if kind == "ours":
        table = Table.open(path, options=PATIENCE)
        table.files()
        _ready()
        for n in numbers:
            with table.transaction(check_splits=False) as tx:
                tx.add(ours(n))
        print("done", flush=True)
        return
    from deltalake import CommitProperties, DeltaTable, Schema

    schema = Schema.from_arrow(SCHEMA)
    delta = DeltaTable(path)
    delta.get_add_actions()
    _ready()
    for n in numbers:
        delta.update_incremental()
        properties = CommitProperties(max_commit_retries=RETRIES)
        delta.create_write_transaction(
            [delta_action(n)], "append", schema, ["day"], commit_properties=properties
        )
    print("done", flush=True)


def _ready() -> None:
    print("ready", flush=True)
    sys.stdin.readline()


if __name__ == "__main__":
    main()

"""A writer process for the contention tests: `python contention.py URL OPTIONS_JSON NAME COMMITS`,
one line a commit.
"""

from __future__ import annotations

import json
import sys

from indextables import AddAction, Table


def main() -> None:
    """Append splits one by one and say which version each became."""
    url, options, name, commits = (
        sys.argv[1],
        json.loads(sys.argv[2]),
        sys.argv[3],
        int(sys.argv[4]),
    )
    table = Table.open(url, options=options)
    print("ready", flush=True)
    sys.stdin.readline()
    for n in range(commits):
        with table.transaction(check_splits=False) as tx:
            tx.add(AddAction(path=f"splits/{name}-{n}.split", size=1, num_records=1))
        print(tx.version, flush=True)


if __name__ == "__main__":
    main()

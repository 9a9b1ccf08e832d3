"""Play rounds until the time is over: `python -m tests.torture --minutes N --suite NAME --seed S
[--rounds N]`.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

import msgspec

from tests.torture.suite import KINDS, Suite, Tally, all_suites, played

RESULTS = Path(__file__).parents[2] / "bench" / "results"
ROUND_S = 60.0
"""The longest that one round goes on, so that the suites take turns."""


def torture(
    suites: list[Suite], *, seed: int, minutes: float, rounds: int | None
) -> dict[str, Tally]:
    """Rounds of every suite by turns, with one seed after the other."""
    tallies = {suite.name: Tally() for suite in suites}
    end = time.monotonic() + minutes * 60
    number = 0
    while (rounds is None or number < rounds) and time.monotonic() < end:
        for suite in suites:
            now = time.monotonic()
            if now >= end:
                break
            tally = played(suite, seed + number, min(now + ROUND_S, end))
            tally.count("rounds")
            tally.count("seconds", round(time.monotonic() - now))
            for violation in tally.violations:
                print(f"{suite.name}: {violation}", flush=True)
            tallies[suite.name].add(tally)
        number += 1
    return tallies


def shown(tallies: dict[str, Tally]) -> str:
    """What was tried and what was found, as a table."""
    lines = []
    for name, tally in tallies.items():
        lines.append(f"{name}")
        lines += [f"  {what:<56} {number:>12,}" for what, number in sorted(tally.counts.items())]
        for kind in KINDS:
            lines.append(
                f"  {kind.upper():<56} {sum(v.kind == kind for v in tally.violations):>12,}"
            )
        seeds = sorted({violation.seed for violation in tally.violations})
        if seeds:
            lines.append(
                f"  again: python -m tests.torture --suite {name} --rounds 1 --seed {seeds[0]}  (of {seeds})"
            )
    return "\n".join(lines)


def main() -> int:
    """The command."""
    known = all_suites()
    parser = argparse.ArgumentParser(
        prog="python -m tests.torture", description="Look for ways to lose a row."
    )
    parser.add_argument("--minutes", type=float, default=10.0, help="how long in all")
    parser.add_argument(
        "--suite", default="all", help=f"all, or some of {', '.join(known)}, with commas between"
    )
    parser.add_argument("--seed", type=int, default=1, help="the seed of the first round")
    parser.add_argument(
        "--rounds", type=int, default=None, help="so many rounds of each suite at most"
    )
    asked = parser.parse_args()
    names = list(known) if asked.suite == "all" else asked.suite.split(",")
    unknown = [name for name in names if name not in known]
    if unknown:
        parser.error(f"no suite is called {', '.join(unknown)}: there are {', '.join(known)}")
    tallies = torture(
        [known[name] for name in names], seed=asked.seed, minutes=asked.minutes, rounds=asked.rounds
    )
    print(shown(tallies))
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / f"torture-{asked.suite.replace(',', '-')}-{asked.seed}.json"
    path.write_text(json.dumps(msgspec.to_builtins(tallies), indent=1), encoding="utf-8")
    print(f"written to {path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path}")
    return 1 if any(tally.violations for tally in tallies.values()) else 0


if __name__ == "__main__":
    sys.exit(main())

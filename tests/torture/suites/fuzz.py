"""Changed files of every kind with right checksums, and odd queries, predicates, statements and
calls: only our errors.
"""

from __future__ import annotations

import time
from typing import cast

from tests.torture import fuzz
from tests.torture.suite import Kind, Tally


class Fuzz:
    """As many cases as a round has time for."""

    name = "fuzz"
    quick = (1, 2)
    quick_seconds = 15.0

    def run(self, seed: int, deadline: float) -> Tally:
        """One round."""
        found = fuzz.run(seed, max(0.0, deadline - time.monotonic()) / 60)
        tally = Tally(found.counts)
        for kind, what, facts in found.violations:
            told = {
                key: value
                for key, value in facts.items()
                if key not in ("seed", "what", "violation")
            }
            tally.violation(cast(Kind, kind), what, seed=seed, **told)
        return tally


SUITE = Fuzz()

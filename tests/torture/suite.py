"""What a suite of the torture is, and what it hands back."""

from __future__ import annotations

import importlib
import pkgutil
import traceback
from collections import Counter
from typing import Any, Literal, Protocol

from msgspec import Struct, field

from tests.torture import suites

Kind = Literal["lost", "wrong", "error", "bounds"]
KINDS: tuple[Kind, ...] = ("lost", "wrong", "error", "bounds")


class Unavailable(Exception):  # noqa: N818
    """A suite or a part of it cannot run on this machine; the reason is the message."""


class Violation(Struct, frozen=True):
    """Something that must not be: what, in which round, and whatever helps to understand it."""

    kind: Kind
    what: str
    seed: int
    facts: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        facts = "".join(f"\n    {name}: {value}" for name, value in self.facts.items())
        return f"{self.kind.upper()} (seed {self.seed}): {self.what}{facts}"


class Tally(Struct):
    """What a round tried, and what it found."""

    counts: Counter[str] = field(default_factory=Counter)
    violations: list[Violation] = field(default_factory=list)

    def count(self, what: str, number: int = 1) -> None:
        """So much more of something was tried."""
        self.counts[what] += number

    def violation(self, kind: Kind, what: str, *, seed: int, **facts: Any) -> None:
        """Note what must not be; the facts are texts, numbers and lists of them."""
        self.violations.append(Violation(kind, what, seed, facts))

    def add(self, other: Tally) -> None:
        """Take over all that another round tells."""
        self.counts.update(other.counts)
        self.violations += other.violations


class Suite(Protocol):
    """One subject of the torture; see `tests.torture`."""

    @property
    def name(self) -> str:
        """What `--suite` says."""

    @property
    def quick(self) -> tuple[int, ...]:
        """The seeds of the rounds that `make test` plays."""

    @property
    def quick_seconds(self) -> float:
        """How long such a round may go on."""

    def run(self, seed: int, deadline: float) -> Tally:
        """One round, which follows from the seed and ends at the deadline."""


def played(suite: Suite, seed: int, deadline: float) -> Tally:
    """One round; an exception of it is a violation as well, so that the others go on."""
    try:
        return suite.run(seed, deadline)
    except Unavailable as reason:
        return Tally(Counter({f"left out: {reason}": 1}))
    except Exception as error:
        tally = Tally()
        tally.violation(
            "error", f"the round ended with {error!r}", seed=seed, traceback=traceback.format_exc()
        )
        return tally


def all_suites() -> dict[str, Suite]:
    """Every suite, by its name."""
    found: list[Suite] = []
    for module in pkgutil.iter_modules(suites.__path__):
        suite = getattr(importlib.import_module(f"{suites.__name__}.{module.name}"), "SUITE", None)
        if suite is not None:
            found.append(suite)
    return {suite.name: suite for suite in sorted(found, key=lambda suite: suite.name)}

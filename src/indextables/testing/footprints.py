"""Which storage calls can be told from one another's order, and whose calls have to be tried next.

Two calls commute if neither order gives another answer or another content. A set of actors is enough to go on with if no call
that the others may still make fails to commute with the next calls of the set: whatever schedule begins with calls of the
others, the first call of the set in it could have come before them, with the same answers to all and the same content in
the end. Schedules end, so by trying the calls of such a set alone no end is lost (it is what the literature calls a
persistent set).

What an actor may still make is not known before it was seen. It is taken for what was seen of it so far, and every choice
is looked at again when more was seen, until all choices stand with all that was seen. That is enough: were there a schedule
with a call that a choice did not reckon with, take the first such call in the shortest such schedule. All before it commutes
with the calls chosen, so it also comes after them, in a schedule that has less to go and was tried; so it was seen.
Faults change nothing in this: what they cost is the same in every order, and a call can always end without one.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any

Call = tuple[Any, ...]


def commute(one: Call, other: Call, content: Container[str]) -> bool:
    """Whether the order of two calls of different actors cannot be told, as long as what they look at is as it is here.

    Whoever changes that fails to commute as well and is found first. So what would create a file that is there, or delete
    one that is not, is nothing but a look.
    """
    if one[0] == "list" or other[0] == "list":
        single, listing = (other, one) if one[0] == "list" else (one, other)
        return single[0] == "list" or not _changes(single, content) or not _covers(listing, str(single[1]))
    if one[1] != other[1] or one[0] == other[0] == "delete":
        return True
    # Where neither changes anything here, neither makes the other change something.
    return not _changes(one, content) and not _changes(other, content)


def _changes(call: Call, content: Container[str]) -> bool:
    verb, path = call[:2]
    if verb == "create":
        return path not in content
    return verb == "put" or (verb == "delete" and path in content)


def _covers(listing: Call, path: str) -> bool:
    _, prefix, start_after = listing
    folder = prefix.rstrip("/") + "/" if prefix else ""
    return path.startswith(folder) and (start_after is None or path > start_after)


class Footprints:
    """The calls that were seen, each a bit of a number: a set of calls is a number, whatever data they write."""

    def __init__(self) -> None:
        self._calls: list[Call] = []
        self._bits: dict[Call, int] = {}
        self._obstacles: dict[tuple[int, Call], tuple[int, int]] = {}

    def bit(self, call: Call) -> int:
        """The number of the set of this call alone."""
        plain = call if call[0] == "list" else call[:2]
        if plain not in self._bits:
            self._bits[plain] = 1 << len(self._calls)
            self._calls.append(plain)
        return self._bits[plain]

    def obstacles(self, number: int, content: Container[str], call: Call) -> int:
        """The calls that do not commute with one, in a content that has a number."""
        plain = call if call[0] == "list" else call[:2]
        known, found = self._obstacles.get((number, plain), (0, 0))
        if known < len(self._calls):
            for place in range(known, len(self._calls)):
                if not commute(plain, self._calls[place], content):
                    found |= 1 << place
            self._obstacles[number, plain] = len(self._calls), found
        return found


def enough(obstacles: Sequence[int], futures: Sequence[int], begin: Sequence[int]) -> list[int]:
    """The actors that have to go on if those in `begin` do, given what is in the way of the next call of each, and what each
    may still call."""
    chosen = list(begin)
    for member in chosen:  # which grows meanwhile
        hindered = obstacles[member]
        chosen += [i for i, future in enumerate(futures) if future & hindered and i not in chosen]
    return chosen


def fewest(obstacles: Sequence[int], futures: Sequence[int], able: Sequence[int]) -> list[int]:
    """The smallest set of actors that is enough."""
    return min((enough(obstacles, futures, [i]) for i in able), key=len)

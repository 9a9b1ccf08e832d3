"""The store's clock: ages and the order of times are measured by it, whatever this machine believes.

Only a file that was just written tells what time it is in the store. A cleaner writes one (`_transaction_log/_clock`)
before it deletes anything; if the two clocks differ by more than five minutes it deletes nothing and says so, for then
nobody can tell which one is wrong. What a version says of its own time is bounded by the time of its file: a writer from
the future dates its commits no later than the store received them, and does not push those of others ahead.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from indextables.errors import RefusedError
from indextables.log import log_files
from indextables.storage.store import Store

MOST_SKEW_MS = 5 * 60_000
"""So far the clocks of this machine and of the store may differ before a cleaner stops."""
GRAIN_MS = 1_000
"""Stores tell times in whole seconds, so a time may be later than its file's by as much."""


class StoreClock(Struct, frozen=True):
    """Tells the store's time. `now_ms` is this machine's clock."""

    store: Store
    now_ms: Callable[[], int]

    def tell(self) -> int:
        """What time it is in the store (ms since 1970); RefusedError if this machine's clock is far off.

        A store that does not say is taken to agree: no file in it has an age, so none is ever old enough.
        """
        before_ms = self.now_ms()
        self.store.put(log_files.CLOCK, b"")
        after_ms = self.now_ms()
        written = self.store.head(log_files.CLOCK)
        if written is None or written.last_modified_ms is None:
            return before_ms
        self._check(before_ms, after_ms, written.last_modified_ms)
        return written.last_modified_ms

    def _check(self, before_ms: int, after_ms: int, store_ms: int) -> None:
        """The file was written between two looks at this machine's clock; a slow request is no skew."""
        ahead_ms, behind_ms = before_ms - store_ms, store_ms - after_ms
        if max(ahead_ms, behind_ms) <= MOST_SKEW_MS:
            return
        way = "ahead of" if ahead_ms > 0 else "behind"
        raise RefusedError(
            f"The clock of this machine is {_span(max(ahead_ms, behind_ms))} {way} that of {self.store.url}: nothing was "
            "deleted, for what is old cannot be told.",
            hint="Set this machine's clock (or the store's), and run it again.",
            path=self.store.url,
            skew_ms=ahead_ms if ahead_ms > 0 else -behind_ms,
        )


def bounded_time(recorded_ms: int | None, file_ms: int | None) -> int:
    """The time that a file says of itself, but no later than the store received it; the store's where it says none."""
    if recorded_ms is None or not 0 < recorded_ms <= _LAST_MS:
        return file_ms or 0
    return recorded_ms if file_ms is None else min(recorded_ms, file_ms + GRAIN_MS)


_LAST_MS = 253_402_300_799_999
"""The end of the year 9999: no calendar here goes further, and whatever is beyond it was never a time."""


def _span(ms: int) -> str:
    minutes = ms / 60_000
    if minutes < 120:
        return f"{minutes:.0f} minutes"
    return f"{minutes / 60:.1f} hours" if minutes < 48 * 60 else f"{minutes / 1440:.1f} days"

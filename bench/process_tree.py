"""CPU time of a process and of everything it has started, from /proc."""

from __future__ import annotations

import os
import threading
from collections import defaultdict
from pathlib import Path
from types import TracebackType

_TICKS = os.sysconf("SC_CLK_TCK")
_LOOK_EVERY = 0.2


class CpuMeter:
    """The CPU time that this process and its descendants take while it is on, in `seconds`.

    It looks at all of them again and again and keeps the most that each was seen to have taken: a
    worker that ends keeps what it had, but for its last moments, whether or not its parent asks
    after it. So the sum never goes down.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self._first: dict[tuple[int, int], float] = {}
        self._last: dict[tuple[int, int], float] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="cpu-meter", daemon=True)

    def __enter__(self) -> CpuMeter:
        self._first = _times()
        self._last = dict(self._first)
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        self._thread.join()
        self._look()
        self.seconds = sum(
            last - self._first.get(process, 0.0) for process, last in self._last.items()
        )

    def _watch(self) -> None:
        while not self._over.wait(_LOOK_EVERY):
            self._look()

    def _look(self) -> None:
        for process, seconds in _times().items():
            self._last[process] = max(seconds, self._last.get(process, 0.0))


def _times() -> dict[tuple[int, int], float]:
    """Own user and system time of this process and each descendant, by its number and when it was
    started.
    """
    times: dict[int, tuple[int, float]] = {}
    children: defaultdict[int, list[int]] = defaultdict(list)
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            text = (folder / "stat").read_text()
        except OSError:
            continue
        # The name of the program, in brackets, may hold anything.
        fields = text[text.rindex(")") + 2 :].split()
        pid = int(folder.name)
        children[int(fields[1])].append(pid)
        times[pid] = int(fields[19]), (int(fields[11]) + int(fields[12])) / _TICKS
    found: dict[tuple[int, int], float] = {}
    waiting = [os.getpid()]
    while waiting:
        pid = waiting.pop()
        if pid in times:
            found[pid, times[pid][0]] = times[pid][1]
        waiting += children[pid]
    return found

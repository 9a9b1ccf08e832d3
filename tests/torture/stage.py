"""Processes of actors: started from a server that has everything loaded, stopped, woken, killed,
and none left behind.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.support.places import StorePlace
from tests.support.servers import ServerUnavailableError, azure_server, s3_server
from tests.torture.actors import Part, play
from tests.torture.suite import Unavailable

_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload(["__main__", "tests.torture.preload"])
KINDS = ("disk", "s3", "azure")


@contextmanager
def place_of(kind: str) -> Iterator[StorePlace]:
    """An empty place of a kind, gone afterwards."""
    if kind == "disk":
        with fresh_folder() as folder:
            yield StorePlace(str(folder / "t"))
        return
    try:
        with s3_server() if kind == "s3" else azure_server() as place:
            yield place.below("t")
    except ServerUnavailableError as reason:
        raise Unavailable(str(reason)) from reason


@contextmanager
def fresh_folder() -> Iterator[Path]:
    """A folder of its own, gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="torture-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class Stage:
    """The actors of a round. Leaving the block kills whoever is still there."""

    def __init__(
        self, place: StorePlace, options: dict[str, Any], *, seed: int, folder: Path
    ) -> None:
        self.place, self.options, self.seed, self.folder = (
            place,
            {**place.options, **options},
            seed,
            folder,
        )
        self.kills = self.wakings = 0
        self._actors: dict[int, BaseProcess] = {}
        self._asleep: dict[int, float] = {}
        self._number = len(
            list(folder.glob("*.jsonl"))
        )  # those of an earlier stage of the same round

    def __enter__(self) -> Stage:
        return self

    def __exit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        for process in self._actors.values():
            process.kill()
            process.join()

    def start(self, role: str, seconds: float, **more: Any) -> int:
        """Another actor; returns its number."""
        self._number += 1
        journal = str(self.folder / f"{self._number:04d}.jsonl")
        part = Part(
            role, self.place.url, self.options, self._number, self.seed, seconds, journal, **more
        )
        process = _processes.Process(target=play, args=(part,), daemon=True)
        process.start()
        self._actors[self._number] = process
        return self._number

    def alive(self, number: int) -> bool:
        """Whether an actor is still there, be it asleep."""
        return self._actors[number].is_alive()

    def stopped(self, number: int) -> bool:
        """Whether an actor is stopped."""
        with suppress(OSError):
            stat = Path(f"/proc/{self._actors[number].pid}/stat").read_text()
            return stat.rpartition(")")[2].split()[0] == "T"
        return False

    def stop(self, number: int) -> None:
        """Stop an actor wherever it is."""
        self._signal(number, signal.SIGSTOP)

    def wake(self, number: int) -> None:
        """Let an actor go on."""
        self.wakings += 1
        self._asleep.pop(number, None)
        self._signal(number, signal.SIGCONT)

    def kill(self, number: int) -> None:
        """Kill an actor wherever it is."""
        self.kills += 1
        self._actors[number].kill()
        self._actors[number].join()

    def wake_sleepers(self, rng: random.Random, *, longest: float) -> None:
        """Those who are stopped sleep for a random time, some of them long; call this again and
        again.
        """
        now = time.monotonic()
        for number in self._actors:
            if not self.stopped(number):
                continue
            if number not in self._asleep:
                self._asleep[number] = now + rng.choice([0.05, 0.3, 1.0, longest])
            elif now >= self._asleep[number]:
                self.wake(number)

    def wait_for(self, number: int, seconds: float) -> None:
        """Until an actor has ended, or the time is over."""
        end = time.monotonic() + seconds
        while self.alive(number) and time.monotonic() < end:
            time.sleep(0.01)

    def finish(self, seconds: float) -> list[int]:
        """Wake everybody until all have ended; returns those that did not in time."""
        end = time.monotonic() + seconds
        while any(self.alive(number) for number in self._actors) and time.monotonic() < end:
            for number in self._actors:
                if self.stopped(number):
                    self.wake(number)
            time.sleep(0.02)
        return [number for number in self._actors if self.alive(number)]

    def _signal(self, number: int, what: signal.Signals) -> None:
        pid = self._actors[number].pid
        if pid is not None and self.alive(number):
            with suppress(ProcessLookupError):
                os.kill(pid, what)

"""A log that is written, rotated in every way, truncated, packed and followed by a process that is
killed and stopped.
"""

from __future__ import annotations

import gzip
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from indextables import Table
from indextables.errors import TableNotFoundError
from tests.support.logrotate import LOGROTATE, rotate
from tests.torture.stage import fresh_folder
from tests.torture.suite import Tally

COMMAND = str(Path(sys.executable).with_name("indextables"))
END_S = 60.0
"""The longest that a follower takes for what is left after the last line was written."""


class Rotation:
    """One log and one table per round."""

    name = "rotation"
    quick = (1, 2)
    quick_seconds = 10.0

    def run(self, seed: int, deadline: float) -> Tally:
        """One round."""
        tally = Tally()
        with fresh_folder() as folder:
            log = _Log(folder, random.Random(seed), tally)
            try:
                log.play(deadline)
                log.judge(seed)
            finally:
                log.end()
        return tally


class _Log:
    def __init__(self, folder: Path, rng: random.Random, tally: Tally) -> None:
        self.folder, self.rng, self.tally = folder, rng, tally
        self.path, self.table, self.errors = folder / "app.log", folder / "t", folder / "errors"
        self.running: subprocess.Popen[bytes] | None = None
        self.written = self.rows = 0
        self.doubtful: set[int] = set()
        """Lines that were truncated without a copy, perhaps before they were read."""

        by_hand = [
            self.rename,
            self.rename,
            self.copy_and_truncate,
            self.copy_and_truncate,
            self.pack,
            self.write_to_rotated,
        ]
        self.modes = rng.choice(
            [["create"], ["copytruncate"], ["create", "compress"], ["copytruncate", "compress"]]
        )
        self.ways = by_hand if LOGROTATE is None or rng.random() < 0.6 else [self.logrotate] * 4

    def play(self, deadline: float) -> None:
        self.write()
        self.start()
        if not self.wait_for(set(range(self.written)), END_S):
            return
        while time.monotonic() < deadline:
            act = self.rng.choice(
                [*([self.write] * 6), *self.ways, self.truncate, self.kill, self.kill, self.stop]
            )
            self.tally.count(act.__name__.replace("_", " "))
            act()
            time.sleep(self.rng.choice([0, 0, 0.02, 0.1, 0.5]))
            if self.running is None and self.rng.random() < 0.5:
                self.start()

    def judge(self, seed: int) -> None:
        """Every line is a row once; what is missing was truncated, and is reported."""
        self.wake()
        if self.running is None:
            self.start()
        wanted = set(range(self.written))
        while not self.wait_for(wanted - self.doubtful, END_S) and self._moves():
            self.tally.count("waits for a follower that was slow")
        time.sleep(1)
        found = self.numbers()
        self.tally.count("lines", self.written)
        report = self.errors.read_text() if self.errors.exists() else ""
        missing, twice = wanted - set(found), {n for n in found if found.count(n) > 1}
        if missing - self.doubtful:
            self.tally.violation(
                "lost",
                f"lines {sorted(missing - self.doubtful)[:20]} are gone",
                seed=seed,
                report=report,
            )
        if twice:
            self.tally.violation(
                "wrong", f"lines {sorted(twice)[:20]} are there twice", seed=seed, report=report
            )
        # A file of which nothing was read may be truncated unseen; everything else is reported.
        self.tally.count("rounds with a report of missing lines", "may be missing" in report)
        if self.running is not None and self.running.poll() is not None:
            self.tally.violation(
                "error", f"the follower ended with {self.running.poll()}", seed=seed, report=report
            )
        self.tally.count("lines truncated before they were read", len(missing))

    # What is done.

    def write(self, path: Path | None = None) -> None:
        """Some lines; at times the last one in two halves."""
        with (path or self.path).open("ab", buffering=0) as file:
            for _ in range(self.rng.choice([1, 1, 5, 50])):
                line = f"n={self.written} {'x' * self.rng.choice([0, 10, 200])}\n".encode()
                cut = self.rng.randrange(len(line)) if self.rng.random() < 0.1 else len(line)
                file.write(line[:cut])
                if cut < len(line):
                    time.sleep(self.rng.choice([0, 0.1]))
                    file.write(line[cut:])
                self.written += 1

    def rotated(self) -> list[Path]:
        return sorted(self.folder.glob("app.log.*"), key=lambda path: int(path.name.split(".")[2]))

    def _make_room(self) -> Path:
        for path in reversed(self.rotated()):
            _, _, number, *packed = path.name.split(".")
            path.rename(self.folder / ".".join(["app", "log", str(int(number) + 1), *packed]))
        return self.folder / "app.log.1"

    def rename(self) -> None:
        if self.path.stat().st_size:
            self.path.rename(self._make_room())
            if self.rng.random() < 0.3:
                time.sleep(0.1)
            self.path.touch()

    def copy_and_truncate(self) -> None:
        if self.path.stat().st_size:
            copy = self._make_room()
            shutil.copyfile(self.path, copy)
            if self.rng.random() < 0.3:
                time.sleep(0.1)
            os.truncate(self.path, 0)

    def logrotate(self) -> None:
        """The real one, in one mode for a round: it does not find its files again in another."""
        rotate(self.path, self.modes, keep=999)

    def pack(self) -> None:
        """Pack a rotated file that is not written to any more, as logrotate does: a new file with
        the old time.
        """
        plain = [path for path in self.rotated()[1:] if path.suffix != ".gz"]
        if plain:
            path = self.rng.choice(plain)
            times = path.stat().st_atime_ns, path.stat().st_mtime_ns
            packed = path.with_name(f"{path.name}.gz")
            with gzip.open(packed, "wb") as file:
                file.write(path.read_bytes())
            os.utime(packed, ns=times)
            path.unlink()

    def write_to_rotated(self) -> None:
        """A writer that did not yet open the new file; only what was renamed is written to."""
        self.rename()
        newest = self.folder / "app.log.1"
        if newest.exists():
            self.write(newest)

    def truncate(self) -> None:
        lines = self.path.read_bytes().splitlines()
        self.doubtful |= {int(line.split()[0][2:]) for line in lines if line.startswith(b"n=")}
        os.truncate(self.path, 0)

    # The follower.

    def start(self) -> None:
        words = (
            "append",
            self.table,
            self.path,
            "--create",
            "--follow",
            "--interval",
            "0.05",
            "--pattern",
            "n=%{INT:n} .*",
        )
        with self.errors.open("ab") as errors:
            self.running = subprocess.Popen(
                [COMMAND, *map(str, words)], stdout=subprocess.DEVNULL, stderr=errors
            )

    def kill(self) -> None:
        self.end()

    def end(self) -> None:
        if self.running is not None:
            self.running.kill()
            self.running.wait()
            self.running = None

    def stop(self) -> None:
        if self.running is not None:
            self.running.send_signal(signal.SIGSTOP if self.rng.random() < 0.5 else signal.SIGCONT)

    def wake(self) -> None:
        if self.running is not None:
            self.running.send_signal(signal.SIGCONT)

    def wait_for(self, wanted: set[int], seconds: float) -> bool:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if wanted <= set(self.numbers()) or (
                self.running is not None and self.running.poll() is not None
            ):
                return True
            time.sleep(0.1)
        return False

    def _moves(self) -> bool:
        """Return whether the follower added rows since the last call."""
        rows = len(self.numbers())
        moves, self.rows = rows > self.rows, rows
        return moves

    def numbers(self) -> list[int]:
        try:
            return [
                row["n"]
                for row in Table.open(str(self.table)).scan(columns=["n"]).read_all().to_pylist()
            ]
        except TableNotFoundError:
            return []


SUITE = Rotation()

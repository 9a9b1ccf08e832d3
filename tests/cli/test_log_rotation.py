"""A log that is followed while it rotates: every line once, and what may be missing is reported."""

from __future__ import annotations

import gzip
import hashlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

from indextables import Table
from indextables.errors import TableNotFoundError
from tests.cli.calls import COMMAND
from tests.support.logrotate import LOGROTATE, rotate

WAIT_S = 60


class Log:
    """A log of numbered lines, the table that follows it, and the follower."""

    def __init__(self, folder: Path) -> None:
        self.path, self.table = folder / "app.log", folder / "t"
        self.written = 0
        self.errors = folder / "errors"
        self.running: subprocess.Popen[bytes] | None = None

    def write(self, count: int, path: Path | None = None, end: str = "\n") -> None:
        """More lines, each with the next number."""
        with (path or self.path).open("a") as file:
            for _ in range(count):
                file.write(f"n={self.written} {'x' * 30}{end}")
                self.written += 1

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

    def end(self, how: int = signal.SIGKILL) -> None:
        if self.running is not None:
            self.running.send_signal(how)
            self.running.wait(timeout=WAIT_S)
            self.running = None

    @contextmanager
    def asleep(self) -> Iterator[None]:
        """The follower does not run for a while."""
        assert self.running is not None
        self.running.send_signal(signal.SIGSTOP)
        yield
        self.running.send_signal(signal.SIGCONT)

    def numbers(self) -> list[int]:
        try:
            return sorted(row["n"] for row in Table.open(str(self.table)))
        except TableNotFoundError:
            return []

    def reported(self) -> str:
        return self.errors.read_text() if self.errors.exists() else ""

    def expect_all(self, *, without: range = range(0)) -> None:
        """Wait until every line is a row, once."""
        wanted = [n for n in range(self.written) if n not in without]
        deadline = time.monotonic() + WAIT_S
        while self.numbers() != wanted and time.monotonic() < deadline:
            assert self.running is None or self.running.poll() is None, self.reported()
            time.sleep(0.1)
        assert self.numbers() == wanted, self.reported()
        time.sleep(0.3)  # some more scans: no line comes twice
        assert self.numbers() == wanted, self.reported()

    def wait_for_report(self, text: str) -> None:
        deadline = time.monotonic() + WAIT_S
        while text not in self.reported() and time.monotonic() < deadline:
            time.sleep(0.1)
        assert text in self.reported()

    def rename(self) -> None:
        """Rotate as logrotate does by default: rename, and create an empty file."""
        for number in range(8, 0, -1):
            old = self.path.with_name(f"app.log.{number}")
            if old.exists():
                old.rename(self.path.with_name(f"app.log.{number + 1}"))
        self.path.rename(self.path.with_name("app.log.1"))
        self.path.touch()


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    made = Log(tmp_path)
    yield made
    if made.running is not None:
        made.running.send_signal(signal.SIGCONT)
    made.end()


def logrotate(log: Log, *modes: str) -> None:
    """One rotation by the real logrotate."""
    if LOGROTATE is None:
        pytest.skip("logrotate is not installed (apt-get install logrotate)")
    rotate(log.path, modes, keep=9)


MODES = {
    "create": ("create",),
    "copytruncate": ("copytruncate",),
    "create and compress": ("create", "compress"),
    "copytruncate and compress": ("copytruncate", "compress"),
    "dated names": ("create", "dateext", "dateformat -%Y%m%d-%s"),
    "dates before the ending": ("create", "dateext", "dateformat -%Y%m%d-%s", "extension .log"),
}


@pytest.mark.parametrize("mode", MODES)
def test_logrotate_rotates_a_log_that_is_followed(log: Log, mode: str) -> None:
    log.write(5)
    log.start()
    log.expect_all()
    for _ in range(3):
        log.write(20)
        logrotate(log, *MODES[mode])
        log.write(3)
        time.sleep(1.1 if "dateext" in MODES[mode] else 0.2)
    log.expect_all()


@pytest.mark.parametrize("mode", MODES)
def test_logrotate_rotates_twice_while_nothing_follows(log: Log, mode: str) -> None:
    log.write(5)
    log.start()
    log.expect_all()
    log.end()
    for _ in range(2):
        log.write(20)
        logrotate(log, *MODES[mode])
        time.sleep(1.1 if "dateext" in MODES[mode] else 0)
    log.write(3)
    log.start()
    log.expect_all()


@pytest.mark.parametrize("mode", ["create", "copytruncate"])
def test_logrotate_rotates_twice_between_two_scans(log: Log, mode: str) -> None:
    log.write(5)
    log.start()
    log.expect_all()
    with log.asleep():
        for count in (4, 6):
            log.write(count)
            logrotate(log, mode)
        log.write(2)
    log.expect_all()
    if mode == "copytruncate":
        log.wait_for_report(
            "lines that were written between the copy and the truncation are in neither"
        )


def test_a_renamed_file_that_is_still_written_to_is_read_to_its_end(log: Log) -> None:
    log.write(5)
    log.start()
    log.expect_all()
    log.rename()
    log.write(3)
    rotated = log.path.with_name("app.log.1")
    log.write(4, rotated)
    log.expect_all()
    time.sleep(1)  # long enough for the follower to let go of it
    log.write(4, rotated)
    log.write(1, end="")
    log.expect_all(without=range(log.written - 1, log.written))
    log.rename()
    log.expect_all()


def test_files_that_were_rotated_before_the_first_start_are_not_read(log: Log) -> None:
    log.path.with_name("app.log.2").write_text("n=1000 old\n")
    with gzip.open(log.path.with_name("app.log.3.gz"), "wt") as packed:
        packed.write("n=1001 old\n")
    time.sleep(0.1)
    log.write(2)
    for _ in range(2):
        log.start()
        log.expect_all()
        log.end()


def test_a_file_that_is_truncated_in_place_is_read_from_its_start_and_reported(log: Log) -> None:
    log.write(9)
    log.start()
    log.expect_all()
    with log.asleep():
        log.write(4)
        log.path.write_text("")
        log.write(2)
    log.expect_all(without=range(9, 13))
    log.wait_for_report("was truncated, or replaced in place, after byte")
    notes = Table.open(str(log.table)).history().column("user_metadata").to_pylist()
    assert any(note and "may be missing" in note for note in notes)


def test_a_file_that_grew_beyond_its_old_length_after_a_truncation_mangles_no_row(log: Log) -> None:
    log.write(3)
    log.start()
    log.expect_all()
    log.end()
    log.path.write_text("")
    log.write(30)
    log.start()
    log.expect_all()
    assert "may be missing" in log.reported()


def test_a_reused_inode_is_another_file(log: Log) -> None:
    log.write(3)
    log.start()
    log.expect_all()
    log.end()
    inode = log.path.stat().st_ino
    log.path.rename(log.path.with_name("app.log.1"))
    other = log.path.with_name("app.log.1")
    content = other.read_bytes()
    other.rename(
        log.path
    )  # what was app.log.1 gets the inode of a new file, and app.log the old inode
    other.write_bytes(content)
    log.path.write_text("")
    log.write(10, other)
    log.write(10)
    assert log.path.stat().st_ino == inode
    log.start()
    log.expect_all()


def test_a_file_that_is_gone_is_reported(log: Log) -> None:
    log.write(3)
    log.start()
    log.expect_all()
    log.end()
    log.write(2)
    log.path.rename(log.path.with_name("removed"))
    log.write(4)
    log.start()
    log.expect_all(without=range(3, 5))
    log.wait_for_report("is gone, and no rotated file holds what was read of it")


def test_a_hole_that_a_truncation_left_is_skipped_and_reported(log: Log) -> None:
    log.write(400)
    log.start()
    log.expect_all()
    with log.asleep():
        end = log.path.stat().st_size
        os.truncate(log.path, 0)
        os.truncate(log.path, end)  # what a writer leaves that goes on at its old offset
        log.write(3)
    log.expect_all()
    log.wait_for_report("bytes that were never written")


def test_rotation_is_followed_through_kills(log: Log) -> None:
    log.write(1)
    log.start()
    log.expect_all()
    for number in range(8):
        log.write(50)
        log.rename() if number % 2 else logrotate(log, "copytruncate")
        log.write(7)
        time.sleep(number / 3)
        log.end()
        log.write(5)
        log.start()
    log.expect_all()


def test_the_offset_of_an_older_release_is_continued(log: Log) -> None:
    log.write(2)
    status = log.path.stat()
    digest = hashlib.sha256(
        f"{log.path.absolute()}:{(status.st_dev, status.st_ino)}".encode()
    ).hexdigest()[:16]
    table = Table.create(str(log.table), schema=pa.schema([("n", pa.int64())]))
    table.append([{"n": 0}, {"n": 1}], txn=(f"file:app.log:{digest}", status.st_size))
    log.write(2)
    log.start()
    log.expect_all()

"""Spark applications that are killed, raced, made to fail, and told to read otherwise; the rows
stay what was committed.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from indextables import Table
from indextables.errors import TableNotFoundError
from tests.support.quick_jvm import QUICK_JVM
from tests.torture.spark_batches import BATCH, after
from tests.torture.suite import Kind, Tally, Unavailable

HOME = Path(__file__).parents[3]
START_S = 40.0
"""How long a Spark driver may take until it is ready; on a busy machine it does."""
SETTLE_S = 300.0
"""How much longer an operation may go on that nobody disturbs any more."""
STUCK_S = 180.0
"""A stream that makes no file for so long is stuck."""


class Driver:
    """A Spark application in a process group of its own."""

    def __init__(self, folder: Path, **asked: Any) -> None:
        self.folder = folder
        self.journal = folder / str(asked.setdefault("journal", "journal"))
        self.journal.unlink(missing_ok=True)
        clean = {
            k: v
            for k, v in os.environ.items()
            if not k.startswith(("PYSPARK_", "SPARK_", "PYTEST_"))
        }
        clean |= {"SPARK_LOCAL_DIRS": str(folder / "spark"), **QUICK_JVM}
        self.output = (folder / f"{asked['journal']}.out").open("ab")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.torture.spark_driver", json.dumps({**asked, "folder": str(folder)})],
            cwd=HOME, env=clean, stdout=self.output, stderr=self.output, start_new_session=True,
        )  # fmt: skip

    def __enter__(self) -> Driver:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self.output.close()

    def kill(self) -> None:
        """End the application and all that it started, at once."""
        for group in (*self.executors(), self.process.pid):
            try:
                os.killpg(group, signal.SIGKILL) if group == self.process.pid else os.kill(
                    group, signal.SIGKILL
                )
            except ProcessLookupError:
                continue
        self.process.wait()

    def executors(self) -> list[int]:
        """The executor processes of a `local-cluster`."""
        found = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                told = (entry / "cmdline").read_bytes().split(b"\0")
                ours = os.getsid(int(entry.name)) == os.getsid(self.process.pid)
            except (OSError, ProcessLookupError):
                continue
            if ours and any(b"CoarseGrainedExecutorBackend" in word for word in told):
                found.append(int(entry.name))
        return found

    def notes(self) -> list[dict[str, Any]]:
        """What the application has noted so far."""
        if not self.journal.exists():
            return []
        return [
            json.loads(line)
            for line in self.journal.read_text().splitlines(keepends=True)
            if line.endswith("\n")
        ]

    def wait_for(self, wanted: Callable[[list[dict[str, Any]]], bool], seconds: float) -> bool:
        """Whether the notes come to say something before the time is over and before the
        application ends.
        """
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            ended = self.process.poll() is not None
            if wanted(self.notes()):
                return True
            if ended:
                return False
            time.sleep(0.02)
        return False

    def ready(self) -> None:
        """Wait until Spark has started."""
        if not self.wait_for(lambda notes: any("ready" in n for n in notes), START_S * 3):
            tail = (self.folder / f"{self.journal.name}.out").read_text(errors="replace")[-600:]
            raise Unavailable(f"Spark does not start here: {tail}")


class Spark:
    """One scenario in each round."""

    name = "spark"
    quick = (0,)
    quick_seconds = 15.0

    def run(self, seed: int, deadline: float) -> Tally:
        """One round."""
        tally = Tally()
        scenario = SCENARIOS[seed % len(SCENARIOS)]
        tally.count(f"rounds of {scenario.__name__.replace('_', ' ')}")
        with fresh_folder() as folder, ExitStack() as stack:
            scenario(Round(folder, seed, deadline, tally, stack))
        return tally


@contextmanager
def fresh_folder() -> Iterator[Path]:
    """A folder that is gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="torture-spark-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class Round:
    """A round on one table."""

    def __init__(
        self, folder: Path, seed: int, deadline: float, tally: Tally, stack: ExitStack
    ) -> None:
        self.folder, self.seed, self.deadline, self.tally = folder, seed, deadline, tally
        self.rng = random.Random(seed)
        self.stack = stack

    @property
    def left(self) -> float:
        """Seconds until the end."""
        return self.deadline - time.monotonic()

    def driver(self, **asked: Any) -> Driver:
        """Start an application, which is gone when the round ends."""
        self.tally.count("applications started")
        return self.stack.enter_context(
            Driver(self.folder, seed=self.rng.randrange(1 << 30), **asked)
        )

    def rows(self, name: str = "table") -> Counter[int]:
        """The ids in a table, and how often each is there; none if there is no table."""
        try:
            found = (
                Table.open(str(self.folder / name))
                .scan(columns=["id"])
                .read_all()["id"]
                .to_pylist()
            )
        except TableNotFoundError:
            return Counter()
        self.tally.count("rows accounted", len(found))
        return Counter(found)

    def judge(self, what: str, allowed: list[list[int]], **facts: Any) -> list[int]:
        """Which of some lists of batches the table holds; anything else is a violation."""
        found = self.rows()
        for batches in allowed:
            if found == Counter(i for b in batches for i in range(b * BATCH, (b + 1) * BATCH)):
                return batches
        held = sorted({i // BATCH for i in found})
        certain = set.intersection(*(set(a) for a in allowed))
        missing = sorted(
            b
            for b in certain
            if sum(found[i] > 0 for i in range(b * BATCH, (b + 1) * BATCH)) < BATCH
        )
        kind: Kind = "lost" if missing else "wrong"
        self.tally.violation(
            kind, what, seed=self.seed, allowed=allowed, held=held, rows=found.total(), **facts
        )
        return held

    def possible(
        self, live: list[int], notes: list[dict[str, Any]], *, fails: bool = False
    ) -> list[list[int]]:
        """What a table may hold after what an application noted: an operation without an answer is
        there or not.
        """
        allowed = [live]
        for note in notes:
            op = note.get("begin") or note.get("done") or note.get("failed")
            if op is None:
                continue
            if "begin" in note:
                allowed = [live, after(live, op)]
            elif "done" in note:
                live = after(live, op)
                allowed = [live]
                self.tally.count("operations acknowledged")
            else:
                self.tally.count("operations that failed")
                # Nothing of it is there, unless it says that nobody knows.
                allowed = [live, after(live, op)] if note["kind"] == "commit_unknown" else [live]
                if not (fails or is_busy(note) or note["kind"] == "table_not_found"):
                    facts = {key: str(value) for key, value in note.items()}
                    self.tally.violation("error", "an operation failed", seed=self.seed, **facts)
        return allowed

    def verify(self) -> None:
        """Nothing that verify finds may be wrong, but for what nobody names."""
        try:
            report = Table.open(str(self.folder / "table")).verify(full=True)
        except TableNotFoundError:
            return
        self.tally.count("tables verified")
        if not report.healthy:
            self.tally.violation(
                "wrong", "verify finds damage", seed=self.seed, findings=str(report)[:1000]
            )


def settings(play: Round) -> None:
    """Settings of the session change how Spark reads other files, and not one row of ours."""
    from tests.torture.spark_settings import make_table

    make_table(str(play.folder / "table"))
    driver = play.driver(do="settings", seconds=max(6.0, play.left - 10))
    driver.ready()
    driver.process.wait(max(play.left, 1) + SETTLE_S)
    for note in driver.notes():
        if "compared" not in note:
            continue
        if is_busy(note):
            play.tally.count("left out: the machine is too busy for Spark")
            continue
        play.tally.count("reads under other settings")
        play.tally.count("rows accounted", note.get("rows", 0))
        if note["compared"] != "same":
            kind: Kind = "lost" if note["compared"] == "lost" else "error"
            play.tally.violation(
                kind,
                "another answer under settings",
                seed=play.seed,
                **{k: str(v) for k, v in note.items()},
            )
    if driver.process.returncode:
        play.tally.violation("error", "the application failed", seed=play.seed, output=tail(driver))


BUSY = ("failed to connect back", "Timed out while waiting for the Python worker", "Heartbeat")
"""What Spark says where the machine is too busy for it to start a Python process in time."""


def is_busy(note: dict[str, Any]) -> bool:
    """Whether an operation failed because the machine is too busy, before any of it was ours."""
    return any(words in str(note.get("error", "")) for words in BUSY)


def tail(driver: Driver) -> str:
    """The end of what an application printed."""
    return (driver.folder / f"{driver.journal.name}.out").read_text(errors="replace")[-1500:]


def killed_writers(play: Round) -> None:
    """A driver is killed at any step of a write, a replacement, a deletion or a merge: all of it is
    there, or nothing.
    """
    live: list[int] = []
    number = 0
    while number == 0 or play.left > 5:
        driver = play.driver(do="write", live=live, next=number)
        driver.ready()
        wait_and_kill(
            play,
            driver,
            ["table/_transaction_log", "table/part=0/splits", "table/part=1/splits", "table"],
        )
        number = max([number, *(op["batch"] + 1 for op in begun(driver.notes()))])
        allowed = play.possible(live, driver.notes())
        live = play.judge(
            "a driver was killed", allowed, notes=[str(n) for n in driver.notes()[-4:]]
        )
    play.verify()


def begun(notes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The operations that an application began."""
    return [note["begin"] for note in notes if "begin" in note]


def wait_and_kill(play: Round, driver: Driver, places: list[str]) -> None:
    """Kill an application a moment after something appears in a folder, or at any moment."""
    place = play.folder / play.rng.choice(places)
    patience = time.monotonic() + play.rng.uniform(0.5, 12)
    before = count_in(place)
    while (
        time.monotonic() < patience and count_in(place) == before and driver.process.poll() is None
    ):
        time.sleep(0.002)
    play.tally.count(
        f"drivers killed at {place.relative_to(play.folder)}"
        if count_in(place) != before
        else "drivers killed"
    )
    time.sleep(play.rng.choice([0, 0, 0.005, 0.02, 0.1, 0.5]))
    driver.kill()


def count_in(folder: Path) -> int:
    """How many files are in a folder."""
    try:
        return sum(1 for _ in folder.iterdir())
    except FileNotFoundError:
        return 0


def make_source(play: Round, name: str = "source", first: int = 0, commits: int = 4) -> Table:
    """A table for a stream to read, a batch of rows in each version."""
    path = str(play.folder / name)
    try:
        table = Table.open(path)
    except TableNotFoundError:
        table = Table.create(path, schema=pa.schema([("id", pa.int64())]))
    for n in range(first, first + commits):
        table.append(pa.table({"id": list(range(n * BATCH, (n + 1) * BATCH))}))
    return table


def without_half_an_offset(checkpoint: Path) -> None:
    """Delete a checkpoint that holds no whole offset, as Spark asks for: no batch has run by then."""
    offsets = checkpoint / "offsets"
    if offsets.exists() and not any(file.name.isdigit() for file in offsets.iterdir()):
        shutil.rmtree(checkpoint)


def streamed(play: Round, journal: str, *, checkpoint: str = "checkpoint") -> list[dict[str, Any]]:
    """Let a stream come to its end undisturbed, however long it takes while something happens; what
    it noted.
    """
    without_half_an_offset(play.folder / checkpoint)
    driver = play.driver(do="stream", finish=True, journal=journal, checkpoint=checkpoint)
    driver.ready()
    seen, patience = -1, time.monotonic() + STUCK_S
    while not driver.wait_for(lambda notes: any("done" in n or "failed" in n for n in notes), 1.0):
        now = sum(1 for _ in play.folder.rglob("*"))
        if now != seen:
            seen, patience = now, time.monotonic() + STUCK_S
        if driver.process.poll() is not None or time.monotonic() > patience:
            output = tail(driver)
            driver.kill()
            raise RuntimeError(f"a stream does not come to its end: {output}")
    driver.kill()
    notes = driver.notes()
    if any(map(is_busy, notes)):
        raise Unavailable("the machine is too busy for Spark")
    return notes


def finished(play: Round, batches: int, **facts: Any) -> None:
    """Let a stream come to its end; then every row is there once."""
    failed = [str(note) for note in streamed(play, "last") if "failed" in note]
    if failed:
        play.tally.violation(
            "error", "a stream cannot go on", seed=play.seed, note=failed[0], **facts
        )
    play.judge("a stream came to its end", [list(range(batches))], **facts)
    play.verify()


def killed_streams(play: Round) -> None:
    """A driver is killed at any step of a stream's batch; started again, it writes every row once."""
    batches = 0
    places = ["checkpoint/offsets", "table/splits", "table/_transaction_log", "checkpoint/commits"]
    while batches == 0 or play.left > 25:
        make_source(play, first=batches)
        batches += 4
        without_half_an_offset(play.folder / "checkpoint")
        driver = play.driver(do="stream")
        driver.ready()
        wait_and_kill(play, driver, places)
    finished(play, batches)


def two_queries_on_one_checkpoint(play: Round) -> None:
    """Two applications run the same query with the same checkpoint; whatever Spark makes of it,
    every row is there once.
    """
    make_source(play, commits=8)
    both = [
        play.driver(do="stream", journal=name, seconds=play.rng.uniform(5, 15))
        for name in ("one", "other")
    ]
    for driver in both:
        driver.ready()
    for driver in both:
        driver.wait_for(lambda notes: any("done" in n or "failed" in n for n in notes), 40)
        driver.kill()
    play.tally.count("queries on one checkpoint", 2)
    finished(play, 8, notes=[str(n)[:300] for d in both for n in d.notes()])


def checkpoints_deleted_and_tables_created_anew(play: Round) -> None:
    """A stream without its checkpoint is refused, and writes again from another; one whose source
    is another table fails.
    """
    make_source(play, commits=3)
    finished(play, 3)
    shutil.rmtree(play.folder / "checkpoint")
    play.tally.count("checkpoints deleted")
    notes = streamed(play, "again")
    if (
        not any("was made anew" in n.get("error", "") for n in notes)
        or play.rows().total() != 3 * BATCH
    ):
        play.tally.violation(
            "wrong",
            "a stream began again from a deleted checkpoint",
            seed=play.seed,
            notes=str(notes),
        )
    streamed(play, "second", checkpoint="second")
    found = play.rows()
    if sorted(found) != list(range(3 * BATCH)) or set(found.values()) != {2}:
        play.tally.violation(
            "lost",
            "a stream that began again sent not all rows",
            seed=play.seed,
            rows=found.total(),
        )
    shutil.rmtree(play.folder / "source")
    commits = play.rng.choice([1, 3, 7])
    make_source(play, first=100, commits=commits)
    play.tally.count("tables created anew under a stream")
    notes = streamed(play, "anew", checkpoint="second")
    if not any("another table than the one" in n.get("error", "") for n in notes):
        play.tally.violation(
            "lost",
            "a stream reads on in another table",
            seed=play.seed,
            notes=str(notes),
            commits=commits,
        )
    if play.rows() != found:
        play.tally.violation("wrong", "rows of another table came", seed=play.seed)


def failing_tasks(play: Round) -> None:
    """Attempts fail, die with their process or are done twice because they are slow: every row is
    there once.
    """
    trouble = play.rng.choice(["fails", "dies", "slow"])
    cluster = trouble == "slow" or play.rng.random() < 0.3
    driver = play.driver(
        do="write", next=0, count=play.rng.choice([3, 5]), verbs=["append", "plain", "replace"], trouble=trouble,
        master="local-cluster[2,1,600]" if cluster else "local[2,4]",
        conf={"spark.speculation": "true", "spark.task.maxFailures": "4"},
    )  # fmt: skip
    driver.ready()
    kills = 0
    while driver.process.poll() is None and play.left > -SETTLE_S:
        time.sleep(play.rng.uniform(1, 4))
        if cluster and kills < 2 and play.rng.random() < 0.4:
            executors = driver.executors()
            if executors:
                os.kill(play.rng.choice(executors), signal.SIGKILL)
                play.tally.count("executors killed")
                kills += 1
    driver.kill()
    allowed = play.possible([], driver.notes(), fails=True)
    play.tally.count(f"task attempts ({trouble})", count_in(play.folder / "attempts"))
    play.judge(
        "tasks failed or were done twice",
        allowed,
        trouble=trouble,
        notes=[str(n)[:400] for n in driver.notes()],
    )
    play.verify()


RACES: list[tuple[str, ...]] = [
    ("append", "plain"),
    ("overwrite", "overwrite"),
    ("error", "error"),
    ("ignore", "append"),
]
LATER: list[tuple[str, ...]] = [
    ("overwrite", "append"),
    ("merge", "merge"),
    ("merge", "replace"),
    ("overwrite", "merge"),
]


def races(play: Round) -> None:
    """Two applications create, overwrite and merge one table at the same moment: as if one had come
    after the other.
    """
    create = play.rng.random() < 0.6
    verbs = play.rng.choice(RACES if create else LATER)
    live: list[int] = []
    if not create:
        first = play.driver(do="write", next=0, count=4, verbs=["append"], journal="first")
        first.process.wait(START_S + SETTLE_S)
        live = [0, 1, 2, 3]
    ops = [{"verb": verb, "batch": 10 + n} for n, verb in enumerate(verbs)]
    both = [play.driver(do="race", op=op, journal=f"racer{n}") for n, op in enumerate(ops)]
    for driver in both:
        driver.ready()
    time.sleep(3)
    (play.folder / "start").touch()
    for driver in both:
        driver.process.wait(START_S + SETTLE_S)
    play.tally.count(f"races of {verbs[0]} and {verbs[1]}")
    done = [n["done"] for d in both for n in d.notes() if "done" in n]
    allowed = [serial(live, order) for order in (done, done[::-1])]
    notes = [str(n)[:300] for d in both for n in d.notes()]
    errors = [op for op in done if op["verb"] == "error"]
    if len(errors) > 1:
        play.tally.violation(
            "wrong", "two applications created one table", seed=play.seed, notes=notes
        )
    play.judge(f"{verbs[0]} and {verbs[1]} raced", allowed, notes=notes)
    play.verify()


def serial(live: list[int], ops: list[dict[str, Any]]) -> list[int]:
    """The batches after some operations, one after the other."""
    for op in ops:
        if op["verb"] in ("error", "ignore"):
            live = live or [op["batch"]]
        else:
            live = after(live, op)
    return live


SCENARIOS: list[Callable[[Round], None]] = [
    settings,
    killed_writers,
    killed_streams,
    failing_tasks,
    races,
    two_queries_on_one_checkpoint,
    checkpoints_deleted_and_tables_created_anew,
]
SUITE = Spark()

"""Fuzz: changed files and odd words, each tried in a process that is watched for time and memory.

A case follows from the seed and its number. The process builds a table once, and for each case
copies it, changes one thing in the copy and does what a reader and a keeper of the table would do.
Only errors of ours may come of it.
"""

from __future__ import annotations

import datetime
import json
import os
import random
import resource
import select
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
from msgspec import Struct, field

from indextables import Table
from indextables.errors import IndexTablesError
from indextables.log.checkpoint.checkpointer import CHECKPOINTS
from indextables.log.history import log_action_rows
from tests.torture.fuzz_files import CHANGES, bundle
from tests.torture.fuzz_words import WORDS

CASE_SECONDS = 20.0
"""More time of the processor than this for one case is a hang, however loaded the machine is."""
SILENCE_SECONDS = 120.0
"""Who does not even compute waits for something: this long at most."""
CASE_MEGABYTES = 700
"""More memory than this for one case is a bomb."""
ADDRESS_SPACE = 16 << 30
FOREIGN = Path(__file__).parents[3] / "shared" / "golden" / "jvm_v0.5.3"
OPTIONS = {
    "indexing.typemap.message": "text",
    "indexing.typemap.data": "json",
    "indexing.typemap.ip": "ip",
    "checkpoint.interval": 3,
}
ROWS = pa.table(
    {
        "id": pa.array(range(30), pa.int64()),
        "message": [f"disk {n} full of caches" for n in range(30)],
        "level": ["INFO", None, "WARN"] * 10,
        "day": ["2026-11-15", "a/b%"] * 15,
        "when": pa.array(
            [datetime.datetime(2026, 11, 1 + n % 28, tzinfo=datetime.UTC) for n in range(30)]
        ),
        "amount": pa.array([Decimal(n) / 4 for n in range(30)], pa.decimal128(10, 2)),
        "data": ['{"a": 1, "b": {"c": ["x"]}}'] * 30,
        "ip": [f"10.0.0.{n}" for n in range(30)],
        "nested": pa.array(
            [{"x": [n]} for n in range(30)], pa.struct([("x", pa.list_(pa.int32()))])
        ),
    }
)


class Found(Struct):
    """What a round tried and what must not be: (kind, what, facts)."""

    counts: Counter[str] = field(default_factory=Counter)
    violations: list[tuple[str, str, dict[str, Any]]] = field(default_factory=list)


def run(seed: int, minutes: float, *, cases: int | None = None) -> Found:
    """Cases of a seed until the time is over or so many were tried."""
    found, number = Found(), 0
    end = time.monotonic() + minutes * 60
    while time.monotonic() < end and (cases is None or number < cases):
        number = _watched(seed, number, cases, end, Path(_folder().name), found)
    return found


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    """Where the tables of all rounds are; in memory where that can be, and gone with this process."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    return tempfile.TemporaryDirectory(prefix="indextables-fuzz-", dir=memory)


def _watched(
    seed: int, number: int, cases: int | None, end: float, folder: Path, found: Found
) -> int:
    """One process for as many cases as it stands; the number of the next case."""
    call = [sys.executable, "-m", "tests.torture.fuzz", str(seed), str(number), str(folder)]
    root = Path(__file__).parents[2]
    environment = {
        **os.environ,
        "PYTHONPATH": f"{root}{os.pathsep}{root / 'src'}",
        "TMPDIR": str(folder),
    }
    worker = subprocess.Popen(call, stdout=subprocess.PIPE, cwd=folder, env=environment)
    assert worker.stdout is not None
    begun: dict[str, Any] = {"what": "starting"}
    try:
        for line in _lines(worker.stdout.fileno(), worker.pid):
            if line is None:
                found.violations.append(
                    ("bounds", f"{begun['what']}: longer than {CASE_SECONDS} s", begun)
                )
                break
            if time.monotonic() >= end and b'"case"' not in line:
                return int(begun.get("case", number)) + 1
            told = json.loads(line)
            if "case" in told:
                begun = told
                if time.monotonic() >= end or (cases is not None and told["case"] >= cases):
                    return int(told["case"])
                continue
            found.counts[told["what"]] += 1
            found.counts[told["outcome"]] += 1
            if told["violation"]:
                found.violations.append((told["violation"], told["what"], told))
            if told["violation"] == "bounds":
                break
        else:
            worker.wait()
            found.violations.append(
                ("error", f"{begun['what']}: the process died with {worker.returncode}", begun)
            )
    finally:
        worker.kill()
        worker.wait()
        worker.stdout.close()
    return int(begun.get("case", number)) + 1


def _lines(descriptor: int, pid: int) -> Iterator[bytes | None]:
    """What the process says, line by line; None if it says nothing for too long."""
    rest = b""
    while True:
        begun, used = time.monotonic(), _cpu_seconds(pid)
        while not select.select([descriptor], [], [], 1.0)[0]:
            if (
                time.monotonic() - begun > SILENCE_SECONDS
                or _cpu_seconds(pid) - used > CASE_SECONDS
            ):
                yield None
                return
        data = os.read(descriptor, 1 << 16)
        if not data:
            return
        *lines, rest = (rest + data).split(b"\n")
        yield from lines


def _cpu_seconds(pid: int) -> float:
    try:
        fields = (
            Path(f"/proc/{pid}/stat")
            .read_text(encoding="utf-8", errors="replace")
            .rpartition(")")[2]
            .split()
        )
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def worker(seed: int, first: int, folder: Path) -> None:
    """The process: cases one after another, each announced before it is tried."""
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    out = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.dup2(1, 2)
    tables = _tables(folder)
    kinds = [*CHANGES, *WORDS, *(["bundles"] if FOREIGN.exists() else [])]
    number = first
    while True:
        rng = random.Random(f"{seed}:{number}")
        what = rng.choice(kinds)
        print(json.dumps({"case": number, "seed": seed, "what": what}), file=out, flush=True)
        print(
            json.dumps(_told(what, rng, tables, folder / f"case-{os.getpid()}-{number}")),
            file=out,
            flush=True,
        )
        number += 1


def _told(
    what: str, rng: random.Random, tables: dict[str, list[Path]], copy: Path
) -> dict[str, Any]:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    told: dict[str, Any] = {"what": what, "violation": None, "outcome": "answered"}
    try:
        told["detail"], told["outcome"] = _case(what, rng, tables, copy)
    except BaseException as error:
        told["violation"] = "error"
        told["error"] = f"{type(error).__name__}: {error}"[:500]
        told["traceback"] = traceback.format_exc()[-3_000:]
    finally:
        CHECKPOINTS.wait()  # one that is still being written would bring the folder back under the next case
        shutil.rmtree(copy, ignore_errors=True)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024
    if grown > CASE_MEGABYTES:
        told |= {"violation": "bounds", "megabytes": grown}
    return told


def _case(
    what: str, rng: random.Random, tables: dict[str, list[Path]], copy: Path
) -> tuple[str, str]:
    source = rng.choice(
        tables[
            "foreign" if what == "bundles" else "parquet" if what.startswith("Parquet") else "ours"
        ]
    )
    shutil.copytree(source, copy)
    if what in WORDS:
        return WORDS[what](Table.open(str(copy)), rng)[:300], "answered"
    detail = (bundle if what == "bundles" else CHANGES[what])(copy, rng) or "nothing to change"
    refused = 0
    acts = [act for act in _ACTS if act not in _SLOW or rng.random() < 0.25]
    for act in acts:
        try:
            act(str(copy))
        except IndexTablesError as error:
            refused += 1
            if len(str(error)) > 50_000:
                raise AssertionError(f"an error of {len(str(error))} characters") from error
    return (
        detail,
        f"files: {'refused' if refused == len(acts) else 'answered in part' if refused else 'answered'}",
    )


def _read(path: str) -> None:
    table = Table.open(path)
    table.scan(where="id >= 0").read_all()
    table.scan().read_all()


def _search(path: str) -> None:
    table = Table.open(path)
    table.search("message:disk AND message:caches", limit=5, snippet="message")
    table.search('message:"disk 3"', limit=100)


def _count(path: str) -> None:
    table = Table.open(path)
    table.count(query="message:full")
    table.count(where="level = 'INFO' and day = '2026-11-15'")


def _look(path: str) -> None:
    table = Table.open(path)
    table.history()
    table.files(where="id > 3 and day = '2026-11-15'")
    log_action_rows(table.handle.log, include_all=True)
    table.to_dict()


def _verify(path: str) -> None:
    Table.open(path).verify(full=True)


def _keep(path: str) -> None:
    table = Table.open(path, options={"purge.retentionCheckEnabled": False})
    table.append(ROWS.slice(0, 2))
    table.checkpoint()
    table.merge()


_ACTS = (_read, _search, _count, _look, _verify, _keep)
_SLOW = (_verify, _keep)


def _tables(folder: Path) -> dict[str, list[Path]]:
    """Tables to change: ours of several shapes, and another engine's; made once for all processes
    of a run.
    """
    made = folder / "tables"
    if not (made / "done").exists():
        shutil.rmtree(made, ignore_errors=True)
        plain = Table.create(str(made / "ours" / "plain"), schema=ROWS.schema, options=OPTIONS)
        parts = Table.create(
            str(made / "ours" / "parts"),
            schema=ROWS.schema,
            partition_columns=["day"],
            options=OPTIONS,
        )
        form = {**OPTIONS, "state.format": "parquet"}
        parquet = Table.create(str(made / "parquet" / "parquet"), schema=ROWS.schema, options=form)
        for table in (plain, parts, parquet):
            for at in range(5):
                table.append(ROWS.slice(at * 6, 6))
            table.delete(where="id = 7")
        (made / "done").touch()
    foreign = (
        [path.parent for path in sorted(FOREIGN.glob("*/_transaction_log"))]
        if FOREIGN.exists()
        else []
    )
    return {name: sorted((made / name).iterdir()) for name in ("ours", "parquet")} | {
        "foreign": foreign
    }


if __name__ == "__main__":
    worker(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))

"""The walks of the documentation: every hop exists on its line, is called in that order, and leads through few files."""

from __future__ import annotations

import sys
import threading
import uuid
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pyarrow as pa
import pytest

from indextables import Table
from indextables.pools import POOLS
from tools.walks import PAGE, ROOT, WANTED, Hop, up_to_date, walks

TEXT = PAGE.read_text(encoding="utf-8")
WALKS = walks(TEXT)


def rows(first: int, last: int) -> pa.Table:
    return pa.table({"id": list(range(first, last)), "message": [f"timeout n{i}" for i in range(first, last)]})


def new_table(path: Path, *, appends: int) -> Table:
    table = Table.create(str(path), schema=rows(0, 1).schema, options={"indexing.typemap.message": "text"})
    for n in range(appends):
        table.append(rows(n * 10, n * 10 + 10))
    return table


def append(path: Path) -> Callable[[], Any]:
    table = new_table(path, appends=1)
    return lambda: table.append(rows(10, 20))


def search(path: Path) -> Callable[[], Any]:
    table = new_table(path, appends=2)
    unknown = f"n{uuid.uuid4().hex}"  # a word that nobody has looked for in this process
    return lambda: table.search(f"message:timeout OR message:{unknown}", limit=10)


def purge(path: Path) -> Callable[[], Any]:
    new_table(path, appends=12).merge()
    table = Table.open(str(path), options={"purge.retentionCheckEnabled": False})
    return lambda: table.purge(older_than_hours=0, log_retention_hours=0)


def tenth_commit(path: Path) -> Callable[[], Any]:
    table = new_table(path, appends=9)
    return lambda: table.append(rows(90, 100))


WALKED: dict[str, Callable[[Path], Callable[[], Any]]] = {
    "`Table.append` to the version file": append,
    "`Table.search` to Arrow": search,
    "`Table.purge`": purge,
    "The checkpoint at the tenth commit": tenth_commit,
}


def test_the_page_is_up_to_date() -> None:
    assert up_to_date(TEXT) == TEXT, "python -m tools.walks"


@pytest.mark.parametrize("title", WANTED)
def test_a_walk_leads_through_few_files(title: str) -> None:
    assert len({hop.file for hop in WALKS[title]}) <= WANTED[title]


@pytest.mark.parametrize("title", WALKED)
def test_the_hops_are_called_in_this_order(title: str, tmp_path: Path) -> None:
    calls: list[Hop] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        name = frame.f_code.co_filename
        if event == "call" and "/src/indextables/" in name:
            calls.append(Hop(frame.f_code.co_qualname, str(Path(name).relative_to(ROOT))))

    act = WALKED[title](tmp_path / "t")
    for pool in POOLS:
        pool.forget()  # Threads are watched from their start on.
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        act()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    left = iter(calls)
    assert [hop for hop in WALKS[title] if hop not in left] == []

"""Conditions on splits of the other engine go by its terms: the rows must be those that the values
tell.

Its dictionaries (sorted strings) are made here, since tantivy-py writes another kind.
"""

from __future__ import annotations

import datetime as dt
import json
import random
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import tantivy

from indextables.model.predicate import bind, evaluate, parse
from indextables.splits.format.source import LocalSource
from indextables.splits.index.tantivy_files import with_footer
from indextables.splits.read.foreign import ForeignReader
from tests.support.bundles import bundle, stop_number_of

EPOCH = dt.datetime(1970, 1, 1)
SCHEMA = pa.schema(
    {
        "i": pa.int32(),
        "u": pa.int64(),
        "at": pa.timestamp("us"),
        "utc": pa.timestamp("us", "UTC"),
        "day": pa.date32(),
    }
)
KINDS = {"i": "i64", "u": "u64", "at": "date", "utc": "date", "day": "date"}
Row = dict[str, int]
"""Numbers, and moments in nanoseconds."""


def term(kind: str, value: int) -> bytes:
    if kind == "date":  # cut to whole seconds towards 1970
        value = abs(value) // 10**9 * 10**9 * (1 if value >= 0 else -1)
    return (value + (0 if kind == "u64" else 1 << 63)).to_bytes(8, "big")


def dictionary(terms: list[tuple[bytes, list[int]]], dice: random.Random) -> tuple[bytes, bytes]:
    """A dictionary of sorted strings in blocks of any length, and the postings that it names."""
    data = postings = b""
    while terms:
        size = dice.choice([1, 3, 50])
        block, here, terms = b"", terms[:size], terms[size:]
        numbers, before = (
            stop_number_of(len(here)) + stop_number_of(len(postings)) + stop_number_of(0),
            b"",
        )
        for text, documents in here:
            gaps = b"".join(map(stop_number_of, np.diff([0, *documents]).tolist()))
            numbers += (
                stop_number_of(len(documents)) + stop_number_of(len(gaps)) + stop_number_of(0)
            )
            postings += gaps
            kept = next(
                (n for n, (a, b) in enumerate(zip(text, before, strict=False)) if a != b),
                len(before),
            )
            block += bytes([kept | len(text) - kept << 4]) + text[kept:]
            before = text
        data += struct.pack("<IB", len(numbers + block) + 1, 0) + numbers + block
    return data, postings


def composite(fields: dict[int, bytes]) -> bytes:
    body, places, last = b"", stop_number_of(len(fields)), 0
    for number, data in fields.items():
        places += stop_number_of(len(body) - last) + struct.pack("<I", number) + stop_number_of(0)
        last, body = len(body), body + data
    return with_footer(body + places + struct.pack("<I", len(places)))


def split(
    folder: Path, segments: list[list[Row]], dice: random.Random, *, off_by: int = 0
) -> ForeignReader:
    """A split with these rows; the numbers in its postings may be wrong by some."""
    folder.mkdir()
    builder = tantivy.SchemaBuilder()
    for name, kind in KINDS.items():
        add = {
            "i64": builder.add_integer_field,
            "u64": builder.add_unsigned_field,
            "date": builder.add_date_field,
        }[kind]
        add(name, stored=True, indexed=True)
    index = tantivy.Index(builder.build(), path=str(folder))
    writer, known = index.writer(15_000_000, 1), set[str]()
    for rows in segments:
        for row in rows:
            writer.add_json(
                json.dumps({n: _rfc3339(v) if KINDS[n] == "date" else v for n, v in row.items()})
            )
        writer.commit()
        (segment,) = {s["segment_id"] for s in _meta(folder)["segments"]} - known
        known.add(segment)
        terms, lists = dict[int, bytes](), dict[int, bytes]()
        for number, (name, kind) in enumerate(KINDS.items()):
            found: dict[bytes, list[int]] = {}
            for at, row in enumerate(rows):
                if name in row:
                    found.setdefault(term(kind, row[name]), []).append(at + off_by)
            data, postings = dictionary(sorted(found.items()), dice)
            terms[number] = data + struct.pack("<IQQII", 0, 0, len(found), 3, 2)
            lists[number] = struct.pack("<Q", 0) + postings
        stem = segment.replace("-", "")
        (folder / f"{stem}.term").write_bytes(composite(terms))
        (folder / f"{stem}.idx").write_bytes(composite(lists))
    writer.wait_merging_threads()
    return ForeignReader.open(LocalSource(bundle(folder, folder.parent / "a.split")), SCHEMA)


def _meta(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "meta.json").read_bytes())
    return content


def _rfc3339(nanoseconds: int) -> str:
    moment = EPOCH + dt.timedelta(seconds=nanoseconds // 10**9)
    return f"{moment.isoformat()}.{nanoseconds % 10**9:09d}Z"


def literal(name: str, value: int) -> str:
    if KINDS[name] != "date":
        return str(value)
    moment = EPOCH + dt.timedelta(microseconds=value // 1000)
    return f"'{moment.date()}'" if name == "day" else f"'{moment.isoformat(sep=' ')}'"


def condition(dice: random.Random, rows: list[Row], depth: int = 2) -> str:
    """Any condition about values that are there, or near to one that is."""
    if depth and dice.random() < 0.6:
        parts = [condition(dice, rows, depth - 1) for _ in range(dice.randint(2, 3))]
        return "(" + dice.choice([" AND ", " AND ", " OR "]).join(parts) + ")"
    name = dice.choice(list(KINDS))
    known = [row[name] for row in rows if name in row] or [0]
    steps = (
        [0, 1, -1] if KINDS[name] != "date" else [0, 1_000, -1_000, 10**9, -(10**9), 86_400 * 10**9]
    )
    values = [
        literal(name, max(dice.choice(known) + dice.choice(steps), -(10**18))) for _ in range(3)
    ]
    if dice.random() < 0.15:
        return f"{name} IN ({', '.join(values)})"
    return f"{name} {dice.choice(['=', '<', '<=', '>', '>=', '!='])} {values[0]}"


def check(reader: ForeignReader, where: str) -> bool:
    """Whether the terms decide a condition; no row that it is true for may be missing, and none be
    there if they do.
    """
    bound = bind(parse(where), SCHEMA)
    wanted = evaluate(bound, reader.read_rows()).fill_null(False).to_numpy(zero_copy_only=False)
    found = reader.may_match(bound)
    assert found is not None or not reader.decides(bound) or "!=" in where, where
    if found is None:
        return False
    assert not (wanted & ~found).any(), where
    assert not reader.decides(bound) or (wanted == found).all(), where
    return reader.decides(bound)


@pytest.mark.parametrize("seed", range(6))
def test_terms_find_the_rows_that_values_do(seed: int, tmp_path: Path) -> None:
    dice = random.Random(seed)

    def row() -> Row:
        near = dice.choice([0, -86_400, 86_400, dice.randint(-(10**9), 10**9)]) * 10**9
        moment = near + dice.choice(
            [0, 1_000, -1_000, 10**9 - 1_000, -(10**9) + 1_000, 10**9, -(10**9)]
        )
        made = {
            "i": dice.randint(-5, 5),
            "u": dice.choice([0, 3, 2**62]),
            "at": moment,
            "utc": moment // 2000 * 1000,
        }
        made["day"] = moment // (86_400 * 10**9) * 86_400 * 10**9
        return {name: value for name, value in made.items() if dice.random() < 0.8}

    segments = [[row() for _ in range(dice.choice([1, 40, 90]))] for _ in range(1 + seed % 3)]
    reader = split(tmp_path / "i", segments, dice)
    rows = [each for segment in segments for each in segment]
    decided = sum(check(reader, condition(dice, rows)) for _ in range(150))
    assert decided > 20


def test_days_that_are_no_midnights_and_parts_of_microseconds(tmp_path: Path) -> None:
    day, dice = 86_400 * 10**9, random.Random(1)
    days = [
        {"day": n * day + part}
        for n in (-10, -1, 0, 10)
        for part in (0, 1_000, day // 2, day - 1_000)
    ]
    moments = [
        {"at": s * 10**9 + part} for s in (-2, -1, 0, 1) for part in (0, 1, 999, 1_000, 999_999_999)
    ]
    reader = split(tmp_path / "i", [days + moments], dice)
    for sign in ("=", "<", "<=", ">", ">="):
        for row in days + moments:
            for name, value in row.items():
                for step in (0, 1_000, -1_000):
                    assert check(reader, f"{name} {sign} {literal(name, value + step)}")


def test_postings_of_documents_that_are_not_there_decide_nothing(tmp_path: Path) -> None:
    rows: list[Row] = [{"i": n, "u": n} for n in range(10)]
    reader = split(tmp_path / "i", [rows, rows], random.Random(2), off_by=1)
    for where in ("i > 3", "i = 9", "i IN (9, 8)", "u != 3"):
        assert reader.may_match(bind(parse(where), SCHEMA)) is None
    assert reader.read_rows()["i"].to_pylist() == [*range(10), *range(10)]

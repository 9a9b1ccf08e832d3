"""The section table and the seal: what is accepted, and what is called damaged."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest

from indextables.errors import BadFileError, UnsupportedError
from indextables.splits.format.footer import read_footer
from indextables.splits.format.footer_checksum import (
    check_footer,
    footer_start_of,
    write_footer_checksum,
)
from indextables.splits.format.section_table import SectionTable, decode_table, encode_table
from indextables.splits.format.source import LocalSource
from tests.support.splits import log_rows, open_file, write_file


@pytest.fixture(scope="module")
def split(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_file(log_rows(300), tmp_path_factory.mktemp("layout") / "a.split")


def decode(text: bytes, path: str = "a.split") -> SectionTable:
    return decode_table(text, footer_start=1 << 20, hot_limit=1 << 20, path=path)


def test_a_table_survives_its_json_form(split: Path) -> None:
    table = open_file(split).table
    assert decode(encode_table(table).encode()) == table
    assert table.rows == 300
    assert [c.name for c in table.components] == [
        "term",
        "idx",
        "pos",
        "fieldnorm",
        "fast",
        "store",
    ]


def test_one_field_lies_together(split: Path) -> None:
    table = open_file(split).table
    for field in ("c1", "c2", "c3"):
        ranges = sorted(
            (r.offset, r.length) for c in table.components for r in c.ranges if r.field == field
        )
        for (start, length), (following, _) in pairwise(ranges):
            assert start + length == following


def _set(path: str, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(table: dict[str, Any]) -> None:
        *parents, last = path.split("/")
        at: Any = table
        for key in parents:
            at = at[int(key)] if isinstance(at, list) else at[key]
        at[int(last) if isinstance(at, list) else last] = value

    return change


@pytest.mark.parametrize(
    "change",
    [
        _set("rows", -1),
        _set("rows", 1 << 40),
        _set("rows", "many"),
        _set("segment", "../../etc/passwd"),
        _set("meta", [-1, 5]),
        _set("meta", [0, 1 << 30]),
        _set("chunks", [1 << 30, 4]),
        _set("components", [{"name": "term"}]),
        _set("components/0/name", "../x"),
        _set("components/0/length", -5),
        _set("components/0/length", 1 << 50),
        _set("components/0/ranges/0/1", 7),
        _set("components/0/ranges/0/2", 1 << 40),
        _set("components/0/ranges/0/3", -1),
        _set("components/0/ranges/0/3", 1 << 40),
        _set("components/0/ranges/0/4", 1 << 33),
        _set("components/0/ranges/1/0", "c1"),
        _set("components/4/ranges", [["c1", 0, 1, 0, 0]]),
        _set("incomplete", {"level": -1}),
        _set("incomplete_rows", {"level": [0, 4]}),
        _set("incomplete_rows", {"level": [1 << 30, 0]}),
        _set("term_filter", [0, 96]),
        _set("term_filter", [1 << 30, 64]),
        _set("mapping", None),
    ],
)
def test_a_table_that_makes_no_sense_is_a_bad_file(
    split: Path, change: Callable[[dict[str, Any]], None]
) -> None:
    plain = msgspec.json.decode(encode_table(open_file(split).table))
    change(plain)
    with pytest.raises(
        BadFileError, match=r"section table of the split a\.split makes no sense"
    ) as caught:
        decode(msgspec.json.encode(plain))
    assert caught.value.context["path"] == "a.split"


def test_a_newer_format_is_not_called_damaged(split: Path) -> None:
    plain = msgspec.json.decode(encode_table(open_file(split).table))
    with pytest.raises(UnsupportedError, match="format version 99"):
        decode(msgspec.json.encode({**plain, "version": 99, "components": "in another shape"}))
    with pytest.raises(UnsupportedError, match="format 8"):
        decode(msgspec.json.encode({**plain, "index_format": 8}))


def test_the_seal_names_the_footer_start_and_is_set_once(split: Path) -> None:
    data = split.read_bytes()
    start = footer_start_of(data, "a.split")
    check_footer(data[start:], footer_start=start, path="a.split")
    with pytest.raises(BadFileError, match="sealed already"):
        write_footer_checksum(split, start)
    with pytest.raises(BadFileError, match=f"bytes {start} to {len(data)}"):
        check_footer(data[start:-20] + b"x" + data[-19:], footer_start=start, path="a.split")


def test_the_tail_takes_one_read_or_two(split: Path) -> None:
    start = footer_start_of(split.read_bytes(), "a")
    known, unknown = LocalSource(split), LocalSource(split)
    assert read_footer(known, start).data == read_footer(unknown).data
    assert known.stats.requests == 1
    assert known.stats.bytes == split.stat().st_size - start
    assert unknown.stats.requests <= 2


@pytest.mark.parametrize("wrong", [0, 1, 100])
def test_a_wrong_footer_start_in_the_log_is_noticed(split: Path, wrong: int) -> None:
    start = footer_start_of(split.read_bytes(), "a")
    with pytest.raises(BadFileError):
        read_footer(LocalSource(split), start - 1 - wrong)


@pytest.mark.parametrize("size", [0, 1, 10, 100, 5000])
def test_what_is_no_split_is_a_bad_file(tmp_path: Path, size: int) -> None:
    path = tmp_path / "x.split"
    path.write_bytes(b"x" * size)
    with pytest.raises(BadFileError, match=r"x\.split"):
        open_file(path)

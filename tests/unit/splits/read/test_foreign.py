"""Bundles in the form of other engines, made here: every kind of value comes back in the table's
types.
"""

from __future__ import annotations

import datetime as dt
import json
import random
import struct
import tracemalloc
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import tantivy

from indextables.errors import BadFileError, UnsupportedError
from indextables.splits.format.source import LocalSource
from indextables.splits.index.tantivy_files import with_footer
from indextables.splits.read.foreign import ForeignReader
from indextables.splits.read.foreign_columns import DocumentForm, DocumentStore
from tests.support.bundles import bundle, stop_number_of

MOMENT = dt.datetime(2024, 3, 1, 12, 30, 0, 123456, tzinfo=dt.UTC)


def index(folder: Path, documents: list[dict[str, Any]], *, at_once: bool = False) -> Path:
    """An index with a field of every kind, and a segment for each document."""
    folder.mkdir()
    builder = tantivy.SchemaBuilder()
    builder.add_text_field("s", stored=True, tokenizer_name="raw", index_option="basic")
    builder.add_text_field("t", stored=True, tokenizer_name="en_stem")
    builder.add_integer_field("i", stored=True)
    builder.add_integer_field("only_fast", fast=True)
    builder.add_text_field("only_indexed")
    builder.add_float_field("f", stored=True)
    builder.add_boolean_field("b", stored=True)
    builder.add_bytes_field("raw", stored=True)
    builder.add_date_field("at", stored=True)
    builder.add_date_field("day", stored=True)
    builder.add_ip_addr_field("ip", stored=True, indexed=True)
    for name in ("j", "struct", "array", "map"):
        builder.add_json_field(name, stored=True)
    made = tantivy.Index(builder.build(), path=str(folder))
    writer = made.writer(15_000_000, 1)
    for document in documents:
        writer.add_json(json.dumps(document))
        if not at_once:
            writer.commit()
    writer.commit()
    writer.wait_merging_threads()
    return folder


SCHEMA = pa.schema(
    {
        "s": pa.string(),
        "t": pa.string(),
        "i": pa.int32(),
        "only_fast": pa.int64(),
        "f": pa.float32(),
        "b": pa.bool_(),
        "raw": pa.binary(),
        "at": pa.timestamp("us", "UTC"),
        "day": pa.date32(),
        "ip": pa.string(),
        "j": pa.string(),
        "struct": pa.struct(
            [
                ("n", pa.decimal128(10, 2)),
                ("at", pa.timestamp("us", "UTC")),
                ("day", pa.date32()),
                ("raw", pa.binary()),
                ("gone", pa.string()),
            ]
        ),
        "array": pa.list_(pa.int64()),
        "map": pa.map_(pa.int32(), pa.string()),
    }
)
FULL = {
    "s": "x",
    "t": "running words",
    "i": 7,
    "only_fast": 8,
    "f": 1.5,
    "b": True,
    "raw": "AQI=",
    "at": "2024-03-01T12:30:00.123456Z",
    "day": "2024-03-01T00:00:00Z",
    "ip": "1.2.3.4",
    "j": {"k": [1, "two"]},
    "struct": {"n": 2.5, "at": 1_709_296_200_123, "day": 1_709_251_200_000, "raw": "AQI="},
    "array": {"_values": [1, 2]},
    "map": {"3": "three"},
}


def test_every_kind_of_value(tmp_path: Path) -> None:
    path = bundle(index(tmp_path / "i", [FULL, {}]), tmp_path / "a.split")
    reader = ForeignReader.open(LocalSource(path), SCHEMA)
    full, empty = sorted(reader.read_rows().to_pylist(), key=lambda row: row["s"] is None)
    assert full == {
        "s": "x",
        "t": "running words",
        "i": 7,
        "only_fast": 8,
        "f": 1.5,
        "b": True,
        "raw": b"\x01\x02",
        "at": MOMENT,
        "day": dt.date(2024, 3, 1),
        "ip": "1.2.3.4",
        "j": '{"k":[1,"two"]}',
        "struct": {
            "n": Decimal("2.50"),
            "at": MOMENT.replace(microsecond=123_000),
            "day": dt.date(2024, 3, 1),
            "raw": b"\x01\x02",
            "gone": None,
        },
        "array": [1, 2],
        "map": [(3, "three")],
    }
    assert set(empty.values()) == {None}


def test_documents_of_many_forms_come_back(tmp_path: Path) -> None:
    dice = random.Random(11)
    kinds: dict[str, Callable[[], Any]] = {
        "s": lambda: "".join(dice.choices("aé\u4e2d ", k=dice.choice([0, 1, 130, 20_000]))),
        "t": lambda: dice.choice(["", "words", "w" * 127, "w" * 128]),
        "i": lambda: dice.choice([0, -1, 2**31 - 1, -(2**31)]),
        "f": lambda: dice.choice([0.0, -0.0, 1.5, -2.25, 3e38, -1e-40, 1e-40]),
        "b": lambda: dice.random() < 0.5,
        "at": lambda: MOMENT + dt.timedelta(microseconds=dice.randint(-(3 * 10**15), 10**15)),
    }
    rows = []
    for _ in range(400):
        names = dice.sample(
            list(kinds), dice.choice([0, 1, 4, 5, 6, 6, 6])
        )  # in any order, with any of them missing
        rows.append({name: kinds[name]() for name in names})
    for number, row in enumerate(rows):
        row["only_fast"] = number
    path = bundle(
        index(tmp_path / "i", [_as_json(row) for row in rows], at_once=True), tmp_path / "a.split"
    )
    reader = ForeignReader.open(LocalSource(path), SCHEMA)
    numbers = reader.read_rows(columns=["only_fast"])["only_fast"].to_pylist()
    for chosen in (list(range(400)), dice.sample(range(400), 50), [7, 7, 3]):
        found = reader.read_rows(np.array(chosen), columns=list(kinds)).to_pylist()
        expected = [{name: rows[numbers[at]].get(name) for name in kinds} for at in chosen]
        for row in expected:
            row["f"] = (
                None if row["f"] is None else struct.unpack("<f", struct.pack("<f", row["f"]))[0]
            )
        assert [repr(_as_json(row)) for row in found] == [
            repr(_as_json(row)) for row in expected
        ]  # -0.0 is not 0.0


@pytest.mark.parametrize(
    ("name", "kind", "value"),
    [
        ("f", pa.decimal128(10, 2), Decimal("1.50")),
        ("i", pa.decimal128(20, 0), Decimal(7)),
        ("i", pa.string(), "7"),
        ("i", pa.float64(), 7.0),
        ("s", pa.large_string(), "x"),
        ("day", pa.timestamp("ms"), dt.datetime(2024, 3, 1)),
    ],
)
def test_moments_and_days_beside_a_column_of_another_type(
    name: str, kind: Any, value: Any, tmp_path: Path
) -> None:
    path = bundle(index(tmp_path / "i", [FULL, {}]), tmp_path / "a.split")
    others = [f for f in SCHEMA if f.name in ("at", "day", "b") and f.name != name]
    reader = ForeignReader.open(LocalSource(path), pa.schema([*others, pa.field(name, kind)]))
    full, empty = sorted(reader.read_rows().to_pylist(), key=lambda row: row["at"] is None)
    known = {"at": MOMENT, "day": dt.date(2024, 3, 1), "b": True, name: value}
    assert full == {column: known[column] for column in full}
    assert set(empty.values()) == {None}


def _as_json(row: dict[str, Any]) -> dict[str, Any]:
    return {
        k: v.isoformat().replace("+00:00", "Z") if isinstance(v, dt.datetime) else v
        for k, v in row.items()
    }


def test_kinds_are_told_from_the_index(tmp_path: Path) -> None:
    path = bundle(index(tmp_path / "i", [FULL]), tmp_path / "a.split")
    mapping = ForeignReader.open(LocalSource(path), SCHEMA).mapping
    found = {c.name: (c.kind, c.tokenizer) for c in mapping.columns}
    assert found["s"] == ("string", "raw")
    assert found["t"] == ("text", "en_stem")
    assert found["ip"] == ("ip", "")
    assert found["struct"] == ("json", "default")
    assert {name for name, (kind, _) in found.items() if kind == "none"} == {
        "i",
        "only_fast",
        "f",
        "b",
        "raw",
        "at",
        "day",
    }


def test_several_segments_are_read_one_after_another(tmp_path: Path) -> None:
    documents = [{"i": n} for n in range(5)]
    path = bundle(index(tmp_path / "i", documents), tmp_path / "a.split")
    reader = ForeignReader.open(LocalSource(path), SCHEMA)
    assert sorted(reader.read_rows(columns=["i"])["i"].to_pylist()) == [0, 1, 2, 3, 4]
    assert reader.read_rows(columns=[]).num_rows == 5


def test_what_is_not_stored_cannot_be_read(tmp_path: Path) -> None:
    path = bundle(index(tmp_path / "i", [FULL]), tmp_path / "a.split")
    reader = ForeignReader.open(LocalSource(path), pa.schema([("only_indexed", pa.string())]))
    with pytest.raises(UnsupportedError, match="does not store column 'only_indexed'"):
        reader.read_rows()


def test_a_value_of_another_type_is_named(tmp_path: Path) -> None:
    path = bundle(index(tmp_path / "i", [FULL]), tmp_path / "a.split")
    reader = ForeignReader.open(LocalSource(path), pa.schema([("i", pa.date32())]))
    with pytest.raises(BadFileError, match=r"Column 'i' of the split .*a\.split does not fit"):
        reader.read_rows()


def test_what_is_no_bundle_is_refused(tmp_path: Path) -> None:
    folder = index(tmp_path / "i", [FULL])
    with pytest.raises(BadFileError, match="neither a split of ours nor a bundle"):
        ForeignReader.open(LocalSource(bundle(folder, tmp_path / "a", magic=1)), SCHEMA)
    with pytest.raises(UnsupportedError, match="version 2"):
        ForeignReader.open(LocalSource(bundle(folder, tmp_path / "b", version=2)), SCHEMA)
    with pytest.raises(BadFileError, match="differs from its copy"):
        ForeignReader.open(LocalSource(bundle(folder, tmp_path / "c", hotcache=b"another")), SCHEMA)
    assert (
        ForeignReader.open(
            LocalSource(bundle(folder, tmp_path / "d", hotcache=b"")), SCHEMA
        ).num_rows
        == 1
    )


def store_of(block: bytes, *, codec: int) -> DocumentStore:
    """A document store of one block."""
    layer = b"".join(
        map(stop_number_of, [1, 0, 0, 1, len(block)])
    )  # one block: its first document, place, documents, length
    index = stop_number_of(1) + stop_number_of(len(layer)) + layer
    return DocumentStore(with_footer(block + index + struct.pack("<IQB15x", 2, len(block), codec)))


def block_of(document: bytes) -> bytes:
    """A block of one document, not compressed."""
    return document + struct.pack("<II", 0, 1)


TEXT_OF_4_TB = bytes([129]) + struct.pack("<IB", 0, 0) + stop_number_of(1 << 42) + b"short"


@pytest.mark.parametrize(
    ("block", "codec"),
    [
        (block_of(TEXT_OF_4_TB), 0),
        (block_of(bytes([129]) + struct.pack("<IB", 0, 99)), 0),
        (block_of(b""), 0),
        (struct.pack("<I", 100) + b"no lz4 at all", 1),
        (struct.pack("<I", 100) + b"no zstd at all", 4),
    ],
    ids=["a text of 4 TB", "an unknown kind", "no document", "lz4", "zstd"],
)
def test_a_damaged_document_is_an_error_and_not_left_to_tantivy(block: bytes, codec: int) -> None:
    """Tantivy ends the process where a length that lies is more than there is memory."""
    with pytest.raises(BadFileError, match="A document is damaged"):
        store_of(block, codec=codec).read([0], DocumentForm([], []), [[None]], 0)


@pytest.mark.parametrize("claimed", [0, 100, 1 << 20])
def test_a_block_of_documents_is_not_unpacked_beyond_what_it_claims(claimed: int) -> None:
    block = struct.pack("<I", claimed) + pa.compress(bytes(64 << 20), codec="zstd", asbytes=True)
    store = store_of(block, codec=4)
    tracemalloc.start()
    try:
        with pytest.raises(BadFileError, match="not as large as it claims"):
            store.read([0], DocumentForm([], []), [[None]], 0)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()

"""Files of the log as an enemy would craft them: errors of ours that name the file, in bounded time
and memory.
"""

from __future__ import annotations

import io
import json
import resource
import sys
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from indextables import AddAction, Table
from indextables.errors import (
    BadFileError,
    CorruptTableError,
    IndexTablesError,
    LogGapError,
    QuerySyntaxError,
)
from indextables.log.log_files import (
    MAX_VERSION,
    json_checkpoint_path,
    json_part_name,
    parquet_checkpoint_path,
    version_path,
)
from indextables.splits.index.tantivy_files import _STORE_FOOTER, with_footer
from indextables.splits.read.bundle_files import _check_file
from indextables.wire import version_file
from indextables.wire.avro import assemble
from indextables.wire.manifest import decode_file_entries
from indextables.wire.old_checkpoints import (
    decode_checkpoint,
    decode_parquet_checkpoint,
    encode_parquet_checkpoint,
)
from indextables.wire.state import decode_state
from tests.support.tables import SCHEMA, append, live

CPU_SECONDS, MEGABYTES = 20, 450
LINES = b'{"add":{"path":"","size":0}}\n'


DEEP = (
    '{"new":%s}',
    '{"add":{"path":"x","size":1,"new":%s}}',
    '{"commitInfo":{"operationParameters":{"a":%s}}}',
)


@pytest.fixture(autouse=True)
def bounded() -> Iterator[None]:
    """Every test here ends soon and takes little memory."""
    before, begun = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    yield
    assert time.process_time() - begun < CPU_SECONDS
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024 < MEGABYTES


@pytest.fixture
def path(tmp_path: Path) -> str:
    append(Table.create(str(tmp_path / "t"), schema=SCHEMA), "a")
    return str(tmp_path / "t")


def metadata(path: str, **changes: Any) -> None:
    """The next version of a table, with metadata that no release of ours writes."""
    table = Table.open(path)
    fields = json.loads(version_file.encode_action(table.metadata))["metaData"] | changes
    Path(path, version_path(table.version + 1)).write_text(json.dumps({"metaData": fields}))


def fields(*types: object) -> str:
    columns = [
        {"name": f"c{n}", "type": kind, "nullable": True, "metadata": {}}
        for n, kind in enumerate(types)
    ]
    return json.dumps({"type": "struct", "fields": columns})


@pytest.mark.parametrize(
    "number", ["9" * 20, f"{2**63 - 1:020d}", f"{MAX_VERSION + 1:020d}", f"{2**64:020d}"]
)
def test_a_file_of_a_version_that_cannot_be_is_passed_over_and_reported(
    path: str, number: str
) -> None:
    Path(path, "_transaction_log", f"{number}.json").write_text("{}")
    assert live(Table.open(path)) == {"a"}
    append(Table.open(path), "b")
    assert live(Table.open(path)) == {"a", "b"}
    (found,) = [
        finding for finding in Table.open(path).verify().findings if finding.check == "version"
    ]
    assert number in (found.path or "")


@pytest.mark.parametrize("number", [7, 10**9, MAX_VERSION])
def test_a_hole_is_an_error_however_wide(path: str, number: int) -> None:
    Path(path, version_path(number)).write_bytes(
        version_file.encode(Table.open(path).handle.log.since(0, 1)[0].actions)
    )
    with pytest.raises(LogGapError, match="Version 2 of"):
        Table.open(path)
    assert live(Table.open(path, version=1)) == {"a"}


@pytest.mark.parametrize("digits", ["٣" * 20, "1" * 25, ""])
def test_a_state_with_an_odd_number_is_none(path: str, digits: str) -> None:
    folder = Path(path, "_transaction_log", f"state-v{digits}")
    folder.mkdir()
    (folder / "_manifest.avro").write_bytes(b"x")
    assert live(Table.open(path)) == {"a"}


@pytest.mark.parametrize("depth", [2_000, 500_000])
@pytest.mark.parametrize("line", DEEP)
def test_deep_json_in_a_version(path: str, line: str, depth: int) -> None:
    Path(path, version_path(2)).write_text(line % ("[" * depth + "]" * depth))
    if depth == 2_000 and sys.version_info >= (3, 14):  # which reads JSON that deep
        assert Table.open(path).version == 2
        return
    with pytest.raises(BadFileError, match=r"0000000000000000002\.json"):
        Table.open(path)


@pytest.mark.parametrize(
    "schema",
    [
        '{"type":"struct","fields":' + "[" * 100_000 + "]" * 100_000 + "}",
        fields(json.loads('{"type":"array","elementType":' * 300 + '"int"' + "}" * 300)),
        fields("decimal(99999999999999999999,2)"),
        fields("decimal(39,0)"),
        fields("decimal(10,-2)"),
        fields("decimal(10,11)"),
        json.dumps({"type": "struct", "fields": [{"name": "a", "type": "int"}] * 2}),
        json.dumps({"type": "struct", "fields": [{"name": "a\ud800", "type": "int"}]}),
        json.dumps(
            {
                "type": "struct",
                "fields": [{"name": "a", "type": "int", "metadata": {"ARROW::metadata": 5}}],
            }
        ),
        json.dumps({"type": "struct", "fields": [{"name": "a", "type": "int", "nullable": "x"}]}),
    ],
    ids=[
        "deep JSON",
        "deep type",
        "decimal",
        "decimal39",
        "scale",
        "scale over",
        "two columns",
        "name",
        "arrow",
        "nullable",
    ],
)
def test_schemas_that_are_none(path: str, schema: str) -> None:
    metadata(path, schemaString=schema)
    with pytest.raises(CorruptTableError) as caught:
        Table.open(path)
    assert path in caught.value.message
    assert live(Table.open(path, version=1)) == {"a"}


@pytest.mark.parametrize("columns", [["nowhere"], ["day", "day"]])
def test_partition_columns_that_are_none(path: str, columns: list[str]) -> None:
    metadata(path, partitionColumns=columns)
    with pytest.raises(CorruptTableError, match="partition column"):
        Table.open(path)


@pytest.mark.parametrize(
    "name", ["..", ".", "self", "", "a/b", "../x.json", "a\\b", "\x00", "x" * 300]
)
def test_parts_of_a_checkpoint_are_files_beside_it(path: str, name: str) -> None:
    checkpoint = Path(path, json_checkpoint_path(1))
    part = checkpoint.name if name == "self" else name
    checkpoint.write_text(
        json.dumps({"version": 1, "checkpointId": "x", "parts": [part], "format": "json"})
    )
    with pytest.raises(BadFileError, match="names a part that is none"):
        decode_checkpoint(checkpoint.read_bytes(), path=json_checkpoint_path(1))
    assert live(Table.open(path)) == {"a"}


def test_a_part_is_read_once(path: str) -> None:
    name = json_part_name(1, "x", 1)
    told = json.dumps(
        {"version": 1, "checkpointId": "x", "parts": [name] * 1_000, "format": "json"}
    )
    with pytest.raises(BadFileError, match="twice"):
        decode_checkpoint(told.encode(), path="checkpoint.json")


BOMBS = {
    "millions of actions": (b"", LINES, b""),
    "a list of lists": (b'{"new":[', b"[],", b"[]]}"),
    "unknown fields": (b'{"add":{"path":"x","size":1,"new":[', b"[],", b"[]]}}"),
    "parameters": (b'{"commitInfo":{"operationParameters":{"a":[', b"[],", b"[]]}}}"),
}


def packed(before: bytes, again: bytes, after: bytes, *, megabytes: int = 64) -> bytes:
    """Gzip of very much of the same, without ever holding it."""
    deflater, piece = zlib.compressobj(9, wbits=31), again * ((1 << 20) // len(again))
    parts = [deflater.compress(before), *(deflater.compress(piece) for _ in range(megabytes))]
    return b"".join([*parts, deflater.compress(after), deflater.flush()])


@pytest.mark.parametrize("name", BOMBS)
def test_a_small_file_does_not_cost_much_memory(path: str, name: str) -> None:
    data = packed(*BOMBS[name])
    assert len(data) < 200_000
    Path(path, version_path(2)).write_bytes(data)
    with pytest.raises(BadFileError, match=r"0000000000000000002\.json"):
        Table.open(path)
    with pytest.raises(BadFileError):
        decode_checkpoint(data, path="checkpoint.json")


def test_a_parquet_checkpoint_does_not_cost_much_memory() -> None:
    """A few texts, each in many rows, take little room in Parquet, and much once every row has its
    own.
    """
    count, long = 700, "x" * 1_000_000
    paths = pa.DictionaryArray.from_arrays(pa.array([0] * count, pa.int32()), pa.array([long]))
    files = pa.table(
        {"path": paths, "size": pa.array([1] * count, pa.int64()), "actionType": ["add"] * count}
    )
    out = io.BytesIO()
    pq.write_table(files, out, compression="zstd", store_schema=False)
    assert len(out.getvalue()) < 100_000
    with pytest.raises(BadFileError, match=r"c\.parquet.*more than"):
        decode_parquet_checkpoint(out.getvalue(), path="c.parquet")


def test_a_parquet_checkpoint_still_says_what_it_said(path: str) -> None:
    table = Table.open(path)
    data = encode_parquet_checkpoint(table.files(), [table.metadata], compression="zstd")
    assert decode_parquet_checkpoint(data, path=parquet_checkpoint_path(1)).files.equals(
        table.files()
    )


EMPTY_ITEMS = [
    ("null", b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f\x00"),
    (
        {"type": "record", "name": "E", "fields": [{"name": "n", "type": "null"}]},
        b"\xfe\xff\xff\xff\xff\xff\x7f\x00",
    ),
    ({"type": "fixed", "name": "F", "size": 0}, b"\xfe\xff\xff\xff\xff\xff\x7f\x00"),
]


@pytest.mark.parametrize(("items", "block"), EMPTY_ITEMS, ids=["null", "record", "fixed"])
def test_lists_of_nothing_in_avro(items: Any, block: bytes) -> None:
    schema = {
        "type": "record",
        "name": "S",
        "fields": [{"name": "tombstones", "type": {"type": "array", "items": items}}],
    }
    fastavro.parse_schema(schema)
    with pytest.raises(BadFileError, match="take no bytes"):
        decode_state(
            assemble(json.dumps(schema), "null", [(1, block)]), path="state-v1/_manifest.avro"
        )


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ([{"name": "r", "type": "R"}], "holds itself"),
        ([{"name": "r", "type": ["null", "a.R"]}], "holds itself"),
        ([{"name": "r", "type": {"type": "R"}}], "holds itself"),
        (
            [{"name": "r", "type": {"type": "array", "items": {"type": "map", "values": "R"}}}],
            "holds itself",
        ),
        (
            [
                {"name": "n", "type": "boolean"},
                *({"name": f"n{n}", "type": "null"} for n in range(1000)),
            ],
            "always null",
        ),
        ([{"name": ["x"], "type": "long"}], "no text"),
    ],
)
def test_types_that_take_a_reader_down(fields: list[Any], said: str) -> None:
    inner = {"type": "record", "name": "R", "namespace": "a", "fields": fields}
    schema = {
        "type": "record",
        "name": "S",
        "fields": [{"name": "path", "type": "string"}, {"name": "x", "type": inner}],
    }
    data = assemble(json.dumps(schema), "null", [(1, bytes(3))])
    with pytest.raises(BadFileError, match=said):
        decode_file_entries(data, path="m.avro")
    with pytest.raises(BadFileError, match=said):
        decode_state(data, path="state-v1/_manifest.avro")


def test_an_error_is_a_record_too() -> None:
    items = {"type": "error", "name": "E", "fields": [{"name": "n", "type": "null"}]}
    schema = {
        "type": "record",
        "name": "S",
        "fields": [{"name": "x", "type": {"type": "array", "items": items}}],
    }
    with pytest.raises(BadFileError, match="take no bytes"):
        decode_state(
            assemble(json.dumps(schema), "null", [(1, bytes(3))]), path="state-v1/_manifest.avro"
        )


def test_more_records_than_bytes_in_avro() -> None:
    schema = json.dumps(
        {"type": "record", "name": "S", "fields": [{"name": "path", "type": "string"}]}
    )
    for count in (2**62, 90_000):
        with pytest.raises(BadFileError, match=r"m\.avro"):
            decode_file_entries(assemble(schema, "null", [(count, b"\x00")]), path="m.avro")


@pytest.mark.parametrize(
    "query", ["x" * 1_000_000 + ":a", "x." * 500_000 + "y:a", "message:" + "a" * 1_000_000]
)
def test_very_long_names_in_a_query(tmp_path: Path, query: str) -> None:
    table = Table.create(
        str(tmp_path / "t"), schema=SCHEMA, options={"indexing.typemap.message": "text"}
    )
    table.append(pa.table({"id": [1], "message": ["a"], "day": ["d"]}))
    try:
        assert table.search(query).num_rows == 0
    except QuerySyntaxError as error:
        assert len(str(error)) < 5_000


@pytest.mark.parametrize(
    "where", ["x" * 1_000_000 + " = 1", "message." * 200_000 + "x = 1", "id = " + "9" * 100_000]
)
def test_very_long_names_in_a_condition(path: str, where: str) -> None:
    with pytest.raises(IndexTablesError) as caught:
        Table.open(path).files(where=where)
    assert len(str(caught.value)) < 50_000


def test_a_very_long_option(path: str) -> None:
    with pytest.raises(IndexTablesError):
        Table.open(path, options={"x" * 1_000_000: 1})
    with pytest.raises(IndexTablesError, match="cannot be"):
        Table.open(path, options={"logRetention.duration": "9" * 400})


def test_a_store_that_claims_more_layers_than_bytes(tmp_path: Path) -> None:

    file = tmp_path / "x.store"
    file.write_bytes(with_footer(b"\x7f\x7f\x7f\x7f\x7f\x7f\xff" + _STORE_FOOTER.pack(2, 0, 0)))
    with pytest.raises(BadFileError, match="layers"):
        _check_file(file, "s.split", type("F", (), {"start": 0, "end": 1})())


@pytest.mark.parametrize("size", [2**63 - 1, -(2**63), 2**53 + 1])
def test_sizes_that_no_file_has(path: str, size: int) -> None:
    adds = [
        AddAction(path=f"splits/{n}.split", size=size, num_records=size, modification_time=size)
        for n in range(3)
    ]
    Path(path, version_path(2)).write_bytes(version_file.encode(adds))
    assert Table.open(path).files().num_rows == 4
    for act in (
        Table.merge,
        Table.checkpoint,
        Table.state,
        Table.verify,
        Table.history,
        Table.compact,
        Table.component_sizes,
    ):
        try:
            act(Table.open(path))
        except IndexTablesError:
            continue

"""Manifests: what goes in comes out, other writers' files are read, and a damaged file is never
taken for a whole one.
"""

from __future__ import annotations

import io
import json
import random
from collections.abc import Iterator
from itertools import islice
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indextables.errors import BadFileError
from indextables.model.file_list import FILE_SCHEMA
from indextables.wire import manifest
from indextables.wire.avro import (
    block_groups,
    plain_containers,
    read_container,
    read_records,
    zigzag,
)
from indextables.wire.manifest import (
    SCHEMA,
    decode_file_entries,
    encode_file_entries,
    manifest_names,
)
from tests.unit.wire.entries import file_lists, plain_files

COMPRESSIONS = ["zstd", "snappy", "none"]
FOREIGN_18: dict[str, Any] = {
    "type": "record",
    "name": "FileEntry",
    "namespace": "io.indextables.spark.transaction.avro",
    "fields": [
        {"name": "path", "type": "string", "field-id": 100},
        {"name": "partitionValues", "type": {"type": "map", "values": "string"}, "field-id": 101},
        {"name": "size", "type": "long", "field-id": 102},
        {"name": "modificationTime", "type": "long", "field-id": 103},
        {"name": "dataChange", "type": "boolean", "field-id": 104},
        {"name": "numRecords", "type": ["null", "long"], "default": None, "field-id": 113},
        {"name": "hasFooterOffsets", "type": "boolean", "default": False, "field-id": 122},
        {
            "name": "splitTags",
            "type": ["null", {"type": "array", "items": "string"}],
            "field-id": 130,
        },
        {"name": "docMappingRef", "type": ["null", "string"], "default": None, "field-id": 132},
        {"name": "addedAtVersion", "type": "long", "field-id": 140},
        {"name": "addedAtTimestamp", "type": "long", "field-id": 141},
    ],
}
FOREIGN_ROW = {
    "path": "part-1.split",
    "partitionValues": {"day": "1"},
    "size": 5,
    "modificationTime": 6,
    "dataChange": True,
    "numRecords": None,
    "hasFooterOffsets": True,
    "splitTags": ["a"],
    "docMappingRef": "abc",
    "addedAtVersion": 3,
    "addedAtTimestamp": 4,
}


@pytest.fixture(params=["rows", "columns"], scope="module", autouse=True)
def reader(request: pytest.FixtureRequest) -> Iterator[str]:
    """Which library reads the files: what is true of one must be true of the other."""
    with pytest.MonkeyPatch.context() as patch:
        for limit in ("_FEW_ROWS", "_MANY_ROWS"):
            patch.setattr(manifest, limit, 0 if request.param == "columns" else 10**9)
        yield request.param


def foreign(schema: dict[str, Any], rows: list[dict[str, Any]], codec: str = "null") -> bytes:
    out = io.BytesIO()
    fastavro.writer(out, fastavro.parse_schema(json.loads(json.dumps(schema))), rows, codec=codec)
    return out.getvalue()


def test_a_snappy_file_is_readable_row_by_row_too() -> None:
    data = encode_file_entries(plain_files(30), compression="snappy")
    rows = read_records(data, read_container(data, path="m"), path="m")
    assert [row["path"] for row in rows] == plain_files(30).column("path").to_pylist()


@pytest.mark.parametrize("compression", COMPRESSIONS)
@settings(max_examples=40, deadline=None)
@given(files=file_lists())
def test_any_file_list_comes_back(compression: str, files: pa.Table) -> None:
    data = encode_file_entries(files, compression=compression)
    assert (
        decode_file_entries(data, path="m", expected_rows=files.num_rows).to_pylist()
        == files.to_pylist()
    )


@settings(max_examples=60, deadline=None)
@given(files=file_lists(max_size=5))
def test_another_reader_sees_the_same_rows(files: pa.Table) -> None:
    rows = list(fastavro.reader(io.BytesIO(encode_file_entries(files))))
    assert len(rows) == files.num_rows
    for row, ours in zip(rows, files.to_pylist(), strict=True):
        assert row["path"] == ours["path"]
        assert row["partitionValues"] == {
            k: v for k, v in ours["partition_values"] if v is not None
        }
        assert row["minValues"] == (
            None if ours["min_values"] is None else dict(ours["min_values"])
        )
        assert row["splitTags"] == ours["split_tags"]
        assert row["numMergeOps"] == ours["num_merge_ops"]
        assert row["size"] == ours["size"]


def test_the_schema_is_the_formats() -> None:
    declared = json.loads(json.dumps(SCHEMA))
    assert declared["namespace"] == "io.indextables.state"
    ids = {field["name"]: field["field-id"] for field in declared["fields"]}
    assert list(ids)[:25] == [
        *[
            "path",
            "partitionValues",
            "size",
            "modificationTime",
            "dataChange",
            "stats",
            "minValues",
            "maxValues",
        ],
        *[
            "numRecords",
            "footerStartOffset",
            "footerEndOffset",
            "hasFooterOffsets",
            "deleteOpstamp",
            "splitTags",
        ],
        *[
            "numMergeOps",
            "docMappingJson",
            "docMappingRef",
            "uncompressedSizeBytes",
            "timeRangeStart",
            "timeRangeEnd",
        ],
        *["addedAtVersion", "addedAtTimestamp", "companionSourceFiles", "companionDeltaVersion"],
        "companionFastFieldMode",
    ]
    assert list(ids.values())[:14] == [
        100,
        101,
        102,
        103,
        104,
        110,
        111,
        112,
        113,
        120,
        121,
        124,
        123,
        132,
    ]
    for ours in declared["fields"][25:]:
        assert ours["type"][0] == "null"
        assert ours["default"] is None


def test_the_same_rows_give_the_same_bytes_and_name() -> None:
    files = plain_files(500)
    chunked = pa.concat_tables([files.slice(0, 123), files.slice(123)])
    first, second = encode_file_entries(files), encode_file_entries(chunked)
    assert first == second
    assert next(manifest_names(first)) == next(manifest_names(second))
    assert next(manifest_names(first)) != next(
        manifest_names(encode_file_entries(plain_files(501)))
    )
    assert len(next(manifest_names(first))) == len("manifest-.avro") + 16


def test_large_rows_are_cut_into_several_blocks() -> None:
    files = plain_files(40)
    big = pa.array(["x" * 100_000] * 40, pa.string())
    files = files.set_column(files.schema.get_field_index("stats"), FILE_SCHEMA.field("stats"), big)
    data = encode_file_entries(files, compression="none")
    blocks = list(fastavro.block_reader(io.BytesIO(data)))
    assert len(blocks) > 5
    assert all(block.num_records <= 4 for block in blocks)
    assert decode_file_entries(data, path="m", expected_rows=40).equals(files)


def test_items_hidden_under_null_rows_are_not_written() -> None:
    files = plain_files(2)
    kind = FILE_SCHEMA.field("split_tags").type
    validity = pa.array([True, False]).buffers()[1]
    hidden = pa.Array.from_buffers(
        kind,
        2,
        [validity, pa.array([0, 1, 2], pa.int32()).buffers()[1]],
        children=[pa.array(["seen", "hidden"])],
    )
    files = files.set_column(
        files.schema.get_field_index("split_tags"), FILE_SCHEMA.field("split_tags"), hidden
    )
    decoded = decode_file_entries(encode_file_entries(files), path="m")
    assert decoded.column("split_tags").to_pylist() == [["seen"], None]


@pytest.mark.parametrize("codec", ["null", "deflate", "zstandard", "bzip2", "xz"])
def test_a_foreign_schema_is_read_by_name_with_defaults(codec: str) -> None:
    rows = decode_file_entries(
        foreign(FOREIGN_18, [FOREIGN_ROW], codec), path="m", expected_rows=1
    ).to_pylist()
    assert (
        rows[0]
        | {
            "path": "part-1.split",
            "partition_values": [("day", "1")],
            "size": 5,
            "has_footer_offsets": True,
            "split_tags": ["a"],
            "doc_mapping_ref": "abc",
            "added_at_version": 3,
            "min_values": None,
            "hotcache_length": None,
            "unknown": None,
        }
        == rows[0]
    )


def test_fields_in_another_order_and_of_narrower_types() -> None:
    schema = {**FOREIGN_18, "fields": list(reversed(FOREIGN_18["fields"]))}
    schema["fields"] = [
        {**f, "type": "int"} if f["name"] == "size" else f for f in schema["fields"]
    ]
    decoded = decode_file_entries(foreign(schema, [FOREIGN_ROW]), path="m")
    assert decoded.schema == FILE_SCHEMA
    assert decoded.column("size").to_pylist() == [5]


def test_fields_of_a_newer_writer_are_kept() -> None:
    newer = [
        {"name": "sketch", "type": ["null", "string"], "default": None},
        {"name": "weights", "type": {"type": "array", "items": "long"}, "default": []},
    ]
    schema = {**FOREIGN_18, "fields": [*FOREIGN_18["fields"], *newer]}
    data = foreign(schema, [{**FOREIGN_ROW, "sketch": "s", "weights": [1, 2]}])
    assert json.loads(decode_file_entries(data, path="m").column("unknown")[0].as_py()) == {
        "sketch": "s",
        "weights": [1, 2],
    }


def test_a_union_that_only_the_row_reader_takes() -> None:
    fields = [
        f if f["name"] != "numRecords" else {**f, "type": ["null", "long", "string"]}
        for f in FOREIGN_18["fields"]
    ]
    data = foreign({**FOREIGN_18, "fields": fields}, [{**FOREIGN_ROW, "numRecords": 12}])
    assert decode_file_entries(data, path="m").column("num_records").to_pylist() == [12]


def test_a_manifest_without_paths_is_refused() -> None:
    schema = {**FOREIGN_18, "fields": FOREIGN_18["fields"][1:]}
    with pytest.raises(BadFileError, match="m has no field 'path'"):
        decode_file_entries(foreign(schema, [FOREIGN_ROW]), path="m")


def test_only_the_wanted_columns_are_made() -> None:
    files = plain_files(20)
    decoded = decode_file_entries(encode_file_entries(files), path="m", columns=["size", "path"])
    assert decoded.equals(files.select(["path", "size"]))


def test_no_rows() -> None:
    data = encode_file_entries(FILE_SCHEMA.empty_table())
    assert decode_file_entries(data, path="m", expected_rows=0).equals(FILE_SCHEMA.empty_table())


def test_another_number_of_rows_than_the_state_says() -> None:
    with pytest.raises(BadFileError, match="m holds 3 entries where the state says 4"):
        decode_file_entries(encode_file_entries(plain_files(3)), path="m", expected_rows=4)


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_every_truncation_is_noticed(compression: str) -> None:
    data = encode_file_entries(plain_files(30), compression=compression)
    for end in {*range(0, len(data), 7), len(data) - 1, len(data) - 16, len(data) - 17}:
        with pytest.raises(BadFileError, match=r"^m "):
            decode_file_entries(data[:end], path="m", expected_rows=30)


def test_a_file_cut_between_two_blocks_is_noticed_by_the_count() -> None:
    schema = fastavro.parse_schema(json.loads(json.dumps(FOREIGN_18)))
    whole = io.BytesIO()
    fastavro.writer(whole, schema, [FOREIGN_ROW] * 40, sync_interval=1, sync_marker=b"s" * 16)
    container = read_container(whole.getvalue(), path="m")
    assert len(container.blocks) == 40
    half = whole.getvalue()[: container.blocks[19][2] + 16]
    with pytest.raises(BadFileError, match="m holds 20 entries where the state says 40"):
        decode_file_entries(half, path="m", expected_rows=40)


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_every_flipped_bit_is_noticed_or_does_no_harm(compression: str) -> None:
    files = plain_files(30)
    data = encode_file_entries(files, compression=compression)
    chance = random.Random(7)
    noticed = 0
    for _ in range(400):
        broken = bytearray(data)
        broken[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        try:
            assert decode_file_entries(bytes(broken), path="m", expected_rows=30).equals(files)
        except BadFileError:
            noticed += 1
    assert noticed > 350


@settings(max_examples=300, deadline=None)
@given(garbage=st.binary(max_size=400), headed=st.booleans())
def test_garbage_is_a_bad_file(garbage: bytes, headed: bool) -> None:
    with pytest.raises(BadFileError, match=r"^m "):
        decode_file_entries((b"Obj\x01" if headed else b"") + garbage, path="m")


@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    flips=st.integers(1, 6),
    codec=st.sampled_from(["null", "deflate", "zstandard"]),
)
def test_a_damaged_foreign_file_never_crashes_and_never_changes_its_count(
    seed: int, flips: int, codec: str
) -> None:
    broken = bytearray(foreign(FOREIGN_18, [FOREIGN_ROW] * 20, codec))
    chance = random.Random(seed)
    for _ in range(flips):
        broken[chance.randrange(len(broken))] ^= 1 << chance.randrange(8)
    try:
        assert decode_file_entries(bytes(broken), path="m", expected_rows=20).num_rows == 20
    except BadFileError as error:
        assert error.context["path"] == "m"


@pytest.mark.parametrize("rows", [1, 2_000, 16_384, 10**9])
def test_groups_of_blocks_hold_the_rows_of_a_container(rows: int) -> None:
    data = encode_file_entries(plain_files(20_000), compression="zstd")
    container = read_container(data, path="m")
    groups = block_groups(container, rows=rows)
    assert [block for group in groups for block in group] == list(container.blocks) and len(
        container.blocks
    ) > 2
    assert all(sum(count for count, _, _ in group) >= rows for group in groups[:-1])
    paths = []
    for group in groups:
        plain = list(plain_containers(data, container, group))
        assert sum(count for count, _, _ in group) == sum(count for count, _ in plain)
        paths += [
            record["path"]
            for count, part in plain
            for record in islice(fastavro.reader(io.BytesIO(part)), count)
        ]
    assert paths == plain_files(20_000).column("path").to_pylist()


def test_fields_of_other_types_are_read_alike_whichever_library_is_there(reader: str) -> None:
    rows = [{**FOREIGN_ROW, "newer": {"k": "v"}, "size": "7"}] * 3
    schema = {
        **FOREIGN_18,
        "fields": [
            {**f, "type": "string"} if f["name"] == "size" else f for f in FOREIGN_18["fields"]
        ]
        + [{"name": "newer", "type": {"type": "map", "values": "string"}}],
    }
    with pytest.raises(BadFileError, match="m cannot be decoded"):
        decode_file_entries(foreign(schema, rows), path="m")
    schema["fields"] = [*FOREIGN_18["fields"], schema["fields"][-1]]
    plain = [{**row, "size": 7} for row in rows]
    found = decode_file_entries(foreign(schema, plain), path="m")
    assert [json.loads(text) for text in found.column("unknown").to_pylist()] == [
        {"newer": {"k": "v"}}
    ] * 3, reader


def reframed(whole: bytes, blocks: list[tuple[int, bytes]]) -> bytes:
    """The file with other blocks: how many rows each declares, and what it holds."""
    count, start, end = read_container(whole, path="m").blocks[0]
    head = whole[: start - len(zigzag(count)) - len(zigzag(end - start))]
    return head + b"".join(
        zigzag(rows) + zigzag(len(held)) + held + head[-16:] for rows, held in blocks
    )


@pytest.mark.parametrize(
    "extra", [b"\0", bytes(3), b"x" * 50, "a record", "as many again", "more than all of them"]
)
@pytest.mark.parametrize("rows", [1, 3, 60, 3_000])
def test_what_stands_behind_the_last_record_of_a_block_is_noticed_in_bounded_time(
    rows: int, extra: bytes | str
) -> None:
    whole = foreign(FOREIGN_18, [FOREIGN_ROW])
    _, start, end = read_container(whole, path="m").blocks[0]
    record = whole[start:end]
    if isinstance(extra, str):
        extra = (
            record
            * {"a record": 1, "as many again": rows, "more than all of them": 2 * rows + 1}[extra]
        )
    for blocks in (
        [(rows, record * rows + extra)],
        [(rows, record * rows)] * 2 + [(rows, record * rows + extra)],
    ):
        with pytest.raises(BadFileError, match="more than its records"):
            decode_file_entries(reframed(whole, blocks), path="m")


@pytest.mark.parametrize(
    ("blocks", "said"),
    [
        ([(3, 3), (4, 3)], "cannot be decoded"),
        ([(3, 3), (0, 1)], "more than its records"),
        ([(0, 1), (3, 3)], "more than its records"),
        ([(3, 0)], "more records than it has bytes"),
    ],
)
def test_blocks_that_hold_other_records_than_they_declare(
    blocks: list[tuple[int, int]], said: str
) -> None:
    whole = foreign(FOREIGN_18, [FOREIGN_ROW])
    _, start, end = read_container(whole, path="m").blocks[0]
    with pytest.raises(BadFileError, match=said):
        decode_file_entries(
            reframed(whole, [(count, whole[start:end] * held) for count, held in blocks]), path="m"
        )
    healthy = reframed(whole, [(3, whole[start:end] * 3), (0, b""), (4, whole[start:end] * 4)])
    assert decode_file_entries(healthy, path="m").num_rows == 7


def test_counts_that_are_wrong_by_turns_never_change_the_rows(reader: str) -> None:
    whole = foreign(FOREIGN_18, [FOREIGN_ROW])
    _, start, end = read_container(whole, path="m").blocks[0]
    data = reframed(whole, [(3, whole[start:end] * 4), (4, whole[start:end] * 3)])
    if reader == "rows":
        with pytest.raises(BadFileError, match="more than its records"):
            decode_file_entries(data, path="m")
    else:  # which reads several blocks as one: each of their records is there
        assert (
            decode_file_entries(data, path="m").column("path").to_pylist()
            == [FOREIGN_ROW["path"]] * 7
        )


def test_long_entries_are_not_all_held_at_once() -> None:
    files = plain_files(40)
    big = pa.array(["x" * 1_000_000] * 40, pa.string())
    files = files.set_column(files.schema.get_field_index("stats"), FILE_SCHEMA.field("stats"), big)
    data = encode_file_entries(files)
    container = read_container(data, path="m")
    parts = list(plain_containers(data, container, container.blocks))
    assert max(len(part) for _, part in parts) < 12 << 20 and sum(count for count, _ in parts) == 40
    assert decode_file_entries(data, path="m", columns=["path", "size"]).equals(
        files.select(["path", "size"])
    )

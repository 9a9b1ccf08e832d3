"""Checkpoints of the older kinds, and the pointer: every form is read, what is written comes back,
damage is named.
"""

from __future__ import annotations

import gzip
import io
import json
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indextables.errors import BadFileError
from indextables.model.actions import (
    AddAction,
    MetadataAction,
    ProtocolAction,
)
from indextables.wire import old_checkpoints
from indextables.wire.old_checkpoints import (
    MultiPartManifest,
    decode_checkpoint,
    decode_parquet_checkpoint,
    encode_multi_part_manifest,
    encode_parquet_checkpoint,
)
from indextables.wire.state import (
    AVRO_STATE,
    LastCheckpoint,
    UnusablePointer,
    decode_pointer,
    encode_pointer,
)
from tests.support.old_checkpoints_of_others import METADATA, OTHERS
from tests.unit.wire.entries import file_lists, plain_files

ADDS = tuple(AddAction(path=f"f{i}", size=i, partition_values={"day": None}) for i in range(5))
ACTIONS = [*OTHERS, *ADDS]
OBJECT: dict[str, Any] = {
    "protocol": {"minReaderVersion": 2, "minWriterVersion": 2},
    "metaData": {
        "id": "t",
        "schemaString": "{}",
        "partitionColumns": ["date", "hour"],
        "configuration": None,
    },
    "add": [
        {
            "path": "date=1/hour=10/split1.split",
            "partitionValues": {"date": "1", "hour": "10"},
            "size": 1,
        },
        {"path": "date=1/hour=11/split2.split", "partitionValues": {}, "size": 2, "future": True},
    ],
}


@pytest.mark.parametrize("wrap", [bytes, gzip.compress, lambda b: b"\x01\x01" + gzip.compress(b)])
def test_json_lines_plain_or_gzipped(wrap: Any) -> None:
    lines = gzip.decompress(old_checkpoints.encode_part(ACTIONS))
    assert decode_checkpoint(wrap(lines), path="c") == ACTIONS


def test_json_lines_of_a_single_action() -> None:
    assert decode_checkpoint(old_checkpoints.encode_part([METADATA]), path="c") == [METADATA]


@pytest.mark.parametrize("indent", [None, 2])
def test_the_object_form(indent: int | None) -> None:
    actions = decode_checkpoint(gzip.compress(json.dumps(OBJECT, indent=indent).encode()), path="c")
    assert isinstance(actions, list)
    assert [type(a) for a in actions] == [ProtocolAction, MetadataAction, AddAction, AddAction]
    assert actions[2] == AddAction(
        path="date=1/hour=10/split1.split", partition_values={"date": "1", "hour": "10"}, size=1
    )
    assert isinstance(actions[3], AddAction)
    assert actions[3].unknown == {"future": True}


def test_the_manifest_of_a_multi_part_checkpoint() -> None:
    manifest = MultiPartManifest(
        version=20,
        checkpoint_id="u",
        parts=("a.json", "b.json"),
        created_time=5,
        table_id="t",
        checksums=("1", "2"),
    )
    data = encode_multi_part_manifest(manifest)
    assert json.loads(data) == {
        "version": 20,
        "checkpointId": "u",
        "parts": ["a.json", "b.json"],
        "createdTime": 5,
        "format": "json",
        "tableId": "t",
        "checksums": ["1", "2"],
    }
    assert decode_checkpoint(data, path="c", version=20) == manifest
    for without in (["tableId"], ["checksums"], ["tableId", "checksums"]):
        older = {key: value for key, value in json.loads(data).items() if key not in without}
        assert isinstance(
            decode_checkpoint(json.dumps(older).encode(), path="c", version=20), MultiPartManifest
        )


@pytest.mark.parametrize(
    "content",
    [
        {"version": 1, "checkpointId": "u", "parts": []},
        {"version": 1, "checkpointId": "u", "parts": ["../secret.json"]},
        {"version": 1, "checkpointId": "u", "parts": ["a"], "format": "orc"},
        {"version": 1, "checkpointId": "u"},
        {"add": [{"size": 1}]},
        {"add": ["x"]},
        {"nothing": [1], "known": [2]},
        {},
        [],
    ],
)
def test_checkpoints_that_make_no_sense(content: Any) -> None:
    with pytest.raises(BadFileError, match=r"^c[ ,]"):
        decode_checkpoint(json.dumps(content).encode(), path="c")


@settings(max_examples=200, deadline=None)
@given(
    garbage=st.binary(max_size=200),
    prefix=st.sampled_from([b"", b"\x1f\x8b", b"\x01\x01\x1f\x8b", b'{"add":']),
)
def test_garbage_is_a_bad_checkpoint(garbage: bytes, prefix: bytes) -> None:
    try:
        found = decode_checkpoint(prefix + garbage, path="c")
    except BadFileError as error:
        assert error.context["path"] == "c"
    else:
        assert found and not any(isinstance(a, AddAction) for a in found if not isinstance(a, str))  # type: ignore[union-attr]
    with pytest.raises(BadFileError, match=r"^c "):
        decode_parquet_checkpoint(prefix + garbage, path="c")


@settings(max_examples=40, deadline=None)
@given(files=file_lists(max_size=5))
def test_a_parquet_checkpoint_comes_back(files: pa.Table) -> None:
    data = encode_parquet_checkpoint(files, OTHERS, compression="snappy")
    found = decode_parquet_checkpoint(data, path="c")
    assert found.files.to_pylist() == files.to_pylist()
    assert found.actions == OTHERS


@pytest.mark.parametrize("compression", ["snappy", "zstd", "gzip", "none"])
def test_the_parquet_codec_is_the_one_asked_for(compression: str) -> None:
    data = encode_parquet_checkpoint(plain_files(10), OTHERS, compression=compression)
    group = pq.read_metadata(io.BytesIO(data)).row_group(1)
    names = {"none": "UNCOMPRESSED"}
    assert group.column(0).compression == names.get(compression, compression.upper())


def test_a_parquet_checkpoint_with_the_columns_of_its_design_only() -> None:
    rows = [
        {
            "path": "a",
            "partitionValues": [("d", "1")],
            "size": 3,
            "numRecords": 2,
            "actionType": "add",
        },
        {
            "metadataId": "m",
            "schemaString": "{}",
            "partitionColumns": ["d"],
            "format": [("provider", "tantivy4spark")],
            "actionType": "metadata",
        },
    ]
    schema = pa.schema(
        [
            ("path", pa.string()),
            ("partitionValues", pa.map_(pa.string(), pa.string())),
            ("size", pa.int64()),
            ("numRecords", pa.int64()),
            ("metadataId", pa.string()),
            ("schemaString", pa.string()),
            ("partitionColumns", pa.list_(pa.string())),
            ("format", pa.map_(pa.string(), pa.string())),
            ("actionType", pa.string()),
        ]
    )
    out = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), out)
    found = decode_parquet_checkpoint(out.getvalue(), path="c")
    assert found.files.select(["path", "size", "num_records"]).to_pylist() == [
        {"path": "a", "size": 3, "num_records": 2}
    ]
    (metadata,) = found.actions
    assert isinstance(metadata, MetadataAction)
    assert (metadata.id, metadata.partition_columns, metadata.format.provider) == (
        "m",
        ("d",),
        "tantivy4spark",
    )


def test_a_damaged_parquet_checkpoint_is_noticed() -> None:
    data = encode_parquet_checkpoint(plain_files(200), OTHERS, compression="none")
    at = data.index(b"split-000000c0")
    with pytest.raises(BadFileError):
        decode_parquet_checkpoint(data[:at] + b"S" + data[at + 1 :], path="c")
    with pytest.raises(BadFileError):
        decode_parquet_checkpoint(data[:-20], path="c")


def test_the_pointer_comes_back_in_the_formats_words() -> None:
    pointer = LastCheckpoint(
        version=42,
        size=2,
        size_in_bytes=9,
        num_files=2,
        created_time=5,
        format=AVRO_STATE,
        state_dir="state-v42",
    )
    assert json.loads(encode_pointer(pointer)) == {
        "version": 42,
        "size": 2,
        "sizeInBytes": 9,
        "numFiles": 2,
        "createdTime": 5,
        "parts": None,
        "checkpointId": None,
        "format": "avro-state",
        "stateDir": "state-v42",
        "tableId": None,
        "txnId": None,
    }
    assert decode_pointer(encode_pointer(pointer)) == pointer


def test_the_first_pointers_had_a_version_only() -> None:
    assert decode_pointer(b'{"version":10,"later":{}}') == LastCheckpoint(version=10)


@pytest.mark.parametrize(
    "data",
    [b"", b"  \n", b"{", b"[]", b"{}", b'{"version":"x"}', b'{"version":-1}', b"\xff\xfe", b"null"],
)
def test_a_pointer_that_cannot_be_used_says_why(data: bytes) -> None:
    found = decode_pointer(data)
    assert isinstance(found, UnusablePointer)
    assert found.reason

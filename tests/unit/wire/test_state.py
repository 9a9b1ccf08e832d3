"""A state's own file: round trips, other writers' forms, older readers, damage."""

from __future__ import annotations

import io
import json
import random
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indextables.errors import BadFileError, UnsupportedError
from indextables.model.actions import MetadataAction, ProtocolAction, SkipAction, TxnAction
from indextables.model.state import ManifestInfo, StateManifest, Tombstone
from indextables.wire.state import SCHEMA, decode_state, encode_state

METADATA = MetadataAction(
    id="t", schema_string='{"type":"struct","fields":[]}', partition_columns=("day",)
)
STATE = StateManifest(
    state_version=42,
    num_files=3,
    total_bytes=4500,
    created_at=1_700_000_000_000,
    manifests=(
        ManifestInfo(
            path="manifests/manifest-00112233445566ff.avro",
            num_entries=4,
            min_added_at_version=1,
            max_added_at_version=40,
            partition_bounds={"day": ("2024-01-01", None)},
            tombstone_count=1,
            live_entry_count=3,
            column_bounds={"id": ("1", "99"), "näme": (None, "ü")},
            size_bytes=812,
        ),
        ManifestInfo(path="manifest-1.avro", num_entries=0),
    ),
    tombstones=(Tombstone("splits/gone.split", 17),),
    schema_registry={"z7TwwZ-tDWGD-uX5": "[]"},
    metadata=METADATA,
    protocol=ProtocolAction(
        min_reader_version=4, min_writer_version=4, reader_features=("avroState",)
    ),
    commit_timestamp=1_700_000_000_001,
    skips=(
        SkipAction(
            path="a", skip_timestamp=1, reason="r", operation="merge", retry_after=9, skip_count=2
        ),
    ),
    txns=(TxnAction(app_id="stream", version=7),),
    txn_ids=("x", "y"),
)
JSON_STATE: dict[str, Any] = {
    "formatVersion": 1,
    "stateVersion": 42,
    "createdAt": 1704067200000,
    "numFiles": 15000,
    "totalBytes": 1099511627776,
    "protocolVersion": 4,
    "manifests": [
        {
            "path": "manifests/manifest-a1b2c3d4.avro",
            "numEntries": 50000,
            "minAddedAtVersion": 0,
            "maxAddedAtVersion": 42,
            "partitionBounds": {"date": {"min": "2024-01-01", "max": "2024-01-31"}},
        }
    ],
    "tombstones": ["splits/a.split"],
    "schemaRegistry": {"docMappingSchema.ab12cd34ef56gh78": "[]", "bare": "[1]"},
    "metadata": '{"metaData": {"id": "x", "schemaString": "{}", "partitionColumns": ["date"]}}',
}


@pytest.mark.parametrize("compression", ["zstd", "snappy", "none"])
def test_a_state_comes_back(compression: str) -> None:
    data = encode_state(STATE, compression=compression)
    assert decode_state(data, path="s/_manifest.avro") == STATE
    assert encode_state(STATE, compression=compression) == data


def test_an_older_reader_resolves_the_record() -> None:
    """The schema as the format has it, without anything of ours."""
    older: dict[str, Any] = json.loads(json.dumps(SCHEMA))
    names = [field["name"] for field in older["fields"]]
    older["fields"] = older["fields"][: names.index("metadata") + 1]
    item = next(f for f in older["fields"] if f["name"] == "manifests")["type"]["items"]
    item["fields"] = item["fields"][:7]
    record: Any = next(iter(fastavro.reader(io.BytesIO(encode_state(STATE)), reader_schema=older)))
    assert record["stateVersion"] == 42
    assert record["tombstones"] == ["splits/gone.split"]
    assert record["manifests"][0]["partitionBounds"] == {"day": {"min": "2024-01-01", "max": None}}
    assert record["manifests"][0]["liveEntryCount"] == 3
    assert json.loads(record["metadata"])["metaData"]["id"] == "t"


def test_a_record_without_our_fields_takes_their_defaults() -> None:
    older: dict[str, Any] = json.loads(json.dumps(SCHEMA))
    older["fields"] = older["fields"][:10]
    record: Any = next(iter(fastavro.reader(io.BytesIO(encode_state(STATE)))))
    out = io.BytesIO()
    fastavro.writer(out, fastavro.parse_schema(older), [record], codec="deflate")
    state = decode_state(out.getvalue(), path="_manifest.avro")
    assert state.tombstones == (Tombstone("splits/gone.split", None),)
    assert (state.protocol, state.commit_timestamp, state.skips, state.txns, state.txn_ids) == (
        None,
        None,
        (),
        (),
        (),
    )
    assert state.metadata == METADATA


def test_the_json_form() -> None:
    state = decode_state(json.dumps(JSON_STATE).encode(), path="state-v42/_manifest.json")
    assert state.schema_registry == {"ab12cd34ef56gh78": "[]", "bare": "[1]"}
    assert state.manifests[0].partition_bounds == {"date": ("2024-01-01", "2024-01-31")}
    assert state.manifests[0].live_entry_count == -1
    assert state.metadata is not None
    assert state.metadata.partition_columns == ("date",)


@pytest.mark.parametrize(
    ("metadata", "found"),
    [
        (None, None),
        ("", None),
        ('{"metaData": null}', None),
        ('{"id": "bare", "schemaString": "{}"}', "bare"),
        ({"metaData": {"id": "object", "schemaString": "{}"}}, "object"),
    ],
)
def test_metadata_wrapped_bare_or_null(metadata: Any, found: str | None) -> None:
    state = decode_state(
        json.dumps({**JSON_STATE, "metadata": metadata}).encode(), path="_manifest.json"
    )
    assert (state.metadata.id if state.metadata else None) == found


@pytest.mark.parametrize(
    "change",
    [
        {"metadata": "{"},
        {"metadata": "[]"},
        {"metadata": '{"metaData": {"id": 5}}'},
        {"manifests": None},
        {"manifests": [{"path": "m"}]},
        {"stateVersion": "x"},
        {"tombstoneVersions": [1, 2, 3]},
    ],
)
def test_a_json_state_that_makes_no_sense(change: dict[str, Any]) -> None:
    with pytest.raises(BadFileError, match=r"s/_manifest\.json"):
        decode_state(json.dumps({**JSON_STATE, **change}).encode(), path="s/_manifest.json")


def test_a_newer_format_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedError, match="state format 2"):
        decode_state(json.dumps({**JSON_STATE, "formatVersion": 2}).encode(), path="_manifest.json")


@settings(max_examples=200, deadline=None)
@given(garbage=st.binary(max_size=200), suffix=st.sampled_from([".avro", ".json"]))
def test_garbage_is_a_bad_file(garbage: bytes, suffix: str) -> None:
    with pytest.raises(BadFileError, match="_manifest"):
        decode_state(garbage, path=f"_manifest{suffix}")


def test_every_flip_and_every_cut_is_noticed_or_does_no_harm() -> None:
    data = encode_state(STATE)
    for end in range(len(data)):
        with pytest.raises(BadFileError):
            decode_state(data[:end], path="_manifest.avro")
    chance = random.Random(3)
    for at in range(len(data)):
        broken = bytearray(data)
        broken[at] ^= 1 << chance.randrange(8)
        try:
            assert decode_state(bytes(broken), path="_manifest.avro") == STATE
        except BadFileError:
            continue

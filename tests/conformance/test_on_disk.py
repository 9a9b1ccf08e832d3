"""What a table writes to disk: names of files, lines of version files, fields of actions, in every
form of checkpoint.
"""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from indextables import Table
from indextables.config.log import CheckpointSettings
from indextables.log import log_files
from indextables.model.actions import AddAction
from indextables.storage.local import LocalStore
from indextables.wire import version_file
from indextables.wire.manifest import decode_file_entries
from indextables.wire.state import decode_state
from tests.support.fault_server import FaultServer
from tests.support.rows import ids, rows, table_of
from tests.support.state_logs import commit, new_state_log, state_log

FORMS: dict[str, dict[str, Any]] = {
    "Avro state": {"state.format": "avro"},
    "JSON lines": {"state.format": "json"},
    "JSON object": {"state.format": "json", "checkpoint.json.layout": "object"},
    "JSON parts": {"state.format": "json", "checkpoint.maxFileSize": 1024},
    "Parquet": {"state.format": "parquet"},
    "Parquet parts": {"state.format": "parquet", "checkpoint.maxFileSize": 1024},
}
every_form = pytest.mark.parametrize("form", FORMS)


def log_of(root: Path) -> Path:
    return root / log_files.LOG


def version_lines(root: Path, version: int) -> list[dict[str, Any]]:
    """The objects of a version file in its order."""
    path = root / log_files.version_path(version)
    text = version_file.inflate(path.read_bytes(), path=str(path))
    return [json.loads(line) for line in bytes(text).decode().splitlines()]


def values(root: Path, version: int, key: str) -> list[dict[str, Any]]:
    return [line[key] for line in version_lines(root, version) if key in line]


def without_nulls(value: Any) -> Any:
    """The same JSON without fields that are null: a field may be null or absent."""
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    return value


# Version files


def test_a_version_file_has_twenty_digits_and_holds_json_lines(tmp_path: Path) -> None:
    table_of(
        tmp_path,
        appends=11,
        options={"checkpoint.enabled": False, "transaction.compression.enabled": False},
    )
    names = sorted(path.name for path in log_of(tmp_path).iterdir())
    assert names == [f"{version:020d}.json" for version in range(12)]
    assert len(names[0]) == 20 + len(".json")
    for name in names:
        text = (log_of(tmp_path) / name).read_text()
        assert text.endswith("\n")
        assert all(len(json.loads(line)) == 1 for line in text.splitlines())


def test_version_files_are_gzip_unless_the_setting_is_off(tmp_path: Path) -> None:
    table_of(tmp_path / "a", appends=1)
    table_of(tmp_path / "b", appends=1, options={"transaction.compression.enabled": False})
    first = {name: (log_of(tmp_path / name) / f"{1:020d}.json").read_bytes()[:2] for name in "ab"}
    assert first == {"a": b"\x1f\x8b", "b": b'{"'}
    assert (
        ids(Table.open(str(tmp_path / "a")))
        == ids(Table.open(str(tmp_path / "b")))
        == list(range(10))
    )


def test_version_0_holds_one_protocol_and_one_metadata_beside_its_commit_info(
    tmp_path: Path,
) -> None:
    table_of(tmp_path)
    assert [key for line in version_lines(tmp_path, 0) for key in line] == [
        "commitInfo",
        "protocol",
        "metaData",
    ]


@every_form
def test_no_file_of_the_log_ever_changes_but_the_pointer_and_a_note(
    tmp_path: Path, form: str
) -> None:
    """Through appends, a merge, an overwrite, new metadata and checkpoints. The note is the small
    file beside Parquet.
    """
    table = table_of(tmp_path, appends=1, options={"checkpoint.interval": 2, **FORMS[form]})
    seen: dict[str, bytes] = {}

    def look() -> None:
        for path in log_of(tmp_path).rglob("*"):
            name = str(path.relative_to(tmp_path))
            is_note = log_files.legacy_note_version_of(name) is not None
            if path.is_file() and name not in (log_files.POINTER, log_files.CLOCK) and not is_note:
                assert seen.setdefault(name, path.read_bytes()) == path.read_bytes(), name

    steps: list[Callable[[], object]] = [
        *(lambda n=n: table.append(rows([100 + n])) for n in range(5)),
        table.merge,
        table.checkpoint,
        lambda: table.overwrite(rows(range(5))),
        lambda: table.update_metadata(name="renamed"),
        lambda: table.delete(where="id = 3"),
        table.compact,
    ]
    look()
    for step in steps:
        step()
        table.refresh()
        look()
    assert len(seen) > len(steps)


@pytest.mark.parametrize(
    ("store", "condition"),
    [("s3", ("If-None-Match", "*")), ("gcs", ("x-goog-if-generation-match", "0"))],
)
def test_version_files_are_put_on_condition_that_they_are_absent(
    fault_server: FaultServer, store: str, condition: tuple[str, str]
) -> None:
    """So are states. The pointer is replaced, and a manifest is named by its content: it can only
    become what it was.
    """
    place = getattr(fault_server, store).below("table")
    options = {**place.options, "checkpoint.interval": 2, "checkpoint.async.enabled": False}
    table = Table.create(place.url, schema=rows([1]).schema, options=options)
    for n in range(3):
        table.append(rows([n]))
    header, wanted = condition
    sent = [
        (key, headers.get(header))
        for (method, key), headers in zip(fault_server.requests, fault_server.headers, strict=True)
        if method in ("PUT", "POST") and log_files.LOG in key
        if not key.endswith(log_files.POINTER) and log_files.MANIFESTS not in key
    ]
    assert {key.rpartition("/")[2] for key, _ in sent} >= {
        f"{version:020d}.json" for version in range(4)
    }
    assert any(key.endswith("_manifest.avro") for key, _ in sent)
    assert {value for _, value in sent} == {wanted}


# Actions: the examples of the specification, word for word

EXAMPLES: list[dict[str, Any]] = [
    {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
    {
        "protocol": {
            "minReaderVersion": 3,
            "minWriterVersion": 3,
            "readerFeatures": ["footerOffsets", "tantivy4java"],
            "writerFeatures": ["conditionalWrites", "checkpoints"],
        }
    },
    {
        "metaData": {
            "id": "a1b2c3d4-e5f6-4a7b-8c9d-0e1f2a3b4c5d",
            "name": None,
            "description": None,
            "format": {"provider": "indextables", "options": {}},
            "schemaString": '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}}]}',
            "partitionColumns": ["year", "month"],
            "configuration": {"docMappingSchema.ab12cd34ef56gh78": '[{"name":"title"}]'},
            "createdTime": 1696000000000,
        }
    },
    {
        "add": {
            "path": "s3://bucket/table/part-00000-a1b2c3d4.split",
            "partitionValues": {"year": "2024", "month": "10"},
            "size": 1048576,
            "modificationTime": 1696000000000,
            "dataChange": True,
            "stats": '{"numRecords":1000,"minValues":{"id":1},"maxValues":{"id":1000}}',
            "tags": {"source": "batch-job-123"},
            "numRecords": 1000,
            "minValues": {"id": "1", "timestamp": "2024-10-01T00:00:00Z"},
            "maxValues": {"id": "1000", "timestamp": "2024-10-01T23:59:59Z"},
            "footerStartOffset": 1040000,
            "footerEndOffset": 1048576,
            "hotcacheStartOffset": 0,
            "hotcacheLength": 8192,
            "hasFooterOffsets": True,
            "timeRangeStart": "2024-10-01T00:00:00Z",
            "timeRangeEnd": "2024-10-01T23:59:59Z",
            "splitTags": ["production", "batch-123"],
            "deleteOpstamp": 0,
            "numMergeOps": 0,
            "docMappingJson": '{"fields":[{"name":"id","type":"i64"},{"name":"content","type":"text"}]}',
            "docMappingRef": "ab12cd34ef56gh78",
            "uncompressedSizeBytes": 2097152,
        }
    },
    {
        "remove": {
            "path": "s3://bucket/table/old-file.split",
            "deletionTimestamp": 1696000001000,
            "dataChange": True,
            "extendedFileMetadata": None,
            "partitionValues": {"year": "2024", "month": "09"},
            "size": 524288,
            "tags": {"reason": "overwrite"},
        }
    },
    {
        "remove": {
            "path": "splits/old-split.split",
            "deletionTimestamp": 1704153600000,
            "dataChange": True,
        }
    },
    {
        "mergeskip": {
            "path": "s3://bucket/table/corrupted-file.split",
            "skipTimestamp": 1696000000000,
            "reason": "Failed to merge: corrupted split metadata",
            "operation": "merge",
            "partitionValues": {"year": "2024", "month": "10"},
            "size": 102400,
            "retryAfter": 1696086400000,
            "skipCount": 2,
        }
    },
]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: next(iter(example)))
def test_an_example_of_the_specification_is_understood_and_written_back(
    example: dict[str, Any],
) -> None:
    """No field lands among those that are not known, and the line that is written says the same."""
    [action] = version_file.decode(json.dumps(example).encode() + b"\n", path="v")
    assert not getattr(action, "unknown", None)
    assert json.loads(version_file.encode_action(action)) == without_nulls(example)


@every_form
def test_every_field_of_an_add_survives_every_form_of_checkpoint(tmp_path: Path, form: str) -> None:
    example = next(line["add"] for line in EXAMPLES if "add" in line)
    mapping = example["docMappingJson"]
    full = {**example, "path": "splits/a.split", "partitionValues": {"day": "2024"}}
    del full["docMappingRef"]  # the mapping is inline, and gets its name from the writer
    [action] = version_file.decode(json.dumps({"add": full}).encode(), path="v")
    assert isinstance(action, AddAction)
    settings = FORMS[form]
    log = new_state_log(
        tmp_path,
        checkpoint=CheckpointSettings(
            interval=1000,
            format=str(settings["state.format"]),
            json_layout=str(settings.get("checkpoint.json.layout", "lines")),
            max_file_bytes=int(settings.get("checkpoint.maxFileSize", 1 << 27)),
        ),
    )
    commit(
        log,
        action,
        *(
            AddAction(path=f"splits/{n}.split", size=n, partition_values={"day": "1"})
            for n in range(40)
        ),
    )
    log.checkpoint()
    for version in range(2):
        (tmp_path / log_files.version_path(version)).unlink(missing_ok=True)
    snapshot = state_log(LocalStore(str(tmp_path))).newest()
    (row,) = [row for row in snapshot.all_files.to_pylist() if row["path"] == "splits/a.split"]
    found = {
        key: dict(value) if key in MAPS and value is not None else value
        for key, value in row.items()
    }
    expected = {
        camel_to_snake(key): value for key, value in full.items() if key != "docMappingJson"
    }
    assert found == {**found, **expected}
    assert (
        found["doc_mapping_json"] or snapshot.schema_registry[found["doc_mapping_ref"]]
    ) == mapping
    assert found["added_at_version"] == 1


MAPS = ("partition_values", "tags", "min_values", "max_values")


def camel_to_snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)


def test_an_append_writes_statistics_offsets_and_counts(tmp_path: Path) -> None:
    table = table_of(tmp_path, appends=1, partitioned=True)
    adds = values(tmp_path, 1, "add")
    assert len(adds) == 3
    for add in adds:
        split = tmp_path / add["path"]
        assert add["size"] == split.stat().st_size == add["footerEndOffset"]
        assert 0 < add["footerStartOffset"] == add["hotcacheStartOffset"] < add["footerEndOffset"]
        assert add["hotcacheLength"] > 0 and add["hasFooterOffsets"] is True
        found = table.scan(where=f"day = {add['partitionValues']['day']}").read_all()
        assert add["numRecords"] == found.num_rows == json.loads(add["stats"])["numRecords"]
        numbers, levels = found.column("id").to_pylist(), found.column("level").to_pylist()
        assert (add["minValues"]["id"], add["maxValues"]["id"]) == (
            str(min(numbers)),
            str(max(numbers)),
        )
        assert (add["minValues"]["level"], add["maxValues"]["level"]) == (min(levels), max(levels))
        assert add["tags"] and add["uncompressedSizeBytes"] > 0 and add["dataChange"] is True
        assert (add["deleteOpstamp"], add["numMergeOps"]) == (0, 0)
        assert abs(add["modificationTime"] - time.time() * 1000) < 60_000


def test_an_overwrite_removes_every_file_and_adds_the_new_ones_in_one_version(
    tmp_path: Path,
) -> None:
    table = table_of(tmp_path, appends=3, partitioned=True)
    before = {row["path"]: row for row in table.files().to_pylist()}
    table.overwrite(rows([1, 2, 3]))
    removes, adds = values(tmp_path, 4, "remove"), values(tmp_path, 4, "add")
    assert {remove["path"] for remove in removes} == before.keys() and len(removes) == 9
    assert {add["path"] for add in adds} == set(table.files().column("path").to_pylist())
    for remove in removes:
        row = before[remove["path"]]
        assert remove["dataChange"] is True and remove["size"] == row["size"]
        assert remove["partitionValues"] == dict(row["partition_values"])
        assert abs(remove["deletionTimestamp"] - time.time() * 1000) < 60_000
    assert sorted(p.name for p in log_of(tmp_path).glob("0*.json"))[-1] == f"{4:020d}.json"


def test_a_merge_that_skips_a_split_writes_every_field_of_the_skip(tmp_path: Path) -> None:
    table = table_of(tmp_path, appends=3, partitioned=True)
    bad = next(
        row for row in table.files().to_pylist() if dict(row["partition_values"]) == {"day": "1"}
    )
    (tmp_path / bad["path"]).write_bytes(b"no split")
    table.merge()
    (skip,) = (
        skip
        for version in range(4, table.refresh().version + 1)
        for skip in values(tmp_path, version, "mergeskip")
    )
    assert (skip["path"], skip["operation"], skip["skipCount"]) == (bad["path"], "merge", 1)
    assert (skip["partitionValues"], skip["size"]) == ({"day": "1"}, bad["size"])
    assert skip["reason"] and skip["retryAfter"] - skip["skipTimestamp"] == 24 * 3_600_000


# Folders and names


def test_splits_lie_in_splits_below_folders_of_their_partition_and_the_log_beside_them(
    tmp_path: Path,
) -> None:
    schema = pa.schema([("year", pa.int32()), ("place", pa.string()), ("n", pa.int64())])
    table = Table.create(str(tmp_path), schema=schema, partition_columns=["year", "place"])
    table.append(
        pa.table(
            {"year": [2024, 2024, None], "place": ["rio", "a/b=c", "rio"], "n": [1, 2, 3]},
            schema=schema,
        )
    )
    folders = {str(path.parent.relative_to(tmp_path)) for path in tmp_path.rglob("*.split")}
    assert folders == {
        "year=2024/place=rio/splits",
        "year=2024/place=a%2Fb%3Dc/splits",
        "year=__HIVE_DEFAULT_PARTITION__/place=rio/splits",
    }
    assert {add["path"] for add in values(tmp_path, 1, "add")} == {
        str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.split")
    }
    assert all(path.name.startswith("split-") for path in tmp_path.rglob("*.split"))
    assert {path.name for path in tmp_path.iterdir()} == {
        log_files.LOG,
        "year=2024",
        "year=__HIVE_DEFAULT_PARTITION__",
    }
    flat = table_of(tmp_path / "flat", appends=1)
    assert [
        str(path.relative_to(flat.path).parent) for path in Path(flat.path).rglob("*.split")
    ] == ["splits"]


def test_partition_values_are_texts_in_the_log_and_typed_by_the_schema_when_read(
    tmp_path: Path,
) -> None:
    schema = pa.schema([("hour", pa.int32()), ("name", pa.string()), ("n", pa.int64())])
    table = Table.create(str(tmp_path), schema=schema, partition_columns=["hour", "name"])
    table.append(
        pa.table({"hour": [9, 10, None], "name": ["9", "x", None], "n": [1, 2, 3]}, schema=schema)
    )
    recorded = sorted((add["partitionValues"] for add in values(tmp_path, 1, "add")), key=str)
    assert recorded == sorted(
        [{"hour": "9", "name": "9"}, {"hour": "10", "name": "x"}, {"hour": None, "name": None}],
        key=str,
    )
    assert table.scan(where="hour > 9").read_all().column("n").to_pylist() == [2], (
        "as a text, 9 is above 10"
    )
    assert (
        table.count(where="name = '9'") == 1
        and table.count(where="hour IS NULL AND name IS NULL") == 1
    )
    assert table.scan().read_all().schema == schema


def test_a_state_a_manifest_and_the_pointer_have_the_names_and_fields_of_the_format(
    tmp_path: Path,
) -> None:
    table = table_of(tmp_path, appends=3)
    began = time.time() * 1000
    table.checkpoint()
    log = log_of(tmp_path)
    state = f"state-v{3:020d}"
    assert [path.name for path in log.glob("state-v*/*")] == ["_manifest.avro"] and (
        log / state
    ).is_dir()
    (manifest,) = (log / "manifests").iterdir()
    assert manifest.name.startswith("manifest-") and manifest.suffix == ".avro"
    pointer = json.loads((log / "_last_checkpoint").read_bytes())
    size = sum(path.stat().st_size for path in tmp_path.rglob("*.split"))
    assert abs(pointer.pop("createdTime") - began) < 60_000
    assert (
        pointer.items()
        >= {
            "version": 3,
            "size": 3,
            "sizeInBytes": size,
            "numFiles": 3,
            "parts": None,
            "checkpointId": None,
            "format": "avro-state",
            "stateDir": state,
        }.items()
    )


def test_two_states_share_the_manifest_of_what_did_not_change(tmp_path: Path) -> None:
    table = table_of(tmp_path, appends=2)
    table.checkpoint()
    first = set((log_of(tmp_path) / "manifests").iterdir())
    table.append(rows([50]))
    table.checkpoint()
    both = set((log_of(tmp_path) / "manifests").iterdir())
    assert len(first) == 1 and len(both) == 2 and first < both
    assert table.state().num_manifests == 2


@pytest.mark.parametrize(
    ("form", "name"),
    [
        ("JSON lines", f"{2:020d}.checkpoint.json"),
        ("JSON object", f"{2:020d}.checkpoint.json"),
        ("Parquet", f"_checkpoints/{2:020d}.checkpoint.parquet"),
    ],
)
def test_a_checkpoint_of_an_older_form_has_the_name_of_its_version(
    tmp_path: Path, form: str, name: str
) -> None:
    table = table_of(tmp_path, appends=2, options=FORMS[form])
    table.checkpoint()
    written = (log_of(tmp_path) / name).read_bytes()
    assert (
        written[:4]
        == {"JSON lines": b"\x1f\x8b\x08\x00", "JSON object": written[:4], "Parquet": b"PAR1"}[form]
    )
    if form == "JSON lines":
        assert all(
            len(json.loads(line)) == 1 for line in gzip.decompress(written).splitlines()[:-1]
        )
    pointer = json.loads((log_of(tmp_path) / "_last_checkpoint").read_bytes())
    assert pointer["version"] == 2 and abs(pointer["createdTime"] - time.time() * 1000) < 60_000
    if form == "Parquet":
        note = json.loads(
            (log_of(tmp_path) / "_checkpoints" / f"{2:020d}.checkpoint.json").read_bytes()
        )
        assert (note["version"], note["size"], note["parts"]) == (2, 2, None)
        assert abs(note["createdTime"] - time.time() * 1000) < 60_000


def test_bounds_of_a_manifest_are_the_least_and_the_greatest_value(tmp_path: Path) -> None:
    """Where numbers have another order as texts, only the typed bounds are written: other readers
    compare texts.
    """
    schema = pa.schema([("hour", pa.int32()), ("place", pa.string()), ("n", pa.int64())])
    options: dict[str, object] = {"state.entriesPerManifest": 4}
    table = Table.create(
        str(tmp_path), schema=schema, partition_columns=["hour", "place"], options=options
    )
    hours = [2, 11, 9, 30, 7, 1, 100, 12, 3, 20]
    table.append(
        pa.table({"hour": hours, "place": [f"p{h}" for h in hours], "n": hours}, schema=schema)
    )
    table.compact()
    (path,) = log_of(tmp_path).glob("state-v*/_manifest.avro")
    manifests = decode_state(path.read_bytes(), path=str(path)).manifests
    assert [manifest.num_entries for manifest in manifests] == [4, 4, 2]
    for manifest in manifests:
        data = (log_of(tmp_path) / manifest.path).read_bytes()
        entries = decode_file_entries(data, path=manifest.path, columns=["partition_values"])
        found = [dict(row) for row in entries.column("partition_values").to_pylist()]
        numbers, texts = [int(row["hour"]) for row in found], [row["place"] for row in found]
        right = {"hour": (str(min(numbers)), str(max(numbers))), "place": (min(texts), max(texts))}
        typed, shared = manifest.column_bounds or {}, manifest.partition_bounds or {}
        assert {column: typed[column] for column in right} == right
        assert shared == {column: right[column] for column in shared} and "place" in shared
        assert ("hour" in shared) is (len(str(min(numbers))) == len(str(max(numbers))))


def test_texts_in_statistics_are_cut_after_32_characters_but_not_those_of_partitions(
    tmp_path: Path,
) -> None:
    schema = pa.schema([("place", pa.string()), ("text", pa.string())])
    table = Table.create(str(tmp_path), schema=schema, partition_columns=["place"])
    table.append(pa.table({"place": ["p" * 100] * 2, "text": ["a" * 100, "m" * 100]}))
    (add,) = values(tmp_path, 1, "add")
    assert (add["minValues"]["text"], add["maxValues"]["text"]) == ("a" * 32, "m" * 31 + "n")
    assert add["partitionValues"] == {"place": "p" * 100}
    assert add["minValues"].get("place", "p" * 100) == "p" * 100
    assert (
        table.count(where=f"text = '{'m' * 100}'")
        == table.count(where=f"text = '{'a' * 100}'")
        == 1
    )

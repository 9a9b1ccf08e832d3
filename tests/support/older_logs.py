"""Tables as other writers leave them, made from a table of ours: the same splits below a log that
is written by hand.

`older_protocol` writes the log of protocol 1, 2 or 3: version files alone. `states_alone` writes
the log of an engine that commits by Avro states: version 0, then one state per commit, no further
version files. Neither uses the package's writers.
"""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path
from typing import Any, Literal

import fastavro

from indextables import Table
from indextables.wire import version_file

LOG = "_transaction_log"
SchemaPlace = Literal["inline", "registry"]
ManifestPaths = Literal["shared", "normalized", "bare"]
_TEXT, _TEXTS, _LONG = (
    ["null", "string"],
    ["null", {"type": "map", "values": "string"}],
    ["null", "long"],
)
_OPTIONAL: dict[str, tuple[Any, int]] = {
    "stats": (_TEXT, 110),
    "minValues": (_TEXTS, 111),
    "maxValues": (_TEXTS, 112),
    "numRecords": (_LONG, 113),
    "footerStartOffset": (_LONG, 120),
    "footerEndOffset": (_LONG, 121),
    "splitTags": (["null", {"type": "array", "items": "string"}], 130),
    "numMergeOps": (["null", "int"], 131),
    "docMappingRef": (_TEXT, 132),
    "uncompressedSizeBytes": (_LONG, 133),
}
_REQUIRED: dict[str, tuple[Any, int]] = {
    "path": ("string", 100),
    "partitionValues": ({"type": "map", "values": "string"}, 101),
    "size": ("long", 102),
    "modificationTime": ("long", 103),
    "dataChange": ("boolean", 104),
    "hasFooterOffsets": ("boolean", 122),
    "addedAtVersion": ("long", 140),
    "addedAtTimestamp": ("long", 141),
}
_FILE_ENTRY = {
    "type": "record",
    "name": "FileEntry",
    "namespace": "io.indextables.spark.transaction.avro",
    "fields": [
        *(
            {"name": name, "type": kind, "field-id": number}
            for name, (kind, number) in _REQUIRED.items()
        ),
        *(
            {"name": name, "type": kind, "default": None, "field-id": number}
            for name, (kind, number) in _OPTIONAL.items()
        ),
    ],
}
_BOUNDS = {
    "type": "record",
    "name": "PartitionBoundsItem",
    "fields": [
        {"name": "min", "type": _TEXT, "default": None},
        {"name": "max", "type": _TEXT, "default": None},
    ],
}
_MANIFEST = {
    "type": "record",
    "name": "ManifestInfoItem",
    "fields": [
        {"name": "path", "type": "string"},
        {"name": "numEntries", "type": "long"},
        {"name": "minAddedAtVersion", "type": "long"},
        {"name": "maxAddedAtVersion", "type": "long"},
        {
            "name": "partitionBounds",
            "type": ["null", {"type": "map", "values": _BOUNDS}],
            "default": None,
        },
    ],
}
_STATE = {
    "type": "record",
    "name": "StateManifest",
    "namespace": "io.indextables.state",
    "fields": [
        {"name": "formatVersion", "type": "int"},
        {"name": "stateVersion", "type": "long"},
        {"name": "createdAt", "type": "long"},
        {"name": "numFiles", "type": "long"},
        {"name": "totalBytes", "type": "long"},
        {"name": "manifests", "type": {"type": "array", "items": _MANIFEST}},
        {"name": "tombstones", "type": {"type": "array", "items": "string"}, "default": []},
        {"name": "schemaRegistry", "type": {"type": "map", "values": "string"}, "default": {}},
        {"name": "protocolVersion", "type": "int", "default": 4},
        {"name": "metadata", "type": _TEXT, "default": None},
    ],
}


def older_protocol(
    table: Table,
    root: Path,
    protocol: dict[str, Any] | None,
    *,
    schemas: SchemaPlace,
    absolute: bool = False,
) -> Path:
    """Write the splits and versions of `table` below `root` with another protocol; None leaves the
    protocol out.
    """
    _copy_splits(table, root)
    lines, registry = _lines(table)
    for version, actions in enumerate(lines):
        written: list[dict[str, Any]] = []
        if version == 0:
            metadata = next(line["metaData"] for line in actions if "metaData" in line)
            keys = {f"docMappingSchema.{name}": text for name, text in registry.items()}
            metadata = {**metadata, "configuration": keys if schemas == "registry" else {}}
            written = [*([{"protocol": protocol}] if protocol else []), {"metaData": metadata}]
        for line in actions:
            if "add" in line:
                add = dict(line["add"])
                if schemas == "inline":
                    add["docMappingJson"] = registry[add.pop("docMappingRef")]
                written.append(
                    {"add": {**add, "path": f"{root}/{add['path']}" if absolute else add["path"]}}
                )
            elif "remove" in line:
                written.append(line)
        (root / LOG / f"{version:020d}.json").write_text(
            "".join(json.dumps(line) + "\n" for line in written)
        )
    return root


def states_alone(
    table: Table, root: Path, *, paths: ManifestPaths = "shared", as_json: bool = False
) -> Path:
    """Write `table`, which only grew, as one state per append; a manifest holds what its append
    added.
    """
    _copy_splits(table, root)
    lines, registry = _lines(table)
    log = root / LOG
    metadata = next(line["metaData"] for line in lines[0] if "metaData" in line)
    first = [
        {
            "protocol": {
                "minReaderVersion": 4,
                "minWriterVersion": 4,
                "readerFeatures": None,
                "writerFeatures": None,
            }
        },
        {"metaData": {**metadata, "configuration": {}}},
    ]
    text = "".join(json.dumps(line) + "\n" for line in first).encode()
    (log / f"{0:020d}.json").write_bytes(b"\x01\x01" + gzip.compress(text))
    (log / "manifests").mkdir()
    manifests: list[dict[str, Any]] = []
    entries: list[dict[str, Any]] = []
    for version, actions in enumerate(lines[1:], 1):
        folder = f"state-v{version:020d}"
        (log / folder).mkdir()
        added = [_entry(line["add"], version) for line in actions if "add" in line]
        name = f"manifest-{version:08x}.avro"
        target = {
            "shared": f"manifests/{name}",
            "normalized": f"{folder}/{name}",
            "bare": f"{folder}/{name}",
        }[paths]
        with (log / target).open("wb") as out:
            fastavro.writer(out, fastavro.parse_schema(_FILE_ENTRY), added, codec="zstandard")
        for manifest in manifests:
            if "/" not in manifest["path"]:  # a bare name is one of the state's own directory
                manifest["path"] = f"state-v{version - 1:020d}/{manifest['path']}"
        entries += added
        manifests.append(
            {
                "path": name if paths == "bare" else target,
                "numEntries": len(added),
                "minAddedAtVersion": version,
                "maxAddedAtVersion": version,
                "partitionBounds": _bounds(added, metadata["partitionColumns"]),
            }
        )
        state = {
            "formatVersion": 1,
            "stateVersion": version,
            "createdAt": 1_700_000_000_000 + version,
            "numFiles": len(entries),
            "totalBytes": sum(entry["size"] for entry in entries),
            "manifests": manifests,
            "tombstones": [],
            "schemaRegistry": registry,
            "protocolVersion": 4,
            "metadata": json.dumps({"metaData": {**metadata, "configuration": {}}}),
        }
        if as_json:
            (log / folder / "_manifest.json").write_text(json.dumps(state))
        else:
            with (log / folder / "_manifest.avro").open("wb") as out:
                fastavro.writer(out, fastavro.parse_schema(_STATE), [state], codec="zstandard")
        pointer = {
            "version": version,
            "size": len(entries),
            "sizeInBytes": state["totalBytes"],
            "numFiles": len(entries),
        }
        pointer |= {"createdTime": state["createdAt"], "format": "avro-state", "stateDir": folder}
        (log / "_last_checkpoint").write_text(json.dumps(pointer))
    return root


def _copy_splits(table: Table, root: Path) -> None:
    shutil.copytree(table.path, root, ignore=shutil.ignore_patterns(LOG))
    (root / LOG).mkdir()


def _lines(table: Table) -> tuple[list[list[dict[str, Any]]], dict[str, str]]:
    """The lines of every version, and the doc mappings by their names."""
    lines = []
    for version in range(table.version + 1):
        path = Path(table.path, LOG, f"{version:020d}.json")
        text = bytes(version_file.inflate(path.read_bytes(), path=str(path)))
        lines.append([json.loads(line) for line in text.splitlines()])
    registry = {}
    for actions in lines:
        for line in actions:
            for key, text_of in line.get("metaData", {}).get("configuration", {}).items():
                if key.startswith("docMappingSchema."):
                    registry[key.removeprefix("docMappingSchema.")] = text_of
    return lines, registry


def _entry(add: dict[str, Any], version: int) -> dict[str, Any]:
    known = {name: add.get(name) for name in (*_REQUIRED, *_OPTIONAL)}
    return {**known, "addedAtVersion": version, "addedAtTimestamp": 1_700_000_000_000 + version}


def _bounds(entries: list[dict[str, Any]], columns: list[str]) -> dict[str, dict[str, str]] | None:
    found = {
        column: sorted(entry["partitionValues"][column] for entry in entries) for column in columns
    }
    return {column: {"min": texts[0], "max": texts[-1]} for column, texts in found.items()} or None

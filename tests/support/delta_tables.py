"""A small writer of Delta tables: column mapping, deletion vectors, and every other shape that a
source of a companion can have.

delta-rs writes no deletion vectors and no column mapping, so a history that needs them is written
here, action by action, as the protocol of Delta describes. The tables are read back by delta-rs.
"""

from __future__ import annotations

import json
import struct
import uuid
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, QueryBuilder

from indextables.model.deletion_vector import encode_rows

_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_BITMAP_ARRAY = 1681511377
ARROW = {"long": pa.int64(), "string": pa.string(), "double": pa.float64(), "date": pa.date32()}


def read_rows(path: str, version: int | None = None) -> list[dict[str, Any]]:
    """The rows of a version, as delta-rs reads them."""
    table = DeltaTable(path, version=version)
    found = QueryBuilder().register("source", table).execute("select * from source")
    rows: list[dict[str, Any]] = pa.table(found).to_pylist()
    return rows


@dataclass(frozen=True)
class Column:
    """A column of the table and its name in the files."""

    name: str
    physical: str
    kind: str


@dataclass(frozen=True)
class DataFile:
    """A live file: its rows by physical name, and which of them are deleted."""

    path: str
    size: int
    rows: pa.Table
    partition: dict[str, str | None]
    deleted: frozenset[int] = frozenset()
    vector: str = ""
    """The deletion vector as the log describes it, in JSON: a remove names the same one."""

    @property
    def living(self) -> pa.Table:
        """The rows that are not deleted."""
        keep = [n not in self.deleted for n in range(self.rows.num_rows)]
        return self.rows.filter(pa.array(keep, pa.bool_()))


@dataclass
class HandDelta:
    """A Delta table that is written by hand."""

    root: Path
    columns: list[Column]
    partition_columns: tuple[str, ...] = ()
    maps_columns: bool = False
    version: int = -1
    live: dict[str, DataFile] = field(default_factory=dict)
    history: list[tuple[list[Column], dict[str, DataFile]]] = field(default_factory=list)
    table_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    names: int = 0

    @classmethod
    def create(
        cls,
        root: Path,
        columns: Sequence[tuple[str, str]],
        *,
        partition_columns: tuple[str, ...] = (),
        maps_columns: bool = False,
    ) -> HandDelta:
        """Write version 0."""
        (root / "_delta_log").mkdir(parents=True)
        table = cls(root, [], partition_columns, maps_columns)
        table.columns = [table._new_column(name, kind) for name, kind in columns]
        features = ["deletionVectors", *(["columnMapping"] if maps_columns else [])]
        protocol = {
            "minReaderVersion": 3,
            "minWriterVersion": 7,
            "readerFeatures": features,
            "writerFeatures": features,
        }
        table.commit([{"protocol": protocol}, table._metadata()])
        return table

    def _new_column(self, name: str, kind: str) -> Column:
        self.names += 1
        return Column(name, f"col-{self.names}" if self.maps_columns else name, kind)

    def _metadata(self) -> dict[str, Any]:
        fields = []
        for number, column in enumerate(self.columns):
            mapping = {
                "delta.columnMapping.id": number + 1,
                "delta.columnMapping.physicalName": column.physical,
            }
            metadata = mapping if self.maps_columns else {}
            fields.append(
                {"name": column.name, "type": column.kind, "nullable": True, "metadata": metadata}
            )
        configuration = {"delta.enableDeletionVectors": "true"}
        if self.maps_columns:
            configuration |= {
                "delta.columnMapping.mode": "name",
                "delta.columnMapping.maxColumnId": str(self.names),
            }
        return {
            "metaData": {
                "id": self.table_id,
                "format": {"provider": "parquet", "options": {}},
                "schemaString": json.dumps({"type": "struct", "fields": fields}),
                "partitionColumns": list(self.partition_columns),
                "configuration": configuration,
                "createdTime": 0,
            }
        }

    def commit(self, actions: Iterable[dict[str, Any]]) -> int:
        """Write the next version."""
        self.version += 1
        info = {"commitInfo": {"timestamp": 1_700_000_000_000 + self.version * 1000}}
        path = self.root / "_delta_log" / f"{self.version:020}.json"
        path.write_text("\n".join(json.dumps(action) for action in [info, *actions]))
        self.history.append((list(self.columns), dict(self.live)))
        return self.version

    def write_file(
        self, rows: Sequence[dict[str, Any]], partition: dict[str, Any] | None = None
    ) -> DataFile:
        """Write rows, by logical names, as a Parquet file that is not part of the table yet."""
        values = partition or {}
        stored = [c for c in self.columns if c.name not in self.partition_columns]
        table = pa.table(
            {c.physical: pa.array([row.get(c.name) for row in rows], ARROW[c.kind]) for c in stored}
        )
        folder = "".join(f"{name}={value} %/" for name, value in values.items())
        path = f"{folder}part {uuid.uuid4().hex[:12]}.parquet"
        full = self.root / path
        full.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, full, row_group_size=max(1, len(rows) // 2))
        physical = {c.name: c.physical for c in self.columns}
        texts = {physical[n]: None if v is None else str(v) for n, v in values.items()}
        return DataFile(path, full.stat().st_size, table, texts)

    def _add(self, file: DataFile) -> dict[str, Any]:
        action: dict[str, Any] = {
            "path": quote(file.path),
            "partitionValues": file.partition,
            "size": file.size,
            "modificationTime": 0,
            "dataChange": True,
            "stats": json.dumps({"numRecords": file.rows.num_rows}),
        }
        if file.vector:
            action["deletionVector"] = json.loads(file.vector)
        return {"add": action}

    def _remove(self, file: DataFile) -> dict[str, Any]:
        action = {
            "path": quote(file.path),
            "deletionTimestamp": 1,
            "dataChange": True,
            "extendedFileMetadata": True,
            "partitionValues": file.partition,
            "size": file.size,
        }
        if file.vector:
            action["deletionVector"] = json.loads(file.vector)
        return {"remove": action}

    def _vector(self, rows: frozenset[int], *, on_disk: bool = False) -> dict[str, Any]:
        body = encode_rows(np.array(sorted(rows), np.int64))
        bitmaps = struct.pack("<QI", 1, 0) + body
        payload = struct.pack("<I", _BITMAP_ARRAY) + bitmaps
        inline = {
            "storageType": "i",
            "pathOrInlineDv": z85(payload),
            "sizeInBytes": len(payload),
            "cardinality": len(rows),
        }
        if not on_disk:
            return inline
        name = uuid.uuid4()
        data = b"\x01" + struct.pack(">I", len(payload)) + payload
        data += struct.pack(">I", zlib.crc32(payload))
        (self.root / f"deletion_vector_{name}.bin").write_bytes(data)
        return {
            "storageType": "u",
            "pathOrInlineDv": z85(name.bytes),
            "offset": 1,
            "sizeInBytes": len(payload),
            "cardinality": len(rows),
        }

    def replace_files(self, removed: Sequence[DataFile], added: Sequence[DataFile]) -> int:
        """Commit removed and added files."""
        actions = [self._remove(file) for file in removed]
        actions += [self._add(file) for file in added]
        for file in removed:
            self.live.pop(file.path, None)
        for file in added:
            self.live[file.path] = file
        return self.commit(actions)

    def append(self, rows: Sequence[dict[str, Any]], **partition: Any) -> int:
        """Add a file."""
        return self.replace_files([], [self.write_file(rows, partition)])

    def logical(self, file: DataFile) -> list[dict[str, Any]]:
        """The living rows of a file by logical names, without partition values."""
        names = {c.physical: c.name for c in self.columns}
        return [
            {names[key]: value for key, value in row.items() if key in names}
            for row in file.living.to_pylist()
        ]

    def delete_by_vector(self, path: str, rows: Iterable[int], *, on_disk: bool = False) -> int:
        """Delete rows of a file by a deletion vector."""
        file = self.live[path]
        deleted = file.deleted | frozenset(rows)
        vector = json.dumps(self._vector(deleted, on_disk=on_disk))
        masked = replace(file, deleted=deleted, vector=vector)
        actions = [self._remove(file), self._add(masked)]
        self.live[path] = masked
        return self.commit(actions)

    def rewrite(self, paths: Sequence[str], rows: Sequence[dict[str, Any]] | None = None) -> int:
        """Write the living rows of files of one partition, or other rows, as one new file."""
        files = [self.live[path] for path in paths]
        kept = [row for file in files for row in self.logical(file)] if rows is None else rows
        logical = {c.physical: c.name for c in self.columns}
        values = {logical[name]: value for name, value in files[0].partition.items()}
        added = [self.write_file(kept, values)] if kept else []
        return self.replace_files(files, added)

    def restore(self, version: int) -> int:
        """Bring back an older version: its columns and its files."""
        columns, files = self.history[version]
        self.columns = list(columns)
        actions = [self._metadata()]
        actions += [self._remove(f) for p, f in self.live.items() if files.get(p) != f]
        actions += [self._add(f) for p, f in files.items() if self.live.get(p) != f]
        self.live = dict(files)
        return self.commit(actions)

    def add_column(self, name: str, kind: str) -> int:
        """Add a column, which old files lack."""
        self.columns.append(self._new_column(name, kind))
        return self.commit([self._metadata()])

    def rename_column(self, name: str, other: str) -> int:
        """Give a column another name; its physical name stays."""
        self.columns = [replace(c, name=other) if c.name == name else c for c in self.columns]
        return self.commit([self._metadata()])

    def drop_column(self, name: str) -> int:
        """Drop a column; its values stay in the files."""
        self.columns = [c for c in self.columns if c.name != name]
        return self.commit([self._metadata()])

    def overwrite(self, columns: Sequence[tuple[str, str]], rows: Sequence[dict[str, Any]]) -> int:
        """Replace all rows and the columns."""
        removed = list(self.live.values())
        self.columns = [self._new_column(name, kind) for name, kind in columns]
        added = self.write_file(rows, {})
        actions = [self._metadata(), *(self._remove(file) for file in removed), self._add(added)]
        self.live = {added.path: added}
        return self.commit(actions)

    def vacuum(self) -> None:
        """Delete the files that the newest version does not name."""
        for path in self.root.rglob("*.parquet"):
            if str(path.relative_to(self.root)) not in self.live:
                path.unlink()


def z85(data: bytes) -> str:
    """Bytes in the text form of inline deletion vectors."""
    padded = data + b"\0" * (-len(data) % 4)
    text = ""
    for at in range(0, len(padded), 4):
        number = int.from_bytes(padded[at : at + 4], "big")
        group = ""
        for _ in range(5):
            number, digit = divmod(number, 85)
            group = _Z85[digit] + group
        text += group
    return text

"""A Delta table as a source, read by delta-rs: versions, deletion vectors, column mapping.

The path of a file in the log is percent-encoded and never gets other content. Columns are found in
the files by their physical names.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
from msgspec import Struct

from indextables.companion.source_snapshot import LATEST, At, FileKey, ListedFile, SourceSnapshot
from indextables.errors import (
    BadFileError,
    StorageError,
    TableNotFoundError,
    UnsupportedError,
    VersionNotFoundError,
)
from indextables.model.column_names import NAME_KEY, dump_schema
from indextables.model.deletion_vector import RowSet
from indextables.model.values import encode_value
from indextables.splits.read.cache import RecentItems, SplitCache
from indextables.splits.read.source_bytes import SourceBytes
from indextables.splits.read.source_rows import SourceParquet
from indextables.storage.spec import StoreSpec
from indextables.storage.store import Store

_PHYSICAL = "delta.columnMapping.physicalName"
_VECTORS = "deletionVectors"
_SNAPSHOTS: RecentItems[SourceSnapshot] = RecentItems(16)
"""Snapshots of Delta tables that were read, by URL, table and version."""


class DeltaSource(Struct, frozen=True):
    """Reads a Delta table."""

    store: Store
    spec: StoreSpec

    def read(self, at: At, *, known: Mapping[FileKey, int]) -> SourceSnapshot:
        """Return the table at a version: the newest, a number, or as of a timestamp."""
        table = self._open(at)
        source_id, version = str(table.metadata().id), int(table.version())
        key = self.spec.url, source_id, version
        read = _SNAPSHOTS.get(key)
        if read is None:
            read = self._convert(table, source_id, version, known)
            _SNAPSHOTS.put(key, read, 1)
        return read

    def _open(self, at: At) -> Any:
        delta = _delta_library()
        options = self._storage_options()
        try:
            if isinstance(at, int):
                return delta.DeltaTable(self.spec.url, version=at, storage_options=options)
            table = delta.DeltaTable(self.spec.url, storage_options=options)
            if isinstance(at, dt.datetime):
                table.load_as_version(at)
        except delta.exceptions.TableNotFoundError as error:
            raise TableNotFoundError(
                f"There is no Delta table at {self.spec.url}.",
                hint="Check the source's path.",
                path=self.spec.url,
            ) from error
        except delta.exceptions.DeltaError as error:
            if at == LATEST:
                message = f"The Delta table {self.spec.url} cannot be read: {error}."
                raise StorageError(message, path=self.spec.url) from error
            raise VersionNotFoundError(
                f"The Delta table {self.spec.url} cannot be read at {at}: {error}.",
                hint="Choose a version that the source's own history shows.",
                path=self.spec.url,
            ) from error
        return table

    def _storage_options(self) -> dict[str, str] | None:
        """Return credentials and endpoint in the words of delta-rs."""
        aws, azure = self.spec.options.aws, self.spec.options.azure
        named = {
            "AWS_ACCESS_KEY_ID": aws.access_key,
            "AWS_SECRET_ACCESS_KEY": aws.secret_key,
            "AWS_SESSION_TOKEN": aws.session_token,
            "AWS_REGION": aws.region,
            "AWS_ENDPOINT_URL": aws.endpoint,
            "AWS_ALLOW_HTTP": "true" if aws.allow_http else None,
            "AZURE_STORAGE_ACCOUNT_NAME": azure.account_name,
            "AZURE_STORAGE_ACCOUNT_KEY": azure.account_key,
            "AZURE_STORAGE_SAS_TOKEN": azure.sas_token,
        }
        return {name: str(value) for name, value in named.items() if value} or None

    def _convert(
        self, table: Any, source_id: str, version: int, known: Mapping[FileKey, int]
    ) -> SourceSnapshot:
        schema = _table_schema(json.loads(table.schema().to_json()))
        physical = {
            field["metadata"].get(NAME_KEY, field["name"]): field["name"]
            for field in schema["fields"]
        }
        partitions = tuple(physical[name] for name in table.metadata().partition_columns)
        adds = pa.table(table.get_add_actions())
        paths = [_plain_path(text, self.spec.url) for text in adds.column("path").to_pylist()]
        _check_once(paths, self.spec.url, version)
        masks = self._masks(table, paths)
        sizes = adds.column("size_bytes").to_pylist()
        counts = self._counts(adds, paths, sizes, known)
        values = _partition_values(adds, physical)
        files = tuple(
            ListedFile(path, size, "", rows, own, masks.get(path))
            for path, size, rows, own in zip(paths, sizes, counts, values, strict=True)
        )
        for file in files:
            if file.deleted is not None and len(file.deleted) and file.deleted[-1] >= file.rows:
                message = (
                    f"A deletion vector of {file.path} names row {file.deleted[-1]} of {file.rows}."
                )
                raise BadFileError(message, path=file.path)
        return SourceSnapshot(str(version), source_id, dump_schema(schema), partitions, files)

    def _counts(
        self,
        adds: pa.Table,
        paths: Sequence[str],
        sizes: Sequence[int],
        known: Mapping[FileKey, int],
    ) -> list[int]:
        """Return the row count of each file; of one without statistics, from its footer."""
        recorded = adds.column("num_records").to_pylist()
        counts = []
        for path, size, rows in zip(paths, sizes, recorded, strict=True):
            count = known.get((path, size, ""), rows)
            if count is None:
                data = SourceBytes(self.store, path, size, "")
                count = SourceParquet(data, pa.schema([]), SplitCache.default()).num_rows
            counts.append(int(count))
        return counts

    def _masks(self, table: Any, paths: Sequence[str]) -> dict[str, RowSet]:
        """Return the deleted rows of each file that has a deletion vector."""
        if _VECTORS not in (table.protocol().reader_features or ()):
            return {}
        root = unquote(str(table.table_uri)).rstrip("/")
        live, masks = set(paths), dict[str, RowSet]()
        for row in pa.table(table.deletion_vectors()).to_batches():
            named, kept = row.column("filepath"), row.column("selection_vector")
            for number in range(row.num_rows):
                place = unquote(named[number].as_py()).removeprefix("file://")
                path = place.removeprefix(root.removeprefix("file://")).lstrip("/")
                if path not in live or path in masks:
                    message = f"A deletion vector is of {place}, which is no file of {root}."
                    raise BadFileError(message, path=place)
                keep = np.asarray(kept[number].values.to_numpy(zero_copy_only=False), np.bool_)
                masks[path] = np.flatnonzero(~keep).astype(np.int64)
        return masks


def _delta_library() -> Any:
    try:
        import deltalake  # noqa: PLC0415  # an extra
        import deltalake.exceptions  # noqa: PLC0415
    except ImportError as error:
        raise UnsupportedError(
            "A companion of a Delta table needs the library deltalake.",
            hint="pip install 'indextables[delta]'",
        ) from error
    return deltalake


def _plain_path(text: str, url: str) -> str:
    """Return the path of a file relative to the table, decoded."""
    path = unquote(text)
    if "://" in text or path.startswith("/") or ".." in path.split("/"):
        raise UnsupportedError(
            f"The Delta table {url} names the file {text} outside of its folder, as a shallow clone "
            "does.",
            hint="Make the companion of the table that has the files.",
            path=text,
        )
    return path


def _check_once(paths: Sequence[str], url: str, version: int) -> None:
    seen: set[str] = set()
    for path in paths:
        if path in seen:
            raise BadFileError(
                f"Version {version} of the Delta table {url} names {path} twice.",
                hint="Repair the table with the engine that wrote it.",
                path=path,
            )
        seen.add(path)


def _partition_values(adds: pa.Table, physical: Mapping[str, str]) -> list[dict[str, str | None]]:
    if "partition" not in adds.column_names or not adds.num_rows:
        return [{} for _ in range(adds.num_rows)]
    column = adds.column("partition").combine_chunks()
    if isinstance(column, pa.ChunkedArray):
        column = column.chunk(0)
    texts = {
        physical[field.name]: [encode_value(v) if v.is_valid else None for v in column.field(n)]
        for n, field in enumerate(column.type)
    }
    return [{name: values[row] for name, values in texts.items()} for row in range(adds.num_rows)]


def _table_schema(delta: dict[str, Any]) -> dict[str, Any]:
    """Return a Delta schema as the log of a table writes it: physical names, with the logical ones
    as metadata.
    """
    return {"type": "struct", "fields": [_field(each) for each in delta["fields"]]}


def _field(delta: dict[str, Any]) -> dict[str, Any]:
    physical = (delta.get("metadata") or {}).get(_PHYSICAL, delta["name"])
    metadata = {NAME_KEY: delta["name"]} if physical != delta["name"] else {}
    return {
        "name": physical,
        "type": _type(delta["type"]),
        "nullable": True,
        "metadata": metadata,
    }


def _type(delta: Any) -> Any:
    if not isinstance(delta, dict):
        return delta
    if delta.get("type") == "struct":
        return _table_schema(delta)
    changed = {
        key: _type(delta[key]) for key in ("elementType", "keyType", "valueType") if key in delta
    }
    nullable = {key: True for key in ("containsNull", "valueContainsNull") if key in delta}
    return {**delta, **changed, **nullable}

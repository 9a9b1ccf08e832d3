"""A folder of Parquet files as a source: every `*.parquet` below it is part of the table.

Names that begin with `_` or `.` are left out, as other engines do. A file is identified by its path,
size and stamp (tag of the store; inode and times on a disk). Folders named `column=value` are
partitions. The columns are those of all files together.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence

import pyarrow as pa
from msgspec import Struct

from indextables.companion.source_snapshot import (
    LATEST,
    SYNCED,
    At,
    FileKey,
    ListedFile,
    NotCounted,
)
from indextables.companion.source_snapshot import SourceSnapshot as Snapshot
from indextables.errors import InvalidInputError, RefusedError, SchemaMismatchError
from indextables.model.schema import (
    check_schema,
    check_storable,
    normalize,
    schema_from_json,
    schema_to_json,
)
from indextables.model.values import decode_value, encode_value, unescape
from indextables.pools import SPLITS
from indextables.splits.read.cache import SplitCache
from indextables.splits.read.source_bytes import SourceBytes, file_stamp
from indextables.splits.read.source_rows import SourceParquet
from indextables.storage.store import ObjectInfo, Store

_SUFFIX = ".parquet"
_PARTITION = re.compile(r"([^=/]+)=(.*)")
_NULL = "__HIVE_DEFAULT_PARTITION__"
_DELTA_LOG = "_delta_log"
_AT_ONCE = 8


class ParquetFolder(Struct, frozen=True):
    """Reads a folder of Parquet files."""

    store: Store
    schema_json: str
    """The columns that the companion records; empty before it is created."""
    partition_columns: tuple[str, ...]
    settle_seconds: float
    now_ms: int

    def read(self, at: At, *, known: Mapping[FileKey, int]) -> Snapshot:
        """Return the files of the folder as they are now."""
        if at not in (LATEST, SYNCED):
            raise NotCounted(self.store.url).refuse(at)
        listed = [(info, file_stamp(self.store, info)) for info in self._list()]
        new = [(info, stamp) for info, stamp in listed if _key(info, stamp) not in known]
        readers = [self._reader(info, stamp) for info, stamp in new]
        rows = list(SPLITS.each(lambda r: r.num_rows, iter(readers), parallelism=_AT_ONCE))
        counts = {
            **known,
            **{_key(*each): count for each, count in zip(new, rows, strict=True)},
        }
        values = [_partition_texts(info.path) for info, _ in listed]
        columns, partitions = self._columns(readers, values)
        files = tuple(
            ListedFile(
                info.path,
                info.size,
                stamp,
                counts[_key(info, stamp)],
                _typed_values(info.path, texts, columns, partitions),
                is_settled=self._is_settled(info),
            )
            for (info, stamp), texts in zip(listed, values, strict=True)
        )
        digest = files_digest([file.key for file in files])
        return Snapshot(digest, "", schema_to_json(columns), partitions, files)

    def _list(self) -> list[ObjectInfo]:
        found = []
        for info in self.store.list():
            parts = info.path.split("/")
            if parts[0] == _DELTA_LOG:
                raise RefusedError(
                    f"{self.store.url} is a Delta table, not a plain folder: some of its files may "
                    "not be part of the table.",
                    hint="Write format='delta'.",
                    path=self.store.url,
                )
            if any(_is_hidden(part) for part in parts) or not parts[-1].endswith(_SUFFIX):
                continue
            found.append(info)
        return found

    def _reader(self, info: ObjectInfo, stamp: str) -> SourceParquet:
        data = SourceBytes(self.store, info.path, info.size, stamp)
        return SourceParquet(data, pa.schema([]), SplitCache.default())

    def _columns(
        self, readers: Sequence[SourceParquet], values: Sequence[Mapping[str, str | None]]
    ) -> tuple[pa.Schema, tuple[str, ...]]:
        """Return the columns of all files together, and the partition columns."""
        if self.schema_json:
            recorded = schema_from_json(self.schema_json)
            partitions = self.partition_columns
        else:
            recorded, partitions = pa.schema([]), _partition_columns(self.store.url, values)
        schema = pa.schema([f for f in recorded if f.name not in partitions])
        for reader in readers:
            schema = self._unify(schema, reader)
        if not len(schema):
            raise InvalidInputError(
                f"{self.store.url} has no *{_SUFFIX} file, so its columns are not known.",
                hint="Name the folder that has the files, or write the first one.",
                path=self.store.url,
            )
        kinds = [
            recorded.field(name) if name in recorded.names else _partition_field(name, values)
            for name in partitions
        ]
        return pa.schema([*schema, *kinds]), partitions

    def _unify(self, schema: pa.Schema, reader: SourceParquet) -> pa.Schema:
        try:
            own = normalize(pa.schema([f.remove_metadata() for f in reader.file_schema]))
            check_schema(own)
            check_storable(own)
            own = pa.schema([field.with_nullable(True) for field in own])
            return pa.unify_schemas([schema, own], promote_options="permissive")
        except (pa.ArrowTypeError, pa.ArrowInvalid) as error:
            raise SchemaMismatchError(
                f"The columns of {reader.path} do not fit those of the other files: {error}.",
                hint="Write the file again with the types that the other files have.",
                path=reader.path,
            ) from error

    def _is_settled(self, info: ObjectInfo) -> bool:
        if info.last_modified_ms is None:
            return True
        age = self.now_ms - info.last_modified_ms
        return abs(age) >= self.settle_seconds * 1_000


def files_digest(keys: Sequence[FileKey]) -> str:
    """Return a digest of files, which is the version of a folder."""
    text = "\n".join("\t".join(map(str, key)) for key in sorted(keys))
    return f"files-{hashlib.sha256(text.encode()).hexdigest()[:24]}"


def _key(info: ObjectInfo, stamp: str) -> FileKey:
    return info.path, info.size, stamp


def _is_hidden(part: str) -> bool:
    return part.startswith(".") or (part.startswith("_") and "=" not in part)


def _partition_texts(path: str) -> dict[str, str | None]:
    """Return the partition values in the folders of a path."""
    values: dict[str, str | None] = {}
    for part in path.split("/")[:-1]:
        match = _PARTITION.fullmatch(part)
        if match is not None:
            text = unescape(match[2])
            values[unescape(match[1])] = None if text == _NULL else text
    return values


def _partition_columns(url: str, values: Sequence[Mapping[str, str | None]]) -> tuple[str, ...]:
    ways = {tuple(each) for each in values}
    if len(ways) > 1:
        shown = " and ".join(sorted("/".join(way) or "no partitions" for way in ways))
        raise SchemaMismatchError(f"The files of {url} are partitioned by {shown}.", path=url)
    return next(iter(ways), ())


def _partition_field(name: str, values: Sequence[Mapping[str, str | None]]) -> pa.Field:
    """Return the type of a partition column: whole numbers and dates where every value is one."""
    texts = {text for each in values if (text := each[name]) is not None}
    for kind in (pa.int64(), pa.date32()):
        decoded = {text: decode_value(text, kind) for text in texts}
        if texts and all(_spells(text, value, kind) for text, value in decoded.items()):
            return pa.field(name, kind)
    return pa.field(name, pa.string())


def _spells(text: str, value: object, kind: pa.DataType) -> bool:
    return value is not None and encode_value(pa.scalar(value, kind)) == text


def _typed_values(
    path: str,
    texts: Mapping[str, str | None],
    columns: pa.Schema,
    partitions: Sequence[str],
) -> dict[str, str | None]:
    if tuple(texts) != tuple(partitions):
        found = "/".join(texts) or "no partitions"
        raise SchemaMismatchError(
            f"{path} is partitioned by {found}; the source by {'/'.join(partitions) or 'nothing'}.",
            path=path,
        )
    for name, text in texts.items():
        kind = columns.field(name).type
        if text is not None and decode_value(text, kind) is None:
            raise SchemaMismatchError(
                f"{path} has the partition {name}={text}, which is not {kind} as in other files.",
                path=path,
                column=name,
            )
    return dict(texts)

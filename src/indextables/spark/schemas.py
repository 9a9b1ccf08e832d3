"""Schemas and column names between table, Spark and Arrow, and batches in exactly Spark's Arrow
schema.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.types import StructType

from indextables.errors import InvalidInputError, SchemaMismatchError, UnsupportedError
from indextables.model.schema import schema_from_json
from indextables.spark.compat import to_arrow_schema


def quoted(name: str) -> str:
    """Quote a column name for Spark."""
    return "`" + name.replace("`", "``") + "`"


PATH_KEY = "indextables.path"
"""Field metadata with the table's path, for reads of catalog tables where Spark has lost the
options.
"""
FRAME_KEY = "indextables.frame"
"""Field metadata with the table and version of a frame. The extension removes it."""
_PADDED = re.compile(r"(?:var)?char\(\s*\d+\s*\)", re.IGNORECASE)
_CHAR = re.compile(r"char\(\s*\d+\s*\)", re.IGNORECASE)
_NEVER = re.compile(r"(?!)")
_BATCH_ROWS = 1 << 16
_BATCH_BYTES = 64 << 20


def readable(schema_json: str) -> StructType:
    """Return the schema of a scan: any column may be null, because an older split lacks it."""
    return StructType.fromJson(_loosen(json.loads(schema_json), plain=_PADDED))


def declare_types(schema_json: str) -> StructType:
    """Return the schema with VARCHAR as declared: Spark checks lengths when it writes by name."""
    return StructType.fromJson(_loosen(json.loads(schema_json), plain=_CHAR))


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return a Spark schema as the table's Arrow schema, with every column nullable and without our
    metadata.

    A DataFrame without nulls is no promise for later rows, and Spark's own tables treat it in the
    same way.
    """
    document = _loosen(json.loads(schema.json()), plain=_NEVER)
    for column in document["fields"]:
        for key in (PATH_KEY, FRAME_KEY):
            column.get("metadata", {}).pop(key, None)
    try:
        return schema_from_json(json.dumps(document))
    except UnsupportedError as error:
        raise UnsupportedError(
            f"Column {error.context.get('column')!r} has the type {error.context.get('type')!r}, which a table cannot store.",
            hint="Cast it to a type that can be stored: docs/explain/spark.md lists them.",
            **error.context,
        ) from None


def with_path(schema: StructType, path: str) -> StructType:
    """Return the schema with the table's path in the metadata of its first field."""
    return with_metadata(schema, PATH_KEY, path)


def with_metadata(schema: StructType, key: str, value: str) -> StructType:
    """Return the schema with a text in the metadata of its first field."""
    document = json.loads(schema.json())
    document["fields"][0].setdefault("metadata", {})[key] = value
    return StructType.fromJson(document)


def path_in(schema: StructType) -> str | None:
    """Return the path that `with_path` stored in a schema; two different ones are an error."""
    paths = {f.metadata[PATH_KEY] for f in schema if PATH_KEY in (f.metadata or {})}
    if len(paths) > 1:
        raise InvalidInputError(
            f"The columns come from several tables: {', '.join(sorted(paths))}.",
            hint="Give the path as an option.",
        )
    return next(iter(paths), None)


class SparkBatches:
    """Converts batches of a scan to exactly Spark's Arrow schema, with many rows each."""

    def __init__(self, schema: StructType) -> None:
        self.schema: pa.Schema = to_arrow_schema(schema)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the same rows in batches of about 64K."""
        group: list[pa.RecordBatch] = []
        rows = size = 0
        for batch in batches:
            group.append(self._conform(batch))
            rows += batch.num_rows
            size += batch.nbytes
            if rows >= _BATCH_ROWS or size >= _BATCH_BYTES:
                yield from _join(group)
                group, rows, size = [], 0, 0
        if rows:
            yield from _join(group)

    def _conform(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = [
            _cast(column, field) for column, field in zip(batch.columns, self.schema, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def _cast(column: pa.Array, field: pa.Field) -> pa.Array:
    if column.type.equals(field.type, check_metadata=True):
        return column
    try:
        return column.cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        message = (
            f"Column {field.name!r} is {column.type} and cannot be read as {field.type}: {error}."
        )
        raise SchemaMismatchError(
            message, hint="Read it with the table's own type and cast it in Spark."
        ) from error


def _join(batches: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    if len(batches) == 1:
        yield batches[0]
        return
    yield from pa.Table.from_batches(batches).combine_chunks().to_batches()


def _loosen(spark: Any, *, plain: re.Pattern[str]) -> Any:
    """Return a type's JSON with everything nullable, and types that match `plain` as text, as in a
    DataFrame.
    """
    if isinstance(spark, str):
        if plain.fullmatch(spark.strip()):
            return "string"
        return spark
    if isinstance(spark, list):
        return [_loosen(part, plain=plain) for part in spark]
    if not isinstance(spark, dict):
        return spark
    loose = {"nullable": True, "containsNull": True, "valueContainsNull": True}
    attributes = {key: spark[key] for key in ("name", "metadata") if key in spark}
    rest = {key: value for key, value in spark.items() if key not in attributes}
    return attributes | {
        key: loose.get(key, _loosen(value, plain=plain)) for key, value in rest.items()
    }

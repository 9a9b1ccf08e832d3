"""Schemas and column names between table, Spark and Arrow: what Spark is told, and batches exactly as Spark wants them."""

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
    """A column name that Spark takes as it stands, whatever characters it holds."""
    return "`" + name.replace("`", "``") + "`"


PATH_KEY = "indextables.path"
"""Field metadata that carries the table's path to where Spark has lost the options: reads of catalog tables."""
FRAME_KEY = "indextables.frame"
"""Field metadata that tells the extension which version of which table a frame is made of; the extension takes it out."""
_PADDED = re.compile(r"(?:var)?char\(\s*\d+\s*\)", re.IGNORECASE)
_CHAR = re.compile(r"char\(\s*\d+\s*\)", re.IGNORECASE)
_NEVER = re.compile(r"(?!)")
_BATCH_ROWS = 1 << 16
_BATCH_BYTES = 64 << 20


def readable(schema_json: str) -> StructType:
    """The schema that a scan returns: any column may be null, because a split older than it has no value for it."""
    return StructType.fromJson(_loosen(json.loads(schema_json), plain=_PADDED))


def declare_types(schema_json: str) -> StructType:
    """The same with VARCHAR as it was declared: Spark checks the length of what it writes by name."""
    return StructType.fromJson(_loosen(json.loads(schema_json), plain=_CHAR))


def arrow_schema(schema: StructType) -> pa.Schema:
    """A Spark schema in Arrow, as the table keeps it.

    Every column may hold nulls: that a DataFrame's happens to hold none is no promise for the rows that come later, and
    Spark's own tables do not take it for one either. The marks of our own reads are left out.
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
    """The schema with the table's path in the metadata of its first field."""
    return with_metadata(schema, PATH_KEY, path)


def with_metadata(schema: StructType, key: str, value: str) -> StructType:
    """The schema with a text in the metadata of its first field."""
    document = json.loads(schema.json())
    document["fields"][0].setdefault("metadata", {})[key] = value
    return StructType.fromJson(document)


def path_in(schema: StructType) -> str | None:
    """The path that `with_path` has left in a schema; two different ones are an error."""
    paths = {f.metadata[PATH_KEY] for f in schema if PATH_KEY in (f.metadata or {})}
    if len(paths) > 1:
        raise InvalidInputError(
            f"The columns come from several tables: {', '.join(sorted(paths))}.", hint="Give the path as an option."
        )
    return next(iter(paths), None)


class SparkBatches:
    """Makes batches of a scan into what Spark takes: exactly its Arrow schema, and many rows at a time."""

    def __init__(self, schema: StructType) -> None:
        self.schema: pa.Schema = to_arrow_schema(schema)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The same rows in batches of about 64K."""
        group: list[pa.RecordBatch] = []
        rows = size = 0
        for batch in batches:
            group.append(self._conformed(batch))
            rows += batch.num_rows
            size += batch.nbytes
            if rows >= _BATCH_ROWS or size >= _BATCH_BYTES:
                yield from _joined(group)
                group, rows, size = [], 0, 0
        if rows:
            yield from _joined(group)

    def _conformed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = [_cast(column, field) for column, field in zip(batch.columns, self.schema, strict=True)]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def _cast(column: pa.Array, field: pa.Field) -> pa.Array:
    if column.type.equals(field.type, check_metadata=True):
        return column
    try:
        return column.cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        message = f"Column {field.name!r} is {column.type} and cannot be read as {field.type}: {error}."
        raise SchemaMismatchError(message, hint="Read it with the table's own type and cast it in Spark.") from error


def _joined(batches: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    if len(batches) == 1:
        yield batches[0]
        return
    yield from pa.Table.from_batches(batches).combine_chunks().to_batches()


def _loosen(spark: Any, *, plain: re.Pattern[str]) -> Any:
    """A type's JSON with everything nullable, and types that match `plain` as the text that they are in a DataFrame."""
    if isinstance(spark, str):
        return "string" if plain.fullmatch(spark.strip()) else spark
    if isinstance(spark, list):
        return [_loosen(part, plain=plain) for part in spark]
    if not isinstance(spark, dict):
        return spark
    loose = {"nullable": True, "containsNull": True, "valueContainsNull": True}
    attributes = {key: spark[key] for key in ("name", "metadata") if key in spark}
    rest = {key: value for key, value in spark.items() if key not in attributes}
    return attributes | {key: loose.get(key, _loosen(value, plain=plain)) for key, value in rest.items()}

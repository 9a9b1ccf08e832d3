"""Answer requests of the catalog in Spark's driver (`java/CatalogRequest.java`): load, create and
change tables by location.

A request is a verb and a JSON document; the answer is a JSON document. An error is returned with
its kind and a message in Spark's terms, and raised in the driver with an error class, without a
traceback of this process.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DataType, StructField, StructType

from indextables.errors import IndexTablesError, UnsupportedError
from indextables.model.predicate import Or, all_of
from indextables.model.values import decode_value, encode_value
from indextables.operations.definition import set_properties
from indextables.spark.error_texts import error_document
from indextables.spark.overwrites import (
    OVERWRITE_MODE,
    SESSION_OVERWRITE_MODE,
    OverwriteRequest,
    parse_mode,
)
from indextables.spark.reads import table as read_table
from indextables.spark.schemas import arrow_schema, declare_types, readable
from indextables.spark.settings import session_settings
from indextables.spark.source.definitions import TableDefinition, shown_properties, table_properties
from indextables.spark.source.filters import parse_filters
from indextables.spark.source.options import SourceOptions
from indextables.spark.source.reader import Frame
from indextables.spark.source.writer import plan_source_write
from indextables.spark.writes import run_write
from indextables.table import Table

logger = logging.getLogger(__name__)

Document = dict[str, Any]
Settings = Mapping[str, object]


def answer(
    verb: str, arguments: Document, settings: Settings, frame: DataFrame | None = None
) -> str:
    """Answer a request with JSON. Our errors are returned, not raised."""
    try:
        if verb == "write":
            assert frame is not None
            return json.dumps(_write(frame, arguments, settings))
        return json.dumps(_VERBS[verb](arguments, settings))
    except IndexTablesError as error:
        logger.debug("the catalog's request %s failed", verb, exc_info=True)
        return error_document(error)


def describe_table(table: Table) -> Document:
    """Return Spark's description of a table."""
    return {
        "path": table.path,
        "schema": readable(table.metadata.schema_string).json(),
        "columns": declare_types(table.metadata.schema_string).json(),
        "partitions": list(table.partition_columns),
        "properties": shown_properties(table),
        "version": table.version,
        "id": table.metadata.id,
        "frame": str(Frame.of(table)),
    }


def native_rows(spark: SparkSession, path: str, frame: str) -> DataFrame | None:
    """Return the rows of one version of a table as `its.table` reads them, or None if another table
    is at the path now.
    """
    version = Frame.parse(frame)
    if version is None:
        return None
    return read_table(spark, path, version=version.version, at=version.at)


def _load(arguments: Document, settings: Settings) -> Document:
    version, micros = arguments.get("version"), arguments.get("micros")
    if micros is None:
        moment = None
    else:
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=int(micros))
    word = None if version is None else str(version).strip()
    meant = int(word) if word and word.isdigit() else word
    return describe_table(
        Table.open(arguments["path"], version=meant, timestamp=moment, options=settings)
    )


def _create(arguments: Document, settings: Settings) -> Document:
    return describe_table(TableDefinition.parse(arguments).create(settings))


def _stage(arguments: Document, settings: Settings) -> Document:
    """Return the table that a definition describes, without creating it."""
    definition = TableDefinition.parse(arguments)
    plan = definition.plan(settings)
    return {
        "path": definition.path,
        "schema": readable(plan.schema_json).json(),
        "columns": declare_types(plan.schema_json).json(),
        "partitions": list(plan.partition_columns),
        "properties": {**definition.settings, **definition.properties},
        "version": plan.read_version,
        "id": plan.table.id,
        "frame": Frame.NEW,
    }


def _write(frame: DataFrame, arguments: Document, settings: Settings) -> Document:
    options = SourceOptions.parse(
        {**{key: str(value) for key, value in settings.items()}, **arguments["options"]}
    )
    plan = plan_source_write(options, frame.schema, overwrite=bool(arguments["overwrite"]))
    return {"version": run_write(frame, plan, {**settings, **options.settings})}


def _overwrite_mode(arguments: Document, _: Settings) -> Document:
    """Return the overwrite mode of a write by name, with the value that replaces the writer's
    option.
    """
    dynamic = OverwriteRequest(
        arguments["replaces"],
        arguments["caller"],
        option=parse_mode(arguments["option"], key=OVERWRITE_MODE),
        session=parse_mode(arguments["session"], key=SESSION_OVERWRITE_MODE),
        has_condition=bool(arguments["hasCondition"]),
    ).is_dynamic()
    if arguments["replaces"] == "nothing":
        return {"mode": None}
    return {"mode": "dynamic" if dynamic else "static"}


def _truncate(arguments: Document, settings: Settings) -> Document:
    table = Table.open(arguments["path"], options=settings)
    return {"version": table.delete(where="true").version}


def _partitions(arguments: Document, settings: Settings) -> Document:
    table = Table.open(arguments["path"], options=settings)
    names = table.partition_columns
    stored = table.handle.names.columns(names)
    types = [table.schema.field(name).type for name in names]
    # Another engine may spell a value otherwise: Spark is sent one text for one value.
    values = {
        tuple(
            _plain_text(dict(row or []).get(name), kind)
            for name, kind in zip(stored, types, strict=True)
        )
        for row in table.files()["partition_values"].to_pylist()
    }
    return {
        "partitions": [
            list(value)
            for value in sorted(values, key=lambda v: [(x is not None, x or "") for x in v])
        ]
    }


def _plain_text(text: str | None, kind: pa.DataType) -> str | None:
    value = None if text is None else decode_value(text, kind)
    if value is None:
        return text
    return encode_value(pa.scalar(value, kind))


def _drop_partitions(arguments: Document, settings: Settings) -> Document:
    """Drop partitions, each given by a condition on every partition column, in one version."""
    table = Table.open(arguments["path"], options=settings)
    conditions = [
        all_of(parse_filters(json.dumps(partition), table.schema, exactly=True))
        for partition in arguments["partitions"]
    ]
    report = table.drop_partitions(Or(tuple(conditions)) if len(conditions) > 1 else conditions[0])
    return {"dropped": report.version is not None}


def _drop(arguments: Document, settings: Settings) -> Document:
    return Table.drop(arguments["path"], options=settings).to_dict()


def _alter(arguments: Document, settings: Settings) -> Document:
    table = Table.open(arguments["path"], options=settings)
    changes: list[Document] = arguments["changes"]
    kinds = {change["change"] for change in changes}
    if kinds <= {"SetProperty", "RemoveProperty"}:
        _alter_properties(table, changes)
    elif kinds <= _COLUMN_CHANGES.keys():
        _alter_columns(table, changes)
    else:
        raise UnsupportedError(
            f"ALTER TABLE cannot do {', '.join(sorted(kinds))} here.",
            hint="It can ADD, RENAME, DROP and ALTER columns, SET and UNSET TBLPROPERTIES, and RENAME TO. Another layout is "
            "a new definition: CREATE OR REPLACE TABLE t USING indextables AS SELECT ... FROM t.",
        )
    return describe_table(Table.open(table.path, options=settings))


def _alter_columns(table: Table, changes: list[Document]) -> None:
    """Apply the column changes of a statement in one version."""
    for change in changes:
        name = ".".join(change["column"])
        if change["change"] == "AddColumn" and (
            change["position"] or change["default"] or not change["nullable"]
        ):
            raise UnsupportedError(
                f"Column {name!r} can only be added at the end, without NOT NULL and DEFAULT.",
                hint=f"Write ALTER TABLE t ADD COLUMNS ({name} {_type(change).simpleString()}); Table.alter has the rest.",
                column=name,
            )
    names = [".".join(change["column"]) for change in changes]
    kinds = {change["change"] for change in changes}
    if len(changes) == 1:
        _COLUMN_CHANGES[changes[0]["change"]](table, names[0], changes[0])
    elif kinds == {"AddColumn"}:
        comments = {
            name: change["comment"]
            for name, change in zip(names, changes, strict=True)
            if change["comment"]
        }
        types = [_column_type(change) for change in changes]
        table.alter.add_columns(dict(zip(names, types, strict=True)), comments=comments)
    elif kinds == {"DeleteColumn"}:
        table.alter.drop_columns(names)
    else:
        hint = "Write a statement for each of them."
        raise UnsupportedError("Several changes of columns at once are not one version.", hint=hint)


def _column_type(change: Document) -> pa.DataType | str:
    """Return the new type of a column. A simple one is given by name, which can be more precise
    than Arrow's: VARCHAR(5).
    """
    arrow = (
        arrow_schema(StructType([StructField(".".join(change["column"]), _type(change))]))
        .field(0)
        .type
    )
    named = json.loads(change["type"])
    if isinstance(named, str):
        return named
    return arrow


_COLUMN_CHANGES: Mapping[str, Callable[[Table, str, Document], object]] = {
    "AddColumn": lambda table, name, change: table.alter.add_column(
        name, _column_type(change), comment=change.get("comment")
    ),
    "RenameColumn": lambda table, name, change: table.alter.rename_column(name, change["name"]),
    "DeleteColumn": lambda table, name, _: table.alter.drop_column(name),
    "UpdateColumnType": lambda table, name, change: table.alter.widen_column(
        name, _column_type(change)
    ),
    "UpdateColumnComment": lambda table, name, change: table.alter.set_comment(
        name, change["comment"]
    ),
    "UpdateColumnNullability": lambda table, name, change: table.alter.set_nullable(
        name, change["nullable"]
    ),
}


def _type(change: Document) -> DataType:
    return StructType.fromJson(
        {
            "fields": [
                {"name": "x", "type": json.loads(change["type"]), "nullable": True, "metadata": {}}
            ]
        }
    )[0].dataType


def _alter_properties(table: Table, changes: list[Document]) -> None:
    given = {
        change["key"]: change["value"] for change in changes if change["change"] == "SetProperty"
    }
    gone = [change["key"] for change in changes if change["change"] == "RemoveProperty"]
    if "location" in given:
        raise UnsupportedError(
            f"The place of a table is not changed: {table.path}.",
            hint="Copy it, and give the copy a name: CREATE TABLE t2 USING indextables LOCATION '...'.",
            path=table.path,
        )
    if given.get("collation", "UTF8_BINARY").upper() != "UTF8_BINARY":
        raise UnsupportedError(
            f"The columns of {table.path} have no collation (got {given['collation']}): texts are "
            "compared by their bytes.",
            hint="Compare with a function: SELECT ... WHERE lower(name) = 'x'.",
            path=table.path,
        )
    description = given.pop("comment", "" if "comment" in gone else None)
    settings, words = table_properties(given, table.schema.names)
    set_properties(
        table.handle,
        description=description,
        options=settings,
        properties=words,
        unset=[key for key in gone if key != "comment"],
    )


_VERBS: Mapping[str, Callable[[Document, Settings], Document]] = {
    "load": _load,
    "create": _create,
    "stage": _stage,
    "overwrite mode": _overwrite_mode,
    "truncate": _truncate,
    "partitions": _partitions,
    "drop partitions": _drop_partitions,
    "alter": _alter,
    "drop": _drop,
}


def session_answer(
    spark: SparkSession, verb: str, arguments: Document, frame: DataFrame | None
) -> str:
    """Answer a request under the settings of a session."""
    return answer(verb, arguments, session_settings(spark), frame)

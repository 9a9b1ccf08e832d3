"""Definitions of CREATE, REPLACE and ALTER TABLE from the catalog in Spark's driver
(`java/TableDefinition.java`).

TBLPROPERTIES and OPTIONS contain table settings (how columns are indexed) and user properties,
which are stored next to them. Misspelt settings are refused, and so are options of other formats,
so that nothing is ignored silently.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct
from pyspark.sql.types import StructType

from indextables import config
from indextables.config import PREFIX
from indextables.errors import (
    InvalidInputError,
    TableExistsError,
    TableNotFoundError,
    UnsupportedError,
)
from indextables.handle import open_log
from indextables.model.schema_registry import KEY_PREFIX
from indextables.operations.definition import index_options
from indextables.operations.first_write import finish_rows, plan_definition
from indextables.operations.row_write import RowWrite
from indextables.spark.schemas import arrow_schema
from indextables.spark.settings import bare
from indextables.spark.source.options import SPARKS_OWN, SourceOptions, with_column_case
from indextables.table import Table
from indextables.table.frame_writer import check_indexed

OPTION_PREFIX = "option."
INDEX_WORDS = ("text", "substring")
_REPLACES = {"create": False, "adopt": False, "replace": True, "create or replace": None}
_OTHER_FORMATS = ("delta.", "iceberg.", "hoodie.", "write.format")
_ROOTS = frozenset(key.split(".")[0].lower() for key in config.REGISTRY.settings)


class TableDefinition(Struct, frozen=True):
    """A table as a statement defines it."""

    path: str
    schema: StructType
    partition_columns: tuple[str, ...]
    settings: Mapping[str, str]
    properties: Mapping[str, str]
    description: str | None = None
    mode: str = "create"
    like: str | None = None
    """The path of the table whose index settings the new one gets."""
    text: tuple[str, ...] = ()
    substring: tuple[str, ...] = ()
    """Columns that are searched by words, and columns whose parts are indexed."""

    @classmethod
    def parse(cls, text: str | Mapping[str, Any]) -> TableDefinition:
        """Parse a definition from JSON. Unsupported parts raise an error that names the supported
        ones.
        """
        document: Mapping[str, Any] = json.loads(text) if isinstance(text, str) else text
        schema = StructType.fromJson(json.loads(document["schema"]))
        for name in document.get("computed", ()):
            raise UnsupportedError(
                f"Column {name!r} has a default, an identity or an expression, which a table does not keep.",
                hint="Leave it out, and give the value where rows are written: INSERT INTO t SELECT ..., 7.",
                column=name,
            )
        for field in schema:
            if not field.nullable:
                raise UnsupportedError(
                    f"Column {field.name!r} is NOT NULL, which a table does not enforce.",
                    hint="Leave NOT NULL out, and filter what is written: INSERT INTO t SELECT ... WHERE "
                    f"{field.name} IS NOT NULL.",
                    column=field.name,
                )
        given = {
            key: value
            for key, value in document["properties"].items()
            if key.lower() not in SPARKS_OWN
        }
        index = {word: _index_columns(given, word) for word in INDEX_WORDS}
        given = {key: value for key, value in given.items() if _plain_key(key) not in INDEX_WORDS}
        settings, properties = table_properties(given, schema.names)
        return cls(
            path=document["path"],
            schema=schema,
            partition_columns=_partition_columns(document["partitions"]),
            settings=settings,
            properties=properties,
            description=document["properties"].get("comment"),
            mode=document["mode"],
            like=document.get("like"),
            text=index["text"],
            substring=index["substring"],
        )

    def plan(self, settings: Mapping[str, object]) -> RowWrite:
        """Plan the first rows of the defined table, checked against an existing one."""
        if self.like is None:
            like = {}
        else:
            like = _definition_of(Table.open(self.like, options=settings))
        schema, chosen = arrow_schema(self.schema), {}
        if self.text or self.substring:
            named = {**settings, **self.settings}
            index = index_options(named, schema, text=self.text, substring=self.substring)
            chosen = {key: index[key] for key in index if key not in named}
        return plan_definition(
            open_log(self.path, settings),
            schema,
            options={**settings, **like, **self.settings, **chosen},
            partition_columns=self.partition_columns,
            description=self.description,
            properties=self.properties,
            replaces=_REPLACES[self.mode],
        )

    def create(self, settings: Mapping[str, object]) -> Table:
        """Create or replace the table without rows."""
        if self.mode == "adopt":
            existing = self._existing(settings)
            if existing is not None:
                return existing
        if not self.schema.names:
            raise InvalidInputError(
                f"There is no table at {self.path}, and no columns are given for a new one.",
                hint="Write CREATE TABLE t (id BIGINT, message STRING) USING indextables.",
                path=self.path,
            )
        plan = self.plan(settings)
        finish_rows(open_log(self.path, settings), plan, [])
        return Table.open(self.path, options=settings)

    def _existing(self, settings: Mapping[str, object]) -> Table | None:
        """Return the existing table at the path, if the definition matches it."""
        try:
            table = Table.open(self.path, options=settings)
        except TableNotFoundError:
            return None
        columns = arrow_schema(self.schema)
        said = [(field.name, field.type) for field in columns]
        if said and said != [(field.name, field.type) for field in table.schema]:
            raise TableExistsError(
                f"The table at {table.path} has other columns than those given.",
                hint="Leave the columns out: CREATE TABLE t USING indextables LOCATION '...'.",
                path=table.path,
            )
        if self.partition_columns and list(self.partition_columns) != list(table.partition_columns):
            raise TableExistsError(
                f"The table at {table.path} is partitioned by {', '.join(table.partition_columns) or 'nothing'}.",
                hint="Leave PARTITIONED BY out.",
                path=table.path,
            )
        check_indexed(table, self.text, self.substring)
        for key in (*self.settings, *self.properties):
            raise TableExistsError(
                f"There is a table at {table.path} already, with properties of its own.",
                hint=f"Leave {key} out, and use ALTER TABLE t SET TBLPROPERTIES afterwards.",
                path=table.path,
            )
        return table


def _plain_key(key: str) -> str:
    return bare(key.removeprefix(OPTION_PREFIX)).lower()


def _index_columns(given: Mapping[str, str], word: str) -> tuple[str, ...]:
    """Return the columns that a statement names as `text` or `substring`."""
    lists = [given[key] for key in given if _plain_key(key) == word]
    if not lists:
        return ()
    return SourceOptions(None, {word: lists[0]}).names(word) or ()


def plan_defined_write(definition: TableDefinition, settings: Mapping[str, object]) -> RowWrite:
    """Plan the rows of a CREATE or REPLACE ... AS SELECT."""
    return definition.plan(settings)


def table_properties(
    given: Mapping[str, str], columns: Sequence[str]
) -> tuple[dict[str, str], dict[str, str]]:
    """Separate table settings and user properties. Spark passes OPTIONS twice, with and without a
    prefix.
    """
    settings: dict[str, str] = {}
    words: dict[str, str] = {}
    for key, value in given.items():
        name = bare(key.removeprefix(OPTION_PREFIX))
        if name.lower() in SPARKS_OWN:
            continue
        if name.lower() in INDEX_WORDS:
            hint = 'Call Table.reindex({"message": "text"}) to index a column of an existing table in another way.'
            raise InvalidInputError(
                f"{name} is chosen when a table is created.", hint=hint, key=name
            )
        if key.lower().startswith(PREFIX) or name.split(".")[0].lower() in _ROOTS:
            setting, _, _ = config.REGISTRY.parse(
                name, value
            )  # with the nearest names, if there is no such setting
            config.mention(setting, value)
            settings |= {} if setting.group is config.WithoutEffect else {name: value}
        elif name.lower().startswith(_OTHER_FORMATS):
            raise UnsupportedError(
                f"{name} is a property of another format and would do nothing here.",
                hint="Leave it out. Settings of a table are listed in docs/reference/settings.md.",
                key=name,
            )
        else:
            words[name] = value
    settings = with_column_case(settings, columns)
    config.refuse_settings_of_callers(settings)
    return settings, words


def shown_properties(table: Table) -> dict[str, str]:
    """Return the properties of SHOW TBLPROPERTIES: stored settings and user properties."""
    configuration = table.metadata.configuration or {}
    properties = {
        key: value for key, value in configuration.items() if not key.startswith(KEY_PREFIX)
    }
    if table.metadata.description:
        properties["comment"] = table.metadata.description
    return properties


def _definition_of(table: Table) -> dict[str, object]:
    """Return the settings of a table for one that is created like it."""
    return dict(config.settings_of_table(table.metadata.configuration or {}))


def _partition_columns(transforms: Sequence[Sequence[str]]) -> tuple[str, ...]:
    names = []
    for kind, *columns in transforms:
        if kind != "identity":
            if kind == "cluster_by":
                form = "CLUSTER BY"
            else:
                form = f"{kind}({', '.join(columns)})"
            raise UnsupportedError(
                f"A table cannot be laid out by {form}.",
                hint="Write PARTITIONED BY (column); for a part of a time add a column that holds it, such as "
                "day DATE with CAST(time AS DATE).",
                transform=kind,
            )
        names.append(columns[0])
    return tuple(names)

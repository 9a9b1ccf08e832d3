"""`table.alter`: add, rename, drop, widen and describe columns. No split is changed by any of it.

A rename or a drop changes the logical names of columns; the physical names in the splits stay
(`model/column_names.py`). A path such as `payload.user` names a field inside a struct; in a list or
a map, `element`, `key` and `value` name the parts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from msgspec.structs import replace

from indextables import config
from indextables.errors import InvalidInputError
from indextables.handle import ENGINE_INFO, TableHandle
from indextables.log.transaction import Changes
from indextables.model import protocol as protocols
from indextables.model.arguments import argument_error, names_list, text
from indextables.model.calls import checked_calls
from indextables.model.column_names import (
    DEFAULT_KEY,
    SparkJson,
    column_names,
    default_metadata,
    dump_schema,
    logical_name,
    with_name,
)
from indextables.model.conflicts import Operation
from indextables.model.schema import (
    check_reserved,
    check_schema,
    check_storable,
    field_from_json,
    find_column,
    is_wider,
    normalize,
    schema_to_json,
    type_name,
)
from indextables.model.schema_registry import without_registry
from indextables.model.values import decode_value
from indextables.operations import definition
from indextables.query.plan import plan_scan
from indextables.query.task import ScanTask
from indextables.splits.index.mapping import INDEX_KEY, DocMapping, decision
from indextables.splits.index.table_schema import TableSchema

if TYPE_CHECKING:
    from indextables.model.actions import MetadataAction

_INSIDE = {"element": "elementType", "key": "keyType", "value": "valueType"}
_NEW = "new"
"""Marks a field that has no name in the splits yet."""
Fields = list[SparkJson]
Edit = tuple[tuple[str, ...], Callable[[Fields], Fields]]
"""A change of the fields inside the struct at a path, or of all columns."""


@checked_calls
class ColumnChange:
    """What changes of columns share: finding a column by its path, checks, and the commit."""

    def __init__(self, table: TableHandle) -> None:
        self._table = table

    def _path(self, name: str, *, is_parent: bool = False) -> tuple[str, ...]:
        """The column that a name means, in parts, as the schema spells them."""
        given = text("name", name)
        fields = json.loads(self._table.names.logical_json)["fields"]
        if given in (f["name"] for f in fields):
            return (given,)
        found: list[str] = []
        kind: SparkJson = {"type": "struct", "fields": fields}
        for part in given.split("."):
            if isinstance(kind, dict) and _INSIDE.get(part) in kind:
                kind = kind[_INSIDE[part]]
                found.append(part)
                continue
            if isinstance(kind, dict) and kind.get("type") == "struct":
                inside = kind["fields"]
            else:
                inside = []
            field = next((f for f in inside if f["name"] == part), None)
            field = field or next((f for f in inside if f["name"].lower() == part.lower()), None)
            if field is None:
                where = f" in {'.'.join(found)!r}" if found else ""
                names = ", ".join(repr(f["name"]) for f in inside) or "none"
                raise InvalidInputError(
                    f"There is no column {part!r}{where}.", hint=f"There are {names}.", column=given
                )
            found.append(field["name"])
            kind = field["type"]
        if not is_parent and self._field_at(tuple(found)) is None:
            raise InvalidInputError(f"{given!r} is no field of a struct.", column=given)
        return tuple(found)

    def _field_at(self, path: tuple[str, ...]) -> SparkJson | None:
        kind: SparkJson = json.loads(self._table.names.logical_json)
        field = None
        for part in path:
            field = None
            if kind.get("type") == "struct":
                field = next((f for f in kind["fields"] if f["name"] == part), None)
                kind = field["type"] if field else {}
            else:
                kind = kind.get(_INSIDE.get(part, ""), {})
            kind = kind if isinstance(kind, dict) else {}
        return field

    def _new_field(
        self, name: str, kind: pa.DataType | str, comment: str | None, default: Any
    ) -> tuple[tuple[str, ...], SparkJson]:
        parent, _, last = text("name", name).rpartition(".")
        inside = bool(parent) and parent.split(".")[0].lower() in (
            n.lower() for n in self._table.schema.names
        )
        if inside:
            path = (*self._path(parent, is_parent=True), last)
        else:
            path = (name,)
        if len(path) == 1:
            check_reserved([name])
        elif default is not None:
            raise InvalidInputError(
                f"Only a whole column can have a default; {name!r} is inside one.", column=name
            )
        wide = spark_type(name, kind)
        arrow = field_from_json({"name": path[-1], "type": wide}).type
        metadata: dict[str, Any] = {} if comment is None else {"comment": text("comment", comment)}
        if default is not None:
            metadata |= default_metadata(name, arrow, default)
        return path, {
            "name": path[-1],
            "type": wide,
            "nullable": True,
            "metadata": metadata,
            _NEW: True,
        }

    def _without(self, name: str) -> Edit:
        path = self._path(name)
        if len(path) == 1:
            self._check_droppable(path[0])

        def change(fields: Fields) -> Fields:
            left = [f for f in fields if logical_name(f) != path[-1]]
            if (
                all(f["name"] in self._table.physical_partition_columns for f in left)
                and len(path) == 1
            ):
                raise InvalidInputError(
                    f"{name!r} is the only column that is no partition column.", column=name
                )
            if not left:
                raise InvalidInputError(
                    f"{name!r} is the last column there.",
                    hint="Drop the whole column, or the table.",
                )
            return left

        return path[:-1], change

    def _check_droppable(self, name: str) -> None:
        table = self._table
        if name in table.partition_columns:
            message = f"{name!r} is a partition column; the folders of the table are made of it."
            raise InvalidInputError(
                message, hint="Write the rows to another table to drop it.", column=name
            )
        for key, value in (table.metadata.configuration or {}).items():
            match = config.REGISTRY.lookup(key)
            if match is None or not match[0].names_columns or match[0].key == "indexing.nonindexed":
                continue
            parsed = match[0].type.parse(value)
            if name in [
                each.partition("^")[0] for each in ([parsed] if isinstance(parsed, str) else parsed)
            ]:
                hint = f"Change the setting first: update_metadata(unset=({match[0].key!r},))."
                raise InvalidInputError(
                    f"The setting {match[0].key} names {name!r}.", hint=hint, column=name
                )

    def _check_widened(self, path: tuple[str, ...], wide: SparkJson) -> None:
        table, name = self._table, ".".join(path)
        field = self._field_at(path)
        if field is None:
            raise InvalidInputError(
                f"{name!r} is no column whose type can be widened.", column=name
            )
        self._check_wider(name, field, wide)
        old, new = field_from_json(field).type, field_from_json({**field, "type": wide}).type
        if path[0] in table.partition_columns and not (
            pa.types.is_integer(old) and pa.types.is_integer(new)
        ):
            message = f"{name!r} is a partition column; of those only whole numbers can be widened."
            raise InvalidInputError(message, column=name)

    @staticmethod
    def _check_wider(name: str, field: SparkJson, wide: SparkJson) -> SparkJson:
        old, new = (
            field_from_json({**field, "metadata": {}}).type,
            field_from_json({**field, "type": wide}).type,
        )
        if not is_wider(old, new):
            raise InvalidInputError(
                f"Column {name!r} is {type_name(old)} and cannot become {type_name(new)}: values that are there would not "
                "be the same, or not every reader could read them.",
                hint="Add a column of the other type, and fill it by writing the rows again.",
                column=name,
            )
        return wide

    def _check_without_nulls(self, name: str) -> None:
        plan = plan_scan(self._table, where=f"`{name.replace('`', '``')}` IS NULL", columns=())
        nulls = ScanTask(plan, self._table.log.store).count()
        if nulls:
            message = f"Column {name!r} holds {nulls} null(s)."
            raise InvalidInputError(message, hint="Delete or fill those rows first.", column=name)

    def _commit(
        self,
        edits: Sequence[Edit],
        parameters: Mapping[str, Any],
        *,
        features: tuple[str, ...] = (),
        options: Mapping[str, object] | None = None,
        alone: bool = False,
    ) -> int:
        """Commit the columns as they are after some changes, one after another."""
        table = self._table
        table.check_writable()
        old = without_registry(table.snapshot.metadata)
        protocol = table.protocol
        if features:
            protocol = protocols.add_features(protocol, *features)
        metadata = self._change_metadata(old, edits, options or {})
        if metadata == old:
            return table.version
        changes = Changes(
            Operation.ALTER,
            metadata=metadata,
            protocol=None if protocol == table.protocol else protocol,
            reindexes=alone,
            parameters={key: value for key, value in parameters.items() if value is not None},
            engine_info=ENGINE_INFO,
        )
        return table.commit(changes) or table.version

    def _change_metadata(
        self, old: MetadataAction, edits: Sequence[Edit], options: Mapping[str, object]
    ) -> MetadataAction:
        table = self._table
        schema: SparkJson = json.loads(old.schema_string)
        for parent, change in edits:
            schema = changed_at(schema, parent, self._with_new_names(change))
        names = column_names(dump_schema(schema))
        check_schema(names.logical)
        before = table.names.logical
        check_storable(
            f
            for f in names.logical
            if f.name not in before.names or before.field(f.name).type != f.type
        )
        config.refuse_settings_of_callers(options)
        gone = set(table.names.physical.names) - set(names.physical.names)
        configuration = {
            **config.without_columns(old.configuration or {}, gone),
            **definition.by_column(
                config.table_configuration(names.options(options)), names.physical
            ),
        }
        columns = TableSchema(names.physical, table.physical_partition_columns)
        definition.check_indexing(columns, configuration)
        recorded = with_decisions(schema, columns.mapping(config.resolve(table=configuration)))
        return replace(old, schema_string=dump_schema(recorded), configuration=configuration)

    def _with_new_names(self, change: Callable[[Fields], Fields]) -> Callable[[Fields], Fields]:
        """The change, after which fields that were not there have a name that no split ever used
        for another.
        """

        def renamed(fields: Fields) -> Fields:
            return [self._fresh(f) if _NEW in f else f for f in change(fields)]

        return renamed

    def _fresh(self, field: SparkJson) -> SparkJson:
        kind, field = field["type"], {key: value for key, value in field.items() if key != _NEW}
        if isinstance(kind, dict):
            empty = column_names('{"type":"struct","fields":[]}')
            arrow = normalize(pa.schema([field_from_json(field)]))
            named = json.loads(empty.extend(arrow, self._table.new_column_name).schema_json)[
                "fields"
            ][0]
            return {**named, "metadata": {**(field.get("metadata") or {}), **named["metadata"]}}
        return with_name(
            {**field, "name": self._table.new_column_name(field["name"])}, field["name"]
        )


@checked_calls
class Alteration(ColumnChange):
    """Changes of the columns of a table. Each call is one version, or an error and none."""

    def add_column(
        self,
        name: str,
        kind: pa.DataType | str,
        *,
        comment: str | None = None,
        default: Any = None,
        first: bool = False,
        after: str | None = None,
        options: Mapping[str, object] | None = None,
    ) -> int:
        """Add a column, or a field inside a struct (`payload.user`).

        Args:
            name: The name; a field of a struct with its path.
            kind: An Arrow type or the name of a Spark type (`bigint`).
            comment: A description.
            default: The value of existing rows, and of new rows without one; null if None.
            first: Whether the column comes first. The default is last.
            after: The column that it comes after.
            options: Settings of how the column is indexed.

        Returns:
            The version.

        Raises:
            InvalidInputError: There is a column of that name.

        Example:
            t.alter.add_column("region", pa.string(), default="eu", options={"indexing.typemap.region": "string"})
        """
        path, field = self._new_field(name, kind, comment, default)

        def change(fields: Fields) -> Fields:
            check_free(fields, path[-1], ".".join(path[:-1]))
            return insert_field(fields, field, first=first, after=after)

        features = (protocols.COLUMN_DEFAULTS,) if default is not None else ()
        return self._commit(
            [(path[:-1], change)], {"addColumn": name}, features=features, options=options or {}
        )

    def add_columns(
        self,
        columns: Mapping[str, pa.DataType | str] | pa.Schema,
        *,
        comments: Mapping[str, str] | None = None,
        options: Mapping[str, object] | None = None,
    ) -> int:
        """Add several columns in one version. Existing rows hold null.

        Args:
            columns: Maps names to types, as for `add_column`, or an Arrow schema.
            comments: Maps some of the names to descriptions.
            options: Settings of how the columns are indexed.

        Returns:
            The version.

        Raises:
            InvalidInputError: There is a column of one of the names.

        Example:
            t.alter.add_columns({"region": "string", "payload.user": pa.int64()})
        """
        given = (
            dict(zip(columns.names, columns.types, strict=True))
            if isinstance(columns, pa.Schema)
            else columns
        )
        if not isinstance(given, Mapping) or not given:
            raise argument_error("columns", "a mapping of names to types, or a schema", columns)
        unknown = sorted({*(comments or {})} - {*given})
        if unknown:
            raise InvalidInputError(
                f"{unknown[0]!r} is described and not added.", column=unknown[0]
            )
        edits = []
        for name, kind in given.items():
            path, field = self._new_field(name, kind, (comments or {}).get(name), None)
            edits.append((path[:-1], partial(self._with_field, path, field)))
        return self._commit(edits, {"addColumns": list(given)}, options=options)

    @staticmethod
    def _with_field(path: tuple[str, ...], field: SparkJson, fields: Fields) -> Fields:
        check_free(fields, path[-1], ".".join(path[:-1]))
        return [*fields, field]

    def rename_column(self, name: str, new_name: str) -> int:
        """Rename a column, or a field inside a struct. Splits, settings and conditions follow.

        Older versions keep the old name.

        Args:
            name: The column; a field of a struct with its path.
            new_name: The new name, without a path.

        Returns:
            The version.

        Raises:
            InvalidInputError: The column does not exist, or the new name is taken.

        Example:
            t.alter.rename_column("msg", "message")
        """
        path, new = self._path(name), text("new_name", new_name)
        if len(path) == 1:
            check_reserved([new])

        def change(fields: Fields) -> Fields:
            check_free([f for f in fields if logical_name(f) != path[-1]], new, ".".join(path[:-1]))
            return [with_name(f, new) if logical_name(f) == path[-1] else f for f in fields]

        parameters = {"renameColumn": name, "to": new}
        return self._commit([(path[:-1], change)], parameters, features=(protocols.COLUMN_MAPPING,))

    def drop_column(self, name: str) -> int:
        """Drop a column, or a field inside a struct.

        Its values stay in the splits until these are rewritten. A column of the same name that is
        added later is another column.

        Args:
            name: The column; a field of a struct with its path.

        Returns:
            The version.

        Raises:
            InvalidInputError: It is a partition column, the last column, or a setting such as
                `merge.clusterBy` names it.

        Example:
            t.alter.drop_column("debug")
        """
        return self.drop_columns([name])

    def drop_columns(self, names: Sequence[str]) -> int:
        """Drop several columns in one version, as `drop_column` does.

        Args:
            names: The columns.

        Returns:
            The version.

        Raises:
            InvalidInputError: One of them cannot be dropped.

        Example:
            t.alter.drop_columns(["debug", "payload.user"])
        """
        given = names_list("names", names)
        if not given or len({name.lower() for name in given}) < len(given):
            raise InvalidInputError(
                "Columns to drop are named once each, and at least one.", columns=list(given)
            )
        edits = [self._without(name) for name in given]
        parameters = {"dropColumn": given[0]} if len(given) == 1 else {"dropColumns": list(given)}
        return self._commit(edits, parameters, features=(protocols.COLUMN_MAPPING,))

    def widen_column(self, name: str, kind: pa.DataType | str) -> int:
        """Give a column a wider type that holds every existing value unchanged.

        Allowed are: byte, short and int to wider integers or double; float to double; integers to
        decimals that hold them; decimals to more digits; date to timestamp without a zone.

        Args:
            name: The column; a field of a struct with its path.
            kind: The new type.

        Returns:
            The version.

        Raises:
            InvalidInputError: The type is not wider in this sense.

        Example:
            t.alter.widen_column("bytes", pa.int64())
        """
        path, wide = self._path(name), spark_type(name, kind)

        def change(fields: Fields) -> Fields:
            return [
                {**f, "type": self._check_wider(name, f, wide)}
                if logical_name(f) == path[-1]
                else f
                for f in fields
            ]

        self._check_widened(path, wide)
        parameters = {"widenColumn": name, "type": wide}
        return self._commit([(path[:-1], change)], parameters, features=(protocols.TYPE_WIDENING,))

    def reorder(self, columns: Sequence[str]) -> int:
        """Change the order of the columns.

        Args:
            columns: The columns that come first. The others follow in their present order.

        Returns:
            The version.

        Raises:
            InvalidInputError: A column does not exist or is named twice.

        Example:
            t.alter.reorder(["ts", "level"])
        """
        table = self._table
        names = [find_column(table.schema, name) for name in names_list("columns", columns)]
        if len(set(names)) < len(names):
            raise InvalidInputError(
                f"A column is named twice: {', '.join(names)}.", hint="Name each once."
            )

        def change(fields: Fields) -> Fields:
            by_name = {logical_name(f): f for f in fields}
            return [
                *(by_name[name] for name in names),
                *(f for f in fields if logical_name(f) not in names),
            ]

        return self._commit([((), change)], {"reorderColumns": names})

    def set_nullable(self, name: str, nullable: bool) -> int:
        """Set whether a column may hold nulls.

        Args:
            name: The column.
            nullable: Whether nulls are allowed.

        Returns:
            The version.

        Raises:
            InvalidInputError: The column holds nulls and must not.

        Example:
            t.alter.set_nullable("id", False)
        """
        path = self._path(name)
        if not nullable and len(path) > 1:
            raise InvalidInputError(
                f"Only a whole column can be made not null; {name!r} is inside one.", column=name
            )
        if not nullable:
            self._check_without_nulls(path[0])

        def change(fields: Fields) -> Fields:
            return [
                {**f, "nullable": bool(nullable)} if logical_name(f) == path[-1] else f
                for f in fields
            ]

        return self._commit(
            [(path[:-1], change)], {"column": name, "nullable": nullable}, alone=not nullable
        )

    def set_comment(self, name: str, comment: str | None) -> int:
        """Set or remove the description of a column.

        Args:
            name: The column; a field of a struct with its path.
            comment: The description; None removes it.

        Returns:
            The version.

        Raises:
            InvalidInputError: The column does not exist.

        Example:
            t.alter.set_comment("ts", "time of arrival")
        """
        path = self._path(name)

        def described(field: SparkJson) -> SparkJson:
            metadata = {
                key: value
                for key, value in (field.get("metadata") or {}).items()
                if key != "comment"
            }
            return {
                **field,
                "metadata": metadata
                if comment is None
                else {**metadata, "comment": text("comment", comment)},
            }

        def change(fields: Fields) -> Fields:
            return [described(f) if logical_name(f) == path[-1] else f for f in fields]

        return self._commit([(path[:-1], change)], {"column": name, "comment": comment})


def changed_at(
    kind: SparkJson, parent: tuple[str, ...], change: Callable[[Fields], Fields]
) -> SparkJson:
    """A type whose fields at a path, in people's names, are changed."""
    if not parent:
        if not isinstance(kind, dict) or kind.get("type") != "struct":
            raise InvalidInputError(
                "Fields can only be changed inside a struct.",
                hint="Name a column that is a struct.",
            )
        return {**kind, "fields": change(kind["fields"])}
    first, rest = parent[0], parent[1:]
    if kind.get("type") != "struct":
        inside = _INSIDE[first]
        return {**kind, inside: changed_at(kind[inside], rest, change)}
    fields = [
        {**f, "type": changed_at(f["type"], rest, change)} if logical_name(f) == first else f
        for f in kind["fields"]
    ]
    return {**kind, "fields": fields}


def with_decisions(schema: SparkJson, mapping: DocMapping) -> SparkJson:
    """The schema in which columns with a default say how they are indexed: splits that do not have
    them cannot.
    """
    fields = []
    for field in schema["fields"]:
        metadata, column = field.get("metadata") or {}, mapping.find(field["name"])
        if (
            DEFAULT_KEY in metadata
            and INDEX_KEY not in metadata
            and column is not None
            and column.indexed
        ):
            # Of whole values nothing is decided: a split that does not have the column has no field
            # for them either.
            field = {
                **field,
                "metadata": {**metadata, INDEX_KEY: decision(replace(column, exact=""))},
            }
        fields.append(field)
    return {**schema, "fields": fields}


def check_free(fields: Fields, name: str, parent: str) -> None:
    """Refuse a name that another field of the same struct has, ignoring case."""
    if not name:
        raise InvalidInputError("A column needs a name.")
    taken = next((logical_name(f) for f in fields if logical_name(f).lower() == name.lower()), None)
    if taken is not None:
        where = f" in {parent!r}" if parent else ""
        raise InvalidInputError(
            f"There is a column {taken!r}{where} already.", hint="Choose another name.", column=name
        )


def insert_field(fields: Fields, field: SparkJson, *, first: bool, after: str | None) -> Fields:
    """The fields with a new one at its place."""
    if first and after is not None:
        raise InvalidInputError(
            "A column comes first or after another, not both.", column=field["name"]
        )
    if after is None:
        if first:
            return [field, *fields]
        return [*fields, field]
    places = [n for n, f in enumerate(fields) if logical_name(f).lower() == after.lower()]
    if not places:
        hint = f"There are {', '.join(map(logical_name, fields))}."
        raise InvalidInputError(
            f"There is no column {after!r} to come after.", hint=hint, column=after
        )
    return [*fields[: places[0] + 1], field, *fields[places[0] + 1 :]]


def spark_type(name: str, kind: pa.DataType | str) -> SparkJson:
    """A type as schemas in the log spell it, from an Arrow type or the name of a Spark type."""
    if isinstance(kind, str):
        field = field_from_json({"name": name, "type": kind})
    elif isinstance(kind, pa.DataType):
        field = pa.field(name, kind)
    else:
        raise argument_error("kind", "an Arrow type, or the name of a Spark type", kind)
    schema = normalize(pa.schema([field]))
    return json.loads(schema_to_json(schema))["fields"][0]["type"]


def default_from_text(name: str, kind: str, default: str) -> Any:
    """A default that was written on a command line, as a value of the column's type."""
    arrow = field_from_json({"name": name, "type": kind}).type
    value = decode_value(default, arrow)
    if value is None:
        raise InvalidInputError(
            f"The default {default!r} of column {name!r} is no {type_name(arrow)}.", column=name
        )
    return value

"""The columns that a query can name: resolving names, and the default fields of bare words."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace

from indextables.config import Settings
from indextables.config.indexing import SearchSettings
from indextables.errors import InvalidInputError, QuerySyntaxError, nearest, show_value
from indextables.splits.index.mapping import ColumnMapping, DocMapping
from indextables.splits.index.table_schema import TableSchema
from indextables.splits.index.values import normal_key
from indextables.splits.query.tree import Target

MAX_WEIGHT = 1e6
NameParts = tuple[str, ...]
"""A field name split at its unescaped dots."""


class QueryFields(Struct, frozen=True):
    """The columns of a table as the query language sees them."""

    schema: pa.Schema
    mapping: DocMapping
    default_fields: tuple[str, ...] = ()
    max_default_fields: int = 32
    weights: Mapping[str, float] = {}
    """Weights of the default fields that differ from 1."""
    all_words: bool = False
    """Whether adjacent words must all match instead of any of them."""
    named: bool = False
    """Whether the default fields were given for this query."""
    max_terms: int = 0
    """Maximum number of terms of a split that a pattern may match; 0 for no limit."""

    @classmethod
    def of(cls, columns: TableSchema, settings: Settings) -> QueryFields:
        """Return the columns of a table under its settings."""
        return cls.from_settings(
            columns.schema, columns.mapping(settings), settings.group(SearchSettings)
        )

    @classmethod
    def from_settings(
        cls, schema: pa.Schema, mapping: DocMapping, settings: SearchSettings
    ) -> QueryFields:
        """Build the fields of a table. A default field that is not a column is an error."""
        weights = dict(_split_weight(text, schema) for text in settings.default_fields)
        unknown = [name for name in weights if name not in schema.names]
        if unknown:
            message = f"indexing.defaultSearchFields names {', '.join(map(repr, unknown))}, which is no column."
            raise InvalidInputError(
                message, hint=f"Known columns: {', '.join(schema.names)}.", columns=schema.names
            )
        others = {name: weight for name, weight in weights.items() if weight != 1}
        return cls(
            schema,
            mapping,
            tuple(weights),
            settings.max_default_fields,
            others,
            settings.default_operator == "and",
            max_terms=settings.max_terms,
        )

    def within(self, *columns: str) -> QueryFields:
        """Return the same fields with these columns as the default fields (`message TEXTSEARCH
        '…'`).
        """
        return replace(
            self,
            default_fields=columns,
            max_default_fields=max(len(columns), 1),
            weights={},
            named=True,
        )

    def column(self, name: str) -> ColumnMapping:
        """Return how a column is indexed. A column that is not in the mapping has no index."""
        return self.mapping.find(name) or ColumnMapping(name, "", "none")

    def resolve(self, parts: NameParts) -> Target | None:
        """Resolve a name to a column and path: the longest column name first, then
        case-insensitively.
        """
        longest = max((name.count(".") + 1 for name in self.schema.names), default=0)
        for same in (str.__eq__, _same_but_for_case):
            for end in range(min(len(parts), longest), 0, -1):
                names = [n for n in self.schema.names if same(n, ".".join(parts[:end]))]
                if len(names) == 1 and (end == len(parts) or self.column(names[0]).kind == "json"):
                    return self._target(names[0], tuple(normal_key(key) for key in parts[end:]))
        return None

    def nearest(self, name: str) -> list[str]:
        """Return known columns with similar names."""
        lowered = {n.lower(): n for n in self.schema.names}
        return [lowered[n] for n in nearest(name.lower(), lowered, count=3)]

    def default_targets(self) -> tuple[Target, ...]:
        """Return the targets of a word without a column, or raise an error that explains how to
        choose.
        """
        names = self.default_fields or tuple(c.name for c in self.mapping.of_kind("text"))
        if not names:
            message = "The query has a word without a column, and no column is indexed as text."
            hint = f"Write column:word with one of {', '.join(self.schema.names)}{_way_to_text(self.schema)}."
            raise QuerySyntaxError(message, hint=hint, fields=self.schema.names)
        if len(names) > self.max_default_fields:
            message = (
                f"The query has a word without a column; it would search {len(names)} text columns, "
                f"more than indexing.maxDefaultSearchFields ({self.max_default_fields})."
            )
            hint = f"Write column:word, or set indexing.defaultSearchFields. Text columns: {', '.join(names)}."
            raise QuerySyntaxError(message, hint=hint, fields=list(names))
        return tuple(self._target(name, ()) for name in names)

    def _target(self, column: str, path: tuple[str, ...]) -> Target:
        """Return a column or a path in it. A JSON column named alone means every path, unless it is
        a plain list.
        """
        anywhere = (
            not path
            and self.column(column).kind == "json"
            and not _is_list(self.schema.field(column).type)
        )
        return Target(column, path, anywhere)


def _split_weight(text: str, schema: pa.Schema) -> tuple[str, float]:
    """Split a default field and its weight, `subject^3`. A column name may look like that."""
    name, caret, number = text.rpartition("^")
    if not caret or text in schema.names:
        return text, 1.0
    try:
        weight = float(number)
    except ValueError:
        weight = -1.0
    if not 0 <= weight <= MAX_WEIGHT:
        message = f"indexing.defaultSearchFields has {text!r}, whose weight is no number from 0 to {MAX_WEIGHT:g}."
        raise InvalidInputError(message, hint="Write it as in subject^3,body.")
    return name.strip(), weight


def check_textsearch(fields: QueryFields, column: str) -> None:
    """Refuse TEXTSEARCH on columns that are not indexed by words."""
    mapping = _existing_column(fields, column)
    if mapping.kind not in ("text", "json"):
        message = f"TEXTSEARCH needs a text column; {column!r} is {mapping.terms}."
        if mapping.kind in ("string", "ip"):
            hint = f"Write {column} FIELDMATCH '…' for exact values{_way_to_text(fields.schema, column)}."
            raise InvalidInputError(message, hint=hint, column=column)
        raise InvalidInputError(message, hint=_text_hint(fields), column=column)


def check_fieldmatch(fields: QueryFields, column: str) -> None:
    """Refuse FIELDMATCH on columns that are not indexed by whole values."""
    mapping = _existing_column(fields, column)
    if mapping.kind == "text":
        message = f"FIELDMATCH compares whole values; {column!r} is {mapping.terms}."
        raise InvalidInputError(
            message, hint=f"Write {column} TEXTSEARCH '…' to search its words.", column=column
        )
    if mapping.kind == "none":
        message = f"FIELDMATCH needs an indexed column; {column!r} has no index."
        raise InvalidInputError(message, hint=f"Compare it in SQL: {column} = ….", column=column)


def columns_of_values(fields: QueryFields) -> tuple[str, ...]:
    """Return the columns of FIELDMATCH without a column name: all that it accepts. Raises an error
    if there are none.
    """
    names = tuple(
        name for name in fields.schema.names if fields.column(name).kind not in ("text", "none")
    )
    if not names:
        message = "* FIELDMATCH compares whole values, and no column is indexed by its whole value."
        raise InvalidInputError(
            message, hint=f"Write * TEXTSEARCH '…' to search words. {_text_hint(fields)}"
        )
    if len(names) > fields.max_default_fields:
        message = (
            f"* FIELDMATCH would search {len(names)} columns, more than indexing.maxDefaultSearchFields "
            f"({fields.max_default_fields})."
        )
        hint = f"Name a column: {names[0]} FIELDMATCH '…'. Columns of whole values: {', '.join(names)}."
        raise InvalidInputError(message, hint=hint, columns=list(names))
    return names


def _existing_column(fields: QueryFields, column: str) -> ColumnMapping:
    if column not in fields.schema.names:
        near = fields.nearest(column)
        if near:
            hint = f"Did you mean {' or '.join(near)}?"
        else:
            hint = f"Known columns: {', '.join(fields.schema.names)}."
        raise InvalidInputError(
            f"There is no column {show_value(column)}.", hint=hint, column=column, nearest=near
        )
    return fields.column(column)


def _text_hint(fields: QueryFields) -> str:
    names = ", ".join(c.name for c in fields.mapping.of_kind("text"))
    if names:
        return f"Text columns: {names}."
    return f"No column is indexed as text{_way_to_text(fields.schema)}."


def _is_list(kind: pa.DataType) -> bool:
    """Return whether a column holds lists of scalars, which have no paths."""
    while (
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    ):
        kind = kind.value_type
        if not pa.types.is_nested(kind):
            return True
    return False


def _way_to_text(schema: pa.Schema, *columns: str) -> str:
    """Return how to index the words of one of the columns, if one holds strings; without columns,
    of the table.
    """
    names = [
        name for name in columns or schema.names if pa.types.is_string(schema.field(name).type)
    ]
    if not names:
        return ""
    if len(names) == 1:
        which = "its words"
    else:
        which = f"the words of {', '.join(names[:-1])} or {names[-1]}"
    return f', or index {which}: reindex({{"{names[-1]}": "text"}})'


def _same_but_for_case(one: str, other: str) -> bool:
    return one.casefold() == other.casefold()

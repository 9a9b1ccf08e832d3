"""Derive the index of a table's columns from its live splits.

The table's configuration declares the index of its columns, but IndexTables for the JVM leaves it
empty. The doc mappings of the live splits are therefore authoritative. Where they agree and the
configuration is silent, they are used. A column that splits index in several ways is disputed until
the configuration names it.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct, field

from indextables.config import resolve
from indextables.config.indexing import (
    DEFAULT_OPERATOR,
    RECORD_OPTIONS,
    TOKENIZERS,
    IndexingSettings,
)
from indextables.errors import BadFileError, InvalidInputError
from indextables.model.protocol import default_operator
from indextables.model.snapshot import Snapshot
from indextables.splits.index.mapping import (
    WHOLE_TOKENIZERS,
    ColumnMapping,
    DocMapping,
    decided_columns,
    is_nested,
    is_text,
    keep_old_code,
    recorded_as,
    same_index,
)
from indextables.splits.index.table_schema import TableSchema

Ways = Mapping[str, tuple[ColumnMapping, ...]]
"""Columns, and the different ways in which splits index them."""


class LiveIndexing(Struct, frozen=True):
    """How a table's columns are indexed, from the configuration and the live splits."""

    configuration: Mapping[str, str]
    """The table's configuration, completed by the splits for columns that it omits or contradicts,
    and by the default operator of a table written by another engine.
    """
    disputed: Ways = field(default_factory=dict)
    """Columns that live splits index in several ways. Searches answer them split by split."""
    right: Mapping[str, ColumnMapping] = field(default_factory=dict)
    """The disputed columns that the configuration decides."""
    followed: frozenset[str] = frozenset()
    """Columns whose index comes from the splits and not from the configuration."""
    body: pa.Schema | None = None

    @property
    def open(self) -> tuple[str, ...]:
        """The disputed columns that the configuration does not decide."""
        return tuple(name for name in self.disputed if name not in self.right)

    @property
    def disputes(self) -> Disputes | None:
        """The disputes, or None."""
        if self.body is None or not self.disputed:
            return None
        return Disputes(self.body, self.open, self.right)

    def check_settled(self) -> None:
        """Refuse to add rows while the index of a column is undecided."""
        for name in self.open:
            ways = " and as ".join(way.terms for way in self.disputed[name])
            raise InvalidInputError(
                f"Column {name!r} is indexed as {ways} in splits of the table; how new rows are indexed is not decided.",
                hint=decision_hint(name),
                column=name,
            )


class Disputes(Struct, frozen=True):
    """Columns that splits index in several ways, with the decision for each."""

    body: pa.Schema
    open: tuple[str, ...]
    right: Mapping[str, ColumnMapping]

    def side(self, mapping: str) -> str:
        """Return a doc mapping's index of the undecided columns as text; splits with equal texts
        can be merged.
        """
        columns = mapping_columns(mapping, self.body)
        return ", ".join(f"{name} {columns[name].terms}" for name in self.open if name in columns)

    def is_wrong(self, mapping: str) -> bool:
        """Return whether a doc mapping contradicts the decision for a column."""
        columns = mapping_columns(mapping, self.body)
        return any(
            name in columns
            and not (same_terms(columns[name], way) and _has_whole(columns[name], way))
            for name, way in self.right.items()
        )


def decision_hint(column: str) -> str:
    """Return the hint that explains how to decide a disputed column."""
    return (
        f"Say which is right: update_metadata(options={{'indexing.typemap.{column}': 'text'}}) or 'string', with its "
        "tokenizer; then merge() rewrites the other splits."
    )


def live_indexing(snapshot: Snapshot) -> LiveIndexing:
    """Derive the index of a snapshot's columns. The file list is read only if a doc mapping differs
    from the configuration.
    """
    metadata = snapshot.metadata
    configuration = metadata.configuration or {}
    if default_operator(snapshot.header.protocol) == "and":
        configuration = {DEFAULT_OPERATOR: "and", **configuration}
    columns = TableSchema.of(metadata)
    body = columns.stored
    try:
        settings = resolve(table=configuration).group(IndexingSettings)
        configured = columns.mapping(settings)
    except InvalidInputError:
        return LiveIndexing(configuration)  # a write or search reports what is wrong with it
    wholes = frozenset(column.name for column in decided_columns(body) if column.exact)
    if _log_names_mappings(snapshot) and all(
        _agrees(configured, text, body, wholes) for text in _list_mappings(snapshot)
    ):
        return LiveIndexing(configuration)
    ways = _ways(snapshot, body, wholes)
    for column in decided_columns(body):
        # The table's decision is kept next to what its splits do, even if all of them differ.
        if (
            column.name in ways
            and (way := keep_old_code([column], configured).find(column.name)) is not None
        ):
            ways[column.name] = _with(ways[column.name], way, wholes)
    disputed = {name: alternatives for name, alternatives in ways.items() if len(alternatives) > 1}
    agreed = [alternatives[0] for name, alternatives in ways.items() if len(alternatives) == 1]
    wrong = [
        c for c in agreed if (old := configured.find(c.name)) is not None and not same_index(old, c)
    ]
    effective = recorded_as(
        DocMapping(tuple(wrong)), body, [c.name for c in wrong], configuration, configured
    )
    named = {*settings.typemap, *settings.tokenizer, *settings.record_option, *settings.nonindexed}
    right = {
        name: way
        for name in disputed
        if name in named and (way := configured.find(name)) is not None
    }
    return LiveIndexing(effective, disputed, right, frozenset(c.name for c in wrong), body)


def mapping_columns(text: str, body: pa.Schema) -> Mapping[str, ColumnMapping]:
    """Return how a doc mapping in the log, from this or another engine, indexes the columns of a
    schema.
    """
    return _parse(text, body)


def same_terms(one: ColumnMapping, other: ColumnMapping) -> bool:
    """Return whether two mappings lead to the same terms. What is stored for each term may differ
    without changing answers.
    """
    return (one.kind, one.tokenizer) == (other.kind, other.tokenizer)


def _has_whole(column: ColumnMapping, decided: ColumnMapping) -> bool:
    """Return whether a column has the required field for whole values. An additional one is
    harmless.
    """
    return not decided.exact or column.exact == decided.exact


def richer(one: ColumnMapping, other: ColumnMapping) -> ColumnMapping:
    """Return the mapping that stores more per term, of two that lead to the same terms."""
    return max(one, other, key=_richness)


def _richness(column: ColumnMapping) -> tuple[int, int]:
    return RECORD_OPTIONS.index(column.record) if column.record else -1, column.max_token_length


def _log_names_mappings(snapshot: Snapshot) -> bool:
    """Return whether every doc mapping in use is listed outside of the file list, as in states of
    this library.
    """
    header = snapshot.base.header
    return header.version < 0 or bool(header.recent_txn_ids)


def _list_mappings(snapshot: Snapshot) -> set[str]:
    """Return every doc mapping that a live split may have."""
    inline = snapshot.folded.doc_mappings.union(
        *(version.doc_mappings for version in snapshot.recent_versions)
    )
    return {*inline, *snapshot.schema_registry.values()}


def _agrees(configured: DocMapping, text: str, body: pa.Schema, wholes: Collection[str]) -> bool:
    return all(
        (old := configured.find(name)) is None
        or (same_index(old, column) and (name not in wholes or _has_whole(column, old)))
        for name, column in _parse(text, body).items()
    )


def _ways(
    snapshot: Snapshot, body: pa.Schema, wholes: Collection[str]
) -> dict[str, tuple[ColumnMapping, ...]]:
    """Return the ways in which live splits index each column. Columns in `wholes` also need whole
    values.
    """
    files = snapshot.files(columns=["doc_mapping_json", "doc_mapping_ref"])
    registry = snapshot.schema_registry
    inline = pc.unique(files.column("doc_mapping_json")).to_pylist()
    refs = pc.unique(
        files.filter(pc.is_null(files.column("doc_mapping_json"))).column("doc_mapping_ref")
    ).to_pylist()
    texts = {text for text in (*inline, *(registry.get(ref) for ref in refs)) if text is not None}
    ways: dict[str, tuple[ColumnMapping, ...]] = {}
    for text in sorted(texts):
        for name, column in _parse(text, body).items():
            ways[name] = _with(ways.get(name, ()), column, wholes)
    return ways


def _with(
    ways: Iterable[ColumnMapping], column: ColumnMapping, wholes: Collection[str]
) -> tuple[ColumnMapping, ...]:
    others = tuple(ways)
    same = [
        same_terms(way, column) and (column.name not in wholes or way.exact == column.exact)
        for way in others
    ]
    if not any(same):
        return (*others, column)
    return tuple(
        richer(way, column) if is_same else way for way, is_same in zip(others, same, strict=True)
    )


@lru_cache(maxsize=256)
def _parse(text: str, body: pa.Schema) -> dict[str, ColumnMapping]:
    try:
        columns = {column.name: column for column in DocMapping.from_json(text).columns}
    except BadFileError:
        columns = _foreign(text, body)
    return {name: columns[name] for name in body.names if name in columns}


def _foreign(text: str, body: pa.Schema) -> dict[str, ColumnMapping]:
    """Parse the doc mapping of another engine. Unknown entries are ignored."""
    try:
        entries = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    if isinstance(entries, dict):
        entries = entries.get("field_mappings", [])
    else:
        entries = entries
    if isinstance(entries, list):
        mappings = [e for e in entries if isinstance(e, dict)]
    else:
        mappings = []
    named = {entry["name"]: entry for entry in mappings if isinstance(entry.get("name"), str)}
    return {f.name: _column(f, named[f.name]) for f in body if f.name in named}


def _column(field_: pa.Field, entry: Mapping[str, Any]) -> ColumnMapping:
    name, kind = field_.name, entry.get("type")
    if not entry.get("indexed", True) or not (is_text(field_.type) or is_nested(field_.type)):
        return ColumnMapping(name, "", "none")
    if entry.get("record") in RECORD_OPTIONS:
        record = entry.get("record")
    else:
        record = "position"
    if kind in ("object", "json"):
        return ColumnMapping(name, "", "json", "default", str(record))
    if kind == "ip":
        return ColumnMapping(name, "", "ip")
    if kind != "text" or is_nested(field_.type):
        return ColumnMapping(name, "", "none")
    if entry.get("tokenizer") in TOKENIZERS:
        tokenizer = str(entry["tokenizer"])
    else:
        tokenizer = "default"
    if tokenizer in WHOLE_TOKENIZERS:
        return ColumnMapping(name, "", "string", tokenizer, "basic")
    return ColumnMapping(name, "", "text", tokenizer, str(record))

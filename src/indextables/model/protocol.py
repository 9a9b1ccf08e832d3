"""Protocol versions and features: what this release supports, and the check before every use of a
table.
"""

from __future__ import annotations

import re

from indextables.errors import InvalidInputError, UnsupportedError
from indextables.model.actions import ProtocolAction

SUPPORTED_VERSION = 4
FEATURES = (
    "avroState",
    "extendedMetadata",
    "footerOffsets",
    "multiPartCheckpoint",
    "parquetSplits",
    "schemaDeduplication",
    "skippedFiles",
)
"""Features of a new table. `parquetSplits`: splits are Parquet files with an embedded index."""

COLUMN_MAPPING = "columnMapping"
"""Columns with differing logical and physical names, or dropped columns: readers must translate."""
TYPE_WIDENING = "typeWidening"
"""Columns with a wider type than in older splits."""
COLUMN_DEFAULTS = "columnDefaults"
"""Columns with a default instead of null in splits that lack them."""
DECISIONS = "indexDecisions"
"""Columns that the table indexes differently than some of its splits, which are answered from their
rows.
"""
EVOLUTION = (COLUMN_MAPPING, TYPE_WIDENING, COLUMN_DEFAULTS)
AVRO_STATE = "avroState"
PARQUET_SPLITS = "parquetSplits"
SUBSTRINGS = "substringIndex"
"""Splits may have a field with trigrams of texts. Set with the first such split."""
CHAINS = "analyzerChains"
"""Columns of splits may be tokenized by a chain of filters. Set with the first such split."""
CODE_NAMES = "codeNames"
"""Splits may have names in code tokenized by the chain `code2`. Set with the first such split."""
CODE_SPELLINGS = "codeSpellings"
"""Splits may also hold the lower-case spellings of names, as the chain `code3` does. A table names
it likewise.
"""
EXACT_FIELDS = "exactFields"
"""Splits may have a field with whole values or hashes. Set with the first such split."""
DELETION_VECTORS = "deletionVectors"
"""Rows of splits may be deleted without rewriting the splits. Set with the first such row."""
TAGS = "tags"
"""Versions may have tags, which protect them from clean-up. A writer feature; readers need not know
it.
"""
COMPANION_INDEX = "companionIndex"
"""The splits are an index of the files of another table and have no rows of their own."""
_SHUT_STATE_VERSION = 5
"""Protocol version in a state of a table with our splits, so that an engine which checks only this
refuses it.
"""

_OLDER_FEATURES = {"checkpoints", "conditionalWrites", "tantivy4java"}
_INDEX_FEATURES = {CHAINS, CODE_NAMES, CODE_SPELLINGS, EXACT_FIELDS, SUBSTRINGS, DECISIONS}
_NEWER_FEATURES = {*_INDEX_FEATURES, DELETION_VECTORS, TAGS, COMPANION_INDEX, *EVOLUTION}
_KNOWN_FEATURES = frozenset(FEATURES) | _OLDER_FEATURES | _NEWER_FEATURES
FEATURES_SINCE = 3
_MARKS = {
    SUBSTRINGS: r'"substring":\s*true',
    CHAINS: r'"tokenizer":\s*"[^"]*\|',
    CODE_NAMES: r'"tokenizer":\s*"code2\|',
    CODE_SPELLINGS: r'"tokenizer":\s*"code3\|',
    EXACT_FIELDS: r'"exact":\s*"',
}
"""Text in a doc mapping that shows the use of a feature."""

NEW_TABLE_PROTOCOL = ProtocolAction(
    min_reader_version=SUPPORTED_VERSION,
    min_writer_version=SUPPORTED_VERSION,
    reader_features=FEATURES,
    writer_features=FEATURES,
)
LEGACY_PROTOCOL = ProtocolAction(min_reader_version=1, min_writer_version=1)
"""Protocol of a table without a protocol action."""


COMPANION_PROTOCOL = ProtocolAction(
    min_reader_version=SUPPORTED_VERSION,
    min_writer_version=SUPPORTED_VERSION,
    reader_features=tuple(sorted((*FEATURES, COMPANION_INDEX))),
    writer_features=tuple(sorted((*FEATURES, COMPANION_INDEX))),
)
"""Protocol of a new companion."""


def is_companion(protocol: ProtocolAction) -> bool:
    """Return whether a table is a companion: an index of the files of another table."""
    return COMPANION_INDEX in (protocol.reader_features or ())


def check_readable(protocol: ProtocolAction, *, path: str) -> None:
    """Raise UnsupportedError unless this release can read the table."""
    _check(protocol.min_reader_version, protocol.reader_features, "read", path)


def check_writable(protocol: ProtocolAction, *, path: str) -> None:
    """Raise UnsupportedError unless this release can read and write the table."""
    check_readable(protocol, path=path)
    _check(protocol.min_writer_version, protocol.writer_features, "write", path)


def _check(version: int, features: tuple[str, ...] | None, verb: str, path: str) -> None:
    role = "reader" if verb == "read" else "writer"
    if version > SUPPORTED_VERSION:
        message = f"{path} needs protocol {role} version {version}; this release supports up to {SUPPORTED_VERSION}."
        raise UnsupportedError(message, path=path, needed=version, supported=SUPPORTED_VERSION)
    missing = sorted(set(features or ()) - _KNOWN_FEATURES)
    if missing:
        message = (
            f"{path} needs {role} features that this release does not have: {', '.join(missing)}."
        )
        raise UnsupportedError(
            message, path=path, needed=missing, supported=sorted(_KNOWN_FEATURES)
        )


def state_protocol_version(protocol: ProtocolAction) -> int:
    """Return the protocol version for a state's own record. The complete protocol is stored next to
    it.
    """
    if PARQUET_SPLITS in (protocol.reader_features or ()):
        return _SHUT_STATE_VERSION
    return max(SUPPORTED_VERSION, protocol.min_reader_version)


def is_shared(protocol: ProtocolAction) -> bool:
    """Return whether another engine that reads Avro states can use the table, as long as we have
    not written to it.
    """
    current = min(protocol.min_reader_version, protocol.min_writer_version) >= SUPPORTED_VERSION
    return current and not names_parquet_splits(protocol)


def names_parquet_splits(protocol: ProtocolAction) -> bool:
    """Return whether the protocol names `parquetSplits`; without it another engine may continue to
    write to the table.
    """
    return PARQUET_SPLITS in (protocol.reader_features or ())


def default_operator(protocol: ProtocolAction) -> str:
    """Return the default operator of a table that does not record one: AND for a table of another
    engine.

    The other engine uses AND and records nothing. A table is ours from the version that names
    `parquetSplits`.
    """
    if names_parquet_splits(protocol):
        return "or"
    return "and"


def take_over(protocol: ProtocolAction) -> ProtocolAction:
    """Return the protocol of a shared table after our first write: engines that cannot read our
    splits refuse it.
    """
    return add_features(protocol, AVRO_STATE, PARQUET_SPLITS)


def add_features(protocol: ProtocolAction, *features: str) -> ProtocolAction:
    """Return the protocol raised to the newest version, with these features."""
    return raise_protocol(
        protocol,
        min_reader_version=SUPPORTED_VERSION,
        min_writer_version=SUPPORTED_VERSION,
        features=features,
    )


def with_mapping(protocol: ProtocolAction, doc_mapping_json: str) -> ProtocolAction:
    """Return the protocol for splits with a doc mapping, so that readers without support for its
    content refuse the table.

    Returns the same object if nothing is to be added.
    """
    features = tuple(name for name, mark in _MARKS.items() if re.search(mark, doc_mapping_json))
    known = set(protocol.reader_features or ()) & set(protocol.writer_features or ())
    if known.issuperset(features):
        return protocol
    return raise_protocol(
        protocol,
        min_reader_version=FEATURES_SINCE,
        min_writer_version=FEATURES_SINCE,
        features=features,
    )


def has_vectors(protocol: ProtocolAction) -> bool:
    """Return whether splits of a table may have deletion vectors."""
    features = protocol.reader_features or (), protocol.writer_features or ()
    return all(DELETION_VECTORS in names for names in features)


def with_vectors(protocol: ProtocolAction) -> ProtocolAction:
    """Return the protocol for deletion vectors: readers without support refuse the table."""
    return raise_protocol(
        protocol,
        min_reader_version=FEATURES_SINCE,
        min_writer_version=FEATURES_SINCE,
        features=(DELETION_VECTORS,),
    )


def with_tags(protocol: ProtocolAction) -> ProtocolAction:
    """Return the protocol for tags: writers without support do not write to or clean the table."""
    return ProtocolAction(
        min_reader_version=protocol.min_reader_version,
        min_writer_version=max(protocol.min_writer_version, FEATURES_SINCE),
        reader_features=protocol.reader_features,
        writer_features=_union(protocol.writer_features, (TAGS,)),
        unknown=protocol.unknown,
    )


def raise_protocol(
    current: ProtocolAction,
    *,
    min_reader_version: int,
    min_writer_version: int,
    features: tuple[str, ...] = (),
) -> ProtocolAction:
    """Return the protocol raised to at least these versions and features."""
    if max(min_reader_version, min_writer_version) > SUPPORTED_VERSION:
        raise InvalidInputError(
            f"Protocol {min_reader_version}/{min_writer_version} cannot be set: the highest is {SUPPORTED_VERSION}.",
            needed=[min_reader_version, min_writer_version],
            supported=SUPPORTED_VERSION,
        )
    unknown = sorted(set(features) - _KNOWN_FEATURES)
    if unknown:
        names = ", ".join(sorted(_KNOWN_FEATURES))
        raise InvalidInputError(
            f"Unknown protocol features: {', '.join(unknown)}.", hint=f"Known: {names}."
        )
    reader = max(current.min_reader_version, min_reader_version)
    writer = max(current.min_writer_version, min_writer_version)
    return ProtocolAction(
        min_reader_version=reader,
        min_writer_version=writer,
        reader_features=_union(current.reader_features, features)
        if reader >= FEATURES_SINCE
        else None,
        writer_features=_union(current.writer_features, features)
        if writer >= FEATURES_SINCE
        else None,
        unknown=current.unknown,
    )


def _union(current: tuple[str, ...] | None, more: tuple[str, ...]) -> tuple[str, ...] | None:
    both = tuple(sorted({*(current or ()), *more}))
    return both or None


_FEATURES_BY_VERSION = {
    2: {
        "checkpoints",
        "conditionalWrites",
        "extendedMetadata",
        "footerOffsets",
        "skippedFiles",
        "tantivy4java",
    },
    3: {"multiPartCheckpoint", "schemaDeduplication"},
}
"""Features that came with a protocol version; all others are newer."""
_LEFT_BEHIND = frozenset({AVRO_STATE, "multiPartCheckpoint", "schemaDeduplication"})
"""Features of the log format that a checkpoint of an older form does not need."""


def newer_than(protocol: ProtocolAction, version: int, *, files: int) -> list[str]:
    """Return the features in use that readers and writers of an older version do not know."""
    known = {
        feature
        for since, features in _FEATURES_BY_VERSION.items()
        if since <= version
        for feature in features
    }
    named = {*(protocol.reader_features or ()), *(protocol.writer_features or ())}
    unused = {PARQUET_SPLITS} if not files else set()
    return sorted(named - known - _LEFT_BEHIND - unused)


def lower_protocol(protocol: ProtocolAction, version: int) -> ProtocolAction:
    """Return the protocol lowered to an older version, with the features that it knows."""
    known = {
        feature
        for since, features in _FEATURES_BY_VERSION.items()
        if since <= version
        for feature in features
    }

    def of(features: tuple[str, ...] | None) -> tuple[str, ...] | None:
        if version >= FEATURES_SINCE:
            return tuple(f for f in features or () if f in known)
        return None

    return ProtocolAction(
        min_reader_version=version,
        min_writer_version=version,
        reader_features=of(protocol.reader_features),
        writer_features=of(protocol.writer_features),
        unknown=protocol.unknown,
    )

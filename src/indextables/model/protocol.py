"""Protocol versions and features: what this release reads and writes, and the check made before every use of a table."""

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
"""What a new table names. `parquetSplits` is ours: its splits are Parquet files with an embedded index."""

COLUMN_MAPPING = "columnMapping"
"""Columns whose name is not the one that the splits know, or that were dropped: who reads must translate."""
TYPE_WIDENING = "typeWidening"
"""Columns whose type is wider than in older splits."""
COLUMN_DEFAULTS = "columnDefaults"
"""Columns that hold a default, not null, in splits that do not have them."""
DECISIONS = "indexDecisions"
"""Columns that the table indexes in another way than some of its splits do: those are answered from their rows."""
EVOLUTION = (COLUMN_MAPPING, TYPE_WIDENING, COLUMN_DEFAULTS)
AVRO_STATE = "avroState"
PARQUET_SPLITS = "parquetSplits"
SUBSTRINGS = "substringIndex"
"""Splits may have a field with parts of texts. A table names it from the first such split on."""
CHAINS = "analyzerChains"
"""Columns of splits may be cut into terms by a chain of filters. A table names it from the first such split on."""
CODE_NAMES = "codeNames"
"""Splits may hold names in code as the chain `code2` cuts them. A table names it from the first such split on."""
CODE_SPELLINGS = "codeSpellings"
"""Splits may also hold the lower-case spellings of names, as the chain `code3` does. A table names it likewise."""
EXACT_FIELDS = "exactFields"
"""Splits may have a field with whole values, or hashes of them. A table names it from the first such split on."""
DELETION_VECTORS = "deletionVectors"
"""Rows of splits may be deleted without the splits being written anew. A table names it from the first such row on."""
TAGS = "tags"
"""Versions may have names, which clean-ups must leave alone. For writers only: readers need not know."""
_SHUT_STATE_VERSION = 5
"""What a state says where splits are ours: an engine that looks at nothing else of a state refuses it then."""

_OLDER_FEATURES = {"checkpoints", "conditionalWrites", "tantivy4java"}
_INDEX_FEATURES = {CHAINS, CODE_NAMES, CODE_SPELLINGS, EXACT_FIELDS, SUBSTRINGS, DECISIONS}
_NEWER_FEATURES = {*_INDEX_FEATURES, DELETION_VECTORS, TAGS, *EVOLUTION}
_KNOWN_FEATURES = frozenset(FEATURES) | _OLDER_FEATURES | _NEWER_FEATURES
FEATURES_SINCE = 3
_MARKS = {
    SUBSTRINGS: r'"substring":\s*true',
    CHAINS: r'"tokenizer":\s*"[^"]*\|',
    CODE_NAMES: r'"tokenizer":\s*"code2\|',
    CODE_SPELLINGS: r'"tokenizer":\s*"code3\|',
    EXACT_FIELDS: r'"exact":\s*"',
}
"""What a doc mapping has in it where a feature is used."""

NEW_TABLE_PROTOCOL = ProtocolAction(
    min_reader_version=SUPPORTED_VERSION,
    min_writer_version=SUPPORTED_VERSION,
    reader_features=FEATURES,
    writer_features=FEATURES,
)
LEGACY_PROTOCOL = ProtocolAction(min_reader_version=1, min_writer_version=1)
"""What a table without a protocol action has."""


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
        message = f"{path} needs {role} features that this release does not have: {', '.join(missing)}."
        raise UnsupportedError(message, path=path, needed=missing, supported=sorted(_KNOWN_FEATURES))


def state_protocol_version(protocol: ProtocolAction) -> int:
    """The protocol version in a state's own record. The whole protocol stands beside it, for those who read it."""
    if PARQUET_SPLITS in (protocol.reader_features or ()):
        return _SHUT_STATE_VERSION
    return max(SUPPORTED_VERSION, protocol.min_reader_version)


def is_shared(protocol: ProtocolAction) -> bool:
    """Whether another engine that reads Avro states takes the table for its own, as long as we have not written to it."""
    current = min(protocol.min_reader_version, protocol.min_writer_version) >= SUPPORTED_VERSION
    return current and not names_parquet_splits(protocol)


def names_parquet_splits(protocol: ProtocolAction) -> bool:
    """Whether the protocol names `parquetSplits`: without it, another engine may go on writing to the table."""
    return PARQUET_SPLITS in (protocol.reader_features or ())


def default_operator(protocol: ProtocolAction) -> str:
    """What words side by side mean in a table that does not say so itself: in one that is not ours yet, all must match.

    The other engine means it so and records nothing. A table is ours from the version on that names `parquetSplits`.
    """
    return "or" if names_parquet_splits(protocol) else "and"


def taken_over(protocol: ProtocolAction) -> ProtocolAction:
    """The protocol of a shared table once we have written to it: engines that cannot read our splits refuse it."""
    return upgraded(
        protocol,
        min_reader_version=SUPPORTED_VERSION,
        min_writer_version=SUPPORTED_VERSION,
        features=(AVRO_STATE, PARQUET_SPLITS),
    )


def with_mapping(protocol: ProtocolAction, doc_mapping_json: str) -> ProtocolAction:
    """The protocol of a table that has splits with a doc mapping: who does not know what is in it refuses the table.

    It is the same object where there is nothing to add.
    """
    features = tuple(name for name, mark in _MARKS.items() if re.search(mark, doc_mapping_json))
    known = set(protocol.reader_features or ()) & set(protocol.writer_features or ())
    if known.issuperset(features):
        return protocol
    return upgraded(protocol, min_reader_version=FEATURES_SINCE, min_writer_version=FEATURES_SINCE, features=features)


def has_vectors(protocol: ProtocolAction) -> bool:
    """Whether splits of a table may have deletion vectors."""
    features = protocol.reader_features or (), protocol.writer_features or ()
    return all(DELETION_VECTORS in names for names in features)


def with_vectors(protocol: ProtocolAction) -> ProtocolAction:
    """The protocol of a table whose splits may have deletion vectors: who does not know them refuses it."""
    return upgraded(
        protocol,
        min_reader_version=FEATURES_SINCE,
        min_writer_version=FEATURES_SINCE,
        features=(DELETION_VECTORS,),
    )


def with_tags(protocol: ProtocolAction) -> ProtocolAction:
    """The protocol of a table whose versions may have names: who does not know them does not write to it, nor clean it."""
    return ProtocolAction(
        min_reader_version=protocol.min_reader_version,
        min_writer_version=max(protocol.min_writer_version, FEATURES_SINCE),
        reader_features=protocol.reader_features,
        writer_features=_union(protocol.writer_features, (TAGS,)),
        unknown=protocol.unknown,
    )


def upgraded(
    current: ProtocolAction, *, min_reader_version: int, min_writer_version: int, features: tuple[str, ...] = ()
) -> ProtocolAction:
    """The protocol raised to at least these versions and features; it is never lowered."""
    if max(min_reader_version, min_writer_version) > SUPPORTED_VERSION:
        raise InvalidInputError(
            f"Protocol {min_reader_version}/{min_writer_version} cannot be set: the highest is {SUPPORTED_VERSION}.",
            needed=[min_reader_version, min_writer_version],
            supported=SUPPORTED_VERSION,
        )
    unknown = sorted(set(features) - _KNOWN_FEATURES)
    if unknown:
        names = ", ".join(sorted(_KNOWN_FEATURES))
        raise InvalidInputError(f"Unknown protocol features: {', '.join(unknown)}.", hint=f"Known: {names}.")
    reader = max(current.min_reader_version, min_reader_version)
    writer = max(current.min_writer_version, min_writer_version)
    return ProtocolAction(
        min_reader_version=reader,
        min_writer_version=writer,
        reader_features=_union(current.reader_features, features) if reader >= FEATURES_SINCE else None,
        writer_features=_union(current.writer_features, features) if writer >= FEATURES_SINCE else None,
        unknown=current.unknown,
    )


def _union(current: tuple[str, ...] | None, more: tuple[str, ...]) -> tuple[str, ...] | None:
    both = tuple(sorted({*(current or ()), *more}))
    return both or None


_FEATURES_BY_VERSION = {
    2: {"checkpoints", "conditionalWrites", "extendedMetadata", "footerOffsets", "skippedFiles", "tantivy4java"},
    3: {"multiPartCheckpoint", "schemaDeduplication"},
}
"""Which features came with a protocol version; all others are newer."""
_LEFT_BEHIND = frozenset({AVRO_STATE, "multiPartCheckpoint", "schemaDeduplication"})
"""Features of how the log is written down: a checkpoint of an older form does without them."""


def newer_than(protocol: ProtocolAction, version: int, *, files: int) -> list[str]:
    """The features in use by a table of so many files that readers and writers of an older version do not know."""
    known = {feature for since, features in _FEATURES_BY_VERSION.items() if since <= version for feature in features}
    named = {*(protocol.reader_features or ()), *(protocol.writer_features or ())}
    unused = {PARQUET_SPLITS} if not files else set()
    return sorted(named - known - _LEFT_BEHIND - unused)


def lowered(protocol: ProtocolAction, version: int) -> ProtocolAction:
    """The protocol written back to an older version, with the features that it knows."""
    known = {feature for since, features in _FEATURES_BY_VERSION.items() if since <= version for feature in features}

    def of(features: tuple[str, ...] | None) -> tuple[str, ...] | None:
        return tuple(f for f in features or () if f in known) if version >= FEATURES_SINCE else None

    return ProtocolAction(
        min_reader_version=version,
        min_writer_version=version,
        reader_features=of(protocol.reader_features),
        writer_features=of(protocol.writer_features),
        unknown=protocol.unknown,
    )

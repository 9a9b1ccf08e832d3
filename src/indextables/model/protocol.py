"""Protocol versions and features: what this release reads and writes, and the check made before every use of a table."""

from __future__ import annotations

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

AVRO_STATE = "avroState"
PARQUET_SPLITS = "parquetSplits"
_SHUT_STATE_VERSION = 5
"""What a state says where splits are ours: an engine that looks at nothing else of a state refuses it then."""

_KNOWN_FEATURES = frozenset(FEATURES) | {"checkpoints", "conditionalWrites", "tantivy4java"}
FEATURES_SINCE = 3

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
    return current and PARQUET_SPLITS not in (protocol.reader_features or ())


def taken_over(protocol: ProtocolAction) -> ProtocolAction:
    """The protocol of a shared table once we have written to it: engines that cannot read our splits refuse it."""
    return upgraded(
        protocol,
        min_reader_version=SUPPORTED_VERSION,
        min_writer_version=SUPPORTED_VERSION,
        features=(AVRO_STATE, PARQUET_SPLITS),
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

"""Bases, the starting points of a replay: the checkpoints, newest first, or the empty table.

A state is opened by its own small file; its manifests are read when files are requested. A damaged
manifest may therefore be detected late. The same files are then derived from an older base and the
versions after it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

import msgspec
import pyarrow as pa
from msgspec import Struct, field
from msgspec.structs import replace

from indextables.config.log import StateReadSettings
from indextables.errors import (
    BadFileError,
    CheckpointCorruptionError,
    IndexTablesError,
    NotFoundError,
    UnsupportedError,
    VersionNotFoundError,
)
from indextables.log import log_files
from indextables.log.checkpoint.legacy import read_legacy_checkpoint
from indextables.log.checkpoint.manifests import ManifestReader, damage_of_checkpoint
from indextables.log.checkpoint.state_files import StateFiles
from indextables.log.log_files import LogListing, list_log
from indextables.log.versions import VersionReader, bounded_time
from indextables.model.actions import MetadataAction, ProtocolAction
from indextables.model.snapshot import Base, Header, PartFilter, replay
from indextables.model.state import StateManifest
from indextables.storage.location import inside
from indextables.storage.store import ObjectInfo
from indextables.wire.state import decode_state

logger = logging.getLogger(__name__)


class BaseSearch(Struct):
    """Unusable files that a search for a base encountered, in order."""

    failures: list[IndexTablesError] = field(default_factory=list)


class BaseReader(Struct, frozen=True):
    """Reads the checkpoints of one table as bases of a replay."""

    versions: VersionReader
    settings: StateReadSettings = StateReadSettings()
    replays: bool = False
    """Whether every version is read if all exist, instead of a checkpoint."""

    @property
    def manifests(self) -> ManifestReader:
        """The reader of this table's manifests."""
        return ManifestReader(self.versions.store, self.versions.cache, self.settings)

    def bases(
        self,
        listing: LogListing,
        *,
        until: int,
        search: BaseSearch | None = None,
        but: ObjectInfo | None = None,
    ) -> Iterator[Base]:
        """Yield bases at or below a version, newest first; the last is the empty one before version
        0.

        An unreadable base is reported and skipped; one that was deleted since the listing is
        skipped.
        """
        if self.replays:
            yield Base()
        states = [
            (version, 1, info) for version, info in listing.states.items() if version <= until
        ]
        checkpoints = [
            (version, 0, info)
            for version, info in listing.legacy_checkpoints.items()
            if version <= until
        ]
        for version, is_state, info in sorted(
            states + checkpoints, key=lambda c: c[:2], reverse=True
        ):
            if info == but:
                continue
            try:
                yield (
                    self._state_base(version, info, listing)
                    if is_state
                    else self._legacy_base(version, info)
                )
            except (BadFileError, UnsupportedError) as failure:
                self.report(failure)
                if search is not None:
                    search.failures.append(failure)
            except NotFoundError:
                continue
        yield Base()

    def read_state(self, version: int, info: ObjectInfo) -> StateManifest:
        """Read the state in a listed file."""
        cached = self._from_cache("states", info)
        if isinstance(cached, StateManifest):
            return cached
        data = self.versions.store.get(info.path)
        with damage_of_checkpoint():
            state = decode_state(data, path=info.path)
        if state.state_version != version:
            message = f"{info.path} says that it is the state of version {state.state_version}."
            raise CheckpointCorruptionError(message, path=info.path, version=version)
        if any(t.path.startswith("/") or ":" in t.path for t in state.tombstones):
            root = self.versions.store.url
            state = replace(
                state,
                tombstones=tuple(replace(t, path=inside(root, t.path)) for t in state.tombstones),
            )
        self._remember("states", info, state, cost_bytes=len(data) * 4)
        return state

    def standalone(
        self, version: int, info: ObjectInfo, *, columns: Sequence[str] | None = None
    ) -> Base:
        """Read a checkpoint that must be complete by itself. If its form is read as a whole, only
        named columns are kept.
        """
        if log_files.state_version_of(info.path) is None and columns is not None:
            with damage_of_checkpoint():
                return read_legacy_checkpoint(
                    self.versions.store, version, info, self.settings, columns=columns
                )
        if log_files.state_version_of(info.path) is None:
            return self._legacy_base(version, info)
        state = self.read_state(version, info)
        return Base(_header(state, info), StateFiles(state, info, self.manifests, _no_other_way))

    def _state_base(self, version: int, info: ObjectInfo, listing: LogListing) -> Base:
        state = self.read_state(version, info)
        header = _header(state, info)
        if state.metadata is None or state.protocol is None:
            header = self._complete_header(header, state, listing)

        def fallback(
            failure: IndexTablesError, part_filter: PartFilter | None, columns: Sequence[str] | None
        ) -> pa.Table:
            return self._files_by_another_way(version, info, failure, part_filter, columns)

        return Base(header, StateFiles(state, info, self.manifests, fallback))

    def _complete_header(self, header: Header, state: StateManifest, listing: LogListing) -> Header:
        """Complete metadata and protocol of a state from an earlier state, then from version 0."""
        metadata, protocol = state.metadata, state.protocol
        for version in sorted((v for v in listing.states if v < header.version), reverse=True):
            if metadata is not None:
                break
            try:
                metadata = self.read_state(version, listing.states[version]).metadata
            except (BadFileError, UnsupportedError, NotFoundError):
                continue
        first = self.versions.read_one(0)
        for action in first.actions if first else ():
            if isinstance(action, MetadataAction) and metadata is None:
                metadata = action
            if isinstance(action, ProtocolAction) and protocol is None:
                protocol = _raised_protocol(action, state.protocol_version)
        return replace(header, metadata=metadata, protocol=protocol or header.protocol)

    def _legacy_base(self, version: int, info: ObjectInfo) -> Base:
        cached = self._from_cache("checkpoints", info)
        if isinstance(cached, Base):
            return cached
        with damage_of_checkpoint():
            base = read_legacy_checkpoint(self.versions.store, version, info, self.settings)
        self._remember("checkpoints", info, base, cost_bytes=base.source.files().nbytes)
        return base

    def _files_by_another_way(
        self,
        version: int,
        info: ObjectInfo,
        failure: IndexTablesError,
        part_filter: PartFilter | None,
        columns: Sequence[str] | None,
    ) -> pa.Table:
        """Return the files of a state with unreadable manifests by replay from an older base."""
        listing = list_log(self.versions.store)
        if version in listing.states:
            self.report(failure)
        for base in self.bases(listing, until=version, but=info):
            if listing.missing(base.header.version, version):
                continue
            between = [
                (v, listing.versions[v]) for v in range(base.header.version + 1, version + 1)
            ]
            try:
                return replay(base, self.versions.read(between)).files(part_filter, columns=columns)
            except NotFoundError:
                break
        if version not in listing.states:
            raise self._cleaned_away(version) from failure
        if isinstance(failure, BadFileError):
            raise failure
        path = failure.context.get("path", info.path)
        raise CheckpointCorruptionError(
            f"{path}, which {info.path} names, is missing.", path=path, state=info.path
        ) from failure

    def _cleaned_away(self, version: int) -> VersionNotFoundError:
        url = self.versions.store.url
        return VersionNotFoundError(
            f"Version {version} of {url} was cleaned away while it was read.",
            hint="Open the table again for its newest version.",
            path=url,
            version=version,
        )

    def report(self, failure: IndexTablesError) -> None:
        """Log a warning about an unusable file once per process and table."""
        store, cache = self.versions.store, self.versions.cache
        about = ("reported", str(failure.context.get("path", failure.message)))
        if cache is not None and cache.get("reports", store.url, about) is not None:
            return
        logger.warning(
            "%s: %s An older state or checkpoint is used instead.", store.url, failure.message
        )
        if cache is not None:
            cache.put("reports", store.url, about, failure.message, cost_bytes=200)

    def _from_cache(self, kind: str, info: ObjectInfo) -> object | None:
        if self.versions.cache:
            return self.versions.cache.get(kind, self.versions.store.url, info)
        return None

    def _remember(self, kind: str, info: ObjectInfo, value: object, *, cost_bytes: int) -> None:
        if self.versions.cache:
            self.versions.cache.put(
                kind, self.versions.store.url, info, value, cost_bytes=cost_bytes
            )


def _header(state: StateManifest, info: ObjectInfo) -> Header:
    return Header(
        version=state.state_version,
        timestamp_ms=bounded_time(
            state.commit_timestamp or state.created_at, info.last_modified_ms
        ),
        protocol=state.protocol or _plain_protocol(state.protocol_version),
        metadata=state.metadata,
        txns={txn.app_id: txn for txn in state.txns},
        skips={skip.path: skip for skip in state.skips},
        recent_txn_ids=state.txn_ids,
        txn_id=state.txn_id,
        schema_registry=state.schema_registry,
    )


def _no_other_way(
    failure: IndexTablesError,
    part_filter: PartFilter | None,  # noqa: ARG001
    columns: Sequence[str] | None,  # noqa: ARG001
) -> pa.Table:
    raise failure


def _plain_protocol(version: int) -> ProtocolAction:
    return ProtocolAction(min_reader_version=version, min_writer_version=version)


def _raised_protocol(action: ProtocolAction, version: int) -> ProtocolAction:
    """Return the protocol of version 0, raised to that of the state."""
    return msgspec.structs.replace(
        action,
        min_reader_version=max(action.min_reader_version, version),
        min_writer_version=max(action.min_writer_version, version),
    )

"""Retention: which files of a log are needed and which have expired. A pure decision over a
listing.

A file is retained if something retained refers to it. The oldest version that must stay readable
sets a horizon: the newest checkpoint at or below it stays, and every version after that checkpoint.
Older files expire by age; a file of unknown age never expires.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from msgspec import Struct, field
from msgspec.structs import replace

HOUR_MS = 3_600_000


class LogObject(Struct, frozen=True):
    """A file of the log with the store's time; None if the store reports none."""

    path: str
    size: int
    last_modified_ms: int | None
    tag: str | None = None


class CheckpointFiles(Struct, frozen=True):
    """A checkpoint of any form: its own files, and the manifests or parts it names; None if it
    cannot be read.
    """

    files: tuple[LogObject, ...]
    names: frozenset[str] | None = frozenset()


class LogInventory(Struct, frozen=True):
    """Everything in a log. `manifests` and `parts` are by path; files that a checkpoint names may
    be missing.
    """

    versions: Mapping[int, LogObject] = field(default_factory=dict)
    states: Mapping[int, CheckpointFiles] = field(default_factory=dict)
    legacy_checkpoints: Mapping[int, CheckpointFiles] = field(default_factory=dict)
    manifests: Mapping[str, LogObject] = field(default_factory=dict)
    parts: Mapping[str, LogObject] = field(default_factory=dict)
    tagged: frozenset[int] = frozenset()
    """Tagged versions, which stay readable whatever their age."""

    @property
    def newest_ms(self) -> int:
        """When the youngest file of the log was written, by the store's clock."""
        return max((file.last_modified_ms or 0 for file in self.by_path().values()), default=0)

    def by_path(self) -> dict[str, LogObject]:
        """Return every file."""
        checkpoint_files = (
            file
            for checkpoint in (*self.states.values(), *self.legacy_checkpoints.values())
            for file in checkpoint.files
        )
        files = (
            *self.versions.values(),
            *self.manifests.values(),
            *self.parts.values(),
            *checkpoint_files,
        )
        return {file.path: file for file in files}

    def without(self, damaged: Collection[int]) -> LogInventory:
        """Return the inventory with the checkpoints of some versions marked as unusable."""
        if not damaged:
            return self
        states = {
            v: replace(checkpoint, names=None) if v in damaged else checkpoint
            for v, checkpoint in self.states.items()
        }
        legacy = {
            v: replace(checkpoint, names=None) if v in damaged else checkpoint
            for v, checkpoint in self.legacy_checkpoints.items()
        }
        return replace(self, states=states, legacy_checkpoints=legacy)

    def usable(self) -> tuple[list[int], list[int]]:
        """Return the versions of the states, and of older checkpoints, without missing files."""
        states = [v for v, state in self.states.items() if _is_complete(state, self.manifests)]
        return states, [
            v
            for v, checkpoint in self.legacy_checkpoints.items()
            if _is_complete(checkpoint, self.parts)
        ]


class RetentionPolicy(Struct, frozen=True):
    """Retention periods. Zero everywhere keeps the newest checkpoint and what follows it."""

    log_ms: int
    state_ms: int
    checkpoint_ms: int
    manifest_ms: int
    versions: int = 0
    """Number of version files before the newest checkpoint that are kept whatever their age."""
    state_versions: int = 1
    """Number of the newest states that are kept whatever their age."""


class ExpiredFile(Struct, frozen=True):
    """A file that may be deleted, and why."""

    path: str
    kind: str
    version: int | None
    size: int
    reason: str


class Expiry(Struct, frozen=True):
    """What may be deleted, in order: versions oldest first, checkpoints, then files that only they
    named.

    `anchor` is the newest checkpoint; without it nothing expires. `start` is the checkpoint that
    everything kept begins with; -1 for version 0. Expired files may be deleted only after both were
    verified.
    """

    anchor: int | None
    expired: tuple[ExpiredFile, ...] = ()
    start: int = -1
    tagged: frozenset[int] = frozenset()
    """Tagged versions that stay readable."""
    own_checkpoints: frozenset[int] = frozenset()
    """Those of them with a checkpoint of their own."""
    objects: Mapping[str, LogObject] = field(default_factory=dict)
    """The listed files that may be deleted, by path."""
    cover: tuple[LogObject, ...] = ()
    """The listed files of the anchor and of its version."""

    @property
    def covers(self) -> frozenset[int]:
        """Return the checkpoints that the table, or a version that must stay readable, depends on."""
        ends = frozenset(
            version for version in (self.anchor, self.start) if version is not None and version >= 0
        )
        return ends | self.own_checkpoints

    def only(self, paths: Collection[str]) -> Expiry:
        """Return the same for some of the files."""
        return replace(self, expired=tuple(file for file in self.expired if file.path in paths))


def find_expired(log: LogInventory, policy: RetentionPolicy, *, now_ms: int) -> Expiry:
    """Return what has expired."""
    states, legacy = log.usable()
    checkpoints = sorted({*states, *legacy})
    if not checkpoints:
        return Expiry(None)
    search = _Search(log, policy, now_ms, anchor=checkpoints[-1])
    # A tagged version that has a checkpoint needs nothing else. For another one every later version
    # stays too: rule R3 lets no version go that comes after one that stays.
    own = log.tagged.intersection(checkpoints)
    first = min([search.oldest_needed(), *(log.tagged - own)])
    start = max((version for version in checkpoints if version <= first), default=-1)
    retained = {checkpoints[-1], start, *own, *sorted(states)[-policy.state_versions :]}
    gone_states = search.old_states(retained)
    gone_checkpoints = search.old_legacy_checkpoints(retained)
    expired = [
        *search.old_versions(start),
        *_expired_checkpoints(log.states, gone_states, "state"),
        *_expired_checkpoints(log.legacy_checkpoints, gone_checkpoints, "checkpoint"),
        *search.find_unnamed(
            log.legacy_checkpoints, gone_checkpoints, log.parts, "checkpoint part"
        ),
        *search.find_unnamed(log.states, gone_states, log.manifests, "manifest"),
    ]
    anchor, objects = checkpoints[-1], log.by_path()
    covering = [
        found
        for found in (log.states.get(anchor), log.legacy_checkpoints.get(anchor))
        if found is not None
    ]
    cover = [file for found in covering for file in found.files]
    cover += [log.versions[anchor]] if anchor in log.versions else []
    return Expiry(
        anchor=anchor,
        expired=tuple(expired),
        start=start,
        tagged=log.tagged,
        own_checkpoints=own,
        objects={file.path: objects[file.path] for file in expired},
        cover=tuple(cover),
    )


def _is_complete(checkpoint: CheckpointFiles, present: Mapping[str, LogObject]) -> bool:
    return checkpoint.names is not None and all(name in present for name in checkpoint.names)


def _expired_checkpoints(
    checkpoints: Mapping[int, CheckpointFiles], gone: list[int], kind: str
) -> Iterator[ExpiredFile]:
    for version in gone:
        for file in checkpoints[version].files:
            yield ExpiredFile(
                file.path, kind, version, file.size, f"{kind} superseded and past its retention"
            )


class _Search(Struct, frozen=True):
    log: LogInventory
    policy: RetentionPolicy
    now_ms: int
    anchor: int

    def oldest_needed(self) -> int:
        """Return the oldest version that must stay readable."""
        oldest_retained = self.anchor - self.policy.versions
        young = [
            version
            for version, file in self.log.versions.items()
            if version >= oldest_retained or not self._older(file, self.policy.log_ms)
        ]
        return min([self.anchor, *young])

    def old_versions(self, start: int) -> Iterator[ExpiredFile]:
        """Return version files below the checkpoint that everything kept starts from; its own
        version stays (rule R3).
        """
        for version in sorted(v for v in self.log.versions if v < start):
            file = self.log.versions[version]
            if self._older(file, self.policy.log_ms):
                yield ExpiredFile(
                    file.path,
                    "version",
                    version,
                    file.size,
                    f"covered by the checkpoint of version {start}",
                )

    def old_states(self, retained: set[int]) -> list[int]:
        return self._old(self.log.states, retained, self.policy.state_ms)

    def old_legacy_checkpoints(self, retained: set[int]) -> list[int]:
        return self._old(self.log.legacy_checkpoints, retained, self.policy.checkpoint_ms)

    def find_unnamed(
        self,
        checkpoints: Mapping[int, CheckpointFiles],
        gone: list[int],
        files: Mapping[str, LogObject],
        kind: str,
    ) -> Iterator[ExpiredFile]:
        """Return manifests or parts without a reference from a retained checkpoint. If one of these
        is unreadable, all are kept.
        """
        named: set[str] = set()
        for version, checkpoint in checkpoints.items():
            if version in gone:
                continue
            if checkpoint.names is None:
                return
            named |= checkpoint.names
        for path in sorted(set(files) - named):
            if self._older(files[path], self.policy.manifest_ms):
                yield ExpiredFile(
                    path,
                    kind,
                    None,
                    files[path].size,
                    "named by no state or checkpoint that is kept",
                )

    def _old(
        self, checkpoints: Mapping[int, CheckpointFiles], retained: set[int], limit_ms: int
    ) -> list[int]:
        return sorted(
            version
            for version, checkpoint in checkpoints.items()
            if version < self.anchor
            and version not in retained
            and all(self._older(file, limit_ms) for file in checkpoint.files)
        )

    def _older(self, file: LogObject, limit_ms: int) -> bool:
        return file.last_modified_ms is not None and self.now_ms - file.last_modified_ms >= limit_ms

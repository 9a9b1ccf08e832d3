"""Tags: names of versions that protect them from clean-up.

A tag is a `txn` of the log (`Header.tags`): every form of checkpoint contains it, a restore keeps
it, and the last entry of a name counts. A version that lost splits to a purge cannot be tagged. The
order of commits decides between a concurrent tag and purge: a purge keeps what was tagged before
its version, and a later tag checks again.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from indextables.errors import (
    ConflictError,
    CorruptTableError,
    InvalidInputError,
    NotFoundError,
    RefusedError,
    VersionNotFoundError,
)
from indextables.handle import tagged_version
from indextables.log.history import check_not_purged
from indextables.log.proposal import Plan
from indextables.log.transaction_log import TransactionLog
from indextables.model.actions import CommitInfo, LogAction, TxnAction
from indextables.model.arguments import text
from indextables.model.conflicts import Intent, Operation
from indextables.model.deletion_vector import REACHED_COLUMNS, listed_paths
from indextables.model.protocol import TAGS, with_tags
from indextables.model.snapshot import TAG_TXNS, Snapshot
from indextables.operations.restore import check_splits

_LONGEST = 128
_TAKEN_AWAY = -1
_ATTEMPTS = 5


def tag_name(name: str) -> str:
    """Return a valid tag name: not a number, and on one line."""
    given = text("A tag", name)
    if (
        not given
        or given != given.strip()
        or not given.isprintable()
        or len(given) > _LONGEST
        or given.isdecimal()
    ):
        raise InvalidInputError(
            f"{given!r} cannot be a tag.",
            hint=f"A tag is a word such as 'release-7': no number, at most {_LONGEST} characters, no space at its ends.",
            tag=given,
        )
    return given


def tagged_files(log: TransactionLog, newest: Snapshot) -> frozenset[str]:
    """Return every file that tagged versions need. Raises RefusedError if a tagged version cannot
    be read.
    """
    files: frozenset[str] = frozenset()
    for name, version in newest.header.tags.items():
        try:
            files |= listed_paths(log.at_version(version).files(columns=REACHED_COLUMNS))
        except (VersionNotFoundError, CorruptTableError, NotFoundError) as error:
            raise RefusedError(
                f"Version {version} of {log.store.url}, which has the tag {name!r}, cannot be read: {error.message}",
                hint=f"Nothing was deleted, because its files are unknown. Remove the tag with untag({name!r}).",
                path=log.store.url,
                tag=name,
            ) from error
    return files


def lost_tags(log: TransactionLog, tags: Mapping[str, int]) -> dict[str, str]:
    """Return tags of unreadable versions with the reasons."""
    lost = {}
    for name, version in tags.items():
        try:
            log.at_version(version).files(columns=["path"])
        except (VersionNotFoundError, CorruptTableError, NotFoundError) as error:
            lost[name] = error.message
    return lost


def tag(log: TransactionLog, name: str, version: int, *, engine_info: str) -> int:
    """Tag a version, and return the version that records it. An existing equal tag is not written
    again.
    """
    given = tag_name(name)
    for attempt in range(_ATTEMPTS):
        read = log.newest_writable()
        if read.header.tags.get(given) == version:
            return read.version
        if read.version == version:
            target = read
        else:
            target = log.at_version(version)
        check_not_purged(log, read, target)
        check_splits(log.store, target)
        try:
            committed = log.commit(read, _Naming(given, version, Operation.TAG, engine_info))
        except ConflictError:
            # A purge was first: check again whether it kept the version.
            if attempt == _ATTEMPTS - 1:
                raise
            continue
        assert committed.version is not None
        _check_kept(log, given, version, engine_info)
        return committed.version
    raise AssertionError("the last attempt returns or raises")


def untag(log: TransactionLog, name: str, *, engine_info: str) -> int:
    """Remove a tag, and return the version that records it."""
    given = text("A tag", name)
    tagged_version(log, given)
    committed = log.commit(log.fresh(), _Naming(given, _TAKEN_AWAY, Operation.UNTAG, engine_info))
    return committed.snapshot.version


def _check_kept(log: TransactionLog, name: str, version: int, engine_info: str) -> None:
    """Remove the tag again if a running cleaning deleted the version while it was tagged."""
    log.invalidate_cache()
    try:
        check_splits(log.store, log.at_version(version))
    except (VersionNotFoundError, CorruptTableError, NotFoundError):
        log.commit(log.fresh(), _Naming(name, _TAKEN_AWAY, Operation.UNTAG, engine_info))
        raise


class _Naming(Struct, frozen=True):
    """The commit that adds or removes a tag."""

    name: str
    version: int
    operation: Operation
    engine_info: str

    @property
    def intent(self) -> Intent:
        # What it names are splits of the past, which a purge may be deleting.
        return Intent(self.operation, writes_data=False, revives=self.version >= 0)

    def plan(self, snapshot: Snapshot, *, now_ms: int) -> Plan:
        taken = snapshot.header.tags.get(self.name)
        if self.version >= 0 and taken is not None and taken != self.version:
            raise RefusedError(
                f"{self.name!r} is the tag of version {taken}.",
                hint="Nothing was changed. Choose another name, or untag it first.",
                tag=self.name,
                version=taken,
            )
        actions: list[LogAction] = []
        protocol = snapshot.header.protocol
        if TAGS not in (protocol.writer_features or ()):
            actions.append(with_tags(protocol))
        actions.append(
            TxnAction(app_id=f"{TAG_TXNS}{self.name}", version=self.version, last_updated=now_ms)
        )
        named = {"tag": self.name} | ({"version": self.version} if self.version >= 0 else {})
        return Plan(
            actions,
            CommitInfo(
                operation=self.operation, operation_parameters=named, engine_info=self.engine_info
            ),
        )

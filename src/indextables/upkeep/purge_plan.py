"""What a purge may delete: splits nobody can reach, expired files of the log, leftovers; each with its reason.

A split may go when no version that was current within the retention period has it and the file itself is as old. A file
whose age is not known stays, and so does everything below a folder that is a table of its own, and whatever may be a live
split that the log spells in another way than the store.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import inf
from typing import Any, ClassVar
from unicodedata import normalize
from urllib.parse import unquote

from msgspec import Struct
from msgspec.structs import asdict, replace

from indextables.config.state import RetentionSettings
from indextables.config.upkeep import PurgeSettings
from indextables.errors import InvalidInputError, RefusedError
from indextables.log import names
from indextables.log.cleaning import policy_of
from indextables.log.transaction_log import TransactionLog
from indextables.model.report import Report
from indextables.model.retention import HOUR_MS, Expiry, RetentionPolicy, find_expired
from indextables.model.snapshot import Snapshot
from indextables.storage.store import ObjectInfo
from indextables.upkeep.table_files import other_tables, own_files
from indextables.upkeep.timeline import Ending, Timeline, timeline

MIN_HOURS = 24
IN_FLIGHT_MS = 24 * HOUR_MS
"""A split that no version names and that is younger than this may be somebody's who is about to commit it."""
WRITING_MS = HOUR_MS
"""A file without a name yet is given so long before it counts as left behind."""


class PurgeFile(Struct, frozen=True):
    """A file to delete, and why."""

    path: str
    kind: str
    size: int
    reason: str


class Retention(Struct, frozen=True):
    """How long splits and version files are kept; what is too short to be safe is refused."""

    split_hours: float
    log_hours: float

    @classmethod
    def checked(cls, settings: PurgeSettings, *, split_hours: float | None, log_hours: float | None) -> Retention:
        """The settings, with what this purge asks for on top."""
        found = cls(
            settings.split_hours if split_hours is None else split_hours,
            settings.log_hours if log_hours is None else log_hours,
        )
        for hours, what in ((found.split_hours, "splits"), (found.log_hours, "version files")):
            if not 0 <= hours < inf:
                hint = "Give a number of hours, 0 or more."
                raise InvalidInputError(
                    f"A retention of {hours:g} hours for {what} makes no sense.", hint=hint, hours=hours
                )
            if hours < MIN_HOURS and settings.check_retention:
                raise RefusedError(
                    f"A retention of {hours:g} hours for {what} is shorter than {MIN_HOURS} hours: readers and writers "
                    "that are at work now could lose what they need.",
                    hint="If nobody is, open the table with options={'purge.retentionCheckEnabled': False}.",
                    hours=hours,
                )
        return found


class PurgePlan(Report, frozen=True):
    """Every file that a purge would delete, with its size and the reason."""

    table_path: str
    version: int
    retention_hours: float
    log_retention_hours: float
    files: tuple[PurgeFile, ...]
    """Splits and leftovers first, then the files of the log in the order in which they must go."""
    expiry: Expiry
    in_flight: frozenset[str]
    """Those among the splits that somebody may be about to commit."""
    unreadable_before: int
    """Versions before this one may lose splits."""
    read: Snapshot
    settings: RetentionSettings
    now_ms: int
    """By which time it was decided what is old enough."""
    hidden: ClassVar[tuple[str, ...]] = ("expiry", "in_flight", "unreadable_before", "read", "settings", "now_ms")

    def details(self) -> dict[str, list[dict[str, Any]]]:
        """The files, those of the log among them."""
        return {"files": [asdict(file) for file in self.all_files()]}

    def all_files(self) -> Iterator[PurgeFile]:
        """Every file, in the order of deletion."""
        yield from self.files
        for expired in self.expiry.expired:
            yield PurgeFile(expired.path, expired.kind, expired.size, expired.reason)


def plan(
    log: TransactionLog, *, retention: Retention, settings: RetentionSettings, now_ms: int | None = None
) -> PurgePlan:
    """Look for what may be deleted, by this machine's time or by a given one. Nothing is changed."""
    now_ms = log.now_ms() if now_ms is None else now_ms
    policy = log_policy(settings, log_hours=retention.log_hours)
    expiry = find_expired(log.cleaner().inventory(), policy, now_ms=now_ms)
    newest = log.fresh()
    known = timeline(log, newest)
    listed = [*log.store.list()]
    objects, others = own_files(listed), other_tables(listed)
    search = _Search(known, _file_names(known.live.difference(o.path for o in objects)), retention, now_ms)
    splits = [*search.orphans(o for o in objects if not o.path.startswith(f"{names.LOG}/"))]
    gone = {file.path for file in splits} | {expired.path for expired in expiry.expired}
    leftovers = [
        *search.checksums(objects, gone),
        *search.unfinished(o for o in log.store.unfinished() if not o.path.startswith(others)),
    ]
    return PurgePlan(
        table_path=log.store.url,
        version=newest.version,
        retention_hours=retention.split_hours,
        log_retention_hours=retention.log_hours,
        files=(*splits, *leftovers),
        expiry=expiry,
        in_flight=frozenset(search.in_flight),
        unreadable_before=max((known.ended[f.path].version for f in splits if f.path in known.ended), default=0),
        read=newest,
        settings=settings,
        now_ms=now_ms,
    )


def log_policy(settings: RetentionSettings, *, log_hours: float) -> RetentionPolicy:
    """The retention of the log: what was asked for, and for states and checkpoints no more than that."""
    policy = policy_of(settings)
    log_ms = round(log_hours * HOUR_MS)
    return replace(
        policy,
        log_ms=log_ms,
        state_ms=min(policy.state_ms, log_ms),
        checkpoint_ms=min(policy.checkpoint_ms, log_ms),
        versions=0,
    )


class _Search:
    """A search for what nobody needs."""

    def __init__(self, known: Timeline, missed: frozenset[str], retention: Retention, now_ms: int) -> None:
        self.in_flight: set[str] = set()
        self._known = known
        self._missed = missed
        self._keep_ms = round(retention.split_hours * HOUR_MS)
        self._now_ms = now_ms

    def orphans(self, objects: Iterable[ObjectInfo]) -> Iterator[PurgeFile]:
        """Splits that are not live, and old enough since they were, or since they were written."""
        for found in objects:
            if not found.path.endswith(".split") or found.path in self._known.live:
                continue
            ended = self._known.ended.get(found.path)
            since = self._since(found, ended)
            if since is None or self._now_ms - since < self._keep_ms:
                continue
            if self._missed and self._missed & _file_names([found.path]):
                continue
            if ended is None and self._may_be_in_flight(found):
                self.in_flight.add(found.path)
            reason = f"removed by version {ended.version}" if ended else "part of no version that the log tells of"
            yield PurgeFile(found.path, "split", found.size, f"{reason}, {_age(self._now_ms - since)} ago")

    def checksums(self, objects: Iterable[ObjectInfo], gone: set[str]) -> Iterator[PurgeFile]:
        """Hadoop's checksum files whose file is gone, or goes now."""
        listed = {o.path: o for o in objects}
        for path, found in listed.items():
            folder, _, name = path.rpartition("/")
            if not (name.startswith(".") and name.endswith(".crc")) or not self._older(found, self._keep_ms):
                continue
            checked = f"{folder}/{name[1:-4]}" if folder else name[1:-4]
            if checked in gone or checked not in listed:
                yield PurgeFile(path, "checksum", found.size, f"checksum of {checked}, which is gone")

    def unfinished(self, objects: Iterable[ObjectInfo]) -> Iterator[PurgeFile]:
        """What writers that died have left."""
        for found in objects:
            if self._older(found, max(self._keep_ms, WRITING_MS)):
                yield PurgeFile(found.path, "temporary", found.size, "left behind by a writer")

    def _may_be_in_flight(self, found: ObjectInfo) -> bool:
        """By its age; where the retention is shorter than that takes, every one may be, whatever the clocks say."""
        return min(self._keep_ms, self._now_ms - (found.last_modified_ms or 0)) < IN_FLIGHT_MS

    def _since(self, found: ObjectInfo, ended: Ending | None) -> int | None:
        """From when on the age of a split counts; None if that is not known."""
        last = ended or self._known.untraced
        if found.last_modified_ms is None or last is None:
            return found.last_modified_ms
        return None if last.at_ms is None else max(found.last_modified_ms, last.at_ms)

    def _older(self, found: ObjectInfo, limit_ms: int) -> bool:
        return found.last_modified_ms is not None and self._now_ms - found.last_modified_ms >= limit_ms


def _file_names(paths: Iterable[str]) -> frozenset[str]:
    """The last parts of paths, in the plainest spelling. A split has a name that no other has."""
    return frozenset(normalize("NFC", unquote(path.rpartition("/")[2])) for path in paths)


def _age(ms: int) -> str:
    hours = ms / HOUR_MS
    return f"{hours / 24:.1f} days" if hours >= 48 else f"{hours:.1f} hours"


def sizes_by_kind(files: Iterable[PurgeFile]) -> Mapping[str, tuple[int, int]]:
    """Number and bytes of the files of each kind."""
    found: dict[str, tuple[int, int]] = {}
    for file in files:
        count, size = found.get(file.kind, (0, 0))
        found[file.kind] = count + 1, size + file.size
    return found

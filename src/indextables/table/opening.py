"""Opening a table: at its newest version, at an older one, or as it was at a moment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from indextables.errors import CorruptTableError, InvalidInputError, UnsupportedError
from indextables.log.history import check_not_purged, version_at
from indextables.model.arguments import whole_number
from indextables.model.snapshot import CommittedVersion
from indextables.table.handle import TableHandle, open_log
from indextables.table.moments import Moment, to_epoch_ms

T = TypeVar("T", bound="OpenVerbs")


class OpenVerbs(TableHandle):
    """Opening, and looking again."""

    @classmethod
    def open(
        cls: type[T],
        path: str,
        *,
        version: int | None = None,
        timestamp: Moment | None = None,
        options: Mapping[str, object] | None = None,
        max_staleness: float | None = None,
    ) -> T:
        """Open a table at its newest version, at an older one, or as it was at a moment.

        `max_staleness` (seconds) allows a version that this process has read within that time, without asking the store.
        """
        log = open_log(path, options)
        if version is None and timestamp is None:
            return cls(log, log.newest(max_staleness_seconds=max_staleness), options)
        if version is not None and timestamp is not None:
            raise InvalidInputError("Give a version or a timestamp, not both.", version=version)
        at = (
            whole_number("version", version, low=None) if timestamp is None else version_at(log, to_epoch_ms(timestamp))
        )
        try:
            newest = log.newest()
        except (CorruptTableError, UnsupportedError):
            # What is damaged or too new later does not stand in the way of an older version.
            return cls(log, log.at_version(at), options, pinned=True)
        snapshot = newest if newest.version == at else log.at_version(at)
        check_not_purged(log, newest, snapshot)
        return cls(log, snapshot, options, pinned=True)

    def refresh(self: T) -> T:
        """The table at its newest version."""
        return type(self)(self._log, self._log.newest(), self._options)

    def versions(self, *, after: int, until: int) -> Sequence[CommittedVersion]:
        """The versions behind one up to another, as they were committed; one that is gone is named in an error."""
        return self._log.since(after, until)

"""Is the log sound: can every file be read, is there no hole, does every state say what the versions say?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
from msgspec import Struct, field
from msgspec.structs import replace

from indextables import config
from indextables.errors import (
    BadFileError,
    CorruptTableError,
    IndexTablesError,
    NotFoundError,
    UnsupportedError,
)
from indextables.log import names
from indextables.log.bases import BaseReader, Found
from indextables.log.descent import check_descent
from indextables.log.listing import LogListing, list_log
from indextables.log.proof import differences
from indextables.log.state_files import StateFiles
from indextables.log.transaction_log import TransactionLog
from indextables.model.snapshot import Base, CommittedVersion, PartFilter, Snapshot, replay
from indextables.storage.store import ObjectInfo
from indextables.upkeep.findings import ERROR, WARNING, Finding
from indextables.wire.last_checkpoint import UnusablePointer, decode_pointer


class LogCheck(Struct):
    """A check of the log: what it found, and the newest version if it can be opened."""

    log: TransactionLog
    bases: BaseReader
    """Begins with no memory of the log: what the process read before says nothing of what is there now."""
    findings: list[Finding] = field(default_factory=list)

    @classmethod
    def of(cls, log: TransactionLog) -> LogCheck:
        """A check that has read nothing yet."""
        return cls(log, log.prover().bases)

    def run(self) -> Snapshot | None:
        """Check everything. A file that the cleaner takes away meanwhile is no finding."""
        listing = list_log(self.log.store)
        newest = self.newest()
        versions = self._versions(listing)
        bases = self._bases(listing)
        self._descent(bases, listing)
        self._compare(bases, versions)
        self._pointer(listing)
        self._settings(newest)
        for path in listing.impossible:
            message = f"The file is named like a version that cannot be: versions end at {names.MAX_VERSION}."
            self.findings.append(Finding("version", WARNING, path, message))
        return newest

    def newest(self) -> Snapshot | None:
        """The newest version, or a finding."""
        try:
            snapshot = self.log.reload()
            snapshot.files(columns=["path"])
        except CorruptTableError as error:
            self._add("log", ERROR, error)
            return None
        return snapshot

    def _versions(self, listing: LogListing) -> dict[int, CommittedVersion]:
        wanted = [*listing.versions.items()]
        try:
            return {version.version: version for version in self.bases.versions.read(wanted)}
        except (BadFileError, UnsupportedError, NotFoundError):
            return self._versions_one_by_one(wanted)

    def _versions_one_by_one(self, wanted: Sequence[tuple[int, ObjectInfo]]) -> dict[int, CommittedVersion]:
        found: dict[int, CommittedVersion] = {}
        for version, info in wanted:
            try:
                found[version] = self.bases.versions.read([(version, info)])[0]
            except (BadFileError, UnsupportedError) as error:
                self._add("version", ERROR, error, path=info.path)
            except NotFoundError:
                continue
        return found

    def _bases(self, listing: LogListing) -> list[Base]:
        """Every state and checkpoint that is sound by itself, oldest first."""
        sound = []
        candidates = [*((v, i, "state") for v, i in listing.states.items())]
        candidates += [(v, i, "checkpoint") for v, i in listing.checkpoints.items()]
        for version, info, check in sorted(candidates, key=lambda c: c[0]):
            try:
                base = self._base(listing, version, info, check)
                if base is not None:
                    base.source.files(columns=["path", "size"])
                    sound.append(base)
            except NotFoundError as error:
                # A manifest that is gone though its state is still there is missing; otherwise both were cleaned away.
                if self.log.store.head(info.path) is not None:
                    self._add(check, WARNING, error)
            except (BadFileError, UnsupportedError) as error:
                self._add(check, WARNING, error)
        return sound

    def _base(self, listing: LogListing, version: int, info: ObjectInfo, check: str) -> Base | None:
        """A state or checkpoint, which must speak for itself: its files are not looked for by another way."""
        older = {v: i for v, i in listing.states.items() if v < version} if check == "state" else {}
        states = {**older, version: info} if check == "state" else {}
        alone = LogListing({}, states, {version: info} if check == "checkpoint" else {})
        found = Found()
        base = next(self.bases.bases(alone, until=version, found=found))
        if found.failures:
            raise found.failures[0]
        if base.header.version != version:
            return None
        if isinstance(base.source, StateFiles):
            return replace(base, source=replace(base.source, fallback=_fail))
        return base

    def _descent(self, bases: Sequence[Base], listing: LogListing) -> None:
        """Every state against the version of its number, also where a later one is what the table is read from."""
        for base in bases:
            try:
                check_descent(self.log.bases, base, listing)
            except CorruptTableError as error:
                if error.message not in {finding.message for finding in self.findings}:
                    self._add("replay", ERROR, error)

    def _compare(self, bases: Sequence[Base], versions: Mapping[int, CommittedVersion]) -> None:
        """Each base against the one before it and the versions between."""
        before: Base = Base()
        for base in bases:
            at = base.header.version
            between = range(before.header.version + 1, at + 1)
            if _is_derived(base) and all(version in versions for version in between):
                told = replay(before, [versions[v] for v in between])
                for message in differences(told, base):
                    path = names.state_dir(at) if isinstance(base.source, StateFiles) else names.LOG
                    self.findings.append(Finding("replay", ERROR, path, f"Version {at}: {message}"))
            before = base

    def _settings(self, newest: Snapshot | None) -> None:
        """Settings that a table may not carry: somebody else's folders, credentials or threads."""
        carried = config.not_of_tables((newest.metadata.configuration if newest else None) or {})
        if carried:
            message = f"The table's metadata carries settings that only a caller may give: {', '.join(carried)}."
            ignored = f"{message} They are ignored; update_metadata(unset=...) drops them."
            self.findings.append(Finding("settings", WARNING, None, ignored))

    def _pointer(self, listing: LogListing) -> None:
        try:
            pointer = decode_pointer(self.log.store.get(names.POINTER))
        except NotFoundError:
            return
        if isinstance(pointer, UnusablePointer):
            message = f"The pointer to the newest checkpoint is of no use: {pointer.reason}."
            self.findings.append(Finding("pointer", WARNING, names.POINTER, message))
        elif pointer.version not in {*listing.states, *listing.checkpoints}:
            again = list_log(self.log.store)
            if pointer.version not in {*again.states, *again.checkpoints}:
                message = f"The pointer names a checkpoint of version {pointer.version}, which does not exist."
                self.findings.append(Finding("pointer", WARNING, names.POINTER, message))

    def _add(self, check: str, severity: str, error: IndexTablesError, *, path: str | None = None) -> None:
        self.findings.append(Finding(check, severity, path or error.context.get("path"), error.message))


def _fail(failure: IndexTablesError, wanted: PartFilter | None, columns: Sequence[str] | None) -> pa.Table:  # noqa: ARG001
    raise failure


def _is_derived(base: Base) -> bool:
    """Whether a base was made from versions. Another engine's state may be the commit itself, with no version file."""
    source = base.source
    return not isinstance(source, StateFiles) or all(m.size_bytes is not None for m in source.state.manifests)

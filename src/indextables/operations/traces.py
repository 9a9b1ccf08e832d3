"""Find the files of a table that still hold given rows or their values, visible in a version or
not.

| file | holds the rows if |
|---|---|
| split | a stored row matches, masked rows included; every row of the file is decoded and compared
    |
| version file, manifest, checkpoint | it lists a split that holds them: the entry has its bounds |
| the same, for a deleted split | its statistics and partition values do not exclude a match |
| version file | its parameters or its user metadata contain a value of the condition |
| state | a manifest that it names holds them, or it names the partition of such a split |
| unreadable file, or of an unknown kind | always: nothing can be proven about it |
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from indextables.errors import (
    CorruptTableError,
    IndexTablesError,
    NotFoundError,
    StorageError,
    UnsupportedError,
)
from indextables.log import log_files
from indextables.log.cleaning import Cleaner
from indextables.model.actions import AddAction, CommitInfo, LogAction, RemoveAction, SkipAction
from indextables.model.deletion_vector import VECTOR_FOLDER
from indextables.model.file_list import from_actions
from indextables.model.predicate import (
    Comparison,
    In,
    Like,
    Literal,
    Predicate,
    TextMatch,
    columns_of,
)
from indextables.model.predicate.tree import leaves
from indextables.model.pruning import may_match
from indextables.model.report import pluralize
from indextables.model.retention import LogInventory, LogObject
from indextables.model.schema import schema_from_json
from indextables.model.snapshot import CommittedVersion, Snapshot
from indextables.splits.format.source import open_source
from indextables.splits.query.to_predicate import predicate_mask
from indextables.splits.read.split_description import describe_split
from indextables.splits.read.table_split import SplitEntry, TableSplit, open_table_split
from indextables.storage.location import partition_values
from indextables.storage.spec import StoreSpec, open_store
from indextables.storage.store import ObjectInfo, Store
from indextables.wire.manifest import decode_file_entries

SPLIT, VERSION, STATE, CHECKPOINT, MANIFEST = "split", "version", "state", "checkpoint", "manifest"
PART, TEMPORARY, OTHER = "checkpoint part", "temporary", "other"
_VERSIONS_AT_ONCE = 256
_SPELLED_OUT = 4
"""Text values of at least this many characters are also searched without quotation marks."""


class MaskedRows(Struct, frozen=True):
    """Deleted rows whose bytes are still in live splits, masked by deletion vectors."""

    splits: int
    rows: int

    @classmethod
    def of(cls, snapshot: Snapshot) -> MaskedRows:
        """Count the masked rows in a snapshot's file list."""
        files = snapshot.files(columns=["deletion_vector", "deleted_records"])
        masked = files.filter(files.column("deletion_vector").is_valid())
        return cls(
            masked.num_rows,
            sum(count or 0 for count in masked.column("deleted_records").to_pylist()),
        )

    def note(self) -> str:
        """Return the note for a report; empty if there are none."""
        if not self.splits:
            return ""
        hold = "holds" if self.splits == 1 else "hold"
        return (
            f" {pluralize(self.splits, 'live split')} still {hold} the bytes of {pluralize(self.rows, 'deleted row')}, which "
            "no purge removes: erase(where=...) rewrites the splits without them."
        )


class Trace(Struct, frozen=True):
    """A file that holds the rows, or that cannot be shown to be free of them."""

    path: str
    kind: str
    size: int
    modified_ms: int | None
    reason: str
    rows: int | None = None
    """Number of the rows, in a readable split."""
    store_url: str = ""
    """The replica of the file; empty for the table itself."""


class RowCondition(Struct, frozen=True):
    """The condition of the rows in physical column names, and how a split of the table is read."""

    where: Predicate
    schema_json: str
    partition_columns: tuple[str, ...]

    @property
    def schema(self) -> pa.Schema:
        """The table's columns."""
        return schema_from_json(self.schema_json)

    @property
    def names_partitions(self) -> bool:
        """Whether the path of a split alone can contain a value of the rows."""
        return bool(set(columns_of(self.where)) & set(self.partition_columns))

    def matches(self, split: TableSplit) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Return which rows of a split match, by comparing values without index and statistics."""
        columns = list(columns_of(self.where)) or split.schema.names[:1]
        masks = [
            predicate_mask(self.where, pa.Table.from_batches([batch]))
            for batch in split.iter_rows(columns=columns)
        ]
        return np.concatenate([np.zeros(0, np.bool_), *masks])

    def may_match(self, files: pa.Table) -> bool:
        """Return whether a split of a file list may hold such rows, by statistics and partition."""
        if not files.num_rows:
            return False
        return bool(
            np.asarray(may_match(self.where, files, partition_columns=self.partition_columns)).any()
        )

    def may_match_partition(
        self, path: str, values: Mapping[str, str | None] | None = None
    ) -> bool:
        """Return whether the partition of a path may hold such rows."""
        known = dict(values) if values else partition_values(path)
        return self.may_match(from_actions([AddAction(path=path, partition_values=known, size=0)]))

    def spellings(self) -> frozenset[str]:
        """Return the spellings of its values in the parameters of a commit."""
        tests = [leaf for leaf in leaves(self.where) if isinstance(leaf, Comparison | In)]
        values = [literal for leaf in leaves(self.where) for literal in _literals(leaf)]
        texts = [literal for literal in values if isinstance(literal.value, str) and literal.value]
        bare = [literal.value for literal in texts if len(literal.value) >= _SPELLED_OUT]
        return frozenset([*map(str, tests), *map(str, texts), *bare])


def _literals(leaf: Predicate) -> Sequence[Literal]:
    if isinstance(leaf, Comparison):
        return [leaf.literal]
    if isinstance(leaf, In):
        return leaf.literals
    if isinstance(leaf, TextMatch):
        return [Literal(leaf.text)]
    if isinstance(leaf, Like):
        return [Literal(leaf.pattern)]
    return []


class SplitScan(Struct, frozen=True):
    """Count the matching rows of one split file, referenced or not; picklable."""

    spec: StoreSpec
    info: ObjectInfo
    condition: RowCondition

    def run(self, *, store: Store | None = None) -> Trace | None:
        """Decode every row of the file. Returns None if none matches or the file is gone."""
        info, split_store = self.info, store or open_store(self.spec)
        try:
            source = open_source(split_store, info.path, size=info.size)
            description = describe_split(source)
            if description.info is None:
                return trace(
                    info, SPLIT, "a split of IndexTables for the JVM, whose bytes are not searched"
                )
            origin, columns = description.origin, self.condition.partition_columns
            if origin is not None:
                values = dict(origin.partition_values)
            else:
                values = partition_values(info.path)
            entry = SplitEntry(info.path, info.size, None, None, values, None, None)
            split = open_table_split(split_store, entry, self.condition.schema, columns)
            rows = int(self.condition.matches(split).sum())
        except NotFoundError:
            return None
        except StorageError:
            raise  # nothing was learned about the file
        except (IndexTablesError, pa.ArrowException) as error:
            return trace(info, SPLIT, f"it cannot be read: {error}")
        if rows:
            return trace(info, SPLIT, f"{pluralize(rows, 'matching row')}", rows=rows)
        return None


def trace(
    info: ObjectInfo | LogObject, kind: str, reason: str, *, rows: int | None = None, url: str = ""
) -> Trace:
    """Return the trace in a listed file."""
    return Trace(info.path, kind, info.size, info.last_modified_ms, reason, rows, url)


class LogScan(Struct, frozen=True, dict=True):
    """Searches the files of a log or of its replica."""

    cleaner: Cleaner
    condition: RowCondition
    holding: frozenset[str]
    """Splits that hold the rows, or held them until they were deleted."""
    clean: frozenset[str]
    """Splits that were read and do not hold them."""
    url: str = ""

    def traces(self) -> Iterator[Trace]:
        """Return every file of the log that holds values of the rows."""
        inventory = self.cleaner.inventory()
        yield from self._versions(inventory)
        entries = {path: self._manifest(file) for path, file in inventory.manifests.items()}
        yield from (found for found in entries.values() if found is not None)
        for version, state in inventory.states.items():
            for file in state.files:
                if (reason := self._state(version, file, state.names, entries)) is not None:
                    yield self._trace(file, STATE, reason)
        yield from self._checkpoints(inventory)
        yield from self._unknown(inventory)

    def _versions(self, inventory: LogInventory) -> Iterator[Trace]:
        files = sorted(inventory.versions.items())
        reader = self.cleaner.bases.versions
        for at in range(0, len(files), _VERSIONS_AT_ONCE):
            batch = files[at : at + _VERSIONS_AT_ONCE]
            listed = [
                (version, ObjectInfo(f.path, f.size, f.last_modified_ms)) for version, f in batch
            ]
            try:
                reasons = [self._in_version(version) for version in reader.read(listed)]
            except (NotFoundError, CorruptTableError, UnsupportedError):
                reasons = [_read(partial(self._in_version_file, one)) for one in listed]
            for (_, file), reason in zip(batch, reasons, strict=True):
                if reason is not None:
                    yield self._trace(file, VERSION, reason)

    def _in_version_file(self, listed: tuple[int, ObjectInfo]) -> str | None:
        return self._in_version(self.cleaner.bases.versions.read([listed])[0])

    def _in_version(self, version: CommittedVersion) -> str | None:
        adds = [action for action in version.actions if isinstance(action, AddAction)]
        if self._lists_rows(from_actions(adds)):
            return "it lists a split with the rows, and its least and greatest values"
        if self.condition.names_partitions and any(
            self._discloses(action) for action in version.actions
        ):
            return "it names the partition of the rows"
        if any(spelling in _words(version.info) for spelling in self._spellings):
            return "its parameters spell a value of the condition"
        return None

    def _discloses(self, action: LogAction) -> bool:
        if not isinstance(action, RemoveAction | SkipAction):
            return False
        return self._may_disclose(action.path, action.partition_values)

    def _may_disclose(self, path: str, values: Mapping[str, str | None] | None) -> bool:
        if path in self.holding or path in self.clean:
            return path in self.holding
        return self.condition.may_match_partition(path, values)

    def _lists_rows(self, files: pa.Table) -> bool:
        paths = files.column("path")
        if any(path in self.holding for path in paths.to_pylist()):
            return True
        unread = pc.invert(pc.is_in(paths, value_set=self._clean_paths))
        return self.condition.may_match(files.filter(unread))

    @cached_property
    def _clean_paths(self) -> pa.Array:
        return pa.array(sorted(self.clean), pa.string())

    @cached_property
    def _spellings(self) -> frozenset[str]:
        return self.condition.spellings()

    def _manifest(self, file: LogObject) -> Trace | None:
        def read() -> str | None:
            entries = decode_file_entries(self.cleaner.store.get(file.path), path=file.path)
            if self._lists_rows(entries):
                return "it lists a split with the rows, and its statistics"
            return None

        reason = _read(read)
        if reason is None:
            return None
        return self._trace(file, MANIFEST, reason)

    def _state(
        self,
        version: int,
        file: LogObject,
        names: frozenset[str] | None,
        entries: Mapping[str, Trace | None],
    ) -> str | None:
        if names is None:
            return "it cannot be read"
        if any(entries.get(name) is not None for name in names):
            return "a manifest that it names lists a split with the rows"
        if not self.condition.names_partitions:
            return None
        info = ObjectInfo(file.path, file.size, file.last_modified_ms)

        def read() -> str | None:
            state = self.cleaner.bases.read_state(version, info)
            gone = [(tombstone.path, None) for tombstone in state.tombstones]
            named = any(self._may_disclose(path, values) for path, values in gone) or any(
                map(self._discloses, state.skips)
            )
            if named:
                return "it names the partition of the rows"
            return None

        return _read(read)

    def _checkpoints(self, inventory: LogInventory) -> Iterator[Trace]:
        for version, checkpoint in inventory.legacy_checkpoints.items():
            main = [
                file
                for file in checkpoint.files
                if log_files.legacy_checkpoint_version_of(file.path) is not None
            ]

            def read(version: int = version, main: Sequence[LogObject] = main) -> str | None:
                file = main[0]
                info = ObjectInfo(file.path, file.size, file.last_modified_ms)
                files = self.cleaner.bases.standalone(version, info).source.files()
                if self._lists_rows(files):
                    return "it lists a split with the rows, and its statistics"
                return None

            reason = _read(read) if main else None
            if reason is not None:
                yield from (self._trace(file, CHECKPOINT, reason) for file in checkpoint.files)
                parts = (
                    inventory.parts[name]
                    for name in checkpoint.names or ()
                    if name in inventory.parts
                )
                yield from (self._trace(file, PART, reason) for file in parts)
        named = {
            name
            for checkpoint in inventory.legacy_checkpoints.values()
            for name in checkpoint.names or ()
        }
        for path, file in inventory.parts.items():
            if path not in named:
                yield self._trace(file, PART, "no checkpoint names it, so that it is not read")

    def _unknown(self, inventory: LogInventory) -> Iterator[Trace]:
        checkpoints = (*inventory.states.values(), *inventory.legacy_checkpoints.values())
        files = (
            *inventory.versions.values(),
            *inventory.manifests.values(),
            *inventory.parts.values(),
        )
        known = {file.path for file in files} | {
            file.path for each in checkpoints for file in each.files
        }
        known |= {log_files.POINTER, log_files.CLOCK}
        for info in self.cleaner.store.list(log_files.LOG):
            if info.path not in known and not _is_checksum(info.path):
                yield self._trace(info, OTHER, "not a file of the log, so that it is not read")

    def _trace(self, file: LogObject | ObjectInfo, kind: str, reason: str) -> Trace:
        return trace(file, kind, reason, url=self.url)


def _read(search: Callable[[], str | None]) -> str | None:
    """Search one file. An unreadable file is a trace, a deleted one is not."""
    try:
        return search()
    except NotFoundError:
        return None
    except StorageError:
        raise  # nothing was learned about the file
    except (IndexTablesError, pa.ArrowException) as error:
        return f"it cannot be read: {error}"


def _words(info: CommitInfo) -> str:
    return " ".join(
        [*map(str, (info.operation_parameters or {}).values()), info.user_metadata or ""]
    )


def _is_checksum(path: str) -> bool:
    return path.rpartition("/")[2].startswith(".") and path.endswith(".crc")


def outside_the_log(
    objects: Iterable[ObjectInfo], unfinished: Iterable[ObjectInfo]
) -> Iterator[Trace]:
    """Return files next to the splits that are not splits: temporary and unknown files."""
    for info in unfinished:
        yield trace(info, TEMPORARY, "a writer has not finished it, so that it is not read")
    for info in objects:
        own = info.path.startswith((f"{log_files.LOG}/", f"{VECTOR_FOLDER}/"))
        if not own and not info.path.endswith(".split") and not _is_checksum(info.path):
            yield trace(info, OTHER, "not a file of the table, so that it is not read")

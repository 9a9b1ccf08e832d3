"""Make and follow companions: indexes of Delta tables and Parquet folders that stay where they are.

`sync` compares the files that splits index with the files of the newest version of the source. New
files are indexed in groups, each a split, committed some at a time: every commit is right alone,
because searches scan what no split indexes. Splits of files that the source has removed stay as long
as an older version of the source may need them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from indextables import config
from indextables.companion.companion_definition import (
    FORMATS,
    CompanionDefinition,
    check_named_columns,
    doc_mapping,
    metadata_with,
    shown_configuration,
)
from indextables.companion.parquet_folder import files_digest
from indextables.companion.source_snapshot import LATEST, FileKey, ListedFile, SourceSnapshot
from indextables.companion.view import (
    IndexedSplit,
    covered_files,
    indexed_splits,
    live_rows,
    open_source_adapter,
    read_source,
    restrict,
)
from indextables.config.companion import CompanionSettings
from indextables.config.splits import SplitWriterSettings, StatsSettings
from indextables.config.upkeep import MergeSettings
from indextables.errors import ConflictError, InvalidInputError, RefusedError, TableNotFoundError
from indextables.handle import ENGINE_INFO, TableHandle, open_handle, open_log
from indextables.log.create import FirstVersion, create_table
from indextables.log.transaction import Changes
from indextables.log.transaction_log import TransactionLog
from indextables.model import protocol as protocols
from indextables.model.actions import AddAction, MetadataAction
from indextables.model.arguments import names_list, text
from indextables.model.conflicts import Operation
from indextables.model.report import Progress, Report, silent
from indextables.model.snapshot import Snapshot
from indextables.model.source_file import (
    IDENTITIES_TAG,
    TYPES_TAG,
    SourceFile,
    encode_identities,
    encode_types,
)
from indextables.operations import definition as definitions
from indextables.operations.jobs import Execute, in_threads
from indextables.splits.index.table_schema import TableSchema
from indextables.splits.read.cache import SplitCache
from indextables.splits.read.companion_split import SourceFolder
from indextables.splits.read.source_bytes import SourceBytes
from indextables.splits.read.source_rows import SourceParquet
from indextables.splits.write.companion_writer import build_companion_split
from indextables.splits.write.writer import new_split_name, split_path
from indextables.storage.spec import StoreSpec, open_store, open_table_store
from indextables.storage.store import Store

_TRIES = 5
_GROUPS_AT_ONCE = 8
"""Number of groups whose splits are committed together."""


class CompanionRequest(Struct, frozen=True):
    """What `Table.companion` was called with."""

    source: str
    format: str | None = None
    text: Sequence[str] = ()
    include: Sequence[str] = ()
    exclude: Sequence[str] = ()
    where: str | None = None
    options: Mapping[str, object] | None = None


class SyncReport(Report, frozen=True):
    """What a sync did, or would do."""

    path: str
    source: str
    source_version: str
    status: str
    files_indexed: int
    """Files of the source that the sync indexed."""
    rows_indexed: int
    splits_created: int
    splits_removed: int
    files_gone: int
    """Indexed files that the newest version of the source does not have."""
    files_waiting: int
    """Files that are too young to be indexed; they are scanned."""
    version: int | None
    """The version of the companion that the sync committed; None if there was nothing to do."""


class SourceStatus(Report, frozen=True):
    """How far a companion follows its source."""

    path: str
    source: str
    format: str
    source_version: str
    """The newest version of the source."""
    synced_version: str
    versions_behind: int | None
    """Versions of the source since the last sync; None for a folder, which does not count them."""
    files: int
    files_unindexed: int
    rows: int
    rows_unindexed: int
    rows_masked: int
    """Indexed rows that the newest version of the source does not have."""
    splits: int
    splits_without_source: int
    """Splits of which the newest version of the source has no row."""


def companion(path: str, request: CompanionRequest) -> TableHandle:
    """Create a companion, or open the one that is at the path. See `Table.companion`."""
    log = open_log(path, request.options)
    try:
        existing = log.newest()
    except TableNotFoundError:
        return _create(log, request)
    return _open_existing(log, existing, request)


def _create(log: TransactionLog, request: CompanionRequest) -> TableHandle:
    settings = config.resolve(options=request.options)
    where_source = _source_url(request.source, settings, log.store.url)
    source_format = _format_of(request, where_source, settings)
    empty = CompanionDefinition(format=source_format, source=where_source)
    adapter = open_source_adapter(empty, None, settings, now_ms=log.now_ms())
    source = adapter.read(LATEST, known={})
    names = source.names
    logical_partitions = [names.logical_name(name) for name in source.partition_columns]
    text_columns = names_list("text", request.text)
    include, exclude = (
        names_list("include", request.include),
        names_list("exclude", request.exclude),
    )
    for argument, columns in (("text", text_columns), ("include", include), ("exclude", exclude)):
        check_named_columns(names.logical, argument, columns)
    if request.where is not None:
        restrict(source, text("where", request.where))
    options = definitions.index_options(request.options, names.logical, text=text_columns)
    metadata = definitions.new_metadata(
        names.logical,
        logical_partitions,
        options,
        table_id=log.new_id(),
        created_time=log.now_ms(),
    )
    defined = replace(
        empty,
        source_id=source.source_id,
        include=tuple(include),
        exclude=tuple(exclude),
        where=request.where or "",
    ).with_columns(names)
    metadata = metadata_with(metadata, defined, source.schema_json, source.partition_columns)
    _check_indexes_something(metadata, defined, source)
    snapshot = create_table(
        log,
        metadata,
        exist_ok=False,
        engine_info=ENGINE_INFO,
        first=FirstVersion(protocol=protocols.COMPANION_PROTOCOL),
    )
    return open_handle(log, snapshot, request.options)


def _source_url(source: object, settings: config.Settings, path: str) -> str:
    url = StoreSpec.from_url(text("source", source), settings).url
    own, other = f"{path.rstrip('/')}/", f"{url.rstrip('/')}/"
    if own.startswith(other) or other.startswith(own):
        raise InvalidInputError(
            f"The companion {path} and its source {url} must not lie in one another: the program "
            "that cleans one would delete the other.",
            hint="Choose another folder for the companion.",
            path=path,
        )
    return url


def _format_of(request: CompanionRequest, url: str, settings: config.Settings) -> str:
    if request.format is not None:
        word = text("format", request.format).lower()
        if word not in FORMATS:
            raise InvalidInputError(
                f"format={request.format!r} is not a format of a source.",
                hint=f"Formats: {', '.join(FORMATS)}.",
                format=request.format,
            )
        return word
    store = open_store(StoreSpec.from_url(url, settings))
    if next(iter(store.list("_delta_log")), None) is not None:
        return "delta"
    return "parquet"


def _check_indexes_something(
    metadata: MetadataAction, defined: CompanionDefinition, source: SourceSnapshot
) -> None:
    columns = TableSchema(source.names.physical, source.partition_columns)
    shown = shown_configuration(metadata, defined, source.names, source.partition_columns)
    if not doc_mapping(columns, shown).indexed:
        raise InvalidInputError(
            f"No column of {defined.source} would be indexed: there is no text or nested column, or "
            "all of them are left out.",
            hint="Name a text column in include=, or leave it out of exclude=.",
            path=defined.source,
        )


def _open_existing(
    log: TransactionLog, existing: Snapshot, request: CompanionRequest
) -> TableHandle:
    """Open a companion that must be the one that the request describes."""
    found = CompanionDefinition.of(existing.metadata)
    if found is None:
        raise RefusedError(
            f"{log.store.url} is a table with rows of its own, not a companion.",
            hint="Choose another path.",
            path=log.store.url,
        )
    settings = config.resolve(options=request.options)
    wanted = {
        "source": (_source_url(request.source, settings, log.store.url), found.source),
        "format": (request.format or found.format, found.format),
        "include": (tuple(request.include) or found.include, found.include),
        "exclude": (tuple(request.exclude) or found.exclude, found.exclude),
        "where": (found.where if request.where is None else request.where, found.where),
    }
    for argument, (given, recorded) in wanted.items():
        if given != recorded:
            raise InvalidInputError(
                f"The companion {log.store.url} has {argument}={recorded!r}, not {given!r}.",
                hint="Open it with Table.open(path), or make another one at another path.",
                path=log.store.url,
            )
    recorded_kinds = existing.metadata.configuration or {}
    for name in names_list("text", request.text):
        kind = recorded_kinds.get(f"indexing.typemap.{name}", "string")
        if not kind.startswith("text"):
            raise InvalidInputError(
                f"The companion {log.store.url} indexes {name!r} as {kind}, not as text.",
                hint="Make another companion at another path.",
                column=name,
            )
    return open_handle(log, existing, request.options)


class SyncTask(Struct, frozen=True):
    """A group of files of one partition that become one split. Picklable."""

    spec: StoreSpec
    folder: SourceFolder
    source_format: str
    source_id: str
    source_version: str
    files: tuple[SourceFile, ...]
    partition_values: dict[str, str | None]
    schema_json: str
    partition_columns: tuple[str, ...]
    splits: SplitWriterSettings
    stats: StatsSettings
    now_ms: int

    def run(self, *, store: Store | None = None) -> AddAction:
        """Build the split and upload it."""
        own = store or open_table_store(self.spec)
        source, cache = self.folder.open(), SplitCache.default()
        schema = TableSchema(
            SourceSnapshot("", "", self.schema_json, (), ()).names.physical, self.partition_columns
        ).stored
        files = [
            (
                file,
                SourceParquet(
                    SourceBytes(source, file.path, file.size, file.stamp), schema, cache, file.rows
                ),
            )
            for file in self.files
        ]
        with build_companion_split(
            files,
            schema,
            self.folder.mapping,
            source_format=self.source_format,
            source_id=self.source_id,
            settings=self.splits,
            stats=self.stats,
        ) as split:
            path = split_path(self.partition_values, new_split_name())
            action = split.add_action(
                path, partition_values=self.partition_values, modification_time=self.now_ms
            )
            own.put_file(path, split.path)
        bounded = {*(action.min_values or {}), *(action.max_values or {})}
        types = {name: str(schema.field(name).type) for name in sorted(bounded)}
        return replace(
            action,
            companion_source_files=tuple(file.path for file in self.files),
            companion_delta_version=int(self.source_version)
            if self.source_version.isdecimal()
            else None,
            tags={IDENTITIES_TAG: encode_identities(self.files), TYPES_TAG: encode_types(types)},
        )


class SyncPlan(Struct, frozen=True):
    """What a sync has to do for one version of the source."""

    definition: CompanionDefinition
    recorded: Snapshot
    source: SourceSnapshot
    tasks: tuple[SyncTask, ...]
    removed: tuple[IndexedSplit, ...]
    """Splits that leave the companion: of a folder, those of which no file is left; of any source,
    those that are mostly gone and indexed again.
    """
    gone: int
    waiting: int

    @property
    def synced_definition(self) -> CompanionDefinition:
        """The definition after the sync."""
        defined = self.definition.with_columns(self.source.names)
        if self.source.number is not None:
            version = self.source.version
        else:
            files = [f for f in self.source.files if f.is_settled or f.key in self._covered_files]
            version = files_digest([f.key for f in files if f.rows])
        return replace(defined, synced_version=version)

    @property
    def _covered_files(self) -> set[FileKey]:
        return covered_files(indexed_splits(self.recorded))

    @property
    def has_news(self) -> bool:
        """Whether the companion has to change."""
        new = self.synced_definition
        same_schema = self.recorded.metadata.schema_string == self.source.schema_json
        return bool(self.tasks or self.removed) or new != self.definition or not same_schema


def sync(
    table: TableHandle,
    *,
    dry_run: bool,
    progress: Progress = silent,
    execute: Execute[SyncTask, AddAction] | None = None,
) -> SyncReport:
    """Index the files that the source has and the companion does not. See `Table.sync`."""
    _require_companion(table)
    table.check_maintainable()
    for attempt in range(_TRIES):
        plan = plan_sync(table)
        if dry_run or not plan.has_news:
            return _report(table, plan, "dry_run" if dry_run else "no_action", None)
        try:
            version = _run(table, plan, progress, execute)
        except ConflictError:
            if attempt == _TRIES - 1:
                raise
            continue
        return table.show_newest_after(_report(table, plan, "success", version))
    raise AssertionError("the last attempt returns or raises")


def _require_companion(table: TableHandle) -> CompanionDefinition:
    found = CompanionDefinition.of(table.log_handle().snapshot.metadata)
    if found is None:
        raise RefusedError(
            f"{table.path} has rows of its own and follows no source.",
            hint="Make a companion with Table.companion(path, source=...).",
            path=table.path,
        )
    return found


def plan_sync(table: TableHandle) -> SyncPlan:
    """Compare the newest version of the source with the files that splits index."""
    log = table.log
    recorded = log.newest_writable()
    defined = CompanionDefinition.of(recorded.metadata)
    assert defined is not None, "a companion never becomes another table"
    settings = TableHandle(log, recorded, table.options).physical_settings
    source = read_source(defined, recorded, settings, at=LATEST, now_ms=log.now_ms())
    splits = indexed_splits(recorded)
    live = {file.key: file for file in source.files}
    kept, removed, gone = _keep_splits(splits, live, source)
    covered = covered_files(kept)
    new = [f for f in source.files if f.rows and f.key not in covered]
    ready = [file for file in new if file.is_settled]
    columns = TableSchema(source.names.physical, source.partition_columns)
    shown = shown_configuration(
        recorded.metadata,
        defined.with_columns(source.names),
        source.names,
        source.partition_columns,
    )
    folder = SourceFolder(
        StoreSpec.from_url(defined.source, settings), doc_mapping(columns, shown).to_json()
    )
    tasks = [
        SyncTask(
            spec=StoreSpec.from_url(table.path, settings),
            folder=folder,
            source_format=defined.format,
            source_id=source.source_id,
            source_version=source.version,
            files=tuple(file.to_source_file() for file in group),
            partition_values=dict(group[0].partition_values),
            schema_json=source.schema_json,
            partition_columns=source.partition_columns,
            splits=settings.group(SplitWriterSettings),
            stats=settings.group(StatsSettings),
            now_ms=log.now_ms(),
        )
        for group in _groups(ready, settings.group(CompanionSettings).target_input_bytes)
    ]
    return SyncPlan(
        defined, recorded, source, tuple(tasks), tuple(removed), gone, len(new) - len(ready)
    )


def _keep_splits(
    splits: Sequence[IndexedSplit], live: Mapping[FileKey, ListedFile], source: SourceSnapshot
) -> tuple[list[IndexedSplit], list[IndexedSplit], int]:
    """Return the splits that stay, those that leave, and the number of indexed files that are
    gone.

    A split of a table with versions stays when its files leave the newest version: an older version
    may be read. One that is half alive is indexed again from its living files.
    """
    taken: set[FileKey] = set()
    kept, removed, gone = [], [], 0
    for split in splits:
        before = len(taken)
        dead, total = len(live_rows(split, live, taken)), sum(f.rows for f in split.files)
        gone += len(split.files) - (len(taken) - before)
        is_dead = dead == total
        is_mostly_dead = not is_dead and 2 * dead > total and len(split.files) > 1
        if (is_dead and source.number is None) or is_mostly_dead:
            removed.append(split)
        else:
            kept.append(split)
    return kept, removed, gone


def _groups(files: Sequence[ListedFile], target_bytes: int) -> Iterator[list[ListedFile]]:
    """Yield files of one partition and up to a size, in the order of the source."""
    by_partition: dict[tuple[tuple[str, str | None], ...], list[ListedFile]] = {}
    for file in files:
        by_partition.setdefault(tuple(sorted(file.partition_values.items())), []).append(file)
    for several in by_partition.values():
        group: list[ListedFile] = []
        size = 0
        for file in several:
            if group and size + file.size > target_bytes:
                yield group
                group, size = [], 0
            group.append(file)
            size += file.size
        yield group


def _run(
    table: TableHandle,
    plan: SyncPlan,
    progress: Progress,
    execute: Execute[SyncTask, AddAction] | None,
) -> int | None:
    """Build the splits and commit them, some at a time; the last commit records the version."""
    log, read, done = table.log, plan.recorded, 0
    parallelism = table.settings.group(MergeSettings).parallelism
    run = execute or in_threads(log.store, parallelism=parallelism)
    waves = [
        plan.tasks[start : start + _GROUPS_AT_ONCE]
        for start in range(0, len(plan.tasks), _GROUPS_AT_ONCE)
    ] or [()]
    version = None
    syncs = plan.definition.syncs
    for number, wave in enumerate(waves):
        is_last = number == len(waves) - 1
        added: list[AddAction] = []
        try:
            for action in run(wave):
                added.append(action)
                done += 1
                progress(done, len(plan.tasks), "splits")
        except BaseException:
            log.discard([action.path for action in added], since=read.version)
            raise
        syncs += 1
        defined = (
            plan.synced_definition if is_last else plan.definition.with_columns(plan.source.names)
        )
        metadata = metadata_with(
            read.metadata,
            replace(defined, syncs=syncs),
            plan.source.schema_json,
            plan.source.partition_columns,
        )
        changes = Changes(
            Operation.SYNC,
            adds=tuple(added),
            removes=tuple(split.action.path for split in plan.removed) if is_last else (),
            removes_change_data=False,
            metadata=metadata,
            parameters={"sourceVersion": plan.source.version},
            engine_info=ENGINE_INFO,
        )
        committed = log.commit(read, changes, written=[action.path for action in added])
        read, version = committed.snapshot, committed.version
    return version


def _report(table: TableHandle, plan: SyncPlan, status: str, version: int | None) -> SyncReport:
    files = [file for task in plan.tasks for file in task.files]
    return SyncReport(
        path=table.path,
        source=plan.definition.source,
        source_version=plan.source.version,
        status=status,
        files_indexed=len(files),
        rows_indexed=sum(file.rows for file in files),
        splits_created=len(plan.tasks),
        splits_removed=len(plan.removed),
        files_gone=plan.gone,
        files_waiting=plan.waiting,
        version=version,
    )


def source_status(table: TableHandle) -> SourceStatus:
    """Report how far a companion follows its source. See `Table.source_status`."""
    defined = _require_companion(table)
    recorded = table.log.newest()
    settings = TableHandle(table.log, recorded, table.options).physical_settings
    defined = CompanionDefinition.of(recorded.metadata) or defined
    source = read_source(defined, recorded, settings, at=LATEST, now_ms=table.log.now_ms())
    splits, live = indexed_splits(recorded), {file.key: file for file in source.files}
    taken: set[FileKey] = set()
    masked = without = 0
    for split in splits:
        dead, total = len(live_rows(split, live, taken)), sum(f.rows for f in split.files)
        masked += dead
        without += dead == total
    unindexed = [file for file in source.files if file.rows and file.key not in taken]
    behind = None
    if source.number is not None:
        synced = int(defined.synced_version) if defined.synced_version else -1
        behind = source.number - synced
    return SourceStatus(
        path=table.path,
        source=defined.source,
        format=defined.format,
        source_version=source.version,
        synced_version=defined.synced_version,
        versions_behind=behind,
        files=len(source.files),
        files_unindexed=len(unindexed),
        rows=sum(file.living for file in source.files),
        rows_unindexed=sum(file.living for file in unindexed),
        rows_masked=masked,
        splits=len(splits),
        splits_without_source=without,
    )

"""The verbs of the log: what is in the table, what happened to it, and the low-level door for changing it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import msgspec
import pyarrow as pa

from indextables import config
from indextables.config.log import SkipSettings
from indextables.log import history as log_history
from indextables.log.cache import CacheStats
from indextables.log.checkpoint.state_files import pruned_files
from indextables.log.create import create_table
from indextables.log.history import log_action_rows
from indextables.log.transaction import Changes, Transaction, accepted
from indextables.model import protocol as protocols
from indextables.model.actions import MetadataAction
from indextables.model.arguments import transaction_id, unexpected, whole_number
from indextables.model.conflicts import Operation, layout
from indextables.model.schema import check_partition_columns, check_schema, normalize, schema_to_json
from indextables.model.skips import skipped_table
from indextables.table.handle import ENGINE_INFO, open_log
from indextables.table.indexing_check import check_indexing, check_same_index
from indextables.table.opening import OpenVerbs
from indextables.table.predicates import Where, bound_predicate

T = TypeVar("T", bound="LogVerbs")


def new_metadata(
    schema: pa.Schema,
    partition_columns: Sequence[str],
    options: Mapping[str, object] | None,
    *,
    table_id: str,
    created_time: int,
    name: str | None = None,
    description: str | None = None,
) -> MetadataAction:
    """The metadata of a new table: its columns and settings, checked."""
    columns = normalize(schema)
    check_schema(columns)
    partitions = check_partition_columns(columns, tuple(partition_columns))
    configuration = config.table_configuration(options or {})
    check_indexing(columns, partitions, configuration)
    return MetadataAction(
        id=table_id,
        name=name,
        description=description,
        schema_string=schema_to_json(columns),
        partition_columns=partitions,
        configuration=configuration,
        created_time=created_time,
    )


class LogVerbs(OpenVerbs):
    """Creating, listing, history and transactions."""

    @classmethod
    def create(
        cls: type[T],
        path: str,
        *,
        schema: pa.Schema,
        partition_columns: list[str] | tuple[str, ...] = (),
        options: Mapping[str, object] | None = None,
        exist_ok: bool = False,
        name: str | None = None,
        description: str | None = None,
    ) -> T:
        """Create a table. Options that a table may carry are kept in its metadata; the others hold for this handle only."""
        if not isinstance(schema, pa.Schema):
            hint = 'Write it as pyarrow.schema([("id", pyarrow.int64()), ("message", pyarrow.string())]).'
            raise unexpected("schema", "a pyarrow.Schema", schema, hint=hint)
        log = open_log(path, options)
        metadata = new_metadata(
            schema,
            partition_columns,
            options,
            table_id=log.new_id(),
            created_time=log.now_ms(),
            name=name,
            description=description,
        )
        return cls(log, create_table(log, metadata, exist_ok=exist_ok, engine_info=ENGINE_INFO), options)

    def files(self, *, where: Where | None = None) -> pa.Table:
        """The live splits: path, partition values, size, records, statistics, the version that added each.

        With `where` only those that may hold a matching row, by their partition values and their column bounds.
        """
        bound = bound_predicate(where, self.schema)
        return pruned_files(self._snapshot, bound) if bound is not None else self._snapshot.all_files

    def history(self, *, limit: int | None = None) -> pa.Table:
        """What was committed, newest first, and which versions can still be read."""
        return log_history.history(self._log, limit=None if limit is None else whole_number("limit", limit))

    def log_actions(self, *, include_all: bool = False) -> pa.Table:
        """What the log's files say, a row per action: since the newest checkpoint, or everything that is left."""
        return log_action_rows(self._log, include_all=include_all)

    def skipped_files(self) -> pa.Table:
        """Splits that an operation could not process: why, how often, and until when they are left alone."""
        return skipped_table(self._snapshot.header.skips, now_ms=self._log.now_ms())

    def transaction(
        self,
        *,
        operation: str = Operation.APPEND,
        user_metadata: str | None = None,
        txn: tuple[str, int] | None = None,
    ) -> Transaction:
        """The low-level door: `with t.transaction() as tx: tx.add(...); tx.remove(...)`, committed as one version.

        `txn=(app_id, version)` makes it exactly-once: a version at or below the recorded one is skipped.
        """
        changes = Changes(
            operation=str(operation),
            revives=True,
            txn=transaction_id(txn),
            user_metadata=user_metadata,
            engine_info=ENGINE_INFO,
        )
        cooldown = self.settings.group(SkipSettings).cooldown_hours
        accept = partial(accepted, root=self.path, partition_columns=self.partition_columns)
        return Transaction(changes, self._commit, accept=accept, cooldown_hours=cooldown)

    def update_metadata(
        self,
        *,
        name: str | None = None,
        description: str | None = None,
        options: Mapping[str, object] | None = None,
        unset: tuple[str, ...] = (),
    ) -> int | None:
        """Change name, description or configuration; `unset` names settings to drop. Returns the new version."""
        old = self.metadata
        config.refuse_settings_of_callers(options or {})
        kept = {k: v for k, v in (old.configuration or {}).items() if not {k, config.bare_key(k)} & {*unset}}
        changed = msgspec.structs.replace(
            old,
            name=old.name if name is None else name,
            description=old.description if description is None else description,
            configuration={**kept, **config.table_configuration(options or {})},
        )
        if changed == old:
            return None
        after = changed.configuration or {}
        check_indexing(self.schema, self.partition_columns, after)
        if self._snapshot.all_files.num_rows:
            check_same_index(self.schema, self.partition_columns, self._indexing, after)
        reindexes = layout(changed) != layout(old)
        return self._commit(Changes(Operation.METADATA, metadata=changed, reindexes=reindexes, engine_info=ENGINE_INFO))

    def upgrade_protocol(
        self, *, min_reader_version: int, min_writer_version: int, features: tuple[str, ...] = ()
    ) -> int | None:
        """Raise the protocol; it is never lowered. Returns the new version, or None if nothing changed."""
        raised = protocols.upgraded(
            self.protocol,
            min_reader_version=min_reader_version,
            min_writer_version=min_writer_version,
            features=features,
        )
        if raised == self.protocol:
            return None
        return self._commit(Changes(Operation.PROTOCOL, protocol=raised, engine_info=ENGINE_INFO))

    def cache_stats(self) -> CacheStats:
        """What the process remembers of this table's log, and how often that helped."""
        return self._log.cache_stats()

    def invalidate_cache(self) -> dict[str, Any]:
        """Forget what is remembered of this table's log; returns the figures from before."""
        before = self._log.cache_stats().to_dict()
        self._log.invalidate_cache()
        return before

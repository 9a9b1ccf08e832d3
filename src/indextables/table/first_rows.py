"""A table that is made for rows: it comes to be only when all of them were read and written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from indextables import config
from indextables.log.create import create_table
from indextables.model.conflicts import Operation
from indextables.storage.spec import StoreSpec
from indextables.table.handle import ENGINE_INFO, open_log
from indextables.table.log_verbs import new_metadata
from indextables.table.whole import Table
from indextables.write.incoming import incoming
from indextables.write.plan import plan_write
from indextables.write.row_write import RowWrite


def create_with_rows(
    path: str,
    data: Any,
    *,
    partition_columns: Sequence[str] = (),
    options: Mapping[str, object] | None = None,
    user_metadata: str | None = None,
) -> tuple[Table, int | None]:
    """Create a table (version 0) and append its first rows (version 1, None for no rows).

    The rows are written before the table is created: if they cannot be, there is no table.
    """
    log, rows = open_log(path, options), incoming(data)
    metadata = new_metadata(rows.schema, partition_columns, options, created_time=log.now_ms())
    settings = config.resolve(options=options, table=metadata.configuration)
    recorded = config.resolve(table=metadata.configuration)
    spec = StoreSpec.from_url(log.store.url, settings)
    write = RowWrite(plan_write(spec, metadata, rows.schema, recorded=recorded, settings=settings), 0, Operation.APPEND)
    added = write.run(rows.batches, store=log.store)
    try:
        table = Table(log, create_table(log, metadata, exist_ok=False, engine_info=ENGINE_INFO), options)
    except BaseException:
        # Whether or not version 0 is there, it does not name these splits.
        log.store.delete([action.path for action in added])
        raise
    return table, table.finish_write(write, added, user_metadata=user_metadata)

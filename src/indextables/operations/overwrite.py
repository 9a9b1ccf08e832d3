"""`Table.overwrite`: replace all rows, those that match a condition, or those of the partitions of
the new rows.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from indextables.handle import TableHandle
from indextables.model.conflicts import Operation
from indextables.operations.table_write import write_rows
from indextables.operations.write_request import WriteRequest


def overwrite(table: TableHandle, data: Any, request: WriteRequest) -> int | None:
    """Replace rows. Return the version, None if there was nothing to do."""
    replaces_part = request.where is not None or request.dynamic_partitions
    if replaces_part:
        operation = Operation.REPLACE_WHERE
    else:
        operation = Operation.OVERWRITE
    return write_rows(table, data, replace(request, operation=operation))

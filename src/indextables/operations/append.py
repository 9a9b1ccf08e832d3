"""`Table.append`: add rows, in one version."""

from __future__ import annotations

from typing import Any

from indextables.handle import TableHandle
from indextables.model.arguments import transaction_id
from indextables.operations.table_write import write_rows
from indextables.operations.write_request import WriteRequest


def append(table: TableHandle, data: Any, request: WriteRequest) -> int | None:
    """Append rows. Return the version, None if there were none or the transaction was committed
    before.
    """
    transaction_id(request.txn)  # a wrong id is refused before a row is read
    return write_rows(table, data, request)

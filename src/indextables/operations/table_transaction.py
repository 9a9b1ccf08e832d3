"""`Table.transaction`: collect actions and commit them as one version."""

from __future__ import annotations

from functools import partial

from indextables.errors import InvalidInputError
from indextables.handle import ENGINE_INFO, TableHandle
from indextables.log.transaction import Changes, Transaction, accept_split
from indextables.model.arguments import transaction_id
from indextables.model.deletion_vector import named_paths
from indextables.operations.restore import stored_sizes


def begin_transaction(
    table: TableHandle,
    *,
    operation: str,
    user_metadata: str | None,
    txn: tuple[str, int] | None,
    check_splits: bool,
) -> Transaction:
    """Return a transaction that commits to the table when its `with` block ends. See
    `Table.transaction`.
    """
    changes = Changes(
        operation=str(operation),
        revives=True,
        txn=transaction_id(txn),
        user_metadata=user_metadata,
        engine_info=ENGINE_INFO,
    )
    return Transaction(
        changes,
        partial(_commit_existing, table) if check_splits else table.commit,
        accept=partial(accept_split, root=table.path, partition_columns=table.partition_columns),
        cooldown_hours=table.skip_settings.cooldown_hours,
    )


def _commit_existing(table: TableHandle, changes: Changes) -> int | None:
    """Commit if every added split exists with its recorded size."""
    sizes = dict.fromkeys(named_paths(changes.adds)) | {
        action.path: action.size for action in changes.adds
    }
    stored = stored_sizes(table.log.store, sizes)
    wrong = next(
        (path for path, size in sizes.items() if size not in (None, stored.get(path))), None
    )
    wrong = wrong or next((path for path in sizes if path not in stored), None)
    # A transaction that was committed before is skipped, wherever its splits are by now.
    if wrong is not None and not (changes.txn and changes.is_recorded(table.log.fresh())):
        if wrong in stored:
            what = f"has {stored[wrong]} bytes and not {sizes[wrong]}"
        else:
            what = "is not there"
        raise InvalidInputError(
            f"{wrong} cannot be added to {table.path}: it {what}.",
            hint="Write the file before the transaction is committed; transaction(check_splits=False) commits the "
            "actions unchecked. Nothing was changed.",
            path=wrong,
        )
    return table.commit(changes)

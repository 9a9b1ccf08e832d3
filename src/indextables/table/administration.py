"""`table.admin`: what an operator does to the log of a table now and then, by hand and knowing why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec.structs import replace

from indextables.config.log import SkipSettings
from indextables.errors import InvalidInputError, RefusedError
from indextables.handle import ENGINE_INFO, TableHandle, log_settings
from indextables.log.checkpoint.state_writer import Compact
from indextables.log.transaction import Changes, SkipRequest
from indextables.model import protocol as protocols
from indextables.model.actions import ProtocolAction
from indextables.model.arguments import number, text, whole_number
from indextables.model.calls import checked_calls
from indextables.model.conflicts import Operation
from indextables.model.report import Report

if TYPE_CHECKING:
    from indextables.log.checkpoint.checkpointer import CheckpointReport


_OLD_FORMS = {"state.format": "json"}
_OLDEST_FORMS = {
    **_OLD_FORMS,
    "checkpoint.json.layout": "object",
    "transaction.compression.enabled": "false",
}
"""What a table carries that readers of version 2 shall go on reading: nothing of a newer form is
written to it.
"""


class DowngradeReport(Report, frozen=True):
    """What was written so that older engines open the table."""

    table_path: str
    version: int
    from_protocol: str
    to_protocol: int
    features_dropped: tuple[str, ...]
    checkpoint_format: str
    num_files: int


@checked_calls
class Administration:
    """What an operator can do to the log of a table."""

    def __init__(self, table: TableHandle) -> None:
        self.table = table

    def record_skipped_file(
        self,
        path: str,
        reason: str,
        operation: str = "merge",
        *,
        partition_values: Mapping[str, str] | None = None,
        size: int | None = None,
        cooldown_hours: float | None = None,
    ) -> int:
        """Record that an `operation` could not process the split at `path`, for a `reason`; returns
        the version.

        The split stays in the table and is readable; merges leave it alone for `cooldown_hours`
        (24, by the setting `skippedFiles.cooldownDuration`). `partition_values` and `size` are the
        table's own where they are not given. The count of its skips grows by one. Raises
        InvalidInputError for a path that is no split of the table.

            t.admin.record_skipped_file("splits/split-1.split", "the footer cannot be read")
        """
        table = self.table
        table.check_writable()
        live = table.log.newest_writable().files(columns=["path"]).column("path").to_pylist()
        if text("path", path) not in live:
            hint = "t.files() lists the splits; paths are relative to the table."
            raise InvalidInputError(f"{path} is no split of {table.path}.", hint=hint, path=path)
        if cooldown_hours is None:
            hours = table.settings.group(SkipSettings).cooldown_hours
        else:
            hours = cooldown_hours
        request = SkipRequest(
            path,
            text("reason", reason),
            text("operation", operation),
            number("cooldown_hours", hours, "hours"),
            partition_values,
            None if size is None else whole_number("size", size),
        )
        version = table.commit(Changes(Operation.SKIP, skips=(request,), engine_info=ENGINE_INFO))
        assert version is not None
        return version

    def downgrade_protocol(self, *, to: int, log_only: bool = False) -> DowngradeReport:
        """Write the protocol back to version 2 or 3 (`to`) and a JSON checkpoint, so that an older
        engine opens the table.

        For emergencies: the older engine may then write to the table, and knows nothing of what
        newer versions protect. RefusedError lists the features in use that it could not handle.
        Splits that this package wrote are such a one: with `log_only` they are left where they are,
        and the older engine reads the log, the schema and the list of files, but not the rows of
        those splits. From then on the table carries settings by which only older forms are written
        to it; `upgrade_protocol` and `update_metadata(unset=...)` lead back.

            t.admin.downgrade_protocol(to=3, log_only=True)
        """
        table = self.table
        table.check_writable()
        if to not in (2, 3):
            raise InvalidInputError(
                f"A protocol can be written back to 2 or 3, not to {to!r}.", to=to
            )
        snapshot = table.log.newest_writable()
        table.show(snapshot)
        old = snapshot.header.protocol
        if max(old.min_reader_version, old.min_writer_version) <= to:
            raise InvalidInputError(
                f"{table.path} has protocol {_versions(old)} already.", hint="Nothing was changed."
            )
        used = protocols.newer_than(old, to, files=snapshot.files(columns=["path"]).num_rows)
        blocking = [
            feature for feature in used if not (log_only and feature == protocols.PARQUET_SPLITS)
        ]
        if blocking:
            raise RefusedError(
                f"{table.path} uses what protocol {to} does not know: {', '.join(blocking)}.",
                hint="Nothing was changed. Splits of this package (parquetSplits) can be left unread by the older engine "
                "with log_only=True; what else is listed must be undone first.",
                path=table.path,
                features=blocking,
            )
        lowered = protocols.lower_protocol(old, to)
        configuration = {
            **(snapshot.metadata.configuration or {}),
            **(_OLD_FORMS if to == 3 else _OLDEST_FORMS),
        }
        metadata = replace(snapshot.metadata, configuration=configuration)
        changes = Changes(
            Operation.DOWNGRADE, protocol=lowered, metadata=metadata, engine_info=ENGINE_INFO
        )
        committed = table.log.commit(snapshot, changes, keep_up=False)
        table.show(committed.snapshot)
        report = self._checkpoint()
        gone = {*(old.reader_features or ())} - {*(lowered.reader_features or ())}
        return DowngradeReport(
            table_path=table.path,
            version=report.version,
            from_protocol=_versions(old),
            to_protocol=to,
            features_dropped=tuple(sorted(gone)),
            checkpoint_format=report.format,
            num_files=report.num_files,
        )

    def _checkpoint(self) -> CheckpointReport:
        log = self.table.log
        log.settings = log_settings(self.table.settings)
        return self.table.show_newest_after(log.checkpoint(compact=Compact.AS_NEEDED))


def _versions(protocol: ProtocolAction) -> str:
    return f"{protocol.min_reader_version}/{protocol.min_writer_version}"

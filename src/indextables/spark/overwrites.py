"""Which rows an overwrite replaces: one decision for every API of Spark that can write.

Spark has several ways to ask for an overwrite, and reads the writer's option
`partitionOverwriteMode` in none of them. An `OverwriteRequest` holds what a write is known to want,
and `is_dynamic` decides:

| the write | decides |
|---|---|
| `save`, `saveAsTable`, `insertInto`, `its.write` | the option, else the session |
| INSERT OVERWRITE | the option in WITH (...), else the session |
| `replaceWhere`, INSERT INTO ... REPLACE WHERE, `writeTo(t).overwrite(condition)` | the condition |
| `writeTo(t).overwritePartitions()` | the method: dynamic |
| `writeTo(t).createOrReplace()`, CREATE OR REPLACE TABLE ... AS SELECT | the method: the whole table |

An option that contradicts the method or the statement is refused.
"""

from __future__ import annotations

from typing import Literal, NoReturn

from msgspec import Struct

from indextables.errors import InvalidInputError
from indextables.model.conflicts import Operation
from indextables.operations.row_write import RowWrite

OVERWRITE_MODE = "partitionOverwriteMode"
SESSION_OVERWRITE_MODE = f"spark.sql.sources.{OVERWRITE_MODE}"

Replaces = Literal["nothing", "everything", "definition", "condition", "partitions"]
Caller = Literal["DataFrameWriter", "DataFrameWriterV2", "statement"]


def parse_mode(mode: str | None, *, key: str) -> bool | None:
    """Return whether a partition overwrite mode is dynamic, case-insensitively; None if it is not
    given.
    """
    if not mode:
        return None
    if mode.lower() not in ("static", "dynamic"):
        message = f"{key} cannot be {mode!r}."
        raise InvalidInputError(
            message, hint="Allowed: static, dynamic. Nothing was written.", key=key
        )
    return mode.lower() == "dynamic"


class OverwriteRequest(Struct, frozen=True):
    """What is known of a write before it is planned."""

    replaces: Replaces
    """What Spark's plan replaces: `partitions` in the session's dynamic mode, `definition` if a
    table is replaced.
    """
    caller: Caller = "DataFrameWriter"
    option: bool | None = None
    """Whether the option of the write is dynamic; None if it is not given. The same for `session`.
    """
    session: bool | None = None
    has_condition: bool = False
    """Whether the write has the option `replaceWhere`."""

    def is_dynamic(self) -> bool | None:
        """Return whether the write replaces only the partitions of its rows, or None if only the
        session decides.
        """
        if self.option and self.has_condition:
            raise InvalidInputError("Give replaceWhere or dynamic partition overwrite, not both.")
        if self.replaces == "nothing":
            if self.option:
                raise InvalidInputError("Dynamic partition overwrite needs the mode overwrite.")
            return False
        if self.has_condition:
            return self._under_condition()
        if self.replaces == "condition":
            return self._unless_contradicted(False)
        if self.caller == "DataFrameWriter":
            if self.option is None:
                return self.session
            return self.option
        if (
            self.replaces == "partitions"
        ):  # of a statement with PARTITION (day = '...') only Spark knows the condition
            return self._unless_contradicted(True)
        if self.replaces == "everything" and self.caller == "statement":
            return bool(self.option)
        return self._unless_contradicted(False)

    def _under_condition(self) -> bool:
        by_method = self.caller == "DataFrameWriterV2" or self.replaces == "condition"
        if by_method or (self.replaces == "definition" and self.caller != "DataFrameWriter"):
            self._refuse("replaceWhere")
        return False

    def _unless_contradicted(self, dynamic: bool) -> bool:
        if self.option is not None and self.option != dynamic:
            self._refuse(f"{OVERWRITE_MODE}={'dynamic' if self.option else 'static'}")
        return dynamic

    def _refuse(self, option: str) -> NoReturn:
        what = {
            "everything": "all rows of the table",
            "definition": "the whole table with its columns",
            "condition": "the rows that match its condition",
            "partitions": "the partitions of its rows",
        }[self.replaces]
        raise InvalidInputError(
            f"The write replaces {what}, and its option {option} contradicts that.",
            hint="Nothing was written. Leave the option out, or use one that replaces what you mean: "
            'df.write.mode("overwrite").saveAsTable(t) follows both options, writeTo(t).overwritePartitions() replaces the '
            "partitions of its rows, writeTo(t).overwrite(condition) and INSERT INTO t REPLACE WHERE replace what matches.",
            key=option.split("=")[0],
        )


def under_overwrite_mode(write: RowWrite, mode: str | None) -> RowWrite:
    """Return the write under the session's partition overwrite mode, which its planner may not
    know.
    """
    if (
        write.request.operation is not Operation.OVERWRITE
        or write.request.dynamic_partitions is not None
    ):
        return write
    if not parse_mode(mode, key=SESSION_OVERWRITE_MODE) or not write.partition_columns:
        return write
    if write.new_metadata is not None:
        raise InvalidInputError(
            f"{SESSION_OVERWRITE_MODE} of the session did not reach the writer in time: it was about to change the "
            "columns or the index of the whole table.",
            hint=f"Pass {OVERWRITE_MODE} as an option of the write, or write with indextables.spark.write().",
            key=SESSION_OVERWRITE_MODE,
        )
    return write.with_request(operation=Operation.REPLACE_WHERE, dynamic_partitions=True)

"""What a stream asks for: where it starts, how much a batch takes, and which rows it wants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from indextables.errors import InvalidInputError, VersionNotFoundError
from indextables.scan.plan import ScanPlan
from indextables.spark.source.options import SourceOptions
from indextables.spark.source.requests import ReadRequest
from indextables.table import Table


class StreamOptions(Struct, frozen=True):
    """The options of a stream, parsed."""

    request: ReadRequest
    start: int | Literal["latest"] | None
    """The first version to read; without one everything that is in the table comes first."""
    max_files: int | None
    max_bytes: int | None
    ignore_changes: bool

    @classmethod
    def parse(cls, options: SourceOptions) -> StreamOptions:
        """Read the options; what makes no sense in a stream is an error."""
        request = ReadRequest.parse(options)
        if request.searches:
            raise InvalidInputError(
                "A stream has no limit, scores or snippets.", hint="Use query and where alone to filter a stream."
            )
        return cls(
            request=request,
            start=options.version("startingVersion"),
            max_files=options.number("maxFilesPerTrigger", 1),
            max_bytes=options.size("maxBytesPerTrigger"),
            ignore_changes=options.flag("ignoreChanges"),
        )

    def plan(self, table: Table, columns: Sequence[str]) -> ScanPlan:
        """The scan that finds the rows."""
        return table.plan_scan(query=self.request.query, where=self.request.where, columns=columns)

    def check(self, table: Table) -> None:
        """Refuse what this table cannot answer: told where the stream is asked for, not in the trace of a query."""
        self.plan(table, ())
        if isinstance(self.start, int) and self.start > table.version + 1:
            raise VersionNotFoundError(
                f"{table.path} has no version {self.start} to start with: the newest is {table.version}.",
                hint="Start with latest to read only what is written from now on.",
                path=table.path,
                version=self.start,
                newest=table.version,
            )

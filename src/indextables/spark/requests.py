"""What the driver asks of this process, as JSON with a tag: `java/DriverRequest.java` has the same
fields.

A new request is a struct here, a method of `DriverRequest` and a case in `StatementDriver`.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct


class Request(Struct, frozen=True, forbid_unknown_fields=True, tag_field="type"):
    """A request of the driver."""


class PrepareSession(Request, frozen=True, tag="prepare session"):
    """Register the data source and the functions in a session."""


class StatementColumns(Request, frozen=True, tag="statement columns"):
    """The columns of a statement of ours, as Spark's JSON."""

    sql: str


class StatementRows(Request, frozen=True, tag="statement rows"):
    """Run a statement of ours and return its rows."""

    sql: str


class Correction(Request, frozen=True, tag="correction"):
    """What to write instead of SQL that Spark refuses with the message `reason`."""

    sql: str
    reason: str


class Read(Request, frozen=True):
    """A read through the data source: its columns as Spark's JSON, and its options with the
    session's settings.
    """

    schema: str
    options: dict[str, str]


class ReadPlan(Read, frozen=True, tag="read plan"):
    """What the tasks of a read do."""


class ReadSize(Read, frozen=True, tag="read size"):
    """How much a read returns."""


class ReadFilters(Read, frozen=True, tag="read filters"):
    """Which filters a read applies exactly."""


class ReadRows(Read, frozen=True, tag="read rows"):
    """The rows of a small read."""


class CatalogCall(Request, frozen=True, tag="catalog"):
    """A verb of the catalog; with a DataFrame where it writes one."""

    verb: str
    arguments: dict[str, Any]


class TableFrame(Request, frozen=True, tag="table frame"):
    """One version of a table as a DataFrame that Spark reads itself."""

    path: str
    frame: str


class RowChangeCall(Request, frozen=True, tag="row change"):
    """A DELETE, UPDATE or MERGE INTO, with the plan that Spark has parsed."""

    path: str
    name: str


DriverRequest = (
    PrepareSession
    | StatementColumns
    | StatementRows
    | Correction
    | ReadPlan
    | ReadSize
    | ReadFilters
    | ReadRows
    | CatalogCall
    | TableFrame
    | RowChangeCall
)
_DECODER: msgspec.json.Decoder[DriverRequest] = msgspec.json.Decoder(DriverRequest)


def parse_request(text: str) -> DriverRequest:
    """Return the request in a text."""
    return _DECODER.decode(text)

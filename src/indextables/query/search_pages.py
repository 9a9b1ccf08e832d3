"""Pages of a search: each continues after the last row of the page before, at the version and the
clock of the first page.

A token records where a page ended. It names the table, the version and the transaction that made it
(a repair can give its number to another version), the time that `now` means in the query, a digest
of the search, and the last row: its sort values, its split and its number there. So every row is on
one page, whatever is appended, deleted or merged concurrently, and a token of another search is
refused instead of misread.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Mapping
from typing import Annotated

import msgspec
import pyarrow as pa
from msgspec import Meta, Struct
from msgspec.structs import replace

from indextables.errors import InvalidInputError, SourceChangedError, VersionNotFoundError
from indextables.handle import TableHandle, older_snapshot, open_handle, open_log
from indextables.model.arguments import text, whole_number
from indextables.model.predicate import Where
from indextables.model.values import decode_value, encode_value
from indextables.query.search import PageEnd, TableSearch
from indextables.query.search_options import SearchOptions, plan_search
from indextables.splits.search.order import key_types


class SearchPage(Struct, frozen=True):
    """Rows of one page, and the token for the next."""

    rows: pa.Table
    next: str | None
    """What `search_after` takes for the next page; None if this is the last one."""
    version: int
    """The version that all pages show."""


class PageToken(Struct, frozen=True, forbid_unknown_fields=True):
    """Where a page ended, as a text that travels through a URL."""

    table: str
    version: Annotated[int, Meta(ge=0, lt=1 << 60)]
    now_ms: Annotated[int, Meta(ge=0, lt=1 << 47)]
    search: str
    split: str
    row: Annotated[int, Meta(ge=0, lt=1 << 60)]
    keys: dict[str, str | None]
    source: str = ""
    """The version of the source, if the table is a companion."""
    txn: str = ""
    """The newest transaction in the history of the version, if the log contains it."""

    @classmethod
    def parse(cls, token: str) -> PageToken:
        """The token that a text says."""
        try:
            packed = base64.b64decode(token.encode("ascii"), altchars=b"-_", validate=True)
            return msgspec.json.decode(packed, type=cls)
        except (ValueError, binascii.Error) as e:  # msgspec's errors are ValueErrors
            hint = "Give the `next` of a SearchPage as it was, or leave search_after out for the first page."
            raise InvalidInputError(
                f"search_after is no token of a page: {token[:40]!r}.", hint=hint
            ) from e

    def __str__(self) -> str:
        return base64.urlsafe_b64encode(msgspec.json.encode(self)).decode("ascii")

    def end(self, types: Mapping[str, pa.DataType]) -> PageEnd:
        """The last row of the page, with sort values of these types."""
        if not self.keys.keys() <= types.keys() or "0.0" not in self.keys:
            raise _another_search()
        keys = {
            name: pa.array([_value(text, types[name])], types[name])
            for name, text in self.keys.items()
        }
        return PageEnd(pa.table(keys), self.split, self.row)


def search_page(
    table: TableHandle, query: str, options: SearchOptions, *, where: Where | None
) -> SearchPage:
    """Return the first page of a search, or the page after the token in `options.search_after`."""
    token = None
    if options.search_after is not None:
        token = PageToken.parse(text("search_after", options.search_after))
    paged = table if token is None else _open_version(table, token)
    now_ms = paged.log.now_ms() if token is None else token.now_ms
    rows = whole_number("limit", options.limit, low=1)
    search = plan_search(
        paged, query, replace(options, limit=rows), where=where, paged=True, now_ms=now_ms
    )
    return page_behind(paged, search, token, now_ms=now_ms)


def _open_version(table: TableHandle, token: PageToken) -> TableHandle:
    """Return the table at the version of a token."""
    if token.table != table.snapshot.metadata.id:
        hint = "Search the table of the page, or start again without search_after."
        raise InvalidInputError(f"The token is of another table than {table.path}.", hint=hint)
    if token.version == table.snapshot.version and token.source == _source_version(table):
        return table
    log = open_log(table.path, table.options)
    snapshot = older_snapshot(log, token.version)
    if not token.source.isdecimal():
        older = open_handle(log, snapshot, table.options, pinned=True)
    else:
        older = open_handle(log, snapshot, table.options, pinned=True, at=int(token.source))
    if token.source != _source_version(older):
        raise SourceChangedError(
            f"The source of {table.path} is not as it was when the first page was read.",
            hint="Start again without search_after.",
            path=table.path,
        )
    return older


def _source_version(table: TableHandle) -> str:
    """Return the version of the source that a companion shows; an empty text for other tables."""
    if table.companion is None:
        return ""
    return table.companion.source.version


def page_behind(
    table: TableHandle, search: TableSearch, token: PageToken | None, *, now_ms: int
) -> SearchPage:
    """The page of a planned search behind a token, or the first one; `now_ms` is the clock that the
    search was planned by.
    """
    digest, types, end = _digest(search), _types(search), None
    if token is not None:
        if token.search != digest:
            raise _another_search()
        _check_version(table, token)
        end = token.end(types)
    rows, end = search.page(table.log.store, end)
    if end is None:
        return SearchPage(rows, None, table.snapshot.version)
    keys = {name: _show(end.keys.column(name)[0]) for name in end.keys.column_names}
    table_id, version = table.snapshot.metadata.id, table.snapshot.version
    txn = next(reversed(table.snapshot.header.recent_txn_ids), "")
    return SearchPage(
        rows,
        str(
            PageToken(
                table_id,
                version,
                now_ms,
                digest,
                end.split,
                end.row,
                keys,
                _source_version(table),
                txn,
            )
        ),
        version,
    )


def _check_version(table: TableHandle, token: PageToken) -> None:
    """Refuse a version that has only the number of the one that the page was of."""
    txn_ids = table.snapshot.header.recent_txn_ids
    if token.txn and txn_ids and token.txn not in txn_ids:
        raise VersionNotFoundError(
            f"Version {token.version} of {table.path} is not the one that the page was of: another has its number since the "
            "table was repaired or brought back from a copy.",
            hint="Start again without search_after.",
            path=table.path,
            version=token.version,
        )


def _digest(search: TableSearch) -> str:
    """Return a digest of the query, condition and order of a search. Columns and limit may differ
    from page to page.
    """
    said = repr((search.request.query, search.request.where, search.request.orders))
    return hashlib.sha256(said.encode()).hexdigest()[:16]


def _types(search: TableSearch) -> dict[str, pa.DataType]:
    orders = search.request.orders
    if orders:
        types = key_types(orders, search.plan.schema)
    else:
        types = {"0.0": pa.float32()}
    nested = next((name for name, kind in types.items() if pa.types.is_nested(kind)), None)
    if nested is not None:
        order = orders[int(nested.partition(".")[0])]
        message = f"Pages cannot be ordered by {order.column!r}, which is {types[nested]}."
        raise InvalidInputError(
            message, hint=f"Order by a value in it, such as {order.column}.field."
        )
    return types


def _show(value: pa.Scalar) -> str | None:
    if value.is_valid and pa.types.is_binary(value.type):
        return base64.b64encode(value.as_py()).decode("ascii")
    return encode_value(value)


def _value(text: str | None, kind: pa.DataType) -> object:
    if text is None:
        return None
    try:
        if pa.types.is_binary(kind):
            value = base64.b64decode(text, validate=True)
        else:
            value = decode_value(text, kind)
    except binascii.Error:
        value = None
    if value is None:
        raise _another_search()
    return value


def _another_search() -> InvalidInputError:
    hint = "Give the query, where and order_by of the page before; columns and limit may differ."
    return InvalidInputError("The token in search_after is of another search.", hint=hint)

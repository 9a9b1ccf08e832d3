"""Ingestion of one process: a writer per table, and the limits of what requests may hold."""

from __future__ import annotations

import asyncio
import re
import threading
import zlib
from collections.abc import Mapping, Sequence
from concurrent.futures import Future

import pyarrow as pa
from msgspec import Struct, field
from starlette.requests import ClientDisconnect, Request

from indextables import config
from indextables.config.ingest import EVOLVE, IngestSettings
from indextables.errors import InvalidInputError, NotFoundError, RefusedError, show_value
from indextables.handle import TableHandle
from indextables.metrics import METRICS
from indextables.table import Table
from indextables.web.documents import Document
from indextables.web.table_writer import IngestWriter, Outcome, RequestKey
from indextables.web.warehouse import Warehouse

_GZIP = 31
_PIECE = 1 << 20
_RETRY_SECONDS = 1
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9._-]{0,99}")
_NEW_TABLE = {"mergeOnWrite.enabled": "true", "ingest.schema": EVOLVE}


class NewTable(Struct, frozen=True):
    """Columns and settings of a table that is created by its first rows."""

    schema: pa.Schema
    text: tuple[str, ...]
    options: Mapping[str, object] = field(default_factory=dict)


class Admission:
    """Bytes of requests in memory. A request beyond the limit is refused with status 429."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held = 0
        self._lock = threading.Lock()

    def take(self, size: int) -> None:
        """Count bytes of a request.

        Raises:
            RefusedError: There are too many.
        """
        with self._lock:
            if self._held + size <= self._limit:
                self._held += size
                return
        METRICS.count("ingest_busy_total")
        raise RefusedError(
            f"The server holds {self._held:,} bytes of requests that are not committed yet.",
            hint=f"Send the request again after {_RETRY_SECONDS} second.",
            status=429,
            retry_after=_RETRY_SECONDS,
        )

    def give_back(self, size: int) -> None:
        """Count bytes of an answered request out."""
        with self._lock:
            self._held -= size


class Body:
    """The unpacked body of a request. Its bytes are counted until the `with` block ends."""

    def __init__(self, admission: Admission, settings: IngestSettings) -> None:
        self._admission = admission
        self._settings = settings
        self._taken = 0

    def __enter__(self) -> Body:
        return self

    def __exit__(self, *_error: object) -> None:
        self._admission.give_back(self._taken)

    async def read(self, request: Request) -> bytes:
        """Read and unpack the body.

        Raises:
            InvalidInputError: It is too large, damaged, or packed in another way than gzip; the
                client took too long.
            RefusedError: The process holds too many requests.
        """
        try:
            async with asyncio.timeout(self._settings.timeout_ms / 1000):
                return await self._read(request)
        except TimeoutError:
            raise InvalidInputError(
                f"The request did not arrive within {self._settings.timeout_ms / 1000:g} seconds.",
                hint="Send it again, in smaller parts.",
                status=408,
            ) from None
        except ClientDisconnect:
            raise InvalidInputError("The client disconnected.", status=400) from None

    async def _read(self, request: Request) -> bytes:
        encoding = request.headers.get("content-encoding", "identity").strip().lower()
        if encoding not in ("identity", "", "gzip"):
            raise InvalidInputError(
                f"A body with Content-Encoding {encoding!r} is not read.",
                hint="Send it packed with gzip, or as it is.",
                status=415,
            )
        packed = zlib.decompressobj(_GZIP) if encoding == "gzip" else None
        parts = []
        async for part in request.stream():
            if packed is None:
                self._count(len(part))
                parts.append(part)
                continue
            rest = part
            while rest:
                if packed.eof:  # another gzip member follows
                    packed = zlib.decompressobj(_GZIP)
                try:
                    piece = packed.decompress(rest, _PIECE)
                except zlib.error as error:
                    raise _damage_error(str(error)) from None
                rest = packed.unconsumed_tail or packed.unused_data
                self._count(len(piece))
                parts.append(piece)
        if packed is not None and not packed.eof:
            raise _damage_error("it ends too early")
        return b"".join(parts)

    def _count(self, size: int) -> None:
        limit = min(self._settings.max_body_bytes, self._settings.max_queued_bytes)
        if self._taken + size > limit:
            raise InvalidInputError(
                f"The request is larger than {limit:,} bytes.",
                hint="Send fewer documents at once, or raise ingest.maxBodyBytes.",
                status=413,
            )
        self._admission.take(size)
        self._taken += size


class Ingest:
    """The writers of the tables of a warehouse."""

    def __init__(self, warehouse: Warehouse, *, create: bool = False) -> None:
        """`create`: whether a table that is missing is created when it is written to."""
        self.warehouse = warehouse
        self._creates = create
        self.settings = config.resolve(options=warehouse.options).group(IngestSettings)
        self._admission = Admission(self.settings.max_queued_bytes)
        self._writers: dict[str, IngestWriter] = {}
        self._lock = threading.Lock()

    def body(self) -> Body:
        """Return the reader of a request's body."""
        return Body(self._admission, self.settings)

    def table(self, name: str) -> TableHandle:
        """Return a table by name, to read its columns."""
        return self.warehouse.open(name).handle

    def submit(
        self,
        name: str,
        documents: Sequence[Document],
        layout: NewTable,
        *,
        size: int,
        key: RequestKey | None,
    ) -> Future[Outcome]:
        """Queue documents for a table, which gets a layout if it is created for them.

        Raises:
            NotFoundError: There is no such table.
            RefusedError: The process is stopping.
        """
        path = self._path_of(name, layout)
        with self._lock:
            writer = self._writers.get(path)
            if writer is None:
                writer = IngestWriter(path, lambda: self._open(path), self.settings)
                self._writers[path] = writer
        return writer.submit(documents, size=size, key=key)

    async def wait(self, answer: Future[Outcome]) -> Outcome:
        """Wait for a commit.

        Raises:
            RefusedError: It takes too long.
        """
        seconds = self.settings.timeout_ms / 1000
        waiting = asyncio.wrap_future(answer)
        try:
            return await asyncio.wait_for(asyncio.shield(waiting), seconds)
        except TimeoutError:
            waiting.add_done_callback(lambda done: done.exception())
            raise RefusedError(
                f"The rows were not committed within {seconds:g} seconds; they may be later.",
                hint="Send the request again. Only a key keeps rows from being written twice.",
                retry_after=_RETRY_SECONDS,
            ) from None

    def close(self, seconds: float = 10.0) -> None:
        """Commit what is waiting, and end the writers."""
        for writer in self._writers.values():
            writer.close(seconds)

    def _path_of(self, name: str, layout: NewTable) -> str:
        """Return the path of a table, which is created if it is missing and that was asked for."""
        try:
            return self.warehouse.open(name).path
        except NotFoundError:
            folder = self.warehouse.folder() if self._creates else None
            if folder is None:
                raise
        if not _NAME.fullmatch(name):
            raise InvalidInputError(
                f"A table cannot be created under the name {show_value(name)}.",
                hint="Use up to 100 letters, digits, '-', '_' and '.', and begin with a letter.",
                name=name,
            )
        options = {**_NEW_TABLE, **layout.options}
        return Table.create(
            f"{folder}/{name}",
            schema=layout.schema,
            text=layout.text,
            options=options,
            exist_ok=True,
        ).path

    def _open(self, path: str) -> TableHandle:
        return Table.open(path, options=self.warehouse.options).handle


def _damage_error(why: str) -> InvalidInputError:
    return InvalidInputError(
        f"The body cannot be unpacked: {why}.", hint="Send it packed with gzip, or as it is."
    )

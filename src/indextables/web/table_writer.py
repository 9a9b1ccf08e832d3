"""Requests of many clients as few commits: one thread per table collects waiting requests and
writes them in one version.

A request is acknowledged after its version is committed. A batch is closed when it has
`ingest.maxRows` rows or `ingest.maxBytes` bytes, or when its oldest request has waited for
`ingest.maxDelayMs`; requests that arrive during a commit are in the next one.

A client that repeats a request gives it a key, `producer:number`. The version that commits the rows
records the number of the producer and a digest of the request, so that a repetition is recognised
by every process, also after a restart. The numbers of a producer are 1, 2, 3, ...: a number is
refused until the one before it is committed. Otherwise a number that is committed late would be
taken for a repetition, and its rows would be lost.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from hashlib import sha256

from msgspec import Struct, field

from indextables.config.ingest import IngestSettings
from indextables.errors import (
    ConflictError,
    IndexTablesError,
    InvalidInputError,
    RefusedError,
)
from indextables.handle import TableHandle
from indextables.metrics import METRICS
from indextables.operations import append
from indextables.operations.table_write import abandon_write, plan_write
from indextables.operations.write_request import WriteRequest
from indextables.web.documents import (
    Document,
    Refusal,
    Rows,
    check_ingest_settings,
    rows_of,
    unfit,
)

logger = logging.getLogger(__name__)
_PRODUCER, _DIGEST = "ingest:", "ingest-digest:"
_LONGEST_PRODUCER = 200
_ATTEMPTS = 4
"""Attempts of a batch whose commit conflicts with another writer's."""


class RequestKey(Struct, frozen=True):
    """The key of a request that may be repeated, and a digest of its content."""

    producer: str
    number: int
    digest: int

    @classmethod
    def parse(cls, text: str, content: bytes) -> RequestKey:
        """Return the key of a request.

        Raises:
            InvalidInputError: The text is not `producer:number`.
        """
        producer, _, digits = text.rpartition(":")
        is_number = digits.isascii() and digits.isdigit() and 0 < len(digits) <= 15
        if not producer or not is_number or int(digits) < 1 or len(producer) > _LONGEST_PRODUCER:
            raise InvalidInputError(
                f"The Idempotency-Key {text[:250]!r} is not a producer and a number.",
                hint="Write producer:1 in the first request of a producer, producer:2 in the next.",
            )
        digest = int.from_bytes(sha256(content).digest()[:7], "big")
        return cls(producer, int(digits), digest)

    @property
    def entry(self) -> tuple[str, int]:
        """The entry of the table that records the number."""
        return f"{_PRODUCER}{self.producer}", self.number

    @property
    def mark(self) -> tuple[str, int]:
        """The entry of the table that records the digest."""
        return f"{_DIGEST}{self.producer}", self.digest


class Outcome(Struct, frozen=True):
    """What became of a request: the version that has its rows, and the documents without a row."""

    version: int | None
    refused: Mapping[int, Refusal] = field(default_factory=dict)


class _Waiting(Struct, eq=False):
    """A request that waits for its commit."""

    documents: Sequence[Document]
    size: int
    key: RequestKey | None
    arrived: float
    answer: Future[Outcome]


class IngestWriter:
    """Writes the requests for one table, in the order in which they arrive."""

    def __init__(
        self, path: str, open_table: Callable[[], TableHandle], settings: IngestSettings
    ) -> None:
        """`open_table` returns a handle that can be written; it is called again after an error."""
        self._path = path
        self._open = open_table
        self._settings = settings
        self._handle: TableHandle | None = None
        self._queue: deque[_Waiting] = deque()
        self._in_flight: dict[str, _Waiting] = {}
        self._changed = threading.Condition()
        self._is_closing = False
        self._thread = threading.Thread(target=self._run, name="indextables-ingest", daemon=True)
        self._thread.start()

    def submit(
        self, documents: Sequence[Document], *, size: int, key: RequestKey | None = None
    ) -> Future[Outcome]:
        """Queue documents for the next commit; the result is set after it.

        Raises:
            RefusedError: The writer is being closed.
        """
        waiting = _Waiting(documents, size, key, time.monotonic(), Future())
        with self._changed:
            if self._is_closing:
                raise RefusedError(
                    "The server is stopping and takes no more rows.",
                    hint="Send the request again.",
                    retry_after=1,
                )
            if key is not None:
                earlier = self._in_flight.get(key.producer)
                if earlier is not None and earlier.key is not None:
                    if earlier.key == key:
                        return earlier.answer
                    if earlier.key.number == key.number:
                        raise _reuse_error(key)
                    raise _order_error(key, earlier.key.number - 1)
                self._in_flight[key.producer] = waiting
            self._queue.append(waiting)
            self._changed.notify_all()
        return waiting.answer

    def close(self, seconds: float) -> None:
        """Commit what is waiting, and end the thread. Later requests are refused."""
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()
        self._thread.join(seconds)

    def _run(self) -> None:
        while batch := self._take():
            began = time.perf_counter()
            try:
                self._write(batch)
            except Exception as error:
                if not isinstance(error, IndexTablesError):
                    logger.exception("Rows for %s could not be written.", self._path)
                self._handle = None
                for waiting in batch:
                    if not waiting.answer.done():
                        waiting.answer.set_exception(error)
            finally:
                with self._changed:
                    for waiting in batch:
                        if waiting.key is not None:
                            self._in_flight.pop(waiting.key.producer, None)
            METRICS.observe("ingest_commit_seconds", time.perf_counter() - began, self._path)

    def _take(self) -> list[_Waiting]:
        """Wait for a full or old enough batch and return it; an empty one when closed."""
        with self._changed:
            while not self._queue and not self._is_closing:
                self._changed.wait()
            while self._queue and not self._is_closing and not self._is_full():
                left = (
                    self._queue[0].arrived + self._settings.max_delay_ms / 1000 - time.monotonic()
                )
                if left <= 0:
                    break
                self._changed.wait(left)
            batch: list[_Waiting] = []
            rows = size = 0
            while self._queue:
                following = self._queue[0]
                rows, size = rows + len(following.documents), size + following.size
                is_over = rows > self._settings.max_rows or size > self._settings.max_bytes
                if batch and is_over:
                    break
                batch.append(self._queue.popleft())
            return batch

    def _is_full(self) -> bool:
        rows = sum(len(waiting.documents) for waiting in self._queue)
        size = sum(waiting.size for waiting in self._queue)
        return rows >= self._settings.max_rows or size >= self._settings.max_bytes

    def _write(self, batch: Sequence[_Waiting]) -> None:
        for attempt in range(_ATTEMPTS):
            table = self._newest()
            check_ingest_settings(table)
            rest = self._answer_repeated(table, batch)
            try:
                if not rest or self._write_rows(table, rest):
                    return
            except ConflictError:
                self._handle = None
                if attempt == _ATTEMPTS - 1:
                    raise
        raise ConflictError("Requests of the batch were committed by another server.")

    def _newest(self) -> TableHandle:
        if self._handle is None:
            self._handle = self._open()
        else:
            try:
                self._handle = self._handle.read_newest()
            except IndexTablesError:
                self._handle = self._open()
        return self._handle

    def _answer_repeated(self, table: TableHandle, batch: Sequence[_Waiting]) -> list[_Waiting]:
        """Answer requests that were committed before or whose number is wrong; return the others."""
        recorded = table.snapshot.header.txns
        rest = []
        for waiting in batch:
            key = waiting.key
            if waiting.answer.done():
                continue
            newest = None if key is None else recorded.get(key.entry[0])
            last = 0 if newest is None else newest.version
            if key is None or key.number == last + 1:
                rest.append(waiting)
            elif key.number > last:
                waiting.answer.set_exception(_order_error(key, last))
            elif key.number == last and recorded[key.mark[0]].version != key.digest:
                waiting.answer.set_exception(_reuse_error(key))
            else:
                refused = rows_of(waiting.documents, table).refused
                waiting.answer.set_result(Outcome(None, refused))
        return rest

    def _write_rows(self, table: TableHandle, batch: Sequence[_Waiting]) -> bool:
        """Write the rows of requests in one version. Return False if another server committed one
        of them first.
        """
        documents = [document for waiting in batch for document in waiting.documents]
        keys = [waiting.key for waiting in batch if waiting.key is not None]
        rows = rows_of(documents, table)
        try:
            version = _append(table, rows, keys)
        except InvalidInputError as error:
            rows = rows_of(documents, table, _find_unfit(table, documents, rows, error))
            version = _append(table, rows, keys)
        if version is None and keys:
            return False
        METRICS.count("ingest_rows_total", table.path, by=len(rows.accepted))
        METRICS.count("ingest_refused_rows_total", table.path, by=len(rows.refused))
        start = 0
        for waiting in batch:
            end = start + len(waiting.documents)
            refused = {n - start: why for n, why in rows.refused.items() if start <= n < end}
            waiting.answer.set_result(Outcome(version, refused))
            start = end
        return True


def _append(table: TableHandle, rows: Rows, keys: Sequence[RequestKey]) -> int | None:
    """Append rows and record the keys of their requests, in one version."""
    if not rows.accepted and not keys:
        return None
    return append.append(_with_options(table, rows), rows.table, _request(table, rows, keys))


def _request(table: TableHandle, rows: Rows, keys: Sequence[RequestKey]) -> WriteRequest:
    known = {name.lower() for name in table.schema.names}
    return WriteRequest(
        merge_schema=any(name.lower() not in known for name in rows.table.schema.names),
        shared=tuple(key.entry for key in keys),
        marks=tuple(key.mark for key in keys),
    )


def _with_options(table: TableHandle, rows: Rows) -> TableHandle:
    if not rows.options:
        return table
    return TableHandle(table.log, table.snapshot, {**table.options, **rows.options})


def _find_unfit(
    table: TableHandle, documents: Sequence[Document], rows: Rows, error: InvalidInputError
) -> dict[int, Refusal]:
    """Return the documents that make a write fail, found by writing ever smaller parts that are not
    committed.

    Raises:
        InvalidInputError: No document is to blame.
    """
    refused = dict(rows.refused)
    parts: list[tuple[Sequence[int], InvalidInputError]] = [(rows.accepted, error)]
    while parts:
        part, why = parts.pop()
        if len(part) == 1:
            refused[part[0]] = unfit(str(why))
            continue
        half = len(part) // 2
        for smaller in (part[:half], part[half:]):
            failure = _try_write(table, [documents[n] for n in smaller])
            if failure is not None:
                parts.append((smaller, failure))
    if len(refused) == len(rows.refused):
        raise error
    return refused


def _try_write(table: TableHandle, documents: Sequence[Document]) -> InvalidInputError | None:
    """Write splits of documents and delete them. Return why they cannot be written."""
    rows = rows_of(documents, table)
    handle = _with_options(table, rows)
    try:
        write = plan_write(handle, rows.table.schema, _request(table, rows, ()))
        abandon_write(handle, write, write.run(iter(rows.table.to_batches())))
    except InvalidInputError as error:
        return error
    return None


def _order_error(key: RequestKey, last: int) -> InvalidInputError:
    return InvalidInputError(
        f"The request {key.number} of the producer {key.producer!r} came before {last + 1}.",
        hint=f"Send {key.producer}:{last + 1} first, and the next one after its answer.",
        status=409,
    )


def _reuse_error(key: RequestKey) -> InvalidInputError:
    return InvalidInputError(
        f"The key {key.producer}:{key.number} was used for another request.",
        hint="Count up the number for each new request; repeat a request without a change.",
        status=422,
    )

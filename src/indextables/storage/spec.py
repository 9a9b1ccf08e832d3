"""Store specifications that are sent to workers, and stores that count their requests by verb."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from msgspec import Struct

from indextables import config
from indextables.config.storage import (
    AwsSettings,
    AzureSettings,
    DatabricksSettings,
    GcpSettings,
    HdfsSettings,
    RequestSettings,
    StoreSettings,
)
from indextables.errors import NotFoundError
from indextables.metrics import METRICS
from indextables.storage.clients import open_client, say_unread, secrets_of
from indextables.storage.hdfs import open_hdfs
from indextables.storage.local import LocalStore
from indextables.storage.location import Location, parse_location
from indextables.storage.remote import Backoff, RemoteStore, note_use
from indextables.storage.store import ObjectInfo, PutOutcome, Store

T = TypeVar("T")
FIRST_VERSION = "_transaction_log/00000000000000000000.json"
"""The file that makes a folder a table."""


class MeteredStore:
    """Forwards every call to the wrapped store and counts requests, time, failures and bytes."""

    def __init__(self, inner: Store, kind: str) -> None:
        self.inner = inner
        self._kind = kind

    def __repr__(self) -> str:
        return repr(self.inner)

    @property
    def url(self) -> str:
        """See `Store.url`."""
        return self.inner.url

    def get(self, path: str) -> bytes:
        """See `Store.get`."""
        return self._measure("get", lambda: self.inner.get(path), len)

    def get_range(self, path: str, start: int, length: int) -> bytes:
        """See `Store.get_range`."""
        return self._measure("get_range", lambda: self.inner.get_range(path, start, length), len)

    def get_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """See `Store.get_ranges`."""
        return self._measure(
            "get_ranges", lambda: self.inner.get_ranges(path, ranges), lambda r: sum(map(len, r))
        )

    def put_if_absent(self, path: str, data: bytes) -> PutOutcome:
        """See `Store.put_if_absent`."""
        return self._measure(
            "put_if_absent", lambda: self.inner.put_if_absent(path, data), lambda _: len(data)
        )

    def put(self, path: str, data: bytes) -> None:
        """See `Store.put`."""
        self._measure("put", lambda: self.inner.put(path, data), lambda _: len(data))

    def put_file(self, path: str, source: Path) -> None:
        """See `Store.put_file`."""
        size = (
            source.stat().st_size if source.is_file() else 0
        )  # the store says what is wrong with what is no file
        self._measure("put_file", lambda: self.inner.put_file(path, source), lambda _: size)

    def head(self, path: str) -> ObjectInfo | None:
        """See `Store.head`."""
        return self._measure("head", lambda: self.inner.head(path))

    def list(self, prefix: str = "", *, start_after: str | None = None) -> Iterator[ObjectInfo]:
        """See `Store.list`. Only the time of the listing is counted, not that of its consumer."""
        listed = self.inner.list(prefix, start_after=start_after)
        seconds, ended = 0.0, False
        try:
            while True:
                began = time.perf_counter()
                info = next(listed, None)
                seconds += time.perf_counter() - began
                if info is None:
                    ended = True
                    return
                yield info
        except GeneratorExit:
            ended = True
            raise
        finally:
            METRICS.observe("store_seconds", seconds, self.url, self._kind, "list")
            if not ended:
                METRICS.count("store_failures_total", self.url, self._kind, "list")

    def list_unfinished(self) -> Iterator[ObjectInfo]:
        """See `Store.unfinished`."""
        return self.inner.list_unfinished()

    def delete(self, paths: Iterable[str | ObjectInfo]) -> None:
        """See `Store.delete`."""
        self._measure("delete", lambda: self.inner.delete(paths))

    def local_path(self, path: str) -> Path | None:
        """See `Store.local_path`."""
        return self.inner.local_path(path)

    def _measure(
        self, verb: str, ask: Callable[[], T], size: Callable[[T], int] | None = None
    ) -> T:
        labels, began = (self.inner.url, self._kind, verb), time.perf_counter()
        try:
            answer = ask()
        except NotFoundError:  # an answer like any other
            METRICS.observe("store_seconds", time.perf_counter() - began, *labels)
            raise
        except Exception:
            METRICS.observe("store_seconds", time.perf_counter() - began, *labels)
            METRICS.count("store_failures_total", *labels)
            raise
        METRICS.observe("store_seconds", time.perf_counter() - began, *labels)
        if size is not None:
            METRICS.count("store_bytes_total", *labels, by=size(answer))
        return answer


class StoreSpec(Struct, frozen=True):
    """A URL and the settings to open it. Equal specs open the same location; the repr shows no
    secret.

    A pickle includes credentials that were given as settings, because workers need them.
    Credentials from the environment or from a provider class are resolved again where the store is
    opened.
    """

    url: str
    options: StoreSettings = StoreSettings()

    def __repr__(self) -> str:
        return f"StoreSpec(url={self.url!r})"

    @classmethod
    def from_url(
        cls,
        url: str | os.PathLike[str],
        settings: config.Settings | Mapping[str, object] | None = None,
    ) -> StoreSpec:
        """Parse a local path or a URL (made absolute), with the settings that this kind of store
        uses.
        """
        place = parse_location(url)
        if isinstance(settings, config.Settings):
            resolved = settings
        else:
            resolved = config.resolve(options=settings)
        databricks = resolved.group(DatabricksSettings)
        if (unread := databricks.given()) and resolved["aws.credentialsProviderClass"] is None:
            say_unread(
                unread,
                "aws.credentialsProviderClass names no class that asks the workspace for credentials",
            )
        if place.kind in ("local", "memory"):
            return cls(place.url)
        options = StoreSettings(
            aws=resolved.group(AwsSettings) if place.kind == "s3" else AwsSettings(),
            azure=resolved.group(AzureSettings) if place.kind == "azure" else AzureSettings(),
            gcp=resolved.group(GcpSettings) if place.kind == "gcs" else GcpSettings(),
            hdfs=resolved.group(HdfsSettings) if place.kind == "hdfs" else HdfsSettings(),
            requests=resolved.group(RequestSettings),
            databricks=databricks if place.kind == "s3" else DatabricksSettings(),
        )
        return cls(place.url, options)


def open_store(spec: StoreSpec, *, anchor: str | None = None) -> Store:
    """Open a store without a request: a wrong bucket or key shows at the first one.

    `anchor` names the only object for which a missing folder is created (see `LocalStore`).
    """
    place = parse_location(spec.url)
    return MeteredStore(_open(place, spec, anchor), place.kind)


def open_table_store(spec: StoreSpec) -> Store:
    """Open the store of an existing table: writing to it does not re-create a removed table."""
    return open_store(spec, anchor=FIRST_VERSION)


def _open(place: Location, spec: StoreSpec, anchor: str | None) -> Store:
    if place.kind == "local":
        return LocalStore(place.url, anchor=anchor)
    note_use(place.url)
    if place.kind == "hdfs":
        return open_hdfs(place, spec.options)
    requests = spec.options.requests
    return RemoteStore(
        open_client(place, spec.options),
        url=place.url,
        folder=place.folder,
        secrets=secrets_of(spec.options),
        sorts=place.kind != "azure",
        backoff=Backoff(requests.max_retries, requests.base_delay_ms, requests.max_delay_ms),
        part_bytes=requests.part_bytes,
    )

"""A store described but not opened: what travels to a worker, which opens it there."""

from __future__ import annotations

import os
from collections.abc import Mapping

from msgspec import Struct

from indextables import config
from indextables.config.storage import (
    AwsSettings,
    AzureSettings,
    GcpSettings,
    HdfsSettings,
    RequestSettings,
    StoreSettings,
)
from indextables.storage.clients import open_client, secrets_of
from indextables.storage.hdfs import open_hdfs
from indextables.storage.local import LocalStore
from indextables.storage.location import Location, parse_location
from indextables.storage.metered import MeteredStore
from indextables.storage.remote import Backoff, RemoteStore, note_use
from indextables.storage.store import Store


class StoreSpec(Struct, frozen=True):
    """A URL and the settings to open it with. Equal specs open the same place; its repr shows no secret.

    A pickle of it does carry the credentials that were given as settings, because the worker needs them. Those that
    come from the environment or from a provider class are found anew by whoever opens the store.
    """

    url: str
    options: StoreSettings = StoreSettings()

    def __repr__(self) -> str:
        return f"StoreSpec(url={self.url!r})"

    @classmethod
    def from_url(
        cls, url: str | os.PathLike[str], settings: config.Settings | Mapping[str, object] | None = None
    ) -> StoreSpec:
        """Read a local path or a URL (made absolute), and of the settings those that this kind of store uses."""
        place = parse_location(url)
        resolved = settings if isinstance(settings, config.Settings) else config.resolve(options=settings)
        if place.kind in ("local", "memory"):
            return cls(place.url)
        options = StoreSettings(
            aws=resolved.group(AwsSettings) if place.kind == "s3" else AwsSettings(),
            azure=resolved.group(AzureSettings) if place.kind == "azure" else AzureSettings(),
            gcp=resolved.group(GcpSettings) if place.kind == "gcs" else GcpSettings(),
            hdfs=resolved.group(HdfsSettings) if place.kind == "hdfs" else HdfsSettings(),
            requests=resolved.group(RequestSettings),
        )
        return cls(place.url, options)


def open_store(spec: StoreSpec) -> Store:
    """Open a store in this process. Nothing is asked of it yet: a wrong bucket or key shows at the first request."""
    place = parse_location(spec.url)
    return MeteredStore(_open(place, spec), place.kind)


def _open(place: Location, spec: StoreSpec) -> Store:
    if place.kind == "local":
        return LocalStore(place.url)
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
    )

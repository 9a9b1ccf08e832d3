"""obstore clients, opened in the process that uses them, and where their credentials come from."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from threading import Lock
from typing import Any, cast

from obstore.exceptions import BaseError
from obstore.store import AzureStore, GCSStore, MemoryStore, ObjectStore, S3Store

from indextables.config.storage import StoreSettings
from indextables.errors import InvalidInputError
from indextables.storage.aws_profile import find_profile
from indextables.storage.client_config import (
    azure_config,
    client_options,
    gcs_config,
    given,
    retry_config,
    s3_config,
)
from indextables.storage.location import Location
from indextables.storage.remote_errors import read_failure

_memories: dict[str, MemoryStore] = {}
_memories_lock = Lock()


def open_client(place: Location, settings: StoreSettings) -> ObjectStore:
    """The client of a remote location, opened in the process that uses it."""
    build = {"s3": _s3, "azure": _azure, "gcs": _gcs, "memory": _memory}[place.kind]
    try:
        return build(place, settings)
    except (BaseError, ValueError) as error:
        reason = read_failure(error, secrets_of(settings)).reason
        raise InvalidInputError(f"The store {place.url} cannot be opened: {reason}", url=place.url) from None


def secrets_of(settings: StoreSettings) -> list[str]:
    """Every text that must not be shown (what is shorter than four letters is no secret, and is in every word)."""
    aws, azure, gcp = settings.aws, settings.azure, settings.gcp
    texts = [aws.access_key, aws.secret_key, aws.session_token, azure.account_key, azure.connection_string]
    texts += [azure.sas_token, azure.client_secret, gcp.service_account_key]
    return [text for text in texts if text and len(text) > 3]


def load_provider(dotted: str) -> Callable[[], Any]:
    """The credential provider that `module:Name` makes: a class without arguments, or a function that is one itself."""
    module, colon, name = dotted.partition(":")
    if not colon:
        module, _, name = dotted.rpartition(".")
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        message = f"The credentials provider {dotted!r} cannot be loaded: {error}"
        hint = "Give it as `module:Name`; the module must be importable wherever the store is opened."
        raise InvalidInputError(message, hint=hint, key="aws.credentialsProviderClass") from error
    provider: Callable[[], Any] = found() if isinstance(found, type) else found
    return provider


def _s3(place: Location, settings: StoreSettings) -> ObjectStore:
    aws, config = settings.aws, s3_config(place, settings.aws)
    provider: Any = None
    if aws.credentials_provider_class:
        provider = load_provider(aws.credentials_provider_class)
    elif not aws.access_key and (profile := find_profile(os.environ)):
        provider = profile
        if not (aws.region or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")):
            config.update(given(region=profile.keys().get("region")))
    return S3Store(
        place.container,
        config=cast(Any, config),
        client_options=client_options(settings.requests, allow_http=aws.allow_http),
        retry_config=retry_config(settings.requests),
        credential_provider=provider,
    )


def _azure(place: Location, settings: StoreSettings) -> ObjectStore:
    config = azure_config(place, settings.azure)
    return AzureStore(
        place.container,
        config=cast(Any, config),
        client_options=client_options(settings.requests, allow_http=config.get("endpoint", "").startswith("http://")),
        retry_config=retry_config(settings.requests),
    )


def _gcs(place: Location, settings: StoreSettings) -> ObjectStore:
    config = gcs_config(settings.gcp)
    return GCSStore(
        place.container,
        config=cast(Any, config),
        client_options=client_options(settings.requests, allow_http=config.get("base_url", "").startswith("http://")),
        retry_config=retry_config(settings.requests),
    )


def _memory(place: Location, settings: StoreSettings) -> ObjectStore:  # noqa: ARG001 (memory has no settings)
    """Shared by name inside the process."""
    with _memories_lock:
        return _memories.setdefault(place.container, MemoryStore())

"""obstore clients: where our settings become obstore's, and what is not given is left to the cloud's own chain."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from datetime import timedelta
from threading import Lock
from typing import Any

from obstore.exceptions import BaseError
from obstore.store import AzureStore, GCSStore, MemoryStore, ObjectStore, S3Store

from indextables.config.storage import RequestSettings, StoreSettings
from indextables.errors import InvalidInputError
from indextables.storage.aws_profile import find_profile
from indextables.storage.location import Location
from indextables.storage.remote_errors import read_failure

# An overall limit would cut off large transfers that are going well; silence is limited instead.
_LONGEST_TRANSFER = timedelta(hours=6)
_EMULATOR_ACCOUNT = "devstoreaccount1"
_EMULATOR_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="

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
    aws = settings.aws
    config: Any = _given(
        access_key_id=aws.access_key,
        secret_access_key=aws.secret_key,
        token=aws.session_token,
        region=aws.region,
        endpoint=aws.endpoint,
    )
    options = _client_options(settings.requests, allow_http=aws.allow_http)
    if aws.path_style_access is not None:
        config["virtual_hosted_style_request"] = str(not aws.path_style_access).lower()
    provider: Any = None
    if aws.credentials_provider_class:
        provider = load_provider(aws.credentials_provider_class)
    elif not aws.access_key and (profile := find_profile(os.environ)):
        provider = profile
        if not (aws.region or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")):
            config.update(_given(region=profile.keys().get("region")))
    return S3Store(
        place.container,
        config=config,
        client_options=options,
        retry_config=_retry(settings.requests),
        credential_provider=provider,
    )


def _azure(place: Location, settings: StoreSettings) -> ObjectStore:
    azure = settings.azure
    config: Any = _given(
        account_name=place.host.partition(".")[0] or azure.account_name,
        account_key=azure.account_key,
        sas_key=azure.sas_token.removeprefix("?") if azure.sas_token else None,
        tenant_id=azure.tenant_id,
        client_id=azure.client_id,
        client_secret=azure.client_secret,
        endpoint=azure.endpoint,
    )
    if azure.connection_string:
        config = {**_connection(azure.connection_string), **config}
    if azure.use_emulator:
        config = _emulator(azure.endpoint)
    if place.host.endswith(".fabric.microsoft.com"):
        config["use_fabric_endpoint"] = "true"
    options = _client_options(settings.requests, allow_http=str(config.get("endpoint", "")).startswith("http://"))
    return AzureStore(place.container, config=config, client_options=options, retry_config=_retry(settings.requests))


def _gcs(place: Location, settings: StoreSettings) -> ObjectStore:
    gcp = settings.gcp
    key = gcp.service_account_key
    inline = key is not None and key.lstrip().startswith("{")
    config: Any = _given(
        service_account_key=key if inline else None,
        service_account=None if inline else key,
        base_url=gcp.endpoint,
    )
    options = _client_options(settings.requests, allow_http=(gcp.endpoint or "").startswith("http://"))
    return GCSStore(place.container, config=config, client_options=options, retry_config=_retry(settings.requests))


def _memory(place: Location, settings: StoreSettings) -> ObjectStore:  # noqa: ARG001 (memory has no settings)
    """Shared by name inside the process."""
    with _memories_lock:
        return _memories.setdefault(place.container, MemoryStore())


def _given(**config: str | None) -> dict[str, str]:
    return {key: value for key, value in config.items() if value}


def _emulator(endpoint: str | None) -> dict[str, Any]:
    """Azurite's well-known account, which is no secret, at its usual address or the one given."""
    address = (endpoint or "http://127.0.0.1:10000").rstrip("/")
    return {
        "account_name": _EMULATOR_ACCOUNT,
        "account_key": _EMULATOR_KEY,
        "endpoint": f"{address.removesuffix(f'/{_EMULATOR_ACCOUNT}')}/{_EMULATOR_ACCOUNT}",
    }


def _connection(text: str) -> dict[str, Any]:
    """A connection string of the portal, `Key=value;...`, as obstore's settings."""
    pairs = (part.partition("=") for part in text.split(";") if part.strip())
    parts = {key.strip().lower(): value.strip() for key, _, value in pairs}
    if parts.get("usedevelopmentstorage", "").lower() == "true":
        return _emulator(None)
    account = parts.get("accountname")
    endpoint = parts.get("blobendpoint")
    if endpoint is None and account and (suffix := parts.get("endpointsuffix")):
        endpoint = f"{parts.get('defaultendpointsprotocol', 'https')}://{account}.blob.{suffix}"
    return _given(
        account_name=account,
        account_key=parts.get("accountkey"),
        sas_key=parts.get("sharedaccesssignature", "").removeprefix("?"),
        endpoint=endpoint.rstrip("/") if endpoint else None,
    )


def _client_options(requests: RequestSettings, *, allow_http: bool) -> Any:
    return {
        "allow_http": allow_http,
        "timeout": _LONGEST_TRANSFER,
        "read_timeout": timedelta(milliseconds=requests.timeout_ms),
        "connect_timeout": timedelta(milliseconds=min(requests.timeout_ms, 10_000)),
    }


def _retry(requests: RequestSettings) -> Any:
    """obstore waits a random time between the base and a bound that doubles, so that writers do not march in step."""
    return {
        "max_retries": requests.max_retries,
        "retry_timeout": timedelta(minutes=3),
        "backoff": {
            "init_backoff": timedelta(milliseconds=requests.base_delay_ms),
            "max_backoff": timedelta(milliseconds=max(requests.base_delay_ms, requests.max_delay_ms)),
            "base": 2,
        },
    }

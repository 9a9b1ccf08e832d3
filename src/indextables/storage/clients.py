"""Create obstore clients in the process that uses them, from our settings and the credentials of
the environment.

Settings that are not given are left to obstore, which reads the cloud's environment variables.
obstore does not read `~/.aws/credentials` and `~/.aws/config`; profiles in them are used if they
hold a key pair. A profile with single sign-on needs a provider class such as
`obstore.auth.boto3:Boto3CredentialProvider`.
"""

from __future__ import annotations

import configparser
import importlib
import inspect
import logging
import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Lock
from typing import Any, cast

from msgspec import Struct
from obstore.exceptions import BaseError
from obstore.store import AzureStore, GCSStore, MemoryStore, ObjectStore, S3Store

from indextables.config.registry import is_news
from indextables.config.storage import (
    AwsSettings,
    AzureSettings,
    GcpSettings,
    RequestSettings,
    StoreSettings,
)
from indextables.errors import InvalidInputError
from indextables.storage.location import Location
from indextables.storage.remote import read_failure

logger = logging.getLogger(__name__)
# What obstore finds automatically comes first, as it does for AWS's own tools.
_READ_BY_OBSTORE = (
    "AWS_ACCESS_KEY_ID",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
)
_READ_AGAIN_AFTER = timedelta(minutes=15)


class AwsProfile(Struct, frozen=True):
    """The active AWS profile. Calling it returns the keys in its file, so that rotated keys are
    picked up.
    """

    name: str
    credentials_file: Path
    config_file: Path

    def __call__(self) -> dict[str, Any]:
        """Return the keys in the form that obstore expects."""
        keys = self.keys()
        return {
            "access_key_id": keys.get("aws_access_key_id", ""),
            "secret_access_key": keys.get("aws_secret_access_key", ""),
            "token": keys.get("aws_session_token"),
            "expires_at": datetime.now(UTC) + _READ_AGAIN_AFTER,
        }

    def keys(self) -> dict[str, str]:
        """Return everything that both files contain about the profile."""
        if self.name == "default":
            section = self.name
        else:
            section = f"profile {self.name}"
        return {**_section(self.config_file, section), **_section(self.credentials_file, self.name)}


def find_profile(environment: Mapping[str, str]) -> AwsProfile | None:
    """Return the active profile if it holds a key pair and no environment variable takes
    precedence.
    """
    if any(environment.get(name) for name in _READ_BY_OBSTORE):
        return None
    folder = Path(environment.get("HOME") or Path.home()) / ".aws"
    profile = AwsProfile(
        environment.get("AWS_PROFILE") or "default",
        Path(environment.get("AWS_SHARED_CREDENTIALS_FILE") or folder / "credentials"),
        Path(environment.get("AWS_CONFIG_FILE") or folder / "config"),
    )
    keys = profile.keys()
    if keys.get("aws_access_key_id") and keys.get("aws_secret_access_key"):
        return profile
    return None


def _section(file: Path, name: str) -> dict[str, str]:
    parser = configparser.ConfigParser(interpolation=None)
    try:
        parser.read(file, encoding="utf-8")
    except (OSError, configparser.Error, UnicodeDecodeError):
        # Not an error here: without a usable file the rest of the chain applies.
        return {}
    if parser.has_section(name):
        return dict(parser.items(name))
    return {}


# Azurite's documented account, the same everywhere: its key is no secret.
EMULATOR_ACCOUNT = "devstoreaccount1"
EMULATOR_KEY = (
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)

# An overall limit would cut off large transfers that are going well; silence is limited instead.
_LONGEST_TRANSFER = timedelta(hours=6)


def s3_config(place: Location, aws: AwsSettings) -> dict[str, Any]:
    """Return the settings of an S3 client. With virtual-host addressing the endpoint includes the
    bucket.
    """
    config = present_only(
        access_key_id=aws.access_key,
        secret_access_key=aws.secret_key,
        token=aws.session_token,
        region=aws.region,
        endpoint=aws.endpoint,
    )
    if aws.path_style_access is not None:
        config["virtual_hosted_style_request"] = str(not aws.path_style_access).lower()
    if aws.endpoint and aws.path_style_access is False:
        scheme, _, host = aws.endpoint.partition("://")
        config["endpoint"] = (
            f"{scheme}://{place.container}.{host.removeprefix(f'{place.container}.')}"
        )
    return config


def azure_config(place: Location, azure: AzureSettings) -> dict[str, Any]:
    """Return the settings of an Azure client: single settings override the connection string, the
    URL's account both.
    """
    if azure.use_emulator:
        return _emulator(azure.endpoint)
    account, _, domain = place.host.partition(".")
    config = present_only(
        account_name=account or azure.account_name,
        account_key=azure.account_key,
        sas_key=azure.sas_token.removeprefix("?") if azure.sas_token else None,
        token=azure.bearer_token,
        tenant_id=azure.tenant_id,
        client_id=azure.client_id,
        client_secret=azure.client_secret,
        endpoint=azure.endpoint,
    )
    config = {**_connection(azure.connection_string or ""), **config}
    if domain.endswith("fabric.microsoft.com"):
        return {**config, "use_fabric_endpoint": "true"}
    if domain and "endpoint" not in config and not domain.endswith("core.windows.net"):
        config["endpoint"] = f"https://{account}.blob.{domain.partition('.')[2]}"
    return config


def gcs_config(gcp: GcpSettings) -> dict[str, Any]:
    """Return the settings of a Google client; the key is its JSON text or the path of its file."""
    key = gcp.service_account_key
    inline = key is not None and key.lstrip().startswith("{")
    return present_only(
        service_account_key=key if inline else None,
        service_account=None if inline else key,
        base_url=gcp.endpoint,
    )


def client_options(requests: RequestSettings, *, allow_http: bool) -> Any:
    """Return the timeouts of the client."""
    return {
        "allow_http": allow_http,
        "timeout": _LONGEST_TRANSFER,
        "read_timeout": timedelta(milliseconds=requests.timeout_ms),
        "connect_timeout": timedelta(milliseconds=min(requests.timeout_ms, 10_000)),
    }


def retry_config(requests: RequestSettings) -> Any:
    """Return the retry settings: random waits between the base and a bound that doubles."""
    return {
        "max_retries": requests.max_retries,
        "retry_timeout": timedelta(minutes=3),
        "backoff": {
            "init_backoff": timedelta(milliseconds=requests.base_delay_ms),
            "max_backoff": timedelta(
                milliseconds=max(requests.base_delay_ms, requests.max_delay_ms)
            ),
            "base": 2,
        },
    }


def present_only(**config: str | None) -> dict[str, Any]:
    """Return the entries of a configuration that are present."""
    return {key: value for key, value in config.items() if value}


def _emulator(endpoint: str | None) -> dict[str, Any]:
    """Return the Azurite emulator at its default or the given address."""
    address = (
        (endpoint or "http://127.0.0.1:10000").rstrip("/").removesuffix(f"/{EMULATOR_ACCOUNT}")
    )
    return present_only(
        account_name=EMULATOR_ACCOUNT,
        account_key=EMULATOR_KEY,
        endpoint=f"{address}/{EMULATOR_ACCOUNT}",
    )


def _connection(text: str) -> dict[str, Any]:
    """Parse a connection string of the portal, `Key=value;...`."""
    pairs = (part.partition("=") for part in text.split(";") if part.strip())
    parts = {key.strip().lower(): value.strip() for key, _, value in pairs}
    if parts.get("usedevelopmentstorage", "").lower() == "true":
        return _emulator(None)
    account, endpoint = parts.get("accountname"), parts.get("blobendpoint")
    if endpoint is None and account and (suffix := parts.get("endpointsuffix")):
        endpoint = f"{parts.get('defaultendpointsprotocol', 'https')}://{account}.blob.{suffix}"
    return present_only(
        account_name=account,
        account_key=parts.get("accountkey"),
        sas_key=parts.get("sharedaccesssignature", "").removeprefix("?"),
        endpoint=endpoint.rstrip("/") if endpoint else None,
    )


_memories: dict[str, MemoryStore] = {}
_memories_lock = Lock()


def open_client(place: Location, settings: StoreSettings) -> ObjectStore:
    """Create the client of a remote location."""
    build = {"s3": _s3, "azure": _azure, "gcs": _gcs, "memory": _memory}[place.kind]
    try:
        return build(place, settings)
    except (BaseError, ValueError) as error:
        reason = read_failure(error, secrets_of(settings)).reason
        raise InvalidInputError(
            f"The store {place.url} cannot be opened: {reason}", url=place.url
        ) from None


def secrets_of(settings: StoreSettings) -> list[str]:
    """Return every text that must not be shown. Texts shorter than four letters are not treated as
    secrets.
    """
    aws, azure, gcp = settings.aws, settings.azure, settings.gcp
    texts = [
        aws.access_key,
        aws.secret_key,
        aws.session_token,
        azure.account_key,
        azure.connection_string,
    ]
    texts += [azure.sas_token, azure.bearer_token, azure.client_secret, gcp.service_account_key]
    texts += [settings.databricks.api_token, settings.databricks.client_secret]
    return [text for text in texts if text and len(text) > 3]


def load_provider(
    dotted: str, settings: Mapping[str, object] | None = None, *, url: str | None = None
) -> Callable[[], Any]:
    """Create the credential provider `module:Name`: a class that is instantiated, or a function.

    One with a parameter `settings` receives these, such as `databricks.workspaceUrl`. If there are
    settings for one without this parameter, a log line states that they are not used. One with a
    parameter `url` receives the URL of the store.
    """
    module, colon, name = dotted.partition(":")
    if not colon:
        module, _, name = dotted.rpartition(".")
    try:
        attribute = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        message = f"The credentials provider {dotted!r} cannot be loaded: {error}"
        hint = (
            "Give it as `module:Name`; the module must be importable wherever the store is opened."
        )
        raise InvalidInputError(message, hint=hint, key="aws.credentialsProviderClass") from error
    arguments: dict[str, Any] = {}
    if _takes(attribute, "settings"):
        arguments["settings"] = dict(settings or {})
    if url is not None and _takes(attribute, "url"):
        arguments["url"] = url
    if settings and "settings" not in arguments:
        say_unread(settings, f"{dotted} has no parameter `settings`")
    if isinstance(attribute, type):
        return _make_provider(attribute, arguments, dotted)
    # Not a partial: the repr of one shows its arguments, and a token may be among them.
    if arguments:
        return lambda: attribute(**arguments)
    return cast(Callable[[], Any], attribute)


def _make_provider(
    provider: Callable[..., Any], arguments: Mapping[str, Any], dotted: str
) -> Callable[[], Any]:
    try:
        made: Callable[[], Any] = provider(**arguments)
        return made
    except Exception as error:  # noqa: BLE001 - foreign code
        shown = str(error)
        for value in sorted(
            map(str, arguments.get("settings", {}).values()), key=len, reverse=True
        ):
            if len(value) > 3:
                shown = shown.replace(value, "<hidden>")
            else:
                shown = shown
        message = f"The credentials provider {dotted!r} failed: {type(error).__name__}: {shown}"
        # The cause would show what it was arguments.
        raise InvalidInputError(message, key="aws.credentialsProviderClass") from None


def _takes(provider: Callable[..., Any], name: str) -> bool:
    try:
        return name in inspect.signature(provider).parameters
    except (TypeError, ValueError):  # it is not written in Python, and does not say
        return False


def say_unread(settings: Mapping[str, object], why: str) -> None:
    """Log once that settings were given which are not used."""
    keys = ", ".join(sorted(settings))
    if is_news("unread", keys, why):
        logger.warning("Nothing reads %s: %s.", keys, why)


def _s3(place: Location, settings: StoreSettings) -> ObjectStore:
    aws, config = settings.aws, s3_config(place, settings.aws)
    provider: Any = None
    if aws.credentials_provider_class:
        provider = load_provider(
            aws.credentials_provider_class, settings.databricks.given(), url=place.url
        )
    elif not aws.access_key and (profile := find_profile(os.environ)):
        provider = profile
        if not (aws.region or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")):
            config.update(present_only(region=profile.keys().get("region")))
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
        client_options=client_options(
            settings.requests, allow_http=config.get("endpoint", "").startswith("http://")
        ),
        retry_config=retry_config(settings.requests),
    )


def _gcs(place: Location, settings: StoreSettings) -> ObjectStore:
    config = gcs_config(settings.gcp)
    return GCSStore(
        place.container,
        config=cast(Any, config),
        client_options=client_options(
            settings.requests, allow_http=config.get("base_url", "").startswith("http://")
        ),
        retry_config=retry_config(settings.requests),
    )


def _memory(place: Location, settings: StoreSettings) -> ObjectStore:  # noqa: ARG001 (memory has no settings)
    """Return a memory store, shared by name within the process."""
    with _memories_lock:
        return _memories.setdefault(place.container, MemoryStore())

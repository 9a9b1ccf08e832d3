"""Our settings as obstore's. What is not given is left out, so that obstore asks the cloud's own environment for it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from indextables.config.storage import AwsSettings, AzureSettings, GcpSettings, RequestSettings
from indextables.storage.location import Location

# Azurite's documented account, the same everywhere: its key is no secret.
EMULATOR_ACCOUNT = "devstoreaccount1"
EMULATOR_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="

# An overall limit would cut off large transfers that are going well; silence is limited instead.
_LONGEST_TRANSFER = timedelta(hours=6)


def s3_config(place: Location, aws: AwsSettings) -> dict[str, Any]:
    """Settings of an S3 client. With the bucket in the host name, obstore wants it in the endpoint too."""
    config = given(
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
        config["endpoint"] = f"{scheme}://{place.container}.{host.removeprefix(f'{place.container}.')}"
    return config


def azure_config(place: Location, azure: AzureSettings) -> dict[str, Any]:
    """Settings of an Azure client: single settings before the connection string, the URL's account before both."""
    if azure.use_emulator:
        return _emulator(azure.endpoint)
    account, _, domain = place.host.partition(".")
    config = given(
        account_name=account or azure.account_name,
        account_key=azure.account_key,
        sas_key=azure.sas_token.removeprefix("?") if azure.sas_token else None,
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
    """Settings of a Google client; the key is its JSON text or the path of its file."""
    key = gcp.service_account_key
    inline = key is not None and key.lstrip().startswith("{")
    return given(
        service_account_key=key if inline else None,
        service_account=None if inline else key,
        base_url=gcp.endpoint,
    )


def client_options(requests: RequestSettings, *, allow_http: bool) -> Any:
    """How long the client waits."""
    return {
        "allow_http": allow_http,
        "timeout": _LONGEST_TRANSFER,
        "read_timeout": timedelta(milliseconds=requests.timeout_ms),
        "connect_timeout": timedelta(milliseconds=min(requests.timeout_ms, 10_000)),
    }


def retry_config(requests: RequestSettings) -> Any:
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


def given(**config: str | None) -> dict[str, Any]:
    """What was given of a configuration."""
    return {key: value for key, value in config.items() if value}


def _emulator(endpoint: str | None) -> dict[str, Any]:
    """Azurite at its usual address or the one given."""
    address = (endpoint or "http://127.0.0.1:10000").rstrip("/").removesuffix(f"/{EMULATOR_ACCOUNT}")
    return given(account_name=EMULATOR_ACCOUNT, account_key=EMULATOR_KEY, endpoint=f"{address}/{EMULATOR_ACCOUNT}")


def _connection(text: str) -> dict[str, Any]:
    """A connection string of the portal, `Key=value;...`."""
    pairs = (part.partition("=") for part in text.split(";") if part.strip())
    parts = {key.strip().lower(): value.strip() for key, _, value in pairs}
    if parts.get("usedevelopmentstorage", "").lower() == "true":
        return _emulator(None)
    account, endpoint = parts.get("accountname"), parts.get("blobendpoint")
    if endpoint is None and account and (suffix := parts.get("endpointsuffix")):
        endpoint = f"{parts.get('defaultendpointsprotocol', 'https')}://{account}.blob.{suffix}"
    return given(
        account_name=account,
        account_key=parts.get("accountkey"),
        sas_key=parts.get("sharedaccesssignature", "").removeprefix("?"),
        endpoint=endpoint.rstrip("/") if endpoint else None,
    )

"""Our settings become obstore's, for every cloud and every way to say where it is."""

from __future__ import annotations

from typing import Any

import pytest

from indextables.config.storage import AwsSettings, AzureSettings, GcpSettings
from indextables.storage.clients import EMULATOR_KEY, azure_config, gcs_config, s3_config
from indextables.storage.location import parse_location

BUCKET = parse_location("s3://bucket/t")
CONTAINER = parse_location("az://container/t")
IN_URL = parse_location("abfss://container@acc.dfs.core.windows.net/t")
IN_CHINA = parse_location("abfss://container@acc.dfs.core.chinacloudapi.cn/t")
IN_FABRIC = parse_location("abfss://workspace@onelake.dfs.fabric.microsoft.com/lake/t")
EMULATOR = {"account_name": "devstoreaccount1", "account_key": EMULATOR_KEY}


@pytest.mark.parametrize(
    ("settings", "config"),
    [
        (AwsSettings(), {}),
        (AwsSettings(region="eu-1", allow_http=True), {"region": "eu-1"}),
        (
            AwsSettings("i", "s", "t"),
            {"access_key_id": "i", "secret_access_key": "s", "token": "t"},
        ),
        (AwsSettings(path_style_access=True), {"virtual_hosted_style_request": "false"}),
        (AwsSettings(path_style_access=False), {"virtual_hosted_style_request": "true"}),
        (AwsSettings(endpoint="https://oss.example.com"), {"endpoint": "https://oss.example.com"}),
        (
            AwsSettings(endpoint="https://oss.example.com", path_style_access=False),
            {"endpoint": "https://bucket.oss.example.com", "virtual_hosted_style_request": "true"},
        ),
        (
            AwsSettings(endpoint="https://bucket.oss.example.com", path_style_access=False),
            {"endpoint": "https://bucket.oss.example.com", "virtual_hosted_style_request": "true"},
        ),
    ],
)
def test_s3(settings: AwsSettings, config: dict[str, Any]) -> None:
    assert s3_config(BUCKET, settings) == config


@pytest.mark.parametrize(
    ("url", "settings", "config"),
    [
        (
            CONTAINER,
            AzureSettings(account_name="a", account_key="k"),
            {"account_name": "a", "account_key": "k"},
        ),
        (IN_URL, AzureSettings(account_name="other"), {"account_name": "acc"}),
        (
            IN_URL,
            AzureSettings(sas_token="?sv=1&sig=2"),
            {"account_name": "acc", "sas_key": "sv=1&sig=2"},
        ),
        (
            IN_URL,
            AzureSettings(tenant_id="t", client_id="c", client_secret="s"),
            {"account_name": "acc", "tenant_id": "t", "client_id": "c", "client_secret": "s"},
        ),
        (
            IN_CHINA,
            AzureSettings(),
            {"account_name": "acc", "endpoint": "https://acc.blob.core.chinacloudapi.cn"},
        ),
        (IN_FABRIC, AzureSettings(), {"account_name": "onelake", "use_fabric_endpoint": "true"}),
        (
            CONTAINER,
            AzureSettings(use_emulator=True),
            {**EMULATOR, "endpoint": "http://127.0.0.1:10000/devstoreaccount1"},
        ),
        (
            CONTAINER,
            AzureSettings(use_emulator=True, endpoint="http://127.0.0.1:99/"),
            {**EMULATOR, "endpoint": "http://127.0.0.1:99/devstoreaccount1"},
        ),
        (
            CONTAINER,
            AzureSettings(
                connection_string="AccountName=a;AccountKey=k==;EndpointSuffix=core.windows.net"
            ),
            {
                "account_name": "a",
                "account_key": "k==",
                "endpoint": "https://a.blob.core.windows.net",
            },
        ),
        (
            CONTAINER,
            AzureSettings(
                connection_string="BlobEndpoint=https://x/;SharedAccessSignature=sig=2",
                account_name="b",
            ),
            {"account_name": "b", "endpoint": "https://x", "sas_key": "sig=2"},
        ),
        (
            CONTAINER,
            AzureSettings(connection_string="UseDevelopmentStorage=true"),
            {**EMULATOR, "endpoint": "http://127.0.0.1:10000/devstoreaccount1"},
        ),
    ],
)
def test_azure(url: Any, settings: AzureSettings, config: dict[str, Any]) -> None:
    assert azure_config(url, settings) == config


def test_gcs() -> None:
    assert gcs_config(GcpSettings()) == {}
    assert gcs_config(GcpSettings(' {"a": 1}', "http://x")) == {
        "service_account_key": ' {"a": 1}',
        "base_url": "http://x",
    }
    assert gcs_config(GcpSettings("/keys/me.json")) == {"service_account": "/keys/me.json"}

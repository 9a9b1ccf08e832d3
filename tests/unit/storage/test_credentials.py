"""Credentials: given, from the environment, from a profile, from a provider class; fresh, and never
shown.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from indextables.errors import AccessDeniedError, InvalidInputError, StorageError
from indextables.storage.clients import EMULATOR_KEY, find_profile, load_provider
from tests.support.fault_server import FaultServer, HttpFault
from tests.support.places import StorePlace

CALLS: list[str] = []


class ShortLived:
    """A provider whose credentials are as good as expired, so that every request asks for new ones."""

    def __call__(self) -> dict[str, Any]:
        CALLS.append("asked")
        soon = datetime.now(UTC) + timedelta(seconds=1)
        return {
            "access_key_id": f"id-{len(CALLS)}",
            "secret_access_key": "hidden",
            "token": None,
            "expires_at": soon,
        }


def refuse() -> dict[str, Any]:
    raise PermissionError("the vault is closed")


@pytest.fixture(autouse=True)
def no_foreign_credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    for name in (
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_PROFILE",
        "AWS_REGION",
        "AWS_DEFAULT_REGION",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setitem(sys.modules, "credentials_of_this_test", sys.modules[__name__])
    CALLS.clear()
    yield


def keyless(server: FaultServer, **options: str) -> StorePlace:
    """The server's place without the keys that it needs."""
    kept = {
        key: value
        for key, value in server.s3.options.items()
        if key not in ("aws.accessKey", "aws.secretKey")
    }
    return StorePlace(server.s3.url, {**kept, **options})


def used_keys(server: FaultServer) -> list[str]:
    """The key ids that requests were signed with."""
    signed = [headers.get("Authorization", "") for headers in server.headers]
    return [text.partition("Credential=")[2].partition("/")[0] for text in signed]


def test_keys_from_the_settings(fault_server: FaultServer) -> None:
    fault_server.s3.open().put("x", b"")
    assert used_keys(fault_server) == ["test-access-key"]


def test_a_temporary_key_brings_its_token(fault_server: FaultServer) -> None:
    StorePlace(
        fault_server.s3.url, {**fault_server.s3.options, "aws.sessionToken": "of-the-hour"}
    ).open().put("x", b"")
    assert fault_server.headers[0]["x-amz-security-token"] == "of-the-hour"


def test_keys_from_the_environment(
    fault_server: FaultServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "id-of-the-environment")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s")
    keyless(fault_server).open().put("x", b"")
    fault_server.s3.open().put("x", b"")
    assert used_keys(fault_server) == ["id-of-the-environment", "test-access-key"]


def test_keys_from_a_profile(
    fault_server: FaultServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = tmp_path / ".aws"
    folder.mkdir()
    text = "[default]\naws_access_key_id = id-default\naws_secret_access_key = s%%\n"
    (folder / "credentials").write_text(
        f"{text}[work]\naws_access_key_id = id-work\naws_secret_access_key = s\n"
    )
    (folder / "config").write_text(
        "[default]\nregion = eu-west-1\n[profile work]\nregion = eu-north-1\n"
    )
    keyless(fault_server, **{"aws.region": ""}).open().put("x", b"")
    monkeypatch.setenv("AWS_PROFILE", "work")
    keyless(fault_server).open().put("x", b"")
    assert used_keys(fault_server) == ["id-default", "id-work"]
    profile = find_profile({"HOME": str(tmp_path), "AWS_PROFILE": "work"})
    assert profile is not None
    assert profile.keys()["region"] == "eu-north-1"


def test_no_profile_where_something_goes_before_it_or_there_is_none(tmp_path: Path) -> None:
    (tmp_path / "credentials").write_text(
        "[default]\naws_access_key_id = i\naws_secret_access_key = s\n"
    )
    file = {"AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "credentials"), "HOME": str(tmp_path)}
    assert find_profile(file) is not None
    assert find_profile({**file, "AWS_ACCESS_KEY_ID": "x"}) is None
    assert find_profile({**file, "AWS_PROFILE": "other"}) is None
    assert find_profile({"HOME": str(tmp_path / "nowhere")}) is None
    (tmp_path / "credentials").write_text("this is no profile")
    assert find_profile(file) is None


def test_a_provider_is_asked_again_when_its_credentials_expire(fault_server: FaultServer) -> None:
    provider = {"aws.credentialsProviderClass": "credentials_of_this_test:ShortLived"}
    store = keyless(fault_server, **provider).open()
    assert CALLS == []
    store.put("x", b"1")
    time.sleep(0.2)  # obstore does not ask twice within a tenth of a second
    assert store.get("x") == b"1"
    assert used_keys(fault_server) == ["id-1", "id-2"]


def test_a_provider_that_fails_is_access_denied(fault_server: FaultServer) -> None:
    store = keyless(
        fault_server, **{"aws.credentialsProviderClass": "credentials_of_this_test:refuse"}
    ).open()
    for use in (
        lambda: store.get("x"),
        lambda: store.put_if_absent("x", b""),
        lambda: [*store.list()],
    ):
        with pytest.raises(AccessDeniedError, match="the vault is closed"):
            use()
    assert fault_server.requests == []


@pytest.mark.parametrize(
    "dotted", ["no_such_module:Name", "indextables.errors:NoSuchName", "nothing", ""]
)
def test_a_provider_that_cannot_be_loaded(dotted: str) -> None:
    with pytest.raises(InvalidInputError, match="cannot be loaded"):
        load_provider(dotted)


def test_secrets_that_a_store_repeats_are_hidden(fault_server: FaultServer) -> None:
    fault_server.plan(
        HttpFault(status=400, code="key test-secret-key is bad, and sig=abc%2Fdef&x=1")
    )
    with pytest.raises(StorageError) as caught:
        fault_server.s3.open().get("x")
    assert "test-secret-key" not in str(caught.value)
    assert "abc%2Fdef" not in str(caught.value)
    assert "<hidden>" in str(caught.value)
    assert caught.value.__cause__ is None


class TestAzure:
    """The several ways to say which account it is."""

    def test_a_connection_string(self, azure: StorePlace) -> None:
        endpoint = azure.options["azure.endpoint"]
        text = f"AccountName=devstoreaccount1;AccountKey={EMULATOR_KEY};BlobEndpoint={endpoint}/devstoreaccount1;"
        store = StorePlace(f"{azure.url}/connection", {"azure.connectionString": text}).open()
        store.put("x", b"1")
        assert store.get("x") == b"1"

    def test_a_key_that_is_none(self) -> None:
        options = {"azure.accountName": "acc", "azure.accountKey": "not base64!"}
        with pytest.raises(InvalidInputError, match="cannot be opened") as caught:
            StorePlace("az://container/t", options).open()
        assert "not base64!" not in str(caught.value)

    def test_a_wrong_key_is_access_denied(self, azure: StorePlace) -> None:
        endpoint = f"{azure.options['azure.endpoint']}/devstoreaccount1"
        options = {
            "azure.endpoint": endpoint,
            "azure.accountName": "devstoreaccount1",
            "azure.accountKey": "d3Jvbmc=",
        }
        with pytest.raises(AccessDeniedError):
            StorePlace(azure.url, options).open().get("x")

    def test_the_account_in_the_url(self) -> None:
        options = {"azure.accountKey": "d3Jvbmc="}
        assert (
            StorePlace("abfss://c@acc.dfs.core.windows.net/t", options)
            .open()
            .url.startswith("abfss://c@acc.")
        )
        with pytest.raises(InvalidInputError, match=r"[Aa]ccount"):
            StorePlace("az://c/t", options).open()

"""A store is described by a path or URL and settings, and opened elsewhere."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest

from indextables import config
from indextables.config.storage import AwsSettings, StoreSettings
from indextables.errors import InvalidInputError, StorageError, UnknownOptionError
from indextables.storage.local import LocalStore
from indextables.storage.location import parse_location
from indextables.storage.remote import RemoteStore
from indextables.storage.spec import MeteredStore, StoreSpec, open_store

SECRETS = {
    "aws.accessKey": "AKIA-KEY",
    "aws.secretKey": "S3CRET",
    "aws.sessionToken": "T0KEN",
    "aws.region": "eu-1",
}


@pytest.mark.parametrize(
    ("url", "kind", "canonical"),
    [
        ("/data/t", "local", "/data/t"),
        ("/data/x/../t/", "local", "/data/t"),
        ("/data/a:b%20c", "local", "/data/a:b%20c"),
        ("file:///data/a%20b", "local", "/data/a b"),
        ("file:/data/t", "local", "/data/t"),
        ("file://localhost/data/t", "local", "/data/t"),
        ("s3://bucket/a/t", "s3", "s3://bucket/a/t"),
        ("s3a://bucket/a/t/", "s3", "s3a://bucket/a/t"),
        ("s3n://bucket", "s3", "s3n://bucket"),
        ("S3://Bucket/A%20b c", "s3", "s3://Bucket/A%20b c"),
        ("gs://bucket/t", "gcs", "gs://bucket/t"),
        ("az://container/t", "azure", "az://container/t"),
        ("abfss://c@acc.dfs.core.windows.net/t", "azure", "abfss://c@acc.dfs.core.windows.net/t"),
        ("abfs://c@acc.dfs.core.windows.net/t", "azure", "abfs://c@acc.dfs.core.windows.net/t"),
        ("wasbs://c@acc.blob.core.windows.net/t", "azure", "wasbs://c@acc.blob.core.windows.net/t"),
        ("hdfs://namenode:8020/a/t", "hdfs", "hdfs://namenode:8020/a/t"),
        ("hdfs:///a/t/", "hdfs", "hdfs:///a/t"),
        ("viewfs://cluster/t", "hdfs", "viewfs://cluster/t"),
        ("memory://name/t", "memory", "memory://name/t"),
        ("memory://", "memory", "memory://"),
    ],
)
def test_urls(url: str, kind: str, canonical: str) -> None:
    place = parse_location(url)
    assert (place.kind, place.url) == (kind, canonical)
    assert parse_location(place.url) == place


def test_the_parts_of_a_url() -> None:
    place = parse_location("abfss://c@acc.dfs.core.windows.net/a/b")
    assert (place.container, place.host, place.folder) == ("c", "acc.dfs.core.windows.net", "a/b")
    assert parse_location("s3://bucket").folder == ""


def test_a_relative_path_is_made_absolute_where_it_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert StoreSpec.from_url("t").url == str(tmp_path / "t")
    assert StoreSpec.from_url(Path("t")).url == str(tmp_path / "t")


@pytest.mark.parametrize(
    ("url", "match"),
    [
        ("", "empty"),
        ("ftp://host/t", "no store for ftp"),
        ("s3:///t", "names no bucket"),
        ("az:///t", "names no bucket"),
        ("s3://key:secret@bucket/t", "nothing else"),
        ("az://container/t?sig=secret", "nothing else"),
        ("s3://bucket/../t", "not a path"),
        ("gs://bucket/a//b", "not a path"),
        ("/data/a\0b", "NUL"),
        ("a\0b", "NUL"),
        ("file:///data/a%00b", "NUL"),
        ("file:/data/a\0b", "NUL"),
        ("s3://bucket\0/t", "NUL"),
        ("memory://a\0b/t", "NUL"),
        ("file://host/t", "host 'host'"),
        ("file://data/t", "host 'data'"),
    ],
)
def test_urls_that_are_refused(url: str, match: str) -> None:
    with pytest.raises(InvalidInputError, match=match) as caught:
        StoreSpec.from_url(url)
    assert "secret" not in str(caught.value).replace("aws.secretKey", "")


def test_a_file_url_with_a_host_says_what_may_be_meant() -> None:
    with pytest.raises(InvalidInputError) as caught:
        StoreSpec.from_url("file://data/my%20t")
    assert "file:///data/my t" in (caught.value.hint or "")


def test_settings_are_taken_as_the_kind_of_store_needs_them() -> None:
    options = {**SECRETS, "azure.accountName": "acc", "storage.retry.maxRetries": "3"}
    s3 = StoreSpec.from_url("s3://bucket/t", options)
    assert s3.options.aws == AwsSettings("AKIA-KEY", "S3CRET", "T0KEN", "eu-1")
    assert s3.options.azure.account_name is None
    assert s3.options.requests.max_retries == 3
    assert StoreSpec.from_url("/data/t", options).options == StoreSettings()
    assert StoreSpec.from_url("s3://bucket/t", config.resolve(options=options)) == s3
    with pytest.raises(UnknownOptionError, match=r"aws\.secretKey"):
        StoreSpec.from_url("s3://bucket/t", {"aws.secretkeys": "x"})


def test_no_secret_is_shown() -> None:
    spec = StoreSpec.from_url("s3://bucket/t", SECRETS)
    shown = [
        repr(spec),
        str(spec),
        repr(spec.options),
        repr(open_store(spec)),
        repr(config.resolve(options=SECRETS)),
    ]
    for secret in ("AKIA-KEY", "S3CRET", "T0KEN"):
        assert not [text for text in shown if secret in text]


def test_every_credential_is_flagged_secret() -> None:
    words = ("key", "secret", "token", "connectionstring")
    for key, setting in config.REGISTRY.settings.items():
        if key.startswith(("aws.", "azure.", "gcp.")):
            assert setting.secret == key.lower().endswith(words), key


def test_a_spec_travels_and_an_open_remote_store_does_not() -> None:
    spec = StoreSpec.from_url("s3://bucket/t", SECRETS)
    again = pickle.loads(pickle.dumps(spec))
    assert (again, hash(again)) == (spec, hash(spec))
    with pytest.raises(StorageError, match="StoreSpec"):
        pickle.dumps(open_store(spec))


def test_what_a_spec_opens(tmp_path: Path) -> None:
    local, remote = (
        open_store(StoreSpec.from_url(tmp_path)),
        open_store(StoreSpec.from_url("memory://x")),
    )
    assert isinstance(local, MeteredStore)
    assert isinstance(local.inner, LocalStore)
    assert isinstance(remote, MeteredStore)
    assert isinstance(remote.inner, RemoteStore)
    assert not os.listdir(tmp_path)  # noqa: PTH208


def test_memory_is_shared_by_name() -> None:
    open_store(StoreSpec("memory://spec-a/t")).put("x", b"1")
    assert open_store(StoreSpec("memory://spec-a/t")).get("x") == b"1"
    assert open_store(StoreSpec("memory://spec-a")).get("t/x") == b"1"
    assert open_store(StoreSpec("memory://spec-b/t")).head("x") is None

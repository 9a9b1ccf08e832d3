"""Credentials of Unity Catalog, against a local server in place of a workspace."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from indextables.errors import InvalidInputError, StorageError
from indextables.storage.clients import load_provider
from indextables.storage.unity_catalog import UnityCatalogCredentials

CLASS = "indextables.storage.unity_catalog:UnityCatalogCredentials"


class Workspace(ThreadingHTTPServer):
    """A workspace: which requests came, and how many of them it answers with an error first."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests: list[tuple[str, str, str]] = []
        self.failures = 0
        self.granted = {"PATH_READ_WRITE", "PATH_READ"}
        self.lifetime_s = 3600

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        workspace = self.server
        assert isinstance(workspace, Workspace)
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        workspace.requests.append((self.path, self.headers["Authorization"], body))
        if workspace.failures:
            workspace.failures -= 1
            self.reply(503, {})
        elif self.path == "/oidc/v1/token":
            known = (
                self.headers["Authorization"] == "Basic " + base64.b64encode(b"me:secret").decode()
            )
            self.reply(*((200, {"access_token": "of-client"}) if known else (401, {})))
        elif json.loads(body)["operation"] not in workspace.granted:
            self.reply(403, {})
        else:
            keys = {
                "access_key_id": "ASIA1",
                "secret_access_key": "hidden",
                "session_token": "session",
            }
            expires = int((time.time() + workspace.lifetime_s) * 1000)
            self.reply(200, {"aws_temp_credentials": keys, "expiration_time": expires})

    def reply(self, status: int, document: dict[str, Any]) -> None:
        content = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Keep the output of the tests clean."""


@pytest.fixture
def workspace() -> Iterator[Workspace]:
    with Workspace() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_a_token_gets_credentials_of_the_path_once(workspace: Workspace) -> None:
    settings = {"databricks.workspaceUrl": workspace.url, "databricks.apiToken": "dapi-1"}
    provider = load_provider(CLASS, settings, url="s3://bucket/logs")
    found = provider()
    assert (found["access_key_id"], found["secret_access_key"], found["token"]) == (
        "ASIA1",
        "hidden",
        "session",
    )
    remaining = found["expires_at"].timestamp() - time.time()
    assert 3200 < remaining <= 3300  # five minutes before they expire
    assert load_provider(CLASS, settings, url="s3://bucket/logs")() == found
    (path, authorization, body) = workspace.requests.pop()
    assert not workspace.requests and authorization == "Bearer dapi-1"
    assert path == "/api/2.1/unity-catalog/temporary-path-credentials"
    assert json.loads(body) == {"url": "s3://bucket/logs", "operation": "PATH_READ_WRITE"}


def test_expired_credentials_are_requested_again(workspace: Workspace) -> None:
    settings = {"databricks.workspaceUrl": workspace.url, "databricks.apiToken": "dapi-2"}
    workspace.lifetime_s = 60  # less than the five minutes before which they are renewed
    provider = load_provider(CLASS, settings, url="s3://bucket/a")
    provider()
    provider()
    assert len(workspace.requests) == 2


def test_an_oauth_client(workspace: Workspace) -> None:
    settings = {
        "databricks.workspaceUrl": workspace.url + "/",
        "databricks.clientId": "me",
        "databricks.clientSecret": "secret",
    }
    load_provider(CLASS, settings, url="s3://bucket/b")()
    assert workspace.requests[0][0] == "/oidc/v1/token"
    assert workspace.requests[1][1] == "Bearer of-client"
    wrong = load_provider(
        CLASS, {**settings, "databricks.clientSecret": "typo"}, url="s3://bucket/c"
    )
    with pytest.raises(StorageError, match="refused the OAuth client"):
        wrong()


def test_credentials_for_reading_where_writing_is_not_granted(workspace: Workspace) -> None:
    settings: dict[str, object] = {
        "databricks.workspaceUrl": workspace.url,
        "databricks.apiToken": "dapi-3",
    }
    workspace.granted = {"PATH_READ"}
    assert load_provider(CLASS, settings, url="s3://bucket/d")()["access_key_id"] == "ASIA1"
    strict = {**settings, "databricks.fallback.enabled": False}
    with pytest.raises(StorageError, match="refused PATH_READ_WRITE credentials for s3://bucket/e"):
        load_provider(CLASS, strict, url="s3://bucket/e")()
    workspace.granted = set()
    with pytest.raises(StorageError, match="refused PATH_READ credentials"):
        load_provider(CLASS, settings, url="s3://bucket/e")()


def test_errors_that_pass_are_retried(workspace: Workspace) -> None:
    settings = {"databricks.workspaceUrl": workspace.url, "databricks.apiToken": "dapi-4"}
    workspace.failures = 2
    load_provider(CLASS, settings, url="s3://bucket/f")()
    assert len(workspace.requests) == 3
    workspace.failures = 9
    with pytest.raises(StorageError, match="status 503"):
        load_provider(CLASS, {**settings, "databricks.retry.attempts": 1}, url="s3://bucket/g")()
    assert len(workspace.requests) == 5


def test_missing_settings_are_named() -> None:
    with pytest.raises(
        InvalidInputError, match=r"need databricks\.workspaceUrl and a token or a client"
    ):
        UnityCatalogCredentials({"databricks.workspaceUrl": "https://x"}, "s3://bucket/h")

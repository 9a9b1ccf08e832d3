"""Temporary AWS credentials from Unity Catalog, for the setting `aws.credentialsProviderClass`.

The workspace is asked for credentials of the table's path, with a token (`databricks.apiToken`) or
as an OAuth client (`databricks.clientId` and `databricks.clientSecret`).
"""

from __future__ import annotations

import base64
import json
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

from indextables.errors import InvalidInputError, StorageError

_TIMEOUT_SECONDS = 30
_RETRIED = (429, 500, 502, 503, 504)
_cache: OrderedDict[tuple[str, str, str], dict[str, Any]] = OrderedDict()
_cache_lock = threading.Lock()


class UnityCatalogCredentials:
    """Credentials of one path of an external location, requested again before they expire."""

    def __init__(self, settings: Mapping[str, Any], url: str) -> None:
        workspace = settings.get("databricks.workspaceUrl")
        token, client = settings.get("databricks.apiToken"), settings.get("databricks.clientId")
        secret = settings.get("databricks.clientSecret")
        if not workspace or not (token or (client and secret)):
            raise InvalidInputError(
                "Credentials of Unity Catalog need databricks.workspaceUrl and a token or a client.",
                hint="Set databricks.apiToken, or databricks.clientId and databricks.clientSecret.",
            )
        self._workspace = str(workspace).rstrip("/")
        self._url = url
        self._token: str | None = token
        self._client: tuple[str, str] = (str(client), str(secret))
        self._identity = str(token or client)
        self._buffer = timedelta(
            minutes=int(settings.get("databricks.credential.refreshBuffer.minutes", 5))
        )
        self._retries = int(settings.get("databricks.retry.attempts", 3))
        self._may_fall_back = bool(settings.get("databricks.fallback.enabled", True))
        self._cache_size = int(settings.get("databricks.cache.maxSize", 100))

    def __call__(self) -> dict[str, Any]:
        """Return credentials in the form that the object store client takes."""
        key = (self._workspace, self._identity, self._url)
        with _cache_lock:
            known = _cache.get(key)
            if known is not None and known["expires_at"] > datetime.now(UTC):
                _cache.move_to_end(key)
                return dict(known)
        found = self._request_credentials()
        with _cache_lock:
            _cache[key] = found
            while len(_cache) > self._cache_size:
                _cache.popitem(last=False)
        return dict(found)

    def _request_credentials(self) -> dict[str, Any]:
        try:
            answer = self._ask("PATH_READ_WRITE")
        except PermissionError:
            if not self._may_fall_back:
                raise self._refusal_error("PATH_READ_WRITE") from None
            try:
                answer = self._ask("PATH_READ")
            except PermissionError:
                raise self._refusal_error("PATH_READ") from None
        keys = answer.get("aws_temp_credentials")
        if not keys:
            raise StorageError(
                f"Unity Catalog returned no AWS credentials for {self._url}.",
                hint="The class serves external locations on S3.",
                url=self._url,
            )
        expires = datetime.fromtimestamp(int(answer["expiration_time"]) / 1000, UTC)
        return {
            "access_key_id": keys["access_key_id"],
            "secret_access_key": keys["secret_access_key"],
            "token": keys["session_token"],
            "expires_at": expires - self._buffer,
        }

    def _ask(self, operation: str) -> dict[str, Any]:
        body = json.dumps({"url": self._url, "operation": operation}).encode()
        headers = {"Authorization": f"Bearer {self._bearer()}", "Content-Type": "application/json"}
        path = "/api/2.1/unity-catalog/temporary-path-credentials"
        return self._post(path, body, headers)

    def _bearer(self) -> str:
        if self._token is not None:
            return self._token
        both = base64.b64encode(":".join(self._client).encode()).decode()
        body = urlencode({"grant_type": "client_credentials", "scope": "all-apis"}).encode()
        headers = {
            "Authorization": f"Basic {both}",
            "Content-Type": "application/x-www-form-urlencoded",
        }
        try:
            return str(self._post("/oidc/v1/token", body, headers)["access_token"])
        except PermissionError:
            raise StorageError(
                f"{self._workspace} refused the OAuth client.",
                hint="Check databricks.clientId and databricks.clientSecret.",
            ) from None

    def _post(self, path: str, body: bytes, headers: Mapping[str, str]) -> dict[str, Any]:
        """Send a request, again after an error that may pass; PermissionError if it is refused."""
        request = Request(self._workspace + path, data=body, headers=dict(headers), method="POST")
        for attempt in range(self._retries + 1):
            try:
                with urlopen(request, timeout=_TIMEOUT_SECONDS) as response:
                    answer: dict[str, Any] = json.load(response)
                    return answer
            except HTTPError as error:
                if error.code in (401, 403):
                    raise PermissionError from None
                reason, passes = f"status {error.code}", error.code in _RETRIED
            except (URLError, TimeoutError, ValueError) as error:
                reason, passes = str(error), not isinstance(error, ValueError)
            if not passes or attempt == self._retries:
                break
            time.sleep(min(0.1 * 2**attempt, 5))
        raise StorageError(
            f"The request to {self._workspace}{path} failed: {reason}.", url=self._url
        )

    def _refusal_error(self, operation: str) -> StorageError:
        return StorageError(
            f"{self._workspace} refused {operation} credentials for {self._url}.",
            hint="Grant the principal EXTERNAL USE LOCATION on the external location.",
            url=self._url,
        )

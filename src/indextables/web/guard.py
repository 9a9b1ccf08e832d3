"""The guard before every answer of the service and the explorer.

Every user and every program of a machine reaches its loopback, so the address holds a secret that only the user who started
the server has. Without it nothing is answered. A web site whose own name leads to this machine is refused by the `Host` that
the browser sends, and what a page may load or be loaded into is limited to what the server itself sends.
"""

from __future__ import annotations

import secrets
from base64 import b64decode

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import HTMLResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from indextables.errors import AccessDeniedError, shown
from indextables.web.explorer import POLICY
from indextables.web.http_answers import PRODUCT, READ_ONLY, json_answer
from indextables.web.svg import element, joined, text

HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Guard:
    """Lets through what names this machine and holds the secret as the first part of its path, and takes that off.

    With `headers` the secret may be in the header `Authorization` instead, and questions may be posted; with no `names`
    any name of the machine is right, which is for servers that others reach.
    """

    def __init__(self, app: ASGIApp, token: str, *, names: frozenset[str], headers: bool = False) -> None:
        self._app = app
        self._token = token.encode()
        self._names = names
        self._methods = ("GET", "HEAD", "POST") if headers else ("GET", "HEAD")
        self._headers = headers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or refuse it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        if scope["type"] != "http":
            return
        host = Headers(scope=scope).get("host", "")
        name = host.rpartition(":")[0] if ":" in host.rpartition("]")[2] else host
        secret, slash, rest = scope["path"].removeprefix("/").partition("/")
        known = secrets.compare_digest(secret.encode("utf-8", "surrogateescape"), self._token) and bool(slash)
        by_header = self._headers and not known and self._is_authorized(Headers(scope=scope).get("authorization", ""))
        if self._names and name not in self._names:
            await self._refuse(403, f"The host {shown(name)} is not this machine.")(scope, receive, send)
            return
        if not (known or by_header):
            await self._refuse(401 if self._headers else 403, "The token is missing or wrong.")(scope, receive, send)
            return
        if scope["method"] not in self._methods:
            await self._refuse_method(scope)(scope, receive, send)
            return
        path = scope["path"] if by_header else f"/{rest}"
        inner = {**scope, "path": path, "raw_path": None, "root_path": ""}
        await self._app(inner, receive, _with_headers(send))

    def _refuse(self, status: int, message: str) -> Response:
        """The answer to a request that is not let in: a page for a browser, JSON for clients of either dialect."""
        if not self._headers:
            hint = "Open the whole address that the server printed when it started."
            content = [element("h1", text("Forbidden")), element("p", text(f"{message} {hint}"))]
            return HTMLResponse(joined(*content), status_code=status, headers=HEADERS)
        hint = "Send the token in the header Authorization, as Bearer, ApiKey or the password of Basic."
        error = AccessDeniedError(message, hint=hint if status == 401 else "Ask by the address of this machine.")
        reason = {"type": "security_exception", "reason": str(error)}
        headers = {**HEADERS, **PRODUCT, **({"WWW-Authenticate": "Bearer"} if status == 401 else {})}
        body = {"error": {**error.to_dict(), "root_cause": [reason], **reason}, "status": status}
        return json_answer(body, status, headers)

    def _refuse_method(self, scope: Scope) -> Response:
        if not self._headers:
            content = [element("h1", text("Method not allowed")), element("p", text("The pages are read by GET."))]
            return HTMLResponse(joined(*content), status_code=405, headers=HEADERS)
        reason = f"{scope['method']} {scope['path']} is not answered here. {READ_ONLY}"
        error = {"type": "method_not_allowed", "reason": reason}
        return json_answer({"error": {"root_cause": [error], **error}, "status": 405}, 405, {**HEADERS, **PRODUCT})

    def _is_authorized(self, header: str) -> bool:
        """Whether a header `Authorization` holds the secret: as Bearer, ApiKey, or the password of Basic."""
        scheme, _, value = header.partition(" ")
        given = value.strip().encode("utf-8", "surrogateescape")
        if scheme.lower() == "basic":
            try:
                given = b64decode(given, validate=True).partition(b":")[2]
            except ValueError:
                return False
        elif scheme.lower() not in ("bearer", "apikey"):
            return False
        return secrets.compare_digest(given, self._token)


def _with_headers(send: Send) -> Send:
    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
            headers.setdefault("Content-Security-Policy", POLICY)
        await send(message)

    return send_with_headers

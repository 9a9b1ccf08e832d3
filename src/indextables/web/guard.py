"""Access control of the service and the explorer.

Every user and program of a machine can connect to its loopback address, so every request needs a
secret that only the user of the server has. A `Host` header that names another machine is
refused, which protects against DNS rebinding. Response headers restrict what a page may load and
where it may be embedded.
"""

from __future__ import annotations

import secrets
from base64 import b64decode

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import HTMLResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from indextables.errors import AccessDeniedError, show_value
from indextables.web.explorer import POLICY
from indextables.web.http_answers import PRODUCT, READ_ONLY, json_answer
from indextables.web.svg import element, join_markup, text

HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Guard:
    """Middleware that accepts requests with the right host name and secret, and removes the secret
    from the path.

    With `headers`, the secret may be in the header `Authorization` instead, and POST is allowed.
    Without `names`, any host name is accepted, for servers that other machines use.
    """

    def __init__(
        self, app: ASGIApp, token: str, *, names: frozenset[str], headers: bool = False
    ) -> None:
        self._app = app
        self._token = token.encode()
        self._names = names
        self._methods = ("GET", "HEAD", "POST") if headers else ("GET", "HEAD")
        self._headers = headers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward one request, or refuse it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        if scope["type"] != "http":
            return
        host = Headers(scope=scope).get("host", "")
        if ":" in host.rpartition("]")[2]:
            name = host.rpartition(":")[0]
        else:
            name = host
        secret, slash, rest = scope["path"].removeprefix("/").partition("/")
        known = secrets.compare_digest(
            secret.encode("utf-8", "surrogateescape"), self._token
        ) and bool(slash)
        by_header = (
            self._headers
            and not known
            and self._is_authorized(Headers(scope=scope).get("authorization", ""))
        )
        if self._names and name not in self._names:
            await self._refuse(403, f"The host {show_value(name)} is not this machine.")(
                scope, receive, send
            )
            return
        if not (known or by_header):
            await self._refuse(401 if self._headers else 403, "The token is missing or wrong.")(
                scope, receive, send
            )
            return
        if scope["method"] not in self._methods:
            await self._refuse_method(scope)(scope, receive, send)
            return
        path = scope["path"] if by_header else f"/{rest}"
        inner = {**scope, "path": path, "raw_path": None, "root_path": ""}
        await self._app(inner, receive, _with_headers(send))

    def _refuse(self, status: int, message: str) -> Response:
        """Return the response to a refused request: a page for a browser, JSON for other clients."""
        if not self._headers:
            hint = "Open the whole address that the server printed when it started."
            content = [element("h1", text("Forbidden")), element("p", text(f"{message} {hint}"))]
            return HTMLResponse(join_markup(*content), status_code=status, headers=HEADERS)
        hint = "Send the token in the header Authorization, as Bearer, ApiKey or the password of Basic."
        error = AccessDeniedError(
            message, hint=hint if status == 401 else "Ask by the address of this machine."
        )
        reason = {"type": "security_exception", "reason": str(error)}
        headers = {
            **HEADERS,
            **PRODUCT,
            **({"WWW-Authenticate": "Bearer"} if status == 401 else {}),
        }
        body = {"error": {**error.to_dict(), "root_cause": [reason], **reason}, "status": status}
        return json_answer(body, status, headers)

    def _refuse_method(self, scope: Scope) -> Response:
        if not self._headers:
            content = [
                element("h1", text("Method not allowed")),
                element("p", text("The pages are read by GET.")),
            ]
            return HTMLResponse(join_markup(*content), status_code=405, headers=HEADERS)
        reason = f"{scope['method']} {scope['path']} is not answered here. {READ_ONLY}"
        error = {"type": "method_not_allowed", "reason": reason}
        return json_answer(
            {"error": {"root_cause": [error], **error}, "status": 405}, 405, {**HEADERS, **PRODUCT}
        )

    def _is_authorized(self, header: str) -> bool:
        """Return whether a header `Authorization` holds the secret as Bearer, ApiKey, or password
        of Basic.
        """
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

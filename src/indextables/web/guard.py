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
    Without `names`, any host name is accepted, for servers that other machines use. `write` is an
    application with a secret of its own, which opens nothing else.
    """

    def __init__(
        self,
        app: ASGIApp,
        token: str,
        *,
        names: frozenset[str],
        headers: bool = False,
        write: tuple[ASGIApp, str] | None = None,
    ) -> None:
        self._app = app
        self._token = token.encode()
        self._write = write
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
        in_path = secret.encode("utf-8", "surrogateescape")
        header = Headers(scope=scope).get("authorization", "")
        known = secrets.compare_digest(in_path, self._token) and bool(slash)
        by_header = self._headers and not known and _is_authorized(header, self._token)
        if self._names and name not in self._names:
            await self._refuse(403, f"The host {show_value(name)} is not this machine.")(
                scope, receive, send
            )
            return
        if self._write is not None and not (known or by_header):
            app, token = self._write[0], self._write[1].encode()
            in_path_too = secrets.compare_digest(in_path, token) and bool(slash)
            if in_path_too or _is_authorized(header, token):
                path = f"/{rest}" if in_path_too else scope["path"]
                inner = {**scope, "path": path, "raw_path": None, "root_path": ""}
                await app(inner, receive, _with_headers(send))
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


def _is_authorized(header: str, token: bytes) -> bool:
    """Return whether a header `Authorization` holds a secret as Bearer, ApiKey, or password of
    Basic. An ApiKey may also be an id and the secret in base64, as Beats send it.
    """
    scheme, _, value = header.partition(" ")
    scheme, given = scheme.lower(), value.strip().encode("utf-8", "surrogateescape")
    if scheme in ("bearer", "apikey") and secrets.compare_digest(given, token):
        return True
    if scheme not in ("basic", "apikey"):
        return False
    try:
        password = b64decode(given, validate=True).partition(b":")[2]
    except ValueError:
        return False
    return secrets.compare_digest(password, token)


def _with_headers(send: Send) -> Send:
    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
            headers.setdefault("Content-Security-Policy", POLICY)
        await send(message)

    return send_with_headers

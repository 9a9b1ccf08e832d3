"""A server for a browser on the same machine, and the guard before everything it answers.

Every user and every program of a machine reaches its loopback, so the address holds a secret that only who started the
server was told. Without it nothing is answered. A web site that has its own name lead here is refused by the `Host` that
the browser sends, and what a page may load or be loaded into is what the server itself sends.
"""

from __future__ import annotations

import errno
import secrets
import socket
from base64 import b64decode
from collections.abc import Callable

import uvicorn
from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.routing import Mount
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from indextables.errors import InvalidInputError
from indextables.web.explorer import POLICY, Explorer, Limits
from indextables.web.service import Service
from indextables.web.warehouse import Warehouse

LOOPBACK = "127.0.0.1"
_NAMES = {LOOPBACK, "localhost", "[::1]"}
_TOKEN_BYTES = 24
_CONNECTIONS = 200
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


def serve(warehouse: Warehouse, *, port: int, started: Callable[[str], None]) -> None:
    """Serve until interrupted, to this machine only. `started` is told the address, which nobody can guess."""
    token = secrets.token_urlsafe(_TOKEN_BYTES)
    limits = Limits()
    app = application(Explorer(warehouse, limits), token)
    with listening(LOOPBACK, port) as opened:
        config = uvicorn.Config(
            app, log_level="error", access_log=False, lifespan="off", limit_concurrency=_CONNECTIONS
        )
        started(f"http://{LOOPBACK}:{opened.getsockname()[1]}/{token}/")
        try:
            uvicorn.Server(config).run(sockets=[opened])
        except KeyboardInterrupt:
            return
        finally:
            limits.close()


def serve_searches(
    warehouse: Warehouse, *, host: str, port: int, token: str | None, started: Callable[[str, str], None]
) -> None:
    """The search service until interrupted. `started` is told the address and the token, which is made unless given."""
    secret = token or secrets.token_urlsafe(_TOKEN_BYTES)
    limits = Limits()
    names = frozenset(_NAMES) if host in _NAMES else frozenset[str]()
    app = service_application(Service(warehouse, limits), secret, names=names)
    with listening(host, port) as opened:
        config = uvicorn.Config(
            app, log_level="error", access_log=False, lifespan="off", limit_concurrency=_CONNECTIONS
        )
        started(f"http://{host}:{opened.getsockname()[1]}", secret)
        try:
            uvicorn.Server(config).run(sockets=[opened])
        except KeyboardInterrupt:
            return
        finally:
            limits.close()


def service_application(service: Service, token: str, *, names: frozenset[str]) -> ASGIApp:
    """The search service behind the guard."""
    return Guard(Starlette(routes=[Mount("/", routes=service.routes())]), token, names=names, headers=True)


def application(explorer: Explorer, token: str, *, names: frozenset[str] = frozenset()) -> ASGIApp:
    """The pages behind the guard: who does not know the token, or comes by another name, is told nothing."""
    return Guard(Starlette(routes=[Mount("/", routes=explorer.routes())]), token, names=frozenset(_NAMES | names))


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
        if (self._names and name not in self._names) or not (known or by_header):
            await PlainTextResponse("Forbidden", status_code=403, headers=HEADERS)(scope, receive, send)
            return
        if scope["method"] not in self._methods:
            await PlainTextResponse("Only questions are answered.", status_code=405, headers=HEADERS)(
                scope, receive, send
            )
            return
        path = scope["path"] if by_header else f"/{rest}"
        inner = {**scope, "path": path, "raw_path": None, "root_path": ""}
        await self._app(inner, receive, _with_headers(send))

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
    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
            headers.setdefault("Content-Security-Policy", POLICY)
        await send(message)

    return sent


def listening(host: str, port: int) -> socket.socket:
    """A socket at a port, or an error that says why there is none."""
    opened = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        opened.bind((host, port))
        opened.listen(128)
    except OSError as error:
        opened.close()
        in_use = error.errno == errno.EADDRINUSE
        why = "is in use by another program" if in_use else f"cannot be listened to: {error.strerror}"
        hint = "Choose another port, or 0 for any that is free."
        raise InvalidInputError(f"Port {port} of {host} {why}.", hint=hint, port=port) from None
    return opened

"""Run an HTTP application on a listening socket: in this process, or in several worker processes
that share the socket.

Worker processes are started afresh, not forked: tantivy, pyarrow and polars have threads that a
fork would lose. Each worker ends when the process that started it ends, whatever ended that one.
"""

from __future__ import annotations

import errno
import logging
import multiprocessing
import signal
import socket
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from types import FrameType
from typing import NoReturn

import uvicorn
from msgspec import Struct
from starlette.types import ASGIApp

from indextables.errors import InvalidInputError, UnavailableError

log = logging.getLogger(__name__)

MAX_CONNECTIONS = 200
"""Connections per process."""
MAX_WORKERS = 64
_STARTUP_SECONDS = 5.0
"""A worker that ends sooner would end again: the service stops instead of starting another one."""
_STOP_SECONDS = 10.0
_SHUTDOWN_SECONDS = 8
"""A request that is not answered so long after the service was stopped is cut off."""


def open_socket(host: str, port: int) -> socket.socket:
    """Return a listening socket.

    Raises:
        InvalidInputError: The port is in use, or the address cannot be bound.
    """
    # asyncio turns off Nagle's algorithm only where the protocol is named. With it, every answer on
    # a kept connection waits 40 ms for the client's acknowledgement.
    opened = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        opened.bind((host, port))
        opened.listen(128)
    except OSError as error:
        opened.close()
        in_use = error.errno == errno.EADDRINUSE
        if in_use:
            why = "is in use by another program"
        else:
            why = f"cannot be listened to: {error.strerror}"
        hint = "Choose another port, or 0 for any that is free."
        raise InvalidInputError(f"Port {port} of {host} {why}.", hint=hint, port=port) from None
    return opened


class Application(Struct, frozen=True):
    """An application, and what ends its threads after the last answer."""

    app: ASGIApp
    close: Callable[[], None]


def run_application(application: Application, opened: socket.socket) -> None:
    """Answer requests in this process until it is interrupted, then close the application."""
    try:
        _server_of(application.app).run(sockets=[opened])
    except KeyboardInterrupt:
        return
    finally:
        application.close()


def run_workers(make_app: Callable[[], Application], opened: socket.socket, count: int) -> None:
    """Answer requests in worker processes until this process is interrupted or terminated.

    Args:
        make_app: Returns the application of one worker. It is pickled.
        opened: The listening socket that all workers share.
        count: Number of worker processes.

    Raises:
        UnavailableError: A worker ended right after its start.
    """
    workers = [_Worker.start(make_app, opened) for _ in range(count)]
    previous = signal.signal(signal.SIGTERM, _interrupt)
    try:
        while True:
            ended = wait([worker.process.sentinel for worker in workers])
            workers = [
                _replace_worker(worker, make_app, opened)
                if worker.process.sentinel in ended
                else worker
                for worker in workers
            ]
    except KeyboardInterrupt:
        return
    finally:
        signal.signal(signal.SIGTERM, previous)
        for worker in workers:
            worker.process.terminate()
        for worker in workers:
            worker.process.join(_STOP_SECONDS)
            worker.process.kill()


class _Worker(Struct, frozen=True):
    """A worker process and when it was started."""

    process: BaseProcess
    started: float

    @classmethod
    def start(cls, make_app: Callable[[], Application], opened: socket.socket) -> _Worker:
        process = multiprocessing.get_context("spawn").Process(
            target=_work, args=(make_app, opened), daemon=True
        )
        process.start()
        return cls(process, time.monotonic())


def _replace_worker(
    worker: _Worker, make_app: Callable[[], Application], opened: socket.socket
) -> _Worker:
    code = worker.process.exitcode
    if time.monotonic() - worker.started < _STARTUP_SECONDS:
        hint = "Start the service with --workers 1 to see the error."
        raise UnavailableError(
            f"A worker of the service ended right after its start (exit code {code}).", hint=hint
        )
    log.error("A worker of the service ended (exit code %s); another one is started.", code)
    return _Worker.start(make_app, opened)


def _work(make_app: Callable[[], Application], opened: socket.socket) -> None:
    """Run one worker until it, or the process that started it, is stopped."""
    application = make_app()
    server = _server_of(application.app)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def stop_with_parent() -> None:
        parent.join()
        server.should_exit = True

    threading.Thread(target=stop_with_parent, daemon=True).start()
    try:
        server.run(sockets=[opened])
    except KeyboardInterrupt:
        return
    finally:
        application.close()


def _server_of(app: ASGIApp) -> uvicorn.Server:
    return uvicorn.Server(
        uvicorn.Config(
            app,
            log_level="error",
            access_log=False,
            lifespan="off",
            limit_concurrency=MAX_CONNECTIONS,
            timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
        )
    )


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt

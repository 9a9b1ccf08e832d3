"""A service that accepts rows, in a thread of the test, and what a client needs to reach it."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import uvicorn
from msgspec import Struct

from indextables.web.explorer import Limits
from indextables.web.ingestion import Ingest
from indextables.web.service import LOOPBACK, Service, service_application
from indextables.web.warehouse import Warehouse
from indextables.web.workers import open_socket
from indextables.web.write_service import WriteService, write_application

READ, WRITE = "the-read-token-of-these-tests", "the-write-token-of-these-tests"
QUICK = {"ingest.maxDelayMs": 20}


class Served(Struct):
    """A running service."""

    address: str
    ingest: Ingest


@contextmanager
def serve(
    *paths: str, options: Mapping[str, object] = QUICK, create: bool = False
) -> Iterator[Served]:
    limits, warehouse = Limits(), Warehouse(paths, {**QUICK, **options}, max_staleness=0)
    ingest = Ingest(warehouse, create=create)
    write = write_application(WriteService(ingest, limits)), WRITE
    app = service_application(Service(warehouse, limits), READ, names=frozenset(), write=write)
    opened = open_socket(LOOPBACK, 0)
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [opened]})
    thread.start()
    try:
        yield Served(f"http://{LOOPBACK}:{opened.getsockname()[1]}", ingest)
    finally:
        server.should_exit = True
        thread.join(30)
        ingest.close()
        limits.close()
        opened.close()

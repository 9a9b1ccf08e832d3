"""Free ports, and waiting until somebody listens."""

from __future__ import annotations

import socket
import time
from contextlib import closing, suppress


def free_port() -> int:
    with closing(socket.socket()) as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


def until_open(port: int) -> None:
    for _ in range(240):
        with suppress(OSError), closing(socket.create_connection(("127.0.0.1", port), 1)):
            return
        time.sleep(0.5)
    raise TimeoutError(f"nobody listens on port {port}")

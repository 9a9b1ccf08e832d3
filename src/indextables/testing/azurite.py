"""Azurite: fetched from npm once into a cache folder, and the one request that obstore cannot make for it."""

from __future__ import annotations

import base64
import fcntl
import hashlib
import hmac
import os
import subprocess
import urllib.request
from email.utils import formatdate
from pathlib import Path

from indextables.storage.client_config import EMULATOR_ACCOUNT, EMULATOR_KEY

VERSION = "3.37.0"
_API = "2021-08-06"


def install(npm: str) -> Path:
    """The script to run, installed first if need be; processes that want it at once wait for one another."""
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = caches / "indextables" / f"azurite-{VERSION}"
    folder.mkdir(parents=True, exist_ok=True)
    script = folder / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"
    done = folder / "installed"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            command = [npm, "install", "--prefix", str(folder), "--no-save", "--no-audit", "--no-fund"]
            command += ["--ignore-scripts", "--omit=dev", f"azurite@{VERSION}"]
            subprocess.run(command, check=True, capture_output=True, timeout=240)
            done.touch()
    return script


def create_container(endpoint: str, name: str) -> None:
    """Make a container, with the request signed as Azure wants it."""
    date = formatdate(usegmt=True)
    headers = f"x-ms-date:{date}\nx-ms-version:{_API}\n"
    text = "PUT" + "\n" * 12 + f"{headers}/{EMULATOR_ACCOUNT}/{EMULATOR_ACCOUNT}/{name}\nrestype:container"
    signature = base64.b64encode(hmac.digest(base64.b64decode(EMULATOR_KEY), text.encode(), hashlib.sha256)).decode()
    request = urllib.request.Request(
        f"{endpoint}/{EMULATOR_ACCOUNT}/{name}?restype=container",
        method="PUT",
        headers={"x-ms-date": date, "x-ms-version": _API, "Authorization": f"SharedKey {EMULATOR_ACCOUNT}:{signature}"},
    )
    with urllib.request.urlopen(request, timeout=30):
        return

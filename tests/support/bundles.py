"""Splits in the form of another engine."""

from __future__ import annotations

import json
import struct
from pathlib import Path


def stop_number_of(number: int) -> bytes:
    """A number in groups of seven bits, of which the last has its high bit set."""
    groups = [number & 127]
    while number := number >> 7:
        groups.append(number & 127)
    groups[-1] |= 128
    return bytes(groups)


def bundle(
    folder: Path,
    path: Path,
    *,
    magic: int = 403_881_646,
    version: int = 1,
    hotcache: bytes | None = None,
) -> Path:
    """Pack an index folder the way other engines do."""
    data, files = b"", {}
    for file in sorted(f for f in folder.iterdir() if not f.name.endswith(".lock")):
        files[file.name] = {"start": len(data), "end": len(data) + file.stat().st_size}
        data += file.read_bytes()
    directory = struct.pack("<II", magic, version) + json.dumps({"files": files}).encode()
    hot = (folder / "meta.json").read_bytes() if hotcache is None else hotcache
    path.write_bytes(
        data + directory + struct.pack("<I", len(directory)) + hot + struct.pack("<I", len(hot))
    )
    return path

"""Another engine as a process beside ours."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow as pa
from msgspec.structs import replace

from indextables import Table
from indextables.log import log_files
from indextables.model.actions import ProtocolAction
from indextables.model.state import StateManifest
from indextables.wire import version_file
from indextables.wire.state import decode_state, encode_state


def state_of(root: Path, version: int) -> StateManifest:
    path = root / log_files.state_path(version)
    return decode_state(path.read_bytes(), path=str(path))


def states(root: Path) -> list[int]:
    return sorted(
        int(p.name.removeprefix("state-v")) for p in (root / "_transaction_log").glob("state-v*")
    )


def other_engine_commits(root: Path, *, files: int | None = None) -> int:
    """What the other engine does: it reads the newest state, never a version file, and writes the
    next state.
    """
    before = states(root)[-1]
    state = state_of(root, before)
    if state.protocol_version > 4:
        raise AssertionError("the other engine refuses protocol version 5")
    after = before + 1
    manifests = state.manifests[:files] if files is not None else state.manifests
    target = root / log_files.state_path(after)
    target.parent.mkdir()
    target.write_bytes(encode_state(replace(state, state_version=after, manifests=manifests)))
    pointer = json.loads((root / log_files.POINTER).read_bytes())
    pointer.update({"version": after, "stateDir": target.parent.name})
    (root / log_files.POINTER).write_text(json.dumps(pointer))
    return after


def one_row(table: Table) -> pa.Table:
    return pa.Table.from_pylist([{"id": 77_000}], pa.schema([table.schema.field("id")]))


def appended_by_an_earlier_release(table: Table) -> Table:
    """A version of ours as earlier releases wrote it: no raised protocol, no state."""
    root = Path(table.path)
    before = states(root)
    pointer = (root / log_files.POINTER).read_bytes()
    table.append(one_row(table))
    path = root / log_files.version_path(table.version)
    actions = [
        a
        for a in version_file.decode(path.read_bytes(), path="v")
        if not isinstance(a, ProtocolAction)
    ]
    path.write_bytes(version_file.encode(actions))
    for version in set(states(root)) - set(before):
        shutil.rmtree(root / log_files.state_dir(version))
    (root / log_files.POINTER).write_bytes(pointer)
    return Table.open(table.path, options={"transaction.cache.enabled": False})


def fresh(table: Table) -> Table:
    """The table as a process sees it that remembers nothing."""
    return Table.open(table.path, options={"transaction.cache.enabled": False})

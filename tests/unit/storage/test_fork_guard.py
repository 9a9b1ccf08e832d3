"""A forked child of a process that used a remote or memory store gets an error at once, and never
hangs.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from indextables.storage.spec import StoreSpec
from tests.support.places import StorePlace

PROGRAM = """
import os, pickle, sys, warnings
from indextables.errors import StorageError
from indextables.storage.spec import open_store
warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn of what is being tested here
spec, folder, used_before = pickle.loads(bytes.fromhex(sys.argv[1])), sys.argv[2], sys.argv[3] == "used"
local = open_store(type(spec)(folder))
local.put("from the parent", b"")
if used_before:
    store = open_store(spec)
    store.put("x", b"parent")
child = os.fork()
if child == 0:
    local.put("from the child", b"")
    for use in (lambda: store.get("x"), lambda: [*store.list()], lambda: open_store(spec), lambda: local.get("x y")):
        try:
            if used_before:
                use()
            else:
                open_store(spec).put("x", b"child")
                print(open_store(spec).get("x").decode(), flush=True)
                break
        except StorageError as error:
            print(type(error).__name__, error, flush=True)
        except Exception as error:
            print(type(error).__name__, flush=True)
    os._exit(0)
os.waitpid(child, 0)
if used_before:
    print("parent reads", store.get("x").decode())
print(sorted(info.path for info in local.list()))
"""


def run(spec: StoreSpec, folder: Path, used: str) -> list[str]:
    command = [sys.executable, "-c", PROGRAM, pickle.dumps(spec).hex(), str(folder), used]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.fixture(params=["memory", "s3"])
def place(request: pytest.FixtureRequest) -> StorePlace:
    found: StorePlace = request.getfixturevalue(f"{request.param}_place")
    return found


def test_a_child_of_a_process_that_used_a_store(place: StorePlace, tmp_path: Path) -> None:
    said = run(place.spec, tmp_path / "local", "used")
    for line in said[:3]:
        assert line.startswith("StorageError")
        assert place.url in line
        assert "spawn" in line
    assert said[3:] == [
        "NotFoundError",
        "parent reads parent",
        "['from the child', 'from the parent']",
    ]


def test_a_child_of_a_process_that_did_not(place: StorePlace, tmp_path: Path) -> None:
    assert run(place.spec, tmp_path / "local", "unused") == [
        "child",
        "['from the child', 'from the parent']",
    ]

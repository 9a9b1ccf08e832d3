"""End processes at the n-th call that changes a table, whichever process makes it.

A statement of Spark changes a table in several processes: the session's, those that plan, and those
of its tasks. They share a folder whose files say what happens, and count. Without the file `plan`
stores are the plain ones.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from indextables.storage import spec
from indextables.storage.store import ObjectInfo, PutOutcome, Store
from tests.support.faulty_store import StoreWrapper

FOLDER = "INDEXTABLES_TEST_INTERRUPTION"
"""The environment variable with the folder."""
WORKERS = Path(__file__).parent / "spark_workers"


class Interrupted(BaseException):
    """The process of the test ends here."""


class _InterruptedStore(StoreWrapper):
    def __init__(self, inner: Store, folder: Path, *, is_worker: bool) -> None:
        super().__init__(inner)
        self._folder, self._is_worker = folder, is_worker

    def _pass(self) -> None:
        plan = json.loads((self._folder / "plan").read_bytes())
        with (self._folder / "calls").open("ab") as calls:
            calls.write(b".")
            calls.flush()
            number = os.fstat(calls.fileno()).st_size
        if number == 1 and plan["swap"]:
            table, other = plan["swap"]
            shutil.rmtree(table)
            shutil.copytree(other, table)
        if plan["at"] is not None and number >= plan["at"]:
            if self._is_worker:
                os._exit(77)
            raise Interrupted

    def put_if_absent(self, path: str, data: bytes) -> PutOutcome:
        self._pass()
        return self.inner.put_if_absent(path, data)

    def put(self, path: str, data: bytes) -> None:
        self._pass()
        self.inner.put(path, data)

    def put_file(self, path: str, source: Path) -> None:
        self._pass()
        self.inner.put_file(path, source)

    def delete(self, paths: Iterable[str | ObjectInfo]) -> None:
        for path in [*paths]:
            self._pass()
            self.inner.delete([path])


def install() -> None:
    """Make the stores of this worker process interruptible."""
    folder = Path(os.environ[FOLDER])
    module: Any = spec
    plain = module._open

    def opened(*given: Any) -> Store:
        store: Store = plain(*given)
        if not (folder / "plan").exists():
            return store
        return _InterruptedStore(store, folder, is_worker=True)

    module._open = opened


class Interruption:
    """What a test has planned in the shared folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def calls(self) -> int:
        """How many calls changed something."""
        calls = self._folder / "calls"
        return calls.stat().st_size if calls.exists() else 0

    @contextmanager
    def planned(
        self, *, at: int | None = None, swap: tuple[str, str] | None = None
    ) -> Iterator[None]:
        """End every process at its first call from the n-th on, or replace a table by another one
        before the first.
        """
        (self._folder / "calls").unlink(missing_ok=True)
        (self._folder / "plan").write_text(json.dumps({"at": at, "swap": swap}))
        plain: Any = spec._open

        def opened(*given: Any) -> Store:
            return _InterruptedStore(plain(*given), self._folder, is_worker=False)

        try:
            with mock.patch.object(spec, "_open", opened):
                yield
        finally:
            (self._folder / "plan").unlink()

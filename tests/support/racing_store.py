"""A store in which another writer is always first."""

from __future__ import annotations

from indextables.storage.store import PutOutcome, Store
from tests.support.faulty_store import FaultyStore
from tests.support.tables import append, open_on


class Racing(FaultyStore):
    """Another writer is always a moment faster, so many times."""

    def __init__(self, inner: Store, races: int) -> None:
        super().__init__(inner)
        self._races = iter(range(races))

    def put_if_absent(self, path: str, data: bytes) -> PutOutcome:
        n = next(self._races, None)
        if n is not None:
            append(open_on(self.inner), f"other{n}")
        return super().put_if_absent(path, data)

"""A place where a test may put a table: a URL nobody else uses, and the options to open it with."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from indextables.storage import Store, StoreSpec, open_store


class StorePlace(Struct, frozen=True):
    """A root for one test."""

    url: str
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def spec(self) -> StoreSpec:
        """The place as a description that travels to other processes."""
        return StoreSpec.from_url(self.url, self.options)

    def open(self) -> Store:
        """The place as a store."""
        return open_store(self.spec)

    def below(self, folder: str) -> StorePlace:
        """A place inside this one."""
        return StorePlace(f"{self.url}/{folder}", self.options)

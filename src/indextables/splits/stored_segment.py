"""The index of a split as a segment that can be merged: its files are copied out where the merge wants them."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path

from msgspec import Struct

from indextables.splits.proven import batches, read_proven
from indextables.splits.source import SplitSource
from indextables.splits.tail import SplitTail


class StoredSegment(Struct, frozen=True):
    """A segment inside a split."""

    source: SplitSource
    tail: SplitTail

    @property
    def segment_id(self) -> str:
        """Its name."""
        return self.tail.table.segment

    @property
    def rows(self) -> int:
        """The number of its documents."""
        return self.tail.table.rows

    def place(self, folder: Path, stem: str) -> None:
        """Write its composite files into a folder, under another name. Every byte is proven."""
        parts = [(component, wanted) for component in self.tail.table.components for wanted in component.ranges]
        with ExitStack() as opened:
            files: dict[str, int] = {}
            for component in self.tail.table.components:
                file = opened.enter_context((folder / f"{stem}.{component.name}").open("wb", buffering=0))
                files[component.name] = file.fileno()
                _write(file.fileno(), component.length - component.tail.length, self.tail.hot(component.tail))
            for batch in batches([wanted for _, wanted in parts]):
                some = [parts[at] for at in batch]
                for number, start, data in read_proven(self.source, [wanted for _, wanted in some], self.tail.path):
                    _write(files[some[number][0].name], start, data)


def _write(file: int, start: int, data: bytes) -> None:
    while data:
        written = os.pwrite(file, data, start)
        data, start = data[written:], start + written

"""What the bytes of a split are spent on. The sizes of a split's components add up to the size of its file.

rows        a column's values in Parquet, per column
term        the dictionary of a column's terms          idx        where each term occurs
pos         positions, for phrases                      fieldnorm  lengths, for scores
hot         the hot section: what every search reads first
footer      Parquet's footer, and everything that is not one of the others
"""

from __future__ import annotations

from msgspec import Struct

from indextables.errors import BadFileError
from indextables.splits.bundle import is_bundle, read_directory
from indextables.splits.mapping import DocMapping
from indextables.splits.source import SplitSource
from indextables.splits.tail import SplitTail, read_tail


class ComponentSize(Struct, frozen=True):
    """The bytes of one component, of one column where it belongs to one."""

    component: str
    field: str | None
    size_bytes: int


def component_sizes(source: SplitSource, *, footer_start: int | None = None) -> list[ComponentSize]:
    """The components of a split of either kind; of another engine's bundle, its files by their extension."""
    try:
        found = _sizes(read_tail(source, footer_start))
    except BadFileError:
        if source.size < 8 or not is_bundle(source.read_many([(source.size - 8, 8)])[0]):
            raise
        found = _bundle_sizes(source)
    rest = source.size - sum(size.size_bytes for size in found)
    return [*found, ComponentSize("footer", None, rest)]


def _bundle_sizes(source: SplitSource) -> list[ComponentSize]:
    bundle = read_directory(source)
    files = [(name.rpartition(".")[2], file) for name, file in sorted(bundle.files.items())]
    return [ComponentSize(name, None, file.end - file.start) for name, file in [*files, ("hot", bundle.hotcache)]]


def _sizes(tail: SplitTail) -> list[ComponentSize]:
    return [*_row_sizes(tail), *_index_sizes(tail), _hot_size(tail)]


def _row_sizes(tail: SplitTail) -> list[ComponentSize]:
    lengths = tail.places[:, :, 1].sum(axis=0)
    return [
        ComponentSize("rows", name, int(lengths[leaves.start : leaves.stop].sum()))
        for name, leaves in tail.leaves.items()
    ]


def _index_sizes(tail: SplitTail) -> list[ComponentSize]:
    names = {column.field: column.name for column in DocMapping.from_json(tail.table.mapping).columns}
    return [
        ComponentSize(component.name, names.get(found.field, found.field), found.length)
        for component in tail.table.components
        for found in component.ranges
    ]


def _hot_size(tail: SplitTail) -> ComponentSize:
    table = tail.table
    spans = [table.meta, table.chunks, *(component.tail for component in table.components)]
    return ComponentSize("hot", None, sum(span.length for span in spans))

"""A table that is only read. It loads a third of what `Table` loads: the command line opens it for one search."""

from __future__ import annotations

from indextables.table.opening import OpenVerbs
from indextables.table.search_verbs import SearchVerbs


class TableReader(OpenVerbs, SearchVerbs):
    """Open, scan, search and count, as `Table` does them."""

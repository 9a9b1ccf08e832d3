"""What a search page shows, as its address says it: every choice is a part of the address, so a link shows the same."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any
from urllib.parse import urlencode

from msgspec import Struct
from msgspec.structs import replace

from indextables.errors import InvalidInputError

SIZES = (25, 50, 100, 250)
SHAPES = ("table", "records")
FURTHEST = 10_000
"""How many hits can be paged through; more are exported."""
_MOST_TEXT = 20_000


class View(Struct, frozen=True):
    """The choices of a search page. What is not chosen is not in the address."""

    query: str = ""
    where: str = ""
    filters: tuple[str, ...] = ()
    """Queries beside the query, of facets that were clicked."""
    since: str = ""
    until: str = ""
    """Moments between which the time column lies, the second not included."""
    time: str = ""
    sort: str = ""
    columns: tuple[str, ...] = ()
    shape: str = "table"
    size: int = 50
    offset: int = 0
    version: int | None = None
    panels: bool = False
    """Facets, histogram and count in the page itself, for a browser without scripts."""

    @classmethod
    def of(cls, parameters: Iterable[tuple[str, str]]) -> View:
        """The view of an address; what cannot be meant is an error."""
        several: dict[str, list[str]] = {}
        for key, value in parameters:
            if len(value) > _MOST_TEXT:
                raise InvalidInputError(f"{key} has {len(value)} characters.", hint=f"At most {_MOST_TEXT}.", key=key)
            several.setdefault(key, []).append(value)
        one = {key: values[-1] for key, values in several.items()}
        size, offset = _number(one, "n", 50), _number(one, "from", 0)
        if not 1 <= size <= max(SIZES) or offset + size > FURTHEST:
            hint = f"A page has up to {max(SIZES)} hits, of the first {FURTHEST:,}. Narrow the search, or export it."
            raise InvalidInputError(
                f"Hits {offset + 1:,} to {offset + size:,} are not shown.", hint=hint, offset=offset
            )
        shape = one.get("as") or "table"
        if shape not in SHAPES:
            raise InvalidInputError(f"Hits are not shown as {shape!r}.", hint="As table or as records.", shape=shape)
        return cls(
            query=one.get("q", "").strip(),
            where=one.get("where", "").strip(),
            filters=tuple(dict.fromkeys(f for f in several.get("f", []) if f.strip())),
            since=one.get("since", "").strip(),
            until=one.get("until", "").strip(),
            time=one.get("time", ""),
            sort=one.get("sort", ""),
            columns=tuple(dict.fromkeys(c for c in several.get("c", []) if c)),
            shape=shape,
            size=size,
            offset=offset,
            version=_number(one, "v", 0) if one.get("v") else None,
            panels=one.get("panels") == "1",
        )

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Every choice as it stands in an address."""
        yield from (("q", self.query), ("where", self.where))
        yield from (("f", text) for text in self.filters)
        yield from (("since", self.since), ("until", self.until), ("time", self.time), ("sort", self.sort))
        yield from (("c", name) for name in self.columns)
        yield "as", "" if self.shape == "table" else self.shape
        yield "n", "" if self.size == 50 else str(self.size)
        yield "from", str(self.offset or "")
        yield "v", "" if self.version is None else str(self.version)
        yield "panels", "1" if self.panels else ""

    def parameters(self, *without: str) -> list[tuple[str, str]]:
        """The choices that were made, but for some."""
        return [(key, value) for key, value in self.pairs() if value and key not in without]

    def address(self, page: str = "search", **changes: Any) -> str:
        """The address of a page with other choices. A change of what is searched for starts at the first hit."""
        if "offset" not in changes and changes:
            changes["offset"] = 0
        words = _words(replace(self, **changes) if changes else self)
        return f"{page}?{words}" if words else page

    def with_filter(self, text: str) -> str:
        """The address with one filter more."""
        return self.address(filters=tuple(dict.fromkeys((*self.filters, text))))

    def without_filter(self, text: str) -> str:
        """The address with one filter less."""
        return self.address(filters=tuple(f for f in self.filters if f != text))


@lru_cache(maxsize=256)
def _words(view: View) -> str:
    """The choices as they stand in an address: a page has several links to parts of the same view."""
    return urlencode(view.parameters())


def _number(one: dict[str, str], key: str, default: int) -> int:
    value = one.get(key, "")
    if not value:
        return default
    if not value.isascii() or not value.isdigit() or len(value) > 18:
        raise InvalidInputError(f"{key}={value!r} is not a whole number.", hint="Give digits alone.", key=key)
    return int(value)

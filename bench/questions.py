"""The questions of `make bench-search`: words of every frequency, and each engine's way to answer
with rows.

An engine answers with an Arrow table, or with a number where a count is asked for. Each question is
asked for every word once, the engines by turns and each of them first in turn; then all of it
again. So the first time stands apart from the repeated one, and a slow minute of the machine is
everybody's.
"""

from __future__ import annotations

import os
import random
import re
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from indextables import Table

Answer = Callable[[str], "pa.Table | int"]
COLUMNS = ["ts", "message"]
WORDS = int(os.environ.get("WORDS", "200"))
MOST_SECONDS, FEWEST_WORDS = 60.0, 20
"""A question is not asked for more words when one round of it has taken so long; the figures say of
how many they are.
"""
_WORD = re.compile(r"[a-z]+|[0-9a-f]{12}")
_STOP_WORDS = frozenset(
    re.findall(r"\w+", "above after and at between by for from in of on the to while")
)
"""Words that one of the engines does not index, whatever it is told."""


@dataclass
class Timing:
    """Milliseconds of every question: on the clock, and of all cores."""

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    rows: int = 0

    def percentiles(self) -> tuple[float, float, float]:
        """The median, and what one in twenty and one in a hundred exceed."""
        p50, p95, p99 = np.percentile(self.wall, [50, 95, 99])
        return float(p50), float(p95), float(p99)

    def cpu_ms(self) -> float:
        """The median CPU time."""
        return float(np.median(self.cpu))


@dataclass(frozen=True)
class Question:
    """One kind of question, with the words it is asked for and who answers it."""

    what: str
    words: Sequence[str]
    engines: Mapping[str, Answer]

    def ask(self) -> tuple[dict[str, Timing], dict[str, Timing]]:
        """The first time and the second time, for every engine, of the same words."""
        first = self._round(self.words)
        asked = len(next(iter(first.values())).wall)
        return first, self._round(self.words[:asked])

    def _round(self, words: Sequence[str]) -> dict[str, Timing]:
        timings = {name: Timing() for name in self.engines}
        names = list(self.engines)
        over = time.monotonic() + MOST_SECONDS
        for turn, word in enumerate(words):
            if turn >= FEWEST_WORDS and time.monotonic() > over:
                break
            for place in range(len(names)):
                name = names[(turn + place) % len(names)]
                timing = timings[name]
                wall, cpu = time.perf_counter(), time.process_time()
                answer = self.engines[name](word)
                timing.wall.append((time.perf_counter() - wall) * 1000)
                timing.cpu.append((time.process_time() - cpu) * 1000)
                timing.rows += answer if isinstance(answer, int) else answer.num_rows
        return timings


@dataclass(frozen=True)
class Vocabulary:
    """Words, pairs and phrases of some data, and how many rows hold each word."""

    frequency: Counter[str]
    pairs: list[str]
    phrases: list[str]

    @classmethod
    def of(cls, messages: pa.ChunkedArray, *, seed: int = 1) -> Vocabulary:
        """The vocabulary of a column; every engine cuts these words in the same way."""
        frequency: Counter[str] = Counter()
        pairs: set[str] = set()
        phrases: set[str] = set()
        rng = random.Random(seed)
        for text in messages.to_pylist():
            tokens = [token for token in re.split(r"[^a-z0-9]+", text.lower()) if token]
            frequency.update(set(tokens))
            words = sorted({token for token in tokens if token.isalpha()} - _STOP_WORDS)
            if rng.random() < 0.02 and len(words) > 2:
                pairs.add(" ".join(rng.sample(words, 2)))
            if rng.random() < 0.02:
                phrases.update(
                    f"{a} {b}"
                    for a, b in pairwise(tokens)
                    if {a, b}.isdisjoint(_STOP_WORDS) and a.isalpha() and b.isalpha()
                )
        kept = Counter(
            {
                word: count
                for word, count in frequency.items()
                if _WORD.fullmatch(word) and word not in _STOP_WORDS
            }
        )
        return cls(kept, _sample(sorted(pairs), rng), _sample(sorted(phrases), rng))

    def words(self, *, least: int = 1, most: int | None = None, seed: int = 2) -> list[str]:
        """Words of mixed frequency: as many of each power of ten as there are, up to so many in
        all, then by turns.
        """
        rng = random.Random(seed)
        strata: dict[int, list[str]] = {}
        for word, count in sorted(self.frequency.items()):
            if count >= least and (most is None or count <= most):
                strata.setdefault(len(str(count)), []).append(word)
        for stratum in strata.values():
            rng.shuffle(stratum)
        chosen: list[str] = []
        while len(chosen) < WORDS and any(strata.values()):
            chosen += [stratum.pop() for stratum in strata.values() if stratum]
        return _sample(chosen[:WORDS], rng)


def _sample(words: list[str], rng: random.Random) -> list[str]:
    """So many different ones, and where there are fewer, each of them several times, in no order."""
    rng.shuffle(words)
    return (words * (WORDS // max(len(words), 1) + 1))[:WORDS] if words else []


def our_engine(table: Table) -> dict[str, Answer]:
    """How a table answers."""
    return {
        "top 10 of a word": lambda w: table.search(
            f"message:{w}", limit=10, columns=COLUMNS, score=True
        ),
        "top 10 of two words": lambda w: table.search(
            " AND ".join(f"message:{word}" for word in w.split()),
            limit=10,
            columns=COLUMNS,
            score=True,
        ),
        "phrase": lambda w: table.search(f'message:"{w}"', limit=10, columns=COLUMNS, score=True),
        "count of a word": lambda w: table.count(query=f"message:{w}"),
        "all hits with two columns": lambda w: table.search(f"message:{w}", columns=COLUMNS),
        "newest 10": lambda w: table.search(
            f"message:{w}", limit=10, columns=COLUMNS, order_by="ts DESC"
        ),
        "terms under a search": lambda w: table.aggregate(
            {"levels": {"terms": {"field": "level"}}}, query=f"message:{w}"
        ),
    }


def lance_engine(root: Path, data: pa.Table) -> dict[str, Answer]:
    """How a Lance dataset with a full-text index answers, its words cut as ours are."""
    import lance
    from lance.dataset import ColumnOrdering
    from lance.query import FullTextOperator, MatchQuery, PhraseQuery

    dataset = lance.write_dataset(data, str(root / "lance"))
    plain = {"stem": False, "remove_stop_words": False, "ascii_folding": False}
    dataset.create_scalar_index("message", "INVERTED", with_position=True, **plain)
    newest = [ColumnOrdering("ts", ascending=False, nulls_first=False)]
    every = data.num_rows

    def hits(query: Any, columns: list[str], limit: int, **more: Any) -> pa.Table:
        more["disable_scoring_autoprojection"] = True
        return dataset.scanner(
            full_text_query=query, columns=columns, limit=limit, **more
        ).to_table()

    def both(words: str) -> MatchQuery:
        return MatchQuery(words, "message", operator=FullTextOperator.AND)

    return {
        "top 10 of a word": lambda w: hits(w, [*COLUMNS, "_score"], 10),
        "top 10 of two words": lambda w: hits(both(w), [*COLUMNS, "_score"], 10),
        "phrase": lambda w: hits(PhraseQuery(w, "message"), [*COLUMNS, "_score"], 10),
        "all hits with two columns": lambda w: hits(w, COLUMNS, every),
        # A limit would be taken by score, before the order.
        "newest 10": lambda w: hits(w, COLUMNS, every, order_by=newest).slice(0, 10),
        "terms under a search": lambda w: counted(hits(w, ["level"], every)),
    }


def infino_engine(root: Path, data: pa.Table) -> dict[str, Answer]:
    """How an infino table answers. It has no phrases."""
    import infino

    connection = infino.connect(str(root / "infino"))
    columns = data.set_column(0, "ts", data["ts"].cast(pa.int64()))
    large = columns.cast(pa.schema([_large(f) for f in columns.schema]))
    table = connection.create_table("lines", large.schema, infino.IndexSpec().fts("message"))
    table.append(large)

    def matches(word: str, projection: list[str]) -> pa.Table:
        return table.token_match("message", word, projection=projection)

    def newest(word: str) -> pa.Table:
        rows = matches(word, COLUMNS)
        return rows.take(pc.select_k_unstable(rows, 10, [("ts", "descending")]))

    return {
        "top 10 of a word": lambda w: table.bm25_search("message", w, 10, projection=COLUMNS),
        "top 10 of two words": lambda w: table.bm25_search(
            "message", w, 10, mode="and", projection=COLUMNS
        ),
        "count of a word": lambda w: table.count("message", w),
        "all hits with two columns": lambda w: matches(w, COLUMNS),
        "newest 10": newest,
        "terms under a search": lambda w: counted(matches(w, ["level"])),
    }


def _large(field: pa.Field) -> pa.Field:
    return field.with_type(pa.large_string()) if pa.types.is_string(field.type) else field


def counted(rows: pa.Table) -> pa.Table:
    """How often each level occurs."""
    return rows.group_by("level").aggregate([("level", "count")])

"""The judge of the torture: it finds what is lost, doubled or seen too early, and lets doubt be
doubt.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.torture.history import MADE, Op, Told, age, judge, read_journals

START = dict(MADE[-1])


def verdict(final: dict[int, int], *ops: Op, newest: int = 10, sights: Any = ()) -> list[str]:
    return judge(Told(ops=list(ops), sights=list(sights)), final, start=MADE, newest=newest).reasons


def added(
    batch: int, version: int, *, end: Any = "ack", created: bool = True, kind: str = "add"
) -> Op:
    told = version if end == "ack" else None
    return Op(
        1, kind, batch=batch, offers=[version], created=[version] * created, end=end, version=told
    )


def test_what_was_acknowledged_must_be_there() -> None:
    assert verdict({**START, 50: 0}, added(50, 5)) == []
    assert "missing batches [50]" in verdict(START, added(50, 5))[0]


def test_what_was_refused_must_not() -> None:
    assert verdict(START, added(50, 5, end="refused")) == []
    assert "unexpected [50]" in verdict({**START, 50: 0}, added(50, 5, end="refused"))[0]


def test_what_nobody_knows_may_be_there_or_not_but_stays_so() -> None:
    doubt = added(50, 5, end="doubt", created=False)
    for final in (START, {**START, 50: 0}):
        assert verdict(final, doubt) == []
    assert verdict(START, doubt, sights=[(7, {**START, 50: 0})]), "seen at version 7 and gone later"


def test_doubts_may_be_many() -> None:
    """More than outcomes can be tried of all of them together: what readers saw decides one after
    the other.
    """
    made = [added(100 + 10 * n, 5 + n, end="doubt", created=n % 2 == 0) for n in range(40)]
    landed = [op for n, op in enumerate(made) if n % 3]
    seen = {
        v: {**START, **{op.batch: 0 for op in landed if op.offers[0] <= v}} for v in range(5, 45)
    }
    sights = [(v, state) for v, state in seen.items() if v % 4 == 0]
    assert verdict(seen[44], *made, newest=44, sights=sights) == []
    gone = {first: 0 for first in seen[44] if first != landed[3].batch}
    assert verdict(gone, *made, newest=44, sights=sights), "seen by readers, and gone"


def test_what_was_restored_by_somebody_who_died_counts() -> None:
    """Many deaths, then a restoration whose end is not known: later versions follow from what it
    brought back.
    """
    dead = [added(100 + 10 * n, 5 + n, end="doubt") for n in range(20)]
    back = Op(3, "restore", to=4, offers=[25], created=[25], end="doubt")
    late = added(900, 26)
    all_of = {**START, **{op.batch: 0 for op in dead}}
    final = {**START, 900: 0}
    assert (
        verdict(
            final, *dead, back, late, newest=26, sights=[(24, all_of), (25, START), (26, final)]
        )
        == []
    )
    assert verdict({**all_of, 900: 0}, *dead, back, late, newest=26, sights=[(25, START)])


def test_who_dies_in_the_upkeep_after_a_commit_has_committed() -> None:
    """A checkpoint that takes another number is offered by the same operation, after the version
    that counts.
    """
    op = Op(1, "add", batch=50, offers=[5, 7], created=[5, 7])
    there = {**START, 50: 0}
    assert verdict(there, op, added(60, 6), sights=[(5, there)])
    assert (
        verdict({**there, 60: 0}, op, added(60, 6), sights=[(5, there), (6, {**there, 60: 0})])
        == []
    )
    assert verdict({**there, 60: 0}, op, added(60, 6), sights=[(5, START)]) == []
    assert verdict({**START, 60: 0}, op, added(60, 6), sights=[(5, there)]), "seen, and gone"


def test_who_lost_a_race_and_found_nothing_to_do_has_changed_nothing() -> None:
    for version in (None, 7):
        idle = Op(2, "restore", to=4, offers=[5], end="ack", version=version)
        assert (
            verdict(
                {**START, 50: 0}, added(50, 5, end="doubt"), idle, sights=[(5, {**START, 50: 0})]
            )
            == []
        )


def test_the_order_of_versions_counts() -> None:
    gone = Op(2, "delete", batch=0, offers=[6], end="ack", version=6)
    back = Op(3, "restore", to=5, offers=[7], end="ack", version=7)
    replaced = Op(4, "replace", batch=5, generation=1, offers=[8], end="ack", version=8)
    without = {first: 0 for first in START if first}
    assert verdict(without, gone) == []
    assert verdict(START, gone, back) == []
    assert verdict({**START, 5: 1}, gone, back, replaced) == []
    assert verdict({**START, 5: 0}, gone, back, replaced)


def test_readers_see_versions_of_the_history() -> None:
    ops = [added(50, 5), added(60, 6)]
    final = {**START, 50: 0, 60: 0}
    assert verdict(final, *ops, sights=[(5, {**START, 50: 0}), (6, final), (0, {})]) == []
    assert "version 5 saw other rows" in verdict(final, *ops, sights=[(5, final)])[0]
    assert "ends at 6" in verdict(final, *ops, newest=6, sights=[(9, final)])[0]


def test_one_version_is_one_writers() -> None:
    assert "2 writers" in verdict({**START, 50: 0, 60: 0}, added(50, 5), added(60, 5))[0]


def test_exactly_once() -> None:
    first, again = added(50, 5, end="doubt", kind="once"), Op(2, "once", batch=50, end="ack")
    assert verdict({**START, 50: 0}, first, again) == []
    assert "never was" in verdict(START, again)[0]


def test_journals_of_the_dead_are_read_up_to_their_last_whole_line(tmp_path: Path) -> None:
    lines = [
        {"begin": 1, "kind": "add", "batch": 50},
        {"offer": 5, "op": 1},
        {"put": 5, "op": 1, "created": True},
    ]
    (tmp_path / "0001.jsonl").write_text(
        "\n".join(map(json.dumps, lines)) + '\n{"ack": 1, "ver', "utf-8"
    )
    (op,) = read_journals(tmp_path).ops
    assert (op.end, op.may_be, op.created) == ("doubt", [5], [5])


def test_what_was_appended_while_an_expiry_read_stays() -> None:
    """It takes the rows of the version that it read."""
    old = next(batch for batch in range(50, 500, 5) if age(batch) < 3)
    gone = {first for first in START if age(first) < 3}
    late = Op(2, "expire", to=3, reads=4, offers=[6], created=[6], end="ack", version=6)
    left = {first: 0 for first in START if first not in gone}
    assert gone
    assert verdict({**left, old: 0}, added(old, 5), late) == []
    assert "missing batches" in verdict(left, added(old, 5), late)[0]
    late.reads = 5
    assert verdict(left, added(old, 5), late) == []

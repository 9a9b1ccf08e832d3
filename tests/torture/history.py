"""What a table must hold: the serial history, reconstructed from the journals of all who changed
it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct, field

State = Mapping[int, int]
"""Batches, by their first id, and the generation of each."""
MAX_HISTORIES = 4096
START = (0, 5, 2 * 5, 3 * 5)
AGES = 40
MADE = [dict.fromkeys(START[:version], 0) for version in range(len(START) + 1)]
"""The table at its first versions."""


def age(batch: int) -> int:
    """The day of a batch, by which it grows old."""
    return batch // 5 * 7 % AGES


class Op(Struct):
    """An operation of an actor: what it wanted, which versions it offered, and how it ended."""

    actor: int
    kind: str
    batch: int = -1
    generation: int = 0
    to: int = -1
    reads: int = -1
    """The version whose rows it looked at, of one that takes away those that are there."""
    offers: list[int] = field(default_factory=list)
    created: list[int] = field(default_factory=list)
    end: Literal["ack", "doubt", "refused"] = "doubt"
    version: int | None = None
    error: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.batch if self.batch >= 0 else self.to} of actor {self.actor}: {self.end} {self.error}"

    @property
    def place(self) -> int | None:
        """The version that an operation became which was acknowledged; none if it found nothing to
        do.
        """
        return self.version if self.end == "ack" and self.version in self.offers else None

    @property
    def may_be(self) -> list[int]:
        """Where one may have landed whose end is not known: what it offered last may be upkeep that
        follows a commit.
        """
        return self.offers if self.end == "doubt" else []


class Told(Struct):
    """What all journals say."""

    ops: list[Op] = field(default_factory=list)
    sights: list[tuple[int, dict[int, int]]] = field(default_factory=list)
    """Versions, and what a reader saw in them."""
    counts: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    messages: dict[str, str] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    crashes: list[str] = field(default_factory=list)
    tags: dict[str, int] = field(default_factory=dict)
    """Versions that somebody was told to have named, by the names that nobody took away again."""
    roles: set[str] = field(default_factory=set)
    longest: float = 0.0
    """The seconds that the slowest operation took, of those that were timed."""


def read_journals(folder: Path) -> Told:
    """Everything that was told; the last line of one that was killed may be cut off."""
    told = Told()
    for path in sorted(folder.glob("*.jsonl")):
        lines = [json.loads(line) for line in path.read_bytes().decode().split("\n")[:-1]]
        _read(lines, int(path.stem), told)
    return told


def _read(lines: Sequence[Mapping[str, Any]], number: int, told: Told) -> None:
    ops: dict[int, Op] = {}
    for line in lines:
        if "begin" in line:
            wanted = {
                name: line[name] for name in ("kind", "batch", "generation", "to") if name in line
            }
            ops[line["begin"]] = Op(number, **wanted)
        elif "offer" in line:
            if line["op"] in ops:
                ops[line["op"]].offers.append(line["offer"])
        elif "reads" in line:
            if line["op"] in ops:
                ops[line["op"]].reads = line["reads"]
        elif "put" in line:
            if line["op"] in ops and line["created"]:
                ops[line["op"]].created.append(line["put"])
        elif "tagged" in line:
            told.tags[line["tagged"]] = line["version"]
        elif "untagged" in line:  # also if nobody knows whether it was taken away
            told.tags.pop(line["untagged"], None)
        elif "saw" in line:
            told.sights.append((line["saw"], dict(line["state"])))
        else:
            _ended(line, ops, told)
    told.ops += ops.values()
    for op in ops.values():
        told.counts[f"{op.kind}: {op.end}"] += 1


def _count_error(told: Told, kind: str, message: str) -> None:
    """Count an error by its kind. A cleaner that gave way before it was done, such as to a tag, did
    not fail.
    """
    if kind == "refused" and message.startswith("Cleaning the log") and "stopped after" in message:
        told.counts["cleaner gave way"] += 1
        return
    told.errors[kind] += 1
    told.messages.setdefault(kind, message)


def _ended(line: Mapping[str, Any], ops: Mapping[int, Op], told: Told) -> None:
    for end in ("ack", "doubt", "refused"):
        if end in line:
            op = ops[line[end]]
            op.end, op.version, op.error = end, line.get("version"), line.get("error", "")
            if op.error:
                _count_error(told, op.error, line["why"])
            return
    for key in ("stops", "dies"):
        if key in line:
            told.counts[f"{key} at a call"] += 1
    if "role" in line:
        told.roles.add(line["role"])
    if "error" in line:
        _count_error(told, line["error"], line["message"])
    if "wrong" in line:
        told.wrong.append(f"version {line['version']}: {line['wrong']}")
    told.longest = max(told.longest, line.get("took", 0.0))
    if "crash" in line:
        told.crashes.append(line["crash"])


def told_again(told: Told) -> list[str]:
    """Every operation that offered a version, in their order: what it takes to judge once more."""
    offered = sorted((op for op in told.ops if op.offers), key=lambda op: op.offers)
    return [
        f"{op}, offered {op.offers}, created {op.created}, acknowledged {op.version}"
        for op in offered
    ]


def effect(op: Op, state: State, past: Sequence[State]) -> State:
    """The table after an operation."""
    if op.kind in ("add", "once"):
        return {**state, op.batch: 0}
    if op.kind == "delete":
        return {first: generation for first, generation in state.items() if first != op.batch}
    if op.kind == "expire":
        return {
            first: generation
            for first, generation in state.items()
            if age(first) >= op.to or first not in past[op.reads]
        }
    if op.kind == "overwrite":
        return {op.batch: 0}
    if op.kind == "update":
        return {**state, op.batch: op.generation} if op.batch in state else state
    if op.kind == "replace":
        return {**state, op.batch: op.generation}
    if op.kind == "restore":
        return past[op.to]
    return state


def states(ops: Sequence[Op], *, start: Sequence[State], newest: int) -> list[State]:
    """The table at every version up to the newest: as it was made, then after these operations,
    where they landed.
    """
    (history,), _ = _histories(ops, [], [], start=start, newest=newest)
    return history.past


class Verdict(Struct):
    """What does not fit the history that fits best."""

    reasons: list[str] = field(default_factory=list)
    doubts: int = 0
    untried: int = 0
    """Histories that were less likely than `MAX_HISTORIES` others half way, and were not followed
    to their end.
    """


class History(Struct):
    """One way in which it can have been: the table at each version, and what readers saw that does
    not fit.
    """

    past: list[State]
    landed: list[Op] = field(default_factory=list)
    misfits: int = 0
    surprises: int = 0
    """How often something else happened than the store was seen to do."""

    def branch(self) -> History:
        """A history that has been the same up to now."""
        return History(list(self.past), list(self.landed), self.misfits, self.surprises)

    def go_on(self, op: Op | None, seen: Sequence[State]) -> None:
        """One version more."""
        self.past.append(self.past[-1] if op is None else effect(op, self.past[-1], self.past))
        self.landed += [] if op is None else [op]
        self.misfits += sum(state != self.past[-1] for state in seen)


def judge(told: Told, final: State, *, start: Sequence[State], newest: int) -> Verdict:
    """Look for an outcome of everything doubtful under which the table, and all that readers saw,
    is the serial history.
    """
    changing = [op for op in told.ops if op.kind != "upkeep"]
    certain = [op for op in changing if op.end == "ack" and op.place is not None]
    owners = Counter(op.place for op in certain)
    twice = [version for version, count in owners.items() if count > 1]
    if twice:
        return Verdict([f"version {v} was acknowledged to {owners[v]} writers" for v in twice])
    beyond = [op for op in certain if op.place is not None and op.place > newest]
    if beyond:
        return Verdict(
            [f"{op} at version {op.place}, but the table ends at {newest}" for op in beyond]
        )
    doubtful = [op for op in changing if set(op.may_be) - set(owners)]
    best = Verdict(["nothing was compared"] * 1000)
    histories, untried = _histories(certain, doubtful, told.sights, start=start, newest=newest)
    for history in histories:
        reasons = [
            *_differences(history.past, final, told.sights),
            *_never_landed(changing, history.landed),
        ]
        if len(reasons) < len(best.reasons):
            best = Verdict(reasons, len(doubtful), untried)
        if not reasons:
            break
    return best


def _histories(
    certain: Sequence[Op],
    doubtful: Sequence[Op],
    sights: Sequence[tuple[int, State]],
    *,
    start: Sequence[State],
    newest: int,
) -> tuple[list[History], int]:
    """Version by version, every outcome of what is doubtful there; those that readers contradict
    most are given up.
    """
    landed = {op.place: op for op in certain}
    likely = {version: op for op in (*doubtful, *certain) for version in op.created} | landed
    seen: dict[int, list[State]] = {}
    for version, state in sights:
        seen.setdefault(version, []).append(state)
    found, untried = [History(list(start))], 0
    for version in range(len(start), newest + 1):
        ways = [
            (history, op)
            for history in found
            for op in _outcomes(history, version, landed, doubtful)
        ]
        found = [history.branch() for history, _ in ways] if len(ways) > len(found) else found
        for history, (_, op) in zip(found, ways, strict=True):
            history.go_on(op, seen.get(version, ()))
            history.surprises += op is not likely.get(version)
        fitting = [history for history in found if not history.misfits]
        found = sorted(fitting or found, key=lambda history: (history.misfits, history.surprises))
        untried += len(found[MAX_HISTORIES:])
        found = found[:MAX_HISTORIES]
    return found, untried


def _outcomes(
    history: History, version: int, landed: Mapping[int | None, Op], doubtful: Sequence[Op]
) -> list[Op | None]:
    """Whose a version may be."""
    if version in landed:
        return [landed[version]]
    open_ends = [
        op
        for op in doubtful
        if version in op.may_be and not any(op is one for one in history.landed)
    ]
    return [None, *open_ends]


def _differences(
    past: Sequence[State], final: State, sights: Sequence[tuple[int, State]]
) -> Iterator[str]:
    if final != past[-1]:
        yield f"the rows are not those of the history: {_difference(past[-1], final)}"
    for version, seen in sights:
        if version >= len(past):
            yield f"a reader saw version {version}, but the table ends at {len(past) - 1}"
        elif seen != past[version]:
            yield f"a reader of version {version} saw other rows: {_difference(past[version], seen)}"


def _never_landed(ops: Sequence[Op], landed: Sequence[Op]) -> Iterator[str]:
    """Exactly once: whoever is told that a batch was committed before can rely on it."""
    committed = {op.batch for op in landed if op.kind == "once"}
    for op in ops:
        if (
            op.kind == "once"
            and op.end == "ack"
            and op.version is None
            and op.batch not in committed
        ):
            yield f"batch {op.batch} was said to be committed already, and never was"


def _difference(wanted: State, found: State) -> str:
    missing = sorted(set(wanted) - set(found))
    more = sorted(set(found) - set(wanted))
    other = sorted(first for first in set(wanted) & set(found) if wanted[first] != found[first])
    return (
        f"missing batches {missing[:8]}, unexpected {more[:8]}, of another generation {other[:8]}"
    )

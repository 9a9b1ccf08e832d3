"""Every schedule of a few actors over one store, driving the real code.

An actor is a function of a store. It runs in a greenlet that hands over at each storage call, so
nothing sleeps and no thread runs: the explorer decides whose call happens next and how it ends
(rightly, or with one of the faults a real store has). What an actor does depends only on the
answers it has seen, so a state is the store's content, the faults left, and every actor's answers;
states are remembered, and a failing schedule replays exactly.

Of schedules that differ only in the order of calls that commute, one is run. Two calls commute if
neither order gives another answer or another content. A set of actors is enough to go on with if no
call that the others may still make fails to commute with the next calls of the set: whatever
schedule begins with calls of the others, the first call of the set in it could have come before
them, with the same answers to all and the same content in the end. Schedules end, so by trying the
calls of such a set alone no end is lost (it is what the literature calls a persistent set).

What an actor may still make is not known before it was seen. It is taken for what was seen of it so
far, and every choice is looked at again when more was seen, until all choices stand with all that
was seen. That is enough: were there a schedule with a call that a choice did not reckon with, take
the first such call in the shortest such schedule. All before it commutes with the calls chosen, so
it also comes after them, in a schedule that has less to go and was tried; so it was seen. Faults
change nothing in this: what they cost is the same in every order, and a call can always end without
one.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import greenlet
from msgspec import Struct, field

from indextables.errors import NotFoundError
from indextables.storage.store import ObjectInfo, PutOutcome, Store

NOW_MS = 1 << 50
"""What time it is in the explorer's store, always; every file is a few minutes old."""
_MINUTES_MS = 250_000
Content = Mapping[str, bytes]
Call = tuple[Any, ...]
Actor = Callable[[Store], Any]


class SteppedStore:
    """A store whose every call is answered by the explorer."""

    url = "memory://interleaved"

    def __init__(self, hand_over: Callable[[Call], Any]) -> None:
        self._call = hand_over

    def get(self, path: str) -> bytes:
        """The object, or NotFoundError."""
        found: bytes | None = self._call(("get", path))
        if found is None:
            raise NotFoundError(f"{path} is not there.", path=path)
        return found

    def get_range(self, path: str, start: int, length: int) -> bytes:
        """A part of the object."""
        return self.get(path)[start : start + length]

    def get_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Parts of the object, of one look at it."""
        data = self.get(path)
        return [data[start : start + length] for start, length in ranges]

    def put_if_absent(self, path: str, data: bytes) -> PutOutcome:
        """Create the object; the explorer tries every outcome a store can give."""
        outcome: PutOutcome = self._call(("create", path, data))
        return outcome

    def put(self, path: str, data: bytes) -> None:
        """Create or replace the object."""
        self._call(("put", path, data))

    def put_file(self, path: str, source: Path) -> None:
        """Create or replace the object with a file's content."""
        self.put(path, source.read_bytes())

    def head(self, path: str) -> ObjectInfo | None:
        """Size and identity of the object."""
        found: ObjectInfo | None = self._call(("head", path))
        return found

    def list(self, prefix: str = "", *, start_after: str | None = None) -> Iterator[ObjectInfo]:
        """One page with everything in it."""
        return iter(self._call(("list", prefix, start_after)))

    def list_unfinished(self) -> Iterator[ObjectInfo]:
        """Nothing is ever half there."""
        return iter(())

    def delete(self, paths: Iterable[str | ObjectInfo]) -> None:
        """Each deletion is a step of its own."""
        for item in paths:
            self._call(("delete", item) if isinstance(item, str) else ("delete", item.path, item))

    def local_path(self, path: str) -> Path | None:
        """Never on disk."""
        return None


class Violation(Struct, frozen=True):
    """A schedule after which the check found something wrong."""

    why: str
    schedule: tuple[str, ...]


class Exploration(Struct):
    """What the explorer saw."""

    states: int = 0
    ends: int = 0
    violations: list[Violation] = field(default_factory=list)
    complete: bool = True


class _Step(Struct, frozen=True):
    """Where an actor stands after some answers: its next call, or its result."""

    call: Call | None
    result: Any = None


class _Stories:
    """What an actor has been told, as a tree: a story is a number, its next chapter another one."""

    def __init__(self, name: str, actor: Actor, footprints: Footprints) -> None:
        self.name = name
        self.futures: list[int] = [0]
        """The calls that were seen to follow each story."""
        self._actor = actor
        self._footprints = footprints
        self._told: list[tuple[Any, ...]] = [()]
        self._before = [-1]
        self._next: dict[tuple[int, Any], int] = {}
        self._steps: dict[int, _Step] = {}
        self._paused: dict[int, _Run] = {}
        self._ends: dict[tuple[type, str], int] = {}
        self._go_on(_Run(actor), 0, ())

    def step(self, story: int) -> _Step:
        """What the actor does next."""
        return self._steps[story]

    def continued(self, story: int, answer: Any) -> int:
        """The story after one more answer. Stories that end with the same result are one: nothing
        else is left of them.
        """
        key = (story, answer)
        if key not in self._next:
            further = len(self._told)
            self._told.append((*self._told[story], answer))
            self._before.append(story)
            self.futures.append(0)
            # Whoever waits for this very answer is told it; only for a second one is the actor run
            # from its start again.
            if waiting := self._paused.pop(story, None):
                self._go_on(waiting, further, (answer,))
            else:
                self._go_on(_Run(self._actor), further, self._told[further])
            step = self._steps[further]
            if step.call is None:
                further = self._ends.setdefault((type(step.result), repr(step.result)), further)
            self._next[key] = further
        return self._next[key]

    def _go_on(self, run: _Run, story: int, answers: tuple[Any, ...]) -> None:
        step = self._steps[story] = run.after(answers)
        if step.call is not None:
            self._paused[story] = run
            self._foresee(story, self._footprints.bit(step.call))

    def _foresee(self, story: int, call: int) -> None:
        while story >= 0 and not self.futures[story] & call:
            self.futures[story] |= call
            story = self._before[story]


class _Contents:
    """The contents of the store that were seen, by number."""

    def __init__(self) -> None:
        self._numbers: dict[frozenset[tuple[str, bytes]], int] = {}
        self._held: list[dict[str, bytes]] = []
        self._outcomes: dict[tuple[int, Call], list[tuple[int, Any, int, str]]] = {}

    def outcomes(self, number: int, call: Call) -> list[tuple[int, Any, int, str]]:
        """Every way a call can end, the content after it by its number."""
        key = (number, call)
        if key not in self._outcomes:
            store = self._held[number]
            self._outcomes[key] = [
                (number if after is store else self.number(after), *rest)
                for after, *rest in outcomes(store, call)
            ]
        return self._outcomes[key]

    def number(self, content: dict[str, bytes]) -> int:
        """The number of a content."""
        key = frozenset(content.items())
        if key not in self._numbers:
            self._numbers[key] = len(self._held)
            self._held.append(content)
        return self._numbers[key]

    def __getitem__(self, number: int) -> dict[str, bytes]:
        return self._held[number]


_State = tuple[int, int, tuple[int, ...]]
"""The content by its number, the faults left, and the story of each actor."""
Private = Callable[[str, Call, Content, Mapping[str, Any]], bool]


class _Choice(Struct):
    """The actors whose calls were tried in a state, of more that could have gone on."""

    state: _State
    schedule: tuple[Any, ...]
    chosen: list[int]


class _Schedules:
    """The states that were seen and those still to go on from."""

    def __init__(
        self, actors: Mapping[str, Actor], start: Content, faults: int, private: Private | None
    ) -> None:
        self.footprints = Footprints()
        self.stories = [_Stories(name, actor, self.footprints) for name, actor in actors.items()]
        self.contents = _Contents()
        self._private = private
        first = (self.contents.number(dict(start)), faults, tuple(0 for _ in self.stories))
        self.seen = {first}
        self.stack: list[tuple[_State, tuple[Any, ...]]] = [(first, ())]
        self._choices: list[_Choice] = []

    def steps(self, state: _State) -> list[_Step]:
        """Where every actor stands."""
        return [story.step(at) for story, at in zip(self.stories, state[2], strict=True)]

    def choose(
        self, state: _State, schedule: tuple[Any, ...], steps: Sequence[_Step], *, every_order: bool
    ) -> list[int]:
        """The actors whose calls are tried in a state."""
        able = _able(steps)
        store = self.contents[state[0]]
        if self._private is not None:
            results = {
                s.name: step.result
                for s, step in zip(self.stories, steps, strict=True)
                if step.call is None
            }
            for i in able:
                call = steps[i].call
                if call is not None and self._private(self.stories[i].name, call, store, results):
                    return [i]
        if every_order or len(able) < 2:
            return able
        chosen = fewest(*self._in_the_way(state, steps), able)
        if len(chosen) < len(able):
            self._choices.append(_Choice(state, schedule, chosen))
        return chosen

    def expand(
        self,
        state: _State,
        schedule: tuple[Any, ...],
        steps: Sequence[_Step],
        chosen: Iterable[int],
    ) -> None:
        """Every way in which the next call of each of some actors ends."""
        content, left, told = state
        for i in chosen:
            call = steps[i].call
            assert call is not None
            for number, answer, cost, note in self.contents.outcomes(content, call):
                if cost > left:
                    continue
                further = (
                    number,
                    left - cost,
                    (*told[:i], self.stories[i].continued(told[i], answer), *told[i + 1 :]),
                )
                if further not in self.seen:
                    self.seen.add(further)
                    self.stack.append((further, (schedule, self.stories[i].name, call, note)))

    def look_again(self) -> None:
        """Where more was seen of the actors left out than was reckoned with, those in the way of
        the chosen go on too.
        """
        kept = []
        for choice in self._choices:
            steps = self.steps(choice.state)
            chosen = enough(*self._in_the_way(choice.state, steps), choice.chosen)
            self.expand(choice.state, choice.schedule, steps, chosen[len(choice.chosen) :])
            if len(chosen) < len(_able(steps)):
                choice.chosen = chosen
                kept.append(choice)
        self._choices = kept

    def _in_the_way(self, state: _State, steps: Sequence[_Step]) -> tuple[list[int], list[int]]:
        content, _, told = state
        store = self.contents[content]
        futures = [story.futures[at] for story, at in zip(self.stories, told, strict=True)]
        calls = [step.call for step in steps]
        return [
            0 if call is None else self.footprints.obstacles(content, store, call) for call in calls
        ], futures


def _able(steps: Sequence[_Step]) -> list[int]:
    return [i for i, step in enumerate(steps) if step.call is not None]


def explore(
    actors: Mapping[str, Actor],
    check: Callable[[Content, Mapping[str, Any]], str | None],
    *,
    start: Content,
    faults: int = 0,
    max_states: int = 400_000,
    stop_at_first: bool = False,
    private: Private | None = None,
    every_order: bool = False,
) -> Exploration:
    """Run every schedule; `check` gets the final content and each actor's result (or the exception
    it raised).

    Of schedules that differ only in the order of calls that commute one is run (above it is said
    why none is missed), unless it is to be `every_order`. `private` leaves out more that differ in
    nothing else: it names the calls that no other actor could tell from their happening earlier or
    later, given the content and who has finished with which result, and which are carried out at
    once. Nothing proves it right, so it is for what would not end without it. Results are told
    apart by their type and what `repr` says of them.
    """
    found = Exploration()
    search = _Schedules(actors, start, faults, private)
    while search.stack:
        state, schedule = search.stack.pop()
        steps = search.steps(state)
        if all(step.call is None for step in steps):
            found.ends += 1
            why = check(
                search.contents[state[0]],
                dict(zip(actors, (step.result for step in steps), strict=True)),
            )
            if why:
                found.violations.append(Violation(why, tuple(_written(schedule))))
                if stop_at_first:
                    break
        chosen = search.choose(state, schedule, steps, every_order=every_order)
        search.expand(state, schedule, steps, chosen)
        if len(search.seen) > max_states:
            found.complete = False
            break
        if not search.stack:
            search.look_again()
    found.states = len(search.seen)
    return found


def _written(schedule: tuple[Any, ...]) -> list[str]:
    """A schedule, held as a chain from its end, as lines from its beginning."""
    lines = []
    while schedule:
        schedule, name, call, note = schedule
        lines.append(f"{name}: {_shown(call)} {note}")
    return lines[::-1]


class _Run:
    """One run of an actor, from its start up to the call whose answer it waits for, or to its end."""

    def __init__(self, actor: Actor) -> None:
        self._actor = actor
        self._explorer = greenlet.getcurrent()
        self._left = False
        self._runner = greenlet.greenlet(self._body)
        self._step: _Step = self._runner.switch()

    def after(self, answers: tuple[Any, ...]) -> _Step:
        """Where the actor stands when it has been told these as well."""
        for answer in answers:
            self._step = self._runner.switch(answer)
        return self._step

    def _body(self) -> _Step:
        try:
            return _Step(None, self._actor(SteppedStore(self._hand_over)))
        except Exception as error:
            return _Step(None, error)

    def _hand_over(self, call: Call) -> Any:
        if (
            self._left
        ):  # what the actor would still clean up on its way out is not part of the schedule
            raise greenlet.GreenletExit
        try:
            return self._explorer.switch(_Step(call))
        except greenlet.GreenletExit:
            self._left = True
            raise


def outcomes(store: dict[str, bytes], call: Call) -> list[tuple[dict[str, bytes], Any, int, str]]:
    """Every way a call can end: the content after it, the answer, what it costs of the fault
    budget, a note.
    """
    verb, path, *rest = call
    if verb == "get":
        return [(store, store.get(path), 0, "")]
    if verb == "head":
        return [(store, _info(path, store[path]) if path in store else None, 0, "")]
    if verb == "list":
        return [(store, _listed(store, path, rest[0]), 0, "")]
    if verb == "put":
        return [({**store, path: rest[0]}, None, 0, "")]
    if verb == "delete" and rest and path in store and _info(path, store[path]) != rest[0]:
        return [(store, None, 0, "")]
    if verb == "delete":
        return [({p: b for p, b in store.items() if p != path}, None, 0, "")]
    if path in store:
        return [(store, PutOutcome.EXISTS, 0, "exists")]
    created = {**store, path: rest[0]}
    return [
        (created, PutOutcome.CREATED, 0, "created"),
        (created, PutOutcome.EXISTS, 1, "created, the answer lost, met again by its own retry"),
        (store, PutOutcome.EXISTS, 1, "refused with 409, nothing created"),
        (created, PutOutcome.UNKNOWN, 1, "created, the answer lost"),
        (store, PutOutcome.UNKNOWN, 1, "failed, nothing created"),
    ]


def _listed(store: Content, prefix: str, start_after: str | None) -> tuple[ObjectInfo, ...]:
    folder = prefix.rstrip("/") + "/" if prefix else ""
    chosen = sorted(
        p for p in store if p.startswith(folder) and (start_after is None or p > start_after)
    )
    return tuple(_info(path, store[path]) for path in chosen)


def _info(path: str, data: bytes) -> ObjectInfo:
    # The time stands for identity here: another content is another file. An empty one tells what
    # time it is.
    return ObjectInfo(path, len(data), NOW_MS - (1 + zlib.crc32(data) % _MINUTES_MS if data else 0))


def _shown(call: Call) -> str:
    return f"{call[0]} {call[1]}"


# Which storage calls can be told from one another's order, and whose calls have to be tried next.


def commute(one: Call, other: Call, content: Container[str]) -> bool:
    """Whether the order of two calls of different actors cannot be told, as long as what they look
    at is as it is here.

    Whoever changes that fails to commute as well and is found first. So what would create a file
    that is there, or delete one that is not, is nothing but a look.
    """
    if one[0] == "list" or other[0] == "list":
        single, listing = (other, one) if one[0] == "list" else (one, other)
        return (
            single[0] == "list"
            or not _changes(single, content)
            or not _covers(listing, str(single[1]))
        )
    if one[1] != other[1] or one[0] == other[0] == "delete":
        return True
    # Where neither changes anything here, neither makes the other change something.
    return not _changes(one, content) and not _changes(other, content)


def _changes(call: Call, content: Container[str]) -> bool:
    verb, path = call[:2]
    if verb == "create":
        return path not in content
    return verb == "put" or (verb == "delete" and path in content)


def _covers(listing: Call, path: str) -> bool:
    _, prefix, start_after = listing
    folder = prefix.rstrip("/") + "/" if prefix else ""
    return path.startswith(folder) and (start_after is None or path > start_after)


class Footprints:
    """The calls that were seen, each a bit of a number: a set of calls is a number, whatever data
    they write.
    """

    def __init__(self) -> None:
        self._calls: list[Call] = []
        self._bits: dict[Call, int] = {}
        self._obstacles: dict[tuple[int, Call], tuple[int, int]] = {}

    def bit(self, call: Call) -> int:
        """The number of the set of this call alone."""
        plain = call if call[0] == "list" else call[:2]
        if plain not in self._bits:
            self._bits[plain] = 1 << len(self._calls)
            self._calls.append(plain)
        return self._bits[plain]

    def obstacles(self, number: int, content: Container[str], call: Call) -> int:
        """The calls that do not commute with one, in a content that has a number."""
        plain = call if call[0] == "list" else call[:2]
        known, found = self._obstacles.get((number, plain), (0, 0))
        if known < len(self._calls):
            for place in range(known, len(self._calls)):
                if not commute(plain, self._calls[place], content):
                    found |= 1 << place
            self._obstacles[number, plain] = len(self._calls), found
        return found


def enough(obstacles: Sequence[int], futures: Sequence[int], begin: Sequence[int]) -> list[int]:
    """The actors that have to go on if those in `begin` do, given what is in the way of the next
    call of each, and what each may still call.
    """
    chosen = list(begin)
    for member in chosen:  # which grows meanwhile
        hindered = obstacles[member]
        chosen += [i for i, future in enumerate(futures) if future & hindered and i not in chosen]
    return chosen


def fewest(obstacles: Sequence[int], futures: Sequence[int], able: Sequence[int]) -> list[int]:
    """The smallest set of actors that is enough."""
    return min((enough(obstacles, futures, [i]) for i in able), key=len)

"""Reading a query's text character by character, and saying where it stopped making sense."""

from __future__ import annotations

from msgspec import Struct, field

from indextables.errors import QuerySyntaxError

_WINDOW = 60
BREAKS = '"()^'
"""Characters that end a bare word unless escaped."""


class Characters(Struct):
    """A cursor over a query's text."""

    text: str
    known: tuple[str, ...] = ()
    at: int = 0

    def peek(self, ahead: int = 0) -> str:
        """The next character, or nothing at the end."""
        place = self.at + ahead
        return self.text[place] if place < len(self.text) else ""

    def take(self, expected: str) -> bool:
        """Step over some text if it comes next."""
        if self.text.startswith(expected, self.at):
            self.at += len(expected)
            return True
        return False

    def take_keyword(self, word: str) -> bool:
        """Step over a whole word such as AND, and not over the start of ANDROID."""
        after = self.peek(len(word))
        if self.text.startswith(word, self.at) and (not after or after.isspace() or after in '()"+-[{'):
            self.at += len(word)
            return True
        return False

    def skip_space(self) -> None:
        """Step over white space."""
        while self.peek().isspace():
            self.at += 1

    def fail(
        self, problem: str, *, at: int | None = None, hint: str | None = None, **context: object
    ) -> QuerySyntaxError:
        """The error for a place in the text (the cursor's unless given), with a caret under it."""
        place = self.at if at is None else at
        start = max(0, place - _WINDOW)
        shown = "".join(c if c.isprintable() else " " for c in self.text[start : place + _WINDOW])
        message = f"{problem} at position {place}:\n  {shown}\n  {' ' * (place - start)}^\n"
        context = {"query": self.text, "position": place, "fields": list(self.known), **context}
        return QuerySyntaxError(message, hint=hint, **context)

    def quoted(self) -> str:
        """The text of a quoted string; the cursor is on its opening quote."""
        opening, mark = self.at, self.peek()
        self.at += 1
        found = []
        while (c := self.peek()) != mark:
            if c == "\\":
                self.at += 1
                c = self.peek()
            if not c:
                raise self.fail(f"The quote {mark} is not closed", at=opening, hint=f"Add a closing {mark}.")
            found.append(c)
            self.at += 1
        self.at += 1
        return "".join(found)

    def bare(self, stops: str = BREAKS) -> BareWord:
        """A word without quotes, up to white space or a stop; escapes are kept apart."""
        word = BareWord(self.at)
        while (c := self.peek()) and not c.isspace() and c not in stops:
            escaped = c == "\\"
            if escaped:
                self.at += 1
                c = self.peek()
                if not c:
                    raise self.fail("A backslash at the end escapes nothing", at=self.at - 1)
            word.add(c, escaped, self.at)
            self.at += 1
        return word


class BareWord(Struct):
    """The characters of a bare word, each with whether it was escaped and where it stands."""

    start: int
    characters: list[tuple[str, bool, int]] = field(default_factory=list)

    def add(self, c: str, escaped: bool, at: int) -> None:
        """Append a character."""
        self.characters.append((c, escaped, at))

    @property
    def text(self) -> str:
        """The word, escapes resolved."""
        return "".join(c for c, _, _ in self.characters)

    @property
    def has_wildcard(self) -> bool:
        """Whether a star or question mark was not escaped."""
        return any(c in "*?" and not escaped for c, escaped, _ in self.characters)

    @property
    def pattern(self) -> str:
        """The word as a wildcard pattern: what was literal and would mean something is escaped."""
        return "".join(f"\\{c}" if c == "\\" or (escaped and c in "*?") else c for c, escaped, _ in self.characters)

    def find(self, wanted: str) -> int:
        """The index of the first such character that was not escaped; -1 if there is none."""
        return next((i for i, (c, escaped, _) in enumerate(self.characters) if c == wanted and not escaped), -1)

    def split(self, index: int) -> tuple[BareWord, BareWord]:
        """What stands before and after a character."""
        before, after = self.characters[:index], self.characters[index + 1 :]
        return BareWord(self.start, before), BareWord(self.characters[index][2] + 1, after)

    def parts(self, separator: str) -> tuple[str, ...]:
        """The word cut at every separator that was not escaped."""
        found: list[list[str]] = [[]]
        for c, escaped, _ in self.characters:
            if c == separator and not escaped:
                found.append([])
            else:
                found[-1].append(c)
        return tuple("".join(letters) for letters in found)

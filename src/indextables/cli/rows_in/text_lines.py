"""Text lines as rows: a column per line, or columns by a pattern. Continuation lines belong to the
line before.

A pattern is a regular expression with named groups, or with `%{NAME:column}` (`%{INT:status}`), or
a preset: `common`, `combined`, `syslog`, `rfc5424`. The types of its columns are those of the
table, or those of the pattern's names.
"""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial
from itertools import islice
from typing import Any

import pyarrow as pa
from msgspec import Struct

from indextables.cli.output import note
from indextables.cli.rows_in import NOTHING_WRITTEN, misfit, note_blank_lines, quote
from indextables.errors import InvalidInputError, nearest
from indextables.model.exact_values import (
    UNFIT,
    UnfitError,
    array_of,
    exact_float,
    first_unfit,
    moment_of,
)
from indextables.model.report import pluralize, was
from indextables.model.schema import TIMESTAMP

_AT_ONCE = 20_000
MESSAGE, UNMATCHED = "message", "unmatched"
HTTP_TIME, SYSLOG_TIME = "%d/%b/%Y:%H:%M:%S %z", "%b %d %H:%M:%S"
_TIME_COLUMNS = ("ts", "time", "timestamp", "at", "datetime", "date")
WORDS: dict[str, tuple[str, pa.DataType | None, str | None]] = {
    "WORD": (r"\w+", None, None),
    "NOTSPACE": (r"\S+", None, None),
    "DATA": (r".*?", None, None),
    "GREEDYDATA": (r".*", None, None),
    "INT": (r"[+-]?\d+", pa.int64(), None),
    "POSINT": (r"\d+", pa.int64(), None),
    "NUMBER": (r"[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?", pa.float64(), None),
    "IP": (r"[0-9A-Fa-f:.]+", None, None),
    "HOSTNAME": (r"[\w.-]+", None, None),
    "IPORHOST": (r"[\w.:-]+", None, None),
    "USER": (r"[\w.@-]+", None, None),
    "QUOTED": (r'(?:[^"\\]|\\.)*', None, None),
    "URIPATH": (r"/\S*", None, None),
    "UUID": (r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}", None, None),
    "LOGLEVEL": (
        r"(?i:trace|debug|info|notice|warn(?:ing)?|err(?:or)?|crit(?:ical)?|fatal|emerg|alert|severe)",
        None,
        None,
    ),
    "TIMESTAMP_ISO8601": (
        r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?",
        TIMESTAMP,
        "iso",
    ),
    "HTTPDATE": (r"\d{1,2}/\w{3}/\d{4}:\d\d:\d\d:\d\d [+-]\d{4}", TIMESTAMP, HTTP_TIME),
    "SYSLOGTIMESTAMP": (r"\w{3} +\d{1,2} \d\d:\d\d:\d\d", TIMESTAMP, SYSLOG_TIME),
}
"""Names of `%{NAME:column}`: an expression, the type of the column, and the format of its times."""
_COMMON = (
    r"%{IPORHOST:client} %{NOTSPACE:ident} %{NOTSPACE:user} \[%{HTTPDATE:ts}\] "
    r'"(?:%{WORD:method} %{NOTSPACE:path}(?: %{NOTSPACE:protocol})?|%{QUOTED:request})" %{INT:status} (?:%{INT:bytes}|-)'
)
PRESETS = {
    "common": rf"{_COMMON}",
    "combined": rf'{_COMMON} "%{{QUOTED:referrer}}" "%{{QUOTED:agent}}".*',
    "syslog": r"(?:<%{INT:priority}>)?%{SYSLOGTIMESTAMP:ts} %{NOTSPACE:host} "
    r"(?P<program>[^\s:\[]+)(?:\[%{INT:pid}\])?: ?%{GREEDYDATA:message}",
    "rfc5424": r"<%{INT:priority}>%{INT:version} (?:-|%{TIMESTAMP_ISO8601:ts}) %{NOTSPACE:host} %{NOTSPACE:program} "
    r"%{NOTSPACE:pid} %{NOTSPACE:msgid} (?P<data>-|(?:\[(?:[^\]\\]|\\.)*\])+) ?\ufeff?%{GREEDYDATA:message}",
}
"""Patterns by name: access logs in common and combined form, syslog (RFC 3164 and RFC 5424)."""
_GROK = re.compile(r"%\{(\w+)(?::(\w+))?(?::(\w+))?\}")
_CASTS = {
    "int": pa.int64(),
    "long": pa.int64(),
    "float": pa.float64(),
    "double": pa.float64(),
    "string": pa.string(),
}
_BLANK = " \t\v\f"
_EPOCHS = ("epoch", "epoch_ms")
CHOICES = ("fail", "keep", "skip")


class TextFormat(Struct, frozen=True):
    """The requested conversion of lines to rows."""

    pattern: str | None = None
    continuation: str | None = None
    time_format: str | None = None
    encoding: str = "utf-8"
    unmatched: str = "fail"

    def check(self) -> None:
        """Refuse contradictory options before a file is read."""
        if self.unmatched not in CHOICES:
            hint = f"Choose one of {', '.join(CHOICES)}."
            raise InvalidInputError(
                f"Lines that do not match cannot be {self.unmatched!r}.", hint=hint
            )
        try:
            "".encode(self.encoding)
        except LookupError:
            hint = "Give one such as utf-8, latin-1, cp1252 or utf-16."
            raise InvalidInputError(f"There is no encoding {self.encoding!r}.", hint=hint) from None
        compile_pattern(self)


class LinePattern(Struct, frozen=True):
    """A compile_pattern pattern and the columns of its groups."""

    expression: re.Pattern[str] | None
    types: dict[str, pa.DataType]
    formats: dict[str, str]

    def row(self, record: str) -> dict[str, str | None] | None:
        """Return the columns of a record, or None if it does not match."""
        if self.expression is None:
            return {MESSAGE: record}
        match = self.expression.fullmatch(record)
        if match is None:
            return None
        return match.groupdict()


def compile_pattern(form: TextFormat) -> LinePattern:
    """Compile the pattern of a format, or raise an error that explains what is wrong with it."""
    if form.pattern is None:
        return LinePattern(None, {MESSAGE: pa.string()}, _given_times(form, [MESSAGE], {}))
    types: dict[str, pa.DataType] = {}
    formats: dict[str, str] = {}

    def group(match: re.Match[str]) -> str:
        word, column, cast = match.groups()
        if word not in WORDS:
            near = nearest(word, WORDS)
            hint = f"Did you mean %{{{near[0]}}}? " if near else ""
            raise InvalidInputError(
                f"The pattern names %{{{word}}}.", hint=f"{hint}Known: {', '.join(WORDS)}."
            )
        expression, kind, written = WORDS[word]
        if column is None:
            return f"(?:{expression})"
        if cast is not None and cast not in _CASTS:
            raise InvalidInputError(
                f"There is no type {cast!r} in a pattern.", hint=f"Types: {', '.join(_CASTS)}."
            )
        types[column] = _CASTS[cast] if cast else kind or pa.string()
        if written is not None and cast is None:
            formats[column] = written
        return f"(?P<{column}>{expression})"

    source = _GROK.sub(group, PRESETS.get(form.pattern, form.pattern))
    expression = _expression(source, "pattern")
    columns = list(expression.groupindex)
    if not columns:
        hint = f"Name parts: (?P<level>\\w+) or %{{WORD:level}}. Presets: {', '.join(PRESETS)}."
        raise InvalidInputError(
            "The pattern has no named part, so a row would have no column.", hint=hint
        )
    typed = {name: types.get(name, pa.string()) for name in columns}
    return LinePattern(expression, typed, _given_times(form, columns, formats))


def _expression(source: str, what: str) -> re.Pattern[str]:
    try:
        return re.compile(source, re.DOTALL)
    except re.error as error:
        place = "" if error.pos is None else f" at position {error.pos}"
        message = f"The {what} is no regular expression: {error.msg}{place}: {quote(source)}."
        raise InvalidInputError(
            message, hint="Mend it, or put a backslash before what is meant as it is."
        ) from None


def _given_times(
    form: TextFormat, columns: Sequence[str], formats: dict[str, str]
) -> dict[str, str]:
    if form.time_format is None:
        return formats
    column, equals, written = form.time_format.partition("=")
    if not equals or not column.isidentifier():
        column, written = (
            next((c for c in columns if c.lower() in _TIME_COLUMNS), ""),
            form.time_format,
        )
    if column not in columns:
        hint = f"Write it as COLUMN=FORMAT. Columns: {', '.join(columns)}."
        raise InvalidInputError("Nothing says which column --time-format is for.", hint=hint)
    return {**formats, column: written}


class TextLines:
    """A stream of batches of rows. Columns of `schema` have its types."""

    def __init__(
        self,
        file: Iterable[bytes],
        schema: pa.Schema | None,
        form: TextFormat,
        *,
        name: str,
        left_out: Counter[str] | None = None,
    ) -> None:
        """`left_out` counts the lines that are not rows, for the report of the command."""
        self._name, self._form, self._file = name, form, file
        self._left_out = Counter() if left_out is None else left_out
        self._pattern = compile_pattern(form)
        self._continuation = (
            None if form.continuation is None else _expression(form.continuation, "continuation")
        )
        self._table_fields = (
            {} if schema is None else {field.name.lower(): field for field in schema}
        )
        self._skipped = self._blank = 0
        types = dict(self._pattern.types)
        types |= dict.fromkeys(self._pattern.formats, TIMESTAMP)
        if form.unmatched == "keep" and self._pattern.expression is not None:
            types[UNMATCHED] = pa.string()
        self.schema = pa.schema([self._field(column, kind) for column, kind in types.items()])

    def _field(self, column: str, kind: pa.DataType) -> pa.Field:
        own = self._table_fields.get(column.lower())
        if own is None:
            return pa.field(column, kind)
        return pa.field(own.name, own.type)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        rows = self._rows()
        while chunk := list(islice(rows, _AT_ONCE)):
            arrays = [self._column(field, chunk) for field in self.schema]
            yield pa.RecordBatch.from_arrays(arrays, schema=self.schema)
        if self._skipped:
            note(
                f"{self._name}: {pluralize(self._skipped, 'line')} did not match and {was(self._skipped)} left out."
            )
            self._left_out["unmatched_lines"] += self._skipped
        note_blank_lines(self._name, self._blank, self._left_out)

    def _rows(self) -> Iterator[tuple[int, dict[str, str | None]]]:
        for number, record in self._records():
            row = self._pattern.row(record)
            if row is not None:
                yield number, row
            elif self._form.unmatched == "keep":
                yield number, {UNMATCHED: record}
            elif self._form.unmatched == "skip":
                self._skipped += 1
            else:
                raise InvalidInputError(
                    f"{self._name}, line {number} does not match the pattern: {quote(record)}.",
                    hint=f"Mend the pattern; or --unmatched keep puts such lines into a column {UNMATCHED!r}, --unmatched "
                    f"skip leaves them out. {NOTHING_WRITTEN}",
                    file=self._name,
                    line=number,
                )

    def _records(self) -> Iterator[tuple[int, str]]:
        """Yield each record with the number of its first line. Blank lines are counted and skipped."""
        start, parts = 0, list[str]()
        for number, line in self._lines():
            if parts and self._continuation is not None and self._continuation.match(line):
                parts.append(line)
                continue
            if parts:
                yield start, "\n".join(parts)
            start, parts = number, [line] if line.strip(_BLANK) else []
            self._blank += not parts
        if parts:
            yield start, "\n".join(parts)

    def _lines(self) -> Iterator[tuple[int, str]]:
        raw: Any = (
            self._file
            if isinstance(self._file, io.BufferedIOBase)
            else io.BytesIO(b"".join(self._file))
        )
        text = io.TextIOWrapper(raw, encoding=self._form.encoding, newline="\n")
        number = 0
        try:
            for number, line in enumerate(text, 1):
                yield number, (line.removeprefix("\ufeff") if number == 1 else line).rstrip("\r\n")
        except UnicodeError:
            raise InvalidInputError(
                f"{self._name}, about line {number + 1}: its text is not {self._form.encoding}.",
                hint=f"Give its --encoding, such as latin-1 or utf-16. {NOTHING_WRITTEN}",
                file=self._name,
                line=number + 1,
            ) from None
        finally:
            text.detach()

    def _column(
        self, field: pa.Field, rows: Sequence[tuple[int, dict[str, str | None]]]
    ) -> pa.Array:
        convert = self._converter(field)
        values: list[Any] = []
        for number, row in rows:
            value = row.get(field.name)
            try:
                values.append(None if value is None else convert(value))
            except (ValueError, KeyError, ArithmeticError) as error:
                raise misfit(
                    self._name, f"line {number}", value, field, guessed=False, error=error
                ) from None
        try:
            return array_of(values, field.type)
        except UNFIT as error:
            number, row = rows[first_unfit(values, field.type) or 0]
            raise misfit(
                self._name, f"line {number}", row.get(field.name), field, guessed=False, error=error
            ) from None

    def _converter(self, field: pa.Field) -> Callable[[str], Any]:
        kind = field.type
        if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
            return _time_converter(self._pattern.formats.get(field.name, "iso"), kind)
        if pa.types.is_integer(kind):
            return int
        if pa.types.is_floating(kind):
            return partial(exact_float, kind=kind)
        if pa.types.is_boolean(kind):
            return {"true": True, "false": False}.__getitem__
        return str


def _time_converter(written: str, kind: pa.DataType) -> Callable[[str], Any]:
    parse = time_parser(written)
    if pa.types.is_date(kind):
        return lambda text: parse(text).date()
    if kind.tz is not None:
        return parse
    if written == "iso":
        return lambda text: text.replace(",", ".")
    # A text with a zone does not fit a column without one; `parse` gives UTC to a text without a
    # zone.
    if written in _EPOCHS or "%z" in written:
        return parse
    return lambda text: parse(text).replace(tzinfo=None)


def time_parser(written: str) -> Callable[[str], datetime]:
    """Return a parser of times: `iso`, `epoch`, `epoch_ms`, or a format of strptime.

    A time without a zone is in UTC. A format without a year means the most recent such time in the
    past.
    """
    if written == "iso":
        return lambda text: moment_of(text.replace(",", "."))
    if written in _EPOCHS:
        return partial(_since_1970, micros=1_000_000 if written == "epoch" else 1_000)
    if "%y" in written.lower() or "%s" in written:
        return lambda text: _in_utc(datetime.strptime(text, written))
    now = datetime.now(UTC)

    def parse(text: str) -> datetime:
        for year in (now.year, now.year - 1):
            try:
                found = _in_utc(datetime.strptime(f"{year} {text}", f"%Y {written}"))
            except ValueError:
                continue  # 29 February is not in every year
            if found <= now + timedelta(days=1):
                return found
        return _in_utc(datetime.strptime(f"{now.year - 1} {text}", f"%Y {written}"))

    return parse


def _since_1970(text: str, *, micros: int) -> datetime:
    """Return a number as a timestamp; `micros` is the microseconds per unit."""
    count = Decimal(text) * micros
    if count % 1:
        raise UnfitError("times end at microseconds, and it has more digits")
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=int(count))


def _in_utc(found: datetime) -> datetime:
    if found.tzinfo:
        return found
    return found.replace(tzinfo=UTC)

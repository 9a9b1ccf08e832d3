"""Input files of a command: their formats, and their rows or those of standard input as one stream.

Errors of reading or writing a local file are reported with its name.
"""

from __future__ import annotations

import io
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from glob import glob
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Struct, field

from indextables.cli.rows_in import NOTHING_WRITTEN
from indextables.cli.rows_in.csv import CsvRows
from indextables.cli.rows_in.json_lines import JsonLines
from indextables.cli.rows_in.text_lines import TextFormat, TextLines
from indextables.errors import AccessDeniedError, InvalidInputError, NotFoundError, StorageError
from indextables.model.schema import normalize


@contextmanager
def reading(place: str | Path) -> Iterator[None]:
    """Name the file in errors while it is read."""
    try:
        yield
    except FileNotFoundError:
        hint = "Check the path; - reads standard input."
        raise NotFoundError(
            f"There is no file {str(place)!r}.", hint=hint, path=str(place)
        ) from None
    except OSError as error:
        raise _failure("read", place, error) from error


@contextmanager
def writing(place: Path) -> Iterator[None]:
    """Name the file in errors while it is written."""
    try:
        yield
    except FileNotFoundError:
        message = f"There is no folder {str(place.parent)!r} to write {place.name} to."
        raise NotFoundError(
            message, hint="Make the folder first, or choose another.", path=str(place)
        ) from None
    except OSError as error:
        raise _failure("written", place, error) from error


def _failure(act: str, place: str | Path, error: OSError) -> InvalidInputError | StorageError:
    path = str(place)
    if isinstance(error, IsADirectoryError):
        return InvalidInputError(f"{path} is a folder.", hint="Give the path of a file.", path=path)
    if isinstance(error, PermissionError):
        hint = f"Check the permissions of {path} and of the folder it is in."
        return AccessDeniedError(f"{path} may not be {act} by this user.", hint=hint, path=path)
    message = f"{path} cannot be {act}: {error.strerror or error}."
    return StorageError(message, hint="Check the disk and the path, then try again.", path=path)


STDIN = "-"
FORMATS = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".tsv": "tsv",
    ".json": "jsonl",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".arrow": "arrow",
    ".arrows": "arrow",
    ".log": "text",
    ".txt": "text",
}
NAMES = ", ".join(sorted(set(FORMATS.values())))
_DELIMITERS = {"csv": ",", "tsv": "\t"}
_PACKED = (".gz", ".bz2", ".zst", ".lz4")
_TABS = ("tab", "\\t")


class RowFiles(Struct, frozen=True):
    """Files of rows, read one after another. `known` are the table's columns, which give texts
    their types.
    """

    places: tuple[str, ...]
    format: str | None = None
    delimiter: str | None = None
    table_schema: pa.Schema | None = None
    text: TextFormat = TextFormat()
    left_out: Counter[str] = field(default_factory=Counter)
    """Number of text and JSON lines that are not rows, by kind."""

    @property
    def is_text(self) -> bool:
        """Return whether any of the files is read line by line as text."""
        return any(self._kind(place) == "text" for place in self.places)

    @contextmanager
    def open(
        self, step: Callable[[int], None]
    ) -> Iterator[tuple[pa.Schema, Iterator[pa.RecordBatch]]]:
        """Return the columns of the first file and the rows of all files. `step` receives the
        number of rows read.
        """
        with ExitStack() as files:
            first = self._open(self.places[0], files)
            yield first.schema, self._batches(first, normalize(first.schema), step, files)

    def _batches(
        self, first: Any, schema: pa.Schema, step: Callable[[int], None], files: ExitStack
    ) -> Iterator[pa.RecordBatch]:
        done = 0
        yield pa.RecordBatch.from_pylist([], schema=first.schema)
        for number, place in enumerate(self.places):
            source = first if number == 0 else self._open(place, files)
            if normalize(source.schema) != schema:
                raise InvalidInputError(
                    f"{place} has other columns than {self.places[0]}: {_names(source.schema)} instead of {_names(schema)}.",
                    hint="Append them one at a time; --merge-schema adds columns.",
                    path=place,
                )
            for batch in _name_errors(place, source):
                done += batch.num_rows
                step(done)
                yield batch if batch.schema == first.schema else batch.cast(first.schema)

    def _open(self, place: str, files: ExitStack) -> Any:
        kind = self._kind(place)
        with _readable(place):
            if place == STDIN:
                file = sys.stdin.buffer
            else:
                file = files.enter_context(_open_place(place))
            if kind in _DELIMITERS:
                return CsvRows(
                    file,
                    self.table_schema,
                    name=_name(place),
                    path=Path(place) if Path(place).is_file() and not _is_packed(place) else None,
                    delimiter=self._delimiter(kind),
                    is_explicit=self.delimiter is not None,
                )
            if kind == "text":
                return TextLines(
                    file, self.table_schema, self.text, name=_name(place), left_out=self.left_out
                )
            if kind == "jsonl":
                return JsonLines(file, self.table_schema, name=_name(place), left_out=self.left_out)
            if kind == "parquet":
                return _Parquet(_parquet(file))
            return pa.ipc.open_stream(file)

    def rows_of(self, file: BinaryIO, place: Path, table_schema: pa.Schema | None) -> Any:
        """Return the rows of a part of a file that is read line by line. A rotated file has the
        format of the first.
        """
        if self._kind(self.places[0]) == "text":
            return TextLines(file, table_schema, self.text, name=str(place), left_out=self.left_out)
        return JsonLines(file, table_schema, name=str(place), left_out=self.left_out)

    def _kind(self, place: str) -> str:
        kind = self.format or FORMATS.get(_suffix(place))
        if kind is None:
            message = f"The format of {_name(place)} is not known."
            raise InvalidInputError(message, hint=f"Pass --format: {NAMES}.", path=place)
        if kind not in FORMATS.values():
            raise InvalidInputError(
                f"There is no format {kind!r}.", hint=f"The formats are {NAMES}.", format=kind
            )
        if self.delimiter is not None and kind not in _DELIMITERS:
            message = f"--delimiter goes with csv, and {_name(place)} is {kind}."
            raise InvalidInputError(message, hint="Leave it out, or pass --format csv.", path=place)
        return kind

    def _delimiter(self, kind: str) -> str:
        delimiter = "\t" if self.delimiter in _TABS else self.delimiter
        if delimiter is not None and (
            len(delimiter) != 1 or delimiter in '"\r\n' or not delimiter.isascii()
        ):
            hint = "Give one character, such as ';' or '|', or the word tab."
            raise InvalidInputError(
                f"{delimiter!r} cannot be a delimiter.", hint=hint, delimiter=delimiter
            )
        return delimiter or _DELIMITERS[kind]


def expand_paths(places: Sequence[str], file_format: str | None) -> tuple[str, ...]:
    """Expand folders and patterns with * or ? to files.

    Hidden files are left out, and files with an unknown ending unless the format is given.
    """
    found: list[str] = []
    for place in places:
        path = Path(place)
        if place != STDIN and path.is_dir():
            below = sorted(
                p for p in path.rglob("*") if p.is_file() and not _is_hidden(p.relative_to(path))
            )
            files = [
                str(p) for p in below if file_format is not None or FORMATS.get(_suffix(str(p)))
            ]
        elif place != STDIN and any(mark in place for mark in "*?[") and not path.exists():
            files = sorted(p for p in glob(place, recursive=True) if Path(p).is_file())  # noqa: PTH207
        else:
            files = [place]
        if not files:
            hint = "Check the path; of a folder, files with known endings are taken, or all with --format."
            raise NotFoundError(f"There is no file in {place!r} to read.", hint=hint, path=place)
        found += files
    return tuple(found)


def _is_hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


def _suffix(place: str) -> str:
    """Return the file's ending in front of .gz."""
    path = Path(place)
    if _is_packed(place):
        return Path(path.stem).suffix.lower()
    return path.suffix.lower()


def _is_packed(place: str) -> bool:
    return Path(place).suffix.lower() in _PACKED


def _open_place(place: str) -> BinaryIO:
    if not _is_packed(place):
        return Path(place).open("rb")
    # Arrow's streams are what a buffered reader needs of a raw file, though not by their type.
    unpacked: Any = pa.input_stream(place)
    return io.BufferedReader(unpacked)


@contextmanager
def _readable(place: str) -> Iterator[None]:
    """Name the file in errors."""
    try:
        with reading(place):
            yield
    except (pa.ArrowInvalid, pa.ArrowKeyError, pa.ArrowNotImplementedError) as error:
        raise InvalidInputError(
            f"{_name(place)} cannot be read: {' '.join(str(error).split()).rstrip('.')}.",
            hint=f"Check the file, and --format if its name does not tell what it is. {NOTHING_WRITTEN}",
            path=place,
        ) from None


def _name_errors(place: str, source: Any) -> Iterator[pa.RecordBatch]:
    with _readable(place):
        yield from source


class _Parquet(Struct, frozen=True):
    """Read a Parquet file as a stream."""

    file: pq.ParquetFile

    @property
    def schema(self) -> pa.Schema:
        return self.file.schema_arrow

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return iter(self.file.iter_batches())


def _parquet(file: BinaryIO) -> pq.ParquetFile:
    # A Parquet file is read from its end, so what comes through a pipe is taken whole.
    return pq.ParquetFile(file if file is not sys.stdin.buffer else pa.BufferReader(file.read()))


def _name(place: str) -> str:
    if place == STDIN:
        return "standard input"
    return place


def _names(schema: Sequence[pa.Field]) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)

"""Reading a split: its schema, any of its rows, its index.

    reader = SplitReader.open(LocalSource(path))
    reader.read_rows(columns=["message"], rows=np.array([7, 100_000]))
    with reader.open_index(["c3"], positions=True) as view:
        view.index.searcher().search(...)

Every byte that is used is proven by a checksum first. Only what is asked for is read: the row
groups that hold the wanted rows, the chunks of the wanted columns (handed to Parquet as if the
whole file were there), the index data of the wanted fields. The end of a split is read as seldom as
possible: it is kept decoded in memory, and on disk for a remote split.
"""

from __future__ import annotations

import bisect
import hashlib
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from types import TracebackType

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from indextables.errors import BadFileError, InvalidInputError
from indextables.model.column_ranges import ColumnRange
from indextables.model.predicate import Predicate
from indextables.model.predicate.tree import Column
from indextables.model.pruning import ranges_may_match
from indextables.splits.format.footer import SplitFooter, decode_footer, read_footer
from indextables.splits.format.footer_checksum import check_footer
from indextables.splits.format.parquet import open_parquet
from indextables.splits.format.section_table import SectionTable
from indextables.splits.format.source import ReadStats, SplitSource
from indextables.splits.index.mapping import DocMapping
from indextables.splits.index.tantivy_files import Mask
from indextables.splits.index.values import IncompleteValues
from indextables.splits.read.cache import SplitCache
from indextables.splits.read.column_arrays import ColumnArray, build_array, is_countable
from indextables.splits.read.directory import IndexDirectory, MaskedIndex, RowMask, StoredSegment
from indextables.splits.read.page_rows import PageRows, RowBounds
from indextables.splits.read.searchable import FEW_ROWS, rows_at


def open_footer(source: SplitSource, footer_start: int | None, cache: SplitCache) -> SplitFooter:
    """Return the verified end of a split. It is cached, because a split never changes."""
    known = cache.tails.get(source.identity)
    if isinstance(known, SplitFooter) and footer_start in (None, known.footer_start):
        return known
    if source.remote and footer_start is not None:
        tail = _from_disk(source, footer_start, cache)
    else:
        tail = None
    if tail is None:
        if isinstance(source, SmallSource):
            source.fetch()
        with NoDamagedCopy(source):
            tail = read_footer(source, footer_start)
        if source.remote:
            cache.keep(_key(source, tail.footer_start), tail.data)
    cache.tails.put(source.identity, tail, len(tail.data))
    return tail


def _from_disk(source: SplitSource, footer_start: int, cache: SplitCache) -> SplitFooter | None:
    data = cache.read(_key(source, footer_start))
    if data is None or len(data) != source.size - footer_start:
        return None
    try:
        check_footer(data, footer_start=footer_start, path=source.path)
    except BadFileError:
        return None
    return decode_footer(data, footer_start, source.path)


def _key(source: SplitSource, footer_start: int) -> str:
    # Earlier releases look for folders, under names without an ending.
    return (
        f"tail-{hashlib.sha256(f'{source.identity}:{footer_start}'.encode()).hexdigest()[:40]}.end"
    )


SMALL_BYTES = 1 << 20
"""Remote splits up to this size are fetched completely: another request takes longer than the
remaining bytes.
"""


class SmallSource:
    """A small remote split: one request for all of it if its end is not known yet, then its bytes
    from memory.
    """

    remote = True

    def __init__(self, source: SplitSource, cache: SplitCache) -> None:
        self.path, self.size, self.identity, self.stats = (
            source.path,
            source.size,
            source.identity,
            source.stats,
        )
        self._source = source
        self._cache = cache

    def fetch(self) -> None:
        """Read the whole split."""
        (data,) = self._source.read_many([(0, self.size)])
        self._cache.files.put(self.identity, data, len(data))

    def forget(self) -> None:
        """Release the bytes in memory."""
        self._cache.files.drop(self.identity)

    def read_many(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Read from memory while the split is there, otherwise from the store."""
        data = self._cache.files.get(self.identity)
        if data is None or any(start < 0 or start + length > len(data) for start, length in ranges):
            return self._source.read_many(ranges)
        return [data[start : start + length] for start, length in ranges]


class NoDamagedCopy:
    """Do not cache bytes whose verification failed, so that the next attempt reads the store again."""

    def __init__(self, source: SplitSource) -> None:
        self._source = source

    def __enter__(self) -> None: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if isinstance(error, BadFileError) and isinstance(self._source, SmallSource):
            self._source.forget()


WINDOW_BYTES = 16 << 20
"""Compressed bytes held at once when many rows are streamed."""
_FEW_PAGES = 3
"""A split with at most this many pages per column is read by row groups."""
_THREADS_BYTES = 1 << 20
"""Up to this many compressed bytes are decoded without a thread pool, which takes longer to wake
up.
"""
Groups = npt.NDArray[np.int64]


def read_groups(
    source: SplitSource,
    tail: SplitFooter,
    groups: Sequence[int],
    columns: Sequence[str],
    *,
    codes: bool = False,
) -> pa.Table:
    """Read columns of row groups. Every chunk is verified before it is decoded. With `codes`, texts
    may be codes.
    """
    if not groups:
        return tail.schema_of(columns).empty_table()
    return _decode(_proven_file(source, tail, groups, columns), tail, groups, columns, codes=codes)


def read_each_group(
    source: SplitSource, tail: SplitFooter, groups: Sequence[int], columns: Sequence[str]
) -> Iterator[pa.Table]:
    """Read each row group as a table of its own; all are fetched in one call.

    Texts with a dictionary are codes, which take less memory and are selected faster.
    """
    file = _proven_file(source, tail, groups, columns)
    return (_decode(file, tail, [group], columns, codes=True) for group in groups)


def _proven_file(
    source: SplitSource, tail: SplitFooter, groups: Sequence[int], columns: Sequence[str]
) -> ProvidedChunks:
    leaves = _leaves(tail, columns)
    chunks = [(group, leaf) for group in groups for leaf in leaves]
    ranges = [
        (int(start), int(length)) for start, length in (tail.places[chunk] for chunk in chunks)
    ]
    found = source.read_many(ranges)
    for chunk, (start, length), data in zip(chunks, ranges, found, strict=True):
        if zlib.crc32(data) != int(tail.checksums[chunk]):
            message = f"Bytes {start} to {start + length} of the split {tail.path} are damaged: the checksum differs."
            raise BadFileError(message, path=tail.path, start=start, length=length)
    return ProvidedChunks(tail.path, source.size, ranges, found)


def _decode(
    file: ProvidedChunks,
    tail: SplitFooter,
    groups: Sequence[int],
    columns: Sequence[str],
    *,
    codes: bool,
) -> pa.Table:
    schema = pa.schema([tail.schema.field(name) for name in columns])
    leaves = _leaves(tail, columns)
    try:
        reader = open_parquet(
            file, tail.metadata, _find_coded(tail, groups, columns) if codes else ()
        )
        many = int(tail.places[np.ix_(groups, leaves)][:, :, 1].sum()) > _THREADS_BYTES
        table = reader.read_row_groups(
            list(groups), column_indices=sorted(leaves), use_threads=many
        )
    except (pa.ArrowException, OSError, ValueError) as e:
        raise BadFileError(
            f"The rows of the split {tail.path} cannot be decoded: {e}.", path=tail.path
        ) from e
    chosen = table.select(list(columns)).replace_schema_metadata(None)
    if chosen.schema.equals(schema, check_metadata=True):
        return chosen
    return chosen.cast(pa.schema(map(_with_codes, schema, chosen.schema)) if codes else schema)


def _find_coded(tail: SplitFooter, groups: Sequence[int], columns: Sequence[str]) -> list[int]:
    """Return the leaves of texts with a dictionary in these row groups."""
    texts = [
        tail.leaves[name].start
        for name in columns
        if pa.types.is_string(tail.schema.field(name).type)
    ]
    chunks = {
        leaf: [tail.metadata.row_group(group).column(leaf) for group in groups] for leaf in texts
    }
    return [
        leaf for leaf, some in chunks.items() if all(chunk.has_dictionary_page for chunk in some)
    ]


def _with_codes(field: pa.Field, read: pa.Field) -> pa.Field:
    """Return a field with dictionary type if its values were read as codes."""
    if pa.types.is_dictionary(read.type):
        return field.with_type(read.type)
    return field


def _in_full(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return a table with codes replaced by texts."""
    if table.schema.equals(schema):
        return table
    return table.cast(schema)


def _leaves(tail: SplitFooter, columns: Sequence[str]) -> list[int]:
    return [leaf for name in dict.fromkeys(columns) for leaf in tail.leaves[name]]


def windows(tail: SplitFooter, groups: Groups, columns: Sequence[str]) -> Iterator[list[int]]:
    """Group row groups so that the chunks of each group fit into memory."""
    places = tail.leaves
    leaves = [leaf for name in columns for leaf in places[name]]
    sizes = tail.places[:, leaves, 1].sum(axis=1)
    run: list[int] = []
    held = 0
    for group in groups:
        if run and held + sizes[group] > WINDOW_BYTES:
            yield run
            run, held = [], 0
        run.append(int(group))
        held += int(sizes[group])
    if run:
        yield run


class ProvidedChunks:
    """A file that has only the fetched bytes. Reading other bytes is an error instead of zeros."""

    def __init__(
        self, path: str, size: int, ranges: Sequence[tuple[int, int]], data: Sequence[bytes]
    ) -> None:
        pieces = sorted((start, piece) for (start, _), piece in zip(ranges, data, strict=True))
        self._path = path
        self._size = size
        self._starts = [start for start, _ in pieces]
        self._data = [piece for _, piece in pieces]
        self._at = 0
        self.closed = False

    def read(self, length: int = -1) -> memoryview:
        number = bisect.bisect_right(self._starts, self._at) - 1
        if number >= 0:
            skip = self._at - self._starts[number]
            if 0 <= length <= len(self._data[number]) - skip:
                self._at += length
                return memoryview(self._data[number])[skip : skip + length]
        message = f"Parquet asked for {length} bytes at {self._at} of {self._path}, which no column chunk holds."
        raise BadFileError(message, path=self._path, start=self._at, length=length)

    def seek(self, offset: int, whence: int = 0) -> int:
        self._at = offset + (0, self._at, self._size)[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def size(self) -> int:
        return self._size

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def writable(self) -> bool:
        return False

    def close(self) -> None:
        self.closed = True


Rows = npt.NDArray[np.int64]


class SplitReader:
    """An open split. Cheap to keep, not picklable; to be opened after a fork."""

    def __init__(self, source: SplitSource, tail: SplitFooter, cache: SplitCache) -> None:
        self._source = source
        self._tail = tail
        self._cache = cache

    @classmethod
    def open(
        cls,
        source: SplitSource,
        *,
        footer_start: int | None = None,
        cache: SplitCache | None = None,
    ) -> SplitReader:
        """Open one of our splits. One read if the log names the footer start."""
        cache = cache or SplitCache.default()
        return cls(source, open_footer(source, footer_start, cache), cache)

    @property
    def path(self) -> str:
        """The split's name in messages."""
        return self._source.path

    @property
    def schema(self) -> pa.Schema:
        """Columns and types of the rows in the file, without partition columns."""
        return self._tail.schema

    @property
    def num_rows(self) -> int:
        """Number of rows in the split."""
        return self._tail.table.rows

    @property
    def stored_rows(self) -> int:
        """Number of rows, because deletions are recorded in the log and not in the split."""
        return self._tail.table.rows

    @property
    def table(self) -> SectionTable:
        """The section table."""
        return self._tail.table

    @property
    def stats(self) -> ReadStats:
        """Requests and bytes so far."""
        return self._source.stats

    @property
    def indexed(self) -> bool:
        """Whether there is an index to open."""
        return bool(self._tail.table.components)

    @property
    def incomplete(self) -> Mapping[str, IncompleteValues]:
        """Values that the index holds only partly, by column."""
        return self._tail.incomplete

    @property
    def mapping(self) -> DocMapping:
        """How the columns are indexed."""
        return self._tail.mapping

    @cached_property
    def _content(self) -> str:
        """Identifier of the rows of this file in the cache. Another file at the same path has
        another one.
        """
        return f"{self._source.identity}:{self._tail.digest}"

    @property
    def tail(self) -> SplitFooter:
        """The decoded end of the file."""
        return self._tail

    def read_rows(
        self, rows: Rows | Mask | None = None, *, columns: Sequence[str] | None = None
    ) -> pa.Table:
        """Read rows by number (in the given order, with repeats), by mask, or all, with the
        requested columns.
        """
        names = self._columns(columns)
        if rows is None and names:
            return read_groups(
                self._source, self._tail, range(self._tail.metadata.num_row_groups), names
            )
        numbers = self._numbers(rows)
        if not names:
            return pa.table({"": pa.nulls(len(numbers))}).select([])
        return self._pick(None, numbers, names)

    def iter_rows(
        self,
        rows: Rows | Mask | None = None,
        *,
        columns: Sequence[str] | None = None,
        codes: bool = False,
    ) -> Iterator[pa.RecordBatch]:
        """Stream the rows in file order in bounded memory. Row numbers must ascend.

        With `codes`, texts with a dictionary may be codes, with a dictionary per batch.
        """
        names = self._columns(columns)
        numbers = self._numbers(rows)
        if len(numbers) > 1 and bool((np.diff(numbers) <= 0).any()):
            raise InvalidInputError(
                "Row numbers must ascend when rows are streamed.", path=self.path
            )
        if not names:
            yield pa.record_batch({"": pa.nulls(len(numbers))}).select([])
            return
        groups = self._groups_of(numbers)
        for run in windows(self._tail, groups, names):
            if rows is None:
                yield from read_groups(
                    self._source, self._tail, run, names, codes=codes
                ).to_batches()
                continue
            low, high = self._tail.group_starts[run[0]], self._tail.group_starts[run[-1] + 1]
            here = numbers[np.searchsorted(numbers, low) : np.searchsorted(numbers, high)]
            yield from self._pick(np.array(run), here, names, codes=codes).to_batches()

    def _pick(
        self, groups: Rows | None, numbers: Rows, names: Sequence[str], *, codes: bool = False
    ) -> pa.Table:
        """Read rows by number from pages or row groups, and cache what was decoded."""
        if self._pages is not None and len(numbers):
            plan = self._pages.plan(numbers, names)
        else:
            plan = {}
        if groups is None and len(plan) < len(names):
            groups = self._groups_of(numbers)
        else:
            groups = groups
        if not plan:
            return self._picked_from_groups(groups, numbers, names, codes=codes)
        rest = [name for name in names if name not in plan]
        if rest:
            others = self._picked_from_groups(groups, numbers, rest)
        else:
            others = None
        with NoDamagedCopy(self._source):
            if self._pages is not None:
                columns = self._pages.read(list(plan.values()))
            else:
                columns = {}
        if others is not None:
            columns |= {name: others.column(name) for name in rest}
        return pa.table([columns[name] for name in names], schema=self._tail.schema_of(names))

    @cached_property
    def _pages(self) -> PageRows | None:
        table = self._tail.pages
        if table is None or len(table.lengths) <= self._tail.metadata.num_columns * _FEW_PAGES:
            return None
        return PageRows(
            self._source, self._tail, table, self._cache, self._content, self._decoded_groups
        )

    def _picked_from_groups(
        self, groups: Rows | None, numbers: Rows, names: Sequence[str], *, codes: bool = False
    ) -> pa.Table:
        assert groups is not None
        run, schema = groups.tolist(), self._tail.schema_of(names)
        decoded = self._decoded_groups(run, names)
        if len(numbers) <= FEW_ROWS:
            same = all(table.schema.equals(decoded[0].schema) for table in decoded)
            if same:
                tables = decoded
            else:
                tables = [_in_full(table, schema) for table in decoded]
            if tables:
                table = pa.concat_tables(tables)
            else:
                table = schema.empty_table()
            return _in_full(rows_at(table, self._places(groups, numbers)), schema)
        # Row group by row group: a `take` over all of them would copy each of them whole first.
        different = bool((np.diff(numbers) > 0).all())
        if different:
            order = None
        else:
            order = np.argsort(numbers, kind="stable")
        ascending = numbers if order is None else numbers[order]
        bounds, pieces = np.searchsorted(ascending, self._tail.group_starts), []
        for group, table in zip(run, decoded, strict=True):
            here = ascending[bounds[group] : bounds[group + 1]] - self._tail.group_starts[group]
            whole = different and len(here) == table.num_rows
            pieces.append(table if whole else table.take(pa.array(here)))
        if (
            codes
            and order is None
            and all(piece.schema.equals(pieces[0].schema) for piece in pieces)
        ):
            return pa.concat_tables(pieces)  # each piece has its own dictionaries
        table = pa.concat_tables([_in_full(piece, schema) for piece in pieces]).combine_chunks()
        if order is None:
            return table
        places = np.empty(len(order), np.int64)
        places[order] = np.arange(len(order))
        return table.take(pa.array(places))

    def _decoded_groups(self, groups: Sequence[int], names: Sequence[str]) -> list[pa.Table]:
        """Return these columns of each row group from the cache, and the missing ones from one
        read.
        """
        pages, content = self._cache.pages, self._content
        held = {(g, n): pages.get((content, g, n)) for g in groups for n in names}
        absent = [key for key, column in held.items() if column is None]
        if absent:
            missing, columns = (
                list(dict.fromkeys(g for g, _ in absent)),
                list(dict.fromkeys(n for _, n in absent)),
            )
            with NoDamagedCopy(self._source):
                tables = read_each_group(self._source, self._tail, missing, columns)
            for group, table in zip(missing, tables, strict=True):
                for name in columns:
                    column = held[group, name] = table.column(name)
                    pages.put((content, group, name), column, column.nbytes)
        return [pa.table([held[g, n] for n in names], names=list(names)) for g in groups]

    def column_array(self, name: str, rows: Rows | None) -> ColumnArray | None:
        """Return a column of rows (None: all) as an array that is kept in memory. None if it was
        not requested before, is not a column for counting, or would have to be fetched.
        """
        pages, key = self._cache.pages, (self._content, name, "array")
        known = pages.get(key)
        if known is None:
            known = self._build_array(name)
            if known is None:
                return None
            pages.put(key, known, known.nbytes)
        return known.take(rows)

    def _build_array(self, name: str) -> ColumnArray | None:
        pages, asked = self._cache.pages, (self._content, name, "asked for an array")
        groups = range(self._tail.metadata.num_row_groups)
        field = self._tail.schema.field(name)
        if not is_countable(field.type) or self.num_rows * _ARRAY_ITEM > pages.max_bytes // 4:
            return None
        answer = pages.get(asked)
        if answer is None:
            pages.put(asked, _FIRST_REQUEST, _ARRAY_ITEM)
        if answer != _FIRST_REQUEST:
            return None
        columns = {group: pages.get((self._content, group, name)) for group in groups}
        missing = [group for group, column in columns.items() if column is None]
        if missing and self._source.remote:
            return None
        with NoDamagedCopy(self._source):
            tables = read_each_group(self._source, self._tail, missing, [name])
            columns.update((g, t.column(name)) for g, t in zip(missing, tables, strict=True))
        built = build_array(columns[group] for group in groups)
        if built is None:
            pages.put(asked, _NO_ARRAY, _ARRAY_ITEM)
        return built

    def decides(self, bound: Predicate) -> bool:  # noqa: ARG002
        """Return False: bounds of many rows only show what is possible."""
        return False

    def rows_with(self, column: str, terms: Sequence[str]) -> Mask | None:  # noqa: ARG002
        """Return None: the index answers this better."""
        return None

    def may_match(self, bound: Predicate) -> Mask | None:
        """Return FALSE for rows for which a predicate bound to this split's schema cannot be true,
        or None.
        """
        return np.repeat(ranges_may_match(bound, self._bounds), np.diff(self._bounds.starts))

    def group_bounds(self, column: str) -> tuple[Rows, ColumnRange] | None:
        """Return the first row of every part of the split, and the bounds of a column in each."""
        if not self._tail.metadata.num_row_groups:
            return None
        kind = self.schema.field(column).type
        return self._bounds.starts[:-1], self._bounds.range_of(Column((column,), kind))

    @cached_property
    def _bounds(self) -> RowBounds:
        return RowBounds(self._tail)

    def open_index(
        self,
        fields: Iterable[str],
        *,
        positions: bool = False,
        norms: bool = False,
        mask: RowMask | None = None,
    ) -> IndexDirectory | MaskedIndex:
        """Open the index with the verified data of these tantivy fields. The caller closes the
        view.

        `positions` are for phrases, `norms` for scores. A field outside the list must not be
        searched: tantivy would find nothing, without an error. Rows outside of `mask` are deleted
        documents.
        """
        opening = self._source, self._tail, self.mapping, self._cache
        view = IndexDirectory.open(*opening) if mask is None else MaskedIndex.open(*opening, mask)
        try:
            with NoDamagedCopy(self._source):
                view.need(fields, positions=positions, norms=norms)
        except BaseException:
            view.close()
            raise
        return view

    @property
    def segment(self) -> StoredSegment:
        """Return the whole index for merging."""
        return StoredSegment(self._source, self._tail)

    def _columns(self, columns: Sequence[str] | None) -> list[str]:
        names = list(self.schema.names if columns is None else columns)
        unknown = [name for name in names if name not in self.schema.names]
        if unknown:
            message = f"The split {self.path} has no column {', '.join(map(repr, unknown))}."
            raise InvalidInputError(
                message, hint=f"Its columns: {', '.join(self.schema.names)}.", columns=unknown
            )
        return names

    def _numbers(self, rows: Rows | Mask | None) -> Rows:
        if rows is None:
            return np.arange(self.num_rows, dtype=np.int64)
        found = np.asarray(rows)
        if found.dtype == np.bool_:
            if len(found) != self.num_rows:
                raise InvalidInputError(
                    f"A mask of {len(found)} rows for {self.num_rows} of {self.path}."
                )
            return np.flatnonzero(found)
        numbers: Rows = found.astype(np.int64)
        if len(numbers) and (numbers.min() < 0 or numbers.max() >= self.num_rows):
            raise InvalidInputError(f"Row numbers outside the {self.num_rows} rows of {self.path}.")
        return numbers

    def _groups_of(self, numbers: Rows) -> Rows:
        groups = np.searchsorted(self._tail.group_starts, numbers, side="right") - 1
        # What np.unique gives, which loads the whole of numpy.ma on its first call.
        return np.flatnonzero(np.bincount(groups, minlength=len(self._tail.group_starts)))

    def _places(self, groups: Rows, numbers: Rows) -> Rows:
        """Return the positions of rows in a table that holds only some row groups."""
        starts = self._tail.group_starts
        lengths = np.diff(starts)[groups]
        offsets = np.concatenate([[0], np.cumsum(lengths)[:-1]]).astype(np.int64)
        place = np.searchsorted(starts[groups], numbers, side="right") - 1
        found: Rows = offsets[place] + numbers - starts[groups][place]
        return found


_ARRAY_ITEM = 8
"""Bytes of one number of a column array at most."""
_FIRST_REQUEST, _NO_ARRAY = "first request", "no array"


def open_term_count(reader: SplitReader, field: str, text: str) -> int | None:
    """Return how many rows of a split hold a term of a field if its dictionary is already open, or
    None.
    """
    return IndexDirectory.term_count(reader.tail, reader._cache, field, text)

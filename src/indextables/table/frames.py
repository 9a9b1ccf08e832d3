"""A table for other libraries: as frames of pandas, Polars and DuckDB, as an Arrow stream, as plain
Parquet files.

What Polars filters by is pushed down where it means the same here: comparisons of columns that are
no floating-point numbers with literals, and, or, null or not. Polars' own filter is applied to what
comes back, so nothing depends on it.
"""

from __future__ import annotations

import datetime as dt
import fcntl
import json
import operator
import re
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from indextables.errors import InvalidInputError, RefusedError, UnsupportedError
from indextables.handle import TableHandle
from indextables.model.arguments import text
from indextables.model.predicate import Predicate, Where, all_of, bound_predicate
from indextables.model.report import Report
from indextables.query.plan import plan_scan
from indextables.query.search import TableSearch
from indextables.query.task import ScanTask, limit_rows
from indextables.splits.index.table_schema import TableSchema
from indextables.splits.read.reader import SplitReader
from indextables.splits.read.table_split import SplitEntry
from indextables.storage.location import partition_folder

if TYPE_CHECKING:
    import duckdb
    import polars as pl


class ParquetView(Report, frozen=True):
    """Plain Parquet files with the rows of a version."""

    directory: str
    version: int
    files: int
    rows: int
    copied: int
    """Files that are copies of splits, byte by byte, because these hold exactly the rows of the
    table.
    """


# Rows as plain Parquet.


def parquet_view(table: TableHandle, directory: Path) -> ParquetView:
    """The rows of the version that a table shows as plain Parquet files in a new folder."""
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        message = f"{directory} is there already and not an empty folder."
        raise RefusedError(
            message, hint="Give a new folder; nothing was written.", path=str(directory)
        )
    plan = plan_scan(table)
    if any("\n" in entry.path for entry in plan.splits):
        raise InvalidInputError(
            f"{table.path} has splits whose names cannot be files.", path=table.path
        )
    task = ScanTask(plan, table.log.store)
    aside = directory.with_name(f"{directory.name}.unfinished")
    shutil.rmtree(aside, ignore_errors=True)
    rows = copied = 0
    try:
        aside.mkdir(parents=True)
        for number, entry in enumerate(plan.splits):
            folder = aside / partition_folder(
                {
                    plan.names.logical_name(name): entry.partition_values.get(name)
                    for name in plan.partition_columns
                }
            )
            folder.mkdir(parents=True, exist_ok=True)
            split_rows, is_copy = _plain_file(task, entry, folder / f"part-{number:05d}.parquet")
            rows, copied = rows + split_rows, copied + is_copy
        if directory.exists():
            directory.rmdir()
        aside.rename(directory)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise
    return ParquetView(str(directory), table.version, len(plan.splits), rows, copied)


def _plain_file(task: ScanTask, entry: SplitEntry, target: Path) -> tuple[int, bool]:
    """Write the live rows of a split to a file. Returns their number, and whether the file is a
    copy of the split.
    """
    split = task.open_alone(entry)
    body = TableSchema(task.schema, task.plan.partition_columns).stored.remove_metadata()
    source = task.store.local_path(entry.path)
    names = task.plan.names
    same = (
        names.same
        and isinstance(split.reader, SplitReader)
        and split.reader.schema.remove_metadata().equals(body)
    )
    if source is not None and split.mask is None and same:
        _copy(source, target)
        return split.num_rows, True
    shown = pa.schema(
        [names.logical.field(names.logical_name(name)) for name in body.names]
    ).remove_metadata()
    with pq.ParquetWriter(target, shown, compression="zstd") as writer:
        for batch in split.iter_rows(columns=body.names):
            writer.write_batch(names.to_logical(batch).cast(shown))
    return split.num_rows, False


_FICLONE = 0x40049409
"""The request of Linux that makes a file share the blocks of another until one of them is written
to.
"""


def _copy(source: Path, target: Path) -> None:
    """Copy a split. Never a hard link: the split would change with the file, and the file belongs
    to the user.
    """
    with source.open("rb") as original, target.open("wb") as copy:
        if sys.platform == "linux":
            with suppress(OSError):  # most file systems cannot share blocks
                fcntl.ioctl(copy.fileno(), _FICLONE, original.fileno())
                return
        shutil.copyfileobj(original, copy, 1 << 20)


_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SEARCH_MACRO = f"""CREATE OR REPLACE TEMP MACRO indextables_search(name, query) AS TABLE SELECT * FROM query(
CASE WHEN regexp_full_match(name, '{_IDENTIFIER.pattern}')
THEN 'SELECT * FROM "' || name || '_search"(''' || replace(query, '''', '''''') || ''')'
ELSE error('indextables_search: the name of a table consists of letters, digits and _ (got ' || name || ')') END)"""
"""The name becomes a part of a statement, so a name that could be anything else is refused."""


NAMES_ELSEWHERE = {
    "columns": "t.schema.names",
    "dtypes": "t.schema",
    "shape": "(len(t), len(t.schema))",
    "describe": "t.to_dict()",
    "info": "t.to_dict()",
    "query": 't.search("level:ERROR"), or t.to_pandas(where="n > 1")',
    "filter": 't.scan(where="n > 1")',
    "select": 't.scan(columns=["n"])',
    "to_arrow": "t.scan().read_all()",
    "to_csv": 't.to_pandas().to_csv("rows.csv")',
    "sort_values": 't.search("*", order_by="-n")',
    "groupby": 't.aggregate({"levels": {"terms": {"field": "level"}}})',
    "insert": "t.append(rows)",
    "add": "t.append(rows)",
    "to_table": "t.scan().read_all()",
    "sort": 't.search("*", order_by="-n")',
    "write": "t.append(rows) or t.overwrite(rows)",
    "rename": 't.alter.rename_column("n", "m")',
    "drop": 't.alter.drop_column("n")',
    "vacuum": "t.purge()",
    "optimize": "t.merge()",
    "truncate": "t.truncate_time_travel()",
    "create_checkpoint": "t.checkpoint()",
    "load_as_version": "Table.open(path, version=3)",
}
"""What pandas, Polars and delta-rs call what a table has under another name."""


def pandas_frame(reader: pa.RecordBatchReader) -> Any:
    """A stream of rows as a pandas frame."""
    try:
        return reader.read_pandas()
    except ImportError:
        hint = "Install it: pip install pandas."
        raise UnsupportedError("This needs pandas, which is not installed.", hint=hint) from None


def polars_frame(reader: pa.RecordBatchReader) -> pl.DataFrame:
    """A stream of rows as a Polars frame."""
    import polars as pl  # noqa: PLC0415 (half of what a search loads)

    frame = pl.from_arrow(reader.read_all())
    assert isinstance(frame, pl.DataFrame)
    return frame


def lazy_frame(
    table: TableHandle, *, query: str | None = None, where: Where | None = None
) -> pl.LazyFrame:
    """The rows of a table that match, as a lazy Polars frame that pushes columns, filter and limit
    down.
    """
    import polars as pl  # noqa: PLC0415
    from polars.io.plugins import register_io_source  # noqa: PLC0415

    if query is None:
        tree = None
    else:
        tree = plan_scan(table, query=query, where=where, columns=()).query
    if where is None:
        first = None
    else:
        first = plan_scan(table, where=where, columns=()).where

    def source(
        names: list[str] | None, filter_: pl.Expr | None, rows: int | None, _batch: int | None
    ) -> Iterator[pl.DataFrame]:
        if filter_ is None:
            asked = None
        else:
            asked = push_down(filter_, table.schema)
        parts = [p for p in (first, asked) if p is not None]
        both = all_of(parts) if parts else None
        if names is None or filter_ is None:
            needed = names
        else:
            needed = _columns(names, filter_, table.schema.names)
        plan = plan_scan(table, query=tree, where=both, columns=needed)
        for batch in limit_rows(
            ScanTask(plan, table.log.store).batches(), None if filter_ is not None else rows
        ):
            frame = pl.from_arrow(batch)
            assert isinstance(frame, pl.DataFrame)
            shown = frame if filter_ is None else frame.filter(filter_)
            yield shown if names is None else shown.select(names)

    empty = pl.from_arrow(table.schema.empty_table())
    assert isinstance(empty, pl.DataFrame)
    return register_io_source(source, schema=empty.schema)


def duckdb_view(
    table: TableHandle, connection: duckdb.DuckDBPyConnection | None, name: str | None
) -> duckdb.DuckDBPyConnection:
    """A view of a table in DuckDB, and a table function that searches it."""
    if name is not None:
        view = text("name", name)
    else:
        view = table.path.rstrip("/").rpartition("/")[2]
    if not _IDENTIFIER.fullmatch(view):
        hint = "Give a name of letters, digits and _, which does not begin with a digit."
        raise InvalidInputError(
            f"{view!r} cannot be the name of a table in DuckDB.", hint=hint, name=view
        )
    try:
        import duckdb  # noqa: PLC0415
    except ImportError:
        hint = "Install it: pip install 'indextables[duckdb]'."
        raise UnsupportedError("This needs DuckDB, which is not installed.", hint=hint) from None
    opened: Any = duckdb.connect() if connection is None else connection
    opened.register(view, lazy_frame(table))
    types = opened.execute(
        f'SELECT column_name, column_type FROM (DESCRIBE SELECT * FROM "{view}")'
    ).fetchall()
    fields = ", ".join(f'"{column.replace(chr(34), chr(34) * 2)}" {kind}' for column, kind in types)
    function = f"{view}_rows"
    if opened.execute(
        "SELECT count(*) FROM duckdb_functions() WHERE function_name = ?", [function]
    ).fetchall()[0][0]:
        opened.remove_function(function)
    opened.create_function(
        function,
        partial(_search_all, table),
        ["VARCHAR"],
        f'STRUCT({fields}, "_score" FLOAT)[]',
        type="arrow",
    )
    opened.execute(
        f'CREATE OR REPLACE TEMP MACRO "{view}_search"(query) AS TABLE '
        f'SELECT unnest("{function}"(query), max_depth := 2)'
    )
    opened.execute(_SEARCH_MACRO)
    shown: duckdb.DuckDBPyConnection = opened
    return shown


def _search_all(table: TableHandle, queries: pa.ChunkedArray) -> pa.Array:
    """For each query, the rows that match it, as a list of structs."""
    found = []
    for query in queries.to_pylist():
        plan = plan_scan(table, query=text("query", query))
        rows = TableSearch.of(plan, score=True).run(table.log.store)
        found.append(rows.combine_chunks())
    if found:
        whole = pa.concat_tables(found)
    else:
        whole = table.schema.empty_table()
    structs = whole.to_struct_array()
    if isinstance(structs, pa.ChunkedArray):
        flat = structs.combine_chunks()
    else:
        flat = structs
    if isinstance(flat, pa.Array):
        values = flat
    else:
        values = pa.concat_arrays(flat.chunks)
    ends = [0]
    for rows in found:
        ends.append(ends[-1] + rows.num_rows)
    return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), values)


def _columns(names: Sequence[str], filter_: pl.Expr, known: Sequence[str]) -> list[str]:
    """The columns that are shown and those that are filtered by, as the table has them."""
    some = {*names, *filter_.meta.root_names()}
    return [name for name in known if name in some]


_COMPARISONS = {
    "Eq": operator.eq,
    "NotEq": operator.ne,
    "Lt": operator.lt,
    "LtEq": operator.le,
    "Gt": operator.gt,
    "GtEq": operator.ge,
}


def push_down(expression: pl.Expr, schema: pa.Schema) -> Predicate | None:
    """What every row fulfils that a Polars expression keeps, bound to the table's columns; None if
    nothing is known.
    """
    try:
        tree = json.loads(expression.meta.serialize(format="json"))
        return bound_predicate(_part(tree, schema), schema)
    except (ValueError, TypeError, InvalidInputError):
        return None


def _part(tree: Any, schema: pa.Schema) -> Any:
    """The part of an expression that means the same here; half of an `and` is enough, of an `or` it
    is not.
    """
    if not isinstance(tree, Mapping) or len(tree) != 1:
        return None
    (kind, body) = next(iter(tree.items()))
    if kind == "Function" and isinstance(body, Mapping):
        return _null_test(body, schema)
    if kind != "BinaryExpr" or not isinstance(body, Mapping):
        return None
    left, right, how = body.get("left"), body.get("right"), body.get("op")
    if how in ("And", "LogicalAnd", "Or", "LogicalOr"):
        parts = [_part(left, schema), _part(right, schema)]
        if how in ("Or", "LogicalOr"):
            if None in [p if p is None else True for p in parts]:
                return None
            return parts[0] | parts[1]
        some = [part for part in parts if part is not None]
        if not some:
            return None
        if len(some) == 1:
            return some[0]
        return some[0] & some[1]
    column, value = _column(left, schema), _literal(right)
    if column is None or value is None or not isinstance(how, str) or how not in _COMPARISONS:
        return None
    import pyarrow.compute as pc  # noqa: PLC0415

    try:
        return _COMPARISONS[how](pc.field(column), pa.scalar(value, schema.field(column).type))
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, TypeError, ValueError):
        return None


def _null_test(body: Mapping[str, Any], schema: pa.Schema) -> Any:
    import pyarrow.compute as pc  # noqa: PLC0415

    inputs, function = body.get("input"), body.get("function")
    if isinstance(inputs, list) and len(inputs) == 1:
        name = _column(inputs[0], schema)
    else:
        name = None
    if name is None or function not in ({"Boolean": "IsNull"}, {"Boolean": "IsNotNull"}):
        return None
    if function == {"Boolean": "IsNull"}:
        return pc.field(name).is_null()
    return pc.field(name).is_valid()


def _column(tree: Any, schema: pa.Schema) -> str | None:
    name = tree.get("Column") if isinstance(tree, Mapping) else None
    if not isinstance(name, str) or name not in schema.names:
        return None
    kind = schema.field(name).type
    odd = pa.types.is_floating(kind) or pa.types.is_nested(kind) or pa.types.is_decimal(kind)
    if odd:
        return None
    return name


_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICROS = {"Microseconds": 1, "Milliseconds": 1_000}


def _literal(tree: Any) -> Any:
    scalar = tree.get("Literal") if isinstance(tree, Mapping) else None
    if isinstance(scalar, Mapping):
        held = scalar.get("Scalar") or scalar.get("Dyn")
    else:
        held = None
    if not isinstance(held, Mapping) or len(held) != 1:
        return None
    kind, value = next(iter(held.items()))
    if kind in ("String", "Boolean") or kind.startswith(("Int", "UInt")):
        return value
    if kind == "Date" and isinstance(value, int):
        return (_EPOCH + dt.timedelta(days=value)).date()
    if kind == "Datetime" and isinstance(value, list) and len(value) == 3 and value[1] in _MICROS:
        moment = _EPOCH + dt.timedelta(microseconds=value[0] * _MICROS[value[1]])
        if value[2] is not None:
            return moment
        return moment.replace(tzinfo=None)
    return None

"""From a frame to a searchable table in one call."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

import pyarrow as pa

from indextables.errors import InvalidInputError, TableExistsError, TableNotFoundError
from indextables.model.arguments import names_list
from indextables.operations import definition
from indextables.operations.first_write import check_partitioning, create_with_rows
from indextables.operations.incoming import Incoming, incoming
from indextables.operations.prose import ProseSample, log_prose_hint
from indextables.operations.write_request import WriteRequest
from indextables.query.plan import query_fields
from indextables.table.table import Table

WriteMode = Literal["append", "overwrite", "error", "ignore"]


def write_table(
    path: str,
    data: Any,
    *,
    text: Sequence[str] = (),
    substring: Sequence[str] = (),
    vector: Mapping[str, int] | Sequence[str] = (),
    partition_by: Sequence[str] | None = None,
    mode: WriteMode = "append",
    options: Mapping[str, object] | None = None,
) -> Table:
    """Write rows to the table at `path`, which is created if it does not exist.

    Args:
        path: A local path or a URL.
        data: A frame of pandas, Polars, DuckDB or Arrow, an iterable of record batches, or a list
            of dicts.
        text: String columns to search by their words.
        substring: String columns whose parts are indexed, for `LIKE '%x%'`.
        vector: Columns of vectors to search by similarity: ["embedding"], or with the number of
            components {"embedding": 384}. A new table takes it from the first vector.
        partition_by: Partition columns of a new table. Those of an existing table must be the same.
        mode: What to do with a table that exists: "append" the rows, "overwrite" all of its rows,
            raise an "error", or "ignore" the call.
        options: Settings; a new table keeps those of its index.

    Returns:
        The table at its newest version.

    Raises:
        TableExistsError: The table exists and `mode` is "error".
        SchemaMismatchError: The rows do not fit the columns of the table.
        InvalidInputError: An argument is wrong, or an existing table indexes a column in another
            way.

    Example:
        logs = indextables.write_table("logs", frame, text=["message"], partition_by=["day"])
    """
    modes = get_args(WriteMode)
    if mode not in modes:
        raise InvalidInputError(
            f"mode must be one of {', '.join(modes)} (got {mode!r}).", argument="mode"
        )
    columns = names_list("text", text), names_list("substring", substring)
    if partition_by is None:
        partitions = None
    else:
        partitions = names_list("partition_by", partition_by)
    try:
        table = Table.open(path, options=options)
    except TableNotFoundError:
        return _create(path, data, *columns, vector, partitions or (), mode, options)
    if mode == "error":
        raise TableExistsError(
            f"The table {table.path} exists already.",
            hint='Pass mode="append" or mode="overwrite".',
            path=table.path,
        )
    if mode == "ignore":
        return table
    check_partitioning(table.handle, partitions)
    check_indexed(table, *columns)
    _check_vectors(table, vector)
    if mode == "overwrite":
        table.overwrite(data)
    else:
        table.append(data)
    return table


def index_settings(
    path: str,
    schema: pa.Schema,
    options: Mapping[str, object] | None,
    *,
    text: Sequence[str],
    substring: Sequence[str],
) -> Mapping[str, object]:
    """Return the options of a write with the columns to index; an existing table must index them so
    already.
    """
    columns = names_list("text", text), names_list("substring", substring)
    try:
        table = Table.open(path, options=options)
    except TableNotFoundError:
        return definition.index_options(options, schema, text=columns[0], substring=columns[1])
    check_indexed(table, *columns)
    return options or {}


def _create(
    path: str,
    data: Any,
    text: Sequence[str],
    substring: Sequence[str],
    vector: Mapping[str, int] | Sequence[str],
    partitions: Sequence[str],
    mode: WriteMode,
    options: Mapping[str, object] | None,
) -> Table:
    rows = incoming(data)
    if vector and not isinstance(vector, Mapping):
        rows, vector = _measure_vectors(rows, names_list("vector", vector))
    settings = definition.index_options(
        options, rows.schema, text=text, substring=substring, vector=vector
    )
    if not definition.has_text_column(rows.schema, settings):
        rows = _suggest_text_column(rows)
    handle, _ = create_with_rows(
        path,
        rows,
        partition_columns=partitions,
        options=settings,
        request=WriteRequest(exist_ok=mode in ("append", "overwrite")),
    )
    return Table(handle)


def check_indexed(table: Table, text: Sequence[str], substring: Sequence[str]) -> None:
    """Refuse columns that an existing table indexes in another way."""
    fields = query_fields(table.handle)
    for argument, names in (("text", text), ("substring", substring)):
        for name in names:
            if name not in table.schema.names:
                hint = f"The columns are {', '.join(table.schema.names)}."
                message = f"{argument} names {name!r}, which {table.path} does not have."
                raise InvalidInputError(message, hint=hint, column=name)
            column = fields.column(name)
            if argument == "text" and column.kind != "text":
                message = (
                    f"text names {name!r}, but {table.path} indexes it as {column.shown_kind}."
                )
                hint = f'Call reindex({{"{name}": "text"}}) first, or leave it out.'
                raise InvalidInputError(message, hint=hint, column=name)
            if argument == "substring" and not column.substring:
                message = f"substring names {name!r}, but {table.path} does not index its parts."
                hint = "Leave it out; substring is chosen when a table is created."
                raise InvalidInputError(message, hint=hint, column=name)


def _check_vectors(table: Table, vector: Mapping[str, int] | Sequence[str]) -> None:
    """Refuse columns that an existing table does not declare as vectors of these sizes."""
    mapping = query_fields(table.handle).mapping
    sizes: Mapping[str, int] = {}
    if isinstance(vector, Mapping):
        sizes = vector
    for name in vector:
        column, size = mapping.find(name), sizes.get(name)
        if column is None or not column.dimension:
            message = f"vector names {name!r}, which is not a column of vectors of {table.path}."
            hint = "Leave it out; columns of vectors are declared when a table is created."
            raise InvalidInputError(message, hint=hint, column=name)
        if size not in (None, column.dimension):
            message = f"vector gives {name!r} {size} numbers, but {table.path} holds vectors of {column.dimension}."
            raise InvalidInputError(message, hint="Use the same model.", column=name)


def _measure_vectors(rows: Incoming, names: Sequence[str]) -> tuple[Incoming, dict[str, int]]:
    """Return the dimension of the first vector of each column, and the same rows."""
    read: list[pa.RecordBatch] = []
    sizes: dict[str, int] = {}
    for name in names:
        definition.check_is_column("vector", name, rows.schema)
    for batch in rows.batches:
        read.append(batch)
        for name in names:
            values = batch.column(name)
            if (
                name not in sizes
                and pa.types.is_list(values.type)
                and values.null_count < len(values)
            ):
                sizes[name] = len(values.drop_null()[0])
        if len(sizes) == len(names):
            break
    missing = next((name for name in names if not sizes.get(name)), None)
    if missing is not None:
        raise InvalidInputError(
            f"vector names {missing!r}, and no row has a vector to take the number of components from.",
            hint=f'Write vector={{"{missing}": 384}}.',
            column=missing,
        )
    return Incoming(rows.schema, itertools.chain(read, rows.batches)), sizes


def _suggest_text_column(rows: Incoming) -> Incoming:
    """Log which column looks like prose, if no column is searched by its words. Returns the same
    rows.
    """
    sample = ProseSample()
    batches = sample.watch(rows.batches)
    first = list(itertools.islice(batches, 1))
    log_prose_hint(sample.column)
    return Incoming(rows.schema, itertools.chain(first, batches))

"""A command prints as SQL that parses back to an equal command, whatever names, paths and
predicates it holds.
"""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

from hypothesis import given, settings
from hypothesis import strategies as st

from indextables.commands import TableName, TablePath, parse
from indextables.commands.caches import InvalidateCache, PrewarmCache
from indextables.commands.delta import (
    DescribeDetail,
    DescribeTableHistory,
    Optimize,
    RestoreTable,
    Vacuum,
)
from indextables.commands.describe import (
    DescribeComponentSizes,
    DescribeHistory,
    DescribeTransactionLog,
)
from indextables.commands.statement import Command
from indextables.commands.upkeep import (
    Checkpoint,
    DropPartitions,
    MergeSplits,
    Purge,
    RepairLog,
    Restore,
    TruncateTimeTravel,
    Verify,
)
from indextables.model.predicate import (
    And,
    Column,
    Comparison,
    In,
    IsNotNull,
    IsNull,
    Literal,
    Not,
    Or,
    Predicate,
    TextMatch,
)

texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
paths = texts.filter(lambda t: bool(t.strip()))
names = st.one_of(texts, st.sampled_from(["target", "WHERE", "and", "x", "2026_logs", "null"]))
tables = st.one_of(
    paths.map(TablePath), st.lists(names, min_size=1, max_size=3).map(lambda n: TableName(tuple(n)))
)
path_tables = paths.map(TablePath)
numbers = st.integers(0, (1 << 63) - 1)
columns = st.lists(names, min_size=1, max_size=2).map(lambda n: Column(tuple(n)))
literals = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(1 << 70), 1 << 70),
    st.floats(allow_nan=False),
    st.decimals(allow_nan=False, allow_infinity=False, places=3).filter(
        lambda d: abs(d) < Decimal("1e12")
    ),
    texts,
    st.binary(max_size=4),
    st.dates(dt.date(1000, 1, 1)),
).map(Literal)
tests = st.one_of(
    st.builds(
        Comparison, st.sampled_from(["=", "<=>", "!=", "<", "<=", ">", ">="]), columns, literals
    ),
    st.builds(In, columns, st.lists(literals, min_size=1, max_size=3).map(tuple)),
    st.builds(IsNull, columns),
    st.builds(IsNotNull, columns),
    st.builds(TextMatch, st.sampled_from(["starts_with", "ends_with", "contains"]), columns, texts),
)


def _combined(inner: st.SearchStrategy[Predicate]) -> st.SearchStrategy[Predicate]:
    several = st.lists(inner, min_size=2, max_size=3).map(tuple)
    return st.one_of(st.builds(And, several), st.builds(Or, several), st.builds(Not, inner))


predicates = st.recursive(tests, _combined, max_leaves=6)
maybe_where = st.none() | predicates
maybe_number = st.none() | numbers
maybe_count = st.none() | st.integers(1, (1 << 63) - 1)
commands: st.SearchStrategy[Command] = st.one_of(
    st.builds(
        MergeSplits, tables, maybe_where, maybe_count, maybe_count, maybe_count, st.booleans()
    ),
    st.builds(Purge, tables, maybe_number, maybe_number, st.booleans()),
    st.builds(DropPartitions, tables, predicates),
    st.builds(Checkpoint, tables, st.booleans()),
    st.builds(TruncateTimeTravel, tables, st.booleans()),
    st.builds(RepairLog, tables, st.none() | paths),
    st.builds(lambda table, version: Restore(table, version=version), tables, numbers),
    st.builds(
        lambda table, moment: Restore(table, timestamp=moment.isoformat()), tables, st.datetimes()
    ),
    st.builds(Verify, tables, st.booleans()),
    st.builds(DescribeTransactionLog, tables, st.booleans()),
    st.builds(DescribeHistory, tables, maybe_number),
    st.builds(DescribeComponentSizes, tables, maybe_where),
    st.builds(PrewarmCache, tables, st.lists(names, max_size=3).map(tuple), maybe_where),
    st.builds(InvalidateCache, st.none() | tables),
    st.builds(
        lambda path, hours, dry: Vacuum(path, hours, None, dry),
        path_tables,
        maybe_number,
        st.booleans(),
    ),
    st.builds(Optimize, path_tables, maybe_where),
    st.builds(lambda path, version: RestoreTable(path, version=version), path_tables, numbers),
    st.builds(
        lambda path, moment: RestoreTable(path, timestamp=moment.isoformat()),
        path_tables,
        st.datetimes(),
    ),
    st.builds(DescribeTableHistory, path_tables, maybe_number),
    st.builds(DescribeDetail, path_tables),
)


@settings(max_examples=400, deadline=None)
@given(commands)
def test_printed_and_parsed_again(command: Command) -> None:
    assert parse(str(command)) == command


@settings(max_examples=100, deadline=None)
@given(commands, st.sampled_from(["/* a */", "-- b\n", "\n", "\t"]))
def test_blanks_and_comments_around_it_change_nothing(command: Command, blank: str) -> None:
    assert parse(f"{blank}{command}{blank};{blank}") == command

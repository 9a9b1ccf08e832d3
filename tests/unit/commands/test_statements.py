"""A test per statement: the forms it takes, the columns it gives, and what is said of a wrong form."""

from __future__ import annotations

from collections.abc import Sequence
from inspect import isabstract

import pyarrow as pa
import pytest

from indextables.commands import TableName, TablePath, parse
from indextables.commands.caches import InvalidateCache, PrewarmCache
from indextables.commands.describe import DescribeState
from indextables.commands.parser import STATEMENTS as GRAMMAR
from indextables.commands.statement import Command, TableCommand
from indextables.commands.upkeep import DropPartitions, MergeSplits, Purge, RepairLog, Restore
from indextables.errors import QuerySyntaxError
from indextables.model.predicate import parse as predicate
from tests.unit.commands.statements import STATEMENTS, Documented

_TYPES = {
    "s": pa.string(),
    "l": pa.int64(),
    "i": pa.int32(),
    "d": pa.float64(),
    "b": pa.bool_(),
    "ts": pa.timestamp("us", tz="UTC"),
}
each = pytest.mark.parametrize("documented", STATEMENTS, ids=lambda d: d.name)


@each
def test_every_form_means_the_same(documented: Documented) -> None:
    for form in documented.forms:
        assert parse(form) == documented.value, form


@each
def test_the_columns_are_those_documented(documented: Documented) -> None:
    expected = [tuple(column.split()) for column in documented.columns.split(", ")]
    schema = documented.value.columns
    assert [(f.name, f.type) for f in schema] == [(name, _TYPES[kind]) for name, kind in expected]


@each
def test_a_wrong_form_is_shown_with_its_place_and_the_right_one(documented: Documented) -> None:
    with pytest.raises(QuerySyntaxError) as caught:
        parse(documented.wrong)
    for part in documented.error:
        assert part in str(caught.value)
    assert "^" in caught.value.message and documented.wrong in caught.value.message


@each
def test_it_prints_as_sql_that_means_the_same(documented: Documented) -> None:
    assert parse(str(documented.value)) == documented.value


def _kinds(bases: Sequence[type[Command]]) -> set[type[Command]]:
    return {kind for base in bases for kind in (base, *_kinds(base.__subclasses__()))}


def test_every_command_has_a_statement_columns_and_something_that_runs_it() -> None:
    commands = _kinds(Command.__subclasses__()) - {TableCommand}
    assert commands == {type(d.value) for d in STATEMENTS} == set(GRAMMAR.values())
    assert all(isinstance(kind.columns, pa.Schema) and not isabstract(kind) for kind in commands)


@pytest.mark.parametrize(
    ("text", "table"),
    [
        ("'/p'", TablePath("/p")),
        ('"s3://bucket/p"', TablePath("s3://bucket/p")),
        ("'it''s'", TablePath("it's")),
        (r"'C:\\tables'", TablePath("C:\\tables")),
        (r"r'C:\tables'", TablePath("C:\\tables")),
        ("logs", TableName(("logs",))),
        ("main.logs", TableName(("main", "logs"))),
        ("spark_catalog.main.logs", TableName(("spark_catalog", "main", "logs"))),
        ("`a.b`.`c``d`", TableName(("a.b", "c`d"))),
        ("2026_logs", TableName(("2026_logs",))),
        ("100M", TableName(("100M",))),
        ("state", TableName(("state",))),
        ("größe", TableName(("größe",))),
    ],
)
def test_a_table_is_a_path_in_quotes_or_a_name(text: str, table: TablePath | TableName) -> None:
    assert parse(f"DESCRIBE INDEXTABLES STATE {text}") == DescribeState(table)


@pytest.mark.parametrize(
    "text", ["5", "''", "'  '", "=", "a.", "a.'b'", ".a", "'a' 'b'", "a b", "`"]
)
def test_anything_else_is_not_a_table(text: str) -> None:
    with pytest.raises(QuerySyntaxError):
        parse(f"DESCRIBE INDEXTABLES STATE {text}")


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("MERGE SPLITS t", MergeSplits(TableName(("t",)))),
        (
            "MERGE SPLITS t TARGET SIZE 1G",
            MergeSplits(TableName(("t",)), target_size_bytes=1 << 30),
        ),
        (
            "MERGE SPLITS t TARGET SIZE 4gb",
            MergeSplits(TableName(("t",)), target_size_bytes=4 << 30),
        ),
        # A column may have the name of a clause: a predicate goes on for as long as it can.
        (
            "MERGE SPLITS t WHERE target = 1 AND max = 2 AND dry = 3 MAX DEST SPLITS 4",
            MergeSplits(
                TableName(("t",)),
                predicate("target = 1 AND max = 2 AND dry = 3"),
                max_dest_splits=4,
            ),
        ),
        (
            "MERGE SPLITS t WHERE dry DRY RUN",
            MergeSplits(TableName(("t",)), predicate("dry"), dry_run=True),
        ),
        ("MERGE SPLITS where", None),
        ("MERGE SPLITS `where`", MergeSplits(TableName(("where",)))),
        (
            "MERGE SPLITS target TARGET SIZE 5M",
            MergeSplits(TableName(("target",)), target_size_bytes=5 << 20),
        ),
        ("PURGE INDEXTABLE t", Purge(TableName(("t",)))),
        ("PURGE INDEXTABLE t OLDER THAN 0 HOURS", Purge(TableName(("t",)), older_than_hours=0)),
        ("PURGE INDEXTABLE t OLDER THAN 1 DAY", Purge(TableName(("t",)), older_than_hours=24)),
        ("PURGE INDEXTABLE OLDER THAN 1 DAY", None),
        ("REPAIR INDEXFILES TRANSACTION LOG '/p'", RepairLog(TablePath("/p"))),
        (
            "RESTORE INDEXTABLES t TO TIMESTAMP '2026-01-31 12:00'",
            Restore(TableName(("t",)), timestamp="2026-01-31 12:00"),
        ),
        ("RESTORE INDEXTABLES t TO VERSION 0", Restore(TableName(("t",)), version=0)),
        ("RESTORE INDEXTABLES TO VERSION 3", None),
        ("INVALIDATE INDEXTABLES TRANSACTION LOG CACHE", InvalidateCache()),
        ("PREWARM INDEXTABLES CACHE t", PrewarmCache(TableName(("t",)))),
        (
            "DROP INDEXTABLES PARTITIONS FROM t WHERE a = 1 OR b BETWEEN 2 AND 3",
            DropPartitions(TableName(("t",)), predicate("a = 1 OR b BETWEEN 2 AND 3")),
        ),
    ],
)
def test_clauses_may_be_left_out(text: str, command: Command | None) -> None:
    if command is None:
        with pytest.raises(
            QuerySyntaxError, match="expected a path in quotes or the name of a table"
        ):
            parse(text)
    else:
        assert parse(text) == command


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (
            "MERGE SPLITS t TARGET SIZE 5Q",
            "expected a size such as 100M, 1G or a number of bytes, found '5Q'",
        ),
        ("MERGE SPLITS t TARGET SIZE 1.5G", "1.5G is not a number"),
        ("MERGE SPLITS t TARGET SIZE 0", "the number must be at least 1"),
        (
            "MERGE SPLITS t TARGET SIZE 99999999999T",
            "the number is greater than 9223372036854775807",
        ),
        (
            "MERGE SPLITS t TARGET SIZE",
            "expected a size such as 100M, 1G or a number of bytes, found the end",
        ),
        (
            "MERGE SPLITS t MAX 5",
            "expected DEST SPLITS, GROUPS or SOURCE SPLITS PER MERGE, found '5'",
        ),
        (
            "MERGE SPLITS t MAX SOURC SPLITS PER MERGE 5",
            "Did you mean MAX SOURCE SPLITS PER MERGE?",
        ),
        ("MERGE SPLITS t MAX DEST SPLITS 1.5", "expected a whole number, found '1.5'"),
        (
            "MERGE SPLITS t MAX DEST SPLITS 9223372036854775808",
            "the number is greater than 9223372036854775807",
        ),
        (
            "MERGE SPLITS t DRY RUN DRY RUN",
            "MAX SOURCE SPLITS PER MERGE, ORDER BY, REWRITE or the end, found 'DRY'",
        ),
        ("MERGE SPLITS t DRYRUN", "Did you mean DRY RUN?"),
        ("MERGE SPLITS t WHERE a = 1 ANDD b = 2", "Did you mean AND?"),
        (
            "MERGE SPLITS t WHERE a = = 1 DRY RUN",
            "column 26: expected a column, a value or '(', found '='",
        ),
        ("MERGE SPLITS t WHERE", "expected a column, a value or '(', found the end"),
        ("MERGE SPLITS t WHERE a = 1 TARGET", "expected SIZE, found the end"),
        ("MERGE SPLITS 't", "the string that begins here does not end"),
        ("MERGE SPLITS t /* x", "the comment that begins here does not end"),
        ("MERGE SPLITS t ?", "the character '?' has no meaning here"),
        ("MERGE SPLIT '/p'", "Did you mean MERGE SPLITS?"),
        ("MERGE INDEXTABLES '/p'", "Did you mean MERGE SPLITS?"),
        ("PURGE INDEXTABLE t OLDER THAN 7", "expected DAYS or HOURS, found the end"),
        ("PURGE INDEXTABLE t OLDER THAN 7 DAYZ", "Did you mean DAYS?"),
        ("PURGE INDEXTABLE t OLDER 7 DAYS", "expected THAN, found '7'"),
        ("PURGE INDEXTABLE t OLDER THAN 9223372036854775807 DAYS", "the number is greater than"),
        ("PURG INDEXTABLE t", "Did you mean PURGE INDEXTABLE?"),
        ("RESTORE INDEXTABLES t", "expected TO VERSION or TO TIMESTAMP, found the end"),
        ("RESTORE INDEXTABLES t TO TIMESTAMP 5", "expected a timestamp in quotes"),
        ("RESTORE INDEXTABLES t TO VERSION AS OF 5", "expected a whole number, found 'AS'"),
        ("VERIFY INDEXTABLES t; VERIFY INDEXTABLES u", "one statement at a time, found 'VERIFY'"),
        (
            "REPAIR INDEXFILES TRANSACTION LOG t AT LOCATION u",
            "expected a path in quotes, found 'u'",
        ),
        ("DESCRIBE INDEXTABEL STATE '/p'", "Did you mean DESCRIBE INDEXTABLES STATE?"),
        ("DESCRIBE INDEXTABLES '/p'", "expected STATE, TRANSACTION LOG, HISTORY"),
    ],
)
def test_what_is_wrong_is_said(text: str, error: str) -> None:
    with pytest.raises(QuerySyntaxError) as caught:
        parse(text)
    assert error in str(caught.value)


def test_the_line_with_the_mistake_is_shown() -> None:
    with pytest.raises(QuerySyntaxError) as caught:
        parse("MERGE SPLITS t -- all\n\tWHERE day = 1\n\tTARGET SIZ 100M")
    assert (
        "Statement, line 3, column 9: expected SIZE, found 'SIZ'.\n  \tTARGET SIZ 100M\n  \t       ^\n"
        in str(caught.value)
    )
    assert caught.value.context["line"] == 3


def test_digits_of_other_scripts_are_words_that_no_statement_has() -> None:
    with pytest.raises(QuerySyntaxError, match="the character '١' has no meaning here"):
        parse("DESCRIBE INDEXTABLES ١ '/p'")
    assert parse("SELECT ١ FROM logs") is None

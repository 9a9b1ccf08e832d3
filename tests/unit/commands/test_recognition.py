"""Which statements are ours: Spark's own, and anybody else's, are never taken."""

from __future__ import annotations

import pytest

from indextables.commands import parse, sql
from indextables.commands.parser import forms
from indextables.errors import InvalidInputError, QuerySyntaxError

SPARKS = """
MERGE INTO t USING s ON t.a = s.a WHEN MATCHED THEN DELETE
MERGE WITH SCHEMA EVOLUTION INTO t USING s ON t.a = s.a WHEN MATCHED THEN DELETE
TRUNCATE TABLE t
TRUNCATE TABLE indextables
DESCRIBE t
DESCRIBE TABLE t
DESCRIBE indextables
DESCRIBE indextables.state
DESCRIBE indextables a.b
DESCRIBE indextables AS JSON
DESCRIBE indextables PARTITION (day = '2026-01-01')
DESCRIBE EXTENDED indextables
DESCRIBE FUNCTION EXTENDED indexquery
DESCRIBE QUERY SELECT 1
DESCRIBE HISTORY t
DESC indextables
DESC indextables.state
DESC EXTENDED indextables state
DESCRIBE indextables id
DESCRIBE indextables.enviroment
DESCRIBE indextables `enviroment`
DESCRIBE indextables enviroment.x
DESCRIBE TABLE indextables enviroment
DESC HISTORY t
DESCRIBE `indextables` state
DROP TABLE indextables
DROP INDEX i ON t
DROP VIEW indextable
REPAIR TABLE t
MSCK REPAIR TABLE indextables
REFRESH TABLE indextables
REFRESH '/p'
RESTORE TABLE t TO VERSION AS OF 3
RESTORE TABLE delta.`/p` TO VERSION AS OF 3
VACUUM delta.`/p` RETAIN 168 HOURS
OPTIMIZE t WHERE day = '/p'
DESCRIBE DETAIL t
DESCRIBE HISTORY t LIMIT 5
DESCRIBE TABLE '/p'
VACUUM
OPTIMIZE
CACHE TABLE indextables
CHECKPOINT t
COMPACT t
FLUSH
VERIFY t
OPTIMIZE t
VACUUM t
PURGE TABLE t
SELECT * FROM indextables
SELECT 'MERGE SPLITS x'
SELECT 1 -- MERGE SPLITS x
/* MERGE SPLITS x */ SELECT 1
WITH merge AS (SELECT 1) SELECT * FROM merge
FROM indextables SELECT *
TABLE indextables
USE indextables
USE DATABASE indextables
SHOW INDEXTABLES
SET indextables = 1
RESET indextables
EXPLAIN DESCRIBE INDEXTABLES STATE '/p'
INSERT INTO indextables VALUES ('MERGE SPLITS')
CALL indextables.purge('/p')
ALTER TABLE indextables DROP PARTITION (a = 1)
ANALYZE TABLE indextables COMPUTE STATISTICS
DELETE FROM indextables
`MERGE` SPLITS '/p'
'MERGE' SPLITS '/p'
MERGE `SPLITS` '/p'
MERGE
PURGE
(SELECT 1)
{"a": 1}
$$
:x
?
""".strip().splitlines()
FIRST_WORDS = """
ADD ALTER ANALYZE BEGIN CACHE CALL CLEAR COMMENT CREATE DECLARE DELETE DFS EXECUTE EXPLAIN EXPORT FROM GRANT
IMPORT INSERT LIST LOAD LOCK MAP MSCK REDUCE REFRESH REPLACE RESET REVOKE ROLLBACK SELECT SET SHOW START TABLE
UNCACHE UNLOCK UNSET UPDATE USE VALUES WITH
""".strip().splitlines()


@pytest.mark.parametrize("text", SPARKS)
def test_the_statements_of_spark_and_others_go_to_spark(text: str) -> None:
    assert parse(text) is None


@pytest.mark.parametrize("word", [word for line in FIRST_WORDS for word in line.split()])
def test_no_other_first_word_is_taken(word: str) -> None:
    for rest in (
        "INDEXTABLES",
        "INDEXTABLE '/p'",
        "INDEXTABLES STATE '/p'",
        "SPLITS '/p'",
        "INDEXFILES '/p'",
    ):
        assert parse(f"{word} {rest}") is None


@pytest.mark.parametrize(
    "text", ["", " ", ";", "-- only a comment", "/* open", "'open", "`open", "''", "1e5x"]
)
def test_what_has_no_words_is_not_ours(text: str) -> None:
    assert parse(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "/* a */ MERGE -- b\n /* /* c */ */ SPLITS t",
        "\n\t MERGE\u00a0SPLITS\r\nt",
        "mErGe SpLiTs t",
    ],
)
def test_blanks_comments_and_case_do_not_matter(text: str) -> None:
    assert parse(text) == parse("MERGE SPLITS t")


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("DESCRIBE INDEXTABLES TRANSACTON LOG 'p'", "DESCRIBE INDEXTABLES TRANSACTION LOG"),
        ("DESCRIBE INDEXTABLES COMPONENTS SIZES 'p'", "DESCRIBE INDEXTABLES COMPONENT SIZES"),
        ("DESCRIBE INDEXTABLES DISC CACHE", "DESCRIBE INDEXTABLES DISK CACHE"),
        ("DESCRIBE INDEXTABLES SKIPED FILES 'p'", "DESCRIBE INDEXTABLES SKIPPED FILES"),
        ("DESC INDEXTABLES PREWRM JOBS;", "DESCRIBE INDEXTABLES PREWARM JOBS"),
        ("DESCRIBE INDEXTABLES ENVIROMENT", "DESCRIBE INDEXTABLES ENVIRONMENT"),
        ("DESCRIBE TANTIVY4SPARK TRANSACTIONLOG", "DESCRIBE INDEXTABLES TRANSACTION LOG"),
        ("DESC INDEXTABEL STATE 'p'", "DESCRIBE INDEXTABLES STATE"),
    ],
)
def test_what_is_misspelt_after_describe_gets_our_error(text: str, meant: str) -> None:
    with pytest.raises(QuerySyntaxError, match=rf"Did you mean {meant}\?"):
        parse(text)


def test_describe_has_its_short_form_too() -> None:
    assert (
        parse("DESC INDEXTABLES STATE 'p'") == parse("DESCRIBE INDEXTABLES STATE 'p'") is not None
    )
    assert parse("desc history 'p' limit 1") == parse("DESCRIBE HISTORY 'p' LIMIT 1") is not None


@pytest.mark.parametrize(
    ("text", "opening"),
    [
        ("VERFY INDEXTABLES '/p'", "column 1: expected VERIFY INDEXTABLES, found 'VERFY'."),
        (
            "PREWRM INDEXTABLES CACHE '/p'",
            "column 1: expected PREWARM INDEXTABLES CACHE, found 'PREWRM'.",
        ),
        (
            "COMPACT INDEXTABLES TRANSACTION LOG '/p'",
            "expected a path in quotes or the name of a table, found TRANSACTION",
        ),
    ],
)
def test_an_error_opens_with_what_is_nearest(text: str, opening: str) -> None:
    with pytest.raises(QuerySyntaxError) as caught:
        parse(text)
    assert opening in str(caught.value).splitlines()[0]


def test_a_table_may_be_called_transaction() -> None:
    assert str(parse("COMPACT INDEXTABLES transaction")) == "COMPACT INDEXTABLES `transaction`"


def test_without_spark_a_statement_of_others_is_refused_with_the_list_of_ours() -> None:
    with pytest.raises(
        InvalidInputError, match="Not a statement of IndexTables: 'SELECT \\* FROM t'"
    ) as caught:
        sql("SELECT *\n FROM t")
    assert "DESCRIBE INDEXTABLES HISTORY 'path' [LIMIT n]" in caught.value.hint
    assert len(caught.value.hint.splitlines()) == 1 + len(forms())


def test_without_spark_there_are_no_names() -> None:
    with pytest.raises(
        InvalidInputError,
        match=r"`main`.`logs` could be looked up. Give the table's path in quotes",
    ):
        sql("DESCRIBE INDEXTABLES HISTORY main.logs")

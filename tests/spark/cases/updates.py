"""UPDATE."""

from __future__ import annotations

from decimal import Decimal

from tests.spark.cases.case import Case

THREE = "(1, 'a'), (2, 'b'), (3, NULL)"

UPDATES = [
    Case(
        "an update sets the rows that match",
        "UPDATE {t} SET v = 'z' WHERE k > 1",
        rows=THREE,
        returns=[(2, 2, 0, 0)],
        then=[(1, "a"), (2, "z"), (3, "z")],
        quick=True,
    ),
    Case(
        "an update without a condition sets all rows",
        "UPDATE {t} SET v = 'z'",
        rows=THREE,
        returns=[(3, 3, 0, 0)],
        then=[(1, "z"), (2, "z"), (3, "z")],
    ),
    Case("an update of an empty table changes nothing", "UPDATE {t} SET v = 'z'", returns=[(0, 0, 0, 0)], then=[]),
    Case(
        "an update that matches nothing changes nothing",
        "UPDATE {t} SET v = 'z' WHERE k = 9",
        rows=THREE,
        returns=[(0, 0, 0, 0)],
        then=[(1, "a"), (2, "b"), (3, None)],
    ),
    Case(
        "an update skips the rows for which the condition is unknown",
        "UPDATE {t} SET k = 0 WHERE v <> 'a'",
        rows=THREE,
        then=[(1, "a"), (0, "b"), (3, None)],
    ),
    Case(
        "an update computes from the values before it",
        "UPDATE {t} SET a = b, b = a, c = a + b",
        columns="a INT, b INT, c INT",
        rows="(1, 2, 0), (3, 4, 0)",
        then=[(2, 1, 3), (4, 3, 7)],
        quick=True,
    ),
    Case(
        "column names in an update ignore case",
        "UPDATE {t} SET V = upper(v) WHERE K = 1",
        rows=THREE,
        then=[(1, "A"), (2, "b"), (3, None)],
    ),
    Case(
        "an update calls the table by its alias",
        "UPDATE {t} AS x SET x.v = concat(x.v, '!') WHERE x.k < 3",
        rows=THREE,
        then=[(1, "a!"), (2, "b!"), (3, None)],
    ),
    Case(
        "an update sets null", "UPDATE {t} SET v = NULL WHERE k = 1", rows=THREE, then=[(1, None), (2, "b"), (3, None)]
    ),
    Case(
        "an update sets with CASE",
        "UPDATE {t} SET v = CASE WHEN k = 1 THEN 'one' WHEN v IS NULL THEN 'none' ELSE v END",
        rows=THREE,
        then=[(1, "one"), (2, "b"), (3, "none")],
    ),
    Case(
        "an update moves rows to another partition",
        "UPDATE {t} SET p = 'z' WHERE k = 1",
        columns="k INT, p STRING",
        partitioned_by="p",
        rows="(1, 'x'), (2, 'x'), (3, 'y')",
        then=[(1, "z"), (2, "x"), (3, "y")],
        checks={"SELECT k FROM {t} WHERE p = 'z'": [(1,)], "SELECT k FROM {t} WHERE p = 'x'": [(2,)]},
        quick=True,
    ),
    Case(
        "an update moves rows to the partition of nulls",
        "UPDATE {t} SET p = NULL WHERE p = 'x'",
        columns="k INT, p STRING",
        partitioned_by="p",
        rows="(1, 'x'), (2, 'y')",
        then=[(1, None), (2, "y")],
        checks={"SELECT k FROM {t} WHERE p IS NULL": [(1,)]},
    ),
    Case(
        "an update by the partition column",
        "UPDATE {t} SET k = k * 10 WHERE p = 'x'",
        columns="k INT, p STRING",
        partitioned_by="p",
        rows="(1, 'x'), (2, 'x'), (3, 'y')",
        then=[(10, "x"), (20, "x"), (3, "y")],
    ),
    Case(
        "an update with IN and a subquery",
        "UPDATE {t} SET v = 'hit' WHERE k IN (SELECT k FROM {s})",
        rows=THREE,
        source="SELECT * FROM VALUES (1), (3), (NULL) AS (k)",
        then=[(1, "hit"), (2, "b"), (3, "hit")],
        quick=True,
    ),
    Case(
        "an update with EXISTS and a correlated subquery",
        "UPDATE {t} AS t SET v = 'hit' WHERE EXISTS (SELECT * FROM {s} s WHERE s.k = t.k)",
        rows=THREE,
        source="SELECT * FROM VALUES (2) AS (k)",
        then=[(1, "a"), (2, "hit"), (3, None)],
    ),
    Case(
        "an update sets the value of a scalar subquery",
        "UPDATE {t} SET v = (SELECT max(w) FROM {s}) WHERE k = 1",
        rows=THREE,
        source="SELECT * FROM VALUES ('m'), ('n') AS (w)",
        then=[(1, "n"), (2, "b"), (3, None)],
    ),
    Case(
        "an update sets the value of a correlated subquery",
        "UPDATE {t} AS t SET v = (SELECT max(s.w) FROM {s} s WHERE s.k = t.k)",
        rows=THREE,
        source="SELECT * FROM VALUES (1, 'm'), (1, 'n'), (3, 'o') AS (k, w)",
        then=[(1, "n"), (2, None), (3, "o")],
    ),
    Case(
        "an update sets an array and a map",
        "UPDATE {t} SET a = array(7, 8), m = map('x', 1)",
        columns="k INT, a ARRAY<INT>, m MAP<STRING, INT>",
        rows="(1, array(1), NULL)",
        then=[(1, [7, 8], {"x": 1})],
    ),
    Case(
        "an update widens the value to the type of the column",
        "UPDATE {t} SET a = 7, d = 1",
        columns="a BIGINT, d DECIMAL(5, 2)",
        rows="(1, 2.50)",
        then=[(7, Decimal("1.00"))],
    ),
    Case(
        "an update with a value that does not fit the column",
        "UPDATE {t} SET k = 10000000000",
        rows=THREE,
        raises="CAST_OVERFLOW",
        then=[(1, "a"), (2, "b"), (3, None)],
    ),
    Case(
        "an update names a column that does not exist",
        "UPDATE {t} SET nothing = 1",
        rows=THREE,
        raises="UNRESOLVED_COLUMN",
        says=("nothing",),
        then=[(1, "a"), (2, "b"), (3, None)],
        quick=True,
    ),
    Case(
        "an update gives one column two values",
        "UPDATE {t} SET v = 'a', V = 'b'",
        rows=THREE,
        raises="DATATYPE_MISMATCH",
        says=("v",),
        then=[(1, "a"), (2, "b"), (3, None)],
    ),
    Case(
        "an update in the mode that rewrites splits",
        "UPDATE {t} SET v = 'z' WHERE k = 2",
        properties="'delete.mode' = 'rewrite'",
        rows=THREE,
        then=[(1, "a"), (2, "z"), (3, None)],
    ),
    Case(
        "an updated text is found by its new words only",
        "UPDATE {t} SET v = 'second text' WHERE k = 1",
        properties="'indexing.typemap.v' = 'text'",
        rows="(1, 'first text'), (2, 'first line')",
        checks={
            "SELECT k FROM {t} WHERE v TEXTSEARCH 'first'": [(2,)],
            "SELECT k FROM {t} WHERE v TEXTSEARCH 'second'": [(1,)],
        },
    ),
    Case(
        "updates of the same row follow each other",
        ["UPDATE {t} SET k = k + 10 WHERE v = 'a'", "UPDATE {t} SET k = k + 10 WHERE v = 'a'"],
        rows=THREE,
        then=[(21, "a"), (2, "b"), (3, None)],
    ),
    Case(
        "an update of a column whose name needs quotes",
        "UPDATE {t} SET `a b` = 2 WHERE `a b` = 1",
        columns="`a b` INT, `c.d` STRING",
        rows="(1, 'x'), (5, 'y')",
        then=[(2, "x"), (5, "y")],
    ),
    Case(
        "an update of a column whose name has a dot",
        "UPDATE {t} SET `c.d` = 'z' WHERE `c.d` = 'x'",
        columns="`a b` INT, `c.d` STRING",
        rows="(1, 'x'), (5, 'y')",
        then=[(1, "z"), (5, "y")],
    ),
    Case(
        "an update of a table that does not exist",
        "UPDATE {t} SET v = 1",
        columns="",
        raises="TABLE_OR_VIEW_NOT_FOUND",
        only="name",
    ),
]

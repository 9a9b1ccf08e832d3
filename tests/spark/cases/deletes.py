"""DELETE."""

from __future__ import annotations

from tests.spark.cases.case import Case

THREE = "(1, 'a'), (2, 'b'), (3, 'c')"
PARTS = "(1, 'a', 'x'), (2, 'b', 'x'), (3, 'c', 'y'), (4, NULL, NULL)"

DELETES = [
    Case(
        "a delete with a condition removes the rows that match",
        "DELETE FROM {t} WHERE k >= 2",
        rows=THREE,
        returns=[(2, 0, 2, 0)],
        then=[(1, "a")],
        quick=True,
    ),
    Case(
        "a delete without a condition removes all rows", "DELETE FROM {t}", rows=THREE, returns=[(3, 0, 3, 0)], then=[]
    ),
    Case(
        "a delete from an empty table removes nothing", "DELETE FROM {t} WHERE k = 1", returns=[(0, 0, 0, 0)], then=[]
    ),
    Case(
        "a delete that matches nothing removes nothing",
        "DELETE FROM {t} WHERE k > 100",
        rows=THREE,
        returns=[(0, 0, 0, 0)],
        then=[(1, "a"), (2, "b"), (3, "c")],
    ),
    Case(
        "a delete keeps the rows for which the condition is unknown",
        "DELETE FROM {t} WHERE v <> 'a'",
        rows="(1, 'a'), (2, 'b'), (3, NULL)",
        then=[(1, "a"), (3, None)],
        quick=True,
    ),
    Case(
        "a delete finds nulls with IS NULL",
        "DELETE FROM {t} WHERE v IS NULL",
        rows="(1, 'a'), (2, NULL)",
        then=[(1, "a")],
    ),
    Case(
        "a delete finds nulls with the null-safe comparison",
        "DELETE FROM {t} WHERE v <=> NULL OR k <=> 1",
        rows="(1, 'a'), (2, NULL), (3, 'c')",
        then=[(3, "c")],
    ),
    Case(
        "a delete calls the table by its alias",
        "DELETE FROM {t} AS gone WHERE gone.k = 1",
        rows=THREE,
        then=[(2, "b"), (3, "c")],
    ),
    Case(
        "column names in a delete ignore case",
        "DELETE FROM {t} WHERE K = 1 AND V = 'a'",
        rows=THREE,
        then=[(2, "b"), (3, "c")],
    ),
    Case(
        "a delete by the partition column alone",
        "DELETE FROM {t} WHERE p = 'x'",
        columns="k INT, v STRING, p STRING",
        partitioned_by="p",
        rows=PARTS,
        then=[(3, "c", "y"), (4, None, None)],
        quick=True,
    ),
    Case(
        "a delete by the partition column and another",
        "DELETE FROM {t} WHERE p = 'x' AND v = 'a'",
        columns="k INT, v STRING, p STRING",
        partitioned_by="p",
        rows=PARTS,
        then=[(2, "b", "x"), (3, "c", "y"), (4, None, None)],
    ),
    Case(
        "a delete of the partition of nulls",
        "DELETE FROM {t} WHERE p IS NULL",
        columns="k INT, v STRING, p STRING",
        partitioned_by="p",
        rows=PARTS,
        then=[(1, "a", "x"), (2, "b", "x"), (3, "c", "y")],
    ),
    Case(
        "a delete with IN and a subquery",
        "DELETE FROM {t} WHERE k IN (SELECT k FROM {s})",
        rows=THREE,
        source="SELECT * FROM VALUES (1), (3) AS (k)",
        then=[(2, "b")],
        quick=True,
    ),
    Case(
        "a delete with NOT IN and a subquery that has a null removes nothing",
        "DELETE FROM {t} WHERE k NOT IN (SELECT k FROM {s})",
        rows=THREE,
        source="SELECT * FROM VALUES (1), (NULL) AS (k)",
        then=[(1, "a"), (2, "b"), (3, "c")],
    ),
    Case(
        "a delete with EXISTS and a correlated subquery",
        "DELETE FROM {t} AS t WHERE EXISTS (SELECT 1 FROM {s} s WHERE s.k = t.k AND s.w > 5)",
        rows=THREE,
        source="SELECT * FROM VALUES (1, 9), (2, 1) AS (k, w)",
        then=[(2, "b"), (3, "c")],
    ),
    Case(
        "a delete with NOT EXISTS",
        "DELETE FROM {t} AS t WHERE NOT EXISTS (SELECT 1 FROM {s} s WHERE s.k = t.k)",
        rows=THREE,
        source="SELECT * FROM VALUES (1), (2) AS (k)",
        then=[(1, "a"), (2, "b")],
    ),
    Case(
        "a delete compared with a scalar subquery",
        "DELETE FROM {t} WHERE k = (SELECT max(k) FROM {s})",
        rows=THREE,
        source="SELECT * FROM VALUES (1), (2) AS (k)",
        then=[(1, "a"), (3, "c")],
    ),
    Case(
        "a delete with a subquery on the same table",
        "DELETE FROM {t} WHERE k < (SELECT max(k) FROM {t})",
        rows=THREE,
        then=[(3, "c")],
    ),
    Case(
        "a delete by a field of a struct",
        "DELETE FROM {t} WHERE s.a = 1",
        columns="k INT, s STRUCT<a: INT, b: STRING>",
        rows="(1, named_struct('a', 1, 'b', 'x')), (2, named_struct('a', 2, 'b', 'y')), (3, NULL)",
        then=[(2, (2, "y")), (3, None)],
    ),
    Case(
        "a delete by an element of an array",
        "DELETE FROM {t} WHERE array_contains(a, 2)",
        columns="k INT, a ARRAY<INT>",
        rows="(1, array(1, 2)), (2, array(3)), (3, NULL)",
        then=[(2, [3]), (3, None)],
    ),
    Case(
        "a delete by a value of a map",
        "DELETE FROM {t} WHERE m['x'] = 1",
        columns="k INT, m MAP<STRING, INT>",
        rows="(1, map('x', 1)), (2, map('y', 1)), (3, NULL)",
        then=[(2, {"y": 1}), (3, None)],
    ),
    Case(
        "a delete with false removes nothing",
        "DELETE FROM {t} WHERE false",
        rows=THREE,
        returns=[(0, 0, 0, 0)],
        then=[(1, "a"), (2, "b"), (3, "c")],
    ),
    Case(
        "a delete with true removes everything",
        "DELETE FROM {t} WHERE true",
        rows=THREE,
        returns=[(3, 0, 3, 0)],
        then=[],
    ),
    Case(
        "a delete twice of the same rows counts them once",
        ["DELETE FROM {t} WHERE k = 1", "DELETE FROM {t} WHERE k <= 2"],
        rows=THREE,
        returns=[(1, 0, 1, 0)],
        then=[(3, "c")],
    ),
    Case(
        "a delete in the mode that rewrites splits",
        "DELETE FROM {t} WHERE k = 2",
        properties="'delete.mode' = 'rewrite'",
        rows=THREE,
        returns=[(1, 0, 1, 0)],
        then=[(1, "a"), (3, "c")],
    ),
    Case(
        "a delete by a condition that fails on a row changes nothing",
        "DELETE FROM {t} WHERE CAST(v AS INT) = 1",
        rows="(1, '1'), (2, 'two')",
        raises="CAST_INVALID_INPUT",
        then=[(1, "1"), (2, "two")],
    ),
    Case(
        "a delete from an older version",
        "DELETE FROM {t} VERSION AS OF 0",
        rows=THREE,
        raises="PARSE_SYNTAX_ERROR",
        then=[(1, "a"), (2, "b"), (3, "c")],
    ),
    Case(
        "a delete from a table that does not exist",
        "DELETE FROM {t} WHERE k = 1",
        columns="",
        raises="TABLE_OR_VIEW_NOT_FOUND",
        only="name",
    ),
    Case(
        "a delete by a search removes what the index finds",
        "DELETE FROM {t} WHERE v TEXTSEARCH 'timeout'",
        properties="'indexing.typemap.v' = 'text'",
        rows="(1, 'read timeout'), (2, 'all fine'), (3, 'timeout again')",
        returns=[(2, 0, 2, 0)],
        then=[(2, "all fine")],
        quick=True,
    ),
    Case(
        "a delete by a search in a subquery",
        "DELETE FROM {t} WHERE k IN (SELECT k FROM {t} WHERE v TEXTSEARCH 'timeout') AND k > 1",
        properties="'indexing.typemap.v' = 'text'",
        rows="(1, 'read timeout'), (2, 'all fine'), (3, 'timeout again')",
        then=[(1, "read timeout"), (2, "all fine")],
    ),
    Case(
        "rows inserted after a delete stay",
        ["DELETE FROM {t} WHERE k = 1", "INSERT INTO {t} VALUES (1, 'new')"],
        rows=THREE,
        then=[(1, "new"), (2, "b"), (3, "c")],
        checks={"SELECT count(*) FROM {t} WHERE k = 1": [(1,)], "SELECT min(k), max(v) FROM {t}": [(1, "new")]},
    ),
]

"""MERGE INTO."""

from __future__ import annotations

from tests.spark.cases.case import Case

TARGET = "(1, 'a'), (2, 'b'), (3, NULL)"
SOURCE = "SELECT * FROM VALUES (2, 'B'), (3, 'C'), (4, 'D') AS (k, v)"
START = "MERGE INTO {t} t USING {s} s ON t.k = s.k "

MERGES = [
    Case(
        "a merge updates what matches and inserts the rest",
        START
        + "WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT (k, v) VALUES (s.k, s.v)",
        rows=TARGET,
        source=SOURCE,
        returns=[(3, 2, 0, 1)],
        then=[(1, "a"), (2, "B"), (3, "C"), (4, "D")],
        quick=True,
    ),
    Case(
        "a merge with stars takes columns by name",
        START + "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
        rows=TARGET,
        source="SELECT * FROM VALUES ('B', 2), ('D', 4) AS (V, K)",
        then=[(1, "a"), (2, "B"), (3, None), (4, "D")],
    ),
    Case(
        "a merge that only updates",
        START + "WHEN MATCHED THEN UPDATE SET v = concat(coalesce(t.v, '-'), s.v)",
        rows=TARGET,
        source=SOURCE,
        returns=[(2, 2, 0, 0)],
        then=[(1, "a"), (2, "bB"), (3, "-C")],
    ),
    Case(
        "a merge that only deletes",
        START + "WHEN MATCHED THEN DELETE",
        rows=TARGET,
        source=SOURCE,
        returns=[(2, 0, 2, 0)],
        then=[(1, "a")],
    ),
    Case(
        "a merge that only inserts",
        START + "WHEN NOT MATCHED THEN INSERT *",
        rows=TARGET,
        source=SOURCE,
        returns=[(1, 0, 0, 1)],
        then=[(1, "a"), (2, "b"), (3, None), (4, "D")],
    ),
    Case(
        "a merge takes the first clause whose condition holds",
        START
        + "WHEN MATCHED AND s.v = 'B' THEN DELETE WHEN MATCHED AND t.v IS NULL THEN UPDATE SET v = 'was null' "
        "WHEN MATCHED THEN UPDATE SET v = 'last' WHEN NOT MATCHED AND s.k > 10 THEN INSERT * "
        "WHEN NOT MATCHED THEN INSERT (k, v) VALUES (s.k, 'other')",
        rows="(1, 'a'), (2, 'b'), (3, NULL), (5, 'e')",
        source="SELECT * FROM VALUES (2, 'B'), (3, 'C'), (4, 'D'), (5, 'E'), (11, 'F') AS (k, v)",
        returns=[(5, 2, 1, 2)],
        then=[(1, "a"), (3, "was null"), (4, "other"), (5, "last"), (11, "F")],
        quick=True,
    ),
    Case(
        "a row that no clause takes stays as it is",
        START
        + "WHEN MATCHED AND s.v = 'Z' THEN DELETE WHEN NOT MATCHED AND s.v = 'Z' THEN INSERT *",
        rows=TARGET,
        source=SOURCE,
        returns=[(0, 0, 0, 0)],
        then=[(1, "a"), (2, "b"), (3, None)],
    ),
    Case(
        "a clause whose condition is unknown does not apply",
        START + "WHEN MATCHED AND t.v <> 'x' THEN DELETE",
        rows=TARGET,
        source=SOURCE,
        then=[(1, "a"), (3, None)],
    ),
    Case(
        "rows that the source lacks are deleted or updated",
        START
        + "WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED BY SOURCE AND t.k = 1 THEN UPDATE SET v = 'alone' "
        "WHEN NOT MATCHED BY SOURCE THEN DELETE",
        rows="(0, 'zero'), (1, 'a'), (2, 'b')",
        source=SOURCE,
        returns=[(3, 2, 1, 0)],
        then=[(1, "alone"), (2, "B")],
        quick=True,
    ),
    Case(
        "all three kinds of clauses in one merge",
        START + "WHEN MATCHED THEN DELETE WHEN NOT MATCHED BY TARGET THEN INSERT * "
        "WHEN NOT MATCHED BY SOURCE THEN UPDATE SET k = -k",
        rows=TARGET,
        source=SOURCE,
        returns=[(4, 1, 2, 1)],
        then=[(-1, "a"), (4, "D")],
    ),
    Case(
        "several source rows for one target row are an error",
        START + "WHEN MATCHED THEN UPDATE SET v = s.v",
        rows=TARGET,
        source="SELECT * FROM VALUES (2, 'x'), (2, 'y') AS (k, v)",
        raises="INDEXTABLES_INVALID_INPUT",
        says=("several rows of the source", "Nothing was changed"),
        then=[(1, "a"), (2, "b"), (3, None)],
        quick=True,
    ),
    Case(
        "several source rows for one target row may delete it",
        START + "WHEN MATCHED THEN DELETE",
        rows=TARGET,
        source="SELECT * FROM VALUES (2, 'x'), (2, 'y') AS (k, v)",
        returns=[(1, 0, 1, 0)],
        then=[(1, "a"), (3, None)],
    ),
    Case(
        "several source rows of which a condition leaves one",
        START + "WHEN MATCHED AND s.v = 'x' THEN UPDATE SET v = s.v",
        rows=TARGET,
        source="SELECT * FROM VALUES (2, 'x'), (2, 'y') AS (k, v)",
        then=[(1, "a"), (2, "x"), (3, None)],
    ),
    Case(
        "source rows that match nothing are all inserted, equal ones too",
        START + "WHEN NOT MATCHED THEN INSERT *",
        rows=TARGET,
        source="SELECT * FROM VALUES (9, 'x'), (9, 'x'), (9, 'y') AS (k, v)",
        returns=[(3, 0, 0, 3)],
        then=[(1, "a"), (2, "b"), (3, None), (9, "x"), (9, "x"), (9, "y")],
    ),
    Case(
        "null keys match nothing",
        START + "WHEN MATCHED THEN UPDATE SET v = 'hit' WHEN NOT MATCHED THEN INSERT *",
        rows="(NULL, 'a'), (1, 'b')",
        source="SELECT * FROM VALUES (CAST(NULL AS INT), 'n'), (1, 'm') AS (k, v)",
        then=[(None, "a"), (None, "n"), (1, "hit")],
        quick=True,
    ),
    Case(
        "null keys match with the null-safe comparison",
        "MERGE INTO {t} t USING {s} s ON t.k <=> s.k WHEN MATCHED THEN UPDATE SET v = s.v "
        "WHEN NOT MATCHED THEN INSERT *",
        rows="(NULL, 'a'), (1, 'b')",
        source="SELECT * FROM VALUES (CAST(NULL AS INT), 'n') AS (k, v)",
        then=[(None, "n"), (1, "b")],
    ),
    Case(
        "a merge on a comparison that is not an equality",
        "MERGE INTO {t} t USING {s} s ON t.k > s.k WHEN MATCHED THEN UPDATE SET v = 'above' "
        "WHEN NOT MATCHED THEN INSERT *",
        rows=TARGET,
        source="SELECT 2 AS k, 'two' AS v",
        then=[(1, "a"), (2, "b"), (3, "above")],
    ),
    Case(
        "a merge on false inserts everything",
        "MERGE INTO {t} t USING {s} s ON false WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT *",
        rows=TARGET,
        source=SOURCE,
        returns=[(3, 0, 0, 3)],
        then=[(1, "a"), (2, "b"), (2, "B"), (3, None), (3, "C"), (4, "D")],
    ),
    Case(
        "a merge with a condition on the target in ON",
        "MERGE INTO {t} t USING {s} s ON t.k = s.k AND t.v = 'b' WHEN MATCHED THEN UPDATE SET v = s.v "
        "WHEN NOT MATCHED THEN INSERT *",
        rows=TARGET,
        source=SOURCE,
        then=[(1, "a"), (2, "B"), (3, None), (3, "C"), (4, "D")],
    ),
    Case(
        "a merge from a subquery",
        "MERGE INTO {t} t USING (SELECT k + 1 AS k, upper(v) AS v FROM {t} WHERE v IS NOT NULL) s ON t.k = s.k "
        "WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT *",
        rows="(1, 'a'), (2, 'b')",
        then=[(1, "a"), (2, "A"), (3, "B")],
    ),
    Case(
        "a merge from a common table expression in the subquery",
        "MERGE INTO {t} t USING (WITH c AS (SELECT * FROM {s} WHERE k < 4) SELECT k, lower(v) AS v FROM c) s ON t.k = s.k "
        "WHEN MATCHED THEN UPDATE SET *",
        rows=TARGET,
        source=SOURCE,
        then=[(1, "a"), (2, "b"), (3, "c")],
    ),
    Case(
        "a merge after WITH",
        "WITH c AS (SELECT * FROM {s} WHERE k < 4) MERGE INTO {t} t USING c ON t.k = c.k "
        "WHEN MATCHED THEN UPDATE SET v = c.v",
        rows=TARGET,
        source=SOURCE,
        then=[(1, "a"), (2, "B"), (3, "C")],
    ),
    Case(
        "a table merged with itself",
        "MERGE INTO {t} t USING {t} s ON t.k = s.k + 1 WHEN MATCHED THEN UPDATE SET v = s.v "
        "WHEN NOT MATCHED THEN INSERT *",
        rows="(1, 'a'), (2, 'b')",
        then=[(1, "a"), (2, "a"), (2, "b")],
    ),
    Case(
        "a merge from another table of ours",
        [
            "CREATE TABLE {u} (k INT, v STRING) USING indextables",
            "INSERT INTO {u} VALUES (2, 'B'), (4, 'D')",
            "MERGE INTO {t} USING {u} AS s ON s.k = k2 WHEN MATCHED THEN UPDATE SET v2 = s.v "
            "WHEN NOT MATCHED THEN INSERT (k2, v2) VALUES (s.k, s.v)",
        ],
        columns="k2 INT, v2 STRING",
        rows=TARGET,
        then=[(1, "a"), (2, "B"), (3, None), (4, "D")],
    ),
    Case(
        "a merge from a search",
        "MERGE INTO {t} t USING (SELECT k, v FROM {t} WHERE v TEXTSEARCH 'timeout') s ON t.k = s.k "
        "WHEN MATCHED THEN DELETE",
        properties="'indexing.typemap.v' = 'text'",
        rows="(1, 'read timeout'), (2, 'fine')",
        then=[(2, "fine")],
    ),
    Case(
        "a merge without aliases",
        "MERGE INTO {t} USING (SELECT 2 AS sk, 'new' AS sv) ON k = sk WHEN MATCHED THEN UPDATE SET v = sv",
        rows=TARGET,
        then=[(1, "a"), (2, "new"), (3, None)],
    ),
    Case(
        "column names in a merge ignore case",
        "MERGE INTO {t} T USING {s} S ON t.K = s.k WHEN MATCHED THEN UPDATE SET T.V = s.v "
        "WHEN NOT MATCHED THEN INSERT (V, K) VALUES (S.V, S.K)",
        rows=TARGET,
        source=SOURCE,
        then=[(1, "a"), (2, "B"), (3, "C"), (4, "D")],
    ),
    Case(
        "an insert of some columns leaves the others null",
        START + "WHEN NOT MATCHED THEN INSERT (k) VALUES (s.k * 10)",
        rows=TARGET,
        source=SOURCE,
        then=[(1, "a"), (2, "b"), (3, None), (40, None)],
    ),
    Case(
        "a star ignores columns that only the source has when there is no schema evolution",
        START + "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
        rows=TARGET,
        source="SELECT * FROM VALUES (2, 'B', 0.5), (4, 'D', 0.5) AS (k, v, extra)",
        then=[(1, "a"), (2, "B"), (3, None), (4, "D")],
    ),
    Case(
        "a star needs every column of the target",
        START + "WHEN MATCHED THEN UPDATE SET *",
        rows=TARGET,
        source="SELECT 2 AS k",
        raises="INDEXTABLES_SCHEMA_MISMATCH",
        says=("'v'", "SCHEMA EVOLUTION"),
        then=[(1, "a"), (2, "b"), (3, None)],
    ),
    Case(
        "a merge moves rows between partitions",
        START + "WHEN MATCHED THEN UPDATE SET p = s.p WHEN NOT MATCHED THEN INSERT *",
        columns="k INT, p STRING",
        partitioned_by="p",
        rows="(1, 'x'), (2, 'x'), (3, 'y')",
        source="SELECT * FROM VALUES (1, 'y'), (9, 'z') AS (k, p)",
        then=[(1, "y"), (2, "x"), (3, "y"), (9, "z")],
        checks={
            "SELECT k FROM {t} WHERE p = 'y'": [(1,), (3,)],
            "SELECT k FROM {t} WHERE p = 'z'": [(9,)],
        },
    ),
    Case(
        "a merge on key and partition column",
        "MERGE INTO {t} t USING {s} s ON t.k = s.k AND t.p = s.p WHEN MATCHED THEN UPDATE SET n = t.n + 1 "
        "WHEN NOT MATCHED THEN INSERT (k, p, n) VALUES (s.k, s.p, 0)",
        columns="k INT, n INT, p DATE",
        partitioned_by="p",
        rows="(1, 5, DATE'2024-01-01'), (1, 6, DATE'2024-01-02')",
        source="SELECT * FROM VALUES (1, DATE'2024-01-02'), (1, DATE'2024-01-03') AS (k, p)",
        checks={
            "SELECT k, n, CAST(p AS STRING) FROM {t}": [
                (1, 5, "2024-01-01"),
                (1, 7, "2024-01-02"),
                (1, 0, "2024-01-03"),
            ]
        },
    ),
    Case(
        "a merge evolves the schema and fills the new column",
        "MERGE WITH SCHEMA EVOLUTION INTO {t} t USING {s} s ON t.k = s.k WHEN MATCHED THEN UPDATE SET * "
        "WHEN NOT MATCHED THEN INSERT *",
        rows=TARGET,
        source="SELECT * FROM VALUES (2, 'B', 7L), (4, 'D', 8L) AS (k, v, n)",
        then=[(1, "a", None), (2, "B", 7), (3, None, None), (4, "D", 8)],
        quick=True,
    ),
    Case(
        "a merge that evolves the schema from a source without a column",
        "MERGE WITH SCHEMA EVOLUTION INTO {t} t USING {s} s ON t.k = s.k WHEN MATCHED THEN UPDATE SET * "
        "WHEN NOT MATCHED THEN INSERT *",
        rows=TARGET,
        source="SELECT * FROM VALUES (2, 7), (4, 8) AS (k, n)",
        then=[(1, "a", None), (2, "b", 7), (3, None, None), (4, None, 8)],
    ),
    Case(
        "a merge with a subquery in the condition of a clause",
        START + "WHEN MATCHED AND s.k = (SELECT max(k) FROM {t}) THEN DELETE",
        rows=TARGET,
        source=SOURCE,
        then=[(1, "a"), (2, "b")],
    ),
    Case(
        "a merge into an empty table inserts",
        START + "WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT *",
        source=SOURCE,
        then=[(2, "B"), (3, "C"), (4, "D")],
    ),
    Case(
        "a merge from an empty source removes what the source lacks",
        START + "WHEN NOT MATCHED BY SOURCE THEN DELETE",
        rows=TARGET,
        source="SELECT 1 AS k WHERE false",
        returns=[(3, 0, 3, 0)],
        then=[],
    ),
    Case(
        "a merge in the mode that rewrites splits",
        START + "WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT *",
        properties="'delete.mode' = 'rewrite'",
        rows=TARGET,
        source=SOURCE,
        then=[(1, "a"), (2, "B"), (3, "C"), (4, "D")],
    ),
    Case(
        "two merges of the same source insert once",
        [START + "WHEN NOT MATCHED THEN INSERT *", START + "WHEN NOT MATCHED THEN INSERT *"],
        rows=TARGET,
        source=SOURCE,
        returns=[(0, 0, 0, 0)],
        then=[(1, "a"), (2, "b"), (3, None), (4, "D")],
    ),
    Case(
        "a merge without a clause",
        START,
        rows=TARGET,
        source=SOURCE,
        raises="MERGE_WITHOUT_WHEN",
        then=[(1, "a"), (2, "b"), (3, None)],
    ),
    Case(
        "a clause without a condition that is not the last of its kind",
        START + "WHEN MATCHED THEN DELETE WHEN MATCHED AND s.v = 'B' THEN UPDATE SET v = s.v",
        rows=TARGET,
        source=SOURCE,
        raises="NON_LAST_MATCHED_CLAUSE_OMIT_CONDITION",
    ),
    Case(
        "a merge sets a column that does not exist",
        START + "WHEN MATCHED THEN UPDATE SET nothing = s.v",
        rows=TARGET,
        source=SOURCE,
        raises="UNRESOLVED_COLUMN",
        says=("nothing",),
    ),
    Case(
        "a merge inserts into a column that does not exist",
        START + "WHEN NOT MATCHED THEN INSERT (k, nothing) VALUES (s.k, 1)",
        rows=TARGET,
        source=SOURCE,
        raises="UNRESOLVED_COLUMN",
        says=("nothing",),
    ),
    Case(
        "a merge reads a column that both sides have without saying which",
        START + "WHEN MATCHED AND v = 'b' THEN DELETE",
        rows=TARGET,
        source=SOURCE,
        raises="AMBIGUOUS_REFERENCE",
        says=("v",),
    ),
    Case(
        "a merge from a table that does not exist",
        "MERGE INTO {t} t USING nowhere s ON t.k = s.k WHEN MATCHED THEN DELETE",
        rows=TARGET,
        raises="TABLE_OR_VIEW_NOT_FOUND",
        says=("nowhere",),
    ),
    Case(
        "a merge inserts fewer values than columns",
        START + "WHEN NOT MATCHED THEN INSERT (k, v) VALUES (s.k)",
        rows=TARGET,
        source=SOURCE,
        raises="MERGE_INSERT_VALUE_COUNT_MISMATCH",
    ),
    Case(
        "a merge with a value that does not fit changes nothing",
        START + "WHEN MATCHED THEN UPDATE SET k = 10000000000L",
        rows=TARGET,
        source=SOURCE,
        raises="CAST_OVERFLOW",
        then=[(1, "a"), (2, "b"), (3, None)],
    ),
]

"""Names, types and defaults in UPDATE, MERGE and DELETE: fields of structs, store assignment, and
what errors name.
"""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import SparkSession

from indextables import Table
from tests.spark.cases.case import Case, Place
from tests.spark.cases.merges import SOURCE, START, TARGET

THREE = "(1, 'a'), (2, 'b'), (3, NULL)"


def add_default(spark: SparkSession, place: Place) -> None:
    Table.open(place.path).alter.add_column("n", pa.int64(), default=7)


ASSIGNMENTS = [
    Case(
        "a row that a merge inserts holds the defaults of the columns that its clause leaves out",
        [add_default, START + "WHEN NOT MATCHED THEN INSERT (k) VALUES (s.k)"],
        rows=TARGET,
        source=SOURCE,
        then=[(1, "a", 7), (2, "b", 7), (3, None, 7), (4, None, 7)],
    ),
    Case(
        "a merge inserts and sets DEFAULT",
        [
            add_default,
            START + "WHEN MATCHED THEN UPDATE SET n = DEFAULT, v = DEFAULT "
            "WHEN NOT MATCHED THEN INSERT (k, v, n) VALUES (s.k, DEFAULT, DEFAULT)",
        ],
        rows=TARGET,
        source=SOURCE,
        then=[(1, "a", 7), (2, None, 7), (3, None, 7), (4, None, 7)],
    ),
    Case(
        "an update sets DEFAULT",
        [
            add_default,
            "UPDATE {t} SET n = 1",
            "UPDATE {t} SET n = DEFAULT, v = DEFAULT WHERE k = 1",
        ],
        rows=TARGET,
        then=[(1, None, 7), (2, "b", 1), (3, None, 1)],
    ),
    Case(
        "a delete with a condition without a type",
        "DELETE FROM {t} WHERE NULL",
        rows="(1, 'a'), (2, 'b'), (3, 'c')",
        raises="DATATYPE_MISMATCH.FILTER_NOT_BOOLEAN",
        then=[(1, "a"), (2, "b"), (3, "c")],
    ),
    Case(
        "a delete names a column that does not exist",
        "DELETE FROM {t} WHERE nothing = 1",
        rows="(1, 'a'), (2, 'b'), (3, 'c')",
        raises="UNRESOLVED_COLUMN",
        says=("nothing",),
        then=[(1, "a"), (2, "b"), (3, "c")],
        quick=True,
    ),
    Case(
        "a delete by a condition that is not boolean",
        "DELETE FROM {t} WHERE k + 1",
        rows="(1, 'a'), (2, 'b'), (3, 'c')",
        raises="DATATYPE_MISMATCH",
        then=[(1, "a"), (2, "b"), (3, "c")],
    ),
    Case(
        "a delete by an aggregate",
        "DELETE FROM {t} WHERE k = max(k)",
        rows="(1, 'a'), (2, 'b'), (3, 'c')",
        raises="UNSUPPORTED_EXPR_FOR_OPERATOR",
        then=[(1, "a"), (2, "b"), (3, "c")],
    ),
    Case(
        "an update sets a whole struct by the names of its fields",
        "UPDATE {t} SET s = named_struct('b', 'new', 'a', 20) WHERE k = 1",
        columns="k INT, s STRUCT<a: INT, b: STRING>",
        rows="(1, named_struct('a', 1, 'b', 'x')), (2, NULL)",
        then=[(1, (20, "new")), (2, None)],
    ),
    Case(
        "an update with a value that does not fit the column, in a session that is not ANSI",
        "UPDATE {t} SET k = 10000000000L",
        rows=THREE,
        conf={"spark.sql.ansi.enabled": "false"},
        raises="CAST_OVERFLOW",
        then=[(1, "a"), (2, "b"), (3, None)],
    ),
    Case(
        "an update with a text for a number",
        "UPDATE {t} SET k = 'no number'",
        rows=THREE,
        raises="INCOMPATIBLE_DATA_FOR_TABLE",
        then=[(1, "a"), (2, "b"), (3, None)],
    ),
    Case(
        "an update reads a column that does not exist",
        "UPDATE {t} SET v = nothing",
        rows=THREE,
        raises="UNRESOLVED_COLUMN",
        says=("nothing",),
    ),
    Case(
        "an update sets an aggregate",
        "UPDATE {t} SET k = max(k)",
        rows=THREE,
        raises="UNSUPPORTED_EXPR_FOR_OPERATOR",
        then=[(1, "a"), (2, "b"), (3, None)],
    ),
    Case(
        "an update by a condition that is not boolean",
        "UPDATE {t} SET v = 'x' WHERE k",
        rows=THREE,
        raises="DATATYPE_MISMATCH",
    ),
    Case(
        "a merge of structs goes by the names of fields",
        START + "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
        columns="k INT, s STRUCT<a: INT, b: INT>",
        rows="(1, named_struct('a', 1, 'b', 2))",
        source="SELECT id AS k, named_struct('b', 20, 'a', 10) AS s FROM VALUES (1), (2) AS (id)",
        then=[(1, (10, 20)), (2, (10, 20))],
    ),
    Case(
        "a merge reads a column that does not exist",
        START + "WHEN MATCHED THEN UPDATE SET v = s.nothing",
        rows=TARGET,
        source=SOURCE,
        raises="UNRESOLVED_COLUMN",
        says=("nothing",),
        then=[(1, "a"), (2, "b"), (3, None)],
        quick=True,
    ),
    Case(
        "an insert clause cannot read the target",
        START + "WHEN NOT MATCHED THEN INSERT (k, v) VALUES (s.k, t.v)",
        rows=TARGET,
        source=SOURCE,
        raises="UNRESOLVED_COLUMN",
    ),
    Case(
        "a clause for rows that the source lacks cannot read the source",
        START + "WHEN NOT MATCHED BY SOURCE THEN UPDATE SET v = s.v",
        rows=TARGET,
        source=SOURCE,
        raises="UNRESOLVED_COLUMN",
    ),
    Case(
        "a merge on a column that does not exist",
        "MERGE INTO {t} t USING {s} s ON t.nothing = s.k WHEN MATCHED THEN DELETE",
        rows=TARGET,
        source=SOURCE,
        raises="UNRESOLVED_COLUMN",
        says=("nothing",),
    ),
    Case(
        "a merge with an aggregate in a condition",
        START + "WHEN MATCHED AND max(s.k) > 1 THEN DELETE",
        rows=TARGET,
        source=SOURCE,
        raises="UNSUPPORTED_EXPR_FOR_OPERATOR",
    ),
]

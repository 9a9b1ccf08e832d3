"""A table as frames of other libraries, and rows taken from them: the same rows, and only what is
needed is opened.
"""

from __future__ import annotations

import datetime as dt
import random
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import polars as pl
import pyarrow as pa
import pytest

from indextables import Table
from indextables.errors import InvalidInputError, QuerySyntaxError
from indextables.table.frames import NAMES_ELSEWHERE, push_down

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("at", pa.timestamp("us", tz="UTC")),
        ("day", pa.date32()),
        ("level", pa.string()),
        ("score", pa.float64()),
        ("ok", pa.bool_()),
        ("tags", pa.list_(pa.string())),
        ("inner", pa.struct([("n", pa.int32())])),
        ("message", pa.string()),
    ]
)
START = dt.datetime(2026, 11, 1, tzinfo=dt.UTC)


def rows_of(turn: int) -> list[dict[str, Any]]:
    return [
        {
            "id": turn * 20 + n,
            "at": START + dt.timedelta(days=turn, minutes=n),
            "day": (START + dt.timedelta(days=turn)).date(),
            "level": None if n == 7 else "ERROR" if n % 3 == 0 else "INFO",
            "score": float("nan") if n == 5 else n / 2,
            "ok": n % 2 == 0,
            "tags": ["a", "b"][: n % 3],
            "inner": {"n": n},
            "message": f"gateway timeout {n}" if n % 4 else "disk full",
        }
        for n in range(20)
    ]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Table:
    path = str(tmp_path_factory.mktemp("frames") / "logs")
    made = Table.create(
        path, schema=SCHEMA, partition_columns=["day"], options={"indexing.typemap.message": "text"}
    )
    for turn in range(3):
        made.append(rows_of(turn))
    return made


def test_rows_of_dicts_were_appended_as_they_are(table: Table) -> None:
    assert len(table) == 60 and table.head(3).num_rows == 3 and bool(table)
    back = sorted(table, key=lambda row: row["id"])
    expected = [row for turn in range(3) for row in rows_of(turn)]
    assert [repr(row["score"]) for row in back] == [repr(row["score"]) for row in expected]
    assert [{**row, "score": 0} for row in back] == [{**row, "score": 0} for row in expected]


def test_pandas_and_polars_have_the_rows(table: Table) -> None:
    frame = table.to_pandas(query="timeout", where="ok", columns=["id", "at"], limit=5)
    assert (
        type(frame).__module__.startswith("pandas.")
        and list(frame.columns) == ["id", "at"]
        and len(frame) == 5
    )
    whole = table.to_polars()
    assert isinstance(whole, pl.DataFrame) and whole.height == 60
    assert table.to_polars(query="disk", columns=["id"])["id"].to_list() == [
        n for n in range(60) if n % 20 % 4 == 0
    ]
    assert (
        pa.RecordBatchReader.from_stream(table).read_all().num_rows == 60
        and pl.DataFrame(table).height == 60
    )


@pytest.mark.parametrize("kind", ["pandas", "polars", "duckdb", "arrow", "table"])
def test_frames_are_appended(table: Table, tmp_path: Path, kind: str) -> None:
    arrow = table.scan(columns=["id", "level", "message"]).read_all()
    con = duckdb.connect()
    data = {
        "pandas": arrow.to_pandas,
        "polars": lambda: pl.DataFrame(arrow),
        "duckdb": lambda: con.from_arrow(arrow),
        "arrow": lambda: arrow,
        "table": lambda: Table.open(str(copied(table, tmp_path))),
    }[kind]()
    made = Table.create(str(tmp_path / "to"), schema=arrow.schema)
    made.append(data)
    assert (
        sorted(row["id"] for row in made) == list(range(60))
        and made.count(query="level:ERROR") == 21
    )
    con.close()


def copied(table: Table, folder: Path) -> Path:
    some = table.scan(columns=["id", "level", "message"]).read_all()
    Table.create(str(folder / "from"), schema=some.schema).append(some)
    return folder / "from"


def test_what_is_no_row_is_refused_and_nothing_is_written(table: Table, tmp_path: Path) -> None:
    made = Table.create(
        str(tmp_path / "t"), schema=pa.schema([("id", pa.int64()), ("name", pa.string())])
    )
    for data, said in [
        ([{"id": 1}, {"id": "x"}], "of row 1, 'x', does not fit column 'id'"),
        ([{"id": 1}, [2]], "Row 1 is no dict"),
        ([{1: 2}], "Row 0 is no dict"),
        ({"id": [1]}, "Rows cannot be taken from a dict"),
        ([], "Rows cannot be taken from a list"),
        ([{"id": 2**70}], "does not fit column 'id'"),
    ]:
        with pytest.raises(InvalidInputError, match=said):
            made.append(data)
    assert len(made) == 0 and made.version == 0
    made.append([{"id": 1}, {"name": "only a name"}])
    assert list(made) == [{"id": 1, "name": None}, {"id": None, "name": "only a name"}]


EVERY_TYPE = pa.schema(
    [
        ("id", pa.int32()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", tz="UTC")),
        ("name", pa.string()),
        ("many", pa.list_(pa.int64())),
        ("inner", pa.struct([("n", pa.int64())])),
        ("by", pa.map_(pa.string(), pa.int64())),
    ]
)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"id": 1.5}, "1.5, does not fit column 'id', which is int32: a part of it would be lost"),
        ({"id": Decimal("1.5")}, "would be lost"),
        ({"id": np.float32(2.5)}, "would be lost"),
        ({"day": dt.datetime(2026, 11, 1, 12)}, "does not fit column 'day'.*would be lost"),
        ({"at": pd.Timestamp("2026-11-01 00:00:00.000000001", tz="UTC")}, "would be lost"),
        ({"many": [1, 2.5]}, "does not fit column 'many'.*would be lost"),
        ({"inner": {"n": 1, "m": 2}}, "'m': 2}, does not fit column 'inner'.*would be lost"),
        ({"inner": {"n": 0.5}}, "would be lost"),
        ({"by": {"a": 0.5}}, "does not fit column 'by'.*would be lost"),
        ({"at": pd.NaT}, "NaT, does not fit column 'at'.*A missing value is None"),
        ({"name": float("nan")}, "does not fit column 'name'.*A missing value is None"),
        ({"name": "\ud800"}, "does not fit column 'name'"),
    ],
)
def test_a_value_of_which_a_part_would_be_lost_is_refused(
    tmp_path: Path, row: dict[str, Any], said: str
) -> None:
    made = Table.create(str(tmp_path / "t"), schema=EVERY_TYPE)
    for write in (made.append, made.overwrite, lambda rows: made.upsert(rows, on=["id"])):
        with pytest.raises(InvalidInputError, match=said) as refused:
            write([{"id": 1}, {"id": 2, **row}])
        assert refused.value.context["row"] == 1
    assert made.version == 0


def test_values_that_lose_nothing_are_taken_for_the_types_of_the_table(tmp_path: Path) -> None:
    made = Table.create(str(tmp_path / "t"), schema=EVERY_TYPE)
    row = {
        "id": 2.0,
        "day": dt.datetime(2026, 11, 1),
        "at": pd.Timestamp("2026-11-01", tz="UTC"),
        "many": (1, 2),
    }
    made.append([row, {"id": None, "inner": {"n": Decimal(3)}, "by": {"a": 1}}])
    made.upsert([{"id": 2, "name": "two", "inner": None}], on=["id"])
    assert sorted((r["id"] or 0, r["day"], r["name"], r["many"]) for r in made) == [
        (0, None, None, None),
        (2, dt.date(2026, 11, 1), "two", [1, 2]),
    ]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (
            pd.DataFrame([[1, 2]], columns=["id", "id"]),
            "columns of the DataFrame cannot be read: Duplicate column names",
        ),
        (pd.DataFrame({"id": [1, 2], "name": ["a", 3]}), "cannot be read: .*column name"),
        ({"id": [1]}, r"pyarrow.table\(columns\), one row as \[row\]"),
        (pl.LazyFrame({"id": [1]}), r"lazy.collect\(\)"),
        (({"id": n} for n in range(3)), r"list\(rows\)"),
        (pd.Series([1], name="id"), r"series.to_frame\(\)"),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_way_out(
    tmp_path: Path, data: Any, said: str
) -> None:
    made = Table.create(str(tmp_path / "t"), schema=EVERY_TYPE)
    with pytest.raises(InvalidInputError, match=said):
        made.append(data)
    assert made.version == 0


def test_names_of_other_libraries_are_answered_with_ours(table: Table) -> None:
    for name, here in NAMES_ELSEWHERE.items():
        with pytest.raises(AttributeError, match=f"no attribute '{name}'. Here it is") as told:
            getattr(table, name)
        assert told.value.name == name
        for chain in re.findall(r"\bt((?:\.\w+)+)", here):
            assert getattr(Table, chain.split(".")[1], None) is not None, chain
    with pytest.raises(AttributeError, match=r"no attribute 'colour'$"):
        _ = table.colour  # type: ignore[attr-defined]
    assert not hasattr(table, "__enter__")


def test_a_table_holds_rows_and_no_names(table: Table) -> None:
    assert next(iter(table)) in table
    assert {"id": -1} not in table
    with pytest.raises(InvalidInputError, match=r"'id' is no row.*t\.schema\.names"):
        "id" in table  # noqa: B015


FILTERS = [
    pl.col("id") > 30,
    (pl.col("id") >= 10) & (pl.col("level") == "ERROR"),
    (pl.col("level") == "ERROR") | pl.col("id").is_in([1, 2]),
    pl.col("level").is_null() | (pl.col("id") == 3),
    ~(pl.col("id") <= 50),
    pl.col("at") >= START + dt.timedelta(days=1, minutes=3),
    pl.col("day") == dt.date(2026, 11, 2),
    (pl.col("score") > 4) & (pl.col("id") < 25),
    pl.col("score") == float("nan"),
    pl.col("ok") & (pl.col("level") != "INFO"),
    pl.col("message").str.contains("disk") & (pl.col("id") != 0),
    pl.col("id") % 2 == 0,
    pl.col("level") > "F",
    pl.col("id").is_between(5, 9),
    pl.lit(True),
    pl.col("level").is_not_null(),
]


@pytest.mark.parametrize("number", range(len(FILTERS)))
def test_a_lazy_frame_gives_what_polars_itself_would(table: Table, number: int) -> None:
    lazy, whole = table.scan_polars(), table.to_polars()
    assert (
        lazy.filter(FILTERS[number])
        .sort("id")
        .collect()
        .equals(whole.filter(FILTERS[number]).sort("id"))
    )
    some = lazy.filter(FILTERS[number]).select("message", "id").sort("id").head(4).collect()
    assert some.equals(whole.filter(FILTERS[number]).select("message", "id").sort("id").head(4))


def test_random_filters_over_a_lazy_frame(table: Table) -> None:
    chance, whole = random.Random(3), table.to_polars()
    for _ in range(30):
        chosen = chance.sample(FILTERS, 3)
        mixed = (
            (chosen[0] & chosen[1]) | chosen[2]
            if chance.random() < 0.5
            else chosen[0] & (chosen[1] | chosen[2])
        )
        assert (
            table.scan_polars()
            .filter(mixed)
            .sort("id")
            .collect()
            .equals(whole.filter(mixed).sort("id"))
        )


def test_a_lazy_frame_opens_only_what_may_match(table: Table) -> None:
    condition = push_down(
        (pl.col("id") > 45) & pl.col("message").str.contains("disk"), table.schema
    )
    assert str(condition) == "id > 45"
    assert (
        push_down((pl.col("id") > 45) | pl.col("message").str.contains("disk"), table.schema)
        is None
    )
    assert table.explain(where=condition).splits_opened == 1
    assert table.scan_polars(query="disk", where="id < 30").select(pl.len()).collect().item() == 8
    with pytest.raises(QuerySyntaxError):
        table.scan_polars(query="disk AND")


def test_a_lazy_frame_stays_at_its_version(table: Table, tmp_path: Path) -> None:
    made = Table.create(str(tmp_path / "t"), schema=pa.schema([("id", pa.int64())]))
    made.append([{"id": 1}])
    lazy = Table.open(str(tmp_path / "t")).scan_polars()
    made.append([{"id": 2}])
    assert lazy.collect().height == 1


def test_duckdb_asks_tables_and_searches_them(table: Table) -> None:
    con = table.to_duckdb()
    assert con.sql(
        "SELECT count(*), min(id) FROM logs WHERE id > 30 AND level = 'ERROR'"
    ).fetchall() == [(10, 32)]
    assert con.sql(
        "SELECT count(*) FROM logs_search('disk AND level:ERROR') WHERE _score > 0"
    ).fetchall() == [(6,)]
    assert con.sql(
        """SELECT id FROM indextables_search('logs', '"disk full"') ORDER BY id LIMIT 2"""
    ).fetchall() == [
        (0,),
        (4,),
    ]
    assert con.sql("SELECT count(*) FROM logs_search('absent')").fetchall() == [(0,)]
    assert con.sql("DESCRIBE SELECT * FROM logs_search('disk')").fetchall()[1][:2] == (
        "at",
        "TIMESTAMP WITH TIME ZONE",
    )
    with pytest.raises(duckdb.Error, match="AND has nothing after it"):
        con.sql("SELECT * FROM logs_search('disk AND')").fetchall()
    table.to_duckdb(con, "again")
    table.to_duckdb(con, "again")
    assert con.sql("SELECT count(*) FROM again JOIN logs USING (id)").fetchall() == [(60,)]
    with pytest.raises(InvalidInputError, match="cannot be the name"):
        table.to_duckdb(con, "bad name; DROP")
    con.close()


@pytest.mark.parametrize(
    "name",
    [
        "logs_search\"('disk') UNION ALL SELECT a FROM '{secret}' --",
        "{secret}",
        "logs' || '",
        'logs"',
        "",
        "logs\0",
    ],
)
def test_the_name_of_a_table_that_is_searched_in_duckdb_cannot_be_sql(
    table: Table, tmp_path: Path, name: str
) -> None:
    secret = tmp_path / "secret.csv"
    secret.write_text("a\n42\n")
    con = table.to_duckdb(duckdb.connect(), "logs")
    con.execute("CREATE TEMP MACRO \"logs_search_search\"(query) AS TABLE SELECT 'other' AS a")
    statement = "SELECT * FROM indextables_search(?, ?)"
    with pytest.raises(duckdb.Error, match="name of a table consists of letters, digits and _"):
        con.execute(statement, [name.replace("{secret}", str(secret)), "disk"]).fetchall()
    assert len(con.execute(statement, ["logs", "disk"]).fetchall()) == 15
    con.close()


def test_a_bound_name_reads_no_file(table: Table, tmp_path: Path) -> None:
    secret = tmp_path / "secret.csv"
    secret.write_text("a\n42\n")
    con = table.to_duckdb(duckdb.connect(), "logs")
    con.execute("CREATE TEMP MACRO one_search(query) AS TABLE SELECT 'other' AS a")
    hostile = f"one_search\"('x') UNION ALL SELECT a::VARCHAR FROM '{secret}' --"
    with pytest.raises(duckdb.Error, match="name of a table"):
        con.execute("SELECT * FROM indextables_search(?, ?)", [hostile, "x"]).fetchall()
    con.close()


BERLIN = dt.timezone(dt.timedelta(hours=1))
STRICT = pa.schema(
    [
        ("id", pa.int64()),
        ("small", pa.float32()),
        ("number", pa.float64()),
        ("name", pa.string()),
        ("raw", pa.binary()),
        ("day", pa.date32()),
        ("clock", pa.time64("ns")),
        ("span", pa.duration("us")),
        ("at", pa.timestamp("us", tz="UTC")),
        ("local", pa.timestamp("us")),
        ("price", pa.decimal128(6, 2)),
        ("tags", pa.list_(pa.string())),
        ("sizes", pa.list_(pa.float32())),
        ("inner", pa.struct([("ok", pa.bool_()), ("at", pa.timestamp("us"))])),
        ("by", pa.map_(pa.string(), pa.int64())),
    ]
)


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("small", 1e300, "too large for a float"),
        ("small", 16777217, "outside of the range"),
        ("small", True, "it is a bool"),
        ("number", True, "it is a bool"),
        ("number", "1.5", "it is a str"),
        ("number", 2**53 + 1, "outside of the range"),
        ("id", True, "it is a bool"),
        ("id", "1", "it is a str"),
        ("name", b"x", "it is a bytes"),
        ("name", 5, "it is a int"),
        ("raw", "x", "it is a str"),
        ("day", 20_000, "it is a int"),
        ("day", "2026-13-01", "month"),
        ("clock", 3600, "it is a int"),
        ("clock", dt.time(1, tzinfo=dt.UTC), "time zone, which would be lost"),
        ("clock", "25:00", "hour"),
        ("span", 5, "it is a int"),
        ("span", pd.Timedelta(1, "ns"), "would be lost"),
        ("span", np.timedelta64(1, "ns"), "would lose data"),
        ("at", 1_700, "too small to tell"),
        ("at", 1_700_000_000_000_000_001, "end at microseconds"),
        ("at", "2026-01-01T00:00:00.123456789Z", "end at microseconds"),
        ("at", "soon", "soon"),
        ("at", dt.date(2026, 1, 1), "it is a date"),
        ("at", np.datetime64("2026-01-01T00:00:00.123456789"), "would lose data"),
        ("local", dt.datetime(2026, 1, 1, tzinfo=BERLIN), "time zone, which would be lost"),
        ("local", "2026-01-01T00:00:00+01:00", "time zone, which would be lost"),
        ("local", 1_700_000_000, "have no zone"),
        ("price", 0.1 + 0.2, "more digits"),
        ("price", Decimal("1.555"), "data loss"),
        ("price", True, "it is a bool"),
        ("tags", "red", "it is a str"),
        ("tags", {"red": 1}, "it is a dict"),
        ("sizes", [1.0, 1e39], "too large for a float"),
        ("inner", {"ok": 1}, "it is a int"),
        ("inner", {"at": dt.datetime(2026, 1, 1, tzinfo=BERLIN)}, "time zone"),
        ("by", {"a": True}, "it is a bool"),
        ("by", "ab", "it is a str"),
    ],
)
def test_a_value_that_a_column_cannot_hold_is_refused_by_every_verb(
    tmp_path: Path, column: str, value: Any, said: str
) -> None:
    made = Table.create(str(tmp_path / "t"), schema=STRICT)
    for write in (made.append, made.overwrite, lambda rows: made.upsert(rows, on=["id"])):
        with pytest.raises(
            InvalidInputError, match=f"of row 1, .*does not fit column '{column}'.*{said}"
        ) as refused:
            write([{"id": 1}, {"id": 2, column: value}])
        assert (refused.value.context["row"], refused.value.context["column"]) == (1, column)
    if not isinstance(value, str):  # a text is an expression of SQL
        with pytest.raises(InvalidInputError, match=f"Column '{column}'.*{said}"):
            made.update(set={column: value})
    assert made.version == 0


@pytest.mark.parametrize(
    ("column", "value", "expected"),
    [
        ("small", 1.5, 1.5),
        ("small", float("inf"), float("inf")),
        ("number", 3, 3.0),
        ("number", np.float32(0.5), 0.5),
        ("id", np.int32(7), 7),
        ("raw", bytearray(b"x"), b"x"),
        ("day", "2026-01-31", dt.date(2026, 1, 31)),
        ("clock", "01:02:03.5", dt.time(1, 2, 3, 500_000)),
        ("clock", dt.time(1), dt.time(1)),
        ("span", dt.timedelta(seconds=3), dt.timedelta(seconds=3)),
        ("span", np.timedelta64(3, "s"), dt.timedelta(seconds=3)),
        ("at", "2026-01-01T12:00:00+01:00", dt.datetime(2026, 1, 1, 11, tzinfo=dt.UTC)),
        ("at", "2026-01-01 12:00", dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)),
        (
            "at",
            dt.datetime(2026, 1, 1, 12, tzinfo=BERLIN),
            dt.datetime(2026, 1, 1, 11, tzinfo=dt.UTC),
        ),
        ("at", dt.datetime(2026, 1, 1, 12), dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)),
        ("at", 1_700_000_000, dt.datetime(2023, 11, 14, 22, 13, 20, tzinfo=dt.UTC)),
        ("at", 1_700_000_000.5, dt.datetime(2023, 11, 14, 22, 13, 20, 500_000, tzinfo=dt.UTC)),
        (
            "at",
            1_700_000_000.1234567,
            dt.datetime(2023, 11, 14, 22, 13, 20, 123_457, tzinfo=dt.UTC),
        ),
        ("at", 1_700_000_000_250, dt.datetime(2023, 11, 14, 22, 13, 20, 250_000, tzinfo=dt.UTC)),
        ("at", 1_700_000_000_000_001, dt.datetime(2023, 11, 14, 22, 13, 20, 1, tzinfo=dt.UTC)),
        ("at", 1_700_000_000_000_001_000, dt.datetime(2023, 11, 14, 22, 13, 20, 1, tzinfo=dt.UTC)),
        ("at", np.datetime64("2026-01-01T00:00:00"), dt.datetime(2026, 1, 1, tzinfo=dt.UTC)),
        ("local", "2026-01-01T12:00:00.25", dt.datetime(2026, 1, 1, 12, 0, 0, 250_000)),
        ("local", dt.datetime(2026, 1, 1), dt.datetime(2026, 1, 1)),
        ("price", "1.50", Decimal("1.50")),
        ("price", 1.25, Decimal("1.25")),
        ("price", 2, Decimal("2.00")),
        ("tags", ("a", None), ["a", None]),
        ("tags", np.array(["a", "b"]), ["a", "b"]),
        ("inner", {"ok": True}, {"ok": True, "at": None}),
        ("by", {"a": 1}, [("a", 1)]),
    ],
)
def test_a_value_that_loses_nothing_is_taken_from_a_dict(
    tmp_path: Path, column: str, value: Any, expected: Any
) -> None:
    made = Table.create(str(tmp_path / "t"), schema=STRICT)
    made.append([{column.upper(): value}])
    assert made.scan().read_all()[column].to_pylist() == [expected]


@pytest.mark.parametrize(
    ("values", "row"),
    [
        ([1.0, True], 1),
        ([1, 2, "a"], 2),
        ([dt.date(2026, 1, 1), dt.datetime(2026, 1, 1, 5)], 1),
        ([dt.datetime(2026, 1, 1), dt.datetime(2026, 1, 1, tzinfo=BERLIN)], 1),
        ([dt.time(1), 3], 1),
        (["b", b"a"], 1),
        ([dt.time(1, tzinfo=BERLIN)], 0),
        ([pd.Timestamp("2026-01-01T00:00:00.123456789")], 0),
        ([2**63], 0),
    ],
    ids=str,
)
def test_values_of_a_new_column_must_have_one_type(
    tmp_path: Path, values: list[Any], row: int
) -> None:
    made = Table.create(str(tmp_path / "t"), schema=pa.schema([("id", pa.int64())]))
    with pytest.raises(InvalidInputError, match=f"of row {row}, .*does not fit column 'new'"):
        made.append([{"id": 1, "new": value} for value in values], merge_schema=True)
    assert made.version == 0


def test_an_expression_that_becomes_infinite_is_refused(tmp_path: Path) -> None:
    made = Table.create(
        str(tmp_path / "t"), schema=pa.schema([("big", pa.float64()), ("small", pa.float32())])
    )
    made.append([{"big": 1e300, "small": 1.0}])
    with pytest.raises(InvalidInputError, match="too large for float"):
        made.update(set={"small": "big"})
    made.update(set={"small": "big / 1e299"})
    assert made.to_polars()["small"].to_list() == [10.0]

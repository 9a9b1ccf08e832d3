"""A table as frames of other libraries, and rows taken from them: the same rows, and only what is needed is opened."""

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
from indextables.table.frames import NAMES_ELSEWHERE, pushed

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
    made = Table.create(path, schema=SCHEMA, partition_columns=["day"], options={"indexing.typemap.message": "text"})
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
    assert type(frame).__module__.startswith("pandas.") and list(frame.columns) == ["id", "at"] and len(frame) == 5
    whole = table.to_polars()
    assert isinstance(whole, pl.DataFrame) and whole.height == 60
    assert table.to_polars(query="disk", columns=["id"])["id"].to_list() == [n for n in range(60) if n % 20 % 4 == 0]
    assert pa.RecordBatchReader.from_stream(table).read_all().num_rows == 60 and pl.DataFrame(table).height == 60


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
    assert sorted(row["id"] for row in made) == list(range(60)) and made.count(query="level:ERROR") == 21
    con.close()


def copied(table: Table, folder: Path) -> Path:
    some = table.scan(columns=["id", "level", "message"]).read_all()
    Table.create(str(folder / "from"), schema=some.schema).append(some)
    return folder / "from"


def test_what_is_no_row_is_refused_and_nothing_is_written(table: Table, tmp_path: Path) -> None:
    made = Table.create(str(tmp_path / "t"), schema=pa.schema([("id", pa.int64()), ("name", pa.string())]))
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
def test_a_value_of_which_a_part_would_be_lost_is_refused(tmp_path: Path, row: dict[str, Any], said: str) -> None:
    made = Table.create(str(tmp_path / "t"), schema=EVERY_TYPE)
    for write in (made.append, made.overwrite, lambda rows: made.upsert(rows, on=["id"])):
        with pytest.raises(InvalidInputError, match=said) as refused:
            write([{"id": 1}, {"id": 2, **row}])
        assert refused.value.context["row"] == 1
    assert made.version == 0


def test_values_that_lose_nothing_are_taken_for_the_types_of_the_table(tmp_path: Path) -> None:
    made = Table.create(str(tmp_path / "t"), schema=EVERY_TYPE)
    row = {"id": 2.0, "day": dt.datetime(2026, 11, 1), "at": pd.Timestamp("2026-11-01", tz="UTC"), "many": (1, 2)}
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
def test_what_cannot_be_read_is_refused_with_the_way_out(tmp_path: Path, data: Any, said: str) -> None:
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
    assert lazy.filter(FILTERS[number]).sort("id").collect().equals(whole.filter(FILTERS[number]).sort("id"))
    some = lazy.filter(FILTERS[number]).select("message", "id").sort("id").head(4).collect()
    assert some.equals(whole.filter(FILTERS[number]).select("message", "id").sort("id").head(4))


def test_random_filters_over_a_lazy_frame(table: Table) -> None:
    chance, whole = random.Random(3), table.to_polars()
    for _ in range(30):
        chosen = chance.sample(FILTERS, 3)
        mixed = (chosen[0] & chosen[1]) | chosen[2] if chance.random() < 0.5 else chosen[0] & (chosen[1] | chosen[2])
        assert table.scan_polars().filter(mixed).sort("id").collect().equals(whole.filter(mixed).sort("id"))


def test_a_lazy_frame_opens_only_what_may_match(table: Table) -> None:
    condition = pushed((pl.col("id") > 45) & pl.col("message").str.contains("disk"), table.schema)
    assert str(condition) == "id > 45"
    assert pushed((pl.col("id") > 45) | pl.col("message").str.contains("disk"), table.schema) is None
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
    assert con.sql("SELECT count(*), min(id) FROM logs WHERE id > 30 AND level = 'ERROR'").fetchall() == [(10, 32)]
    assert con.sql("SELECT count(*) FROM logs_search('disk AND level:ERROR') WHERE _score > 0").fetchall() == [(6,)]
    assert con.sql("""SELECT id FROM indextables_search('logs', '"disk full"') ORDER BY id LIMIT 2""").fetchall() == [
        (0,),
        (4,),
    ]
    assert con.sql("SELECT count(*) FROM logs_search('absent')").fetchall() == [(0,)]
    assert con.sql("DESCRIBE SELECT * FROM logs_search('disk')").fetchall()[1][:2] == ("at", "TIMESTAMP WITH TIME ZONE")
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
    ["logs_search\"('disk') UNION ALL SELECT a FROM '{secret}' --", "{secret}", "logs' || '", 'logs"', "", "logs\0"],
)
def test_the_name_of_a_table_that_is_searched_in_duckdb_cannot_be_sql(table: Table, tmp_path: Path, name: str) -> None:
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

"""Retention by time: what is older than the period goes, by a clock that is given; nothing else
does.
"""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pytest

from indextables import Table, sql
from indextables.errors import InvalidInputError

DAY = 86_400_000
START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
KINDS = {"timestamp": pa.timestamp("us", tz="UTC"), "ntz": pa.timestamp("us"), "date": pa.date32()}


def made(path: Path, kind: str, **options: object) -> Table:
    schema = pa.schema([("id", pa.int64()), ("ts", KINDS[kind])])
    table = Table.create(str(path), schema=schema, options=options)
    for first in (0, 10, 20):
        days = [None if n == 25 else START + dt.timedelta(days=n) for n in range(first, first + 10)]
        values = [
            d
            if d is None or kind == "timestamp"
            else d.date()
            if kind == "date"
            else d.replace(tzinfo=None)
            for d in days
        ]
        table.append(
            pa.table(
                {"id": range(first, first + 10), "ts": pa.array(values, KINDS[kind])}, schema=schema
            )
        )
    return table


@pytest.mark.parametrize("kind", list(KINDS))
def test_what_is_too_old_goes(tmp_path: Path, kind: str) -> None:
    table = made(tmp_path / "t", kind)
    with pytest.raises(InvalidInputError, match="for how long"):
        table.expire()
    table.update_metadata(options={"retention.column": "ts", "retention.period": "10 days"})
    now = START + dt.timedelta(days=25)
    planned = table.expire(now=now, dry_run=True)
    assert (planned.deleted_rows, planned.splits_removed, table.count()) == (15, 1, 30)
    report = table.expire(now=now)
    assert (report.deleted_rows, report.splits_removed) == (15, 1)
    left = sorted(table.scan(columns=["id"]).read_all().column("id").to_pylist())
    assert left == list(range(15, 30))
    assert table.expire(now=now).deleted_rows == 0
    assert Table.open(table.path, version=3).count() == 30
    table.alter.rename_column("ts", "at")
    assert table.expire(now=START + dt.timedelta(days=36)).deleted_rows == 10
    assert table.count(where="at IS NULL") == 1
    with pytest.raises(InvalidInputError, match=r"retention.column names 'at'"):
        table.alter.drop_column("at")


def test_writes_expire_by_themselves_and_the_statement_does(tmp_path: Path) -> None:
    settings = {"retention.column": "ts", "retention.period": "1 day"}
    table = made(tmp_path / "t", "timestamp", **settings)
    assert table.count() == 30
    planned = sql(f"EXPIRE INDEXTABLES '{table.path}' DRY RUN").to_pylist()[0]
    gone = (
        29 if dt.datetime.now(dt.UTC) > START + dt.timedelta(days=40) else planned["deleted_rows"]
    )
    assert (planned["status"], planned["deleted_rows"]) == ("dry_run", gone)
    table.update_metadata(options={"retention.onWrite.enabled": True})
    table.append(
        pa.table({"id": [99], "ts": pa.array([dt.datetime.now(dt.UTC)], KINDS["timestamp"])})
    )
    assert table.refresh().count() == 31 - gone


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"retention.column": "ts"}, "retention.period is not"),
        ({"retention.period": "3 days"}, "retention.column is not"),
        ({"retention.column": "id", "retention.period": "3 days"}, "cannot grow old by 'id'"),
        ({"retention.column": "x", "retention.period": "3 days"}, "no column 'x'"),
        ({"retention.column": "ts", "retention.period": "soon"}, "retention.period"),
    ],
)
def test_a_retention_that_makes_no_sense_is_refused(
    tmp_path: Path, options: dict[str, object], words: str
) -> None:
    table = made(tmp_path / "t", "date")
    with pytest.raises(InvalidInputError, match=words):
        table.update_metadata(options=options)
    assert table.version == 3

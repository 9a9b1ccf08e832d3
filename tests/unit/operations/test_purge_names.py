"""A purge knows a live split by its name, however odd the name is, and on every kind of store."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from indextables import AddAction, Table
from tests.support.places import StorePlace
from tests.support.rows import table_of

UNCHECKED: dict[str, object] = {"purge.retentionCheckEnabled": False}
ODD_VALUES = [
    "a b",
    "a%20b",
    "x/y",
    "50%",
    "k=v",
    "\u00fc",
    "u\u0308",
    "#?&+",
    "..",
    "",
    "C:\\d",
    "'\"",
    "\t",
]


def odd_table(place: StorePlace) -> Table:
    schema = pa.schema([("id", pa.int64()), ("p", pa.string())])
    options = {**place.options, **UNCHECKED}
    table = Table.create(place.url, schema=schema, partition_columns=["p"], options=options)
    table.append(
        pa.table({"id": range(len(ODD_VALUES) + 1), "p": [*ODD_VALUES, None]}, schema=schema)
    )
    return table


@pytest.mark.parametrize("where", ["local", "s3", "memory"])
def test_partitions_with_odd_names_lose_nothing(where: str, request: pytest.FixtureRequest) -> None:
    """What the log calls a split must be what the store calls it, or a purge would take it for an
    orphan.
    """
    place: StorePlace = request.getfixturevalue(f"{where}_place")
    table = odd_table(place)
    before = table.scan().read_all().sort_by("id")
    assert (
        table.purge(older_than_hours=0, log_retention_hours=0, dry_run=True).orphaned_files_found
        == 0
    )
    table.delete(where="id = 3")
    assert table.purge(older_than_hours=0, log_retention_hours=0).orphaned_files_deleted == 1
    fresh = Table.open(place.url, options=dict(place.options))
    assert fresh.scan().read_all().sort_by("id").equals(before.filter(pc.field("id") != 3))
    assert fresh.verify(full=True).findings == ()


def test_a_live_split_that_the_log_spells_otherwise_stays(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=1)
    for name in ("split-one two.split", "split-ü.split", "split-three.split", "split-orphan.split"):
        (Path(table.path) / "splits" / name).write_bytes(b"not committed")
    with table.transaction(check_splits=False) as tx:
        for path in (
            "splits/split-one%20two.split",
            "splits/split-u\u0308.split",
            "other/split-three.split",
        ):
            tx.add(AddAction(path=path, size=13, num_records=1))
    report = Table.open(table.path, options=UNCHECKED).purge(
        older_than_hours=0, log_retention_hours=0
    )
    assert [file.path for file in report.files] == ["splits/split-orphan.split"]

"""Whatever is broken is found and named; a healthy table has no findings."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from indextables import AddAction, Table
from indextables.errors import TableNotFoundError
from indextables.operations.verify import Finding, VerifyReport, VerifyTask
from indextables.table import verify_table
from tests.support.rows import ids, rows, table_of
from tests.support.stores import contents

STATE = "_transaction_log/state-v00000000000000000004/_manifest.avro"


def prepared(path: Path) -> Table:
    """Versions 0 to 6, a state of version 4 and none after it; partitioned."""
    table = table_of(path / "t", appends=4, partitioned=True)
    table.checkpoint()
    table.append(rows(range(40, 50)))
    table.drop_partitions("day = 2")
    return table


def split_of(table: Table) -> Path:
    return Path(table.path, min(table.files().column("path").to_pylist()))


def checked(table: Table, *, full: bool = False) -> VerifyReport:
    """As a process sees it that remembers nothing."""
    table.invalidate_cache()
    return verify_table(table.path, full=full)


def found(table: Table, *, full: bool = False) -> set[tuple[str, str]]:
    return {(finding.check, finding.severity) for finding in checked(table, full=full).findings}


def test_a_healthy_table(tmp_path: Path) -> None:
    table = prepared(tmp_path)
    before = contents(table.path)
    for full in (False, True):
        report = table.verify(full=full)
        assert (report.status, report.healthy, report.version, report.findings) == (
            "healthy",
            True,
            6,
            (),
        )
        assert report.splits_checked == table.files().num_rows == 10
        assert checked(table, full=full) == report
    assert contents(table.path) == before
    assert table.verify(dry_run=True, full=True).to_dict() == {
        "table_path": table.path,
        "status": "dry_run",
        "version": 6,
        "full": True,
        "splits_checked": 10,
        "findings": [],
    }


def test_after_every_kind_of_upkeep(tmp_path: Path) -> None:
    table = prepared(tmp_path)
    free = Table.open(
        table.path,
        options={"purge.retentionCheckEnabled": False, "state.gc.minManifestAgeHours": 0},
    )
    acts: list[Callable[[], object]] = [
        table.merge,
        table.compact,
        lambda: table.restore(version=5),
        lambda: free.purge(older_than_hours=0, log_retention_hours=0),
        lambda: table.append(rows([99])),
        free.truncate_time_travel,
        lambda: table.overwrite(rows([1, 2])),
    ]
    for act in acts:
        act()
        assert checked(table, full=True).findings == ()


@pytest.mark.parametrize("form", ["json", "parquet"])
def test_checkpoints_of_older_forms(tmp_path: Path, form: str) -> None:
    table = table_of(tmp_path / "t", appends=3, options={"state.format": form})
    table.checkpoint()
    table.append(rows([50]))
    table.merge()
    table.checkpoint()
    assert checked(table, full=True).findings == ()


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-7])


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 0xFF
    path.write_bytes(bytes(data))


def test_a_missing_split(tmp_path: Path) -> None:
    table = prepared(tmp_path)
    gone = split_of(table)
    gone.unlink()
    (finding,) = checked(table).findings
    assert (finding.check, finding.severity) == ("split", "error")
    assert finding.path is not None
    assert gone.match(finding.path)
    assert "not in the store" in finding.message


def test_a_split_of_another_size(tmp_path: Path) -> None:
    table = prepared(tmp_path)
    cut(split_of(table))
    (finding,) = checked(table).findings
    assert "bytes; the log says" in finding.message


def test_a_garbled_footer(tmp_path: Path) -> None:
    table = prepared(tmp_path)
    flip(split_of(table), -100)
    assert found(table) == {("split", "error")}


def test_damage_in_the_rows_and_in_the_index_is_found_in_full(tmp_path: Path) -> None:
    table = prepared(tmp_path)
    file = table.files().to_pylist()[0]
    path = Path(table.path) / file["path"]
    for at in (8, file["footer_start_offset"] - 3):
        good = path.read_bytes()
        flip(path, at)
        assert found(table) == set()
        assert found(table, full=True) == {("split", "error")}, at
        path.write_bytes(good)


def test_a_wrong_count_in_the_log(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=1)
    (file,) = table.files().to_pylist()
    with table.transaction() as tx:
        tx.remove(file["path"])
    with table.transaction(check_splits=False) as tx:
        tx.add(
            AddAction(
                path=file["path"],
                size=file["size"],
                num_records=11,
                footer_start_offset=file["footer_start_offset"],
            )
        )
    (finding,) = checked(table).findings
    assert finding.message == "The split has 10 rows; the log says 11."


def test_bounds_that_would_lose_rows(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=1)
    (file,) = table.files().to_pylist()
    with table.transaction() as tx:
        tx.remove(file["path"])
    with table.transaction(check_splits=False) as tx:
        tx.add(
            AddAction(
                path=file["path"],
                size=file["size"],
                num_records=10,
                min_values={"id": "0"},
                max_values={"id": "8"},
            )
        )
    assert found(table) == set()
    (finding,) = checked(table, full=True).findings
    assert (finding.check, finding.severity) == ("bounds", "error")
    assert "'id'" in finding.message


@pytest.mark.parametrize("end", ["4", "99999999", "much"])
def test_a_wrong_end_of_the_rows(tmp_path: Path, end: str) -> None:
    table = table_of(tmp_path / "t", appends=1, options={"transaction.compression.enabled": False})
    path = Path(table.path) / "_transaction_log/00000000000000000001.json"
    text = path.read_text()
    (before,) = (dict(tags)["rowsEnd"] for tags in table.files().column("tags").to_pylist())
    assert f'"rowsEnd":"{before}"' in text
    path.write_text(text.replace(f'"rowsEnd":"{before}"', f'"rowsEnd":"{end}"'))
    (finding,) = checked(table).findings
    assert (finding.check, finding.severity) == ("rows", "error")
    assert f"{end!r}; they end at {before}" in finding.message


def test_a_hole_in_the_log(tmp_path: Path) -> None:
    table = prepared(tmp_path)
    (Path(table.path) / "_transaction_log/00000000000000000005.json").unlink()
    report = checked(table)
    assert (report.status, report.version) == ("damaged", None)
    (finding,) = report.findings
    assert (finding.check, finding.severity) == ("log", "error")
    assert "Version 5" in finding.message


def test_a_garbled_version(tmp_path: Path) -> None:
    table = prepared(tmp_path)
    (Path(table.path) / "_transaction_log/00000000000000000006.json").write_bytes(b"{ nonsense")
    assert found(table) == {("log", "error"), ("version", "error")}


@pytest.mark.parametrize("damage", ["cut", "gone"])
def test_a_damaged_manifest_is_a_warning_while_the_versions_are_there(
    tmp_path: Path, damage: str
) -> None:
    table = prepared(tmp_path)
    (manifest,) = (Path(table.path) / "_transaction_log/manifests").iterdir()
    cut(manifest) if damage == "cut" else manifest.unlink()
    assert found(table) == {("state", "warning")}
    assert ids(Table.open(table.path)) == [i for i in range(50) if i % 3 != 2]


def test_a_damaged_state_file(tmp_path: Path) -> None:
    table = prepared(tmp_path)
    cut(Path(table.path) / STATE)
    assert found(table) == {("state", "warning")}


def test_a_state_that_does_not_say_what_the_versions_say(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=2)
    other = table_of(tmp_path / "u", appends=2)
    for one in (table, other):
        one.checkpoint()
    theirs, ours = Path(other.path) / "_transaction_log", Path(table.path) / "_transaction_log"
    for file in [*theirs.rglob("*.avro")]:
        (ours / file.relative_to(theirs)).write_bytes(file.read_bytes())
    messages = [finding.message for finding in checked(table).findings if finding.check == "replay"]
    assert len(messages) == 4
    assert "is of another table" in messages[0]
    assert "that the versions do not" in messages[1]
    assert messages[3] == "Version 2: the checkpoint holds other metadata than the versions."


@pytest.mark.parametrize("content", [b"", b"{", json.dumps({"version": 77}).encode()])
def test_a_useless_pointer_is_a_warning(tmp_path: Path, content: bytes) -> None:
    table = prepared(tmp_path)
    (Path(table.path) / "_transaction_log/_last_checkpoint").write_bytes(content)
    assert found(table) == {("pointer", "warning")}
    (Path(table.path) / "_transaction_log/_last_checkpoint").unlink()
    assert found(table) == set()


def test_wrong_partition_values(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=1)
    path = Path(table.path) / "_transaction_log/00000000000000000001.json"
    (file,) = table.files().to_pylist()
    line = {
        "add": {
            "path": file["path"],
            "partitionValues": {"day": "3"},
            "size": file["size"],
            "dataChange": True,
        }
    }
    path.write_text(json.dumps(line))
    (finding,) = checked(table).findings
    assert (finding.check, "partition columns []" in finding.message) == ("files", True)


def test_no_table(tmp_path: Path) -> None:
    with pytest.raises(TableNotFoundError):
        verify_table(str(tmp_path))


def test_progress(tmp_path: Path) -> None:
    table = Table.create(str(tmp_path / "t"), schema=pa.schema([("id", pa.int64())]))
    for n in range(3):
        table.append(pa.table({"id": [n]}))
    told: list[tuple[int, int, str]] = []
    table.verify(progress=lambda done, total, what: told.append((done, total, what)))
    assert told == [(3, 3, "splits")]


def test_the_work_travels(tmp_path: Path) -> None:
    table = prepared(tmp_path)
    flip(split_of(table), -100)

    def elsewhere(work: Sequence[VerifyTask]) -> Iterator[Sequence[Finding]]:
        for task in pickle.loads(pickle.dumps(work)):
            yield pickle.loads(pickle.dumps(task.run()))

    assert [finding.check for finding in table.verify(execute=elsewhere).findings] == ["split"]

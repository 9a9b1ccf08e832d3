"""A tagged version stays, whatever is cleaned up, until the tag is taken away."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from indextables import Table
from indextables.commands import sql
from indextables.errors import (
    InvalidInputError,
    RefusedError,
    UnsupportedError,
    VersionNotFoundError,
)
from indextables.model import protocol as protocols
from indextables.table.description import describe_table
from tests.support.rows import ids, rows, table_of

NOW = {
    "purge.retentionCheckEnabled": False,
    "state.gc.minManifestAgeHours": 0,
    "logRetention.duration": 1,
    "checkpoint.enabled": False,
}


def at(table: Table, name: str) -> list[int]:
    """The rows of a tagged version, as a process sees them that remembers nothing."""
    table.invalidate_cache()
    return ids(Table.open(table.path, version=name))


def clean(table: Table) -> None:
    """Everything that deletes files."""
    free = Table.open(
        table.path, options={k: v for k, v in NOW.items() if k.startswith(("purge", "state"))}
    )
    free.truncate_time_travel()
    free.purge(older_than_hours=0, log_retention_hours=0)
    free.checkpoint()
    free.compact()
    free.truncate_time_travel()
    free.purge(older_than_hours=0, log_retention_hours=0)


@pytest.mark.parametrize("mode", ["vector", "rewrite"])
@pytest.mark.parametrize("checkpointed", [True, False])
def test_no_clean_up_touches_it(tmp_path: Path, mode: str, checkpointed: bool) -> None:
    table = table_of(tmp_path / "t", appends=2, options={"delete.mode": mode})
    table.delete(where="id IN (1, 12)")
    if checkpointed:
        table.checkpoint()
    left = ids(table)
    assert table.tag("release-7") == table.version == 4
    table.delete(where="id < 5")
    table.merge()
    table.overwrite(rows([70]))
    clean(table)
    assert at(table, "release-7") == left
    assert table.refresh().tags() == {"release-7": 3}
    assert Table.open(table.path).verify(full=True).healthy
    assert Table.open(table.path, version="release-7").search("message:n7").num_rows == 1
    readable = {
        row["version"]: (row["is_readable"], row["tags"])
        for row in table.refresh().history().to_pylist()
    }
    assert readable.get(3, (True, "release-7")) == (True, "release-7")
    restored = table.refresh()
    restored.restore(version="release-7")
    assert ids(restored) == left
    assert restored.tags() == {"release-7": 3}
    restored.overwrite(rows([80]))
    restored.untag("release-7")
    clean(restored)
    assert restored.refresh().tags() == {}
    with pytest.raises(VersionNotFoundError, match="no tag 'release-7'"):
        Table.open(table.path, version="release-7")
    with pytest.raises(VersionNotFoundError):
        Table.open(table.path, version=3)
    assert len([*Path(table.path).rglob("*.split")]) == 1


def test_an_older_version_and_the_states_that_carry_tags(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=3)
    table.tag("first", version=1)
    table.tag("second", version=2)
    assert table.tags() == {"first": 1, "second": 2}
    table.merge()
    for form in ("json", "parquet", "avro"):
        Table.open(table.path, options={"state.format": form}).checkpoint()
        table.append(rows([90]))
        table.invalidate_cache()
        assert Table.open(table.path).tags() == {"first": 1, "second": 2}
    clean(table)
    assert (at(table, "first"), at(table, "second")) == (list(range(10)), list(range(20)))
    table.refresh().untag("first")
    clean(table)
    assert at(table, "second") == list(range(20))


def test_what_is_refused_changes_nothing(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=2)
    table.tag("kept", version=1)
    before = table.version
    refused: list[tuple[Callable[[], object], type[Exception], str]] = [
        (lambda: table.tag("kept", version=2), RefusedError, "the tag of version 1"),
        (lambda: table.tag("late", version=99), VersionNotFoundError, "99"),
        (lambda: table.tag("12"), InvalidInputError, "cannot be a tag"),
        (lambda: table.tag(" x"), InvalidInputError, "cannot be a tag"),
        (lambda: table.tag(""), InvalidInputError, "cannot be a tag"),
        (lambda: table.untag("nothing"), VersionNotFoundError, "no tag 'nothing'"),
        (lambda: Table.open(table.path, version="nothing"), VersionNotFoundError, "no tag"),
    ]
    for act, kind, words in refused:
        with pytest.raises(kind, match=words):
            act()
    assert table.tag("kept", version=1) == before
    assert Table.open(table.path).version == before
    old = Table.open(table.path, version=2)
    old.tag("from-an-old-one")
    assert (old.version, old.tags()) == (2, {"kept": 1, "from-an-old-one": 2})


def test_a_version_that_was_purged_cannot_be_tagged(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=2)
    table.overwrite(rows([1]))
    free = Table.open(table.path, options={"purge.retentionCheckEnabled": False})
    free.purge(older_than_hours=0)
    with pytest.raises(VersionNotFoundError, match="purged"):
        free.tag("late", version=2)
    assert free.tags() == {}


def test_releases_that_do_not_know_tags_do_not_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = table_of(tmp_path / "t", appends=1)
    table.tag("kept")
    assert protocols.TAGS in (table.protocol.writer_features or ())
    assert protocols.TAGS not in (table.protocol.reader_features or ())
    monkeypatch.setattr(protocols, "_KNOWN_FEATURES", protocols._KNOWN_FEATURES - {protocols.TAGS})
    table.invalidate_cache()
    older = Table.open(table.path)
    assert ids(older) == list(range(10))
    with pytest.raises(UnsupportedError, match="tags"):
        older.append(rows([50]))


def test_a_tag_of_a_version_that_is_lost_stops_a_purge(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=3)
    table.tag("kept", version=1)
    table.overwrite(rows([1]))
    table.checkpoint()
    (Path(table.path) / "_transaction_log/00000000000000000001.json").unlink()
    table.invalidate_cache()
    free = Table.open(table.path, options={"purge.retentionCheckEnabled": False})
    with pytest.raises(RefusedError, match="'kept', cannot be read"):
        free.purge(older_than_hours=0)
    assert len([*Path(table.path).rglob("*.split")]) == 4
    free.untag("kept")
    assert free.purge(older_than_hours=0).orphaned_files_deleted == 3


def test_statements_and_descriptions(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=2)
    where = f"'{table.path}'"
    (row,) = sql(f"TAG INDEXTABLES {where} VERSION 1 AS 'release-1'").to_pylist()
    assert row == {"table_path": table.path, "tag": "release-1", "tagged_version": 1, "version": 3}
    sql(f"TAG INDEXTABLES {where} AS 'release 2'")
    assert Table.open(table.path).tags() == {"release-1": 1, "release 2": 3}
    told = {
        row["version"]: row["tags"]
        for row in sql(f"DESCRIBE INDEXTABLES HISTORY {where}").to_pylist()
    }
    assert told == {4: None, 3: "release 2", 2: None, 1: "release-1", 0: None}
    assert describe_table(Table.open(table.path)).tags == (
        {"tag": "release-1", "version": 1},
        {"tag": "release 2", "version": 3},
    )
    assert sql(f"UNTAG INDEXTABLES {where} 'release-1'").to_pylist()[0]["version"] == 5
    assert Table.open(table.path).tags() == {"release 2": 3}
    assert isinstance(sql(f"UNTAG INDEXTABLES {where} 'release 2'"), pa.Table)

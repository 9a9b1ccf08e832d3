"""Erased rows are in no file of the table any more, or the report names every file that holds them,
and what keeps it.
"""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Event, Lock, Thread

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tantivy
from msgspec.structs import replace

from indextables import Table, sql
from indextables.errors import (
    ConflictError,
    InvalidInputError,
    RefusedError,
    StorageError,
    VersionNotFoundError,
)
from indextables.log.transaction_log import TransactionLog
from indextables.operations import erase
from indextables.operations.erase import EraseReport, EraseTask
from indextables.splits.format.source import LocalSource
from indextables.splits.read.split_description import describe_split
from tests.support.bundles import bundle
from tests.support.stores import age, contents

SCHEMA = pa.schema([("id", pa.int64()), ("email", pa.string()), ("body", pa.string())])
ADA = "ada.lovelace@example.org"
WORD = "quixoticism"
PERSON = f"email = '{ADA}'"
AT_ONCE: dict[str, object] = {
    "purge.retentionCheckEnabled": False,
    "state.gc.minManifestAgeHours": 0,
}


def people(first: int, *, ada: bool = True, count: int = 8) -> pa.Table:
    emails = [f"user{n}@example.org" for n in range(first, first + count)]
    bodies = [f"hello world {n}" for n in range(first, first + count)]
    if ada:
        emails[-1], bodies[-1] = ADA, f"{WORD} at work"
    return pa.table(
        {"id": range(first, first + count), "email": emails, "body": bodies}, schema=SCHEMA
    )


def table_with_ada(path: Path, **options: object) -> Table:
    """Two splits with the person and one without, a state, and one of the rows deleted by a vector."""
    given = {"indexing.typemap.body": "text", "delete.mode": "vector", **options}
    table = Table.create(str(path), schema=SCHEMA, options=given)
    table.append(people(0))
    table.append(people(10))
    table.checkpoint()
    table.append(people(20, ada=False))
    table.delete(where=f"{PERSON} AND id = 7")
    return table


def at_once(table: Table, **options: object) -> Table:
    return Table.open(table.path, options={**AT_ONCE, **options})


def files_that_spell(root: Path | str, *values: str) -> set[str]:
    """Files in which a value can be found: in the bytes, the rows, the terms, or the decompressed
    log.
    """
    found = set()
    for path, data in contents(root).items():
        texts = [data]
        if data[:2] == b"\x1f\x8b":
            texts.append(gzip.decompress(data))
        if path.endswith(".split"):
            texts.append(repr(pq.read_table(Path(root) / path).to_pylist()).encode())
        if any(value.encode() in text for value in values for text in texts):
            found.add(path)
    return found


def test_a_purge_reports_deleted_rows_that_live_splits_still_hold(tmp_path: Path) -> None:
    table = table_with_ada(tmp_path / "t")
    at_once(table).purge(older_than_hours=0, log_retention_hours=0)
    assert files_that_spell(table.path, WORD), "a purge does not erase"
    report = at_once(table).purge(older_than_hours=0, log_retention_hours=0)
    assert (report.splits_with_deleted_rows, report.masked_rows) == (1, 1)
    assert "1 live split still holds the bytes of 1 deleted row" in report.message
    assert "erase(where=...)" in report.message
    row = sql(f"PURGE INDEXTABLE '{table.path}' DRY RUN").to_pylist()[0]
    assert (row["splits_with_deleted_rows"], row["masked_rows"]) == (1, 1)
    at_once(table).erase(where=PERSON, retention_hours=0)
    clean = table.purge(dry_run=True)
    assert (clean.splits_with_deleted_rows, clean.masked_rows, clean.message) == (
        0,
        0,
        "There is nothing to purge.",
    )


@pytest.mark.parametrize("form", ["avro", "json", "parquet"])
def test_erased_rows_are_in_no_file(tmp_path: Path, form: str) -> None:
    table = table_with_ada(tmp_path / "t", **{"state.format": form} if form != "avro" else {})
    assert files_that_spell(table.path, ADA, WORD)
    report = at_once(table).erase(where=PERSON, retention_hours=0)
    assert (report.status, report.proved, report.holders) == ("success", True, ())
    assert (report.erased_rows, report.erased_masked_rows, report.splits_rewritten) == (1, 1, 2)
    assert files_that_spell(table.path, ADA, WORD) == set()
    fresh = Table.open(table.path)
    assert sorted(fresh.scan(columns=["id"]).read_all()["id"].to_pylist()) == [
        *range(7),
        *range(10, 17),
        *range(20, 28),
    ]
    assert fresh.search(WORD, columns=["id"]).num_rows == 0
    assert fresh.search("hello", columns=["id"]).num_rows == 22
    assert fresh.verify(full=True).findings == ()
    again = at_once(table).erase(where=PERSON, retention_hours=0)
    assert (again.status, again.proved, again.version) == ("no_action", True, None)
    assert at_once(table).version == fresh.version


def test_time_travel_to_a_removed_version_is_the_usual_error(tmp_path: Path) -> None:
    table = table_with_ada(tmp_path / "t")
    at_once(table).erase(where=PERSON, retention_hours=0)
    for version in range(5):
        with pytest.raises(VersionNotFoundError):
            Table.open(table.path, version=version)


def test_what_the_retention_keeps_is_named_with_its_end(tmp_path: Path) -> None:
    table = table_with_ada(tmp_path / "t")
    report = table.erase(where=PERSON)
    assert (report.proved, report.erased_rows, report.erased_masked_rows, report.files_deleted) == (
        False,
        1,
        1,
        0,
    )
    assert {holder.path for holder in report.holders} >= files_that_spell(table.path, ADA, WORD)
    assert {holder.kind for holder in report.holders} == {"split", "version", "state", "manifest"}
    assert all(
        holder.fate == "keep" and holder.until and holder.lifted_by for holder in report.holders
    )
    assert (
        "Not proved" in report.message
        and max(str(h.until) for h in report.holders) in report.message
    )
    live = {f"{path}" for path in table.files().column("path").to_pylist()}
    assert not live & files_that_spell(table.path, ADA, WORD)
    assert Table.open(table.path, version=4).count(where=PERSON) == 1, (
        "nothing within the retention was deleted"
    )
    before = table.version
    assert table.erase(where=PERSON).proved is False
    assert table.refresh().version == before, "an erasure that can do nothing yet writes no version"
    age(table.path, hours=2_000)
    done = Table.open(table.path).erase(where=PERSON)
    assert (done.proved, done.holders) == (True, ())
    assert files_that_spell(table.path, ADA, WORD) == set()


def test_a_young_manifest_names_the_setting_that_keeps_it(tmp_path: Path) -> None:
    table = table_with_ada(tmp_path / "t")
    careful = Table.open(table.path, options={"purge.retentionCheckEnabled": False})
    report = careful.erase(where=PERSON, retention_hours=0)
    assert [(holder.kind, holder.lifted_by) for holder in report.holders] == [
        ("manifest", "the setting state.gc.minManifestAgeHours")
    ]
    assert at_once(table).erase(where=PERSON, retention_hours=0).proved


def test_too_short_a_retention_is_refused_as_for_a_purge(tmp_path: Path) -> None:
    table = table_with_ada(tmp_path / "t")
    before = contents(table.path)
    for hours in (0, 23.9):
        with pytest.raises(RefusedError, match="shorter than 24 hours") as refused:
            table.erase(where=PERSON, retention_hours=hours)
        assert "purge.retentionCheckEnabled" in refused.value.hint
    with pytest.raises(InvalidInputError, match="retention_hours"):
        table.erase(where=PERSON, retention_hours="soon")  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="which rows to erase"):
        table.erase()
    with pytest.raises(InvalidInputError, match="nobody"):
        table.erase(where="nobody = 1")
    with pytest.raises(RefusedError, match="opened at version"):
        Table.open(table.path, version=1).erase(where=PERSON)
    assert contents(table.path) == before


def test_a_tag_keeps_what_it_names_until_it_is_taken_away(tmp_path: Path) -> None:
    table = table_with_ada(tmp_path / "t")
    table.tag("audit", version=2)
    report = at_once(table).erase(where=PERSON, retention_hours=0)
    assert not report.proved
    lifted = {holder.lifted_by for holder in report.holders}
    assert lifted == {"untag('audit')"}
    assert all(holder.until is None for holder in report.holders)
    assert Table.open(table.path, version="audit").count(where=PERSON) == 2
    table.refresh().untag("audit")
    assert at_once(table).erase(where=PERSON, retention_hours=0).proved
    assert files_that_spell(table.path, ADA, WORD) == set()


def test_a_dry_run_says_what_the_erasure_then_does(tmp_path: Path) -> None:
    table = table_with_ada(tmp_path / "t")
    before = contents(table.path)
    planned = at_once(table).erase(where=PERSON, retention_hours=0, dry_run=True)
    assert contents(table.path) == before
    assert (planned.status, planned.proved, planned.dry_run) == ("dry_run", False, True)
    assert (planned.erased_rows, planned.erased_masked_rows) == (1, 1)
    done = at_once(table).erase(where=PERSON, retention_hours=0)
    gone = set(before) - set(contents(table.path))
    assert {holder.path for holder in planned.holders} <= gone
    assert {holder.fate for holder in planned.holders} == {"rewrite", "delete"}
    assert (done.erased_rows, done.erased_masked_rows) == (
        planned.erased_rows,
        planned.erased_masked_rows,
    )
    assert at_once(table).erase(where=PERSON, dry_run=True).status == "no_action"


def test_the_condition_is_not_written_to_the_log(tmp_path: Path) -> None:
    table = table_with_ada(tmp_path / "t")
    table.erase(where="email = 'ada.lovelace@example.org' AND body LIKE '%quixoticism%'")
    last = table.history(limit=1).to_pylist()[0]
    assert last["operation"] == "ERASE"
    assert ADA not in json.dumps(last, default=str)


def test_earlier_versions_that_spell_the_condition_hold_the_rows(tmp_path: Path) -> None:
    table = table_with_ada(tmp_path / "t")
    table.delete(where="email = 'nobody.there@example.org' OR id = 25")
    report = table.erase(where="email = 'nobody.there@example.org'")
    assert [
        (holder.kind, holder.reason) for holder in report.holders if holder.path.endswith("05.json")
    ] == [("version", "its parameters spell a value of the condition")]


def test_only_files_with_the_rows_are_deleted(tmp_path: Path) -> None:
    table = table_with_ada(tmp_path / "t")
    table.overwrite(people(40, ada=False), where="id >= 20")
    (Path(table.path) / "splits/split-in-flight.split").write_bytes(
        next(data for path, data in contents(table.path).items() if path.endswith(".split"))
    )
    stray = "splits/split-in-flight.split"
    holds = stray in files_that_spell(table.path, WORD)
    before = {path for path in contents(table.path) if path.endswith(".split")}
    spelled = files_that_spell(table.path, ADA, WORD)
    report = at_once(table).erase(where=PERSON, retention_hours=0)
    after = {path for path in contents(table.path) if path.endswith(".split")}
    assert report.proved
    assert before - after == {path for path in spelled if path.endswith(".split")}
    assert (stray in after) is not holds


def test_rows_in_a_partition_of_their_own(tmp_path: Path) -> None:
    """The path of a split, and the folder that it was in, spell the value as well."""
    table = Table.create(str(tmp_path / "t"), schema=SCHEMA, partition_columns=["email"])
    for first in (0, 10):
        table.append(people(first))
    report = at_once(table).erase(where=PERSON, retention_hours=0)
    assert (report.proved, report.erased_rows, report.splits_removed) == (True, 2, 2)
    assert files_that_spell(table.path, "ada.lovelace") == set()
    assert not [
        path
        for path in Path(table.path).rglob("*")
        if "ada.lovelace" in str(path.relative_to(table.path))
    ]
    assert Table.open(table.path).count() == 14


def test_an_uncommitted_split_in_a_partition_of_the_rows(tmp_path: Path) -> None:
    """The purge names the split in the log before it is deleted, and that name goes as well."""
    table = Table.create(str(tmp_path / "t"), schema=SCHEMA, partition_columns=["email"])
    table.append(people(0))
    split = next(path for path in Path(table.path).rglob("*.split") if ADA in str(path))
    shutil.copy(split, split.with_name("split-never-committed.split"))
    report = at_once(table).erase(where=PERSON, retention_hours=0)
    assert (report.proved, report.erased_rows) == (True, 1)
    assert files_that_spell(table.path, ADA) == set()


def test_an_empty_folder_of_a_partition_goes(tmp_path: Path) -> None:
    table = Table.create(str(tmp_path / "t"), schema=SCHEMA, partition_columns=["email"])
    table.append(people(0))
    table.delete(where=PERSON)
    at_once(table).purge(older_than_hours=0, log_retention_hours=0)
    inner = Path(table.path) / f"email={ADA}/inner"
    Table.create(str(inner), schema=SCHEMA, partition_columns=["email"]).append(people(0))
    assert list(Path(table.path).glob("email=ada*"))
    at_once(table).erase(where=PERSON, retention_hours=0)
    assert Table.open(str(inner)).count() == 8, "a table within the table is not touched"
    shutil.rmtree(inner)
    assert at_once(table).erase(where=PERSON, retention_hours=0).proved
    assert not list(Path(table.path).glob("email=ada*"))


def test_a_tag_keeps_the_replica_too(tmp_path: Path) -> None:
    options = {"checkpoint.replica.location": str(tmp_path / "replica")}
    table = table_with_ada(tmp_path / "t")
    opened = Table.open(table.path, options=options)
    opened.checkpoint()
    opened.tag("audit")
    report = at_once(table, **options).erase(where=PERSON, retention_hours=0)
    assert any(holder.path.startswith(str(tmp_path / "replica")) for holder in report.holders)
    assert {holder.lifted_by for holder in report.holders} == {"untag('audit')"}
    opened.untag("audit")
    assert at_once(table, **options).erase(where=PERSON, retention_hours=0).proved


def test_the_replica_is_cleaned_too(tmp_path: Path) -> None:
    options = {"checkpoint.replica.location": str(tmp_path / "replica")}
    table = table_with_ada(tmp_path / "t", **{"indexing.tokenizer.body": "default"})
    Table.open(table.path, options=options).checkpoint()
    kept = at_once(table, **options).erase(where=PERSON, dry_run=True)
    assert any(holder.path.startswith(str(tmp_path / "replica")) for holder in kept.holders)
    report = at_once(table, **options).erase(where=PERSON, retention_hours=0)
    assert report.proved, report
    assert len([path for path in contents(tmp_path / "replica") if "state-v" in path]) == 1
    assert Table.open(table.path, options=options).verify(full=True).findings == ()


def test_what_cannot_be_read_is_not_proved(tmp_path: Path) -> None:
    table = table_with_ada(tmp_path / "t")
    at_once(table).erase(where=PERSON, retention_hours=0)
    (Path(table.path) / "splits/notes.txt").write_text("about ada")
    (Path(table.path) / "_transaction_log/copy-of-a-version").write_text("about ada")
    report = at_once(table).erase(where=PERSON, retention_hours=0)
    assert not report.proved
    assert {(holder.path, holder.kind) for holder in report.holders} == {
        ("splits/notes.txt", "other"),
        ("_transaction_log/copy-of-a-version", "other"),
    }
    assert {holder.lifted_by for holder in report.holders} == {
        "move the file out of the table's folder"
    }


def test_the_change_feed_shows_rows_that_were_visible(tmp_path: Path) -> None:
    table = table_with_ada(tmp_path / "t")
    version = table.erase(where=PERSON).version
    assert version is not None
    rows = table.changes(version, version).read_all().to_pylist()
    assert [(row["id"], row["_change_type"]) for row in rows] == [(17, "delete")]
    other = table_with_ada(tmp_path / "other")
    other.delete(where=PERSON)
    masked = other.erase(where=PERSON).version
    assert masked is not None and other.changes(masked, masked).read_all().num_rows == 0


def during(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Let another writer act after an erasure has read its splits and before it commits."""
    real, waiting, lock = EraseTask.run, [act], Lock()

    def run(task: EraseTask, **given: object) -> erase.EraseOutcome:
        outcome = real(task, **given)  # type: ignore[arg-type]
        with lock:
            if waiting:
                waiting.pop()()
        return outcome

    monkeypatch.setattr(EraseTask, "run", run)


def test_rows_that_are_appended_meanwhile_are_found_by_the_proof(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = table_with_ada(tmp_path / "t")
    during(monkeypatch, lambda: Table.open(table.path).append(people(30)))
    report = at_once(table).erase(where=PERSON, retention_hours=0)
    assert (report.proved, report.erased_rows) == (False, 1)
    assert any(
        h.kind == "split" and str(h.lifted_by).startswith("run the erasure again")
        for h in report.holders
    )
    assert Table.open(table.path).count() == 30
    monkeypatch.undo()
    assert at_once(table).erase(where=PERSON, retention_hours=0).proved


def test_a_split_that_another_writer_changed_is_a_conflict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = table_with_ada(tmp_path / "t")
    during(monkeypatch, lambda: Table.open(table.path).delete(where="id = 11"))
    before = {path for path in contents(table.path) if path.endswith(".split")}
    with pytest.raises(ConflictError):
        at_once(table).erase(where=PERSON, retention_hours=0)
    monkeypatch.undo()
    assert {path for path in contents(table.path) if path.endswith(".split")} == before, (
        "what was written is discarded"
    )
    assert Table.open(table.path).count() == 22
    assert at_once(table).erase(where=PERSON, retention_hours=0).proved
    assert Table.open(table.path).count() == 21


GIVES_WAY = (ConflictError, VersionNotFoundError)
"""What a writer may raise next to an erasure that keeps no older version."""


def test_erasing_again_and_again_beside_writers_loses_no_row(tmp_path: Path) -> None:
    table = table_with_ada(tmp_path / "t")
    kept, stop = set(range(7)) | set(range(10, 17)) | set(range(20, 28)), Event()
    failures: list[BaseException] = []

    def write(writer: int) -> None:
        for turn in range(12):
            first = 1_000 * writer + 10 * turn
            try:
                Table.open(table.path).append(people(first))
            except GIVES_WAY:
                continue  # its split was taken for an orphan, or its version was cleaned away: nothing was committed
            kept.update(range(first, first + 7))

    def merge() -> None:
        while not stop.wait(0.05):
            with suppress(*GIVES_WAY):
                Table.open(table.path).merge()

    def run(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            failures.append(error)

    works = [partial(write, 1), partial(write, 2), merge]
    threads = [Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads[:2]):
        with suppress(*GIVES_WAY):
            at_once(table).erase(where=PERSON, retention_hours=0)
    stop.set()
    for thread in threads:
        thread.join()
    assert failures == []
    assert at_once(table).erase(where=PERSON, retention_hours=0).proved
    assert sorted(
        Table.open(table.path).scan(columns=["id"]).read_all()["id"].to_pylist()
    ) == sorted(kept)
    assert Table.open(table.path).verify(full=True).findings == ()
    assert files_that_spell(table.path, ADA, WORD) == set()


def test_an_erasure_that_was_interrupted_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The version is committed, and the process ends before anything else: the next call finds the
    old files.
    """
    table = table_with_ada(tmp_path / "t")

    def stop(log: TransactionLog, **given: object) -> None:
        raise StorageError("the process ends here")

    monkeypatch.setattr(TransactionLog, "checkpoint", stop)
    with pytest.raises(StorageError):
        at_once(table).erase(where=PERSON, retention_hours=0)
    monkeypatch.undo()
    assert Table.open(table.path).count(where=PERSON) == 0
    report = at_once(table).erase(where=PERSON, retention_hours=0)
    assert (report.proved, report.erased_rows) == (True, 0)
    assert files_that_spell(table.path, ADA, WORD) == set()


def test_every_row_can_be_erased(tmp_path: Path) -> None:
    table = table_with_ada(tmp_path / "t")
    report = at_once(table).erase(where="true", retention_hours=0)
    assert (
        report.proved,
        report.erased_rows,
        report.erased_masked_rows,
        report.splits_removed,
    ) == (True, 23, 1, 3)
    assert Table.open(table.path).count() == 0


def test_renamed_columns_and_older_columns(tmp_path: Path) -> None:
    table = table_with_ada(tmp_path / "t")
    table.alter.rename_column("email", "mail")
    table.alter.add_column("note", pa.string())
    table.append([{"id": 50, "mail": ADA, "body": "x", "note": "y"}])
    report = at_once(table).erase(where=f"mail = '{ADA}' AND note IS NULL", retention_hours=0)
    assert (report.proved, report.erased_rows, report.erased_masked_rows) == (True, 1, 1)
    assert at_once(table).erase(where=f"mail = '{ADA}'", retention_hours=0).proved
    assert files_that_spell(table.path, ADA) == set()


def add_foreign_split(table: Table, folder: Path) -> str:
    """Put a split in the form of IndexTables for the JVM into a table."""
    builder = tantivy.SchemaBuilder()
    for name in ("email", "body"):
        builder.add_text_field(name, stored=True, tokenizer_name="raw", index_option="basic")
    builder.add_integer_field("id", stored=True, indexed=True)
    folder.mkdir()
    writer = tantivy.Index(builder.build(), path=str(folder)).writer(
        heap_size=15_000_000, num_threads=1
    )
    writer.add_document(tantivy.Document(email=ADA, body=WORD, id=60))
    writer.commit()
    writer.wait_merging_threads()
    path = "splits/foreign.split"
    file = bundle(folder, Path(table.path) / path)
    action = replace(
        describe_split(LocalSource(file)).add_action({}, modification_time=1), path=path
    )
    with table.transaction() as transaction:
        transaction.add(action)
    return path


def test_splits_of_the_jvm_are_refused_until_they_are_rewritten(tmp_path: Path) -> None:
    table = table_with_ada(tmp_path / "t")
    path = add_foreign_split(table, tmp_path / "index")
    before = contents(table.path)
    for dry_run in (True, False):
        with pytest.raises(RefusedError, match="IndexTables for the JVM") as refused:
            at_once(table).erase(where=PERSON, retention_hours=0, dry_run=dry_run)
        assert "merge(rewrite=True)" in refused.value.hint and refused.value.context["splits"] == [
            path
        ]
    assert contents(table.path) == before
    table.refresh().merge(rewrite=True)
    kept = Table.open(table.path).erase(where=PERSON)
    assert [holder.reason for holder in kept.holders if holder.path == path] == [
        "a split of IndexTables for the JVM, whose bytes are not searched"
    ]
    assert at_once(table).erase(where=PERSON, retention_hours=0).proved
    assert not (Path(table.path) / path).exists()


def test_the_report_in_every_form(tmp_path: Path) -> None:
    table = table_with_ada(tmp_path / "t")
    shutil.copytree(table.path, tmp_path / "copy")
    report: EraseReport = table.erase(where=PERSON)
    plain = json.loads(json.dumps(report.to_dict()))
    assert plain["proved"] is False and plain["holders"][0]["path"] in str(report)
    assert "<table>" in report._repr_html_()
    row = sql(f"ERASE FROM '{tmp_path / 'copy'}' WHERE {PERSON}").to_pylist()[0]
    assert (row["status"], row["proved"], row["erased_rows"], row["erased_masked_rows"]) == (
        "success",
        False,
        1,
        1,
    )
    assert "state-v" in row["message"] and "purge.txLogRetentionHours" in row["message"]
    done = sql(
        f"ERASE FROM '{tmp_path / 'copy'}' WHERE {PERSON} RETAIN 0 HOURS", options=AT_ONCE
    ).to_pylist()[0]
    assert (done["proved"], done["files_deleted"] > 0) == (True, True)

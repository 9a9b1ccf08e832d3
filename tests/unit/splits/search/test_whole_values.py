"""Columns whose index also holds whole values (`text_and_string`) or only their hashes
(`exact_only`).
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from indextables import Table
from indextables.config.indexing import IndexingSettings
from indextables.config.splits import SplitWriterSettings
from indextables.errors import InvalidInputError
from indextables.model.predicate import bind, parse
from indextables.splits.index import values
from indextables.splits.index.mapping import DocMapping, settings_of
from indextables.splits.query.to_predicate import predicate_mask
from indextables.splits.query.tree import AllRows
from indextables.splits.read.table_split import TableSplit
from indextables.splits.search.match import find_rows
from indextables.splits.write.writer import write_splits
from tests.support.splits import open_file

WHOLE = "whole values, confirmed by rows"
BOTH_WAYS = {"indexing.typemap.title": "text_and_string", "indexing.typemap.key": "exact_only"}
ROWS = pa.table(
    {
        "id": list(range(400)),
        "title": [None if n % 50 == 7 else f"Disk {n % 100} full" for n in range(400)],
        "key": [None if n % 50 == 7 else f"key-{n % 100:03d}" for n in range(400)],
    }
)


def made(path: Path, **options: str) -> Table:
    table = Table.create(str(path), schema=ROWS.schema, options={**BOTH_WAYS, **options})
    table.append(ROWS)
    return table


def ids(table: Table, query: str | None = None, where: str | None = None) -> list[int]:
    return sorted(table.search(query or "*", where=where, columns=["id"]).column("id").to_pylist())


def ways(table: Table, where: str) -> set[str]:
    return {split.answered_by for split in table.explain(where=where).splits}


def test_the_index_finds_what_the_rows_say(tmp_path: Path) -> None:
    rng = random.Random(5)

    def text() -> str | None:
        return (
            None
            if rng.random() < 0.1
            else "".join(rng.choice("abA é'日") for _ in range(rng.randint(0, 4)))
        )

    table = pa.table(
        {name: pa.array([text() for _ in range(400)], pa.string()) for name in ("m", "h", "g")}
    )
    typemap = {"m": "text_and_string", "h": "exact_only", "g": "text_and_string"}
    settings = IndexingSettings(typemap=typemap, substring={"g": True}, max_token_length=4)
    mapping = DocMapping.from_settings(table.schema, settings)
    assert DocMapping.from_json(mapping.to_json()) == mapping
    (made_split,) = (
        s.path.read_bytes()
        for s in write_splits(
            table.to_batches(), table.schema, mapping, settings=SplitWriterSettings()
        )
    )
    (tmp_path / "a.split").write_bytes(made_split)
    split = open_file(tmp_path / "a.split")

    def condition(depth: int = 2) -> str:
        if depth and rng.random() < 0.5:
            one, other = condition(depth - 1), condition(depth - 1)
            return rng.choice([f"({one} AND {other})", f"({one} OR {other})", f"NOT ({one})"])
        column, some = rng.choice("mhg"), [(text() or "").replace("'", "''") for _ in range(3)]
        forms = [f"{column} = '{some[0]}'", f"{column} IN ('{some[0]}', '{some[1]}', '{some[2]}')"]
        others = [f"{column} >= '{some[0]}'", f"startswith({column}, 'a')", f"{column} IS NULL"]
        return rng.choice([*forms, *forms, *others])

    some = 0
    for _ in range(300):
        bound = bind(parse(condition()), table.schema)
        found = find_rows(split, AllRows(), where=bound)
        assert found.tolist() == predicate_mask(bound, table).nonzero()[0].tolist(), str(bound)
        some += 0 < len(found) < 400
    assert some > 100


def test_words_and_whole_values_of_one_column(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    fives = [5, 105, 205, 305]
    assert ids(table, "title:disk") == [n for n in range(400) if n % 50 != 7]
    assert ids(table, 'title:"disk 5"') == fives
    assert ids(table, "title:5 AND disk") == fives
    assert ids(table, where="title = 'Disk 5 full'") == fives
    assert ids(table, where="title = 'disk 5 full'") == ids(table, where="title = 'Disk 5'") == []
    assert ids(table, where="title IN ('Disk 5 full', 'Disk 6 full', 'x')") == sorted(
        [*fives, 6, 106, 206, 306]
    )
    assert ids(table, 'title:["Disk 98" TO "Disk 99 z"]') == ids(table, where="title >= 'Disk 98'")
    assert ids(table, "title:full", where="title = 'Disk 5 full' AND id > 200") == [205, 305]
    assert table.count(where="title = 'Disk 5 full'") == 4
    for where in (
        "title = 'Disk 5 full'",
        "title IN ('Disk 5 full', 'x')",
        "title = 'Disk 5 full' OR title = 'y'",
    ):
        assert ways(table, where) == {WHOLE}
    top = table.aggregate({"top": {"terms": {"field": "title", "size": 2}}}).to_pylist()
    assert [bucket["count"] for bucket in top] == [4, 4]
    best = (
        table.search("title:disk", order_by=["-title"], limit=1, columns=["title"])
        .column("title")
        .to_pylist()
    )
    assert best == ["Disk 99 full"]


def test_hashed_keys_are_found_and_confirmed(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    fives = [5, 105, 205, 305]
    assert ids(table, where="key = 'key-005'") == ids(table, 'key:"key-005"') == fives
    assert ids(table, where="key IN ('key-005', 'nothing')") == fives
    assert ids(table, 'key: IN ["key-005" "nothing"]') == fives
    assert ids(table, where="key = 'KEY-005'") == []
    assert ways(table, "key = 'key-005'") == {WHOLE}
    report = table.explain(query='key:"key-005"')
    assert (report.rows_matched, report.splits[0].answered_by) == (4, "index, confirmed by rows")
    assert ids(table, where="key >= 'key-098'") == [n for n in range(400) if n % 100 >= 98]
    assert (
        ids(table, "key:key-09*")
        == ids(table, where="startswith(key, 'key-09')")
        == [n for n in range(400) if n % 100 >= 90]
    )
    assert ways(table, "key >= 'key-098'") == {"rows"}
    assert ids(table, '-key:"key-005"') == [n for n in range(400) if n not in fives]
    top = table.aggregate({"top": {"terms": {"field": "key", "size": 1}}}).to_pylist()
    assert top[0]["count"] == 4


def test_values_with_one_hash_stay_two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(values, "value_hash", lambda text: len(text))
    table = made(tmp_path / "t")
    assert ids(table, where="key = 'key-005'") == ids(table, 'key:"key-005"') == [5, 105, 205, 305]
    assert table.count(query='key: IN ["key-005" "key-006"]') == 8


def test_the_hash_of_a_value_never_changes() -> None:
    assert values.value_hash("key-005") == 11832010446682741105
    assert values.value_hash("") == 16476032584258269876


def test_merges_deletions_and_upserts_keep_it(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    table.append(ROWS.slice(0, 10))
    table.delete(where="title = 'Disk 5 full' AND id > 100")
    table.merge()
    where = "title = 'Disk 5 full'"
    assert (ids(table, where=where), ways(table, where)) == ([5, 5], {WHOLE})
    assert (ids(table, where="key = 'key-006'"), ways(table, "key = 'key-006'")) == (
        [6, 6, 106, 206, 306],
        {WHOLE},
    )
    changed = pa.table({"id": [1000], "title": ["new"], "key": ["key-099"]})
    only = Table.create(str(tmp_path / "u"), schema=ROWS.schema, options=BOTH_WAYS)
    only.append(ROWS.slice(0, 99).filter(pa.compute.is_valid(ROWS.slice(0, 99).column("key"))))
    only.upsert(changed, on="key")
    only.upsert(pa.table({"id": [1001], "title": ["Disk 5 full"], "key": ["k"]}), on="title")
    assert ids(only, where="key = 'key-099'") == [1000]
    assert ids(only, where="title = 'Disk 5 full'") == [1001]
    assert ids(only, where="key = 'key-005'") == []


def test_the_feature_is_named_from_the_first_such_split_on(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    for features in (table.protocol.reader_features, table.protocol.writer_features):
        assert "exactFields" in (features or ())
    plain = Table.create(
        str(tmp_path / "u"), schema=ROWS.schema, options={"indexing.typemap.title": "text"}
    )
    plain.append(ROWS)
    assert "exactFields" not in (plain.protocol.reader_features or ())


def test_reindex_brings_it_to_rows_that_are_there(tmp_path: Path) -> None:
    table = Table.create(
        str(tmp_path / "t"), schema=ROWS.schema, options={"indexing.typemap.title": "text"}
    )
    table.append(ROWS)
    table.append(ROWS)
    where, key = "title = 'Disk 5 full'", "key = 'key-005'"
    words = ids(table, 'title:"disk 5"')
    assert (ways(table, where), ids(table, where=where)) == ({"rows"}, words)
    assert (
        table.reindex({"title": "text_and_string", "key": "exact_only"}, dry_run=True).splits_left
        == 2
    )
    report = table.reindex({"title": "text_and_string", "key": "exact_only"})
    assert report.status == "success"
    assert "exactFields" in (table.protocol.reader_features or ())
    for reader in (table, Table.open(table.path)):
        assert (ways(reader, where), ids(reader, where=where)) == ({WHOLE}, words)
        assert (ways(reader, key), ids(reader, where=key)) == ({WHOLE}, words)
        assert ids(reader, 'title:"disk 5"') == words
    assert table.reindex({"title": "text_and_string"}).message == "Every split is indexed so."
    table.append(ROWS)
    assert ways(table, where) == {WHOLE}
    table.reindex({"title": "string", "key": "string"})
    assert (
        ids(table, 'title:"Disk 5 full"')
        == ids(table, 'key:"key-005"')
        == sorted([5, 105, 205, 305] * 3)
    )


def test_older_splits_are_looked_through_until_they_are_written_anew(tmp_path: Path) -> None:
    table = Table.create(
        str(tmp_path / "t"), schema=ROWS.schema, options={"indexing.typemap.title": "text"}
    )
    table.append(ROWS)
    table.update_metadata(options={"indexing.typemap.title": "text_and_string"})
    table.append(ROWS)
    where = "title = 'Disk 5 full'"
    assert (ways(table, where), len(ids(table, where=where))) == ({"rows", WHOLE}, 8)
    assert ids(table, 'title:["Disk 98" TO "Disk 99 z"]') == ids(table, where="title >= 'Disk 98'")
    table.merge()
    assert (ways(table, where), len(ids(table, where=where))) == ({WHOLE}, 8)


def test_a_renamed_column_keeps_it(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    table.alter.rename_column("title", "subject")
    table.alter.rename_column("key", "name")
    table.append(ROWS.rename_columns(["id", "subject", "name"]))
    for where in ("subject = 'Disk 5 full'", "name = 'key-005'"):
        assert (ways(table, where), len(ids(table, where=where))) == ({WHOLE}, 8)
    assert len(ids(table, 'subject:"disk 5"')) == 8


def test_long_values_are_answered_from_the_rows(tmp_path: Path) -> None:
    table = Table.create(str(tmp_path / "t"), schema=ROWS.schema, options=BOTH_WAYS)
    long = "word " * 80
    table.append(pa.table({"id": [1, 2], "title": [long, "short"], "key": [long, ""]}))
    assert (ids(table, where=f"title = '{long}'"), ways(table, f"title = '{long}'")) == (
        [1],
        {"rows"},
    )
    assert (ids(table, where=f"key = '{long}'"), ways(table, f"key = '{long}'")) == ([1], {WHOLE})
    assert (ids(table, where="key = ''"), ids(table, where="title = 'short'")) == ([2], [2])


def test_the_settings_say_the_kind_again_and_faults_are_named() -> None:
    schema = ROWS.schema
    mapping = DocMapping.from_settings(
        schema, IndexingSettings(typemap={"title": "text_and_string", "key": "exact_only"})
    )
    assert settings_of(mapping, schema) == BOTH_WAYS
    assert [column.terms for column in mapping.columns] == [
        "none",
        "text_and_string (default, position)",
        "exact_only",
    ]
    for settings, fault in (
        (IndexingSettings(typemap={"id": "exact_only"}), "cannot be 'exact_only'"),
        (
            IndexingSettings(typemap={"key": "exact_only"}, tokenizer={"key": "raw"}),
            "kind exact_only, which has no",
        ),
        (
            IndexingSettings(typemap={"key": "exact_only"}, substring={"key": True}),
            "needs string or text",
        ),
        (
            IndexingSettings(typemap={"key": "text_and_string"}, nonindexed=("key",)),
            "is in indexing.nonindexed",
        ),
        (IndexingSettings(typemap={"key": "text_or_string"}), "text_and_string"),
    ):
        with pytest.raises(InvalidInputError, match=fault):
            DocMapping.from_settings(schema, settings)


def test_a_column_that_comes_later_may_have_a_default(tmp_path: Path) -> None:
    table = Table.create(str(tmp_path / "t"), schema=ROWS.schema)
    table.append(ROWS)
    table.alter.add_column(
        "team",
        pa.string(),
        default="Team one",
        options={"indexing.typemap.team": "text_and_string"},
    )
    table.alter.add_column(
        "code", pa.string(), default="c-1", options={"indexing.typemap.code": "exact_only"}
    )
    table.append(
        pa.table(
            {"id": [1000], "title": ["x"], "key": ["y"], "team": ["Team two"], "code": ["c-2"]}
        )
    )
    for _ in range(2):
        counts = [
            table.count(where=w)
            for w in ("team = 'Team one'", "team = 'Team two'", "code = 'c-1'", "code = 'c-2'")
        ]
        assert counts == [400, 1, 400, 1]
        assert [
            table.count(query=q) for q in ("team:one", "team:team", "code:c-1", "code:c-2")
        ] == [400, 401, 400, 1]
        table.merge()
    assert ways(table, "team = 'Team two'") == ways(table, "code = 'c-2'") == {WHOLE}


def test_prewarm_fetches_every_field_of_a_column(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched: list[str] = []
    real = TableSplit.open_index

    def spy(split: TableSplit, fields: Sequence[str], **needs: bool) -> Any:
        fetched.extend(fields)
        return real(split, fields, **needs)

    monkeypatch.setattr(TableSplit, "open_index", spy)
    made(tmp_path / "t", **{"indexing.substring.title": "true"}).prewarm(columns=["title"])
    assert fetched == ["c1", "g1", "w1"]

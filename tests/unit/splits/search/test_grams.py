"""Conditions over parts of texts, answered by the index where the column has it: the same rows,
fewer of them read.
"""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from indextables import Table
from indextables.config.indexing import IndexingSettings
from indextables.config.splits import SplitWriterSettings
from indextables.errors import InvalidInputError
from indextables.model.predicate import bind, parse
from indextables.splits.index.mapping import DocMapping
from indextables.splits.query.to_predicate import predicate_mask
from indextables.splits.query.tree import AllRows
from indextables.splits.search.match import find_rows
from indextables.splits.write.writer import write_splits
from tests.support.splits import open_file

ALPHABET = "abAB İßſKé1_%\n'"


def random_condition(rng: random.Random, depth: int = 2) -> str:
    if depth and rng.random() < 0.5:
        one, other = random_condition(rng, depth - 1), random_condition(rng, depth - 1)
        return rng.choice([f"({one} AND {other})", f"({one} OR {other})", f"NOT ({one})"])
    column = rng.choice(["m", "s", "n"])
    text = "".join(rng.choice("abAB İé1") for _ in range(rng.randint(0, 5)))
    return rng.choice(
        [
            f"contains({column}, '{text}')",
            f"startswith({column}, '{text}')",
            f"endswith({column}, '{text}')",
            f"{column} LIKE '%{text}%'",
            f"{column} LIKE '{text[:2]}_%{text[2:]}%'",
            f"{column} RLIKE '{text}'",
            f"{column} RLIKE '(?i){text[:3]}.*{text[3:]}'",
            f"{column} RLIKE '{text[:4]}(a|b)?$'",
            f"{column} = '{text}'",
            f"{column} IN ('{text}', 'abA')",
            f"{column} IS NULL",
        ]
    )


def test_the_index_finds_what_the_rows_say(tmp_path: Path) -> None:
    rng = random.Random(3)

    def text() -> str | None:
        return (
            None
            if rng.random() < 0.1
            else "".join(rng.choice(ALPHABET) for _ in range(rng.randint(0, 14)))
        )

    table = pa.table(
        {name: pa.array([text() for _ in range(400)], pa.string()) for name in ("m", "s", "n")}
    )
    settings = IndexingSettings(typemap={"m": "text"}, substring={"m": True, "s": True})
    mapping = DocMapping.from_settings(table.schema, settings)
    (made,) = (
        s.path.read_bytes()
        for s in write_splits(
            table.to_batches(), table.schema, mapping, settings=SplitWriterSettings()
        )
    )
    (tmp_path / "a.split").write_bytes(made)
    split = open_file(tmp_path / "a.split")
    some = 0
    for _ in range(400):
        bound = bind(parse(random_condition(rng)), table.schema)
        found = find_rows(split, AllRows(), where=bound)
        assert found.tolist() == predicate_mask(bound, table).nonzero()[0].tolist(), str(bound)
        some += 0 < len(found) < 400
    assert some > 100


ROWS = pa.table(
    {
        "id": list(range(1000)),
        "message": [f"request {n:04d} of user-{n % 7} took {n * 13 % 977} ms" for n in range(1000)],
    }
)


def made(path: Path, **options: str) -> Table:
    table = Table.create(
        str(path), schema=ROWS.schema, options={"indexing.typemap.message": "text", **options}
    )
    table.append(ROWS)
    return table


CONDITIONS = [
    "message LIKE '%t 0123 o%'",
    "contains(message, 't 0123 o')",
    "startswith(message, 'request 0123')",
    "endswith(message, 'took 622 ms')",
    "message RLIKE 't 0123 of user-[0-9]'",
    "message = 'request 0123 of user-4 took 622 ms'",
    "message LIKE '%0123%' AND id > 5",
]


@pytest.mark.parametrize("where", CONDITIONS)
def test_rows_without_the_text_are_not_read_and_explain_says_so(tmp_path: Path, where: str) -> None:
    with_grams = made(tmp_path / "with", **{"indexing.substring.message": "true"})
    without = made(tmp_path / "without")
    for table, way in ((with_grams, "3-grams, confirmed by rows"), (without, "rows")):
        report = table.explain(where=where)
        assert (report.rows_matched, report.splits[0].answered_by) == (1, way)
        assert table.search("message:request", where=where).column("id").to_pylist() == [123]
        assert table.search("message:request", where=where, limit=5).column("id").to_pylist() == [
            123
        ]
        assert table.count(where=where) == 1
    assert with_grams.count(where=f"NOT ({where})") == 999


def test_arrow_expressions_and_deletes_take_the_same_way(tmp_path: Path) -> None:
    table = made(tmp_path / "t", **{"indexing.substring.message": "true"})
    for expression in (
        pc.match_substring(pc.field("message"), "t 0123 o"),
        pc.match_substring_regex(pc.field("message"), "t 0[1]23 of"),
        pc.match_like(pc.field("message"), "%t 0123 o%"),
    ):
        assert table.explain(where=expression).splits[0].answered_by == "3-grams, confirmed by rows"
        assert table.count(where=expression) == 1
    table.delete(where="message LIKE '%user-3 %'")
    assert table.count() == 1000 - 143
    assert table.count(where="message LIKE '%user-3 %'") == 0


def test_it_can_be_switched_on_later_and_merging_brings_it_to_old_splits(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    before = table.protocol.reader_features or ()
    table.update_metadata(options={"indexing.substring.message": "true"})
    table.append(ROWS)
    ways = {split.answered_by for split in table.explain(where=CONDITIONS[0]).splits}
    assert (ways, table.count(where=CONDITIONS[0])) == ({"rows", "3-grams, confirmed by rows"}, 2)
    assert "substringIndex" not in before
    assert "substringIndex" in (table.protocol.reader_features or ())
    assert "substringIndex" in (table.protocol.writer_features or ())
    table.merge()
    report = table.explain(where=CONDITIONS[0])
    assert [split.answered_by for split in report.splits] == ["3-grams, confirmed by rows"]
    assert report.rows_matched == 2
    table.update_metadata(options={"indexing.substring.message": "false"})
    table.append(ROWS.slice(123, 1))
    table.merge()
    report = table.explain(where=CONDITIONS[0])
    assert ([split.answered_by for split in report.splits], report.rows_matched) == (["rows"], 3)


def test_a_table_without_it_names_no_feature_and_a_wrong_column_is_refused(tmp_path: Path) -> None:
    assert "substringIndex" not in (made(tmp_path / "t").protocol.reader_features or ())
    with pytest.raises(InvalidInputError, match=r"indexing\.substring needs string or text"):
        made(tmp_path / "u", **{"indexing.substring.id": "true"})
    with pytest.raises(InvalidInputError, match="no column"):
        made(tmp_path / "v", **{"indexing.substring.nothing": "true"})

"""Tables of IndexTables for the JVM are answered from its terms: the same rows as the slow way
finds, and far fewer read.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import tantivy

from indextables import Table
from indextables.errors import BadFileError
from indextables.model.predicate import bind, evaluate, parse
from indextables.splits.format.source import LocalSource
from indextables.splits.index.tantivy_files import composite_spans
from indextables.splits.read.bundle_files import FieldTerms, TermPlace, UnknownFormError
from indextables.splits.read.cache import SplitCache
from indextables.splits.read.foreign import ForeignReader
from tests.golden.golden_tables import GOLDEN, jvm_table
from tests.golden.many_splits import many_splits

CONDITIONS = {
    "t07_merged": [
        "n = 27",
        "n > 40 AND level = 'ERROR'",
        "n <= -44 OR level IN ('WARN', 'x')",
        "NOT n = 27",
        "level IS NULL",
        "level <=> NULL",
        "level != 'ERROR'",
        "level > 'F'",
        "flag = true",
        "flag = false AND x < 0.0",
        "x >= 1.588",
        "ts >= '2026-01-12 11:51:23.000001'",
        "ts > '2026-01-12 11:51:23.000001' AND ts < '2026-01-15'",
        "ts = '2026-01-12 11:51:23.000001'",
        "d = '2026-01-12'",
        "d < '2026-01-05'",
        "d IN ('2026-01-03', '2026-01-29')",
        "message LIKE '%login%'",
        "id BETWEEN 5 AND 9",
        "id = 99999999",
        "n IN (27, NULL)",
        "n >= -50 AND NOT n < 27",
        "n = 27 OR x > 1",
        "n > 12 AND n <= 41 AND n >= 27",
        "n > 41 AND n < 12",
        "n <= 9223372036854775807 AND n > -9223372036854775808",
        "n < 99999999999999999999",
        "ts >= '2026-01-12 11:51:23.000001' AND ts <= '2026-01-12 11:51:23.000001'",
        "ts > '2026-01-12 11:51:23.000001' AND ts < '2026-01-12 11:51:23.000002'",
        "ts < '2026-01-12 11:51:23.000001' AND n > 0",
        "ts != '2026-01-12 11:51:23.000001'",
        "ts IN ('2026-01-12 11:51:23.000001', '2026-01-12 11:51:23')",
        "ts = '2026-01-12 11:51:23.000001' OR d = '2026-01-12'",
        "d >= '2026-01-05' AND d <= '2026-01-12' AND d > '2026-01-06'",
        "NOT (ts < '2026-01-12 11:51:23.000001' AND n > 0)",
        "ts > '1000-01-01' AND ts < '9999-01-01'",
    ],
    "t04_types": [
        "i = 0",
        "i = -2147483648",
        "l = 9223372036854775807",
        "l < 0",
        "f = 3.0",
        "f > 1.0",
        "dbl = 0.0",
        "dbl > 1e300",
        "dbl <= -1.0",
        "b = true",
        "s = ''",
        "s = 'UPPER'",
        "s > 'a'",
        "s LIKE 'xxx%'",
        "d < '1950-01-01'",
        "ts < '1960-01-01'",
        "ts = '1900-01-01 00:00:00.000001'",
        "ts <= '1900-01-01 00:00:00.000001'",
        "ip = '10.0.0.1'",
        "i > 3000000000",
        "l < 9223372036854775808",
        "l >= -9223372036854775808",
        "i > 0.5",
        "dbl IN (-0.0)",
        "dbl = 'NaN'",
        "f >= 0.1",
        "ts > '1969-12-31 23:59:59.5' AND ts < '1970-01-01 00:00:00.5'",
        "ts >= '1970-01-01' AND ts <= '1970-01-01'",
        "ts > '1970-01-01'",
        "ts < '1970-01-01'",
        "ts < '1900-01-01 00:00:00.000001'",
        "ts > '1900-01-01 00:00:00.000001'",
        "ts >= '1900-01-01 00:00:00.000001' AND ts < '1900-01-01 00:00:00.000002'",
        "i >= -2147483648 AND i < 2147483648",
        "i <= 2147483647 AND i > -2147483648",
        "d <= '1969-12-31'",
        "NOT i IN (0, NULL)",
        "s = '' OR i = 0",
    ],
}
QUERIES = {
    "t07_merged": [
        "message:timeout",
        "timeout",
        "hello world",
        "message:zebra",
        'message:"login full"',
        'message:"login full"~2',
        'message:"full login"~3',
        "message:log*",
        "message:/log.*/",
        "message:tiemout~1",
        "message:naïve",
        "message:(login AND NOT full)",
        "level:ERROR",
        "level:IN [ERROR WARN]",
        "level:error",
        "message:timeout AND n:[0 TO 30]",
        "NOT message:timeout",
        "n:27",
        'message:"conn"*',
    ],
    "t04_types": ["s:UPPER", "js.a:text", "ip:10.0.0.0/8", "i:0", "s:x*", 's:"trail "'],
}


def slow_way(patch: pytest.MonkeyPatch) -> None:
    """Every document is read, by tantivy: what answered such splits before, and what must agree."""

    def unknown(*_: Any) -> None:
        raise UnknownFormError("the slow way")

    patch.setattr(ForeignReader, "may_match", lambda *_: None)
    patch.setattr(ForeignReader, "rows_with", lambda *_: None)
    patch.setattr(ForeignReader, "_from_terms", lambda *_: None)
    patch.setattr(ForeignReader, "_from_documents", unknown)
    SplitCache.default().close_searchers()


def both_ways(answer: Callable[[Table], Any], path: Path) -> tuple[Any, Any]:
    quick = answer(Table.open(str(path)))
    with pytest.MonkeyPatch.context() as patch:
        slow_way(patch)
        slow = answer(Table.open(str(path)))
    SplitCache.default().close_searchers()
    return quick, slow


def rows_of(found: Any) -> list[tuple[Any, ...]]:
    return [tuple(repr(value) for value in row.values()) for row in found.to_pylist()]


def conditioned(
    table: Table, where: str, columns: list[str] | None = None
) -> list[tuple[Any, ...]]:
    return rows_of(table.scan(where=where, columns=columns).read_all())


def searched(table: Table, query: str) -> list[tuple[Any, ...]]:
    return rows_of(table.search(query))


@pytest.mark.parametrize("name", list(CONDITIONS))
def test_conditions_find_the_rows_of_the_slow_way(name: str) -> None:
    table = jvm_table(name)
    for where in CONDITIONS[name]:
        quick, slow = both_ways(partial(conditioned, where=where), table.path)
        assert quick == slow, where
        quick, slow = both_ways(partial(Table.count, where=where), table.path)
        assert quick == slow, where


@pytest.mark.parametrize("name", list(QUERIES))
def test_queries_find_the_rows_and_scores_of_the_slow_way(name: str) -> None:
    table = jvm_table(name)
    for query in QUERIES[name]:
        quick, slow = both_ways(partial(searched, query=query), table.path)
        assert quick == slow, query
        quick, slow = both_ways(partial(Table.count, query=query), table.path)
        assert quick == slow, query
        quick, slow = both_ways(partial(Table.search, query=query, limit=5, score=True), table.path)
        assert rows_of(quick.drop_columns(["_score"])) == rows_of(slow.drop_columns(["_score"])), (
            query
        )
        assert np.allclose(quick["_score"].to_numpy(), slow["_score"].to_numpy()), query


@pytest.mark.skipif(not GOLDEN.exists(), reason="the golden tables are not here")
def test_ranges_over_hundreds_of_terms() -> None:
    table = Table.open(str(GOLDEN / "10_large_batch"))
    for where in (
        "id > 0",
        "id >= 100",
        "score <= 300.0",
        "text >= 'document_2'",
        "id < 3",
        "score = 1.5",
        "id IN (1, 2)",
    ):
        quick, slow = both_ways(partial(conditioned, where=where), Path(table.path))
        assert quick == slow, where


@pytest.mark.parametrize("record", ["basic", "freq", "position"])
@pytest.mark.parametrize("share", [1.0, 0.5, 0.003])
def test_long_posting_lists_are_the_documents_of_the_term(
    record: str, share: float, tmp_path: Path
) -> None:
    builder = tantivy.SchemaBuilder()
    builder.add_text_field("t", tokenizer_name="default", index_option=record)
    index = tantivy.Index(builder.build(), path=str(tmp_path))
    writer = index.writer(15_000_000, 1)
    chosen = np.random.default_rng(7).random(60_000) < share
    for number, holds in enumerate(chosen.tolist()):
        writer.add_document(tantivy.Document(t="x " * (1 + number % 3) if holds else ""))
    writer.commit()
    writer.wait_merging_threads()
    (path,) = tmp_path.glob("*.idx")
    data = path.read_bytes()
    (span,) = composite_spans(data, len(data), "x")[1]
    expected = np.flatnonzero(chosen)
    place = TermPlace(len(expected), 0, span.end - span.start - 8)
    found = FieldTerms(b"", lambda: data[span.start + 8 : span.end], record).rows(place)
    assert np.array_equal(found, expected)


def test_a_count_reads_no_document_and_unpacks_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    table = jvm_table("t07_merged")
    SplitCache.default().close_searchers()

    def refuse(*_: Any) -> None:
        raise AssertionError("a document was read")

    monkeypatch.setattr(ForeignReader, "_from_documents", refuse)
    monkeypatch.setattr(ForeignReader, "_from_tantivy", refuse)
    opened = Table.open(str(table.path))
    assert opened.count(query="message:timeout") > 0
    assert opened.count(where="n = 27 AND level = 'ERROR'") >= 0
    assert opened.count(where="n = 27") > 0


@pytest.mark.parametrize("file", ["term", "idx", "store"])
def test_a_flipped_byte_is_an_error_and_never_fewer_rows(file: str, tmp_path: Path) -> None:
    table = jvm_table("t07_merged")
    opened = Table.open(str(table.path))
    name = opened.files().column("path")[0].as_py()
    body = table.path / name
    reader = ForeignReader.open(LocalSource(body), opened.schema)
    place = next(f for n, f in reader._bundle.files.items() if n.endswith(f".{file}"))
    data = bytearray(body.read_bytes())
    data[place.start + 3] ^= 0x41
    (tmp_path / "x.split").write_bytes(data)
    damaged = ForeignReader.open(LocalSource(tmp_path / "x.split"), opened.schema)
    with pytest.raises(BadFileError, match="checksum"):
        damaged.check_files()
    with pytest.raises(BadFileError, match="checksum"):
        damaged.read_rows(np.array([0, 1])) if file == "store" else damaged.rows_with(
            "message", ["timeout"]
        )


def test_over_many_splits_only_documents_that_match_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = many_splits(jvm_table("t07_merged"), tmp_path, 10)
    read: list[int] = []
    plain = ForeignReader._from_documents

    def counted(self: ForeignReader, rows: Any, fields: Any) -> Any:
        read.append(len(rows))
        return plain(self, rows, fields)

    monkeypatch.setattr(ForeignReader, "_from_documents", counted)
    SplitCache.default().close_searchers()
    opened = Table.open(table.path)
    matches = opened.count(where="n = 27")
    assert matches >= 10
    assert not read
    assert opened.scan(where="n = 27").read_all().num_rows == sum(read) == matches
    quick, slow = both_ways(partial(searched, query="message:timeout"), Path(table.path))
    assert quick == slow


@pytest.mark.parametrize("where", ["i > 5", "i >= 5 AND i < 9", "i = 5", "i <= 32767"])
def test_numbers_that_do_not_fit_their_column_are_not_counted_but_said(where: str) -> None:
    table = Table.open(str(jvm_table("t04_types").path))
    narrow = pa.schema([pa.field(f.name, pa.int16()) if f.name == "i" else f for f in table.schema])
    for name in table.files().column("path").to_pylist():
        reader = ForeignReader.open(LocalSource(Path(table.path) / name), narrow)
        assert reader.may_match(bind(parse(where), narrow)) is None
        with pytest.raises(
            BadFileError, match=r"Column 'i' of the split .* does not fit the table's int16"
        ):
            reader.read_rows(columns=["i"])


@pytest.mark.parametrize("columns", [None, ["id"], ["n", "message"]])
def test_conditions_that_most_rows_fit_over_many_splits(
    columns: list[str] | None, tmp_path: Path
) -> None:
    table = many_splits(jvm_table("t07_merged"), tmp_path, 10)
    table.delete(where="id = 3 OR n = 27")
    table.append(pa.table({"id": [1000], "message": ["ours"], "n": pa.array([5], pa.int32())}))
    for where in (
        "n > -1000",
        "n > -1000 AND ts > '2000-01-01'",
        "NOT n = 27",
        "n != 12",
        "id > 20",
        "message != 'x'",
    ):
        quick, slow = both_ways(
            partial(conditioned, where=where, columns=columns), Path(table.path)
        )
        assert quick == slow and quick, where
        whole = table.scan().read_all()
        assert len(quick) == len(evaluated(whole, where)), where


def evaluated(rows: pa.Table, where: str) -> pa.Table:
    return rows.filter(evaluate(bind(parse(where), rows.schema), rows))

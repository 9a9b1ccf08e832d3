"""What becomes of the values in CSV and JSON lines: nothing is changed silently, and what does not
fit is named.
"""

from __future__ import annotations

import gzip
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from indextables import Table
from tests.cli.calls import Call, forbid


def file_with(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def stored(path: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = Table.open(str(path)).scan().read_all().to_pylist()
    return rows


@pytest.mark.parametrize(
    ("kind", "value", "told"),
    [
        ("int", "2.9", "2.9 does not fit column 'x', which holds whole numbers (int)."),
        (
            "int",
            "5000000000",
            "5000000000 does not fit column 'x', which holds whole numbers (int).",
        ),
        ("int", "true", "true does not fit column 'x', which holds whole numbers (int)."),
        ("double", "true", "true does not fit column 'x', which holds numbers (double)."),
        ("string", "5", "5 does not fit column 'x', which holds text (string)."),
        ("boolean", "1", "1 does not fit column 'x', which holds true or false (boolean)."),
        (
            "timestamp",
            "5",
            "5 does not fit column 'x', which holds times such as 2026-01-31T12:00:00Z (timestamp).",
        ),
        ("timestamp", '"soon"', "'soon' does not fit column 'x', which holds times"),
        (
            "date",
            '"2026-13-01"',
            "'2026-13-01' does not fit column 'x', which holds dates such as 2026-01-31 (date).",
        ),
        (
            "decimal(4,2)",
            "1.234",
            "1.234 does not fit column 'x', which holds decimal numbers (decimal(4,2)).",
        ),
        ("decimal(4,2)", '"many"', "'many' does not fit column 'x'"),
        ("binary", '"?"', "'?' does not fit column 'x', which holds bytes (binary)."),
    ],
)
def test_json_is_never_bent_to_fit(
    call: Call, tmp_path: Path, kind: str, value: str, told: str
) -> None:
    call("create", tmp_path / "t", "--schema", f"x {kind}")
    lines = file_with(tmp_path, "rows.jsonl", f'{{"x": null}}\n\n{{"x": {value}}}\n')
    refused = call("append", tmp_path / "t", lines, code=2).err
    assert f"{lines}, line 3: {told}" in refused
    assert "Nothing was written." in refused
    assert Table.open(str(tmp_path / "t")).version == 0


def test_json_that_loses_nothing_fits(call: Call, tmp_path: Path) -> None:
    call(
        "create",
        tmp_path / "t",
        "--schema",
        "i int, d double, p decimal(4,2), at timestamp, b binary",
    )
    line = '{"i": 2.0, "d": 1, "p": 1.25, "at": "2026-11-01 10:00", "b": "AAE="}\n{"p": "1.5"}\n{"p": 1}\n'
    call("append", tmp_path / "t", file_with(tmp_path, "rows.jsonl", line))
    first, *others = stored(tmp_path / "t")
    assert (first["i"], first["d"], str(first["p"]), first["b"]) == (2, 1.0, "1.25", b"\0\1")
    assert first["at"] == datetime(2026, 11, 1, 10, tzinfo=UTC)
    assert [str(row["p"]) for row in others] == ["1.50", "1.00"]


def test_nested_json_is_not_bent_either(call: Call, tmp_path: Path) -> None:
    known = file_with(tmp_path, "known.jsonl", '{"n": [1, 2], "o": {"a": 1.5}}\n')
    call("append", tmp_path / "t", known, "--create")
    for line in ('{"n": [1.5]}', '{"o": {"a": true}}', '{"o": {"b": 1}}'):
        bad = file_with(tmp_path, "bad.jsonl", line + "\n")
        assert f"{bad}, line 1: " in call("append", tmp_path / "t", bad, code=2).err
    assert stored(tmp_path / "t") == [{"n": [1, 2], "o": {"a": 1.5}}]


def test_a_late_value_of_json_that_was_not_foreseen_is_named(call: Call, tmp_path: Path) -> None:
    lines = file_with(tmp_path, "rows.jsonl", '{"id": 1}\n' * 20_000 + '{"id": 1.5}\n')
    refused = call("append", tmp_path / "t", lines, "--create", code=2).err
    assert (
        f"{lines}, line 20001: 1.5 does not fit column 'id', which holds whole numbers (bigint)."
        in refused
    )
    assert "--schema" in refused


@pytest.mark.parametrize(
    ("values", "line"), [("1|2|true", 3), ('"a"|1', 2), ("true|null|1", 3), ('[1]|["x"]', 2)]
)
def test_values_of_several_types_are_named_by_their_line(
    call: Call, tmp_path: Path, values: str, line: int
) -> None:
    text = "".join(f'{{"x": {value}}}\n' for value in values.split("|"))
    lines = file_with(tmp_path, "rows.jsonl", text)
    assert (
        f"{lines}, line {line}: column 'x' holds"
        in call("append", tmp_path / "t", lines, "--create", code=2).err
    )
    assert not (tmp_path / "t").exists()


def test_only_an_empty_field_without_quotes_is_null_in_csv(call: Call, tmp_path: Path) -> None:
    call("create", tmp_path / "t", "--schema", "n int, s string")
    rows = file_with(tmp_path, "rows.csv", 'n,s\n1,NA\n2,null\n3,NaN\n4,""\n,\n')
    call("append", tmp_path / "t", rows)
    assert [(row["n"], row["s"]) for row in stored(tmp_path / "t")] == [
        (1, "NA"),
        (2, "null"),
        (3, "NaN"),
        (4, ""),
        (None, None),
    ]


def test_types_of_csv_are_taken_from_its_texts(call: Call, tmp_path: Path) -> None:
    header = "zip,n,x,ok,day,at,late,name,none\n"
    rows = file_with(
        tmp_path,
        "rows.csv",
        header
        + "007,1,1.5,true,2026-11-01,2026-11-01T10:00:00,2026-13-01,a,\n"
        + "120,,-2,FALSE,2026-11-02,2026-11-01 10:00:00.5+01:00,2026-11-01,1,\n",
    )
    call("append", tmp_path / "t", rows, "--create")
    kinds = {field.name: str(field.type) for field in Table.open(str(tmp_path / "t")).schema}
    assert kinds == {
        "zip": "string",
        "n": "int64",
        "x": "double",
        "ok": "bool",
        "day": "date32[day]",
        "at": "timestamp[us, tz=UTC]",
        "late": "string",
        "name": "string",
        "none": "string",
    }
    first, second = stored(tmp_path / "t")
    assert (first["zip"], first["n"], second["n"], second["ok"]) == ("007", 1, None, False)
    assert second["at"] == datetime(2026, 11, 1, 9, 0, 0, 500_000, tzinfo=UTC)


def test_a_time_without_a_zone_is_in_utc_in_csv(call: Call, tmp_path: Path) -> None:
    call("create", tmp_path / "t", "--schema", "at timestamp")
    texts = [
        "2026-11-01T10:00:00",
        "2026-11-01 10:00",
        "2026-11-01T10:00:00Z",
        "2026-11-01T12:00:00+02:00",
        "2026-11-01",
    ]
    call("append", tmp_path / "t", file_with(tmp_path, "rows.csv", "\n".join(["AT", *texts, ""])))
    ten = datetime(2026, 11, 1, 10, tzinfo=UTC)
    assert [row["at"] for row in stored(tmp_path / "t")] == [ten] * 4 + [ten.replace(hour=0)]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "id,msg\n1,a\n\nabc,b\n",
            "line 4: 'abc' does not fit column 'id', which holds whole numbers (int).",
        ),
        ('id,msg\n1,"a\nb"\n2.5,b\n', "line 4: '2.5' does not fit column 'id'"),
        ('id,msg\n"",b\n', "line 2: '' does not fit column 'id'"),
        ("id,msg\n1,a\n\n1,2,3\n", "line 4 cannot be read: it has 3 fields, and the header 2."),
        ("id;msg\n1;a\n", "seems to be delimited by ';'"),
        ("", "is empty."),
    ],
)
def test_csv_that_does_not_fit_is_named_by_line_and_column(
    call: Call, tmp_path: Path, text: str, told: str
) -> None:
    call("create", tmp_path / "t", "--schema", "id int, msg string")
    rows = file_with(tmp_path, "rows.csv", text)
    refused = call("append", tmp_path / "t", rows, code=2).err
    assert str(rows) in refused
    assert told in refused
    assert ".." not in refused
    assert Table.open(str(tmp_path / "t")).version == 0


def test_csv_that_is_not_utf8_is_named_by_column(call: Call, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_bytes(b"id,msg\n1,caf\xe9\n")
    refused = call("append", tmp_path / "t", tmp_path / "rows.csv", "--create", code=2).err
    assert "line 2 cannot be read: the text of column 'msg' is not UTF-8." in refused


def test_a_row_of_standard_input_is_named_by_its_number(call: Call, tmp_path: Path) -> None:
    call("create", tmp_path / "t", "--schema", "id int")
    refused = call(
        "append", tmp_path / "t", "-", "--format", "csv", stdin="id\n1\nabc\n", code=2
    ).err
    assert "standard input, row 2: 'abc' does not fit column 'id'" in refused


def test_other_delimiters(call: Call, tmp_path: Path) -> None:
    rows = file_with(tmp_path, "rows.csv", "id;msg\n1;a,b\n")
    assert "--delimiter ';'" in call("append", tmp_path / "t", rows, "--create", code=2).err
    call("append", tmp_path / "t", rows, "--create", "--delimiter", ";")
    assert stored(tmp_path / "t") == [{"id": 1, "msg": "a,b"}]
    call(
        "append",
        tmp_path / "t",
        file_with(tmp_path, "tabs.csv", "id\tmsg\n2\tc\n"),
        "--delimiter",
        "tab",
    )
    assert len(stored(tmp_path / "t")) == 2
    assert "one character" in call("append", tmp_path / "t", rows, "--delimiter", "::", code=2).err
    lines = file_with(tmp_path, "rows.jsonl", '{"id": 1}\n')
    assert "goes with csv" in call("append", tmp_path / "t", lines, "--delimiter", ";", code=2).err


@pytest.mark.parametrize(("kind", "text"), [("csv", "id\n1\n"), ("jsonl", '{"id": 1}\n')])
def test_compressed_files(call: Call, tmp_path: Path, kind: str, text: str) -> None:
    packed = tmp_path / f"rows.{kind}.gz"
    packed.write_bytes(gzip.compress(text.encode()))
    call("append", tmp_path / "t", packed, "--format", kind, "--create")
    assert stored(tmp_path / "t") == [{"id": 1}]
    packed.write_bytes(gzip.compress(text.replace("1", '"x"').encode()))
    assert (
        "'x' does not fit column 'id'"
        in call("append", tmp_path / "t", packed, "--format", kind, code=2).err
    )


def test_a_header_alone_has_no_rows(call: Call, tmp_path: Path) -> None:
    call("create", tmp_path / "t", "--schema", "id int")
    assert "No rows" in call("append", tmp_path / "t", file_with(tmp_path, "rows.csv", "id\n")).out
    assert (
        "No rows"
        in call("append", tmp_path / "t", file_with(tmp_path, "rows.csv", "\ufeffid\r\n\r\n")).out
    )


def test_a_large_csv_is_read_in_parts(call: Call, tmp_path: Path) -> None:
    rows = file_with(
        tmp_path, "rows.csv", "id,msg\n" + "".join(f"{i},{'x' * 90}\n" for i in range(100_000))
    )
    call("append", tmp_path / "t", rows, "--create")
    assert Table.open(str(tmp_path / "t")).count() == 100_000
    with rows.open("a") as file:
        file.write("late,x\n")
    refused = call("append", tmp_path / "u", rows, "--create", code=2).err
    assert "line 100002: 'late' does not fit column 'id'" in refused
    assert not (tmp_path / "u").exists()


@pytest.mark.parametrize("how", ["--text", "--substring", "--partition-by"])
def test_nothing_is_created_for_columns_that_do_not_exist(
    call: Call, tmp_path: Path, how: str
) -> None:
    rows = file_with(tmp_path, "rows.csv", "id,msg\n1,a\n")
    assert "nope" in call("append", tmp_path / "t", rows, "--create", how, "nope", code=2).err
    assert not (tmp_path / "t").exists()


def test_nothing_is_created_if_a_later_file_or_line_is_bad(call: Call, tmp_path: Path) -> None:
    good = file_with(tmp_path, "good.csv", "id,msg\n1,a\n")
    ragged = file_with(tmp_path, "ragged.csv", "id,msg\n1\n")
    assert (
        "ragged.csv, line 2" in call("append", tmp_path / "t", good, ragged, "--create", code=2).err
    )
    lines = file_with(tmp_path, "rows.jsonl", '{"id": 1}\n' * 20_000 + '{"id": 2, "more": 1}\n')
    assert (
        "line 20001 has new columns: more"
        in call("append", tmp_path / "t", lines, "--create", code=2).err
    )
    assert not (tmp_path / "t").exists()


def test_a_format_that_does_not_exist(call: Call, logs: Path, tmp_path: Path) -> None:
    rows = file_with(tmp_path, "rows.csv", "ms\n1\n")
    refused = call("append", logs, rows, "--format", "xls", code=2).err
    assert "There is no format 'xls'." in refused
    assert "arrow, csv, jsonl, parquet, text, tsv" in refused


@pytest.mark.parametrize("words", [("append", "--create"), ("create", "--like")])
def test_files_that_may_not_be_read(
    call: Call, tmp_path: Path, words: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = file_with(tmp_path, "rows.csv", "ms\n1\n")
    forbid(rows, monkeypatch)
    verb, option = words
    given = (rows, option) if option == "--create" else (option, rows)
    assert f"{rows} may not be read by this user" in call(verb, tmp_path / "t", *given, code=10).err
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize(
    ("kind", "text", "said"),
    [
        ("float", "1e300", "does not fit column 'x', which holds numbers (float)"),
        ("float", "16777217", "does not fit column 'x', which holds numbers (float)"),
        ("double", "9007199254740993", "does not fit column 'x', which holds numbers (double)"),
        (
            "timestamp",
            "2026-01-01T00:00:00.123456789Z",
            "does not fit column 'x', which holds times",
        ),
        (
            "timestamp_ntz",
            "2026-01-01T00:00:00+02:00",
            "does not fit column 'x', which holds times",
        ),
    ],
)
@pytest.mark.parametrize("form", ["jsonl", "csv", "text"])
def test_a_value_is_never_changed_on_its_way_in(
    call: Call, tmp_path: Path, form: str, kind: str, text: str, said: str
) -> None:
    call("create", tmp_path / "t", "--schema", f"x {kind}, y string")
    value = f'"{text}"' if kind.startswith("timestamp") else text
    lines = {
        "jsonl": f'{{"x": null}}\n{{"x": {value}}}\n',
        "csv": f"x\n\n{text}\n",
        "text": f"{text}\n",
    }[form]
    pattern = ["--pattern", r"(?P<x>\S+)"] if form == "text" else []
    refused = call(
        "append",
        tmp_path / "t",
        file_with(tmp_path, f"rows.{form}", lines),
        "--format",
        form,
        *pattern,
        code=2,
    ).err
    assert (
        f"{text!r} {said}" in refused
        or f"{value.strip(chr(34))} {said}" in refused
        or "1e+300 does not fit" in refused
    )
    assert Table.open(str(tmp_path / "t")).version == 0


def test_nanoseconds_of_a_new_column_stay_text(call: Call, tmp_path: Path) -> None:
    text = "2026-01-01T00:00:00.123456789Z"
    call(
        "append",
        tmp_path / "t",
        file_with(tmp_path, "rows.jsonl", f'{{"x": "{text}"}}\n'),
        "--create",
    )
    assert stored(tmp_path / "t") == [{"x": text}]


def test_epoch_numbers_of_json_are_times_by_their_size(call: Call, tmp_path: Path) -> None:
    call("create", tmp_path / "t", "--schema", "x timestamp")
    lines = '{"x": 1700000000}\n{"x": 1700000000250}\n{"x": 1700000000.5}\n'
    call("append", tmp_path / "t", file_with(tmp_path, "rows.jsonl", lines))
    at = datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
    assert [row["x"] for row in stored(tmp_path / "t")] == [
        at,
        at.replace(microsecond=250_000),
        at.replace(microsecond=500_000),
    ]
    refused = call(
        "append", tmp_path / "t", file_with(tmp_path, "short.jsonl", '{"x": 5}\n'), code=2
    ).err
    assert "too small to tell seconds from milliseconds" in refused


def test_times_of_text_without_a_zone_fit_columns_without_one(call: Call, tmp_path: Path) -> None:
    call("create", tmp_path / "t", "--schema", "x timestamp_ntz")
    append = (
        "append",
        tmp_path / "t",
        file_with(tmp_path, "a.log", "2026-01-01 12:00:00,5\n"),
        "--pattern",
        "(?P<x>.*)",
    )
    call(*append)
    call(
        *append[:2],
        file_with(tmp_path, "b.log", "01.02.2026\n"),
        *append[3:],
        "--time-format",
        "x=%d.%m.%Y",
    )
    assert sorted(row["x"] for row in stored(tmp_path / "t")) == [
        datetime(2026, 1, 1, 12, 0, 0, 500_000),
        datetime(2026, 2, 1),
    ]


def test_a_nul_in_a_line_of_text_stays(call: Call, tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(b"one\n\0two\n\0\0three\0\n\xef\xbb\xbffour\n")
    call("append", tmp_path / "t", tmp_path / "a.log", "--create")
    assert [row["message"] for row in stored(tmp_path / "t")] == [
        "one",
        "\0two",
        "\0\0three\0",
        "\ufefffour",
    ]

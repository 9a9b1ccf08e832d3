"""Logs as text: five formats with one command each, counted against grep; what does not fit; files
that grow.
"""

from __future__ import annotations

import bz2
import gzip
import json
import random
import signal
import subprocess
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from indextables import Table
from indextables.cli.rows_in.text_lines import TextFormat, compile_pattern, time_parser
from indextables.errors import InvalidInputError
from tests.cli.calls import COMMAND, Call

LINES = 400
START = datetime(2026, 11, 1, tzinfo=UTC)


def combined(n: int, chance: random.Random) -> str:
    at = (START + timedelta(seconds=37 * n)).strftime("%d/%b/%Y:%H:%M:%S +0000")
    status = chance.choice((200, 200, 304, 404, 500))
    request = chance.choice(
        ("GET /cart?id=7 HTTP/1.1", "POST /api/v1/pay HTTP/2.0", "GET / HTTP/1.0")
    )
    agent = '"https://shop.example/" "Mozilla/5.0 \\"x\\""'
    return f'10.0.{n % 9}.{n % 200} - alice [{at}] "{request}" {status} {n * 3 or "-"} {agent}'


def common(n: int, chance: random.Random) -> str:
    return combined(n, chance).split(' "https')[0]


def syslog(n: int, chance: random.Random) -> str:
    at = datetime(2020, 3, 1 + n % 28, n % 24, n % 60, 7).strftime("%b %e %H:%M:%S")
    what = chance.choice(("Failed password for root", "session opened"))
    return f"{at} web-{n % 3} {chance.choice(('sshd', 'cron', 'kernel'))}[{n}]: {what} {n}"


def rfc5424(n: int, chance: random.Random) -> str:
    at = (START + timedelta(seconds=n)).strftime("%Y-%m-%dT%H:%M:%S.123Z")
    level = chance.choice((3, 6))
    return f'<{8 * 16 + level}>1 {at} host{n % 2} app {n} ID47 [meta a="b\\]c" x="1"] the event number {n}'


def application(n: int, chance: random.Random) -> str:
    at = (START + timedelta(seconds=n)).strftime("%Y-%m-%d %H:%M:%S,250")
    level = chance.choice(("INFO", "WARN", "ERROR"))
    trace = (
        "\n\tat com.shop.Cart.add(Cart.java:41)\nCaused by: java.io.IOException: timeout"
        if level == "ERROR"
        else ""
    )
    return f"{at} [worker-{n % 4}] {level}  com.shop.Cart - request {n} took {n / 7:.3f} ms{trace}"


APPLICATION = r"%{TIMESTAMP_ISO8601:ts} \[%{NOTSPACE:thread}\] %{LOGLEVEL:level} +%{NOTSPACE:logger} - %{GREEDYDATA:message}"
CASES: dict[str, tuple[Callable[[int, random.Random], str], list[str], str, str, str]] = {
    "combined": (combined, ["--pattern", "combined"], '" 500 ', "status = 500", "status"),
    "common": (common, ["--pattern", "common"], "POST /api", "method = 'POST'", "bytes"),
    "syslog": (
        syslog,
        ["--pattern", "syslog"],
        "Failed password",
        "message LIKE 'Failed password%'",
        "pid",
    ),
    "rfc5424": (rfc5424, ["--pattern", "rfc5424"], "^<131>", "priority = 131", "ts"),
    "application": (
        application,
        ["--pattern", APPLICATION, "--continuation", r"\s|Caused by"],
        "] ERROR ",
        "level = 'ERROR'",
        "ts",
    ),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("packed", ["", ".gz", ".bz2"])
def test_five_formats_with_one_command_each(
    call: Call, tmp_path: Path, name: str, packed: str
) -> None:
    make, options, words, condition, column = CASES[name]
    chance = random.Random(5)
    text = "".join(f"{make(n, chance)}\n" for n in range(LINES))
    plain, file = tmp_path / "plain", tmp_path / f"{name}.log{packed}"
    plain.write_text(text, "utf-8")
    {"": Path.write_bytes, ".gz": _gzip, ".bz2": _bzip2}[packed](file, text.encode())
    prose = {"combined": "agent", "common": "path"}.get(name, "message")
    call("append", tmp_path / "t", file, "--create", "--text", prose, *options)
    table = Table.open(str(tmp_path / "t"))
    counted = subprocess.run(
        ["grep", "-c", words, str(plain)], capture_output=True, text=True, check=True
    )
    assert table.count() == LINES and table.count(where=condition) == int(counted.stdout) > 0
    assert table.count(where=f"{column} IS NOT NULL") >= LINES - 1
    if name == "application":
        assert table.count(query='message:"Caused by"') == table.count(where=condition)


def _gzip(path: Path, data: bytes) -> int:
    return path.write_bytes(gzip.compress(data))


def _bzip2(path: Path, data: bytes) -> int:
    return path.write_bytes(bz2.compress(data))


def test_values_have_their_types(call: Call, tmp_path: Path) -> None:
    file = tmp_path / "a.log"
    file.write_text(
        '1.2.3.4 - - [01/Nov/2026:10:00:00 +0200] "GET /x HTTP/1.1" 200 5 "-" "curl" extra\n'
    )
    call("append", tmp_path / "t", file, "--create", "--pattern", "combined")
    row = next(iter(Table.open(str(tmp_path / "t"))))
    assert row["ts"] == datetime(2026, 11, 1, 8, tzinfo=UTC)
    assert (row["status"], row["bytes"], row["path"], row["request"], row["agent"]) == (
        200,
        5,
        "/x",
        None,
        "curl",
    )


def test_without_a_pattern_a_line_is_a_message(call: Call, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text("one\n\ntwo\r\n")
    (tmp_path / "in" / "b.log").write_text("three")
    (tmp_path / "in" / ".hidden.log").write_text("not this")
    (tmp_path / "in" / "c.xyz").write_text("nor this")
    call("append", tmp_path / "t", tmp_path / "in", "--create", "--text", "message")
    assert [row["message"] for row in Table.open(str(tmp_path / "t"))] == ["one", "two", "three"]
    call("append", tmp_path / "t", tmp_path / "in" / "*.log", "--format", "text")
    assert len(Table.open(str(tmp_path / "t"))) == 4
    call("append", tmp_path / "t", "-", "--format", "text", stdin="four\nfive\n")
    assert len(Table.open(str(tmp_path / "t"))) == 6
    assert "There is no file in" in call("append", tmp_path / "t", tmp_path / "*.none", code=3).err


def test_encodings(call: Call, tmp_path: Path) -> None:
    (tmp_path / "l.txt").write_bytes("größe\n".encode("latin-1"))
    (tmp_path / "u.txt").write_bytes("größe\n".encode("utf-16"))
    assert (
        "is not utf-8" in call("append", tmp_path / "t", tmp_path / "l.txt", "--create", code=2).err
    )
    call("append", tmp_path / "t", tmp_path / "l.txt", "--create", "--encoding", "latin-1")
    call("append", tmp_path / "t", tmp_path / "u.txt", "--encoding", "utf-16")
    assert [row["message"] for row in Table.open(str(tmp_path / "t"))] == ["größe", "größe"]


def test_lines_that_do_not_match(call: Call, tmp_path: Path) -> None:
    file = tmp_path / "a.log"
    file.write_text("a=1\nodd\na=2\n")
    words = ("append", tmp_path / "t", file, "--create", "--pattern", "a=%{INT:a}")
    failed = call(*words, code=2)
    assert (
        "line 2 does not match the pattern: 'odd'" in failed.err and not (tmp_path / "t").exists()
    )
    skipped = call(*words, "--unmatched", "skip")
    assert (
        "1 line did not match and was left out" in skipped.err
        and len(Table.open(str(tmp_path / "t"))) == 2
    )
    call("append", tmp_path / "k", *words[2:], "--unmatched", "keep")
    assert list(Table.open(str(tmp_path / "k"))) == [
        {"a": 1, "unmatched": None},
        {"a": None, "unmatched": "odd"},
        {"a": 2, "unmatched": None},
    ]


@pytest.mark.parametrize(
    ("form", "said"),
    [
        (TextFormat("(?P<a>x"), "is no regular expression"),
        (TextFormat("abc"), "no named part"),
        (TextFormat("%{NUMBR:a}"), "names %{NUMBR}"),
        (TextFormat("%{INT:a:money}"), "no type 'money'"),
        (TextFormat("(?P<a>x)", time_format="%Y"), "which column --time-format is for"),
        (TextFormat(encoding="klingon"), "no encoding"),
        (TextFormat(unmatched="maybe"), "cannot be 'maybe'"),
    ],
)
def test_what_cannot_be_meant_is_refused(form: TextFormat, said: str) -> None:
    with pytest.raises(InvalidInputError, match=said):
        form.check()


def test_options_of_text_are_refused_for_other_files(call: Call, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a\n1\n")
    assert (
        "are for text"
        in call(
            "append", tmp_path / "t", tmp_path / "a.csv", "--create", "--pattern", "syslog", code=2
        ).err
    )


def test_times_are_read_as_they_are_written(call: Call, tmp_path: Path) -> None:
    assert time_parser("epoch")("1700000000") == datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
    assert time_parser("epoch_ms")("1700000000500").microsecond == 500_000
    assert time_parser("iso")("2026-11-01 10:00:00,250").microsecond == 250_000
    year_less = time_parser("%b %d %H:%M:%S")
    assert year_less("Jan  1 00:00:00") <= datetime.now(UTC) + timedelta(days=1)
    assert compile_pattern(TextFormat("(?P<ts>.*)", time_format="%d.%m.%Y")).formats == {
        "ts": "%d.%m.%Y"
    }
    (tmp_path / "a.log").write_text("31.12.2025 x\n")
    words = (
        "append",
        tmp_path / "t",
        tmp_path / "a.log",
        "--create",
        "--pattern",
        r"(?P<ts>\S+) (?P<what>\w+)",
    )
    call(*words, "--time-format", "ts=%d.%m.%Y")
    assert next(iter(Table.open(str(tmp_path / "t"))))["ts"] == datetime(2025, 12, 31, tzinfo=UTC)
    wrong = call(*words, "--time-format", "%Y", code=2).err
    assert "line 1: '31.12.2025' does not fit column 'ts'" in wrong


def follower(table: Path, file: Path) -> subprocess.Popen[str]:
    words = (
        "append",
        table,
        file,
        "--create",
        "--follow",
        "--interval",
        "0.05",
        "--pattern",
        "n=%{INT:n}",
        "--json",
    )
    return subprocess.Popen(
        [COMMAND, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def numbers(table: Path) -> list[int]:
    try:
        return sorted(row["n"] for row in Table.open(str(table)))
    except InvalidInputError:
        return []
    except Exception as error:
        assert "no table" in str(error).lower(), error
        return []


def wait_for(table: Path, count: int) -> None:
    deadline = time.monotonic() + 60
    while len(numbers(table)) < count and time.monotonic() < deadline:
        time.sleep(0.1)
    assert numbers(table) == list(range(count))


def test_a_growing_file_is_followed_through_kills_and_rotation(tmp_path: Path) -> None:
    file, table = tmp_path / "app.log", tmp_path / "t"
    file.write_text("n=0\nn=1\n\nn=2")  # the last line is not whole yet
    running = follower(table, file)
    wait_for(table, 2)
    with file.open("a") as more:
        more.write("\nn=3\n")
    wait_for(table, 4)
    running.send_signal(signal.SIGKILL)
    running.communicate(timeout=60)
    with file.open("a") as more:
        more.write("n=4\nn=5")
    running = follower(table, file)
    wait_for(table, 5)
    file.replace(tmp_path / "app.log.1")
    file.write_text("n=6\n")
    wait_for(table, 7)
    running.send_signal(signal.SIGINT)
    out, _ = running.communicate(timeout=60)
    assert json.loads(out[out.rindex("{") :])["rows"] == 7


def test_only_one_plain_file_is_followed(call: Call, tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("x\n")
    (tmp_path / "b.log").write_text("x\n")
    base = ("append", tmp_path / "t", "--create", "--follow")
    assert (
        "Only one growing file" in call(*base, tmp_path / "a.log", tmp_path / "b.log", code=2).err
    )
    assert (
        "does not go with --follow"
        in call(*base, tmp_path / "a.log", "--continuation", r"\s", code=2).err
    )


def test_blank_lines_are_counted_in_the_report(call: Call, tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("one\n\n \t\ntwo\n\x1c\n\n")
    (tmp_path / "b.jsonl").write_text('\n{"message": "three"}\n\n')
    told = call("append", tmp_path / "t", tmp_path / "a.log", "--create", "--json")
    assert (told.json["blank_lines"], told.json["unmatched_lines"]) == (3, 0)
    assert f"{tmp_path}/a.log: 3 blank lines were left out." in told.err
    assert [row["message"] for row in Table.open(str(tmp_path / "t"))] == ["one", "two", "\x1c"]
    told = call("append", tmp_path / "t", tmp_path / "b.jsonl", "--json")
    assert told.json["blank_lines"] == 2 and "2 blank lines were left out" in told.err
    (tmp_path / "c.log").write_text("a=1\n\nodd\n")
    words = (
        "append",
        tmp_path / "k",
        tmp_path / "c.log",
        "--create",
        "--pattern",
        "a=%{INT:a}",
        "--unmatched",
        "skip",
    )
    told = call(*words, "--json")
    assert (told.json["blank_lines"], told.json["unmatched_lines"]) == (1, 1)
    (tmp_path / "d.log").write_text("a=2\n")
    whole = ("append", tmp_path / "k", tmp_path / "d.log", "--pattern", "a=%{INT:a}")
    assert call(*whole, "--json").json["blank_lines"] == 0 and call(*whole).err == ""

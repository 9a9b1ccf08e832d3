"""The command as a process: wrong inputs, terminals, pipes, following, and the page in a browser."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from indextables import Table
from indextables.cli.app import VERBS
from indextables.cli.verbs.search import follow
from indextables.errors import ConflictError
from tests.cli.calls import COMMAND, Call, on_terminal, process

ESCAPE = "\x1b["


def test_a_misspelt_option_a_missing_table_and_a_bad_query_say_what_to_do(made_once: Path) -> None:
    option = process("search", made_once, "gateway", "--limt", "3")
    assert (option.code, option.out) == (2, "")
    assert "--limit" in option.err
    missing = process("search", made_once / "nowhere", "gateway")
    assert missing.code == 3
    assert "Hint: Check the path, or create a table there" in missing.err
    query = process("search", made_once, "message:(gateway")
    assert query.code == 2
    assert "not closed at position 8" in query.err
    assert "Hint: Add a closing )." in query.err
    assert "Traceback" not in option.err + missing.err + query.err


def test_misspelt_verbs_and_settings_are_recognised(made_once: Path) -> None:
    assert "Did you mean 'search'" in process("serch", made_once).err
    setting = process("count", made_once, "-o", "read.paralelism=3")
    assert (setting.code, "'read.parallelism'" in setting.err) == (2, True)
    assert process("count", made_once, "-o", "nothing").code == 2


@pytest.mark.parametrize(
    ("verb", "here"),
    [
        ("vacuum", "indextables purge"),
        ("optimize", "indextables merge"),
        ("untag", "indextables tag PATH NAME --remove"),
        ("insert", "indextables append"),
        ("select", "indextables query"),
        ("schema", "indextables describe"),
        ("head", "indextables scan PATH --limit 5"),
    ],
)
def test_verbs_of_other_tools_are_answered_with_ours(
    verb: str, here: str, call: Call, made_once: Path
) -> None:
    told = json.loads(call(verb, made_once, "--json", code=2).err)["error"]
    assert told["message"] == f"No such command '{verb}'. Here it is `{here}`."
    assert here.split()[1] in VERBS


def test_errors_are_json_when_asked_for_and_debug_shows_where(made_once: Path) -> None:
    told = json.loads(process("count", made_once / "nowhere", "--json").err)["error"]
    assert (told["kind"], sorted(told)) == (
        "table_not_found",
        ["context", "hint", "kind", "message"],
    )
    shown = process("count", made_once / "nowhere", "--debug")
    assert "Traceback" in shown.err
    assert shown.code == 3


def test_a_search_is_coloured_on_a_terminal_only(made_once: Path) -> None:
    shown = on_terminal("search", made_once, "gateway")
    assert "gateway" in shown.out
    assert ESCAPE in shown.out
    assert "1 of 1 matches in version 2" in shown.out
    plain = re.sub(r"\x1b\[[0-9;]*m", "", shown.out)
    assert "timeout while waiting for the gateway\n" in plain
    assert ESCAPE not in process("search", made_once, "gateway").out


def test_no_color_is_respected(made_once: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert ESCAPE not in on_terminal("search", made_once, "gateway").out


def test_tables_and_reports_are_drawn_on_a_terminal(made_once: Path) -> None:
    assert "day=2026-11-02" in on_terminal("partitions", made_once).out
    assert "size_bytes" in on_terminal("describe", made_once).out


def test_somebody_is_asked_and_may_say_no(logs: Path) -> None:
    words = ("delete", logs, "--where", "level = 'INFO'")
    refused = on_terminal(*words, typed="n\n")
    assert refused.code == 9
    assert "Delete these rows" in refused.out
    assert process("count", logs).out == "3\n"
    assert on_terminal(*words, typed="y\n").code == 0
    assert process("count", logs).out == "2\n"


def test_a_reader_that_stops_early_is_no_error(made_once: Path) -> None:
    done = subprocess.run(
        f"{COMMAND} scan {made_once} | head -1",
        shell=True,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("day\tlevel\tms\tmessage\n", "")


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_closed_pipe_ends_a_scan_quietly(logs: Path, call: Call, unbuffered: str) -> None:
    lines = "".join(f'{{"message": "{"x" * 90} {i}"}}\n' for i in range(5000))
    call("append", logs, "-", "--format", "jsonl", stdin=lines)
    words = [COMMAND, "scan", str(logs)]
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
    ) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdout.readline()
        running.stdout.close()
        assert (running.stderr.read(), running.wait()) == (b"", 0)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("search", "t", "x", "--limit", "-1"), "--limit"),
        (("search", "t", "x", "--limt", "1"), "--limit"),
        (("serch", "t"), "search"),
        (("search",), "PATH"),
    ],
)
def test_a_wrong_call_is_told_as_json(words: tuple[str, ...], told: str) -> None:
    answer = process(*words, "--json")
    error = json.loads(answer.err)["error"]
    assert (answer.code, answer.out, error["kind"], sorted(error)) == (
        2,
        "",
        "invalid_input",
        ["context", "hint", "kind", "message"],
    )
    assert told in error["message"]
    assert "--help" in error["hint"]


def test_refusals_are_one_json_object_with_the_plan_in_it(logs: Path) -> None:
    refused = process("delete", logs, "--where", "level = 'INFO'", "--json")
    error = json.loads(refused.err)["error"]
    assert (refused.code, error["kind"], error["context"]["plan"]["status"]) == (
        9,
        "refused",
        "dry_run",
    )
    refused = process("overwrite", logs, logs / "none.csv", "--json")
    assert json.loads(refused.err)["error"]["context"]["plan"] == {"replaced_rows": 3, "rows": 3}


def test_a_port_in_use_is_named(made_once: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        answer = process("ui", made_once, "--port", port, "--no-open")
    assert (answer.code, f"Port {port} of 127.0.0.1 is in use" in answer.err) == (2, True)
    assert "--port 0" in answer.err


@pytest.fixture
def following(logs: Path) -> Iterator[subprocess.Popen[str]]:
    words = (
        "search",
        logs,
        "level:ERROR OR third",
        "--follow",
        "--interval",
        "0.05",
        "--json",
        "--columns",
        "message",
    )
    running = subprocess.Popen(
        [COMMAND, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    yield running
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=60)


def test_follow_shows_new_matches_once(
    following: subprocess.Popen[str], logs: Path, call: Call
) -> None:
    assert following.stdout is not None
    first = {json.loads(following.stdout.readline())["message"] for _ in range(2)}
    assert first == {"timeout while waiting for the gateway", "disk full on data2"}
    call(
        "append",
        logs,
        "-",
        "--format",
        "jsonl",
        stdin='{"day":"2026-11-02","level":"ERROR","message":"third"}\n',
    )
    assert json.loads(following.stdout.readline()) == {
        "message": "third",
        "_snippet": "<b>third</b>",
    }
    call("merge", logs)
    call("delete", logs, "--where", "message = 'disk full on data2'", "--yes")
    lines = '{"level":"INFO","message":"quiet"}\n{"level":"ERROR","message":"fourth"}\n'
    call("append", logs, "-", "--format", "jsonl", stdin=lines)
    assert json.loads(following.stdout.readline())["message"] == "fourth"


@pytest.mark.parametrize("commits", [1, 5])
def test_another_table_at_the_path_is_not_followed(tmp_path: Path, commits: int) -> None:
    path, schema = str(tmp_path / "t"), pa.schema([("id", pa.int64())])
    for n in range(3):
        (Table.create(path, schema=schema) if n == 0 else Table.open(path)).append(
            pa.table({"id": [n]})
        )
    found = follow(
        Table.open(path), "id:>=0", where=None, columns=None, snippet=None, interval=0.05
    )
    shutil.rmtree(path)
    for n in range(commits):
        (Table.create(path, schema=schema) if n == 0 else Table.open(path)).append(
            pa.table({"id": [100 + n]})
        )
    with pytest.raises(ConflictError, match="is another one than before"):
        next(found)


def test_an_older_version_cannot_be_followed(call: Call, made_once: Path) -> None:
    assert (
        "does not grow"
        in call("search", made_once, "x", "--follow", "--version-as-of", "1", code=2).err
    )


@pytest.fixture
def page(made_once: Path) -> Iterator[str]:
    words = [COMMAND, "ui", str(made_once), "--port", "0", "--no-open", "--json"]
    running = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert running.stdout is not None
    yield json.loads("".join(running.stdout.readline() for _ in range(3)))["address"]
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=60)


def fetched(address: str, host: str | None = None) -> tuple[int, str]:
    request = urllib.request.Request(address, headers={} if host is None else {"Host": host})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_the_explorer_searches_and_shows_the_report(page: str) -> None:
    status, shown = fetched(page)
    assert (status, 'action="search"' in shown, "Version 2" in shown) == (200, True, True)
    table = f"{page}t/logs/"
    status, shown = fetched(f"{table}search?q=gateway")
    assert (status, "<mark>gateway</mark>" in shown, "Hits 1 to 1" in shown) == (200, True, True)
    status, shown = fetched(f"{table}search?q=%28")
    assert (status, "Traceback" in shown) == (400, False)
    status, shown = fetched(f"{table}report")
    assert (status, "version 2" in shown) == (200, True)
    assert fetched(f"{page}other")[0] == 404
    assert fetched(page, host="evil.example:80")[0] == 403


def test_the_page_is_for_who_was_told_its_address(page: str) -> None:
    """Every user of the machine can reach the port; the secret in the address cannot be guessed or
    left out.
    """
    root, token = page.rstrip("/").rsplit("/", 1)
    assert len(token) >= 32
    for address in (
        "/",
        "/t/logs/search?q=gateway",
        f"/{token[:-1]}/",
        f"/{token}x/t/logs/search?q=gateway",
        "/%C3%A9/",
    ):
        status, shown = fetched(f"{root}{address}")
        assert (status, "gateway" in shown, token in shown) == (403, False, False), address
    assert fetched(f"{root}/{token}/t/logs/search?q=gateway")[0] == 200
    with urllib.request.urlopen(page, timeout=60) as answer:
        assert answer.headers["Referrer-Policy"] == "no-referrer"
        assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"]
        assert token not in answer.read().decode()


def test_the_search_service_answers_who_has_the_token(made_once: Path) -> None:
    words = [COMMAND, "serve", str(made_once), "--port", "0", "--json"]
    running = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert running.stdout is not None
    told = json.loads("".join(running.stdout.readline() for _ in range(4)))
    address = f"{told['address']}/{told['token']}/logs/_search?q=gateway"
    assert json.loads(fetched(address)[1])["hits"]["total"]["value"] == 1
    assert fetched(f"{told['address']}/logs/_search?q=gateway")[0] == 401
    assert fetched(address, host="evil.example:80")[0] == 403
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=60)
    assert "at least 16 characters" in process("serve", made_once, "--token", "short").err
    unused = process("serve", made_once, "--write-token", "x" * 16, "--create").err
    assert "the write token is not used: --write is missing" in unused


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help_with_an_example_and_json(call: Call, verb: str) -> None:
    shown = call(verb, "--help").out
    assert f"indextables {verb}" in shown
    assert "Example" in shown
    assert "--json" in shown
    assert "--debug" in shown


def test_the_verbs_are_listed_and_the_release_is_told(call: Call) -> None:
    listed = call("--help").out
    assert all(f" {verb} " in listed for verb in VERBS)
    assert call("--version").out.startswith("indextables 0.")


def test_snippets_on_a_terminal_and_in_a_pipe_are_text_and_not_html(
    call: Call, tmp_path: Path
) -> None:
    text = 'timeout of "pay" & <cart> after 5 > 3'
    (tmp_path / "a.log").write_text(f"{text}\n")
    call("append", tmp_path / "t", tmp_path / "a.log", "--create", "--text", "message")
    shown = re.sub(r"\x1b\[[0-9;]*m", "", on_terminal("search", tmp_path / "t", "timeout").out)
    assert text in shown and "&quot;" not in shown and "&lt;" not in shown
    piped = process("search", tmp_path / "t", "timeout", "--snippet", "message").out
    assert text in piped and "&amp;" not in piped


@pytest.mark.parametrize("as_json", [False, True])
def test_ctrl_c_reports_what_was_committed(tmp_path: Path, as_json: bool) -> None:
    (tmp_path / "a.log").write_text("one\n")
    words = [
        COMMAND,
        "append",
        str(tmp_path / "t"),
        str(tmp_path / "a.log"),
        "--create",
        "--follow",
        "--interval",
        "0.05",
    ]
    running = subprocess.Popen(
        [*words, *(["--json"] if as_json else [])],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert running.stdout is not None and running.stdout.readline()
    running.send_signal(signal.SIGINT)
    _, told = running.communicate(timeout=60)
    assert running.returncode == 130 and len(told.splitlines()) == 1
    message = json.loads(told)["error"]["message"] if as_json else told
    assert re.search(rf"Interrupted after \d+ versions? of {tmp_path}/t w\w+ committed\.", message)
    assert "Traceback" not in told


def test_ctrl_c_before_a_commit_says_so(made_once: Path) -> None:
    running = subprocess.Popen(
        [COMMAND, "search", str(made_once), "gateway", "--follow"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert running.stdout is not None and running.stdout.readline()
    running.send_signal(signal.SIGINT)
    _, told = running.communicate(timeout=60)
    assert (running.returncode, told) == (130, "Interrupted before a commit was completed.\n")


def test_a_folder_of_links_to_tables_shows_the_tables(
    call: Call, made_once: Path, tmp_path: Path
) -> None:
    aliases = tmp_path / "aliases"
    aliases.mkdir()
    (aliases / "mine").symlink_to(made_once)
    (aliases / "circle").symlink_to(aliases)
    rows = json.loads(call("query", "SELECT count(*) AS n FROM mine", aliases, "--json").out)
    assert rows == [{"n": 3}]

"""Fuzzed words: queries, predicates, statements and calls of the command line."""

from __future__ import annotations

import random
from collections.abc import Callable

from typer.testing import CliRunner

from indextables import Table, sql
from indextables.cli.app import app
from indextables.errors import IndexTablesError
from tests.torture.fuzz_values import TEXTS, text_changed

LONG = 200_000


def _pieces(text: str) -> tuple[str, ...]:
    return (*text.split("|"), "9" * 400)


QUERY = _pieces(
    'message:disk|disk|id:[1 TO 5]|id:>3|AND|OR|NOT|(|)|"|"disk full"|~2|^2|*|?|message:/d.*k/|'
    "message:d?sk|level:INFO|+|-|:|\\|[|]|{|}|TO|IN|1e400|data.a:1|message:*|ip:10.0.0.0/8|"
    "when:[2026-01-01 TO *]|message:(a b)|é|\u0000|day:2026|none:x"
)
PREDICATE = _pieces(
    "id|message|level|day|when|amount|data|ip|=|<>|<|>=|AND|OR|NOT|(|)|IN|LIKE|BETWEEN|IS NULL|"
    "IS NOT NULL|'disk%'|'|''|5|-5|1e400|0x1|1.5BD|DATE '2026-01-01'|TIMESTAMP '2026-01-01 00:00:00'|true|"
    "null|`message`|data.a|,|X'AB'|<=>|RLIKE '(a+)+$'|CAST(id AS string)|upper(message)|STARTSWITH|"
    "INTERVAL 1 DAY|CASE|*|/|%|;"
)
STATEMENT = _pieces(
    "MERGE SPLITS|PURGE INDEXTABLE|TRUNCATE INDEXTABLES TIME TRAVEL|CHECKPOINT INDEXTABLES|"
    "COMPACT INDEXTABLES|DESCRIBE INDEXTABLES|STATE|TRANSACTION LOG|INCLUDE ALL|"
    "DROP INDEXTABLES PARTITIONS FROM|WHERE|DRY RUN|TARGET SIZE 1M|OLDER THAN 5 DAYS|'{path}'|"
    "delta.`{path}`|FROM|INDEXTABLES|RESTORE|TO VERSION 1|PREWARM INDEXTABLES CACHE|"
    "FLUSH INDEXTABLES DISK CACHE|SHOW|VERIFY|REPAIR|day = '2026-11-15'|99999999999|;|--|/*|MAX GROUPS 3|"
    "TX LOG RETENTION|DEST SPLITS|SELECT 1|DELETE FROM|OPTIMIZE|USING|SET"
)
VERBS = _pieces(
    "describe|files|history|search|read|count|aggregate|explain|append|overwrite|create|merge|purge|"
    "truncate|checkpoint|compact|verify|restore|delete|drop-partitions|configure|settings|state|log|diff|"
    "sql|report|repair|cache|sizes|schema|skipped|nonsense|info"
)
FLAGS = _pieces(
    "--json|--limit|--where|-w|-q|--query|--columns|-c|-o|--option|--version-as-of|--dry-run|"
    "--timestamp-as-of|-n|-y|--yes|--help|--to|--format|--text|--schema|--partition-by|--nonsense"
)


def words(rng: random.Random, pieces: tuple[str, ...]) -> str:
    """Some pieces one after another; sometimes spoilt, sometimes very long or very deep."""
    choice = rng.random()
    if choice < 0.04:
        return (
            rng.choice(pieces)
            + rng.choice(["x", "(", "a ", "a.", "NOT ", "'", '"', "*", "-", "[", "a:", "\\"]) * LONG
        )
    if choice < 0.08:
        joined = rng.choice([" ", " OR ", " AND ", ",", ")", "."])
        return joined.join(rng.choice(pieces) for _ in range(rng.choice([500, 5_000])))
    if choice < 0.12:
        depth = rng.choice([50, 99, 101, 1_000, 50_000])
        return "(" * depth + rng.choice(pieces) + ")" * depth
    text = rng.choice([" ", " ", ""]).join(
        rng.choice(pieces) for _ in range(rng.choice([1, 2, 3, 4, 6, 10]))
    )
    return text_changed(text, rng) if choice < 0.4 else text


def query(table: Table, rng: random.Random) -> str:
    """A search, a count or an aggregation by any words."""
    text = words(rng, QUERY)
    action: Callable[[], object] = rng.choice(
        [
            lambda: table.search(text, limit=rng.choice([1, 10, 10**9])),
            lambda: table.search(text, limit=3, snippet="message"),
            lambda: table.count(query=text),
            lambda: table.explain(query=text),
        ]
    )
    _ours(action)
    return text


def predicate(table: Table, rng: random.Random) -> str:
    """A condition of any words."""
    text = words(rng, PREDICATE)
    action: Callable[[], object] = rng.choice(
        [
            lambda: table.scan(where=text).read_all(),
            lambda: table.files(where=text),
            lambda: table.count(where=text),
            lambda: table.delete(where=text, dry_run=True),
            lambda: table.drop_partitions(text, dry_run=True),
        ]
    )
    _ours(action)
    return text


def statement(table: Table, rng: random.Random) -> str:
    """A statement of any words."""
    text = words(rng, STATEMENT).replace("{path}", table.path)
    if rng.random() < 0.5:
        text += f" '{table.path}' " + words(rng, STATEMENT).replace("{path}", table.path)
    _ours(lambda: sql(text))
    return text


def command(table: Table, rng: random.Random) -> str:
    """A call of the command line by any arguments; it ends with a code of its own and never with a
    traceback.
    """
    given = [rng.choice(VERBS), table.path]
    for _ in range(rng.randrange(5)):
        given.append(
            rng.choice(
                [
                    rng.choice(FLAGS),
                    rng.choice(TEXTS[:-3]),
                    words(rng, QUERY)[:5_000],
                    words(rng, PREDICATE)[:5_000],
                    "3",
                ]
            )
        )
    # Files that a call writes go beside the table, wherever it is told to put them.
    given = [
        word.replace("\x00", "") for word in given if not word.startswith(("/etc", "C:\\", "s3:"))
    ]
    result = CliRunner().invoke(app, given, input="", env={"COLUMNS": "100"})
    if result.exception is not None and not isinstance(
        result.exception, SystemExit | IndexTablesError
    ):
        raise result.exception
    return " ".join(given)


def _ours(action: Callable[[], object]) -> None:
    try:
        action()
    except IndexTablesError as error:
        if len(str(error)) > 50_000:
            raise AssertionError(f"an error of {len(str(error))} characters") from error


WORDS: dict[str, Callable[[Table, random.Random], str]] = {
    "queries": query,
    "predicates": predicate,
    "statements": statement,
    "calls": command,
}

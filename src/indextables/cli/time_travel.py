"""Time travel in SQL for DuckDB: `logs VERSION AS OF 3`, `logs@v3` and `logs TIMESTAMP AS OF
'2026-11-01'`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from msgspec import Struct

_TOKEN = re.compile(
    r"""(?P<skipped>\s+|--[^\n]*|/\*.*?\*/)
    |(?P<text>'(?:[^']|'')*')
    |(?P<quoted>"(?:[^"]|"")*")
    |(?P<at>@v\d+)
    |(?P<word>\w+)
    |(?P<sign>.)""",
    re.VERBOSE | re.DOTALL,
)
_SPELLING = re.compile(r"(VERSION|TIMESTAMP) AS OF")


class TableVersion(Struct, frozen=True):
    """A version of a table in a statement, and the view that replaces it."""

    table: str
    view: str
    version: int | str | None = None
    timestamp: str | None = None


class _Token(Struct, frozen=True):
    kind: str
    text: str
    start: int
    end: int


def replace_versions(
    statement: str, tables: Collection[str], reserved: Collection[str]
) -> tuple[str, list[TableVersion]]:
    """Return the statement with a view in place of each version of a table, and the versions.

    Args:
        statement: SQL of DuckDB, with clauses of time travel behind names of tables.
        tables: The names of the tables.
        reserved: Keywords in lower case that cannot be an alias.
    """
    names = {name.lower(): name for name in tables}
    tokens = list(_tokens(statement))
    versions: list[TableVersion] = []
    parts: list[str] = []
    copied = number = 0
    while number < len(tokens):
        token = tokens[number]
        if token.kind in ("word", "quoted"):
            name = names.get(token.text.strip('"').lower())
        else:
            name = None
        if name is None:
            clause = None
        else:
            clause = _read_clause(tokens[number + 1 :])
        if name is None or clause is None:
            number += 1
            continue
        length, version, timestamp = clause
        view = f"{name}__{len(versions) + 1}_at"
        versions.append(TableVersion(name, view, version, timestamp))
        following = number + 1 + length
        if _has_alias(tokens[following:], reserved):
            alias = ""
        else:
            alias = f" AS {token.text}"
        parts += [statement[copied : token.start], view, alias]
        copied, number = tokens[following - 1].end, following
    return "".join([*parts, statement[copied:]]), versions


def _tokens(statement: str) -> Iterator[_Token]:
    for match in _TOKEN.finditer(statement):
        if match.lastgroup != "skipped":
            yield _Token(str(match.lastgroup), match[0], *match.span())


def _read_clause(tokens: list[_Token]) -> tuple[int, int | str | None, str | None] | None:
    """Return how many tokens a clause of time travel has, and its version or timestamp; None if
    there is none.
    """
    if tokens and tokens[0].kind == "at":
        return 1, int(tokens[0].text[2:]), None
    match = _SPELLING.fullmatch(" ".join(token.text.upper() for token in tokens[:3]))
    if match is None or len(tokens) < 4:
        return None
    value = tokens[3]
    if value.kind == "text":
        plain = value.text[1:-1].replace("''", "'")
        if match[1] == "VERSION":
            return (4, plain, None)
        return (4, None, plain)
    if match[1] == "VERSION" and value.text.isdecimal():
        return 4, int(value.text), None
    return None


def _has_alias(tokens: list[_Token], reserved: Collection[str]) -> bool:
    if not tokens:
        return False
    is_keyword = tokens[0].kind == "word" and tokens[0].text.lower() in reserved
    return (
        tokens[0].text.upper() == "AS"
        or tokens[0].kind == "quoted"
        or (tokens[0].kind == "word" and not is_keyword)
    )

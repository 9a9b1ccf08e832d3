"""Statements as people type them."""

from __future__ import annotations

import random

from indextables.commands.parser import STATEMENTS as GRAMMAR
from tests.unit.commands.statements import STATEMENTS

LEADS = list(GRAMMAR)

LINES = r"""
WHERE TARGET SIZE MAX DEST SOURCE SPLITS PER MERGE DRY RUN OLDER THAN DAYS HOURS TO TRANSACTION LOG RETENTION VERSION
TIMESTAMP FULL INCLUDE ALL LIMIT ON FIELDS AT LOCATION FOR AND OR NOT IN BETWEEN LIKE ESCAPE IS NULL TRUE CAST AS DATE
startswith SELECT FROM TABLE INTO INDEXTABLES PURGE x day größe _ 2026_logs 100M 1G 9e9e9 '/p' "s3://b/p" `a` ''
'2026-01-01' r'\' X'0a' X'zz' '\u0041' '\ud800' 'it''s' 7 0 1.5 -3 1e400 1e99999999999999999999 .5 5L 5D 5BD 5. .. 1..2
= <=> <> ! < ( ) , . ; * / ? : $ { \ ' " ` @ % | -- /* */ /*+ 😀 ١ ²
""".strip().splitlines()

BLANKS = ["\t", "\r", "-- c\n", "/* c */", "\x00", "\u2028", "\ud800"]

LONG = ["9" * 30, "9" * 5000, "(" * 70, "NOT " * 70]

PIECES = [*(word for line in LINES for word in line.split()), *BLANKS, *LONG]

STARTS = [form for documented in STATEMENTS for form in (*documented.forms, documented.wrong)]


def typed(rng: random.Random) -> str:
    """A statement with a few accidents, or a row of words."""
    if rng.random() < 0.5:
        row = [
            rng.choice(LEADS) if rng.random() < 0.7 else "",
            *rng.choices(PIECES, k=rng.randint(0, 12)),
        ]
        return rng.choice(["", " ", " "]).join(row)
    parts = rng.choice(STARTS).split(" ")
    for _ in range(rng.randint(0, 4)):
        at = rng.randrange(len(parts) + 1)
        accident = rng.randrange(4)
        if accident == 0:
            parts.insert(at, rng.choice(PIECES))
        elif accident == 1 and len(parts) > 1:
            del parts[min(at, len(parts) - 1)]
        elif accident == 2:
            other = rng.choice(STARTS).split(" ")
            parts[at:] = other[rng.randrange(len(other)) :]
        else:
            text = " ".join(parts)
            cut = rng.randrange(len(text) + 1)
            parts = (
                text[:cut] + rng.choice(["", *PIECES]) + text[cut + rng.randint(0, 2) :]
            ).split(" ")
    return " ".join(parts)

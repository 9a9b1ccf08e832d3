"""Expressions with the operators of searches, and without."""

from __future__ import annotations

LEFT_ALONE = [
    "SELECT",
    "*",
    "FROM t",
    ",",
    "'a TEXTSEARCH ''b'''",
    "\"a TEXTSEARCH 'b'\"",
    "-- a TEXTSEARCH 'b'\n",
    "/* a TEXTSEARCH 'b' /* c */ */",
    "r'\\'",
    "$x$ a TEXTSEARCH 'b' $x$",
    "= 5",
    "(n + 1)",
    "indexquery(a, 'b')",
    "textsearch AS indexquery,",
    "\n",
]

OPERATIONS = [
    ("a TEXTSEARCH 'q'", "textsearch(a , 'q')"),
    ('t.`b c` fieldmatch\n"q"', 'fieldmatch(t.`b c` ,\n"q")'),
    ("c /* d */ IndexQuery -- e\n :p", "indexquery(c /* d */ , -- e\n :p)"),
    ("_indexall indexquery 'q'", "indexqueryall(  'q')"),
    ("* TEXTSEARCH r'\\'", "indexqueryall(  r'\\')"),
]

SHARDS = [
    "a",
    "TEXTSEARCH",
    "indexquery",
    "_indexall",
    "*",
    ".",
    "'q'",
    "'",
    '"',
    "`",
    "--",
    "\n",
    "/*",
    "*/",
    " ",
    "\\",
]

SIGNS = ["$", "$$", "r'", ":", "?", "(", "AND", "ſ", "5", "`b`", "\x00", "😀"]

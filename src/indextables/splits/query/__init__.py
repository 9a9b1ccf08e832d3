"""The query language: text -> tree (`parse`) -> tantivy query (`to_tantivy`) or evaluation over
rows (`on_rows`).

A query is words, or `column:` before any of the forms below. Words side by side mean OR; AND binds
tighter than OR.

| form | finds |
|---|---|
| `error` `"disk full"` | the word; the words side by side (bare: in the text columns) |
| `"disk full"~2` `"disk fu"*` | with up to 2 moves; the last word as a prefix |
| `level:ERROR` `level:(A OR B)` `level:IN [A B]` | in that column: a string column compares whole values |
| `time*` `te?t` `*` `level:*` | wildcards within a word; every row; rows where the column is not null |
| `tiemout~1` | words within one or two edits |
| `n:[1 TO 5}` `n:>=3` `ts:<2024-01-01` | ranges; square brackets include their end, braces do not, `*` is open |
| `user.name:ann` | a path in a json, struct or map column |
| `ip:10.0.0.0/8` `ip:10.0.*.*` | addresses: one, a network, octets |
| `a AND b` `a OR b` `NOT a` `+a -b` `(…)` `a^2` | all, any, none; required, forbidden; groups; weight |

A backslash takes any character as it is. What cannot be understood raises `QuerySyntaxError` with
its position.
"""

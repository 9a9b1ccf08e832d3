"""The query language: what each form means, and what is said of a wrong one."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest

from indextables import Table
from indextables.config.indexing import IndexingSettings, SearchSettings
from indextables.errors import InvalidInputError, QuerySyntaxError
from indextables.splits.index.mapping import DocMapping
from indextables.splits.query.fields import (
    QueryFields,
    check_fieldmatch,
    check_textsearch,
    columns_of_values,
)
from indextables.splits.query.parser import parse
from indextables.splits.query.tree import Bool, Target, Words

SCHEMA = pa.schema(
    [
        ("message", pa.string()),
        ("title", pa.string()),
        ("level", pa.string()),
        ("note", pa.string()),
        ("cjk", pa.string()),
        ("ip", pa.string()),
        ("user", pa.struct([("name", pa.string()), ("a.b", pa.string())])),
        ("a.b", pa.string()),
        ("n", pa.int32()),
        ("price", pa.decimal128(9, 2)),
        ("ts", pa.timestamp("us", "UTC")),
        ("ok", pa.bool_()),
        ("blob", pa.binary()),
    ]
)
MAPPING = DocMapping.from_settings(
    SCHEMA,
    IndexingSettings(
        typemap={"message": "text", "title": "text", "cjk": "text", "ip": "ip"},
        tokenizer={"title": "en_stem", "cjk": "ngram"},
        nonindexed=("note",),
    ),
)
FIELDS = QueryFields(SCHEMA, MAPPING, ("message",))


@pytest.mark.parametrize(
    ("text", "understood"),
    [
        ("a b", "message:a message:b"),
        ("a AND b OR c", "(+message:a +message:b) message:c"),
        ("a OR b AND c", "message:a (+message:b +message:c)"),
        ("a b AND c d", "message:a (+message:b +message:c) message:d"),
        ("+a -b c", "+message:a message:c -message:b"),
        ("a AND NOT b", "+message:a -message:b"),
        ("a OR -b", "message:a (-message:b)"),
        ("NOT a", "-message:a"),
        ("NOT NOT a", "message:a"),
        ("NOT (a AND b)", "-(+message:a +message:b)"),
        ("level:(A OR B)", "level:A level:B"),
        ("level:(A AND message:b)", "+level:A +message:b"),
        ("level:ERROR message:x", "level:ERROR message:x"),
        ("LEVEL:x", "level:x"),
        ('"disk full"~2', 'message:"disk full"~2'),
        ("'disk full'", 'message:"disk full"'),
        ('message:"disk fu"*', 'message:"disk fu"*'),
        ('level:"two wo"*', "level:two\\ wo*"),
        ("time* te?t", "message:time* message:te?t"),
        ("foo\\*", "message:foo\\*"),
        ("tiemout~1", "message:tiemout~1"),
        ("(a b)^2.5 c^3", "(message:a message:b)^2.5 message:c^3"),
        ("*", "*"),
        ("level:*", "level:*"),
        ("user.name:*", "user.name:*"),
        ("user.a\\.b:x", "user.a\\.b:x"),
        ("a.b:x", "a.b:x"),
        ("level:IN [a 'b c']", "level:IN [a b\\ c]"),
        ("n: IN [1 2]", "n:IN [1 2]"),
        ("n:[1 TO 5}", "n:[1 TO 5}"),
        ("n:>=3", "n:[3 TO *]"),
        ("n:<1.5", "n:[* TO 1.5}"),
        ("n:[* TO *]", "n:*"),
        ("ts:>2024-01-01", "ts:{2024-01-01T00:00:00 TO *]"),
        ("ts:2024-01-01T10:00:00+02:00", "ts:2024-01-01T08:00:00+00:00"),
        ("level:[A TO M]", 'level:["A" TO "M"]'),
        ("user.age:[1 TO 5]", "user.age:[1 TO 5]"),
        ('user.age:["1" TO 5]', 'user.age:["1" TO "5"]'),
        ("ip:10.0.0.0/8", "ip:10.0.0.0/8"),
        ("ip:10.0.*", "ip:10.0.*"),
        ("ip:::1", "ip:::1"),
        ("note:x", 'note:"x"'),
        ("level:10:30", "level:10\\:30"),
        ("level:\\AND", "level:\\AND"),
        ("ANDROID", "message:ANDROID"),
    ],
)
def test_what_a_query_means(text: str, understood: str) -> None:
    query = parse(text, FIELDS)
    assert str(query) == understood
    assert parse(understood, FIELDS) == query


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("*:*", "Write * for every row."),
        ("a AND *:*", "Write * for every row."),
        ("*:a", "A word without a column is looked for in every column of text."),
        ("_exists_:level", "Write column:* for the rows that have a value, as in level:*."),
        ("NOT _exists_:level", "as in level:*."),
        (
            "_missing_:level",
            "Write NOT column:* for the rows that have no value, as in NOT level:*.",
        ),
    ],
)
def test_what_lucene_calls_otherwise_is_refused_with_what_to_write(text: str, hint: str) -> None:
    with pytest.raises(QuerySyntaxError, match="There is no column") as refused:
        parse(text, FIELDS)
    assert refused.value.hint.startswith(hint) or refused.value.hint.endswith(hint)


@pytest.mark.parametrize(
    ("text", "position", "message"),
    [
        ("", 0, "The query is empty"),
        ("  ( )", 4, "The group is empty"),
        ("a AND", 5, "AND has nothing after it"),
        ("OR a", 0, "OR has nothing before it"),
        ("a AND OR b", 6, "OR has nothing before it"),
        ("a - b", 2, "- has nothing after it"),
        ("a && b", 2, "&& is no operator"),
        ("!a", 0, "! is no operator"),
        ("(a", 0, "The parenthesis is not closed"),
        ("a)", 1, "A closing parenthesis without an opening one"),
        ('x "a b', 2, 'The quote " is not closed'),
        ("a\\", 1, "A backslash at the end"),
        ("mesage:x", 0, "There is no column 'mesage'"),
        ("a level.x:y", 2, "There is no column 'level.x'"),
        ("level:", 0, "The column has nothing to look for"),
        ("n:abc", 2, "'abc' is not a number"),
        ("ok:maybe", 3, "'maybe' is not true or false"),
        ("ts:yesterday", 3, "'yesterday' is not a date or time"),
        ("blob:x", 5, "a column of type binary cannot be compared"),
        ("n:1*", 2, "A wildcard needs a column of text"),
        ("n:1~1", 2, "A fuzzy word needs a column of text"),
        ("cjk:a~1", 4, "'a' is not one word there"),
        ("a-b~1", 0, "'a-b' is not one word there"),
        ("a~3", 1, "~ needs a number of edits"),
        ("a~", 1, "~ needs a number of edits"),
        ("a*~1", 0, "fuzzy or has wildcards"),
        ('level:"a b"~2', 6, "~2 needs words with positions"),
        ('"a b"~x', 5, "~ needs a distance in words"),
        ("a^", 1, "^ needs a weight"),
        ("a^2^3", 3, "A clause has one weight only"),
        ('message:"..."', 8, "'...' has no word that the tokenizer 'default' keeps"),
        ("[1 TO 2]", 0, "A range needs a column"),
        ("n:[1 2]", 5, "A range needs TO"),
        ("n:[1 TO 2", 2, "The range is not closed"),
        ("n:[1 TO ]", 8, "A value is missing"),
        ("n:IN []", 5, "The list is empty"),
        ("n:IN [1 2", 5, "The list is not closed"),
        ("ip:300.1.1.1", 3, "'300.1.1.1' is no IP address"),
        ("ip:10.0.0.0/40", 3, "is no network"),
        ("ip:1.2.3.4.*", 3, "is no octet wildcard"),
        ("ip:[10.0.0.0/8 TO *]", 3, "is not a single IP address"),
        ("message:**", 8, "Several stars mean the same as one"),
        ("(" * 200 + "a", 100, "nested deeper than 100 levels"),
    ],
)
def test_a_fault_is_named_with_its_place(text: str, position: int, message: str) -> None:
    with pytest.raises(QuerySyntaxError) as caught:
        parse(text, FIELDS)
    assert message in caught.value.message
    assert caught.value.context["position"] == position
    assert caught.value.context["fields"] == SCHEMA.names


def test_the_message_shows_the_place_and_the_nearest_column() -> None:
    with pytest.raises(QuerySyntaxError) as caught:
        parse("a AND mesage:x", FIELDS)
    assert "\n  a AND mesage:x\n        ^\n" in str(caught.value)
    assert "Did you mean message?" in caught.value.hint
    assert "Known columns: message, title" in caught.value.hint


def test_a_bare_word_searches_the_text_columns() -> None:
    every = QueryFields.from_settings(SCHEMA, MAPPING, SearchSettings())
    assert str(parse("x", every)) == "message:x title:x cjk:x"
    assert parse("x", FIELDS.within("title")) == Words(Target("title"), "x")
    few = QueryFields.from_settings(SCHEMA, MAPPING, SearchSettings(max_default_fields=2))
    with pytest.raises(
        QuerySyntaxError,
        match=r"search 3 text columns, more than indexing\.maxDefaultSearchFields \(2\)",
    ):
        parse("x", few)
    assert parse("title:x", few)
    none = QueryFields(SCHEMA, DocMapping.from_settings(SCHEMA, IndexingSettings()))
    with pytest.raises(QuerySyntaxError, match="no column is indexed as text"):
        parse("x", none)
    with pytest.raises(InvalidInputError, match="defaultSearchFields names 'nope'"):
        QueryFields.from_settings(SCHEMA, MAPPING, SearchSettings(default_fields=("nope",)))


def test_default_columns_that_cannot_hold_a_word_are_left_out() -> None:
    mixed = QueryFields(SCHEMA, MAPPING, ("message", "n", "ip"))
    assert str(parse("timeout", mixed)) == "message:timeout"
    assert str(parse("42", mixed)) == "message:42 n:42"
    assert parse("10.0.0.1", mixed) == Bool(
        should=(parse("message:10.0.0.1", mixed), parse("ip:10.0.0.1", mixed))
    )


def test_textsearch_and_fieldmatch_name_each_other() -> None:
    check_textsearch(FIELDS, "message")
    check_fieldmatch(FIELDS, "level")
    with pytest.raises(
        InvalidInputError,
        match=r'level FIELDMATCH.*index its words: reindex\(\{"level": "text"\}\)',
    ):
        check_textsearch(FIELDS, "level")
    with pytest.raises(InvalidInputError, match="Text columns: message, title, cjk"):
        check_textsearch(FIELDS, "n")
    with pytest.raises(InvalidInputError, match="message TEXTSEARCH"):
        check_fieldmatch(FIELDS, "message")
    with pytest.raises(InvalidInputError, match="n = …"):
        check_fieldmatch(FIELDS, "n")
    with pytest.raises(InvalidInputError, match="Did you mean level"):
        check_fieldmatch(FIELDS, "levl")


@pytest.mark.parametrize(
    "pattern", ["*" * 200_000, "}" + "*" * 200_000, "a" + "?" * 200_000, "a*b" * 60_000]
)
def test_a_pattern_of_many_wildcards_costs_little(tmp_path: Path, pattern: str) -> None:
    table = Table.create(
        str(tmp_path),
        schema=pa.schema([("message", pa.string())]),
        options={"indexing.typemap.message": "text"},
    )
    table.append(pa.table({"message": ["disk full"]}))
    started = time.process_time()
    with suppress(InvalidInputError):
        table.search(f"message:{pattern}", limit=3, snippet="message")
    assert time.process_time() - started < 10


def test_a_group_may_ask_for_some_of_its_alternatives() -> None:
    query = parse("(a b AND c d -e)~2", FIELDS)
    assert str(query) == "(message:a (+message:b +message:c) message:d -message:e)~2"
    assert parse(str(query), FIELDS) == query
    for text in ("(a b)~3", "(a AND b)~1", "(a b)~0", "(a b)~"):
        with pytest.raises(QuerySyntaxError, match="alternatives"):
            parse(text, FIELDS)


def test_words_of_such_a_group_are_alternatives_whatever_words_side_by_side_mean() -> None:
    all_words = QueryFields(SCHEMA, MAPPING, ("message",), all_words=True)
    assert parse("(a b c)~2", all_words) == parse("(a b c)~2", FIELDS)
    assert parse("level:(a b)~1 d", all_words) == parse("level:(a b)~1 AND d", FIELDS)
    assert parse("(a (b c) d AND e)~2", all_words) == parse("(a (b AND c) d AND e)~2", FIELDS)
    assert parse("(a b) c", all_words) == parse("(a AND b) AND c", FIELDS)
    assert parse("a b OR -c", all_words) == parse("a AND b OR -c", FIELDS)
    with pytest.raises(QuerySyntaxError, match="The group has 2 alternatives"):
        parse("(a b)~3", all_words)


@pytest.mark.parametrize(
    ("column", "text", "same"),
    [
        ("n", "[1 TO 3]", "n:[1 TO 3]"),
        ("n", ">=43", "n:>=43"),
        ("n", "IN [1 2]", "n:IN [1 2]"),
        ("n", "NOT {1 TO *}", "NOT n:{1 TO *}"),
        ("n", ">=43 AND level:A", "n:>=43 AND level:A"),
        ("ts", ">=2024-01-01T10:30:00Z", "ts:(>=2024-01-01T10:30:00Z)"),
        ("level", "[a TO b] OR IN [c d]", "level:[a TO b] OR level:IN [c d]"),
        ("level", "IN x", "level:IN OR level:x"),
    ],
)
def test_a_column_before_the_query_is_that_of_its_ranges_and_lists(
    column: str, text: str, same: str
) -> None:
    assert parse(text, FIELDS.within(column)) == parse(same, FIELDS)


def test_fieldmatch_without_a_column_means_every_column_that_it_accepts() -> None:
    names = columns_of_values(FIELDS)
    assert names == ("level", "ip", "user", "a.b")
    for name in SCHEMA.names:
        with suppress(InvalidInputError):
            check_fieldmatch(FIELDS, name)
            assert name in names
    found = str(parse("ERROR", FIELDS.within(*names)))
    assert found == "level:ERROR user:ERROR a.b:ERROR"
    narrow = pa.schema([SCHEMA.field("message"), SCHEMA.field("n")])
    text_alone = DocMapping.from_settings(narrow, IndexingSettings(typemap={"message": "text"}))
    with pytest.raises(
        InvalidInputError, match=r"no column is indexed by its whole value.*Text columns: message"
    ):
        columns_of_values(QueryFields(narrow, text_alone))
    with pytest.raises(InvalidInputError, match=r"4 columns, more than .* \(3\).*level FIELDMATCH"):
        columns_of_values(QueryFields(SCHEMA, MAPPING, max_default_fields=3))


def test_default_fields_may_have_weights(tmp_path: Path) -> None:
    rows = pa.table({"subject": ["disk", "other"], "body": ["other", "disk"]})
    options = {"indexing.typemap.subject": "text", "indexing.typemap.body": "text"}
    Table.create(str(tmp_path / "t"), schema=rows.schema, options=options).append(rows)
    for fields, best in (("subject^3,body", "disk"), ("subject,body^3", "other")):
        table = Table.open(str(tmp_path / "t"), options={"indexing.defaultSearchFields": fields})
        assert table.search("disk", limit=1).column("subject").to_pylist() == [best]
    for fields in ("subject^x", "subject^-1", "nothing^2"):
        with pytest.raises(InvalidInputError, match="defaultSearchFields"):
            Table.open(
                str(tmp_path / "t"), options={"indexing.defaultSearchFields": fields}
            ).search("disk")

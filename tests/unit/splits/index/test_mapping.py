"""The doc mapping: defaults, faults in one error, what appends keep, the JSON form."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest

from indextables import config
from indextables.config.indexing import IndexingSettings
from indextables.errors import BadFileError, InvalidInputError
from indextables.splits.index.mapping import DocMapping, check_compatible

SCHEMA = pa.schema(
    [
        ("message", pa.string()),
        ("level", pa.large_string()),
        ("code", pa.dictionary(pa.int32(), pa.string())),
        ("n", pa.int64()),
        ("user", pa.struct([("name", pa.string())])),
        ("tags", pa.list_(pa.string())),
        ("ip", pa.string()),
    ]
)


def made(**options: str) -> DocMapping:
    given = {f"indexing.{key.replace('__', '.')}": value for key, value in options.items()}
    return DocMapping.from_settings(SCHEMA, config.resolve(options=given).group(IndexingSettings))


def test_kinds_follow_types_unless_settings_say_otherwise() -> None:
    assert [c.kind for c in made().columns] == [
        "string",
        "string",
        "string",
        "none",
        "json",
        "json",
        "string",
    ]
    chosen = made(
        typemap__message="text",
        typemap__ip="IP",
        nonindexed="code,tags",
        tokenizer__message="de_stem",
    )
    assert [c.terms for c in chosen.columns] == [
        "text (de_stem, position)",
        "string (raw, basic)",
        "none",
        "none",
        "json (default, position)",
        "none",
        "ip",
    ]
    assert [c.field for c in chosen.columns] == [f"c{i}" for i in range(7)]


@pytest.mark.parametrize(
    "vectors", [pa.list_(pa.float32()), pa.list_(pa.float64()), pa.large_list(pa.float64())]
)
def test_lists_of_floats_are_not_indexed_unless_a_setting_or_the_table_says_so(
    vectors: pa.DataType,
) -> None:
    schema = pa.schema(
        [
            ("embedding", vectors),
            ("words", pa.list_(pa.string())),
            ("numbers", pa.list_(pa.int64())),
        ]
    )

    by_default = DocMapping.from_settings(schema, IndexingSettings())
    asked_for = DocMapping.from_settings(schema, IndexingSettings(typemap={"embedding": "json"}))

    assert [column.kind for column in by_default.columns] == ["none", "json", "json"]
    assert [column.kind for column in asked_for.columns] == ["json", "json", "json"]
    kept = DocMapping.from_settings(schema, IndexingSettings(), recorded=asked_for)
    assert kept.columns[0].kind == "json", "a table that indexes such a column goes on doing so"


def test_one_error_lists_every_fault_and_the_columns() -> None:
    settings = IndexingSettings(
        typemap={"message": "txt", "n": "text", "nobody": "text", "user": "ip", "level": "text"},
        tokenizer={"code": "en_stem", "ip": "klingon", "tags": "ngram"},
        record_option={"message": "all"},
        nonindexed=("level", "nothing"),
    )
    with pytest.raises(InvalidInputError) as caught:
        DocMapping.from_settings(SCHEMA, settings)
    text = str(caught.value)
    for fault in (
        "typemap names 'nobody'",
        "nonindexed names 'nothing'",
        "typemap.message cannot be 'txt'",
        "'n' of type int64 cannot be 'text'",
        "'user' of type struct<name: string> cannot be 'ip'",
        "'level' is in indexing.nonindexed and has indexing.typemap 'text'",
        "tokenizer 'en_stem' needs indexing.typemap.code = text",
        "tokenizer.ip cannot be 'klingon'",
        "'tags' is json, which cannot have the ngram tokenizer",
        "indexrecordoption.message cannot be 'all'",
    ):
        assert fault in text
    assert len(caught.value.context["faults"]) == 10
    assert "Known columns: message, level" in caught.value.hint


def test_an_append_keeps_what_is_recorded_and_refuses_another_kind_by_name() -> None:
    recorded = made(typemap__message="text", tokenizer__message="en_stem", maxTokenLength="100")
    wider = SCHEMA.insert(0, pa.field("added", pa.string()))
    appended = DocMapping.from_settings(wider, IndexingSettings(), recorded=recorded)
    assert appended.columns[1:] == recorded.columns
    assert appended.columns[0].field == "c7"
    check_compatible(recorded, appended)
    with pytest.raises(
        InvalidInputError,
        match=r"'message' is recorded as text \(en_stem, position\); it cannot be strin",
    ):
        DocMapping.from_settings(
            SCHEMA, IndexingSettings(typemap={"message": "string"}), recorded=recorded
        )
    with pytest.raises(
        InvalidInputError, match=r"'message'.*it cannot be text \(default, position\)"
    ):
        check_compatible(recorded, made(typemap__message="text"))


def test_the_json_form_is_canonical() -> None:
    mapping = made(typemap__message="text")
    again = DocMapping.from_json(mapping.to_json())
    assert again == mapping == pickle.loads(pickle.dumps(mapping))
    assert again.ref == mapping.ref != made().ref
    for bad in ("", "{}", '{"version":9,"columns":[]}', '{"version":1,"columns":[{"name":"a"}]}'):
        with pytest.raises(BadFileError):
            DocMapping.from_json(bad)

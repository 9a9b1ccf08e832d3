"""Schema deduplication: one hash for one mapping, stored once, given back whole."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from indextables.model.actions import AddAction
from indextables.model.file_list import from_actions, to_actions
from indextables.model.schema_registry import (
    KEY_PREFIX,
    bare_registry,
    deduplicate_mappings,
    in_use,
    registry_of,
    rename_mappings,
    renames,
    schema_hash,
    with_mappings,
)

GOLDEN_01 = (
    '[{"fast":true,"indexed":true,"name":"id","stored":true,"type":"i64"},'
    '{"fast":true,"indexed":true,"name":"text","stored":true,"tokenizer":"raw","type":"text"},'
    '{"fast":true,"indexed":true,"name":"score","stored":true,"type":"f64"}]'
)


def mappings(small: pa.Table, registry: dict[str, str]) -> list[str | None]:
    return [action.doc_mapping_json for action in with_mappings(to_actions(small), registry)]


def files(*mappings: str | None, refs: list[str | None] | None = None) -> pa.Table:
    names = refs or [None] * len(mappings)
    return from_actions(
        [
            AddAction(path=f"f{i}", size=1, doc_mapping_json=text, doc_mapping_ref=ref)
            for i, (text, ref) in enumerate(zip(mappings, names, strict=True))
        ]
    )


def test_the_hash_of_a_real_table() -> None:
    assert schema_hash(GOLDEN_01) == "z7TwwZ-tDWGD-uX5"


def test_order_and_spacing_do_not_matter_but_content_does() -> None:
    shuffled = json.dumps(
        [dict(reversed(item.items())) for item in reversed(json.loads(GOLDEN_01))], indent=2
    )
    assert schema_hash(shuffled) == schema_hash(GOLDEN_01)
    assert schema_hash(GOLDEN_01.replace("raw", "default")) != schema_hash(GOLDEN_01)


@pytest.mark.parametrize(
    ("first", "second", "equal"),
    [
        ('{"a":[1,2]}', '{"a":[2,1]}', False),
        ('[{"name":"b"},{"x":1}]', '[{"x":1},{"name":"b"}]', False),
        ('{"f":[{"name":"b"},{"name":"a"}]}', '{"f":[{"name":"a"},{"name":"b"}]}', True),
        ('{"\\u00e9":1,"z":2}', '{"z":2,"é":1}', True),
        ("[]", "[ ]", True),
    ],
)
def test_what_is_sorted_and_what_is_not(first: str, second: str, equal: bool) -> None:
    assert (schema_hash(first) == schema_hash(second)) is equal


def test_a_wide_schema_over_many_files_is_stored_once() -> None:
    wide = json.dumps([{"name": f"column_{i}", "type": "text"} for i in range(400)])
    table = files(*[wide] * 1000)
    small, registry = deduplicate_mappings(table, {})
    assert list(registry) == [schema_hash(wide)]
    assert small.column("doc_mapping_json").null_count == 1000
    assert set(small.column("doc_mapping_ref").to_pylist()) == {schema_hash(wide)}
    assert small.nbytes < 200_000 < len(wide) * 1000
    assert mappings(small, registry) == [wide] * 1000


def test_what_has_no_mapping_or_no_json_stays_as_it_is() -> None:
    table = files(None, "not json", GOLDEN_01, None, refs=[None, None, None, "kept"])
    small, registry = deduplicate_mappings(table, {"kept": "[]"})
    assert small.column("doc_mapping_json").to_pylist() == [None, "not json", None, None]
    assert small.column("doc_mapping_ref").to_pylist() == [None, None, "z7TwwZ-tDWGD-uX5", "kept"]
    assert mappings(small, registry) == [None, "not json", GOLDEN_01, "[]"]


def test_a_name_that_the_registry_does_not_know_restores_nothing() -> None:
    assert mappings(files(None, refs=["lost"]), {"other": "[]"}) == [None]


def test_equal_mappings_under_many_names_become_one_above_the_threshold() -> None:
    spellings = {f"old{i}": " " * i + GOLDEN_01 for i in range(6)} | {
        "odd": "no json",
        schema_hash("{}"): "{}",
    }
    assert renames(spellings, threshold=8) == {}
    names = renames(spellings, threshold=5)
    assert names == {f"old{i}": "z7TwwZ-tDWGD-uX5" for i in range(6)}
    table = files(*[None] * 8, refs=[*list(spellings)[:6], "lost", None])
    assert rename_mappings(table, {}).equals(table)
    merged = rename_mappings(table, names)
    assert merged.column("doc_mapping_ref").to_pylist() == ["z7TwwZ-tDWGD-uX5"] * 6 + ["lost", None]
    assert in_use(merged) == {"z7TwwZ-tDWGD-uX5", "lost"}


def test_keys_bare_or_prefixed() -> None:
    assert bare_registry({KEY_PREFIX + "a": "1", "b": "2"}) == {"a": "1", "b": "2"}
    assert registry_of({KEY_PREFIX + "a": "1", "setting": "2"}) == {"a": "1"}
    assert registry_of(None) == {}

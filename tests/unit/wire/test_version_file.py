"""Version files: every form on disk is read, and what is broken is named."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indextables.errors import BadFileError
from indextables.model.actions import (
    AddAction,
    MetadataAction,
    ProtocolAction,
    UnknownAction,
)
from indextables.wire import version_file
from tests.support.sample_actions import ACTIONS


@pytest.mark.parametrize("compress", [True, False])
def test_every_action_survives(compress: bool) -> None:
    assert version_file.decode(version_file.encode(ACTIONS, compress=compress), path="v") == ACTIONS


def test_the_three_forms_on_disk_are_told_apart() -> None:
    plain = version_file.encode(ACTIONS, compress=False)
    zipped = gzip.compress(plain)
    for data in (plain, zipped, b"\x01\x01" + zipped):
        assert version_file.decode(data, path="v") == ACTIONS


def test_names_on_disk_are_camel_case_required_fields_are_written_and_absent_ones_left_out() -> (
    None
):
    line = version_file.encode_action(
        AddAction(path="a", size=1, num_records=2, has_footer_offsets=True)
    )
    required = {
        "path": "a",
        "partitionValues": {},
        "size": 1,
        "modificationTime": 0,
        "dataChange": True,
    }
    assert json.loads(line) == {"add": {**required, "numRecords": 2, "hasFooterOffsets": True}}
    assert json.loads(version_file.encode_action(ProtocolAction())) == {
        "protocol": {"minReaderVersion": 1, "minWriterVersion": 1}
    }
    assert json.loads(version_file.encode_action(MetadataAction(id="i", schema_string="s")))[
        "metaData"
    ] == {
        "id": "i",
        "format": {"provider": "indextables", "options": {}},
        "schemaString": "s",
        "partitionColumns": [],
        "configuration": {},
    }


def test_unknown_fields_and_keys_survive_a_round_trip() -> None:
    lines = b'{"add":{"path":"a","size":1,"shade":{"x":[1]}}}\n{"domain":{"y":2}}\n'
    actions = version_file.decode(lines, path="v")
    assert actions == [
        AddAction(path="a", size=1, unknown={"shade": {"x": [1]}}),
        UnknownAction(key="domain", value={"y": 2}),
    ]
    assert version_file.decode(version_file.encode(actions), path="v") == actions


def test_null_lists_and_maps_are_tolerated() -> None:
    line = b'{"add":{"path":"a","size":1,"partitionValues":null,"minValues":null,"splitTags":null,"tags":null}}\n'
    [action] = version_file.decode(line, path="v")
    assert isinstance(action, AddAction)
    assert not action.partition_values
    [meta] = version_file.decode(
        b'{"metaData":{"id":"i","schemaString":"","partitionColumns":null,"configuration":null}}',
        path="v",
    )
    assert isinstance(meta, MetadataAction)
    assert not meta.partition_columns


def test_statistics_that_another_writer_spelt_as_numbers_become_text() -> None:
    [action] = version_file.decode(
        b'{"add":{"path":"a","size":1,"minValues":{"x":1,"y":null}}}', path="v"
    )
    assert isinstance(action, AddAction)
    assert action.min_values == {"x": "1"}


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "empty"),
        (b"\n \n", "empty"),
        (gzip.compress(b""), "empty"),
        (version_file.encode(ACTIONS)[:-9], "gzip stream"),
        (version_file.encode(ACTIONS) + b"x", "after its gzip"),
        (b'{"protocol":{}}\n{"add":{"path":', "line 2"),
        (b'{"protocol":{}}\n{"add":{"path":7,"size":1}}', "line 2"),
        (b'{"add":{"size":1}}', "line 1"),
        (b"[1]", "line 1"),
        (b'\xff\xfe{"add"', "line 1"),
    ],
    ids=[
        "nothing",
        "blank",
        "zipped",
        "cut gzip",
        "more",
        "cut line",
        "number",
        "no path",
        "a list",
        "not UTF-8",
    ],
)
def test_what_is_broken_is_named(data: bytes, said: str) -> None:
    with pytest.raises(BadFileError, match=said) as caught:
        version_file.decode(data, path="_transaction_log/7.json")
    assert caught.value.context["path"] == "_transaction_log/7.json"


def test_a_bomb_is_not_inflated() -> None:
    bomb = zlib.compressobj(wbits=31)
    data = bomb.compress(bytes(2_000_000)) + bomb.flush()
    with pytest.raises(BadFileError, match="more than 1000000 bytes"):
        version_file.inflate(data, path="v", cap_bytes=1_000_000)


@given(st.binary(max_size=200), st.integers(0, 400))
def test_garbage_is_an_error_and_nothing_else(noise: bytes, at: int) -> None:
    whole = version_file.encode(ACTIONS)
    for data in (noise, whole[: at % len(whole)] + noise):
        try:
            version_file.decode(data, path="v")
        except BadFileError:
            continue


@pytest.mark.parametrize("size", [0, 1, 8 << 20, (8 << 20) + 1])
def test_a_file_inflates_to_the_same_bytes_by_pieces(size: int) -> None:
    plain = (b"0123456789abcde\n" * (size // 16 + 1))[:size]
    for data in (plain, gzip.compress(plain), b"\x01\x01" + gzip.compress(plain)):
        pieces = list(version_file.inflate_pieces(data, path="v"))
        assert b"".join(pieces) == plain == version_file.inflate(data, path="v")
        assert max(map(len, pieces), default=0) <= 4 << 20
        assert version_file.inflate(data, path="v", cap_bytes=max(size, 1)) == plain


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda zipped: zipped[:-9], "middle of its gzip"),
        (lambda zipped: zipped + b"\n", "bytes after its gzip"),
        (lambda zipped: zipped[:40] + b"\x00\xff" + zipped[42:], "gzip"),
    ],
)
def test_what_is_wrong_with_a_file_is_told_by_pieces_too(
    spoil: Callable[[bytes], bytes], why: str
) -> None:
    data = spoil(gzip.compress(b"".join(b"%d\n" % n for n in range(900_000))))
    for read in (
        version_file.inflate,
        lambda data, path: list(version_file.inflate_pieces(data, path=path)),
    ):
        with pytest.raises(BadFileError, match=why):
            read(data, path="v")


ADD = '{"add":{"path":"a","size":1}}'
REMOVE = ADD.replace("add", "remove")


@pytest.mark.parametrize(
    "text",
    [
        f"{REMOVE[:-1]},{ADD[1:]}",
        f"{ADD[:-1]},{REMOVE[1:]}",
        f"{ADD} {ADD}",
        f"{ADD} {ADD}\n\n",
        ADD.replace(":{", ":\n{"),
        f"{ADD} {REMOVE}\n" + ADD.replace(":{", ":\n{"),
        ADD.replace("1}", '1,"\\u0028unknown fields)":{"path":"b"}}'),
        ADD.replace("1}", '1,"partitionValues":null,"tags":null}'),
        '{"metaData":{"id":"i","schemaString":"{}","partitionColumns":null,"configuration":{}}}',
        '{"metaData":{"id":"i","schemaString":"{}","partitionColumns":[],"configuration":null}}',
    ],
)
def test_what_is_parsed_in_one_go_is_what_the_slow_way_makes_of_it(text: str) -> None:
    plain = f'{{"commitInfo":{{"txnId":"t"}}}}\n{text}\n'.encode()
    try:
        slowly: object = version_file._decode_slowly(plain, "v", len(plain), 1)
    except BadFileError as failure:
        slowly = failure.message
    try:
        read: object = version_file.decode(plain, path="v")
    except BadFileError as failure:
        read = failure.message
    assert read == slowly


@pytest.mark.parametrize(
    "line",
    [
        b'{"add":{"path":"a","size":1,"splitTags":[' + b'"ab",' * 8_000_000 + b'"ab"]}}',
        b'{"txn":{}} ' * 2_500_000,
    ],
)
def test_few_bytes_do_not_become_millions_of_texts_in_fields_that_are_known(line: bytes) -> None:
    packed = version_file.deflate(b'{"commitInfo":{"txnId":"t"}}\n' + line + b"\n")
    assert len(packed) < 300_000
    with pytest.raises(BadFileError):
        version_file.decode(packed, path="v")

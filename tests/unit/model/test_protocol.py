"""Protocol checks: what is refused is named, and an upgrade never lowers anything."""

from __future__ import annotations

import pytest

from indextables.errors import InvalidInputError, UnsupportedError
from indextables.model.actions import ProtocolAction
from indextables.model.protocol import (
    FEATURES,
    LEGACY_PROTOCOL,
    NEW_TABLE_PROTOCOL,
    check_readable,
    check_writable,
    raise_protocol,
)


def test_what_this_release_writes_it_reads() -> None:
    for protocol in (
        NEW_TABLE_PROTOCOL,
        LEGACY_PROTOCOL,
        ProtocolAction(min_reader_version=3, min_writer_version=3),
    ):
        check_writable(protocol, path="t")


def test_a_version_too_high_names_both_numbers() -> None:
    with pytest.raises(UnsupportedError, match=r"reader version 9; this release supports up to 4"):
        check_readable(ProtocolAction(min_reader_version=9), path="t")
    with pytest.raises(UnsupportedError, match=r"writer version 9"):
        check_writable(ProtocolAction(min_writer_version=9), path="t")
    check_readable(ProtocolAction(min_writer_version=9), path="t")


def test_an_unknown_feature_is_named() -> None:
    with pytest.raises(UnsupportedError, match="timeMachine"):
        check_readable(
            ProtocolAction(min_reader_version=3, reader_features=("timeMachine", "avroState")),
            path="t",
        )


def test_an_upgrade_never_lowers() -> None:
    raised = raise_protocol(NEW_TABLE_PROTOCOL, min_reader_version=2, min_writer_version=2)
    assert raised == NEW_TABLE_PROTOCOL
    raised = raise_protocol(
        LEGACY_PROTOCOL, min_reader_version=3, min_writer_version=2, features=("footerOffsets",)
    )
    assert (raised.min_reader_version, raised.min_writer_version) == (3, 2)
    assert raised.reader_features == ("footerOffsets",)
    assert raised.writer_features is None
    assert (
        raise_protocol(
            raised, min_reader_version=4, min_writer_version=4, features=FEATURES
        ).reader_features
        == FEATURES
    )


def test_an_upgrade_beyond_this_release_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="highest is 4"):
        raise_protocol(LEGACY_PROTOCOL, min_reader_version=5, min_writer_version=5)
    with pytest.raises(InvalidInputError, match="nonsense"):
        raise_protocol(
            LEGACY_PROTOCOL, min_reader_version=4, min_writer_version=4, features=("nonsense",)
        )

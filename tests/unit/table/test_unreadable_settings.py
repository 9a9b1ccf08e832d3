"""A table whose metadata carries a value of a setting that cannot be read opens, warns, and can be
mended.
"""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from msgspec.structs import replace

from indextables import Table
from indextables.errors import InvalidInputError
from indextables.log.log_files import version_path
from indextables.wire import version_file
from tests.support.rows import ids, rows, table_of

BAD = {
    "checkpoint.interval": "every now and then",
    "spark.indextables.merge.targetSize": "huge",
    "state.format": "yaml",
}


@pytest.mark.parametrize("key", BAD)
def test_it_opens_warns_and_is_mended(
    tmp_path: Path, key: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = str(tmp_path / "t")
    table = table_of(path, appends=2)
    metadata = replace(
        table.metadata, configuration={**(table.metadata.configuration or {}), key: BAD[key]}
    )
    Path(path, version_path(3)).write_bytes(version_file.encode([metadata]))
    with caplog.at_level(logging.WARNING):
        opened = Table.open(path)
        assert ids(opened) == list(range(20))
    (line,) = [
        r.getMessage() for r in caplog.records if "cannot be read and is ignored" in r.getMessage()
    ]
    assert BAD[key] in line
    assert f"UNSET TBLPROPERTIES ('{key}')" in line
    assert opened.append(rows([100])) == 4
    opened.update_metadata(unset=(key,))
    assert key not in (Table.open(path).metadata.configuration or {})


def test_a_value_that_cannot_be_read_is_still_refused_when_it_is_set(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", appends=1)
    with pytest.raises(InvalidInputError, match="every now and then"):
        table.update_metadata(options={"checkpoint.interval": "every now and then"})
    assert table.refresh().version == 1

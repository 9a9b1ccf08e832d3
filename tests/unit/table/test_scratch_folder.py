"""A folder for unfinished files that does not exist is reported as that, not as a full disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from indextables import Table
from indextables.errors import StorageError
from tests.support.rows import ids, table_of


@pytest.mark.parametrize(
    ("is_file", "reason"), [(False, "does not exist"), (True, "is not a folder")]
)
@pytest.mark.parametrize("key", ["merge.tempDirectoryPath", "indexWriter.tempDirectoryPath"])
def test_a_folder_that_is_not_there_is_named(
    tmp_path: Path, key: str, is_file: bool, reason: str
) -> None:
    table = table_of(tmp_path / "t", appends=3)
    folder = tmp_path / "scratch"
    if is_file:
        folder.write_text("no folder", encoding="utf-8")
    with pytest.raises(StorageError, match=reason) as caught:
        Table.open(table.path, options={key: str(folder)}).merge(target_size="1G")
    assert str(folder) in caught.value.message
    assert "indexWriter.tempDirectoryPath" in (caught.value.hint or "")
    assert "space" not in str(caught.value)
    assert (Table.open(table.path).version, ids(Table.open(table.path))) == (3, list(range(30)))

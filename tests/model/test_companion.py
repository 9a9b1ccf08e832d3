"""A companion answers as its source, whatever happens to the source and the companion."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from indextables.companion import delta_source, view
from indextables.errors import IndexTablesError
from tests.model.companion_histories import run_history

QUICK = range(6)


@pytest.mark.parametrize("seed", QUICK)
def test_a_few_histories(seed: int, tmp_path: Path) -> None:
    assert run_history(seed, tmp_path, steps=3) > 50


@pytest.mark.slow
@pytest.mark.parametrize("batch", range(20))
def test_five_hundred_histories(batch: int, tmp_path: Path) -> None:
    for seed in range(100 + 25 * batch, 125 + 25 * batch):
        run_history(seed, tmp_path / str(seed), steps=4)


def some_history_fails(tmp_path: Path) -> bool:
    for seed in range(40):
        try:
            run_history(seed, tmp_path / str(seed), steps=3)
        except (AssertionError, IndexTablesError, KeyError):
            return True
    return False


def test_histories_fail_without_masks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delta_source.DeltaSource, "_masks", lambda *_: {})
    assert some_history_fails(tmp_path)


def test_histories_fail_where_columns_are_found_by_their_logical_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delta_source, "_PHYSICAL", "no such key")
    assert some_history_fails(tmp_path)


def test_histories_fail_where_deleted_rows_are_those_of_another_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = delta_source.DeltaSource.read

    def read_twice(source: Any, at: Any, *, known: Any) -> Any:
        pinned, newest = read(source, at, known=known), read(source, "latest", known=known)
        deleted = {file.path: file.deleted for file in newest.files}
        files = [replace(f, deleted=deleted.get(f.path, f.deleted)) for f in pinned.files]
        return replace(pinned, files=tuple(files))

    monkeypatch.setattr(delta_source.DeltaSource, "read", read_twice)
    monkeypatch.setattr(view._Prepared, "is_of", lambda *_: False)
    assert some_history_fails(tmp_path)


def test_histories_fail_where_removed_files_stay_visible(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    live_rows = view.live_rows

    def all_rows(split: Any, live: Any, taken: Any) -> Any:
        live_rows(split, live, taken)
        return live_rows(split, {}, set())[:0]

    monkeypatch.setattr(view, "live_rows", all_rows)
    assert some_history_fails(tmp_path)

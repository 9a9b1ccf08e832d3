"""A split looked at as a whole: sizes, damage, and what the log should say of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from indextables.config.splits import SplitWriterSettings
from indextables.errors import StorageError
from indextables.splits.format.source import LocalSource
from indextables.splits.inspect import component_sizes, damage, describe
from indextables.splits.read.cache import SplitCache
from indextables.splits.write.writer import SplitWriter, write_splits
from tests.support.splits import log_rows, mapping_of, open_file, term_rows, write_file

TABLE = log_rows(9_000)


def test_sizes_add_up_to_the_file(tmp_path: Path) -> None:
    path = write_file(TABLE, tmp_path / "a.split")
    sizes = component_sizes(open_file(path).tail)
    assert sum(s.size_bytes for s in sizes) == path.stat().st_size
    assert {(s.component, s.column) for s in sizes} >= {
        ("parquet", "latency"),
        ("term", "level"),
        ("idx", "host"),
        ("pos", "message"),
        ("fieldnorm", "message"),
        ("footer", None),
    }
    assert ("fieldnorm", "level") not in {(s.component, s.column) for s in sizes}


def test_all_damage_is_listed(tmp_path: Path) -> None:
    path = write_file(TABLE, tmp_path / "a.split")
    assert list(damage(LocalSource(path))) == []
    table = open_file(path).table
    data = bytearray(path.read_bytes())
    broken = [table.component("term").ranges[1], table.component("pos").ranges[-1]]
    for place in (100, *(r.offset + r.length // 2 for r in broken)):
        data[place] ^= 4
    path.write_bytes(data)
    found = [e.message for e in damage(LocalSource(path))]
    assert len(found) == 3
    assert "rows of column ts, row group 0" in found[0]
    assert "index file .term, field c2" in found[1]
    data[-100] ^= 4
    path.write_bytes(data)
    (only,) = damage(LocalSource(path))
    assert "The end of the split" in only.message


def test_the_log_entry_can_be_made_from_the_split_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.split"
    mapping = mapping_of(TABLE.schema)
    for info in write_splits(TABLE.to_batches(), TABLE.schema, mapping, settings=SplitWriterSettings(), tags=["x"]):
        path.write_bytes(info.path.read_bytes())
        written = info.add_action("p.split", modification_time=5)
    assert describe(LocalSource(path)).add_action("p.split", modification_time=5) == written


def test_prewarming_fetches_an_index_once(tmp_path: Path) -> None:
    path = write_file(TABLE, tmp_path / "a.split")
    cache = SplitCache(tmp_path / "c", 1 << 30)
    assert open_file(path, cache).prewarm(["level"]) > 0
    assert open_file(path, cache).prewarm(["level"]) == 0
    assert open_file(path, cache).prewarm() > 0
    reader = open_file(path, cache)
    assert term_rows(reader, "message", "timeout")
    assert reader.stats.bytes == 0


def test_a_disk_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = SplitWriterSettings(temp_directory=str(tmp_path))
    with SplitWriter(TABLE.schema, mapping_of(TABLE.schema), settings=settings) as writer:

        def full(*_: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("indextables.splits.format.parquet.ParquetBody.write", full)
        with pytest.raises(StorageError, match=r"No space left.*indexWriter\.tempDirectoryPath"):
            writer.write(TABLE.to_batches()[0])
    assert list(tmp_path.iterdir()) == []

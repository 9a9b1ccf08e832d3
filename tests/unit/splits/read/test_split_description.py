"""A split looked at as a whole: sizes, damage, and what the log should say of it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from msgspec.structs import replace

from indextables.config.splits import SplitWriterSettings
from indextables.errors import BadFileError, StorageError
from indextables.splits.format.source import LocalSource
from indextables.splits.read.cache import SplitCache
from indextables.splits.read.split_description import (
    check_bytes,
    check_end,
    component_sizes,
    describe_split,
)
from indextables.splits.write.writer import SplitWriter, write_splits
from tests.support.splits import log_rows, mapping_of, open_file, term_rows, write_file

TABLE = log_rows(9_000)


def test_sizes_add_up_to_the_file(tmp_path: Path) -> None:
    path = write_file(TABLE, tmp_path / "a.split")
    sizes = component_sizes(LocalSource(path))
    assert sum(s.size_bytes for s in sizes) == path.stat().st_size
    assert {(s.component, s.field) for s in sizes} >= {
        ("rows", "latency"),
        ("term", "level"),
        ("idx", "host"),
        ("pos", "message"),
        ("fieldnorm", "message"),
        ("footer", None),
    }
    assert ("fieldnorm", "level") not in {(s.component, s.field) for s in sizes}


def test_damage_is_found_wherever_it_is(tmp_path: Path) -> None:
    path = write_file(TABLE, tmp_path / "a.split")
    sound = path.read_bytes()
    table = open_file(path).table
    ranges = [table.component("term").ranges[1], table.component("pos").ranges[-1]]

    def check() -> int:
        return sum(
            batch.num_rows
            for batch in check_bytes(LocalSource(path), TABLE.schema, footer_start=None)
        )

    assert check() == TABLE.num_rows
    places = {
        100: "Bytes 4 to",
        **{r.offset + r.length // 2: f"Bytes {r.offset} to" for r in ranges},
        -100: "The end",
    }
    for place, words in places.items():
        data = bytearray(sound)
        data[place] ^= 4
        path.write_bytes(data)
        with pytest.raises(BadFileError, match=words):
            check()
    with pytest.raises(BadFileError, match="The end of the split"):
        check_end(LocalSource(path), TABLE.schema, footer_start=None)


@pytest.mark.parametrize(
    "rows", [TABLE, pa.table({"key": ["k" * 300, "short"]})], ids=["usual", "long terms"]
)
def test_the_log_entry_can_be_made_from_the_split_alone(tmp_path: Path, rows: pa.Table) -> None:
    path = tmp_path / "a.split"
    mapping = mapping_of(rows.schema)
    for info in write_splits(
        rows.to_batches(), rows.schema, mapping, settings=SplitWriterSettings(), tags=["x"]
    ):
        path.write_bytes(info.path.read_bytes())
        written = info.add_action("p.split", modification_time=5)
    described = describe_split(LocalSource(path)).add_action({}, modification_time=5)
    assert replace(described, path="p.split", partition_values=written.partition_values) == written


def test_prewarming_fetches_an_index_once(tmp_path: Path) -> None:
    path = write_file(TABLE, tmp_path / "a.split")
    cache = SplitCache(tmp_path / "c", 1 << 30)

    def prewarm(*columns: str) -> int:
        reader = open_file(path, cache)
        fields = [c.field for c in reader.mapping.indexed if not columns or c.name in columns]
        reader.open_index(fields, positions=True, norms=True).close()
        return reader.stats.bytes

    assert prewarm("level") > 0
    assert prewarm("level") == 0
    assert prewarm() > 0
    reader = open_file(path, cache)
    assert term_rows(reader, "message", "timeout")
    assert reader.stats.bytes == 0


def test_a_disk_that_cannot_be_written_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = SplitWriterSettings(temp_directory=str(tmp_path))
    with SplitWriter(TABLE.schema, mapping_of(TABLE.schema), settings=settings) as writer:

        def full(*_: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("indextables.splits.format.parquet.ParquetBody.write", full)
        with pytest.raises(StorageError, match=r"No space left.*indexWriter\.tempDirectoryPath"):
            writer.write(TABLE.to_batches()[0])
    assert list(tmp_path.iterdir()) == []

"""Files of a table, changed inside and sealed again: every checksum is right, what it covers is
not.
"""

from __future__ import annotations

import gzip
import io
import json
import random
import re
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from indextables.log import log_files
from indextables.splits.format.footer_checksum import (
    FOOTER_CHECKSUM_KEY,
    FOOTER_CHECKSUM_WIDTH,
    PLACEHOLDER,
)
from indextables.splits.format.section_table import TABLE_KEY
from indextables.wire.avro import assemble, read_container, unpack
from tests.torture.fuzz_values import (
    NUMBERS,
    TEXTS,
    bytes_changed,
    changed,
    json_changed,
    odd_value,
    text_changed,
)

Change = Callable[[Path, random.Random], str | None]
"""Changes one file of the table in a folder and returns its name; None if there is none to change."""


def _one(folder: Path, rng: random.Random, pattern: str) -> Path | None:
    found = sorted(folder.glob(pattern))
    return rng.choice(found) if found else None


def _plain(data: bytes) -> bytes:
    return (
        gzip.decompress(data[2:] if data[:2] == b"\x01\x01" else data)
        if b"\x1f\x8b" in data[:4]
        else data
    )


def _packed(plain: bytes, rng: random.Random) -> bytes:
    return rng.choice([plain, gzip.compress(plain), b"\x01\x01" + gzip.compress(plain)])


def _lines_changed(plain: bytes, rng: random.Random) -> bytes:
    lines = [line for line in plain.split(b"\n") if line.strip()]
    at = rng.randrange(len(lines))
    action = rng.randrange(10)
    if action == 0:
        del lines[at]
    elif action == 1:
        lines.append(lines[at])
    elif action == 2:
        lines.insert(at, json.dumps(odd_value(rng)).encode())
    elif action == 3:
        depth = rng.choice([500, 5_000, 200_000])
        lines.insert(at, b'{"new":' + b"[" * depth + b"]" * depth + b"}")
    elif action == 4:
        lines[at] = bytes_changed(lines[at], rng)
    else:
        try:
            lines[at] = json.dumps(changed(json.loads(lines[at]), rng)).encode()
        except (ValueError, RecursionError):
            lines[at] = bytes_changed(lines[at], rng)
    return b"\n".join(lines)


def version_file(folder: Path, rng: random.Random) -> str | None:
    """A version file with another action or another value in one."""
    path = _one(folder, rng, "_transaction_log/[0-9]*.json")
    if path is None:
        return None
    path.write_bytes(_packed(_lines_changed(_plain(path.read_bytes()), rng), rng))
    return path.name


def odd_name(folder: Path, rng: random.Random) -> str | None:
    """A file in the log that is called like one of its own, of a version that is not."""
    log = folder / log_files.LOG
    number = rng.choice(
        [
            "9" * 20,
            f"{2**63 - 1:020d}",
            f"{10**15:020d}",
            f"{rng.randrange(40):020d}",
            "٣" * 20,
            "1" * 30,
        ]
    )
    names_of_version = (
        *(
            "{n}.json",
            "{n}.checkpoint.json",
            "state-v{n}/_manifest.avro",
            "state-v{n}/_manifest.json",
            "_last_checkpoint",
        ),
        *("_checkpoints/{n}.checkpoint.parquet", "{n}.checkpoint.x.00001.json"),
    )
    name = rng.choice(names_of_version).replace("{n}", number)
    source = _one(folder, rng, "_transaction_log/**/*.*")
    (log / name).parent.mkdir(parents=True, exist_ok=True)
    (log / name).write_bytes(
        source.read_bytes() if source is not None and rng.random() < 0.7 else b"{}"
    )
    return name


def pointer(folder: Path, rng: random.Random) -> str | None:
    """Another pointer."""
    path = folder / log_files.POINTER
    old = path.read_bytes() if path.exists() else b'{"version":3,"size":1}'
    path.write_bytes(
        rng.choice(
            [bytes_changed(old, rng), json_changed(old.decode(), rng).encode(), b"[" * 100_000]
        )
    )
    return path.name


def _avro_changed(data: bytes, rng: random.Random) -> bytes:
    container = read_container(data, path="")
    schema = json.dumps(container.schema)
    blocks = [
        (count, unpack(container.codec, memoryview(data)[start:stop]))
        for count, start, stop in container.blocks
    ]
    action = rng.randrange(5)
    if action == 0:
        schema = json_changed(schema, rng)
    elif action == 1:
        blocks = [(rng.choice([0, 1, count + 1, 2**40, 2**62]), plain) for count, plain in blocks]
    elif action == 2:
        count, plain = blocks[0] if blocks else (1, b"\x00")
        blocks = [(count, plain + rng.choice([b"\x00", b"\x00" * 1_000_000, plain]))]
    else:
        blocks = [(count, bytes_changed(plain, rng)) for count, plain in blocks]
    return assemble(
        schema,
        "null",
        blocks,
        empty_fields=container.empty_fields if rng.random() < 0.8 else {"path"},
    )


def _avro_file(folder: Path, rng: random.Random, pattern: str) -> str | None:
    path = _one(folder, rng, pattern)
    if path is None:
        return None
    path.write_bytes(_avro_changed(path.read_bytes(), rng))
    return path.name


def state(folder: Path, rng: random.Random) -> str | None:
    """A state's own file, Avro that is whole and says something else; or its JSON form."""
    if rng.random() < 0.3:
        path = _one(folder, rng, "_transaction_log/state-v*/_manifest.avro")
        if path is None:
            return None
        data = path.read_bytes()
        container = read_container(data, path="")
        from indextables.wire.avro import read_records

        record = json.loads(json.dumps(read_records(data, container, path="")[0]))
        path.unlink()
        path.with_suffix(".json").write_bytes(
            _packed(json.dumps(changed(record, rng)).encode(), rng)
        )
        return path.name
    return _avro_file(folder, rng, "_transaction_log/state-v*/_manifest.avro")


def manifest(folder: Path, rng: random.Random) -> str | None:
    """A manifest, Avro that is whole and says something else."""
    return _avro_file(folder, rng, "_transaction_log/manifests/*.avro")


def json_checkpoint(folder: Path, rng: random.Random) -> str | None:
    """A JSON checkpoint of lines, of one object, or of parts, beside the versions that it replaces."""
    versions = sorted((folder / log_files.LOG).glob("[0-9]*.json"))
    if not versions:
        return None
    lines = b"\n".join(_plain(path.read_bytes()) for path in versions)
    number = int(versions[-1].name[:20])
    path = folder / log_files.json_checkpoint_path(number)
    form = rng.randrange(3)
    if form == 0:
        path.write_bytes(_packed(_lines_changed(lines, rng), rng))
    elif form == 1:
        actions = [json.loads(line) for line in lines.split(b"\n") if line.strip()]
        whole: dict[str, object] = {"add": [a["add"] for a in actions if "add" in a]}
        whole |= {
            key: value
            for a in actions
            for key, value in a.items()
            if key in ("protocol", "metaData")
        }
        path.write_bytes(_packed(json.dumps(changed(whole, rng)).encode(), rng))
    else:
        part = log_files.json_part_name(number, "abc", 1)
        (folder / log_files.LOG / part).write_bytes(_packed(_lines_changed(lines, rng), rng))
        parts = rng.choice(
            [
                [part],
                [part, part],
                [".."],
                ["."],
                [path.name],
                ["../../x"],
                [""],
                [part] * 5_000,
                ["\x00"],
            ]
        )
        told = {"version": number, "checkpointId": "abc", "parts": parts, "format": "json"}
        path.write_bytes(json.dumps(changed(told, rng) if rng.random() < 0.5 else told).encode())
    if rng.random() < 0.5:
        versions[0].unlink()
    return path.name


def parquet_checkpoint(folder: Path, rng: random.Random) -> str | None:
    """The Parquet checkpoint of a table, with other values, columns of other types, or other bytes."""
    path = _one(folder, rng, "_transaction_log/_checkpoints/*.parquet")
    if path is None:
        return None
    data = path.read_bytes()
    if rng.random() < 0.4:
        path.write_bytes(bytes_changed(data, rng))
        return path.name
    rows = pq.read_table(io.BytesIO(data))
    at = rng.randrange(rows.num_columns)
    name, field = rows.column_names[at], rows.schema.field(at)
    action = rng.randrange(4)
    if action == 0:
        rows = rows.drop_columns([name])
    elif action == 1:
        rows = rows.set_column(
            at, name, pa.array([rng.choice(TEXTS[:-1]) for _ in range(rows.num_rows)], pa.string())
        )
    elif action == 2:
        rows = rows.append_column(name, rows.column(at))
    else:
        odd = rng.choice([n for n in NUMBERS if n is None or abs(n) < 2**63])
        kind = pa.int64() if pa.types.is_integer(field.type) else field.type
        is_taken = pa.types.is_integer(field.type) and not isinstance(odd, float | bool)
        value = odd if is_taken else None
        rows = rows.set_column(at, pa.field(name, kind), pa.array([value] * rows.num_rows, kind))
    out = io.BytesIO()
    pq.write_table(rows, out, compression="zstd")
    path.write_bytes(out.getvalue())
    return path.name


def sealed(data: bytes, footer_start: int) -> bytes:
    """A split with its seal put right."""
    tail = bytearray(data[footer_start:])
    at = tail.rfind(FOOTER_CHECKSUM_KEY.encode()) + len(FOOTER_CHECKSUM_KEY) + 2
    tail[at : at + FOOTER_CHECKSUM_WIDTH] = PLACEHOLDER.encode()
    tail[at : at + FOOTER_CHECKSUM_WIDTH] = (
        f"{footer_start:016x}{zlib.crc32(bytes(tail)):08x}".encode()
    )
    return data[:footer_start] + bytes(tail)


def split(folder: Path, rng: random.Random) -> str | None:
    """A split whose every checksum is right: rows, index, section table or footer say something
    else.
    """
    path = _one(folder, rng, "**/*.split")
    if path is None:
        return None
    path.write_bytes(split_changed(path.read_bytes(), rng))
    return path.relative_to(folder).as_posix()


def split_changed(data: bytes, rng: random.Random) -> bytes:
    """The bytes of a split, of the same length, changed and sealed."""
    metadata = pq.read_metadata(pa.BufferReader(data))
    table = json.loads(metadata.metadata[TABLE_KEY.encode()])
    seal = data.rfind(FOOTER_CHECKSUM_KEY.encode()) + len(FOOTER_CHECKSUM_KEY) + 2
    start = int(data[seal : seal + 16], 16)
    where = rng.choice(["rows", "index", "index", "hot", "section table", "footer"])
    if where == "rows" and metadata.num_row_groups:
        data = _chunk_changed(data, start, metadata, table, rng)
    elif where == "index":
        ranges = [r for c in table["components"] for r in c.get("ranges", ()) if r[2]]
        if ranges:
            _, _, length, offset, crc = rng.choice(ranges)
            for _ in range(20):
                tried = bytes_changed(data, rng, start=offset, stop=offset + length)
                new = str(zlib.crc32(tried[offset : offset + length])).encode()
                if len(new) == len(str(crc)):
                    data = tried[:start] + tried[start:].replace(str(crc).encode(), new, 1)
                    break
    elif where == "hot":
        spans = [table["meta"], *(c["tail"] for c in table["components"])]
        offset, length = rng.choice(spans)
        data = bytes_changed(data, rng, start=start + offset, stop=start + offset + length)
    elif where == "section table":
        at = data.rfind(b'{"version":')
        end = data.find(b"}", data.find(b'"statistics"', at)) if at > 0 else -1
        if 0 < at < end:
            data = data[:at] + _digits_changed(data[at:end], rng) + data[end:]
    else:
        data = bytes_changed(data, rng, start=start, stop=len(data) - 8)
    return sealed(data, start)


def _chunk_changed(
    data: bytes, start: int, metadata: pq.FileMetaData, table: dict[str, Any], rng: random.Random
) -> bytes:
    group, number = rng.randrange(metadata.num_row_groups), rng.randrange(metadata.num_columns)
    first, stop = _chunk_range(metadata, group, number)
    data = bytes_changed(data, rng, start=first, stop=stop)
    return _with_chunk_checksum(data, start, metadata, table, group, number)


def _chunk_range(metadata: pq.FileMetaData, group: int, number: int) -> tuple[int, int]:
    chunk = metadata.row_group(group).column(number)
    first = chunk.dictionary_page_offset if chunk.has_dictionary_page else chunk.data_page_offset
    return first, first + chunk.total_compressed_size


def _with_chunk_checksum(
    data: bytes,
    start: int,
    metadata: pq.FileMetaData,
    table: dict[str, Any],
    group: int,
    number: int,
) -> bytes:
    first, stop = _chunk_range(metadata, group, number)
    at = start + table["chunks"][0] + 4 * (group * metadata.num_columns + number)
    return data[:at] + struct.pack("<I", zlib.crc32(data[first:stop])) + data[at + 4 :]


def text_replaced(data: bytes, column: int, old: bytes, new: bytes) -> bytes:
    """Return a split in whose rows one text is another of the same length, with the right
    checksums.
    """
    metadata = pq.read_metadata(pa.BufferReader(data))
    table = json.loads(metadata.metadata[TABLE_KEY.encode()])
    seal = data.rfind(FOOTER_CHECKSUM_KEY.encode()) + len(FOOTER_CHECKSUM_KEY) + 2
    first, stop = _chunk_range(metadata, 0, column)
    changed = data[:first] + data[first:stop].replace(old, new) + data[stop:]
    assert changed != data and len(changed) == len(data)
    start = int(data[seal : seal + 16], 16)
    return sealed(_with_chunk_checksum(changed, start, metadata, table, 0, column), start)


def _digits_changed(text: bytes, rng: random.Random) -> bytes:
    numbers = list(re.finditer(rb"\d+", text))
    found = rng.choice(numbers)
    new = rng.choice(
        [
            "9" * len(found[0]),
            "0" * (len(found[0]) - 1) + "1",
            str(rng.randrange(10 ** len(found[0]))),
        ]
    )
    return (
        text[: found.start()]
        + new.zfill(len(found[0])).encode()[: len(found[0])]
        + text[found.end() :]
    )


def bundle_changed(data: bytes, rng: random.Random) -> bytes:
    """Another engine's split with one of its files changed, and that file's checksum put right."""
    (hot,) = struct.unpack("<I", data[-4:])
    stop = len(data) - 4 - hot
    (size,) = struct.unpack("<I", data[stop - 4 : stop])
    begin = stop - 4 - size
    if rng.random() < 0.25:
        directory = _digits_changed(data[begin + 8 : stop - 4], rng)
        return data[: begin + 8] + directory + data[stop - 4 :]
    files = json.loads(data[begin + 8 : stop - 4])["files"]
    name = rng.choice(sorted(files))
    first, last = files[name]["start"], files[name]["end"]
    if name == "meta.json":
        old = data[first:last]
        new = _digits_changed(old, rng) if rng.random() < 0.7 else bytes_changed(old, rng)
        return data[:begin].replace(old, new) + data[begin:stop] + data[stop:].replace(old, new)
    (footer,) = struct.unpack("<I", data[last - 8 : last - 4])
    body = last - 8 - footer
    if not first < body < last:
        return bytes_changed(data, rng, start=first, stop=last)
    out = bytes_changed(data, rng, start=first, stop=body)
    told = str(json.loads(data[body : last - 8]).get("crc", 0)).encode()
    new = str(zlib.crc32(out[first:body])).encode()
    if len(told) == len(new):
        out = out[:body] + out[body:last].replace(told, new, 1) + out[last:]
    return out


def bundle(folder: Path, rng: random.Random) -> str | None:
    """Another engine's split."""
    path = _one(folder, rng, "**/*.split")
    if path is None:
        return None
    path.write_bytes(bundle_changed(path.read_bytes(), rng))
    return path.relative_to(folder).as_posix()


def partition_folder(folder: Path, rng: random.Random) -> str | None:
    """A version that adds a split that is there already under odd values."""
    versions = sorted((folder / log_files.LOG).glob("[0-9]*.json"))
    found = _one(folder, rng, "**/*.split")
    if not versions or found is None:
        return None
    name = found.relative_to(folder).as_posix()
    add = {
        "path": rng.choice([name, text_changed(name, rng)]),
        "size": found.stat().st_size,
        "modificationTime": 1,
    }
    add |= {
        "partitionValues": {"day": rng.choice(TEXTS)},
        "dataChange": True,
        "numRecords": rng.choice([0, 1, 2**62]),
    }
    add |= {
        "minValues": {"id": rng.choice(TEXTS)},
        "maxValues": {"id": rng.choice(TEXTS), "message": rng.choice(TEXTS)},
    }
    number = int(versions[-1].name[:20]) + 1
    (folder / log_files.version_path(number)).write_bytes(msgspec.json.encode({"add": add}))
    return name


CHANGES: dict[str, Change] = {
    "version files": version_file,
    "odd names": odd_name,
    "pointers": pointer,
    "states": state,
    "manifests": manifest,
    "JSON checkpoints": json_checkpoint,
    "Parquet checkpoints": parquet_checkpoint,
    "splits": split,
    "odd entries": partition_folder,
}

"""Avro records one by one: the slow, sure way, for a state's own file and for manifests of an unusual schema."""

from __future__ import annotations

import io
from typing import Any

import fastavro

from indextables.errors import BadFileError
from indextables.wire.avro_codec import unpack
from indextables.wire.avro_container import Container


def read_records(data: bytes, container: Container, *, path: str) -> list[dict[str, Any]]:
    """Every record of a container. A block that holds more or less than its records is a BadFileError."""
    try:
        schema = fastavro.parse_schema(container.schema)
        return [record for block in container.blocks for record in _block(data, schema, container.codec, block)]
    except Exception as failure:
        message = f"{path} cannot be decoded: {failure or type(failure).__name__}."
        raise BadFileError(message, path=path) from failure


def _block(data: bytes, schema: Any, codec: str, block: tuple[int, int, int]) -> list[dict[str, Any]]:
    count, start, end = block
    unpacked = unpack(codec, memoryview(data)[start:end])
    if count > len(unpacked):
        raise ValueError("a block declares more records than it has bytes")
    plain = io.BytesIO(unpacked)
    records = [fastavro.schemaless_reader(plain, schema) for _ in range(count)]
    if plain.read(1):
        raise ValueError("a block holds more than its records")
    if not all(isinstance(record, dict) for record in records):
        raise TypeError("the file does not hold records")
    return records

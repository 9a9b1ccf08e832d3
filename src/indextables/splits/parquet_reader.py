"""Opening a Parquet file to read it, with the reader that `pyarrow.parquet.ParquetFile` is a cover of.

The cover looks at every column's path and resolves file systems each time; and its module loads those of all clouds, which
takes as long as a search. What is read here is in memory already.
"""

from __future__ import annotations

from typing import Any

from pyarrow._parquet import FileMetaData, ParquetReader


def open_parquet(file: object, metadata: FileMetaData | None = None) -> Any:
    """A reader of a file object: `metadata`, `schema_arrow`, `read_row_groups`. Metadata that is known is not read again."""
    reader = ParquetReader()
    reader.open(file, metadata=metadata, pre_buffer=False)
    return reader

"""Find a column of prose among the first rows of a new table, so that a log line can suggest to
index its words.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

logger = logging.getLogger(__name__)
PROSE_LENGTH = 40
"""Average number of characters above which a column of texts with spaces looks like prose."""
SAMPLE_ROWS = 1_000


class ProseSample:
    """Passes batches on and keeps the name of a prose column of the first batch.

    Args:
        is_wanted: Whether to read the sample at all.
    """

    def __init__(self, *, is_wanted: bool = True) -> None:
        self.column: str | None = None
        self._is_wanted = is_wanted

    def watch(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the same batches."""
        for batch in batches:
            if self._is_wanted and batch.num_rows:
                self._is_wanted = False
                self.column = find_prose(batch.slice(0, SAMPLE_ROWS))
            yield batch


def find_prose(sample: pa.RecordBatch) -> str | None:
    """Return the string column with the longest values that have spaces; None if no column looks
    like prose.
    """
    lengths = {}
    for field, values in zip(sample.schema, sample.columns, strict=True):
        if not pa.types.is_string(field.type) or values.null_count == len(values):
            continue
        average = pc.mean(pc.utf8_length(values)).as_py()
        has_spaces = pc.mean(pc.match_substring(values, " ").cast(pa.int8())).as_py() > 0.5
        if average > PROSE_LENGTH and has_spaces:
            lengths[field.name] = average
    return max(lengths, key=lambda name: lengths[name], default=None)


def log_prose_hint(column: str | None) -> None:
    """Log which column looks like prose and which argument indexes its words. None logs nothing."""
    if column is not None:
        logger.warning(
            'The column %r looks like prose, but is indexed by its whole values. Pass text=["%s"] to search its words.',
            column,
            column,
        )

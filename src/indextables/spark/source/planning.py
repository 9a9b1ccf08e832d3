"""Planning a read in the process that started the driver, in the form in which Spark keeps what a planner process says."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Sequence

from pyspark.sql.types import StructType
from pyspark.sql.worker.plan_data_source_read import write_read_func_and_partitions

from indextables.spark.source.datasource import DefaultSource

logger = logging.getLogger(__name__)


def planned_read(schema_json: str, options: Sequence[str]) -> bytes | None:
    """What the tasks of a read do. None if it cannot be planned: Spark then asks a process of its own, and tells why."""
    schema = StructType.fromJson(json.loads(schema_json))
    source = DefaultSource(dict(zip(options[::2], options[1::2], strict=True)))
    told = io.BytesIO()
    try:
        write_read_func_and_partitions(
            told,
            reader=source.reader(schema),
            data_source=source,
            schema=schema,
            max_arrow_batch_size=1,  # for readers that return rows one by one
            binary_as_bytes=True,
        )
    except Exception:
        logger.debug("a read was not planned here", exc_info=True)
        return None
    return told.getvalue()

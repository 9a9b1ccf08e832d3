"""Settings of IndexTables for the JVM: names of settings here, settings without effect, and refused
ones.

A cluster that is configured for it has these keys in its Spark conf. Each works, or is accepted
with one line in the log that says why it has no effect, or is refused with the reason.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct


class Alias(Struct, frozen=True):
    """A key of IndexTables for the JVM that is a setting here. `convert` returns None for the
    default behaviour.
    """

    target: str
    convert: Callable[[Any], object] = lambda value: value
    allowed: str = ""
    """The allowed values, if they differ from those of the target."""


def _seconds(value: object) -> int:
    return math.ceil(float(str(value)) / 1000)


def _at_least_one(value: object) -> int:
    return max(1, int(str(value)))


_MILLISECONDS = "a number of milliseconds"
ALIASES: Mapping[str, Alias] = {
    "cache.disk.path": Alias("cache.directoryPath"),
    "cache.disk.maxSize": Alias("cache.maxSize"),
    "cache.coalesceMaxGap": Alias("read.coalesceMaxGap"),
    "read.batchOptimization.gapTolerance": Alias("read.coalesceMaxGap"),
    "read.batchOptimization.maxRangeSize": Alias("read.maxRangeSize"),
    "indexing.storeonlyfields": Alias("indexing.nonindexed"),
    "indexing.text.maxTokenLength": Alias("indexing.maxTokenLength"),
    "indexquery.indexall.maxUnqualifiedFields": Alias("indexing.maxDefaultSearchFields"),
    "merge.download.retries": Alias("storage.retry.maxRetries"),
    "merge.tempDirectoryPath": Alias("indexWriter.tempDirectoryPath"),
    "mergeOnWrite.maxConcurrentMergesPerWorker": Alias("merge.parallelism", _at_least_one),
    "read.batchOptimization.maxConcurrentPrefetch": Alias("read.remoteParallelism"),
    "s3.maxConcurrency": Alias("read.remoteParallelism"),
    "s3.partSize": Alias("storage.partSize"),
    "s3.endpoint": Alias("aws.endpoint"),
    "s3.pathStyleAccess": Alias("aws.pathStyleAccess"),
    "aws.forcePathStyle": Alias("aws.pathStyleAccess"),
    "gcp.credentialsFile": Alias("gcp.serviceAccountKey"),
    "transaction.maxConcurrentReads": Alias("checkpoint.parallelism"),
    "transaction.cache.ttl.ms": Alias(
        "transaction.cache.expirationSeconds", _seconds, _MILLISECONDS
    ),
    "transaction.cache.snapshot.ttl.ms": Alias(
        "transaction.cache.expirationSeconds", _seconds, _MILLISECONDS
    ),
}
"""The key there, and the setting here."""

_WRITES_THROUGH = "parts of splits are written to the disk cache at once and checked by their checksums; there is no queue"
_COMPANION = (
    "a companion is built by indexWriter.heapSize and merge.parallelism, from one list of files"
)
_ARROW = "rows are read as Arrow columns, without a batch of documents to tune"
_STREAMING_MERGE = (
    "a merge reads its splits one after the other and is bounded by merge.parallelism"
)
_PRUNING = "partitions are pruned over columns of the file list, all at once"
_PREWARM = "the whole index of a column is warmed, by each process for the splits that it reads"
_FAST = "every column is stored in columns"
_ESTIMATE = "splits are sized by the rows that were written, not by a sample"

NO_EFFECT: Mapping[str, str] = {
    **{
        f"cache.disk.{key}": _WRITES_THROUGH
        for key in (
            *("compression", "minCompressSize", "manifestSyncInterval", "dropWritesWhenFull"),
            *("writeQueue.mode", "writeQueue.capacity", "writeQueue.maxBudget"),
        )
    },
    **{
        f"companion.{key}": _COMPANION
        for key in (
            *(
                "sync.distributedLogRead.enabled",
                "sync.arrowFfi.enabled",
                "sync.batchSize",
                "sync.maxConcurrentBatches",
            ),
            *("writerHeapSize", "readerBatchSize", "schedulerPool"),
        )
    },
    "indexWriter.batchSize": "rows are indexed as Arrow batches, bounded by indexWriter.heapSize",
    "indexWriter.maxBatchBufferSize": "rows are indexed as Arrow batches, bounded by indexWriter.heapSize",
    "splitConversion.maxParallelism": "an index is written into its split, not converted afterwards",
    "indexing.fastfields": _FAST,
    "indexing.nonfastfields": _FAST,
    "indexing.indexonlyfields": "every value is kept in its row, so that the table can be scanned",
    "indexing.json.mode": "a json column is indexed by its paths, always",
    **{
        f"merge.{key}": _STREAMING_MERGE
        for key in (
            "download.maxConcurrencyPerCore",
            "download.memoryBudget",
            "upload.maxConcurrency",
        )
    },
    **{
        f"mergeOnWrite.{key}": _STREAMING_MERGE
        for key in (
            *(
                "batchCpuFraction",
                "maxConcurrentBatches",
                "minBatchesToTrigger",
                "mergeGroupMultiplier",
            ),
            *("memoryOverheadFactor",),
        )
    },
    **{
        f"partitionPruning.{key}": _PRUNING
        for key in (
            "filterCacheEnabled",
            "indexEnabled",
            "parallelThreshold",
            "selectivityOrdering",
        )
    },
    **{f"prewarm.{key}": _PREWARM for key in ("segments", "splitsPerTask", "catchUpNewHosts")},
    **{
        f"read.batchOptimization.{key}": _ARROW
        for key in ("enabled", "profile", "minDocsForOptimization")
    },
    "read.adaptiveTuning.enabled": _ARROW,
    "read.adaptiveTuning.minBatchesBeforeAdjustment": _ARROW,
    "read.columnar.enabled": _ARROW,
    "read.mode": _ARROW,
    "read.defaultLimit": "a read returns every row unless its query has a LIMIT: nothing is cut off",
    "read.requireAggregatePushdown": "an aggregate has the same answer whether it is pushed down or not",
    "read.aggregate.splitsPerTask": "aggregates are read like rows: see read.splitsPerTask",
    "read.aggregate.maxSplitsPerTask": "aggregates are read like rows: see read.maxSplitsPerTask",
    "write.optimizeWrite.samplingRatio": _ESTIMATE,
    "write.optimizeWrite.minRowsForEstimation": _ESTIMATE,
    "native.memory.enabled": "there is no memory outside Python's and Arrow's to switch on",
    "gcp.projectId": "a bucket is found by its name alone",
    "skippedFiles.trackingEnabled": "a split that cannot be read is always recorded as skipped",
}
"""Their keys without effect here, with the reason."""

REFUSED: Mapping[str, str] = {
    "protocol.checkEnabled": "a table that needs something newer would be read wrongly",
    "protocol.enforceReaderVersion": "a table that needs something newer would be read wrongly",
    "protocol.enforceWriterVersion": "a table that needs something newer would be damaged",
    "protocol.autoUpgrade": "a table's protocol rises with the first use of a newer feature, so that older readers refuse it",
}
"""Their switches that cannot be disabled here, with the reason; `true` is accepted."""
REFUSED_KINDS: Mapping[str, str] = {
    "text_uuid_exactonly": "`text`, which finds an id in quotes as a phrase, or `exact_only` for a column of nothing but ids",
    "text_uuid_strip": "`text`, which indexes the ids among the words too",
}
"""Their index kinds that are not supported, with the alternative in `indexing.typemap`."""

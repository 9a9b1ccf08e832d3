"""Settings by the names of the JVM engine: each works, or says once why it does nothing, or is refused with the reason."""

from __future__ import annotations

import logging
from pathlib import Path

import pyarrow as pa
import pytest

from indextables import Table, config
from indextables.config.jvm_names import ALIASES, NO_EFFECT, REFUSED
from indextables.errors import InvalidInputError, UnknownOptionError
from indextables.spark.source.reader import task_groups
from indextables.splits.read.table_split import SplitEntry

VALUES = {
    "cache.disk.enabled": "false",
    "cache.disk.path": "parts",
    "cache.disk.maxSize": "100M",
    "indexing.storeonlyfields": "a,b",
    "merge.tempDirectoryPath": "scratch",
    "s3.endpoint": "http://localhost:9",
    "s3.pathStyleAccess": "true",
    "aws.forcePathStyle": "true",
    "gcp.credentialsFile": "key.json",
    "write.optimizeWrite.distributionMode": "none",
}
SCHEMA = pa.schema([("subject", pa.string()), ("body", pa.string()), ("address", pa.string())])


@pytest.mark.parametrize("key", ALIASES)
def test_a_name_of_theirs_is_the_setting_of_ours(key: str) -> None:
    value = VALUES.get(key, "7")
    for spelling in (key, f"spark.indextables.{key}", key.lower()):
        settings = config.resolve(options={spelling: value})
        assert settings.given().keys() == {ALIASES[key].target}
    assert settings[ALIASES[key].target] == config.resolve(options={ALIASES[key].target: _ours(key, value)})[key]


def _ours(key: str, value: str) -> object:
    return ALIASES[key].convert(value)


def test_milliseconds_become_seconds_and_never_none() -> None:
    assert config.resolve(options={"transaction.cache.ttl.ms": "1"})["transaction.cache.expirationSeconds"] == 1
    assert config.resolve(options={"transaction.cache.ttl.ms": "300000"})["transaction.cache.expirationSeconds"] == 300


@pytest.mark.parametrize("key", NO_EFFECT)
def test_what_does_nothing_here_says_so_once(
    key: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("indextables.config.registry._mentioned", set())
    with caplog.at_level(logging.WARNING, "indextables"):
        first = config.resolve(options={key: "1"})
        config.resolve(options={f"spark.indextables.{key}": "1"})
    assert first.given() == {}
    assert list(first.without_effect) == [key]
    assert [r.getMessage() for r in caplog.records] == [f"Setting {key} has no effect here: {NO_EFFECT[key]}."]


@pytest.mark.parametrize("key", REFUSED)
def test_what_cannot_be_switched_off_is_refused(key: str) -> None:
    assert config.resolve(options={key: "true"}).given() == {}
    with pytest.raises(InvalidInputError, match=f"'{key}' cannot be false: "):
        config.resolve(options={key: "false"})


def test_a_secret_of_theirs_is_not_shown() -> None:
    assert "hush" not in str(config.resolve(options={"databricks.apiToken": "hush"}).without_effect)


def test_a_slip_in_a_name_of_theirs_is_an_error() -> None:
    with pytest.raises(UnknownOptionError, match=r"no setting 'cache\.disk\.pth'"):
        config.resolve(options={"cache.disk.pth": "x"})


def test_kinds_list_their_columns(tmp_path: Path) -> None:
    options = {
        "indexing.typemap.text": "subject, body",
        "indexing.typemap.ipaddress": "address",
        "indexing.tokenizer.en_stem": "body",
        "indexing.indexrecordoption.basic": "subject",
        "indexing.tokenLength.legacy": "body",
        "indexing.fastfields": "address",
    }
    table = Table.create(str(tmp_path / "t"), schema=SCHEMA, options=options)
    rows = [{"subject": "the runs", "body": "he runs " + "x" * 50, "address": "10.1.2.3"}]
    table.append(pa.Table.from_pylist(rows, SCHEMA))
    assert Table.open(table.path).settings.given() == {
        "indexing.typemap.*": {"subject": "text", "body": "text", "address": "ip"},
        "indexing.tokenizer.*": {"body": "en_stem"},
        "indexing.indexrecordoption.*": {"subject": "basic"},
        "indexing.tokenLength.*": {"body": "legacy"},
    }
    answers = {
        q: table.count(query=q) for q in ("body:running", "subject:running", "subject:runs", "address:10.0.0.0/8")
    }
    assert answers == {"body:running": 1, "subject:running": 0, "subject:runs": 1, "address:10.0.0.0/8": 1}
    assert table.count(query="body:" + "x" * 50) == 1  # longer than its terms are: answered from the rows


def test_a_column_that_is_called_like_a_kind_wins_over_the_kind(tmp_path: Path) -> None:
    schema = pa.schema([("text", pa.string()), ("string", pa.string())])
    table = Table.create(str(tmp_path / "t"), schema=schema, options={"indexing.typemap.text": "string"})
    assert table.settings.given()["indexing.typemap.*"] == {"text": "string"}


@pytest.mark.parametrize(
    ("key", "value", "fault"),
    [
        ("indexing.typemap.text", "subject,nothere", "'nothere', which is no column"),
        ("indexing.typemap.words", "subject", "typemap.subject cannot be 'words'"),
        ("indexing.tokenLength.body", "99999999", "tokenLength.body cannot be '99999999'"),
    ],
)
def test_a_list_with_a_fault_names_it_and_makes_no_table(tmp_path: Path, key: str, value: str, fault: str) -> None:
    with pytest.raises(InvalidInputError, match=fault):
        Table.create(str(tmp_path / "t"), schema=SCHEMA, options={key: value})
    assert not (tmp_path / "t").exists()


def test_splits_per_task_may_be_left_to_the_engine() -> None:
    assert config.resolve(options={"read.splitsPerTask": "auto"})["read.splitsPerTask"] == 0


def test_a_purge_deletes_at_most_so_many_files_and_says_what_is_left(tmp_path: Path) -> None:
    table = Table.create(str(tmp_path / "t"), schema=pa.schema({"a": pa.int64()}))
    for number in range(6):
        table.overwrite(pa.table({"a": [number]}))
    options = {"purge.retentionCheckEnabled": "false", "purge.maxFilesToDelete": "3", "purge.parallelism": "2"}
    bounded = Table.open(table.path, options=options)
    first = bounded.purge(older_than_hours=0)
    assert (first.orphaned_files_found, first.orphaned_files_deleted) == (3, 3)
    assert "2 files were left for the next purge" in first.message
    second = bounded.purge(older_than_hours=0)
    assert second.orphaned_files_deleted == 2
    assert "left" not in second.message
    assert Table.open(table.path).scan().read_all().to_pylist() == [{"a": 5}]


@pytest.mark.parametrize(("most", "expected"), [(0, [10]), (4, [4, 4, 2]), (1, [1] * 10)])
def test_a_task_reads_at_most_so_many_splits(most: int, expected: list[int]) -> None:
    entry = SplitEntry("a", 100, 1, None, {}, None, None)
    groups = task_groups([entry] * 10, per_task=0, searching=False, most=most)
    assert [len(group) for group in groups] == expected


DOCUMENTED = """
cache.disk.{enabled,path,maxSize,compression,minCompressSize,manifestSyncInterval,dropWritesWhenFull}
cache.disk.writeQueue.{mode,capacity,maxBudget} cache.coalesceMaxGap
companion.sync.{distributedLogRead.enabled,arrowFfi.enabled,batchSize,maxConcurrentBatches}
companion.{writerHeapSize,readerBatchSize,schedulerPool}
databricks.{workspaceUrl,apiToken,credential.refreshBuffer.minutes,cache.maxSize,fallback.enabled,retry.attempts}
filter.string{Pattern,StartsWith,EndsWith,Contains}.pushdown
indexWriter.{batchSize,maxBatchBufferSize,threads} splitConversion.maxParallelism
indexing.{fastfields,nonfastfields,storeonlyfields,indexonlyfields,json.mode}
indexing.text.{maxTokenLength,indexRecordOption}
merge.download.{maxConcurrencyPerCore,memoryBudget,retries} merge.upload.maxConcurrency merge.tempDirectoryPath
mergeOnWrite.{batchCpuFraction,maxConcurrentBatches,minBatchesToTrigger,mergeGroupMultiplier,minDiskSpaceGB}
mergeOnWrite.{maxConcurrentMergesPerWorker,memoryOverheadFactor}
partitionPruning.{filterCacheEnabled,indexEnabled,parallelThreshold,selectivityOrdering}
prewarm.{enabled,segments,fields,splitsPerTask,partitionFilter,catchUpNewHosts}
purge.{minRetentionHours,parallelism,maxFilesToDelete}
read.batchOptimization.{enabled,profile,maxRangeSize,gapTolerance,minDocsForOptimization,maxConcurrentPrefetch}
read.adaptiveTuning.{enabled,minBatchesBeforeAdjustment}
read.{defaultLimit,maxSplitsPerTask,requireAggregatePushdown,mode,columnar.enabled}
read.aggregate.{splitsPerTask,maxSplitsPerTask}
s3.{maxConcurrency,partSize,endpoint,pathStyleAccess}
transaction.{maxConcurrentReads,cache.ttl.ms} transaction.cache.{version,snapshot,fileList,metadata}.ttl.ms
transaction.cache.{version,snapshot,fileList}.capacity
write.optimizeWrite.{samplingRatio,minRowsForEstimation,distributionMode}
native.memory.enabled protocol.{checkEnabled,autoUpgrade,enforceReaderVersion,enforceWriterVersion}
skippedFiles.trackingEnabled indexquery.indexall.maxUnqualifiedFields
aws.forcePathStyle azure.bearerToken gcp.{projectId,credentialsFile}
"""
"""Every key of the JVM engine's documents that was not ours by the same name."""
WORKS = {"purge.parallelism", "purge.maxFilesToDelete", "purge.minRetentionHours", "read.maxSplitsPerTask"}


def documented() -> list[str]:
    found = []
    for word in DOCUMENTED.split():
        before, opened, rest = word.partition("{")
        inner, _, after = rest.partition("}")
        found += [before + part + after for part in inner.split(",")] if opened else [before]
    return found


def test_the_list_is_the_one_of_the_documents() -> None:
    assert len(documented()) == len(set(documented())) >= 97


@pytest.mark.parametrize("key", documented())
def test_every_documented_setting_is_known_by_its_name(key: str) -> None:
    for name in (key, f"spark.indextables.{key}", key.lower()):
        assert config.REGISTRY.lookup(name) is not None, name
    works = key in ALIASES or key in config.REGISTRY.settings
    assert works or key in NO_EFFECT or key in REFUSED or key.startswith("indexing.")
    assert key not in WORKS or key in config.REGISTRY.settings

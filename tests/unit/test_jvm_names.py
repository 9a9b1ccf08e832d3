"""Settings by the names of IndexTables for the JVM: each works, or says once why it does nothing,
or is refused with the reason.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from indextables import Table, config
from indextables.config.jvm_names import ALIASES, NO_EFFECT, REFUSED, REFUSED_KINDS
from indextables.config.splits import SplitCacheSettings
from indextables.errors import InvalidInputError, UnknownOptionError
from indextables.spark.source.definitions import table_properties
from indextables.spark.source.reader import task_groups
from indextables.splits.read.cache import SplitCache
from indextables.splits.read.table_split import SplitEntry

VALUES = {
    "cache.disk.path": "parts",
    "cache.disk.maxSize": "100M",
    "s3.partSize": "64M",
    "indexing.storeonlyfields": "a,b",
    "merge.tempDirectoryPath": "scratch",
    "s3.endpoint": "http://localhost:9",
    "s3.pathStyleAccess": "true",
    "aws.forcePathStyle": "true",
    "gcp.credentialsFile": "key.json",
}
SCHEMA = pa.schema([("subject", pa.string()), ("body", pa.string()), ("address", pa.string())])


@pytest.mark.parametrize("key", ALIASES)
def test_a_name_of_theirs_is_the_setting_of_ours(key: str) -> None:
    value = VALUES.get(key, "7")
    for spelling in (key, f"spark.indextables.{key}", key.lower()):
        settings = config.resolve(options={spelling: value})
        assert settings.given().keys() == {ALIASES[key].target}
    assert (
        settings[ALIASES[key].target]
        == config.resolve(options={ALIASES[key].target: _ours(key, value)})[key]
    )


def _ours(key: str, value: str) -> object:
    return ALIASES[key].convert(value)


@pytest.mark.parametrize("reverse", [False, True])
def test_a_disk_cache_that_is_off_is_off_whatever_its_size(tmp_path: Path, reverse: bool) -> None:
    given = [
        ("cache.disk.enabled", "false"),
        ("cache.disk.maxSize", "1G"),
        ("cache.disk.path", str(tmp_path)),
    ]
    settings = config.resolve(options=dict(reversed(given) if reverse else given))
    assert SplitCache.of(settings.group(SplitCacheSettings)).max_bytes == 0


def test_milliseconds_become_seconds_and_never_none() -> None:
    assert (
        config.resolve(options={"transaction.cache.ttl.ms": "1"})[
            "transaction.cache.expirationSeconds"
        ]
        == 1
    )
    assert (
        config.resolve(options={"transaction.cache.ttl.ms": "300000"})[
            "transaction.cache.expirationSeconds"
        ]
        == 300
    )


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
    assert [r.getMessage() for r in caplog.records] == [
        f"Setting {key} has no effect here: {NO_EFFECT[key]}."
    ]


@pytest.mark.parametrize("key", REFUSED)
def test_what_cannot_be_switched_off_is_refused(key: str) -> None:
    assert config.resolve(options={key: "true"}).given() == {}
    with pytest.raises(InvalidInputError, match=f"'{key}' cannot be false: "):
        config.resolve(options={key: "false"})


def test_a_secret_of_theirs_is_not_shown() -> None:
    settings = config.resolve(options={"databricks.apiToken": "hush"})
    assert "hush" not in str(settings.given())
    assert settings.given() == {"databricks.apiToken": "<hidden>"}


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
    assert (
        Table.open(table.path).settings.given()
        == table.settings.given()
        == {
            "indexing.typemap.*": {"subject": "text", "body": "text", "address": "ip"},
            "indexing.tokenizer.*": {"body": "en_stem"},
            "indexing.indexrecordoption.*": {"subject": "basic"},
            "indexing.tokenLength.*": {"body": "legacy"},
        }
    )
    answers = {
        q: table.count(query=q)
        for q in ("body:running", "subject:running", "subject:runs", "address:10.0.0.0/8")
    }
    assert answers == {
        "body:running": 1,
        "subject:running": 0,
        "subject:runs": 1,
        "address:10.0.0.0/8": 1,
    }
    assert (
        table.count(query="body:" + "x" * 50) == 1
    )  # longer than its terms are: answered from the rows


def test_a_column_that_is_called_like_a_kind_wins_over_the_kind(tmp_path: Path) -> None:
    schema = pa.schema([("text", pa.string()), ("string", pa.string())])
    table = Table.create(
        str(tmp_path / "t"), schema=schema, options={"indexing.typemap.text": "string"}
    )
    assert table.settings.given()["indexing.typemap.*"] == {"text": "string"}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"typemap.text": "text,title"}, {"typemap": {"text": "text", "title": "text"}}),
        ({"typemap.text": "title"}, {"typemap": {"title": "text"}}),
        ({"typemap.TEXT": "title, text"}, {"typemap": {"text": "text", "title": "text"}}),
        ({"typemap.text": "text"}, {"typemap": {"text": "text"}}),
        ({"typemap.text": "exact_only"}, {"typemap": {"text": "exact_only"}}),
        (
            {"typemap.text": "title,raw", "typemap.raw": "json"},
            {"typemap": {"title": "text", "raw": "json"}},
        ),
        (
            {"typemap.text": "raw,title", "tokenizer.raw": "title"},
            {"typemap": {"raw": "text", "title": "text"}, "tokenizer": {"title": "raw"}},
        ),
        (
            {"typemap.text": "raw", "tokenizer.raw": "en_stem"},
            {"typemap": {"raw": "text"}, "tokenizer": {"raw": "en_stem"}},
        ),
        (
            {"typemap.text": "freq,title", "indexrecordoption.freq": "freq,title"},
            {
                "typemap": {"freq": "text", "title": "text"},
                "indexrecordoption": {"freq": "freq", "title": "freq"},
            },
        ),
        (
            {"tokenLength.legacy": "title,legacy"},
            {"tokenLength": {"title": "legacy", "legacy": "legacy"}},
        ),
    ],
)
def test_a_kind_lists_columns_though_one_is_called_like_it(
    tmp_path: Path, options: dict[str, str], expected: dict[str, dict[str, str]]
) -> None:
    schema = pa.schema([(name, pa.string()) for name in ("text", "title", "raw", "freq", "legacy")])
    given = {f"indexing.{key}": value for key, value in options.items()}
    table = Table.create(str(tmp_path / "t"), schema=schema, options=given)
    meant = {f"indexing.{family}.*": words for family, words in expected.items()}
    assert table.settings.given() == Table.open(table.path).settings.given() == meant
    row = dict.fromkeys(schema.names, '{"a": 1}')
    for _ in range(2):  # the same options once more, over what the table carries
        table.append([row])
        table = Table.open(table.path, options=given)
    assert table.count() == 2
    table.alter.rename_column("text", "headline")
    table.append([{"headline": "x", "raw": "{}"}])
    assert (
        Table.open(
            table.path,
            options={"indexing.typemap.text": "title"} if "typemap.text" in options else {},
        ).count()
        == 3
    )


def test_a_list_of_an_option_leaves_what_the_table_says_of_the_column_that_is_called_like_the_kind(
    tmp_path: Path,
) -> None:
    schema = pa.schema([("text", pa.string()), ("title", pa.string())])
    table = Table.create(
        str(tmp_path / "t"), schema=schema, options={"indexing.typemap.text": "text,title"}
    )
    table.append([{"text": "a b", "title": "c d"}])
    Table.open(table.path, options={"indexing.typemap.text": "title"}).append(
        [{"text": "a e", "title": "c f"}]
    )
    assert (
        Table.open(table.path).count(query="text:a"),
        Table.open(table.path).count(query="title:c"),
    ) == (2, 2)


def test_a_value_that_is_kind_and_column_is_taken_of_the_column_in_the_key_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("indextables.config.registry._mentioned", set())
    schema = pa.schema([("text", pa.string()), ("json", pa.string())])
    with caplog.at_level(logging.WARNING, "indextables"):
        for name in ("a", "b"):
            table = Table.create(
                str(tmp_path / name), schema=schema, options={"indexing.typemap.text": "json"}
            )
            Table.open(table.path)
    assert table.settings.given()["indexing.typemap.*"] == {"text": "json"}
    assert [r.getMessage() for r in caplog.records] == [
        "indexing.typemap.text = json is taken to be about the column 'text', not about 'json'."
    ]


@pytest.mark.parametrize("mode", ["hash", "none", "HASH"])
def test_the_mode_of_distribution_is_a_setting_that_a_table_keeps(
    tmp_path: Path, mode: str
) -> None:
    key = "write.optimizeWrite.distributionMode"
    table = Table.create(
        str(tmp_path / "t"), schema=SCHEMA, options={f"spark.indextables.{key}": mode}
    )
    table.append([{"subject": "a"}])
    opened = Table.open(table.path, options={"write.optimizeWrite.enabled": "true"})
    assert opened.settings[key] == mode.lower()
    opened.update_metadata(options={key: "hash"})
    assert Table.open(table.path).settings[key] == "hash"
    with pytest.raises(
        InvalidInputError, match=r"distributionMode' cannot be 'range'\. Allowed: none \| hash"
    ):
        Table.create(str(tmp_path / "u"), schema=SCHEMA, options={key: "range"})


@pytest.mark.parametrize("kind", REFUSED_KINDS)
@pytest.mark.parametrize("turned", [False, True])
def test_a_kind_that_is_not_offered_says_what_to_write(
    tmp_path: Path, kind: str, turned: bool
) -> None:
    options = {f"indexing.typemap.{kind}": "body"} if turned else {"indexing.typemap.body": kind}
    with pytest.raises(InvalidInputError, match=f"typemap.body cannot be '{kind}'; write `text`"):
        Table.create(str(tmp_path / "t"), schema=SCHEMA, options=options)


@pytest.mark.parametrize(
    ("key", "value", "allowed"),
    [
        ("cache.disk.enabled", "nah", "true or false"),
        ("transaction.cache.ttl.ms", "soon", "a number of milliseconds"),
        ("cache.disk.maxSize", "much", "bytes or a text such as 100M"),
        ("s3.pathStyleAccess", "nah", "true or false"),
        ("merge.download.retries", "often", "n"),
        ("mergeOnWrite.maxConcurrentMergesPerWorker", "many", "n"),
    ],
)
def test_a_refused_value_names_the_key_that_was_given_and_what_it_takes(
    key: str, value: str, allowed: str
) -> None:
    with pytest.raises(
        InvalidInputError, match=rf"'{key}' cannot be '{value}'\. Allowed: .*{allowed}"
    ):
        config.resolve(options={key.lower(): value})


def test_errors_of_a_write_and_of_a_change_name_the_key_that_was_given(tmp_path: Path) -> None:
    table = Table.create(str(tmp_path / "t"), schema=SCHEMA)
    with pytest.raises(InvalidInputError, match=r"indexing\.storeonlyfields names 'kk'") as refusal:
        Table.open(table.path, options={"indexing.storeonlyfields": "kk"}).append([{"body": "a"}])
    assert all("storeonlyfields" in fault for fault in refusal.value.context["faults"])
    with pytest.raises(InvalidInputError, match=r"indexing\.storeonlyfields names 'kk'"):
        table.update_metadata(options={"indexing.storeonlyfields": "kk"})
    with pytest.raises(InvalidInputError, match=r"indexing\.nonindexed names 'kk'"):
        table.update_metadata(options={"indexing.nonindexed": "kk"})
    with pytest.raises(
        InvalidInputError, match=r"^cache\.disk\.path cannot be stored in table metadata"
    ):
        table.update_metadata(options={"cache.disk.path": "parts"})


def test_what_does_nothing_is_accepted_where_settings_of_a_table_are_set(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("indextables.config.registry._mentioned", set())
    table = Table.create(str(tmp_path / "t"), schema=SCHEMA)
    with caplog.at_level(logging.WARNING, "indextables"):
        assert table.update_metadata(options={"indexing.fastfields": "body"}) is None
        settings, words = table_properties(
            {"indexing.fastfields": "body", "owner of it": "me"}, SCHEMA.names
        )
    assert (settings, words) == ({}, {"owner of it": "me"})
    assert len(caplog.records) == 1
    assert "indexing.fastfields has no effect here" in caplog.records[0].getMessage()


def test_a_line_is_said_once_by_all_processes_of_an_application(tmp_path: Path) -> None:
    folder = tmp_path / "blockmgr-1"
    folder.mkdir()
    program = (
        "from indextables import config; from indextables.spark.settings import known_settings\n"
        "for value in ('a', 'a', 'b'): config.resolve(options={'indexing.fastfields': value})\n"
        "known_settings({'spark.indextables.indexing.typemapp': 'x'})"
    )
    said = ""
    for _ in range(3):
        environment = {**os.environ, "SPARK_LOCAL_DIRS": str(folder)}
        said += subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, text=True
        ).stderr
    assert said.count("has no effect") == 2  # for two values
    assert said.count("is left out") == 1


@pytest.mark.parametrize(
    ("key", "value", "fault"),
    [
        ("indexing.typemap.text", "subject,nothere", "'nothere', which is no column"),
        ("indexing.typemap.words", "subject", "typemap.subject cannot be 'words'"),
        ("indexing.tokenLength.body", "99999999", "tokenLength.body cannot be '99999999'"),
        ("indexing.typemap.text", "nope", "typemap names 'nope', which is no column"),
        (
            "indexing.typemap.text",
            "subjct",
            r"names 'subjct', which is no column\. Did you mean 'subject'\?",
        ),
        (
            "indexing.tokenizer.en_stem",
            "bdy",
            r"tokenizer names 'bdy', which is no column\. Did you mean 'body'\?",
        ),
        (
            "indexing.storeonlyfields",
            "kk",
            "indexing.storeonlyfields names 'kk', which is no column",
        ),
        ("indexing.storeonlyfields", "adress", "Did you mean 'address'"),
    ],
)
def test_a_list_with_a_fault_names_it_and_makes_no_table(
    tmp_path: Path, key: str, value: str, fault: str
) -> None:
    with pytest.raises(InvalidInputError, match=fault):
        Table.create(str(tmp_path / "t"), schema=SCHEMA, options={key: value})
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize(
    "family, words", [("typemap", ("json", "text")), ("tokenizer", ("en_stem", "raw"))]
)
def test_a_column_in_two_lists_is_refused(
    tmp_path: Path, family: str, words: tuple[str, str]
) -> None:
    for first, second in (words, words[::-1]):
        options = {
            f"indexing.{family}.{first}": "body,subject",
            f"indexing.{family}.{second}": "body",
        }
        with pytest.raises(
            InvalidInputError,
            match=f"{family}.{first} and indexing.{family}.{second} both name 'body'",
        ):
            Table.create(str(tmp_path / "t"), schema=SCHEMA, options=options)
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize("right", ["indexing.typemap.text", "indexing.typemap.body"])
def test_a_misspelt_kind_next_to_a_right_one_is_refused(tmp_path: Path, right: str) -> None:
    value = "body" if right.endswith("text") else "text"
    for options in (
        {"indexing.typemap.txet": "body", right: value},
        {right: value, "indexing.typemap.txet": "body"},
    ):
        with pytest.raises(InvalidInputError, match="cannot be 'txet'"):
            Table.create(str(tmp_path / "t"), schema=SCHEMA, options=options)
    assert not (tmp_path / "t").exists()


def test_splits_per_task_may_be_left_to_the_engine() -> None:
    assert config.resolve(options={"read.splitsPerTask": "auto"})["read.splitsPerTask"] == 0


def test_a_purge_deletes_at_most_so_many_files_and_says_what_is_left(tmp_path: Path) -> None:
    table = Table.create(str(tmp_path / "t"), schema=pa.schema({"a": pa.int64()}))
    for number in range(6):
        table.overwrite(pa.table({"a": [number]}))
    options = {
        "purge.retentionCheckEnabled": "false",
        "purge.maxFilesToDelete": "3",
        "purge.parallelism": "2",
    }
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


WORKING = """
cache.disk.{enabled,path,maxSize} cache.coalesceMaxGap
databricks.{workspaceUrl,apiToken,credential.refreshBuffer.minutes,cache.maxSize,fallback.enabled,retry.attempts}
filter.string{Pattern,StartsWith,EndsWith,Contains}.pushdown
indexWriter.threads
indexing.storeonlyfields indexing.text.{maxTokenLength,indexRecordOption} indexing.tokenLength.body
merge.download.retries merge.tempDirectoryPath mergeOnWrite.{minDiskSpaceGB,maxConcurrentMergesPerWorker}
prewarm.{enabled,fields,partitionFilter,failOnMissingField}
purge.{minRetentionHours,parallelism,maxFilesToDelete}
read.batchOptimization.{maxRangeSize,gapTolerance,maxConcurrentPrefetch} read.maxSplitsPerTask
s3.{maxConcurrency,partSize,endpoint,pathStyleAccess}
transaction.{maxConcurrentReads,cache.ttl.ms} transaction.cache.{version,snapshot,fileList,metadata}.ttl.ms
transaction.cache.{version,snapshot,fileList}.capacity
write.optimizeWrite.distributionMode
indexquery.indexall.maxUnqualifiedFields aws.forcePathStyle azure.bearerToken gcp.credentialsFile
"""
"""Keys of IndexTables for the JVM's documents, beside those that were ours by the same name, that
do here what they do there.
"""
IDLE = """
cache.disk.{compression,minCompressSize,manifestSyncInterval,dropWritesWhenFull}
cache.disk.writeQueue.{mode,capacity,maxBudget}
companion.sync.{distributedLogRead.enabled,arrowFfi.enabled,batchSize,maxConcurrentBatches}
companion.{writerHeapSize,readerBatchSize,schedulerPool}
indexWriter.{batchSize,maxBatchBufferSize} splitConversion.maxParallelism
indexing.{fastfields,nonfastfields,indexonlyfields,json.mode}
merge.download.memoryBudget
mergeOnWrite.{batchCpuFraction,maxConcurrentBatches,minBatchesToTrigger,mergeGroupMultiplier,memoryOverheadFactor}
partitionPruning.{filterCacheEnabled,indexEnabled,parallelThreshold,selectivityOrdering}
prewarm.{segments,splitsPerTask,catchUpNewHosts}
read.batchOptimization.{enabled,profile,minDocsForOptimization}
read.adaptiveTuning.{enabled,minBatchesBeforeAdjustment}
read.{defaultLimit,requireAggregatePushdown,mode,columnar.enabled}
read.aggregate.{splitsPerTask,maxSplitsPerTask}
write.optimizeWrite.{samplingRatio,minRowsForEstimation}
native.memory.enabled skippedFiles.trackingEnabled gcp.projectId
"""
"""Those that are accepted and have no effect, with their reason."""
REFUSED_KEYS = "protocol.{checkEnabled,autoUpgrade,enforceReaderVersion,enforceWriterVersion}"
"""Those that cannot be switched off."""
DEVIATING = {
    "merge.download.maxConcurrencyPerCore": "a merge reads its splits one after the other: there is nothing to bound",
    "merge.upload.maxConcurrency": "a merge has one file at a time to upload, in parts of s3.partSize",
}
"""Those that were to work and have no effect, and why."""


def keys_of(text: str) -> list[str]:
    found = []
    for word in text.split():
        before, opened, rest = word.partition("{")
        inner, _, after = rest.partition("}")
        found += [before + part + after for part in inner.split(",")] if opened else [before]
    return found


EXPECTED = {
    **dict.fromkeys(keys_of(WORKING), "works"),
    **dict.fromkeys((*keys_of(IDLE), *DEVIATING), "no effect"),
    **dict.fromkeys(keys_of(REFUSED_KEYS), "refused"),
}


def test_the_list_is_the_one_of_the_documents() -> None:
    texts = (WORKING, IDLE, REFUSED_KEYS)
    assert len(EXPECTED) == sum(len(keys_of(text)) for text in texts) + len(DEVIATING) == 108
    listed = {key for key, outcome in EXPECTED.items() if outcome != "works"}
    assert listed == NO_EFFECT.keys() | REFUSED.keys(), "nothing else is without effect"


@pytest.mark.parametrize(("key", "outcome"), EXPECTED.items())
def test_every_documented_setting_works_or_is_told_to_have_no_effect_or_refused(
    key: str, outcome: str
) -> None:
    for name in (key, f"spark.indextables.{key}", key.lower()):
        match = config.REGISTRY.lookup(name)
        assert match is not None, name
        if key in REFUSED:
            found = "refused"
        else:
            found = "no effect" if match[0].group is config.WithoutEffect else "works"
        assert found == outcome
        assert (match[0].key in config.REGISTRY.settings) == (outcome == "works")

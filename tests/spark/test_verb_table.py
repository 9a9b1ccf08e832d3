"""Each function of `indextables.spark` and each command of Spark SQL is classified; each that
changes a table checks protocol and identity, and may be interrupted.

A statement changes a table in several processes. `tests/support/interruption.py` ends them.
"""

from __future__ import annotations

import re
import shutil
import zipfile
from pathlib import Path
from typing import Any

import pyspark
import pytest
from msgspec.structs import replace
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import indextables.spark as its
from indextables import Table
from indextables.errors import IndexTablesError
from indextables.log.cache import PROCESS_CACHE
from indextables.log.log_files import version_path
from indextables.wire import version_file
from tests.api.spark_verbs import (
    COMMANDS,
    FUNCTIONS,
    FUNCTIONS_THAT_READ,
    OTHER_COMMANDS,
    REFUSED,
    REWRITTEN,
    SparkChange,
    SparkPlace,
)
from tests.api.verbs import OPTIONS, SCHEMA, rows
from tests.support.interruption import Interrupted, Interruption
from tests.support.stores import contents

pytestmark = pytest.mark.timeout(900)
PLANS = "org.apache.spark.sql.catalyst.plans.logical"
CHANGES = (*FUNCTIONS, *COMMANDS)
EVERY = [
    pytest.param(change, id=change.name, marks=[pytest.mark.slow] if change.is_slow else [])
    for change in CHANGES
]
SOME = [
    pytest.param(change, id=change.name, marks=[] if change.is_quick else [pytest.mark.slow])
    for change in CHANGES
]
MOVING = [
    pytest.param(change, id=change.name, marks=[] if change.is_quick else [pytest.mark.slow])
    for change in CHANGES
    if not change.creates
]
FAILURES = (PySparkException, IndexTablesError)
ENDS = (*FAILURES, Py4JJavaError, Interrupted)


def test_every_function_is_classified_as_one_that_reads_or_changes() -> None:
    names = [change.name.removeprefix("its.") for change in FUNCTIONS]
    assert len(names) == len(set(names))
    assert not FUNCTIONS_THAT_READ & {*names}
    assert {*its.__all__} == FUNCTIONS_THAT_READ | {*names}


def test_every_command_of_spark_is_classified(spark: SparkSession) -> None:
    changes = {change.name for change in COMMANDS}
    groups = [changes, REFUSED.keys(), REWRITTEN, OTHER_COMMANDS]
    assert sum(map(len, groups)) == len(set().union(*groups))
    assert commands_of(spark) - set().union(*groups) == set()


def commands_of(spark: SparkSession) -> set[str]:
    """The commands of this version of Spark, by the names of their classes."""
    jvm: Any = spark._jvm
    folder = Path(pyspark.__file__).parent / "jars"
    (jar,) = folder.glob("spark-catalyst_*.jar")
    pattern = re.compile(rf"{PLANS.replace('.', '/')}/(\w+)\.class")
    names = [
        match[1] for name in zipfile.ZipFile(jar).namelist() if (match := pattern.fullmatch(name))
    ]
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()

    def load(name: str) -> Any:
        return jvm.java.lang.Class.forName(f"{PLANS}.{name}", False, loader)

    command, is_abstract = load("Command"), jvm.java.lang.reflect.Modifier.isAbstract
    kinds = {name: load(name) for name in names}
    return {
        name
        for name, kind in kinds.items()
        if command.isAssignableFrom(kind) and not is_abstract(kind.getModifiers())
    }


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table with something to do for every verb: small splits, deleted rows, removed splits."""
    path = tmp_path_factory.mktemp("verbs") / "t"
    table = Table.create(str(path), schema=SCHEMA, partition_columns=["day"], options=OPTIONS)
    for number in range(2):
        table.append(rows(*range(number * 6, number * 6 + 6)))
    table.delete(where="id = 3")
    table.drop_partitions("day = 2")
    table.append(rows(32, 35))
    return path


@pytest.fixture(scope="module")
def another(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table with other rows and more versions."""
    path = tmp_path_factory.mktemp("another") / "t"
    table = Table.create(str(path), schema=SCHEMA, partition_columns=["day"], options=OPTIONS)
    for number in range(8):
        table.append(rows(1000 + number))
    return path


@pytest.fixture
def interruption(spark_interruption: Path) -> Interruption:
    return Interruption(spark_interruption)


def place_in(spark: SparkSession, folder: Path, made: Path | None) -> SparkPlace:
    """A place with a copy of a table, or with none."""
    if made is not None:
        shutil.copytree(made, folder / "t")
    PROCESS_CACHE.invalidate()
    folder.mkdir(exist_ok=True)
    return SparkPlace(spark, str(folder / "t"), folder)


def open_table(place: SparkPlace) -> Table:
    """The table, as a process opens it that has read nothing."""
    PROCESS_CACHE.invalidate()
    return Table.open(place.path, options=OPTIONS)


def has_table(place: SparkPlace) -> bool:
    return bool(list(Path(place.path).glob("_transaction_log/0*.json")))


def rows_of(place: SparkPlace) -> list[dict[str, Any]]:
    """The rows of a table; none where there is no table."""
    if not has_table(place):
        return []
    return sorted((dict(row) for row in open_table(place)), key=repr)


@pytest.mark.parametrize("change", EVERY)
def test_a_table_of_a_newer_writer_is_refused_and_left_as_it_is(
    spark: SparkSession, made: Path, change: SparkChange, tmp_path: Path
) -> None:
    place = place_in(spark, tmp_path / "p", made)
    newest = open_table(place)
    protocol = newest.protocol
    newer = replace(protocol, writer_features=(*(protocol.writer_features or ()), "someday"))
    Path(place.path, version_path(newest.version + 1)).write_bytes(version_file.encode([newer]))
    PROCESS_CACHE.invalidate()
    before = contents(place.path)
    with pytest.raises(FAILURES) as refused:
        change.run(place)
    assert contents(place.path) == before
    assert ("exists" if change.creates else "someday") in str(refused.value)


@pytest.mark.parametrize("change", MOVING)
def test_a_table_that_is_created_again_while_a_statement_runs_is_left_as_it_is(
    spark: SparkSession,
    made: Path,
    another: Path,
    interruption: Interruption,
    change: SparkChange,
    tmp_path: Path,
) -> None:
    place = place_in(spark, tmp_path / "p", made)
    with interruption.planned(swap=(place.path, str(another))), pytest.raises(FAILURES):
        change.run(place)
    after, others = contents(place.path), contents(another)
    assert others.items() <= after.items()
    logged = {name for name in after.keys() - others.keys() if "/0" in name}
    assert not logged
    again = open_table(place)
    assert (again.version, again.count()) == (8, 8)


@pytest.mark.parametrize("change", SOME)
def test_after_an_interruption_every_row_is_there_and_the_statement_runs_again(
    spark: SparkSession, made: Path, interruption: Interruption, change: SparkChange, tmp_path: Path
) -> None:
    start = None if change.creates else made
    whole = place_in(spark, tmp_path / "whole", start)
    old = rows_of(whole)
    with interruption.planned():
        change.run(whole)
    calls = interruption.calls
    assert calls > 0, "the call changes nothing"
    new = rows_of(whole)
    for at in sorted({1, (calls + 1) // 2, calls}):
        place = place_in(spark, tmp_path / f"at-{at}", start)
        version = -1 if change.creates else open_table(place).version
        with interruption.planned(at=at), pytest.raises(ENDS):
            change.run(place)
        PROCESS_CACHE.invalidate()
        if change.drops:
            change.run(place)
            assert not list(Path(place.path).rglob("*.split"))
            continue
        found = rows_of(place)
        assert found in (old, new), at
        if change.is_repeatable or not has_table(place) or open_table(place).version == version:
            change.run(place)
            assert rows_of(place) == new, at
        findings = open_table(place).verify(full=True).findings
        assert not [finding for finding in findings if finding.severity == "error"], at


@pytest.mark.parametrize("name", REFUSED)
def test_a_statement_that_tables_do_not_have_is_refused_and_changes_nothing(
    spark: SparkSession, made: Path, name: str, tmp_path: Path
) -> None:
    place = place_in(spark, tmp_path / "p", made)
    with pytest.raises(FAILURES):
        spark.sql(REFUSED[name].replace("{t}", place.name)).collect()
    assert contents(place.path) == contents(made)

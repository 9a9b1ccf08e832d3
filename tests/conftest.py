"""Places to put tables, for every suite: real stores that start once per test process, a fresh
folder per test.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from indextables.log.checkpoint.checkpointer import CHECKPOINTS
from tests.support import interruption
from tests.support.fault_server import FaultServer
from tests.support.places import StorePlace
from tests.support.quick_jvm import QUICK_JVM
from tests.support.servers import ServerUnavailableError, azure_server, s3_server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_fresh = count()
SPARK_SETTINGS = {
    "spark.driver.memory": "2g",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.sql.session.timeZone": "America/New_York",
}
CHECKPOINTS.workers = (
    0  # a test that looks at a table sees the checkpoint that its commits made due
)


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the tests of Azurite in one process: it is installed with npm where it is not there, and
    others would wait.
    """
    for item in items:
        if (
            "azure" in getattr(item, "fixturenames", ())
            and item.get_closest_marker("xdist_group") is None
        ):
            item.add_marker(pytest.mark.xdist_group("azure"))


@pytest.fixture(scope="session")
def s3() -> Iterator[StorePlace]:
    """A bucket of a running S3 (ministack)."""
    with s3_server() as place:
        yield place


@pytest.fixture(scope="session")
def azure() -> Iterator[StorePlace]:
    """A container of a running Azurite; skips where there is no npm."""
    try:
        server = azure_server()
        place = server.__enter__()
    except ServerUnavailableError as reason:
        pytest.skip(str(reason))
    try:
        yield place
    finally:
        server.__exit__(None, None, None)


@pytest.fixture(scope="session")
def spark_interruption(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder through which a test interrupts the processes of the session."""
    return tmp_path_factory.mktemp("interruption")


@pytest.fixture(scope="session")
def spark(spark_interruption: Path) -> Iterator[SparkSession]:
    """A small session with the extension installed: the one of all tests, which share a process for
    it.
    """
    import indextables.spark as its  # takes long, and most processes need none

    with pytest.MonkeyPatch.context() as patch:
        for name, value in QUICK_JVM.items():
            patch.setenv(name, value)
        patch.setenv(interruption.FOLDER, str(spark_interruption))
        paths = [str(interruption.WORKERS), str(Path(__file__).parents[1])]
        patch.setenv("PYTHONPATH", os.pathsep.join([*paths, os.environ.get("PYTHONPATH", "")]))
        session = its.session("tests", master="local[2]", conf=SPARK_SETTINGS)
    yield session
    session.stop()


@pytest.fixture
def s3_place(s3: StorePlace) -> StorePlace:
    """An empty folder of the S3 bucket."""
    return s3.below(f"fresh-{next(_fresh)}")


@pytest.fixture
def azure_place(azure: StorePlace) -> StorePlace:
    """An empty folder of the Azure container."""
    return azure.below(f"fresh-{next(_fresh)}")


@pytest.fixture
def memory_place() -> StorePlace:
    """An empty store in memory."""
    return StorePlace(f"memory://fresh-{next(_fresh)}")


@pytest.fixture
def local_place(tmp_path: Path) -> StorePlace:
    """A folder that does not exist yet."""
    return StorePlace(str(tmp_path / "fresh"))


@pytest.fixture
def fault_server() -> Iterator[FaultServer]:
    """An object store that misbehaves on demand."""
    with FaultServer() as server:
        yield server


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many code blocks of the documents ran, whichever processes ran them."""
    passed = [
        report for report in terminalreporter.stats.get("passed", []) if report.when == "call"
    ]
    ran = [
        count
        for report in passed
        for name, count in report.user_properties
        if name == "code_blocks"
    ]
    if ran:
        terminalreporter.write_line(
            f"documents: {sum(ran)} code blocks ran on {len(ran)} pages and notebooks"
        )

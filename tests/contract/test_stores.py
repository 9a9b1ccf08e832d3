"""Every store keeps the one contract: memory, disk, S3 and Azure servers, and the wrappers around
them.
"""

from __future__ import annotations

import pytest

from indextables.storage.store import Store
from tests.support.fault_server import FaultServer
from tests.support.faulty_store import CountingStore, FaultyStore, LoggingStore
from tests.support.places import StorePlace
from tests.support.store_contract import StoreContract


class TestMemory(StoreContract):
    @pytest.fixture
    def store(self, memory_place: StorePlace) -> Store:
        return memory_place.open()


class TestMemoryFolder(StoreContract):
    @pytest.fixture
    def store(self, memory_place: StorePlace) -> Store:
        memory_place.open().put("tables/other", b"not ours")
        return memory_place.below("tables/a b=c%20").open()


class TestLocal(StoreContract):
    @pytest.fixture
    def store(self, local_place: StorePlace) -> Store:
        return local_place.below("a b=c%20").open()


class TestCounting(StoreContract):
    @pytest.fixture
    def store(self, memory_place: StorePlace) -> Store:
        return CountingStore(memory_place.open())


class TestLogging(StoreContract):
    @pytest.fixture
    def store(self, local_place: StorePlace, caplog: pytest.LogCaptureFixture) -> Store:
        caplog.set_level("DEBUG")
        return LoggingStore(local_place.open())


class TestFaultyOff(StoreContract):
    @pytest.fixture
    def store(self, local_place: StorePlace) -> Store:
        return FaultyStore(local_place.open())


class TestS3(StoreContract):
    @pytest.fixture
    def store(self, s3_place: StorePlace) -> Store:
        return s3_place.below("a b=c%20").open()


class TestAzure(StoreContract):
    @pytest.fixture
    def store(self, azure_place: StorePlace) -> Store:
        return azure_place.below("a b=c").open()


class TestS3Protocol(StoreContract):
    """The misbehaving server, behaving: what it says about faults is worth as much as this."""

    @pytest.fixture
    def store(self, fault_server: FaultServer) -> Store:
        return fault_server.s3.below("a b=c%20").open()


class TestGcsProtocol(StoreContract):
    @pytest.fixture
    def store(self, fault_server: FaultServer) -> Store:
        return fault_server.gcs.below("a b=c%20").open()

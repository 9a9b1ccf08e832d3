"""Many processes want to create the same object, round after round: one does, and its bytes are
what is read.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.places import StorePlace
from tests.support.servers import seaweedfs_server
from tests.support.store_races import race


def test_one_winner_on_the_local_disk(local_place: StorePlace) -> None:
    race(local_place, 200)


def test_one_winner_on_s3(s3_place: StorePlace) -> None:
    race(s3_place, 200)


@pytest.fixture
def seaweedfs() -> Iterator[StorePlace]:
    with seaweedfs_server() as place:
        yield place


@pytest.mark.slow
def test_one_winner_on_seaweedfs(seaweedfs: StorePlace) -> None:
    race(seaweedfs.below("race"), 50)

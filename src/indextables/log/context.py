"""What the parts of one transaction log share: the store, the settings, the cache, and the sources
of time and chance.
"""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable, Hashable

from msgspec import Struct, field

from indextables.config.log import (
    CacheSettings,
    CheckpointSettings,
    CleanupSettings,
    CompactionSettings,
    LogReadSettings,
    RetentionSettings,
    RetrySettings,
    StateReadSettings,
    StateRetrySettings,
    StateWriteSettings,
    VersionFileSettings,
)
from indextables.log.cache import PROCESS_CACHE, LogCache
from indextables.log.checkpoint.checkpointer import CheckpointQueue
from indextables.log.replica import Replica
from indextables.storage.store import Store


class LogSettings(Struct, frozen=True):
    """The settings of a log, by area."""

    read: LogReadSettings = LogReadSettings()
    retry: RetrySettings = RetrySettings()
    cache: CacheSettings = CacheSettings()
    files: VersionFileSettings = VersionFileSettings()
    state_read: StateReadSettings = StateReadSettings()
    checkpoint: CheckpointSettings = CheckpointSettings()
    state_write: StateWriteSettings = StateWriteSettings()
    compaction: CompactionSettings = CompactionSettings()
    state_retry: StateRetrySettings = StateRetrySettings()
    retention: RetentionSettings = RetentionSettings()
    cleanup: CleanupSettings = CleanupSettings()


class LogContext(Struct):
    """The surroundings of one log. Tests replace the clock, the ids, the randomness and the pauses."""

    store: Store
    settings: LogSettings = LogSettings()
    """The settings in force; a table replaces them when its metadata changes."""
    cache: LogCache = PROCESS_CACHE
    now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000
    new_id: Callable[[], str] = lambda: str(uuid.uuid4())
    rng: random.Random = field(default_factory=random.Random)
    sleep: Callable[[float], None] = time.sleep
    monotonic: Callable[[], float] = time.monotonic
    background: CheckpointQueue | None = None
    """Where due checkpoints are written in the background; None: by the commit that makes them due."""
    replica: Replica | None = None
    """Where states are copied to."""
    place: Hashable = None
    """Distinguishes stores of one URL: other endpoints, other credentials. Each place has its own
    cached snapshot.
    """

"""Reading and moving `_last_checkpoint`. It only ever saves work: a table opens rightly whatever it says."""

from __future__ import annotations

import logging

from indextables.errors import NotFoundError
from indextables.log import names
from indextables.storage.store import Store
from indextables.wire.last_checkpoint import LastCheckpoint, UnusablePointer, decode_pointer, encode_pointer

logger = logging.getLogger(__name__)


def read_pointer(store: Store) -> LastCheckpoint | None:
    """Where the newest checkpoint is said to be; None if the pointer is missing or cannot be used."""
    try:
        found = decode_pointer(store.get(names.POINTER))
    except NotFoundError:
        return None
    if isinstance(found, UnusablePointer):
        logger.info("%s of %s is not used: %s.", names.POINTER, store.url, found.reason)
        return None
    return found


def move_pointer(store: Store, pointer: LastCheckpoint) -> None:
    """Point at a checkpoint, unless the pointer is there or further on already."""
    there = read_pointer(store)
    if there is None or there.version < pointer.version or (there.version == pointer.version and there != pointer):
        store.put(names.POINTER, encode_pointer(pointer))

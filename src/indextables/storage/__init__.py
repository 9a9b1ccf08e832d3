"""Object stores behind one small protocol. `StoreSpec.from_url(...)` describes a store,
`open_store(spec)` opens it.
"""

from indextables.storage.spec import StoreSpec, open_store
from indextables.storage.store import ObjectInfo, PutOutcome, Store

__all__ = ["ObjectInfo", "PutOutcome", "Store", "StoreSpec", "open_store"]

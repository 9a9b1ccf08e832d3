"""What the cache of logs holds beyond its time goes from memory, though it is never looked up
again.
"""

from __future__ import annotations

from indextables.log.cache import KindBounds, LogCache


def test_expired_entries_of_other_tables_go_with_the_next_use() -> None:
    now = 0.0
    cache = LogCache(1 << 20, monotonic=lambda: now)
    cache.set_bounds(KindBounds(max_age_s={"versions": 60}))
    for number in range(100):
        cache.put("versions", "s3://bucket/a", number, "text", cost_bytes=1_000)
    cache.put("states", "s3://bucket/a", 1, "state", cost_bytes=10)
    assert cache.stats().held_bytes == 100_010
    now = 61.0
    cache.put("versions", "s3://bucket/b", 1, "text", cost_bytes=1_000)
    assert cache._bytes == 1_010
    now = 200.0
    cache.get("states", "s3://bucket/a", 1)
    assert cache._bytes == 10


def test_figures_show_no_expired_entry() -> None:
    now = 0.0
    cache = LogCache(1 << 20, monotonic=lambda: now)
    cache.set_bounds(KindBounds(max_age_s={"versions": 60}))
    cache.put("versions", "t", 1, "text", cost_bytes=1_000)
    now = 60.0
    assert (cache.stats().held_bytes, cache.stats().entries) == (0, {})

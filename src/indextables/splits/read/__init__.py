"""Opening splits of this and other engines, from disk, a store or the local cache."""

"""Opening splits: ours and those of another engine, from a disk, a store or the local cache."""

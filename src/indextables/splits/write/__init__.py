"""Making splits: from rows, from other splits, and what the log says of each."""

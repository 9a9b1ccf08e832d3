"""The transaction log on a store: replay, commits, history, cache and checkpoints."""

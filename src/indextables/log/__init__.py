"""The transaction log on a store: replay, commit, history, cache, checkpoints."""

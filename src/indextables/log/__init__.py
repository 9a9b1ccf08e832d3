"""The transaction log on a store: replay, commit (where version files are written), history, cache, checkpoints."""

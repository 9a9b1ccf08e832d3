"""What a split is on disk: Parquet, a section table, an index, a footer that proves itself."""

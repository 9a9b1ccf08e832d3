"""Splits: files that are both a Parquet file and a Tantivy index."""

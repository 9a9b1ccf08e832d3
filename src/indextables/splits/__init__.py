"""Splits: one file that is a Parquet file and a Tantivy index at once."""

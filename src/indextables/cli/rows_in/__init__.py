"""Rows from files: CSV, JSON lines, Parquet and Arrow, as they are or refused with file, line and column."""

"""ACID tables of full-text search indexes, for Spark, in Python."""

__version__ = "0.1.0"

"""PySpark: sessions, the data source, native scans, streams and SQL."""

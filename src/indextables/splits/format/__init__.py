"""The file format of a split: Parquet rows, section table, index, and a footer with a checksum."""

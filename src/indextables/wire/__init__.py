"""Encoding and decoding of the log's files: JSON version files, checkpoints and Avro states. No
I/O.
"""

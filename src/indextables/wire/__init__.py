"""Bytes to values and back, pure: JSON version files, checkpoints, Avro state. Nothing here reads or writes a store."""

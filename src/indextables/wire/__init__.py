"""Bytes to values and back, pure: JSON version files, checkpoints, Avro state."""

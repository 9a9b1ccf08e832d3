"""Frozen values of the table protocol; no I/O, no clock, no randomness."""

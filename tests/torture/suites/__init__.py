"""A module per suite, each with an object `SUITE`: see `tests.torture`."""

"""Values of the table protocol: frozen, without I/O, clock or randomness."""

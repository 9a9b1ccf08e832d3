"""Object stores behind one small protocol."""

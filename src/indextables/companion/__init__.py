"""Companions: indexes of tables that other programs write, without a copy of their rows."""

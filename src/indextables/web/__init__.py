"""The browser page of a table."""

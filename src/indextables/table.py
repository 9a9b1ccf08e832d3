"""Table: every verb a person calls."""

"""What builds the documentation; no part of the package."""

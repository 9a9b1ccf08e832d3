"""Create splits from rows and from other splits, with their statistics."""

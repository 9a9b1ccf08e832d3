"""Find rows in a split: which match, how well, and what to show of them."""

"""The index of a split: column mappings, analyzers, and Tantivy segments."""

"""The index of a split: how columns are mapped and analysed, and the Tantivy segments made of them."""

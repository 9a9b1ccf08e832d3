"""Shipped test tools: the store contract, fault injection, interleavings, a model of a table."""

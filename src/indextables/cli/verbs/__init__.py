"""The verbs of the command line, one module per group that loads together."""

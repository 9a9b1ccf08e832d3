"""The command line: the verbs of `Table`, printed for people or as JSON."""

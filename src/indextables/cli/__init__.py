"""The command line: the verbs of `Table`, printed as text or as JSON.

`app.py` lists the verbs. Each group of verbs is a module that loads when one of its verbs is
called.
"""

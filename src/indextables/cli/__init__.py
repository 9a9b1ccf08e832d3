"""The command line: the verbs of `Table`, printed for people or as JSON.

`app.py` names the verbs; each group of them is a module that is loaded when one of its verbs is called.
"""

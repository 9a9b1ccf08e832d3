"""The data source `format("indextables")`: reader, writer and streams behind Spark's Python API.

This code runs in Python processes that Spark starts: planners, which see only options and
environment, and tasks, which also see the session's settings. Values are pickled between them.
"""

"""The data source `format("indextables")`: reader, writer and streams behind Spark's Python API.

Everything here runs in Python processes that Spark starts: the planner's, which see options and environment alone, and the
tasks', which see the session's settings too. Values go between them by pickle.
"""

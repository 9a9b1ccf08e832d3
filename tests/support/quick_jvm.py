"""How the tests start Java."""

from __future__ import annotations

QUICK_JVM = {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:NewRatio=1"}
"""Environment for a JVM that lives for minutes: its code is not worth optimising, and this halves
what it costs.

Most of what it allocates is gone after a statement: with more room for what is young, less is
copied.
"""

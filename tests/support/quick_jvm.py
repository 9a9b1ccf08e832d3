"""How the tests start Java."""

from __future__ import annotations

QUICK_JVM = {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
"""Environment for a JVM that lives for minutes: its code is not worth optimising, and this halves what it costs."""

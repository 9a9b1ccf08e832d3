"""Loaded by every Python process of the Spark session of the tests, because its folder is on their
path: tests can interrupt what these processes write.
"""

from tests.support import interruption

interruption.install()

"""Found by Spark through its name: makes `format("indextables")` work in every session without
registration.
"""

from indextables.spark.source.datasource import DefaultSource

__all__ = ["DefaultSource"]

"""Found by Spark through its name: makes the format name of a class of IndexTables for the JVM work
in every session.

Jobs that were written for it name the format so.
"""

from pyspark_indextables import DefaultSource as TableSource


class TableProviderSource(TableSource):
    """The format `indextables` under another name."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "io.indextables.spark.core.IndexTables4SparkTableProvider"


DefaultSource = TableProviderSource
"""The name under which Spark looks for the class."""

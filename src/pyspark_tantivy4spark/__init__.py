"""Found by Spark through its name: makes `format("tantivy4spark")` work in every session.

Jobs that were written for IndexTables for the JVM name the format so.
"""

from pyspark_indextables import DefaultSource as TableSource


class Tantivy4SparkSource(TableSource):
    """The format `indextables` under another name."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "tantivy4spark"


DefaultSource = Tantivy4SparkSource
"""The name under which Spark looks for the class."""

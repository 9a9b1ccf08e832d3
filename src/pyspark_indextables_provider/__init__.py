"""Found by Spark through its name: makes `format("io.indextables.provider.IndexTablesProvider")`
work in every session.

Jobs that were written for IndexTables for the JVM name the format so.
"""

from pyspark_indextables import DefaultSource as TableSource


class ProviderSource(TableSource):
    """The format `indextables` under another name."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "io.indextables.provider.IndexTablesProvider"


DefaultSource = ProviderSource
"""The name under which Spark looks for the class."""

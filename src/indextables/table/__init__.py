"""`Table`, the public class of an open table."""

from indextables.operations.verify import verify_table
from indextables.table.table import Table

open_table = Table.open

__all__ = ["Table", "open_table", "verify_table"]

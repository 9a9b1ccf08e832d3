"""Table: every verb a person calls. The verbs delegate; the rooms below do the work."""

from indextables.table.handle import verify_table
from indextables.table.table import Table

__all__ = ["Table", "verify_table"]

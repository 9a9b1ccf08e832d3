"""The verbs of the splits themselves: what their bytes are spent on, and fetching them ahead of a search."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from indextables.model.schema import find_column
from indextables.scan import inspection
from indextables.scan.inspection import Prewarmed
from indextables.scan.plan import plan_scan
from indextables.scan.task import ScanTask
from indextables.table.handle import TableHandle
from indextables.table.predicates import Where, bound_predicate


class SplitVerbs(TableHandle):
    """Looking at splits."""

    def component_sizes(self, *, where: Where | None = None) -> pa.Table:
        """How many bytes each component of each split takes: split_path, partition_values, component, field, size_bytes.

        With `where` only splits that may hold a matching row.
        """
        return inspection.sizes_of_components(self._splits(where))

    def prewarm(self, *, columns: Sequence[str] = (), where: Where | None = None) -> Prewarmed:
        """Fetch the indexes of some columns (of all, if none is named) into the local cache, ahead of a search."""
        return inspection.prewarm(self._splits(where), [find_column(self.schema, name) for name in columns])

    def _splits(self, where: Where | None) -> ScanTask:
        plan = plan_scan(self._snapshot, self._spec, self.settings, where=bound_predicate(where, self.schema))
        return ScanTask(plan, self._log.store)

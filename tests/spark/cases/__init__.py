"""Statements that users of Delta write, each on a table of its own, and what must be true
afterwards.
"""

from tests.spark.cases.assignments import ASSIGNMENTS
from tests.spark.cases.case import Case, Place
from tests.spark.cases.definitions import DEFINITIONS
from tests.spark.cases.deletes import DELETES
from tests.spark.cases.evolution import EVOLUTION
from tests.spark.cases.inserts import INSERTS
from tests.spark.cases.merges import MERGES
from tests.spark.cases.updates import UPDATES
from tests.spark.cases.versions import VERSIONS

CASES = [*DELETES, *UPDATES, *MERGES, *ASSIGNMENTS, *INSERTS, *EVOLUTION, *DEFINITIONS, *VERSIONS]

__all__ = ["CASES", "Case", "Place"]

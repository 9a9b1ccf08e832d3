"""What a query implies about whole values, so that splits can be left out."""

from __future__ import annotations

import pyarrow as pa
import pytest

from indextables.config.indexing import IndexingSettings
from indextables.splits.index.mapping import DocMapping
from indextables.splits.query.fields import QueryFields
from indextables.splits.query.parser import parse
from indextables.splits.query.to_predicate import implied_predicate

SCHEMA = pa.schema(
    [("message", pa.string()), ("level", pa.string()), ("low", pa.string()), ("n", pa.int64())]
)
MAPPING = DocMapping.from_settings(
    SCHEMA, IndexingSettings(typemap={"message": "text"}, tokenizer={"low": "lowercase_raw"})
)


@pytest.mark.parametrize(
    ("query", "implied"),
    [
        ("message:x AND n:5", "n = 5"),
        ("+level:A +n:[1 TO 3}", "level = 'A' AND (n >= 1 AND n < 3)"),
        ("level:A OR n:>=5", "level = 'A' OR n >= 5"),
        ("level:A OR message:x", None),
        ("level:IN [A B]^2", "level IN ('A', 'B')"),
        ("level:er*", "startswith(level, 'er')"),
        ("level:*er", None),
        ("low:x", None),
        ("-n:5", None),
        ("n:5 -level:A", "n = 5"),
        ("+n:5 level:A", "n = 5"),
        ("n:* AND level:[a TO b]", "n IS NOT NULL AND (level >= 'a' AND level <= 'b')"),
        ("*", None),
    ],
)
def test_a_query_implies(query: str, implied: str | None) -> None:
    found = implied_predicate(parse(query, QueryFields(SCHEMA, MAPPING)), MAPPING)
    assert (None if found is None else str(found)) == implied

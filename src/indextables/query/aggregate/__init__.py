"""Aggregations over the rows of a search, exact across any number of splits.

    {"by_level": {"terms": {"field": "level", "size": 10}, "aggs": {"ms": {"stats": {"field":
    "latency"}}}}}

| buckets | |
|---|---|
| `terms` | `field`, `size` (10), `order` (`{"_count": "desc"}`, `{"_key": "asc"}`), `min_doc_count`, `missing` |
| `histogram` | `field`, `interval`, `offset`, `min_doc_count` (1; 0 fills the gaps) |
| `date_histogram` | `field`, `fixed_interval` (`30s`, `1h`, `7d`) or `calendar_interval` (`month`), `min_doc_count` |
| `range` | `field`, `ranges`: `[{"from": 10, "to": 20, "key": "some"}]`; `from` is included, `to` is not |

| metrics | |
|---|---|
| `stats` `min` `max` `sum` `avg` `value_count` | `field` |
| `percentiles` | `field`, `percents`; exact, with linear interpolation between neighbours |
| `cardinality` | `field`; the exact number of different values |

Nulls take part in nothing, NaN in nothing that computes. Inside a bucket, `aggs` (or
`aggregations`) holds more of both.

The result is one table, as GROUP BY would give it: a column per bucket aggregation with its key,
`count`, and a column per metric (`ms.avg`). A bucket's own row has null in the columns of the
buckets inside it, whose rows follow. Metrics outside of buckets form one row. Where there are
several at the top, the column `aggregation` says which a row is of.
"""

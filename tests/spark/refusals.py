"""Which tests of this folder an older Spark cannot run, by what it lacks: the one list of what is
refused by design.

`test_versions.py` shows the error that a user gets instead.
"""

from __future__ import annotations

from indextables.spark.compat import CAPABILITIES

REFUSED: dict[str, tuple[tuple[int, int], tuple[str, ...]]] = {
    "filter pushdown into Python data sources without the extension": (
        (4, 1),
        ("test_pushdown.py::test_plain_spark_still_gets_them_wrong",),
    ),
    "CREATE TABLE LIKE": (
        CAPABILITIES["CREATE TABLE LIKE"],
        ("test_delta_cases.py::test_a_statement_does_what_is_expected[a table like another",),
    ),
    "rate limits of streams": (
        CAPABILITIES["rate limits of streams"],
        (
            "test_streams.py::test_small_batches",
            "test_streams.py::test_a_batch_that_landed_is_not_written_again",
            "test_streams.py::test_a_query_that_is_stopped_at_random_writes_every_row_once",
            "test_streams.py::test_what_cannot_be_read_is_refused_where_it_is_asked_for[{'max_files",
            "test_streams.py::test_what_cannot_be_read_is_refused_where_it_is_asked_for[{'options': {'maxBytes",
        ),
    ),
    "the length of a VARCHAR in DESCRIBE": (
        (4, 1),
        ("test_declared_types.py::test_describe_shows_the_length_of_a_varchar",),
    ),
    "the type TIME": ((4, 1), ("test_types.py::test_time_of_day",)),
    "the type GEOMETRY": (
        (4, 1),
        (
            "test_declared_types.py::test_a_type_that_cannot_be_written_is_refused_where_it_is_declared[GEOMETRY",
        ),
    ),
}
"""What a Spark before a version lacks, and the tests that need it."""


def refusal(test: str, spark: tuple[int, int]) -> str | None:
    """Why a test is refused by a version of Spark, or None."""
    for capability, (since, tests) in REFUSED.items():
        if spark < since and any(name in test for name in tests):
            return f"refused by design: {capability} needs Spark {since[0]}.{since[1]}"
    return None

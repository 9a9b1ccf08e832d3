"""Settings as a session gives them: every `spark.indextables.*` key, under what the caller passes as options."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import SparkSession

from indextables.config import PREFIX


def session_settings(spark: SparkSession) -> dict[str, str]:
    """The `spark.indextables.*` settings of a session."""
    return {key: value for key, value in spark.conf.getAll.items() if key.lower().startswith(PREFIX)}


def with_session(spark: SparkSession, options: Mapping[str, object] | None) -> dict[str, object]:
    """Options over the session's settings, each key once: an option wins over the same key of the session."""
    chosen = {bare(key): value for key, value in session_settings(spark).items()}
    return {**chosen, **{bare(key): value for key, value in (options or {}).items()}}


def bare(key: str) -> str:
    """A key without the prefix that it may have."""
    return key[len(PREFIX) :] if key.lower().startswith(PREFIX) else key

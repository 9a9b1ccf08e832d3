"""Settings as a session gives them: every `spark.indextables.*` key, under what the caller passes as options."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from weakref import WeakKeyDictionary

from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession

from indextables.config import PREFIX
from indextables.model.arguments import unexpected

_writers: WeakKeyDictionary[SparkContext, Any] = WeakKeyDictionary()


def session_settings(spark: SparkSession) -> dict[str, str]:
    """The `spark.indextables.*` settings of a session."""
    everything = _all_in_one_call(spark) if has_jvm(spark) else spark.conf.getAll
    return {key: value for key, value in everything.items() if key.lower().startswith(PREFIX)}


def _all_in_one_call(spark: SparkSession) -> dict[str, str]:
    """All settings as one text: `spark.conf.getAll` asks the driver several times for each of them."""
    context = spark.sparkContext
    if context not in _writers:
        gateway: Any = context._gateway
        _writers[context] = gateway.jvm.com.fasterxml.jackson.databind.ObjectMapper()
    settings: dict[str, str] = json.loads(
        _writers[context].writeValueAsString(spark._jsparkSession.conf().getAllAsJava())
    )
    return settings


def with_session(spark: SparkSession, options: Mapping[str, object] | None) -> dict[str, object]:
    """Options over the session's settings, each key once: an option wins over the same key of the session."""
    settings = {bare(key): value for key, value in session_settings(spark).items()}
    return {**settings, **{bare(key): value for key, value in (options or {}).items()}}


def bare(key: str) -> str:
    """A key without the prefix that it may have."""
    return key[len(PREFIX) :] if key.lower().startswith(PREFIX) else key


def source_options(
    spark: SparkSession, options: Mapping[str, object] | None, own: Mapping[str, object | None]
) -> dict[str, str]:
    """Options for the data source: what the caller gave, what is asked for, and where need be the session's settings.

    With access to the driver the extension hands over the session's settings itself, so that no plan shows them.
    """
    settings = dict(options or {}) if has_jvm(spark) else with_session(spark, options)
    requests = {key: value for key, value in own.items() if value is not None}
    return {key: _text(value) for key, value in {**settings, **requests}.items()}


def session_of(df: DataFrame) -> SparkSession:
    """The session of a DataFrame; anything else cannot be written."""
    if not isinstance(df, DataFrame):
        raise unexpected("df", "a Spark DataFrame", df, hint="Make one with spark.createDataFrame(...).")
    return df.sparkSession


def has_jvm(spark: SparkSession) -> bool:
    """Whether this process talks to the driver itself, not through Spark Connect."""
    return hasattr(spark, "_jsparkSession")


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return json.dumps(list(value)) if isinstance(value, (list, tuple)) else str(value)
